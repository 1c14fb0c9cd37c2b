"""Documents to sections and chunks; tokens here are words and punctuation marks."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from retrieval.chunking import split
from retrieval.records import Chunk, Document, Section
from retrieval.sources.reads import Read
from tests.conftest import SAMPLE
from tests.folders import read_folder

TOKEN = re.compile(r"\w+|[^\w\s]")
WORDS = re.compile(r"\w+")


def token_starts(text: str) -> list[int]:
    return [match.start() for match in TOKEN.finditer(text)]


def count_tokens(text: str) -> int:
    """Without the rules under headings and table heads, which are not embedded."""
    return len(token_starts(re.sub("-{4,}", "---", text)))


def cut(text: str, *, section_tokens: int = 900, chunk_tokens: int = 180) -> list[Section]:
    document = Document(path="a.md", title="A", url="u", text=text)
    return split(document, token_starts, section_tokens=section_tokens, chunk_tokens=chunk_tokens)


def chunks(sections: list[Section]) -> list[Chunk]:
    return [chunk for section in sections for chunk in section.chunks]


def words(count: int, word: str = "word") -> str:
    return " ".join(f"{word}{number}" for number in range(count))


def sample_documents() -> list[Document]:
    docs = SAMPLE / "docs"
    reads = read_folder(docs)
    return [read.document for read in reads if isinstance(read, Read)]


def test_short_headings_are_joined_into_one_section() -> None:
    (section,) = cut("# A\n\nOne.\n\n## B\n\nTwo.\n\n## C\n\nThree.\n")
    assert section.heading_path == ("A",)
    assert section.text == "# A\n\nOne.\n\n## B\n\nTwo.\n\n## C\n\nThree.\n"
    assert [chunk.heading_path for chunk in section.chunks] == [("A",), ("A", "B"), ("A", "C")]


def test_a_section_holds_whole_headings_up_to_its_size() -> None:
    text = "".join(f"## H{n}\n\n{words(40)}\n\n" for n in range(5))
    sections = cut(text, section_tokens=100)  # 43 tokens a heading: two fit, three do not
    assert [section.heading_path for section in sections] == [(), (), ("H4",)]
    assert [section.text.count("## ") for section in sections] == [2, 2, 1]
    assert all(section.token_count <= 100 for section in sections)


def test_the_span_says_where_a_section_stands() -> None:
    text = f"# A\n\n{words(50)}\n\n## B\n\n{words(50)}\n"
    for section in cut(text, section_tokens=60):
        assert text[slice(*section.span)].strip() == section.text.strip()


def test_a_text_without_words_gives_no_section() -> None:
    assert cut("") == cut("---\n\n***\n") == cut("\n \n") == []


def test_p77_a_comment_in_a_fence_is_no_heading() -> None:
    fence = "```bash\n# install deps\npip install x\n\n# run\n./run\n```\n"
    (section,) = cut(f"# Guide\n\n## Setup\n\nFirst this:\n\n{fence}\nThen wait.\n")
    (chunk,) = [chunk for chunk in section.chunks if "pip install" in chunk.text]
    assert fence in chunk.text
    assert chunk.heading_path == ("Guide", "Setup")


@pytest.mark.parametrize("section_tokens", [900, 300])
def test_p80_every_part_of_a_long_table_has_its_head(section_tokens: int) -> None:
    head = "| Country | Allowance |\n| --- | --- |\n"
    rows = "".join(f"| Country{n} | {n} euro <br> per day |\n" for n in range(400))
    sections = cut(
        f"# Rates\n\n{head}{rows}\nMeals are taken off.\n", section_tokens=section_tokens
    )
    assert len(sections) >= 400 * 11 / section_tokens  # tokens of a row
    for part in (*sections, *chunks(sections)):
        if "| Country" in part.text:
            assert head in part.text
    assert all(section.token_count <= section_tokens for section in sections)
    assert all(count_tokens(section.text) <= section_tokens for section in sections)
    assert all(count_tokens(chunk.text) <= 180 for chunk in chunks(sections))
    for parts in (sections, chunks(sections)):
        found = [line for part in parts for line in part.text.splitlines() if "per day" in line]
        assert found == rows.splitlines()  # each row once, in order, whole


def test_p80_a_paragraph_behind_a_table_is_not_of_the_table() -> None:
    rows = "".join(f"| a{n} | b{n} |\n" for n in range(30))
    (section,) = cut(f"| A | B |\n| - | - |\n{rows}\nMeals are taken off.\n", chunk_tokens=60)
    *_, last = section.chunks
    assert "\n\nMeals are taken off." in last.text or last.text == "Meals are taken off."


def test_a_table_with_a_wide_rule_keeps_its_rows_together() -> None:
    table = f"| A | B |\n|{'-' * 300}|{'-' * 300}|\n" + "| one | two |\n" * 8
    (section,) = cut(f"# T\n\n{table}")
    assert len(section.chunks) == 1


@pytest.mark.parametrize(
    "block",
    [
        "".join(f"{n}. {words(12)}\n" for n in range(1, 9)),
        "".join(f"- {words(6)}\n  - {words(6)}\n" for n in range(1, 9)),
        "```sql\n" + "".join(f"SELECT c{n} FROM t{n};\n" for n in range(20)) + "```\n",
        "| A | B |\n| - | - |\n" + "".join(f"| a{n} | b{n} |\n" for n in range(18)),
        "<details>\n" + "".join(f"<p>{words(8)}</p>\n" for n in range(6)) + "</details>\n",
    ],
    ids=["steps", "nested list", "fence", "table", "html"],
)
def test_what_fits_is_not_cut(block: str) -> None:
    assert count_tokens(block) <= 150
    text = f"# A\n\n{words(120)}\n\n{block}\n{words(120)}\n"
    for parts in (cut(text, section_tokens=200), chunks(cut(text, chunk_tokens=180))):
        assert sum(block.strip("\n") in part.text for part in parts) == 1


def test_a_fence_that_is_cut_keeps_its_marks_and_its_lines() -> None:
    lines = [f"  kubectl delete pod pod-{n} --wait" for n in range(60)]
    text = "# A\n\n```bash\n" + "\n".join(lines) + "\n```\n\nDone.\n"
    parts = [chunk.text for chunk in chunks(cut(text, chunk_tokens=80)) if "kubectl" in chunk.text]
    assert len(parts) > 1
    for part in parts:
        code = part[part.index("```bash\n") :]
        assert re.search(r"\n```\s*(\n|$)", code)
    assert [line for part in parts for line in part.splitlines() if "kubectl" in line] == lines


def test_a_fence_that_nobody_closed_is_closed_where_it_is_cut() -> None:
    text = "~~~~text\n" + "".join(f"line {n} of it\n" for n in range(60))
    parts = chunks(cut(text, chunk_tokens=50))
    assert len(parts) > 1
    for part in parts[:-1]:
        assert part.text.startswith("~~~~text\n")
        assert part.text.rstrip().endswith("\n~~~~")


def test_a_fence_inside_a_fence_does_not_end_it() -> None:
    lines = "".join(f"text {n}\n```\ncode {n}\n```\n" for n in range(30))
    parts = chunks(cut(f"````markdown\n{lines}````\n", chunk_tokens=60))
    assert len(parts) > 1
    for part in parts:
        assert part.text.startswith("````markdown\n") and part.text.endswith("\n````")


def test_a_long_list_is_cut_between_its_items() -> None:
    items = [f"{n}. Do step {n}:\n   - {words(10)}\n   - check {n}\n" for n in range(1, 30)]
    parts = chunks(cut("# A\n\n" + "".join(items), chunk_tokens=100))
    assert len(parts) > 1
    for item in items:
        assert sum(item.strip() in part.text for part in parts) == 1


def test_headings_are_what_markdown_says_they_are() -> None:
    text = "Title\n=====\n\nOne.\n\nPart\n----\n\nTwo.\n\n> # Quoted\n\nThree.\n\n<h1>No</h1>\n"
    (section,) = cut(text)
    assert section.heading_path == ("Title",)
    assert [chunk.heading_path for chunk in section.chunks] == [("Title",), ("Title", "Part")]


def test_a_higher_heading_ends_the_lower_ones() -> None:
    text = "# A\n\nx\n\n### Deep\n\nx\n\n## B\n\nx\n\n# C\n\nx\n"
    assert [chunk.heading_path for chunk in chunks(cut(text))] == [
        *(("A",), ("A", "Deep"), ("A", "B"), ("C",)),
    ]


def test_a_heading_path_has_no_markup() -> None:
    (chunk,) = chunks(cut("## The `E-1042` *error* [here](https://x.example) {#anchor}\n\nx\n"))
    assert chunk.heading_path == ("The E-1042 error here",)


def test_a_lead_in_stays_with_its_list() -> None:
    steps = "".join(f"{n}. {words(10)}\n" for n in range(1, 9))
    text = f"# A\n\n{words(100)}\n\nDo this:\n\n{steps}"
    for parts in (cut(text, section_tokens=130), chunks(cut(text, chunk_tokens=130))):
        assert len(parts) == 2
        assert parts[1].text.startswith("Do this:\n\n1. ")


@pytest.mark.parametrize("limit", [60, 80, 100, 140])
def test_no_heading_is_left_alone_at_the_end(limit: int) -> None:
    text = "".join(f"## H{n}\n\n### Part {n}\n\n{words(25 + 7 * n)}\n\n" for n in range(12))
    text += f"## Long\n\n{words(50)}\n\n### Table\n\n| A |\n| - |\n" + "| row of it |\n" * 60
    for parts in (cut(text, section_tokens=limit), chunks(cut(text, chunk_tokens=limit))):
        for part in parts:
            assert not part.text.strip().splitlines()[-1].startswith("#")


def test_a_heading_with_nothing_below_it_is_kept() -> None:
    (section,) = cut("# A\n\nText.\n\n## Is dental covered\n")
    assert "Is dental covered" in section.text
    assert "Is dental covered" in " ".join(chunk.text for chunk in section.chunks)


def test_link_definitions_and_comments_are_kept() -> None:
    (section,) = cut("See [the plan][1].\n\n[1]: https://wiki.example/plan\n\n<!-- owner: x -->\n")
    assert "[1]: https://wiki.example/plan" in section.text
    assert "<!-- owner: x -->" in section.text


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    sentences = [f"Sentence {n} says that {words(12)}." for n in range(40)]
    parts = chunks(cut("# A\n\n" + " ".join(sentences) + "\n"))
    assert len(parts) > 2
    for sentence in sentences:
        assert sum(sentence in part.text for part in parts) == 1


def test_p76_nothing_is_longer_than_the_limit_however_it_is_written() -> None:
    texts = [
        "x," * 3_000,  # no white space at all
        words(3_000),  # no sentence
        "| A |\n| - |\n| " + words(2_000) + " |\n",  # one giant row
        "- " + words(2_000) + "\n",
        "```\n" + words(2_000) + "\n```\n",
        "<div>\n" + words(2_000) + "\n</div>\n",
        "# " + words(400) + "\n\ntext\n",
        "\n".join(f"line {n}" for n in range(2_000)),
    ]
    for text in texts:
        sections = cut(f"# A\n\n{text}")
        for part, limit in [*((s, 900) for s in sections), *((c, 180) for c in chunks(sections))]:
            assert count_tokens(part.text) <= limit, text[:40]
        assert Counter(WORDS.findall(text)) <= Counter(
            WORDS.findall(" ".join(section.text for section in sections))
        )


def test_every_word_of_the_sample_is_in_one_section_and_in_a_chunk() -> None:
    for document in sample_documents():
        sections = split(document, token_starts, section_tokens=300, chunk_tokens=100)
        assert sections
        cut_heads = sum(section.text.count("| ---") for section in sections)
        if cut_heads == document.text.count("| ---"):  # no table was cut, so nothing is repeated
            written = WORDS.findall(document.text)
            assert WORDS.findall(" ".join(section.text for section in sections)) == written
        previous = 0
        for section in sections:
            assert section.span[0] >= previous
            assert not document.text[previous : section.span[0]].strip() or section.text[:1] == "|"
            previous = section.span[1]
            held = " ".join(chunk.text for chunk in section.chunks)
            assert set(WORDS.findall(section.text)) <= set(WORDS.findall(held))
        assert not document.text[previous:].strip()


def test_the_sample_keeps_to_its_limits() -> None:
    for document in sample_documents():
        for section in split(document, token_starts, section_tokens=300, chunk_tokens=100):
            assert count_tokens(section.text) <= 300
            for chunk in section.chunks:
                assert count_tokens(chunk.text) <= 100


def test_the_same_text_gives_the_same_sections() -> None:
    for document in sample_documents()[:5]:
        once, again = (
            split(document, token_starts, section_tokens=300, chunk_tokens=100) for _ in range(2)
        )
        assert once == again


def test_a_section_has_the_anchors_of_the_headings_above_and_within_it() -> None:
    parts = "".join(f"## Part {n}\n\n{words(100)}\n\n{words(100)}\n\n" for n in range(2))
    page = Document(path="a.md", title="A", url="u", text=f"Intro.\n\n{parts}")

    def split_page(document: Document, section_tokens: int = 120) -> list[Section]:
        return split(document, token_starts, section_tokens=section_tokens, chunk_tokens=100)

    sections = split_page(replace(page, anchors="github"))
    assert [section.anchors for section in sections] == [
        (),
        ((0, "part-0"),),
        ((0, "part-0"),),
        ((0, "part-1"),),
        ((0, "part-1"),),
    ]
    assert [replace(section, anchors=()) for section in sections] == split_page(page)
    (whole,) = split_page(replace(page, anchors="github"), section_tokens=1_000)
    places = [whole.text.index(f"## Part {n}") for n in range(2)]
    assert whole.anchors == ((places[0], "part-0"), (places[1], "part-1"))


def test_anchors_stand_where_headings_do_below_a_tables_repeated_head() -> None:
    rows = "".join(f"| city {n} | {n} |\n" for n in range(80))
    text = f"# Caps\n\n| City | Cap |\n| --- | --- |\n{rows}\n# Other\n\nText.\n"
    page = Document(path="a.md", title="A", url="u", text=text, anchors="github")
    *_, last = split(page, token_starts, section_tokens=300, chunk_tokens=100)
    assert last.text.startswith("| City |")
    assert last.anchors == ((0, "caps"), (last.text.index("# Other"), "other"))
