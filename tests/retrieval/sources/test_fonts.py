"""In which fonts code is written."""

import pytest

from retrieval.sources import fonts


@pytest.mark.parametrize(
    ("in_word", "in_pdf", "expected"),
    [
        ("Courier New", "ABCDEF+CourierNewPSMT", True),
        ("Consolas", "Consolas-Bold", True),
        ("Source Code Pro", "ABCDEF+SourceCodePro-Regular", True),
        ("Lucida Console", "LucidaConsole", True),
        ("DejaVu Sans Mono", "DejaVuSansMono", True),
        ("Monotype Corsiva", "ABCDEF+MonotypeCorsiva", False),
        ("Calibri", "ABCDEF+Calibri-Bold", False),
        ("", "", False),
    ],
)
def test_a_font_of_code_is_one_in_every_format(in_word: str, in_pdf: str, expected: bool) -> None:
    assert [fonts.is_monospaced(name) for name in (in_word, in_pdf)] == [expected, expected]
