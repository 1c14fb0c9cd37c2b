"""What is left of a section, by what of it bears on the question."""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike

from retrieval import trimming
from retrieval.chunking import parse_pieces, split
from retrieval.late_interaction import Interaction
from retrieval.records import Document, Section
from retrieval.sources.reads import Read
from retrieval.trimming import GAP, LEAST
from tests.conftest import SAMPLE
from tests.folders import read_folder
from tests.retrieval.candidates import candidate

TOKEN = re.compile(r"\w+|[^\w\s]")


def cut(text: str, *, section_tokens: int = 4000) -> list[Section]:
    return split(
        Document(path="a.md", title="A", url="u", text=text),
        lambda part: [match.start() for match in TOKEN.finditer(part)],
        section_tokens=section_tokens,
        chunk_tokens=180,
    )


def trim(section: Section, *readings: ArrayLike) -> str:
    """What is left, by the similarities of every chunk to each reading; all tokens count alike."""
    interactions = [interact(section, similarities) for similarities in readings]
    return trimming.trim(candidate(text=section.text).section, interactions).text


def interact(section: Section, similarities: ArrayLike) -> Interaction:
    rows = np.array(similarities, dtype=np.float32).reshape(len(section.chunks), -1)
    return Interaction(
        chunk_ids=tuple(range(len(rows))),
        chunk_texts=tuple(chunk.text for chunk in section.chunks),
        cosine=0.0,
        similarities=rows,
        weights=np.full(rows.shape[1], 1 / max(rows.shape[1], 1), dtype=np.float32),
    )


def trim_to(text: str, *sought: str) -> str:
    """What is left when the chunks that hold what is sought are by far the best."""
    (section,) = cut(text)
    scores = [
        0.9 if any(each in chunk.text for each in sought) else 0.1 for chunk in section.chunks
    ]
    assert 0.9 in scores and 0.1 in scores
    return trim(section, scores)


def prose(word: str) -> str:
    """A paragraph that is a chunk by itself, and long enough to be left alone."""
    text = " ".join(f"{word * 2}{number:03}" for number in range(120)) + "."
    assert len(text) >= LEAST
    return text


A, B, C = (prose(word) for word in ("alpha", "beta_", "gamma"))
PAGE = f"# Page\n\n## One\n\n{A}\n\n## Two\n\n{B}\n\n## Three\n\n{C}\n"


@pytest.mark.parametrize(
    ("sought", "left"),
    [
        ("alpha", f"# Page\n\n## One\n\n{A}\n\n{GAP}\n"),
        ("beta_", f"# Page\n\n{GAP}\n\n## Two\n\n{B}\n\n{GAP}\n"),
        ("gamma", f"# Page\n\n{GAP}\n\n## Three\n\n{C}\n"),
    ],
)
def test_a_gap_stands_where_something_is_missing(sought: str, left: str) -> None:
    assert trim_to(PAGE, sought) == left


def test_neighbours_stay_together_and_others_apart() -> None:
    assert trim_to(PAGE, "beta_", "gamma") == PAGE.replace(f"## One\n\n{A}", GAP)
    assert trim_to(PAGE, "alpha", "gamma") == PAGE.replace(f"## Two\n\n{B}", GAP)


def test_a_gap_stands_at_the_very_beginning() -> None:
    assert trim_to(f"{A}\n\n{B}\n", "beta_") == f"{GAP}\n\n{B}\n"


def test_a_short_section_stays_as_it_is() -> None:
    (section,) = cut("".join(f"## Step {n}\n\nDo this, then that.\n\n" for n in range(30)))
    assert len(section.text) <= LEAST and len(section.chunks) == 30
    assert trim(section, np.arange(30) / 30) == section.text


def test_what_is_left_of_a_section_is_not_short() -> None:
    (section,) = cut(
        "".join(f"## Step {n}\n\nDo this {n} times, then that.\n\n" for n in range(90))
    )
    left = trim(section, np.arange(90) / 90)
    assert LEAST <= len(left) < len(section.text)
    assert "## Step 89" in left and "## Step 0\n" not in left


@pytest.mark.parametrize("scores", [(0.7, 0.65, 0.6), (0, 0, 0), (-0.5, -0.4, -0.5), ((),) * 3])
def test_chunks_that_hardly_differ_all_stay(scores: ArrayLike) -> None:
    (section,) = cut(PAGE)
    assert trim(section, scores) == section.text


def test_what_answers_a_part_of_the_question_stays() -> None:
    (section,) = cut(PAGE)
    # Four tokens find their best place in the first chunk, and one in the third.
    left = trim(section, [(0.9, 0.9, 0.9, 0.9, 0.1), (0.2,) * 5, (0.1, 0.1, 0.1, 0.1, 0.3)])
    assert left == PAGE.replace(f"## Two\n\n{B}", GAP)


STEPS = "".join(f"{n}. Step {n:02} of the restart, done as it is told\n" for n in range(1, 41))
BULLETS = "".join(f"- point {n:02} on the first level\n  - below point {n:02}\n" for n in range(30))
TABLE = "| Code | Meaning | What to do |\n| --- | --- | --- |\n" + "".join(
    f"| E{n:02} | fault number {n:02} | ask team {n:02} |\n" for n in range(40)
)
FENCE = (
    "```bash\n"
    + "".join(f"# turn {n:02}\nprinter --restart --slot {n}\n" for n in range(30))
    + "```\n"
)


@pytest.mark.parametrize(
    ("block", "sought"),
    [
        *((STEPS, sought) for sought in ("Step 01", "Step 20", "Step 40")),
        *((BULLETS, sought) for sought in ("point 00", "below point 29")),
        *((TABLE, sought) for sought in ("fault number 00", "fault number 39")),
        *((FENCE, sought) for sought in ("# turn 00", "# turn 15", "slot 29")),
    ],
)
@pytest.mark.parametrize("lead_in", ["", "Do it like this:\n\n", f"{C} Here it is:\n\n"])
def test_a_block_is_never_cut_and_keeps_heading_and_lead_in(
    block: str, sought: str, lead_in: str
) -> None:
    text = f"# Page\n\n{A}\n\n## The block\n\n{lead_in}{block}\n## After\n\n{B}\n"
    (section,) = cut(text)
    assert block not in "".join(chunk.text for chunk in section.chunks)  # which do cut it
    # What is sought is short, so the first chunk stays as well.
    assert trim_to(text, sought) == text.replace(f"## After\n\n{B}", GAP)


@pytest.mark.parametrize("block", [STEPS, TABLE, FENCE, "1. One step.\n"])
def test_a_lead_in_keeps_what_it_introduces(block: str) -> None:
    text = f"## Restart\n\n{A} Like this:\n\n{block}\n## After\n\n{C}\n"
    assert trim_to(text, "Like this:") == text.replace(f"## After\n\n{C}", GAP)


@pytest.mark.parametrize("between", ["```\nprinter --restart\n```", "> Mind the cable.", "Wait."])
@pytest.mark.parametrize("sought", ["alpha", "beta_"])
def test_steps_that_something_interrupts_stay_together(between: str, sought: str) -> None:
    steps = f"1. {A}\n2. Do this\n\n{between}\n\n3. Do that\n\n{between}\n\n4. {B}\n"
    text = f"## Restart\n\n{steps}\n## After\n\n1. {C}\n"
    assert trim_to(text, sought) == text.replace(f"## After\n\n1. {C}", GAP)


@pytest.mark.parametrize(
    "marks",
    [
        [f"**Step {number}.**" for number in range(1, 6)],
        [f"Step {number}:" for number in range(1, 6)],
        [f"**Schritt {number}** –" for number in range(1, 6)],
        [f"**{number}.**" for number in range(1, 6)],
        ["a)", "b)", "c)", "d)", "e)"],
        ["(a)", "(b)", "(c)", "(d)", "(e)"],
    ],
)
def test_steps_that_are_paragraphs_stay_together(marks: list[str]) -> None:
    words = ["alder", "birch", "cedar", "ebony", "hazel"]
    steps = "\n\n".join(f"{mark} {prose(word)}" for mark, word in zip(marks, words, strict=True))
    text = f"## Before\n\n{marks[1]} {A}\n\n## Restart\n\n{steps}\n\n## After\n\n{marks[2]} {C}\n"
    left = text.replace(f"## Before\n\n{marks[1]} {A}", GAP)
    left = left.replace(f"## After\n\n{marks[2]} {C}", GAP)
    assert trim_to(text, "cedar") == left


def test_steps_with_substeps_between_them_stay_together() -> None:
    steps = f"Step 1: {A}\n\na) This\n\nb) That\n\nStep 2: {B}\n"
    text = f"{steps}\n## After\n\n{C}\n"
    for sought in ("alpha", "beta_"):
        assert trim_to(text, sought) == text.replace(f"## After\n\n{C}", GAP)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("3-day passes.", "5-day passes."),
        ("3.5 GB.", "4.5 GB."),
        ("Q. Why?", "Q. How?"),
        ("Step 1.", "Step 1."),  # each begins steps of its own
        ("Step one", "Step two"),
    ],
)
def test_paragraphs_that_are_no_steps_are_told_apart(first: str, second: str) -> None:
    text = f"{first} {A}\n\n{second} {B}\n"
    assert trim_to(text, "alpha") == f"{first} {A}\n\n{GAP}\n"


def test_headings_that_nothing_is_left_of_go() -> None:
    text = f"# Page\n\n## One\n\n### Deep\n\n{A}\n\n## Two\n\n### Deep\n\n{B}\n\n{C}\n"
    assert trim_to(text, "gamma") == f"# Page\n\n{GAP}\n\n## Two\n\n### Deep\n\n{GAP}\n\n{C}\n"


def sample_sections(section_tokens: int) -> list[Section]:
    docs = SAMPLE / "docs"
    reads = read_folder(docs)
    return [
        section
        for read in reads
        if isinstance(read, Read)
        for section in cut(read.document.text, section_tokens=section_tokens)
    ]


def blocks(text: str) -> list[str]:
    return [piece.text(text).strip() for piece in parse_pieces(text)]


def assert_made_of_blocks(left: str, whole: str) -> None:
    """All blocks of what is left stand in the whole in this order, the others behind a gap."""
    expected = blocks(whole)
    place = 0
    gap = False
    for block in blocks(left):
        if block == GAP:
            assert not gap
            gap = True
            continue
        found = expected.index(block, place)
        assert (found > place) == gap
        place, gap = found + 1, False
    assert (place < len(expected)) == gap


@pytest.mark.parametrize("section_tokens", [900, 4000])
def test_whatever_is_sought_blocks_stand_word_for_word_and_what_is_sought_is_there(
    section_tokens: int,
) -> None:
    trimmed = 0
    for section in sample_sections(section_tokens):
        for index, chunk in enumerate(section.chunks):
            left = trim(section, np.arange(len(section.chunks)) == index)
            assert_made_of_blocks(left, section.text)
            for line in chunk.text.splitlines():
                assert line.strip() in left
            trimmed += left != section.text
    assert trimmed > 50


def test_all_but_the_text_of_a_section_is_as_it_was() -> None:
    (section,) = cut(PAGE)
    stored = replace(candidate(7, title="Page", text=section.text).section, owner="ana")
    interaction = Interaction(
        chunk_ids=(1, 2, 3),
        chunk_texts=tuple(chunk.text for chunk in section.chunks),
        cosine=0.0,
        similarities=np.array([[0.9], [0.1], [0.1]], dtype=np.float32),
        weights=np.ones(1, dtype=np.float32),
    )
    left = trimming.trim(stored, [interaction])
    assert replace(left, text=stored.text) == stored != left


@pytest.mark.parametrize(
    ("sought", "cited", "anchor"),
    [
        ("gamma", "gammagamma000", "#three"),
        ("gamma", "# Page", ""),
        ("beta_", "beta_beta_000", "#two"),
        ("alpha", "alphaalpha000", "#one"),
    ],
)
def test_what_is_left_keeps_the_address_of_its_heading(
    sought: str, cited: str, anchor: str
) -> None:
    (section,) = cut(PAGE)
    headings = ("# Page", ""), ("## One", "#one"), ("## Two", "#two"), ("## Three", "#three")
    urls = tuple((PAGE.index(heading), f"https://w.example/a{at}") for heading, at in headings)
    stored = replace(candidate(text=section.text).section, urls=urls)
    scores = [0.9 if sought in chunk.text else 0.1 for chunk in section.chunks]
    left = trimming.trim(stored, [interact(section, scores)])
    assert len(left.text) < len(PAGE)
    assert left.find_url(left.text.index(cited)) == f"https://w.example/a{anchor}"


def test_what_any_reading_of_the_question_is_about_stays() -> None:
    (section,) = cut("\n\n".join(map(prose, ["alder", "birch", "cedar"])))
    alder, birch, cedar = (
        [1.0 if word in chunk.text else 0.1 for chunk in section.chunks]
        for word in ("alderalder", "birchbirch", "cedarcedar")
    )
    assert [word in trim(section, alder) for word in ("alder", "birch", "cedar")] == [1, 0, 0]
    left = trim(section, alder, cedar)
    assert [word in left for word in ("alder", "birch", "cedar")] == [1, 0, 1]
    assert trim(section, alder, birch, cedar) == section.text
