"""Words as the lexical leg has them."""

import pytest

from retrieval.lexical import build_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, World!", "hello world"),
        ("if a<b the <timeout> is used", "if a b the timeout is used"),  # P62
        ("<maxConnections>50</maxConnections>", "maxconnections 50 maxconnections"),
        ("R&D, $1,500.00", "r d 1 500 00"),
        ("RETRY_MAX_COUNT and PAY-17", "retry max count and pay 17"),
        ("/etc/acme/config.yaml", "etc acme config yaml"),  # P55
        ("2026-03-31", "2026 03 31"),
        ("v2.3.1 and 2.3.1", "2 3 1 and 2 3 1"),  # P56
        ("v8 engine, vitamin", "v8 engine vitamin"),
        ("Résumé, Straße, ﬁle", "resume straße file"),  # P64
        ("foo & | !( bar", "foo bar"),  # P65
        ("経費精算", "経費精算"),
        ("?!… —", ""),
        ("", ""),
    ],
)
def test_words_are_lower_case_and_apart(text: str, words: str) -> None:
    assert build_words(text) == words
