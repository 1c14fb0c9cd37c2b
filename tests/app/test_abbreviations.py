"""What documents say that an abbreviation stands for."""

from time import perf_counter

import pytest

from app import abbreviations


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The Modernisation Platform (MP) hosts it.", ("MP", "Modernisation Platform")),
        ("**Elastic Kubernetes Service** (EKS)", ("EKS", "Elastic Kubernetes Service")),
        ("a [proof of concept](https://x.example/a) (PoC)", ("PoC", "proof of concept")),
        ("Use Identity and Access Management (IAM).", ("IAM", "Identity and Access Management")),
        ("Pull it from a web application firewall (WAF)", ("WAF", "web application firewall")),
    ],
)
def test_a_definition_is_found(text: str, found: tuple[str, str]) -> None:
    assert list(abbreviations.find(text)) == [found]


@pytest.mark.parametrize(
    "text",
    [
        "Restart it (see below).",
        "The service (ERR) is down.",
        "the Office of Acquisition (OA)",  # what fits is "of Acquisition"
        "Modernisation.\n\nPlatform (MP)",
        "Call us (MP), the Modernisation Platform",
        "a thing (Once)",
    ],
)
def test_other_brackets_are_none(text: str) -> None:
    assert list(abbreviations.find(text)) == []


def test_a_long_page_takes_no_second() -> None:
    start = perf_counter()
    list(abbreviations.find("Modernisation Platform (MP) (" * 20_000))
    assert perf_counter() - start < 1
