"""What a reader sees in Slack of what an answer says: the posted blocks, text by text."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import pytest
from pydantic import SecretStr

from app import abstaining, citations
from app.answering import Answerer
from app.citations import Piece
from app.config import Settings
from app.generate.anthropic import Claude
from app.records import Answer, Citation
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.records import StoredSection
from retrieval.retrieve import Retriever
from tests.app.bot import Bot, connected
from tests.retrieval.pages import build_retriever, ingest, page
from tests.stand_ins.claude import ClaudeStandIn, Text
from tests.stand_ins.slack import SlackStandIn
from tests.test_question_to_post import ask, find_trace

LEAVE = "https://wiki.example/leave"
FACT = "Five days can be carried over."


@pytest.fixture
def bot(slack: SlackStandIn, database: Database) -> Iterator[Bot]:
    with connected(slack, database) as bot:
        yield bot


def section(section_id: int, **more: Any) -> StoredSection:
    values: dict[str, Any] = {
        "section_id": section_id,
        "document_id": section_id,
        "path": f"{section_id}.md",
        "title": f"Page {section_id}",
        "heading_path": (),
        "text": FACT,
        "url": f"https://wiki.example/{section_id}",
        "owner": None,
        "updated_at": None,
        "verified_at": date(2026, 3, 1),
    }
    return StoredSection(**{**values, **more})


def cite(section_id: int, **more: Any) -> Citation:
    return citations.build_citation(section(section_id, **more), (0, len(FACT)), section_id)


def write(*texts: str, to: Sequence[int] = (0,), among: Sequence[StoredSection] = ()) -> Answer:
    """The answer that these texts of a model become, each of which cites these sections."""
    pieces = [Piece(text=text, cited=tuple((index, FACT) for index in to)) for text in texts]
    return citations.check(pieces, among or [section(1, title="Leave", url=LEAVE)])


def post(bot: Bot, answer: Answer) -> Mapping[str, Any]:
    """The first message that carries an answer."""
    bot.answerer.answers["how?"] = answer
    bot.ask("how?")
    return bot.slack.calls("chat.postMessage")[0].params


def read(bot: Bot, text: str) -> str:
    """What is seen of an answer in Markdown, without its source list."""
    return said(post(bot, Answer(text=text, citations=(cite(1, title="Leave", url=LEAVE),))))


def said(message: Mapping[str, Any]) -> str:
    *sections, _sources, _buttons = message["blocks"]
    assert all(block["type"] == "section" and block["expand"] for block in sections)
    return "\n\n".join(block["text"]["text"] for block in sections)


def sources(message: Mapping[str, Any]) -> list[str]:
    # A stale page has a button of its own.
    *_, block, _buttons = (each for each in message["blocks"] if each["type"] != "actions")
    holder = block["elements"][0] if block["type"] == "context" else block["text"]
    return str(holder["text"]).splitlines()


def test_a_table_with_an_empty_and_a_bold_cell_is_aligned(bot: Bot) -> None:
    table = """\
Days by country:

| Country | Days | From | Ask |
| :-- | --: | --- | --- |
| Germany | **30** | | hr@corp.example |
| France | 25 | `2026-01` | [Leave](https://wiki.example/leave) [1] |
"""
    assert (
        read(bot, table)
        == """\
Days by country:

```
Country  Days  From     Ask
───────  ────  ───────  ───────────────
Germany  30             hr@corp.example
France   25    2026-01  Leave [1]
```"""
    )


def test_a_table_wider_than_the_window_is_a_list(bot: Bot) -> None:
    long = "the queue of the label printer stands still and nobody has pressed the red button yet"
    table = f"| Code | Meaning | Ask |\n|---|---|---|\n| `E1` | {long} | ops@corp.example |\n"
    assert read(bot, f"{table}| E2 | | **nobody** |") == (
        f"• *`E1`*\n    Meaning: {long}\n    Ask: <mailto:ops@corp.example|ops@corp.example>\n"
        "• *E2*\n    Ask: *nobody*"
    )


def test_code_is_shown_as_it_is_and_without_its_language(bot: Bot) -> None:
    code = '```python title="x"\nif a[1] < 2 and b:\n    print("**no**", "<br>")\n```\nDone.'
    assert read(bot, code) == (
        '```\nif a[1] &lt; 2 and b:\n    print("**no**", "&lt;br&gt;")\n```\n\nDone.'
    )


def test_nested_lists_keep_their_depth_and_numbers(bot: Bot) -> None:
    steps = """\
1. Open **the form**
   - as a guest
     1. without *a login*
2. Send it

   within a day
3. Run
   ```sh
   send --all
   ```
"""
    assert (
        read(bot, steps)
        == """\
1. Open *the form*
    • as a guest
        1. without _a login_
2. Send it
    within a day
3. Run
```
send --all
```"""
    )


def test_headings_quotes_and_rules_become_what_slack_has(bot: Bot) -> None:
    text = "## Who *may* carry **over**\n\n> All but\n> **interns**.\n>\n> - ask HR\n\n---\n\nDone."
    assert read(bot, text) == (
        "*Who _may_ carry over*\n\n> All but *interns*.\n\n> • ask HR\n\nDone."
    )


def test_bold_within_a_word_shows_no_asterisks(bot: Bot) -> None:
    assert read(bot, "Wait **30**s, **then** re*do* it.") == "Wait 30s, *then* redo it."


def test_an_address_can_be_copied_and_clicked(bot: Bot) -> None:
    text = "Write to payroll-help@corp.example, or `git clone git@corp.example:a/b`."
    shown = read(bot, text)
    assert shown == (
        "Write to <mailto:payroll-help@corp.example|payroll-help@corp.example>, "
        "or `git clone git@corp.example:a/b`."
    )
    assert "\u200b" not in str(bot.slack.calls("chat.postMessage")[0].params)


def test_html_becomes_line_breaks_and_an_odd_source_is_one_flat_link(bot: Bot) -> None:
    odd = cite(
        1, title='Ops [EU] | "Run>book"', url="https://wiki.example/p?a=1&b=<x>|y z", owner="A|B"
    )
    text = "line1<br>line2<BR/>\n\n<div class='x'>in a <b>box</b></div> restart <service>"
    message = post(bot, Answer(text=text, citations=(odd,)))
    assert said(message) == "line1\nline2\n\nin a box restart &lt;service&gt;"
    assert sources(message) == [
        '[1] <https://wiki.example/p?a=1&amp;b=%3Cx%3E%7Cy%20z|Ops [EU] ¦ "Run&gt;book">'
        " · verified 2026-03-01 · A|B"
    ]


def test_links_have_one_form_and_only_those_to_sources_can_be_followed(bot: Bot) -> None:
    answer = write(
        f"See <Leave policy|{LEAVE}>, <{LEAVE}|the policy> and [it]({LEAVE} 't'), not "
        "<evil|https://evil.example>, [evil](https://evil.example/?q=how 't') or "
        "https://evil.example."
    )
    message = post(bot, answer)
    assert said(message) == (
        f"See <{LEAVE}|Leave policy>, <{LEAVE}|the policy> and <{LEAVE}|it>, not "
        "evil, evil or (link removed). [1]"
    )
    assert "evil.example" not in str(message)


def test_an_answer_with_five_sources_makes_no_previews_and_folds_their_list(bot: Bot) -> None:
    message = post(
        bot, Answer(text="See [1] to [5].", citations=tuple(cite(n) for n in range(1, 6)))
    )
    assert (message["unfurl_links"], message["unfurl_media"]) == (False, False)
    *_, block, _buttons = message["blocks"]
    assert block["type"] == "section" and not block.get("expand")
    assert [line[:3] for line in sources(message)] == [f"[{n}]" for n in range(1, 6)]


def test_numbers_are_those_of_the_list_whatever_was_read_in_between(bot: Bot) -> None:
    """Six sections, of which two are of one page, cited out of order."""
    pages = [section(n, text=f"Fact {n}.", title=f"Page {min(n, 5)}") for n in range(1, 7)]
    pieces = [
        Piece(text=f"It is {n}. [{n}] ", cited=((n - 1, f"Fact {n}."),)) for n in (5, 2, 6, 2)
    ]
    message = post(bot, citations.check(pieces, pages))
    assert said(message) == "It is 5. [1] It is 2. [2] It is 6. [3] It is 2. [2]"
    assert [line.partition(" · ")[0] for line in sources(message)] == [
        "[1] <https://wiki.example/5|Page 5>",
        "[2] <https://wiki.example/2|Page 2>",
        "[3] <https://wiki.example/6|Page 5>",
    ]


def test_brackets_in_code_are_no_citations(bot: Bot) -> None:
    answer = write("Take `items[1]` as here [2]:\n\n```\nx = arr[2]\n```\n\nThat is all.")
    message = post(bot, answer)
    assert said(message) == "Take `items[1]` as here:\n\n```\nx = arr[2]\n```\n\nThat is all. [1]"
    assert len(sources(message)) == 1


@pytest.mark.parametrize("text", ["[" + "9" * 60 + "!", "[" * 100_000, "[[1](" * 20_000])
def test_brackets_without_end_are_posted_in_no_time(bot: Bot, text: str) -> None:
    post(bot, write(f"{text} That is it."))
    messages = bot.slack.calls("chat.postMessage")
    assert messages[-1].params["blocks"][-1]["type"] == "context_actions"
    shown = "".join(
        block["text"]["text"]
        for call in messages
        for block in call.params["blocks"]
        if block["type"] == "section"
    )
    assert shown.endswith("That is it. [1]")


@pytest.fixture
def generator(stand_in: ClaudeStandIn) -> Iterator[Claude]:
    settings = Settings(
        anthropic_api_key=SecretStr(stand_in.api_key), anthropic_base_url=stand_in.base_url
    )
    with Claude(settings) as generator:
        yield generator


TRAVEL = """\
---
last_verified: {year}-02-01
---
# Travel policy {year}

Meals are paid up to {cap} euros a day. {more}
"""


def test_of_two_editions_of_a_policy_the_list_says_which_is_old_and_how_old(
    slack: SlackStandIn,
    database: Database,
    embedder: Embedder,
    generator: Claude,
    stand_in: ClaudeStandIn,
) -> None:
    receipts = ("Keep all receipts and send them in by post.", "Upload a photo of each bill.")
    this_year = date.today().year
    for year, cap, more in zip((2023, this_year), (60, 80), receipts, strict=True):
        text = TRAVEL.format(year=year, cap=cap, more=more)
        ingest(database, embedder, page(f"travel-{year}.md", text))
    retriever = build_retriever(database, embedder)
    answerer = Answerer(retriever=retriever, generator=generator)

    def cite_both(body: Mapping[str, Any]) -> list[Text]:
        texts = [each for each in body["messages"][-1]["content"] if "source" in each]
        return [Text(f"Claim {at}. ", cites=[(at, 0, 1)]) for at in range(len(texts))]

    stand_in.reply(cite_both)
    answer = ask(slack, answerer, "what is the daily meal cap for travel?")
    old, new = sorted(sources(answer), key=lambda line: "2023" not in line)
    assert re.search(r" · ⚠️ last verified 2023-02-01, \d+ years ago, older than \[[12]\]$", old)
    assert new.endswith(f"|Travel policy {this_year}> · verified {this_year}-02-01")


def test_what_the_pages_only_name_is_refused_with_the_page_as_a_link(
    slack: SlackStandIn, retriever: Retriever, generator: Claude, stand_in: ClaudeStandIn
) -> None:
    stand_in.reply([Text("NOT_IN_THE_DOCUMENTS")])
    answerer = Answerer(retriever=retriever, generator=generator)
    answer = ask(slack, answerer, "what does err 2041 mean?")
    assert answer["text"].startswith("I found related pages, but they don't answer this.")
    assert "Nearest page, may not answer: <https://wiki.halvermeer.example/" in answer["text"]
    assert not re.search(r"\[\d", answer["text"])
    assert find_trace(answerer).abstained_because == "UNSUPPORTED"


def test_without_pages_nothing_is_answered_from_memory(
    slack: SlackStandIn,
    database: Database,
    embedder: Embedder,
    generator: Claude,
    stand_in: ClaudeStandIn,
) -> None:
    answerer = Answerer(retriever=build_retriever(database, embedder), generator=generator)
    answer = ask(slack, answerer, "What is our PTO carry-over limit?")
    refused = "There are no pages that I may use here, so I can't answer this."
    assert answer["text"] == f"{refused} {abstaining.IN_CHANNEL}"
    assert not stand_in.requests()
    assert find_trace(answerer).abstained_because == "NO_CANDIDATES"
