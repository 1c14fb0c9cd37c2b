"""Addresses of repositories: what is shown of them."""

import pytest

from retrieval.sources import addresses


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://bot:s3cr3t@git.example/x.git", "https://git.example/x.git"),
        ("https://bot:s3/cr3t@git.example/x.git", "https://git.example/x.git"),
        ("https://bot:s3?cr3t@git.example/x.git", "https://…"),
        ("https://git.example/x.git?token=s3@cr3t", "https://…"),
        ("https://git.example/x.git?token=s3cr3t", "https://git.example/x.git"),
        ("https://bot:a://b@git.example/x.git", "https://git.example/x.git"),
        ("bot:s3cr3t@git.example:x.git", "git.example:x.git"),
        ("git@git.example:x.git", "git.example:x.git"),
        ("/srv/me@work/x.git", "/srv/me@work/x.git"),
    ],
)
def test_what_is_shown_of_an_address_holds_no_credentials(address: str, shown: str) -> None:
    assert addresses.hide_credentials(address) == shown
