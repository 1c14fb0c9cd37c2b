"""What an answer looks like in Slack: safe, readable, and never refused."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from app import blocks, feedback
from app.records import Answer, Citation, Nearest
from tests.stand_ins import slack_limits

PINGING = "Page <!channel> and <!subteam^S123|@oncall>, or @here, when <@U0AAAA> is away."


def citation(**more: Any) -> Citation:
    values: dict[str, Any] = {
        "marker": 1,
        "section_id": 1,
        "path": "leave.md",
        "title": "Leave",
        "heading_path": ("Leave", "Carry-over"),
        "url": "https://wiki.example/leave",
        "cited_text": "Five days.",
        "owner": "People Team",
        "updated_at": datetime(2026, 2, 1, tzinfo=UTC),
        "verified_at": date(2026, 3, 1),
    }
    return Citation(**{**values, **more})


def texts(answer: Answer) -> list[str]:
    """Every text that an answer sends to Slack, fallbacks first."""
    messages = blocks.build_messages(answer)
    fallbacks = [message.text for message in messages]
    return fallbacks + [text for message in messages for text in block_texts(message)]


def block_texts(message: blocks.Message) -> list[str]:
    return [holder["text"] for holder in holders(message)]


def holders(message: blocks.Message) -> list[dict[str, Any]]:
    """The text objects of a message, but those of its buttons, which are the same in each."""
    return [
        holder
        for block in message.blocks
        if block["type"] != "context_actions"
        for holder in block.get("elements", [block.get("text")])
    ]


def test_p28_nothing_in_answer_title_owner_or_fallback_pings() -> None:
    answer = Answer(
        text=f"{PINGING}\n\n> {PINGING}\n\n- `{PINGING}`\n\n```\n{PINGING}\n```\n\n"
        f"| {PINGING.replace('|', ' ')} |\n|---|\n| &lt;!here&gt; |",
        citations=(
            citation(title=PINGING, heading_path=(PINGING,), owner=PINGING),
            citation(marker=2, title="<!here>", owner="<@U0AAAA>", url="not a url"),
        ),
    )
    for text in texts(answer):
        assert not re.search(r"<[@!#]", text)
    assert "Page &lt;!channel&gt;" in texts(Answer(text=PINGING))[0]
    messages = blocks.build_messages(answer)
    # Nor does Slack read @here in it.
    assert all(holder["verbatim"] for message in messages for holder in holders(message))


def test_p31_a_source_with_odd_characters_is_one_link() -> None:
    odd = citation(
        title='Ops [EU] | "Run>book"',
        heading_path=(),
        url="https://wiki.example/p?a=1&b=<x>|y z",
    )
    assert blocks.build_source_line(odd) == (
        "[1] <https://wiki.example/p?a=1&amp;b=%3Cx%3E%7Cy%20z|"
        'Ops [EU] ¦ "Run&gt;book"> · verified 2026-03-01 · People Team'
    )


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (
            citation(),
            "[1] <https://wiki.example/leave|Leave › Carry-over>"
            " · verified 2026-03-01 · People Team",
        ),
        (
            citation(verified_at=None, owner=None, heading_path=("Leave",)),
            "[1] <https://wiki.example/leave|Leave> · updated 2026-02-01",
        ),
        (citation(verified_at=None, updated_at=None, owner=None, url="leave.md"),
         "[1] Leave › Carry-over"),
        *(
            (
                citation(verified_at=None, updated_at=None, url="leave.md", owner=owner),
                f"[1] Leave › Carry-over · `{owner}`",
            )
            for owner in ("*Bob*", "Bob · verified 2026-03-01", "Bob [2] Payroll")
        ),
        (
            citation(caveat="last verified 2023-02-01, 3 years ago, older than [2]"),
            "[1] <https://wiki.example/leave|Leave › Carry-over>"
            " · ⚠️ last verified 2023-02-01, 3 years ago, older than [2] · People Team",
        ),
    ],
)  # fmt: skip
def test_a_source_says_where_it_leads_and_how_fresh_it_is(source: Citation, line: str) -> None:
    assert blocks.build_source_line(source) == line


def test_sources_stand_below_the_answer_and_in_the_fallback() -> None:
    answer = Answer(text="Five [1].", citations=(citation(), citation(marker=2, owner=None)))
    (message,) = blocks.build_messages(answer)
    assert [block["type"] for block in message.blocks] == ["section", "context", "context_actions"]
    (element,) = message.blocks[1]["elements"]
    assert [line[:3] for line in element["text"].splitlines()] == ["[1]", "[2]"]
    assert message.text == f"Five [1].\n\n{element['text']}"


def test_an_answer_is_shown_whole_and_many_sources_are_folded() -> None:
    answer = Answer(text="Five [1].", citations=tuple(citation(marker=n) for n in range(1, 5)))
    (message,) = blocks.build_messages(answer)
    said, sources, _ = message.blocks
    assert said["expand"] and sources["type"] == "section" and not sources.get("expand")
    assert [line[:3] for line in sources["text"]["text"].splitlines()] == [
        *("[1]", "[2]", "[3]", "[4]")
    ]
    few = blocks.build_messages(replace(answer, citations=answer.citations[:3]))[0]
    assert few.blocks[1]["type"] == "context"


def test_an_answer_without_sources_has_no_source_list() -> None:
    (message,) = blocks.build_messages(
        Answer(text="I found nothing.", abstained_because="NO_CANDIDATES")
    )
    assert [block["type"] for block in message.blocks] == ["section", "context_actions"]


def test_small_talk_is_not_voted_on() -> None:
    (message,) = blocks.build_messages(Answer(text="Ask me a question."))
    assert [block["type"] for block in message.blocks] == ["section"]


def test_a_button_says_which_vote_it_is_to_eyes_and_screen_readers() -> None:
    (message,) = blocks.build_messages(Answer(text="Five [1].", citations=(citation(),)))
    (element,) = message.blocks[-1]["elements"]
    assert (element["type"], element["action_id"]) == ("feedback_buttons", blocks.FEEDBACK)
    for name, vote in (("positive_button", 1), ("negative_button", -1)):
        button = element[name]
        assert feedback.find_vote(button["value"]) == vote
        assert button["text"]["text"] and button["accessibility_label"]


LONG = {
    "paragraphs": "\n\n".join(f"Paragraph {number} " + "word " * 300 for number in range(40)),
    "one paragraph": "word & " * 6_000,
    "one word": "x" * 20_000,
    "ampersands": "&" * 20_000,
    "links": "[a label of words](https://wiki.example/leave) " * 800,
    "code": "```\n" + "".join(f"line {number} <x>\n" for number in range(2_000)) + "```",
    "one line of code": "```\n" + "y" * 20_000 + "\n```",
    "table": "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 2_000,
    "list": "- item\n" * 3_000,
    "brackets": "[" * 20_000,
    "spaces": "a" + " " * 20_000 + "`b`",
    "headings": "# H\n\n" * 3_000,
}


@pytest.mark.parametrize("markdown", LONG.values(), ids=LONG.keys())
def test_slack_takes_an_answer_of_any_length(markdown: str) -> None:
    sources = [
        replace(
            citation(title="T" * 400, owner="&" * 400, url="https://x/" + "u" * 1_400), marker=n
        )
        for n in range(1, 6)
    ]
    leave = citation(marker=6)
    messages = blocks.build_messages(Answer(text=markdown, citations=(*sources, leave)))
    for message in messages:
        assert slack_limits.problems(message.blocks) == []
        assert len(message.blocks) <= slack_limits.MESSAGE_BLOCKS
        assert sum(map(len, block_texts(message))) <= 12_000
        assert 0 < len(message.text) <= slack_limits.UPDATE_TEXT
        for text in block_texts(message):
            assert text.count("```") % 2 == 0  # no cut leaves a fence open
            assert not re.search(r"[<>]", re.sub(r"<[^<>]+>", "", text))  # nor a link
    assert "[6]" in block_texts(messages[-1])[-1]
    assert [message for message in messages if message.blocks[-1]["type"] == "context_actions"] == [
        messages[-1]
    ]


def test_a_cut_loses_nothing() -> None:
    (code,) = re.findall(r"```\n(.*)```", LONG["code"], re.DOTALL)
    messages = blocks.build_messages(Answer(text=LONG["code"]))
    parts = [text for message in messages for text in block_texts(message)]
    lines = [text.removeprefix("```\n").removesuffix("\n```") for text in parts]
    assert "\n".join(lines).replace("&lt;x&gt;", "<x>") == code.rstrip("\n")
    words = blocks.build_messages(Answer(text=LONG["paragraphs"]))
    joined = " ".join(text for message in words for text in block_texts(message))
    assert joined.split() == LONG["paragraphs"].split()


def test_p44_the_nearest_page_is_one_marked_link_and_no_citation() -> None:
    nearest = Nearest(
        path="a.md",
        title=PINGING,
        heading_path=("A", "Run>book | x"),
        url="https://wiki.example/p?a=1&b=<x>|y z",
    )
    answer = Answer(text="I found none.", abstained_because="BELOW_FLOOR", nearest=nearest)
    (message,) = blocks.build_messages(answer)
    line = block_texts(message)[-1]
    assert line.startswith(
        "Nearest page, may not answer: <https://wiki.example/p?a=1&amp;b=%3Cx%3E"
    )
    assert line.endswith(" › Run&gt;book ¦ x>")
    assert line.count("<") == 1 and "[1]" not in message.text
    assert message.text == f"I found none.\n\n{line}"
    assert slack_limits.problems(blocks.offer_person(message).blocks) == []
    stale = replace(answer, nearest=replace(nearest, caveat="is filed as archived"))
    (message,) = blocks.build_messages(stale)
    assert block_texts(message)[-1] == f"{line} · ⚠️ is filed as archived"
