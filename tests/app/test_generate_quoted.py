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
from app.records import Answer, Turn
from retrieval.chunking import split
from retrieval.embedding import Embedder
from retrieval.records import Candidate, Query, StoredSection
from retrieval.sources import reading
from retrieval.sources.reads import Facts, Read

DOCS = Path(__file__).parents[1] / "sample" / "docs"
FAQ = "faq/support-and-engineering-faq.md"


def word_starts(text: str) -> list[int]:
    return [match.start() for match in re.finditer(r"\w+|[^\w\s]", text)]


@cache
def sample(path: str) -> tuple[Candidate, ...]:
    """The sections of a sample page."""
    facts = Facts(path=path, url=f"https://w.example/{path}")
    read = reading.read((DOCS / path).read_bytes(), facts)
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

    def generate(question: str, *kept: Candidate, after: str = "", readings: str = "") -> Answer:
        text = f"{after} {question}".strip()
        query = Query(text=text, question=question, readings=tuple(filter(None, (text, readings))))
        turns = [Turn(speaker="user", text=said) for said in (after, question) if said]
        return generator.generate(turns, query, kept)

    return generate


def quotations(answer: Answer) -> list[str]:
    """What is quoted, without markers."""
    assert len(answer.text.split()) <= quoted.MAX_WORDS
    assert len(re.findall(r"\w+", answer.text)) <= quoted.MAX_WORDS
    opening, _, rest = answer.text.partition("\n\n")
    assert opening in (quoted.OPENING, quoted.UNSURE)
    rest = re.sub(r" (\[\d\])((?: \| *[–-]?)+)(?=\n\n|$)", r"\2 \1", rest)  # in a row, not behind
    return re.split(r"(?:\s|^)\[\d\](?:\n\n|$)", rest)[:-1]


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
            "```bash\npatronictl -c /etc/patroni/waybill.yml reinit waybill pg-waybill-a\n```\n",
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
            if not line.startswith("…"):
                line = re.sub(r"^\*\*(.*)\*\*$", r"\1", line)
                assert re.sub(r"\s", "", line).removesuffix("|").removesuffix("…") in source


def test_quotations_of_a_page_keep_its_order(quote: Quote) -> None:
    page = candidate("Alpha one.\n\nFiller text here.\n\nAlpha beta gamma two.\n")
    answer = quote("alpha beta gamma", page)
    assert quotations(answer)[-1] == "Alpha beta gamma two."
    page = candidate("Alpha beta one.\n\nFiller text here.\n\nAlpha beta gamma two.\n")
    assert quotations(quote("alpha beta gamma", page)) == [
        "Alpha beta one.",
        "Alpha beta gamma two.",
    ]


def test_steps_are_quoted_as_one_run(quote: Quote) -> None:
    steps = [f"{number}. Do the thing {'again ' * 20}now." for number in range(1, 9)]
    steps[1], steps[5] = "2. Drain the kafka pool.", "6. Refill the kafka pool."
    page = candidate("\n".join(steps))
    assert quotations(quote("drain the kafka pool", page)) == [
        "\n".join(steps[:4]) + "\n\n… 4 more steps"
    ]
    # The run from the first does not reach the sixth.
    assert quotations(quote("refill the kafka pool", page)) == ["\n".join(steps[5:])]


def test_a_lead_in_has_as_many_steps_as_fit(quote: Quote) -> None:
    steps = [f"{number}. Turn {'valve ' * 10}{number}." for number in range(1, 13)]
    page = candidate("To drain the kafka pool:\n\n" + "\n".join(steps))
    assert quotations(quote("how do I drain the kafka pool", page)) == [
        "To drain the kafka pool:\n\n" + "\n".join(steps[:6]) + "\n\n… 6 more steps"
    ]


def test_steps_come_first_where_the_question_asks_how(quote: Quote) -> None:
    answer = quote("how do I roll back a bad sort plan", *sample("runbooks/sortplan-rollback.md"))
    assert "1. Ask the shift lead to stop the infeed." in answer.text
    assert "… 2 more steps" in answer.text
    assert answer.citations[0].heading_path[-1] == "How"


def test_a_small_table_answers_by_all_of_its_rows(quote: Quote) -> None:
    question = "what is the difference between SEV1 and SEV2"
    answer = quote(question, *sample("runbooks/oncall-guide.md"))
    assert "| SEV1 | Hub stopped" in answer.text
    assert "| SEV2 | One hub degraded" in answer.text


@pytest.mark.parametrize("asked", ["e1042", "E 1042", "E1042 showing on a parcel, must I act?"])
def test_a_code_in_another_form_gets_its_own_row_alone(quote: Quote, asked: str) -> None:
    answer = quote(asked, *sample("reference/error-codes.md"))
    assert "`E-1042` | Scan message cannot be parsed" in answer.text
    assert "E-1021" not in answer.text
    assert answer.citations[0].cited_text.startswith("| `E-1042` |")


def test_a_small_table_is_quoted_whole(quote: Quote) -> None:
    question = "when does the french customs certificate expire"
    answer = quote(question, *sample("runbooks/rb-11-customs-gateway-certificate.md"))
    for country in ("NL", "BE", "DE", "FR"):
        assert f"| {country} | clearance-" in answer.text


def test_a_row_that_no_word_tells_from_its_neighbours_is_unsure(quote: Quote) -> None:
    rows = [
        f"| {name} lease | {'and so on ' * 5}| {at} May |" for at, name in enumerate("ABCDEFGH")
    ]
    table = "| Lease | Notes | Ends |\n| --- | --- | --- |\n" + "\n".join(rows)
    assert quote("when does the lease end", candidate(table)).text.startswith(quoted.UNSURE)
    assert quote("when does the H lease end", candidate(table)).text.startswith(quoted.OPENING)


def test_what_matched_is_cited(quote: Quote) -> None:
    page = candidate("The kafka pool drains at noon. Bring a towel. Wear a hat.")
    assert quote("when does the kafka pool drain", page).citations[0].cited_text == (
        "The kafka pool drains at noon."
    )


def test_an_answer_is_found_by_the_heading_that_asks_and_shown_under_it(quote: Quote) -> None:
    page = candidate(
        "## Is the gym open on Sundays?\n\nYes.\n\n"
        "## Is the pool open?\n\nThe pool is open on Sundays, not the gym.\n"
    )
    answer = quote("Is the gym open on Sundays?", page)
    assert quotations(answer)[0] == "**Is the gym open on Sundays?**\n\nYes."
    answer = quote("can a shipper cancel a scanned label?", *sample(FAQ))
    assert "**Can I cancel a label that has been scanned?**\n\nNo. It can be" in answer.text
    assert answer.citations[0].cited_text.startswith("No")


def test_words_of_another_section_are_not_near(quote: Quote) -> None:
    one = "## Boats\n\nThe harbour opens at nine.\n\n"
    other = "## Lunch\n\nThe kitchen opens at nine.\n"
    answer = quote("when does the harbour kitchen for boats open", candidate(one + other))
    assert quotations(answer)[0] == "The harbour opens at nine."


def test_a_new_question_does_not_bring_back_the_old_answer(quote: Quote) -> None:
    old = candidate("Restart labelspool with `systemctl restart labelspool`.", "old.md")
    new = candidate("The per diem for Germany is 48 euros.", "new.md")
    answer = quote(
        "What is the per diem for Germany?", old, new, after="how do I restart labelspool"
    )
    assert quotations(answer) == ["The per diem for Germany is 48 euros."]


def test_the_best_reading_counts(quote: Quote) -> None:
    page = candidate("Parcels leave at noon.\n\nA box of matches is on the shelf.\n")
    answer = quote("when does my box leave", page, readings="when does my parcel leave")
    assert quotations(answer)[0] == "Parcels leave at noon."


def test_what_is_too_long_is_cut_at_a_line_and_says_so(quote: Quote) -> None:
    lines = [f"agent-setup --stage {number} --option alpha --then beta" for number in range(25)]
    fence = "```bash\n" + "\n".join(lines) + "\n```"
    page = candidate(
        "The agent watches a host.\n\nTo install the agent, run as root:\n\n"
        f"{fence}\n\nAn installed agent needs no care.\n"
    )
    answer = quote("how do I install the agent", page)
    [said] = [each for each in quotations(answer) if each.startswith("To install the agent")]
    assert said.startswith("To install the agent, run as root:\n\n```bash\nagent-setup --stage 0 ")
    assert said.endswith("\n```\n\n… 14 more lines")


def test_one_long_sentence_is_cut(quote: Quote) -> None:
    answer = quote("kafka pool", candidate("The kafka pool " + "and so on " * 100 + "ends."))
    assert quotations(answer)[0].endswith("on and so on …")


def test_words_that_stand_nowhere_dilute_nothing(quote: Quote) -> None:
    question = "zzyzx quuxification of kafka retention"
    page = candidate("Kafka retention is 7 days.\n\nA frobnicator of something else entirely.\n")
    assert quotations(quote(question, page))[0] == "Kafka retention is 7 days."


def test_a_row_that_adds_nothing_is_not_quoted(quote: Quote) -> None:
    answer = quote("How long do we keep delivery photos?", *sample("policies/data-retention.md"))
    assert "| Delivery photo, signature | 120 days" in answer.text
    assert "Recipient phone number" not in answer.text


def test_a_lead_in_that_points_back_comes_with_its_heading(quote: Quote) -> None:
    page = candidate(
        "# A\n\n## The freeze\n\nThese do not:\n\n- rotating a secret\n- pinning a label\n"
    )
    assert quotations(quote("rotating a secret", page)) == [
        "**The freeze**\n\nThese do not:\n\n- rotating a secret\n- pinning a label"
    ]


def test_a_nested_item_under_its_heading_is_not_code(quote: Quote) -> None:
    items = [f"- Point {number} {'and so on ' * 10}" for number in range(8)]
    items[3:3] = ["    - Drain the kafka pool."]
    answer = quote("kafka pool", candidate("# A\n\n## What now?\n\n" + "\n".join(items)))
    assert quotations(answer) == ["**What now?**\n\n- Drain the kafka pool."]


def test_definitions_and_comments_are_not_quoted(quote: Quote) -> None:
    page = candidate(
        "The kafka pool is small. <!-- kafka pool: ask\nBob --> It drains.\n\n"
        "[pool]: http://evil.example\nThe kafka pool has a lid, see `<!-- kept -->`.\n\n"
        "<!-- kafka pool -->\n"
    )
    assert quotations(quote("kafka pool", page)) == [
        "The kafka pool is small. It drains.",
        "The kafka pool has a lid, see `<!-- kept -->`.",
    ]


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
