"""Quoted answers over the sample documents, cut into sections by words."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

from app.generate import quoted
from app.generate.generator import Generator
from app.generate.quoted import Quoter
from app.records import Answer
from retrieval.chunking import split
from retrieval.embedding import Embedder
from retrieval.records import Candidate, Query, StoredSection
from retrieval.sources.markdown import Read, parse_document

DOCS = Path(__file__).parents[1] / "sample" / "docs"


def word_starts(text: str) -> list[int]:
    return [match.start() for match in re.finditer(r"\w+|[^\w\s]", text)]


@cache
def sample(path: str) -> tuple[Candidate, ...]:
    """The sections of a sample page."""
    read = parse_document((DOCS / path).read_bytes(), path=path, url=f"https://w.example/{path}")
    assert isinstance(read, Read)
    sections = split(read.document, word_starts, section_tokens=400, chunk_tokens=100)
    return tuple(
        candidate(section.text, f"{path}{number}", section.heading_path, read.document.title)
        for number, section in enumerate(sections)
    )


def candidate(
    text: str, path: str = "a.md", heading_path: tuple[str, ...] = (), title: str = "A"
) -> Candidate:
    section = StoredSection(
        section_id=crc32(path.encode()),
        document_id=1,
        path=path,
        title=title,
        heading_path=heading_path,
        text=text,
        url=f"https://w.example/{path}",
        owner=None,
        updated_at=None,
        verified_at=None,
    )
    return Candidate(section=section, hits=(), rrf_score=0.0)


Quote = Callable[..., Answer]


@pytest.fixture
def quote(embedder: Embedder) -> Quote:
    """The answer to a question from the sections after it, best first."""
    generator: Generator = Quoter(embedder)

    def generate(question: str, *kept: Candidate) -> Answer:
        return generator.generate((), Query(text=question, question=question), kept)

    return generate


def quotations(answer: Answer) -> list[str]:
    """What is quoted, without markers."""
    opening, _, rest = answer.text.partition("\n\n")
    assert opening in (quoted.OPENING, quoted.UNSURE)
    return re.split(r"(?:\s|^)\[\d\](?: \|)?(?:\n\n|$)", rest)[:-1]


@pytest.mark.parametrize(
    ("question", "paths", "said"),
    [
        (
            "what does err 2041 mean?",
            ["reference/error-codes.md"],
            "| Code | HTTP | Meaning | What to do |\n| --- | --- | --- | --- |\n"
            "| `ERR_2041` | – | Label template needs a font that the printer lacks "
            "| Pin the previous template on the spooler [1] |",
        ),
        (
            "what is the most I can spend on a hotel room in Hamburg",
            ["policies/travel-and-expenses-2026.md", "policies/leave-and-public-holidays.md"],
            "Ceiling per night, breakfast not included:\n\n"
            "- Category A (Paris, London, Copenhagen, Zurich): **€195**\n"
            "- Category B (Amsterdam, Brussels, Hamburg, Munich, Vienna, Milan): **€170**\n"
            "- everywhere else: **€150** [1]",
        ),
        (
            "how do I bring the old primary back after a failover of waybill",
            ["runbooks/rb-07-waybill-postgres-failover.md"],
            "Never start the old primary by hand. Reinitialise it as a standby:\n\n"
            "```bash\npatronictl -c /etc/patroni/waybill.yml reinit waybill pg-waybill-a\n```\n[1]",
        ),
        (
            "which steps verify the waybill failover, what does patronictl list show",
            ["runbooks/rb-07-waybill-postgres-failover.md"],
            "1. `patronictl list` shows b as Leader and one replica streaming.\n"
            '2. `curl -s https://waybill.halvermeer.example/healthz | jq .db` says `"writable"`.\n'
            "3. Create a test label with account `HVM-TEST-01`. Test labels are not invoiced.\n"
            "4. *Waybill / 5xx* back under 0.1% within 5 minutes. [1]",
        ),
    ],
)
def test_what_answers_is_quoted_whole_and_as_written(
    quote: Quote, question: str, paths: list[str], said: str
) -> None:
    answer = quote(question, *(section for path in paths for section in sample(path)))
    assert said in answer.text
    assert answer.abstained_because is None


def test_what_answers_in_other_words_is_quoted(quote: Quote) -> None:
    question = (
        "box has been stuck at the border office for three days, who is able to let it through?"
    )
    answer = quote(question, *sample("teams/customs-and-cross-border.md"))
    said = quotations(answer)[0]
    assert said.startswith("Ask the declarants, not the engineers, when: a parcel has been in")
    assert said.endswith("We cannot release a parcel, only they can.")


def test_a_page_far_less_relevant_is_not_quoted(quote: Quote) -> None:
    best, other = candidate("The cap is 80.", "one.md"), candidate("The cap was 60.", "other.md")
    assert len(quote("what is the cap", best, other).citations) == 2
    kept = replace(best, relevance=0.95), replace(other, relevance=0.001)
    assert [each.path for each in quote("what is the cap", *kept).citations] == ["one.md"]


def test_an_item_of_a_long_list_follows_what_leads_in(quote: Quote) -> None:
    items = [f"- Point {number} {'and so on ' * 10}" for number in range(8)]
    items[3:3] = ["- Drain the kafka pool."]
    answer = quote("kafka pool", candidate("In an emergency:\n\n" + "\n".join(items)))
    assert quotations(answer)[0] == "In an emergency:\n\n- Drain the kafka pool."


@pytest.mark.parametrize("path", sorted(p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md")))
def test_every_quotation_stands_in_its_section(quote: Quote, path: str) -> None:
    kept = sample(path)[:5]
    answer = quote("how many days or minutes until a label or parcel is late?", *kept)
    texts = {each.section.section_id: each.section.text for each in kept}
    assert [each.marker for each in answer.citations] == list(range(1, len(answer.citations) + 1))
    for citation in answer.citations:
        assert citation.cited_text in texts[citation.section_id]
        assert f"[{citation.marker}]" in answer.text
    source = "".join(re.sub(r"\s", "", text) for text in texts.values())
    for quotation in quotations(answer):
        for line in quotation.splitlines():
            assert re.sub(r"\s", "", line).removesuffix("|") in source
    # The first quotation has up to MAX_WORDS with its list, which is under a sentence.
    assert len(answer.text.split()) < 2 * quoted.MAX_WORDS


def test_quotations_of_a_page_keep_its_order(quote: Quote) -> None:
    page = candidate("Alpha one.\n\nFiller text here.\n\nAlpha beta gamma two.\n")
    answer = quote("alpha beta gamma", page)
    assert quotations(answer)[-1] == "Alpha beta gamma two."
    page = candidate("Alpha beta one.\n\nFiller text here.\n\nAlpha beta gamma two.\n")
    assert quotations(quote("alpha beta gamma", page)) == [
        "Alpha beta one.",
        "Alpha beta gamma two.",
    ]


def test_steps_that_are_far_apart_keep_their_numbers(quote: Quote) -> None:
    steps = [f"{number}. Do the thing {'again ' * 20}now." for number in range(1, 9)]
    steps[1], steps[5] = "2. Drain the kafka pool.", "6. Refill the kafka pool."
    answer = quote("kafka pool", candidate("\n".join(steps)))
    assert quotations(answer) == ["2. Drain the kafka pool.", "6. Refill the kafka pool."]


def test_a_nested_item_is_a_list_by_itself_again(quote: Quote) -> None:
    items = [f"- Point {number} {'and so on ' * 10}" for number in range(8)]
    items[3:3] = ["    - Drain the kafka pool."]
    assert quotations(quote("kafka pool", candidate("\n".join(items)))) == [
        "- Drain the kafka pool."
    ]


def test_a_nested_item_before_an_outer_one_is_not_code(quote: Quote) -> None:
    items = [f"- Point {number} {'and so on ' * 10}" for number in range(8)]
    items[3:3] = ["    - Drain the kafka pool.", "- Refill the kafka pool."]
    said = quotations(quote("kafka pool", candidate("\n".join(items))))
    assert said == ["- Drain the kafka pool.", "- Refill the kafka pool."]


def test_the_same_text_on_two_pages_is_quoted_once(quote: Quote) -> None:
    one, other = candidate("The cap is 80.", "one.md"), candidate("The cap is 80.", "other.md")
    answer = quote("what is the cap", one, other)
    assert answer.text.count("The cap is 80.") == 1
    assert [citation.path for citation in answer.citations] == ["one.md"]


def test_what_is_found_by_few_words_is_said_to_be_unsure(quote: Quote) -> None:
    text = "The pool drains at noon.\n"
    sure = quote("when does the pool drain", candidate(text))
    unsure = quote("pool of lawyers for immigration cases abroad", candidate(text))
    assert sure.text == f"{quoted.OPENING}\n\nThe pool drains at noon. [1]"
    assert unsure.text == f"{quoted.UNSURE}\n\nThe pool drains at noon. [1]"
    assert quote("who owns the invoices", candidate(text)).text.startswith(quoted.UNSURE)


def test_a_marker_in_a_document_is_not_ours(quote: Quote) -> None:
    answer = quote("when does the pool drain", candidate("The pool drains at noon [2], `a[2]`."))
    assert answer.text.endswith("The pool drains at noon (2), `a[2]`. [1]")


def test_nothing_to_quote_is_unsupported(quote: Quote) -> None:
    assert quote("pool").abstained_because == "UNSUPPORTED"
    assert quote("pool", candidate("# Pool\n\n***\n")).abstained_because == "UNSUPPORTED"
