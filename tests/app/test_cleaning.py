"""What a model should not have written; more of it through test_citations.py."""

import random
import re

from markdown_it import MarkdownIt

from app.citations import Piece, check
from app.cleaning import apply, code_spans, marker_removals, neutralised_markers
from retrieval.records import StoredSection

SOURCE = StoredSection(
    section_id=1,
    document_id=1,
    path="a.md",
    title="A",
    heading_path=(),
    text="It is so. See https://tool.example/a.",
    url="https://docs.example.com/a",
    owner=None,
    updated_at=None,
    verified_at=None,
)


def test_apply_moves_places_along() -> None:
    text, places = apply("0123456789", [(2, 4, ""), (6, 7, "abc")], [1, 3, 5, 7, 10])
    # 3 was in what is gone, 7 at the end of what grew by 2.
    assert (text, places) == ("0145abc789", [1, 2, 3, 7, 10])


def test_code_is_found_as_markdown_has_it() -> None:
    text = "`a` \\`b ``c`d`` `e\n\n| `f | g` |\n|---|---|\n| `h` | `i |\n\n    j\n\n~~~\nk\n"
    assert [text[a:b] for a, b in code_spans(text)] == [
        "`a`",
        "``c`d``",
        "`h`",
        "    j",
        "~~~\nk",
    ]


def test_markers_go_or_are_made_harmless() -> None:
    text = "a [1], `b[2]` [^3]"
    assert apply(text, marker_removals(text), [])[0] == "a, `b[2]`"
    assert apply(text, neutralised_markers(text), [])[0] == "a (1), `b[2]` (^3)"


def test_no_mixture_gets_through() -> None:
    bits = [*"[]()<>|`!*\n ", "[1]", "](", "https://evil.example/?q=1", "<https://evil.example|"]
    bits += ["https://docs.example.com/a", "https://tool.example/a", "``", "```\n", "a", "| ", "1"]
    markdown = MarkdownIt("commonmark").enable("table")
    seeded = random.Random(1)
    for _ in range(1_000):
        written = "".join(seeded.choices(bits, k=seeded.randint(1, 25)))
        text = check(
            [Piece(text="So", cited=((0, "It is so."),)), Piece(text=written)], [SOURCE]
        ).text
        code = list(code_spans(text))
        for match in re.finditer(r"\[\^?\d+\]|https?://[^\s`<>()]+", text):
            if not any(start <= match.start() < end for start, end in code):
                assert match[0] == "[1]" or match[0].startswith(SOURCE.url), written
        for token in markdown.parse(text):
            for child in token.children or []:
                if child.type in ("link_open", "image"):
                    address = str(child.attrs.get("href") or child.attrs.get("src"))
                    scheme = re.match(r"(?:\w+:)?//", address)
                    assert not scheme or address.startswith(SOURCE.url), written
