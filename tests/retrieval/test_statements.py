"""Sections to statements, over the sample documents and by hand."""

import re
import time
from pathlib import Path

import pytest

from retrieval.statements import Statement, parse, parse_blocks, statement_at

SAMPLES = sorted((Path(__file__).parents[1] / "sample" / "docs").rglob("*.md"))


def kinds(text: str) -> list[tuple[str, str]]:
    return [(statement.kind, statement.text) for statement in parse(text)]


def assert_whole(text: str, statements: tuple[Statement, ...]) -> None:
    end = 0
    for statement in statements:
        assert statement.text and statement.text == text[slice(*statement.span)]
        assert statement.span[0] >= end
        assert not text[end : statement.span[0]].strip()
        end = statement.span[1]
    assert not text[end:].strip()


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_samples_statements_are_its_whole_text(path: Path) -> None:
    text = path.read_text("utf-8")
    statements = parse(text)
    assert_whole(text, statements)
    for statement in statements:
        if statement.kind == "sentence":
            assert statement.text.count("`") % 2 == 0, statement.text
            assert statement.text.count("**") % 2 == 0, statement.text
        if statement.kind == "row":
            assert statement.head.splitlines()[1].replace(" ", "").startswith("|---")


def test_the_samples_were_found() -> None:
    assert len(SAMPLES) >= 25


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One is so. Two is not.\nThree runs\non.", 3),
        ("Run `make a. Then b` first. Then rest.", 2),
        ("See [the page. All of it](https://a.example/b) first. Then rest.", 2),
        ("Ask at https://a.example/b.C?d=e. Then wait.", 2),
        ("**Never do it. Really not.** It hurts.", 2),
        ("_Never do it. Really not._ It hurts.", 2),
        ("Write <mail.Me@a.example> first. Then rest.", 2),
        ("Use e.g. Kafka v2.3.1 here. Then rest.", 2),
        ("你好。今天天气很好。", 2),
        ("Say *one. Say two.", 2),  # nothing is emphasised: the mark has no other
        ("No end", 1),
    ],
)
def test_sentences_are_cut_only_between_each_other(text: str, sentences: int) -> None:
    statements = parse(text)
    assert_whole(text, statements)
    assert [statement.kind for statement in statements] == ["sentence"] * sentences


def test_a_comment_in_a_fence_is_no_heading() -> None:
    text = "## Setup\n\n```bash\n# install deps\nmake. All\n```\n\nThen run.\n"
    assert kinds(text) == [
        ("heading", "## Setup"),
        ("code", "```bash\n# install deps\nmake. All\n```"),
        ("sentence", "Then run."),
    ]
    assert {statement.heading_path for statement in parse(text)} == {("Setup",)}


def test_items_and_what_is_in_them_are_statements_by_depth() -> None:
    text = """\
1. Stop it. At once.

   Wait a bit. Then look.
   - nested `a | b`
     - deeper
2. Run
   ```
   # again
   ```
-
"""
    statements = parse(text)
    assert_whole(text, statements)
    assert [(each.kind, each.depth, each.text) for each in statements] == [
        ("item", 1, "1. Stop it. At once."),
        ("sentence", 1, "Wait a bit."),
        ("sentence", 1, "Then look."),
        ("item", 2, "- nested `a | b`"),
        ("item", 3, "- deeper"),
        ("item", 1, "2. Run"),
        ("code", 1, "   ```\n   # again\n   ```"),
        ("markup", 0, "-"),
    ]


def test_rows_carry_their_head_even_with_a_pipe_in_code() -> None:
    text = "| Name | Does |\n| --- | --- |\n| `a\\|b` | x |\n| c | `d` |\n\nAfter. That.\n"
    head = "| Name | Does |\n| --- | --- |"
    assert [(each.kind, each.text, each.head) for each in parse(text)] == [
        ("head", head, ""),
        ("row", "| `a\\|b` | x |", head),
        ("row", "| c | `d` |", head),
        ("sentence", "After.", ""),
        ("sentence", "That.", ""),
    ]


def test_what_has_no_words_of_its_own_is_kept_as_markup() -> None:
    text = (
        "<details>\n<summary>Why?</summary>\n\nSo.\n\n</details>\n\n***\n\n[a]: https://a.example\n"
    )
    assert kinds(text) == [
        ("markup", "<details>\n<summary>Why?</summary>"),
        ("sentence", "So."),
        ("markup", "</details>"),
        ("markup", "***"),
        ("markup", "[a]: https://a.example"),
    ]


def test_what_makes_no_block_is_in_a_group_of_its_own() -> None:
    text = "One.\n\n[a]: https://a.example\nTwo.\n\n[b]: https://a.example\n\n- three\n- four\n"
    groups = [(each.text, each.group) for each in parse(text)]
    assert groups == [
        ("One.", 0),
        ("[a]: https://a.example", 1),
        ("Two.", 2),
        ("[b]: https://a.example", 3),
        ("- three", 4),
        ("- four", 4),
    ]


def test_paths_go_on_from_the_sections_own() -> None:
    text = "Cut off.\n\nTitle\n=====\n\nA.\n\n## Part {#part}\n\nB.\n\n# Next\n\nC.\n"
    paths = {each.text: each.heading_path for each in parse(text, under=("Page", "Title"))}
    assert paths["Cut off."] == ("Page", "Title")
    assert paths["Title\n====="] == ("Page", "Title")  # once, though both have it
    assert paths["B."] == ("Page", "Title", "Part")
    assert paths["C."] == ("Page", "Title", "Next")
    assert parse("# Title\n\nA.\n")[1].heading_path == ("Title",)


def test_a_word_of_3000_characters_and_an_empty_text() -> None:
    assert kinds("x" * 3_000 + ". And on.") == [
        ("sentence", "x" * 3_000 + "."),
        ("sentence", "And on."),
    ]
    assert parse(" \n\n") == ()


def test_statement_at_finds_what_holds_a_position() -> None:
    statements = parse("One is so. Two is not.\n\nThree.")
    found = [statement_at(statements, position) for position in (0, 9, 10, 11, 23, 24, 31)]
    texts = [statement.text if statement else None for statement in found]
    # 10 and 23 are between statements: the next one; 31 is the end.
    assert texts == [
        "One is so.",
        "One is so.",
        "Two is not.",
        "Two is not.",
        "Three.",
        "Three.",
        None,
    ]


@pytest.mark.parametrize("unit", ["[", "![. A ", "`a. `B ", "- a\n  - b\n", "> ", "|a", "*a. B* "])
def test_time_grows_with_the_text_alone(unit: str) -> None:
    text = unit * (20_000 // len(unit))
    start = time.process_time()
    assert re.sub(r"\s", "", "".join(text[slice(*block.span)] for block in parse_blocks(text)))
    parse(text)
    assert time.process_time() - start < 10  # measured: at most 1 s
