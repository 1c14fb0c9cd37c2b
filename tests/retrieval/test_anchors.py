"""Anchors as GitHub and MkDocs make them, and the links of sections to their headings."""

import pytest

from retrieval import anchors
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.records import Anchors, Document
from retrieval.sources import reading
from retrieval.sources.reads import Facts, Read
from tests.retrieval import pages


def find(text: str, style: Anchors) -> list[str | None]:
    return [anchor for _, anchor in anchors.find(text, style)]


@pytest.mark.parametrize(
    ("heading", "github", "mkdocs"),
    [
        ("Getting started", "getting-started", "getting-started"),
        ("What's new in 2.1?", "whats-new-in-21", "whats-new-in-21"),
        ("The `err_2041` *code*", "the-err_2041-code", "the-err_2041-code"),
        ("A & B -- C", "a--b----c", "a-b-c"),
        ("[Leave](leave.md) policy", "leave-policy", "leave-policy"),
        ("Größe über 5 €", "größe-über-5-", "große-uber-5"),
        ("日本語 ok", "日本語-ok", "ok"),
        ("Pay <b>day</b> ![x](y.png)", "pay-day", "pay-day"),
        ("CI/CD: build", "cicd-build", "cicd-build"),
        ("Steps {#how-to}", "how-to", "how-to"),
        ("Steps {: #how-to .big }", "how-to", "how-to"),
    ],
)
def test_a_headings_anchor(heading: str, github: str, mkdocs: str) -> None:
    mkdocs = mkdocs.replace("große", "groe")  # ß has no form in ASCII
    assert find(f"## {heading}\n", "github") == [github]
    assert find(f"## {heading}\n", "mkdocs") == [mkdocs]
    explicit = "how-to" if "how-to" in heading else None
    assert find(f"## {heading}\n", "explicit") == [explicit]


def test_headings_of_one_name_are_counted_over_the_page() -> None:
    text = "# Oil\n\n## Oil\n\n> ## Oil\n\n## Oil 1\n\n```\n# Oil\n```\n\nOil\n---\n"
    assert find(text, "github") == ["oil", "oil-1", "oil-2", "oil-1-1", "oil-3"]
    assert find(text, "mkdocs") == ["oil", "oil_1", "oil_2", "oil-1", "oil_3"]


def test_a_name_that_somebody_gave_is_taken() -> None:
    assert find("# Oil\n\n# Gas {#oil}\n", "mkdocs") == ["oil_1", "oil"]


def test_a_heading_without_letters_has_an_anchor_in_mkdocs() -> None:
    assert find("# 日\n\n# 本\n", "mkdocs") == ["_1", "_2"]


def document(text: str, style: Anchors | None, path: str = "oil.md") -> Document:
    facts = Facts(path=path, url=f"https://wiki.example/{path}", anchors=style)
    found = reading.read(text.encode(), facts)
    assert isinstance(found, Read)
    return found.document


def find_urls(database: Database, embedder: Embedder, question: str, *texts: Document) -> set[str]:
    reads = [Read(document=each, notes=()) for each in texts]
    pages.ingest(database, embedder, *reads)
    found = pages.build_retriever(database, embedder).retrieve(pages.ask(question))
    return {candidate.section.url for candidate in found.candidates}


def test_links_point_at_the_heading(database: Database, embedder: Embedder) -> None:
    urls = find_urls(
        database,
        embedder,
        "which oil for the pump?",
        document("# Oil\n\nThe pump takes oil of ISO 46.\n", "github", "a.md"),
        document("Intro.\n\n# Oil\n\nThe pump takes oil of ISO 46.\n", "github", "b.md"),
        document("# Oil\n\nThe pump takes the oil of ISO 46.\n", None, "c.md"),
        document("<h1 id='größe'>Oil</h1><p>A pump takes oil of ISO 46.</p>", None, "d.html"),
        document("<h1>Oil</h1><p>Any pump takes oil of ISO 46.</p>", None, "e.html"),
    )
    assert urls == {
        "https://wiki.example/a.md#oil",
        "https://wiki.example/b.md",
        "https://wiki.example/c.md",
        "https://wiki.example/d.html#gr%C3%B6%C3%9Fe",
        "https://wiki.example/e.html",
    }


def test_p79_each_place_of_a_section_has_the_address_of_its_own_heading(
    database: Database, embedder: Embedder
) -> None:
    text = "Intro.\n\n# Oil\n\nThe pump takes oil.\n\n## Größe\n\nFive litres.\n"
    pages.ingest(database, embedder, Read(document=document(text, "github"), notes=()))
    found = pages.build_retriever(database, embedder).retrieve(pages.ask("which oil?"))
    (section,) = {candidate.section for candidate in found.candidates}
    for words, anchor in (("Intro", ""), ("pump", "#oil"), ("litres", "#gr%C3%B6%C3%9Fe")):
        url = section.find_url(section.text.index(words))
        assert url == f"https://wiki.example/oil.md{anchor}"
    assert section.url == "https://wiki.example/oil.md"
