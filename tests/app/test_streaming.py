"""Answers that grow: seen once, whole, and never by halves."""

import html
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, pairwise
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pytest

from app import posting
from app.answering import Keeping, Tell, Writing
from app.config import Settings
from app.generate.anthropic import Claude
from app.posting import Part
from app.records import Answer, Arrival, Citation, Successor, Turn
from app.streaming import Stream
from retrieval.db import Database
from retrieval.records import Candidate, Query
from tests.app.bot import Bot, connected, find_rows
from tests.app.test_citations import section
from tests.stand_ins.claude import Cite, ClaudeStandIn, Text
from tests.stand_ins.slack import SlackStandIn

ANSWERS = 200
SOURCE = "https://wiki.example/leave"
WORDS = [f"Sentence {number} says so. [1]" for number in range(1, 7)]
TEXT = " ".join(WORDS)
CITATION = Citation(
    marker=1,
    section_id=1,
    path="leave.md",
    title="Leave",
    heading_path=("Leave",),
    url=SOURCE,
    cited_text="It says so.",
    owner=None,
    updated_at=None,
    verified_at=None,
)


def build_answer(text: str) -> Answer:
    return Answer(text=text, citations=(CITATION,))


DRAFTS = [build_answer(" ".join(WORDS[:count])) for count in range(1, 7)]


@pytest.fixture
def growing(bot: Bot) -> Bot:
    """A bot whose answer to "how?" comes by and by."""
    bot.answerer.answers["how?"] = build_answer(TEXT)
    bot.answerer.written["how?"] = DRAFTS
    return bot


def appended(slack: SlackStandIn) -> list[str]:
    return [call.params["markdown_text"] for call in slack.calls("chat.appendStream")]


def posted(slack: SlackStandIn, channel_id: str = "C1") -> list[dict[str, Any]]:
    """The bot's messages."""
    return [each for each in slack.messages(channel_id) if each.get("bot_id")]


def build_arrival(slack: SlackStandIn, question: str, **changes: Any) -> Arrival:
    """A question that somebody has just written in a channel."""
    ts = slack.write(question, channel_id="C1")["ts"]
    values: dict[str, Any] = {
        "question": question,
        "surface": "slack",
        "team_id": "T0001",
        "channel_id": "C1",
        "message_ts": ts,
        "thread_ts": ts,
        "user_id": "U1",
        "user_team_id": "T0001",
    }
    return Arrival(**{**values, **changes})


def find_trace(bot: Bot) -> Any:
    (trace,) = find_rows(bot.database, "traces")
    return trace


def assert_whole(message: dict[str, Any]) -> None:
    """The answer stands there once, posted as one, with its source list and the buttons."""
    *sections, sources, buttons = message["blocks"]
    assert "\n\n".join(section["text"]["text"] for section in sections) == TEXT
    assert_below([sources, buttons])


def assert_below(blocks: list[dict[str, Any]]) -> None:
    sources, buttons = blocks
    assert SOURCE in sources["elements"][0]["text"]
    assert buttons["elements"][0]["type"] == "feedback_buttons"


def test_an_answer_grows_and_ends_with_its_sources_and_the_buttons(growing: Bot) -> None:
    answer = growing.ask("how?")
    assert answer["text"] == TEXT
    assert_below(answer["blocks"])
    payload = answer["metadata"]["event_payload"]
    assert payload["trace_id"] == str(find_trace(growing).trace_id)
    assert len(posted(growing.slack)) == 1 and len(appended(growing.slack)) == 5
    assert find_trace(growing).answer_ts == [answer["ts"]]
    assert not growing.slack.calls("chat.postMessage") + growing.slack.calls("chat.update")


def test_in_a_channel_slack_is_told_for_whom_an_answer_grows(growing: Bot) -> None:
    growing.ask("how?")
    (call,) = growing.slack.calls("chat.startStream")
    assert call.params["recipient_user_id"] == "U1"
    assert call.params["recipient_team_id"] == "T0001"


def test_for_a_guest_of_another_workspace_slack_is_told_which(growing: Bot) -> None:
    growing.jobs.take(build_arrival(growing.slack, "how?", user_team_id="T0999"))
    growing.settle()
    (call,) = growing.slack.calls("chat.startStream")
    assert call.params["recipient_team_id"] == "T0999"


def test_where_nobody_knows_for_whom_the_answer_comes_whole(growing: Bot) -> None:
    growing.jobs.take(build_arrival(growing.slack, "how?", user_team_id=None))
    growing.settle()
    assert not growing.slack.calls("chat.startStream")
    (answer,) = posted(growing.slack)
    assert_whole(answer)


def test_in_direct_messages_an_answer_grows_too(growing: Bot) -> None:
    message = growing.slack.write("how?", channel_id="D1")
    growing.slack.send_event({**message, "channel_type": "im"})
    growing.slack.wait_for_call("chat.stopStream")
    (answer,) = posted(growing.slack, "D1")
    assert (answer["text"], answer["thread_ts"]) == (TEXT, message["ts"])


@pytest.mark.parametrize("error", ["message_not_in_streaming_state", "internal_error"])
def test_an_answer_whose_stream_ends_early_stands_there_whole_once(
    growing: Bot, error: str
) -> None:
    slack = growing.slack
    release = Event()
    growing.answerer.written["how?"] = DRAFTS[:4]
    growing.answerer.held["how?"] = release
    event = growing.mention("how?")
    slack.send_event(event)
    growing.answerer.wait_until_asked("how?")
    # The first two are taken, the third not; the rest is never sent by parts.
    slack.fail_next("chat.appendStream", body={"ok": True}, after_storing=True, times=2)
    slack.fail_next("chat.appendStream", body={"ok": False, "error": error})
    slack.fail_next("chat.stopStream", body={"ok": False, "error": error}, after_storing=True)
    release.set()
    slack.wait_for_call("chat.update")
    growing.settle()
    (answer,) = posted(slack)
    assert_whole(answer)
    assert find_trace(growing).answer_ts == [answer["ts"]]
    assert find_trace(growing).outcome == "answered"


def test_a_stream_that_cannot_be_finished_is_ended_and_replaced(growing: Bot) -> None:
    growing.slack.fail_next("chat.stopStream", body={"ok": False, "error": "internal_error"})
    answer = growing.ask("how?")
    assert_whole(answer)
    (started,) = growing.slack.calls("chat.startStream")
    assert started.answer is not None and started.answer["ts"] == answer["ts"]
    assert len(posted(growing.slack)) == 1


def test_an_answer_grows_no_faster_than_it_is_read(slack: SlackStandIn, database: Database) -> None:
    stream = Stream(
        posting.build_client(slack.bot_token, slack.api_url),
        build_arrival(slack, "how?"),
        Part(trace_id=uuid4(), key="k", number=0, count=1),
        lambda ts: None,
        interval_s=60,
    )
    for draft in DRAFTS:
        stream.grow(draft)
    assert appended(slack) == [WORDS[0]]
    assert stream.finish(DRAFTS[-1])
    assert posted(slack)[0]["text"] == TEXT


def test_of_two_processes_that_answer_an_edited_question_the_later_wins(
    slack: SlackStandIn, database: Database
) -> None:
    release = Event()
    with connected(slack, database) as first, connected(slack, database) as second:
        slack.delay("chat.postMessage", release)
        arrival = build_arrival(slack, "how long?", user_team_id=None)
        first.jobs.take(arrival)
        slack.wait_for_call("chat.postMessage")
        second.jobs.revise(replace(arrival, question="how far?"))
        slack.wait_for_call("chat.postMessage", count=2)
        release.set()
        first.settle()
        second.settle()
    (answer,) = posted(slack)
    (trace,) = find_rows(database, "traces")
    assert answer["text"] == "You ask: how far?"
    assert (trace.answer, trace.answer_ts) == ("You ask: how far?", [answer["ts"]])


@pytest.mark.parametrize("method", ["chat.appendStream", "chat.stopStream"])
@pytest.mark.parametrize("after_storing", [True, False])
def test_where_nobody_knows_what_is_seen_the_whole_takes_its_place(
    growing: Bot, method: str, after_storing: bool
) -> None:
    growing.slack.fail_next(method, drop_connection=True, after_storing=after_storing)
    answer = growing.ask("how?")
    assert_whole(answer)
    assert len(posted(growing.slack)) == 1


def test_a_stream_that_may_have_begun_has_no_words_beside_the_answer(growing: Bot) -> None:
    growing.slack.fail_next("chat.startStream", drop_connection=True, after_storing=True)
    growing.jobs.take(build_arrival(growing.slack, "how?"))
    growing.settle()
    (answer,) = posted(growing.slack)
    assert_whole(answer)


@pytest.mark.parametrize(
    "error", ["missing_scope", "channel_type_not_supported", "not_allowed_token_type"]
)
def test_where_slack_takes_no_stream_the_answer_comes_whole(growing: Bot, error: str) -> None:
    growing.slack.fail_next("chat.startStream", body={"ok": False, "error": error})
    assert_whole(growing.ask("how?"))
    assert len(growing.slack.calls("chat.startStream")) == 1
    assert len(posted(growing.slack)) == 1


def test_a_message_that_cannot_be_changed_gives_way_to_the_whole(growing: Bot) -> None:
    growing.slack.fail_next("chat.stopStream", body={"ok": False, "error": "internal_error"})
    growing.slack.fail_next("chat.update", body={"ok": False, "error": "edit_window_closed"})
    assert_whole(growing.ask("how?"))
    assert len(posted(growing.slack)) == 1


def test_the_asker_may_stop_an_answer(growing: Bot) -> None:
    slack = growing.slack
    successor = Successor(document_id=7, path="new.md", title="New", url="")
    cited = (replace(CITATION, successor=successor),)
    growing.answerer.written["how?"] = [replace(each, citations=cited) for each in DRAFTS]
    slack.fail_next("chat.appendStream", body={"ok": True}, after_storing=True, times=2)
    slack.fail_next("chat.appendStream", body={"ok": False, "error": "stopped_by_user"})
    answer = growing.ask("how?")
    assert answer["text"] == " ".join(WORDS[:2])
    assert len(posted(slack)) == 1 and len(appended(slack)) == 3
    assert not slack.calls("chat.postMessage") + slack.calls("chat.update")
    trace = find_trace(growing)
    assert (trace.outcome, trace.error_class) == ("stopped", None)
    assert trace.answer == " ".join(WORDS[:2]) and trace.answer_ts == [answer["ts"]]
    assert [each["path"] for each in trace.citations] == ["leave.md"]
    assert trace.document_ids == [7]  # whom the answer may be shown goes by it, too


def test_of_an_answer_stopped_before_its_first_word_nothing_stays(growing: Bot) -> None:
    growing.slack.fail_next("chat.appendStream", body={"ok": False, "error": "stopped_by_user"})
    growing.jobs.take(build_arrival(growing.slack, "how?"))
    growing.settle()
    assert posted(growing.slack) == [] and find_trace(growing).outcome == "stopped"


def test_the_asker_may_stop_an_answer_at_its_end(growing: Bot) -> None:
    growing.slack.fail_next("chat.stopStream", body={"ok": False, "error": "stopped_by_user"})
    growing.ask("how?")
    assert len(posted(growing.slack)) == 1
    assert not growing.slack.calls("chat.postMessage") + growing.slack.calls("chat.update")
    assert find_trace(growing).outcome == "stopped"


def test_when_slack_asks_to_wait_the_answer_goes_on_later(growing: Bot) -> None:
    slack = growing.slack
    slack.fail_next("chat.appendStream", status=429, headers={"Retry-After": "30"})
    answer = growing.ask("how?")  # 30 s are not waited for: what is left comes at the end
    assert answer["text"] == TEXT and len(posted(slack)) == 1
    assert len(appended(slack)) == 1
    assert_below(answer["blocks"])


def test_where_slack_asks_to_wait_with_the_end_of_an_answer_the_whole_takes_its_place(
    growing: Bot,
) -> None:
    growing.slack.fail_next("chat.stopStream", status=429, headers={"Retry-After": "30"}, times=2)
    assert_whole(growing.ask("how?"))  # 30 s are not waited for
    assert len(posted(growing.slack)) == 1


def test_what_is_seen_of_an_answer_that_fails_gives_way_to_the_reference(growing: Bot) -> None:
    growing.answerer.answers["how?"] = RuntimeError("Claude broke off")
    answer = growing.ask("how?")
    assert str(find_trace(growing).trace_id) in answer["text"]
    assert "Sentence" not in str(answer["blocks"]) and len(posted(growing.slack)) == 1


def test_the_answer_to_a_question_deleted_meanwhile_goes(growing: Bot) -> None:
    slack, release = growing.slack, Event()
    slack.delay("chat.appendStream", release)
    event = growing.mention("how?")
    slack.send_event(event)
    slack.wait_for_call("chat.appendStream")
    slack.wait_for_ack(slack.send_event(slack.delete(event)))
    slack.wait_for_call("chat.delete")
    release.set()
    growing.settle()
    assert posted(slack) == []


def test_the_answer_to_a_question_edited_meanwhile_is_replaced(growing: Bot) -> None:
    slack, release = growing.slack, Event()
    slack.delay("chat.appendStream", release)
    event = growing.mention("how?")
    slack.send_event(event)
    slack.wait_for_call("chat.appendStream")
    edited = slack.edit(event, "<@U0BOT> how long?")
    slack.wait_for_ack(slack.send_event(edited))
    growing.app.listener_runner.listener_executor.shutdown()
    release.set()
    growing.settle()
    (answer,) = posted(slack)
    assert answer["text"] == "You ask: how long?"


def test_when_the_bot_stops_another_one_puts_the_whole_in_the_place_of_what_is_seen(
    growing: Bot, database: Database
) -> None:
    slack, release = growing.slack, Event()
    slack.delay("chat.appendStream", release)
    slack.send_event(growing.mention("how?"))
    slack.wait_for_call("chat.appendStream")
    closing = Thread(target=growing.close, args=(0,))
    closing.start()
    growing.attempts.is_stopping.wait(10)
    release.set()
    closing.join()
    (seen,) = posted(slack)
    with connected(slack, database):
        pass
    (answer,) = posted(slack)
    assert (answer["ts"], answer["text"]) == (seen["ts"], "You ask: how?")
    trace = find_trace(growing)
    assert (trace.outcome, trace.attempts, trace.answer_ts) == ("answered", 2, [seen["ts"]])


def test_a_long_answer_goes_on_in_further_messages(bot: Bot) -> None:
    paragraphs = ["word " * 500 + "[1]" for _ in range(6)]  # 2,500 characters each
    text = "\n\n".join(paragraphs)
    bot.answerer.written["how?"] = [
        build_answer("\n\n".join(paragraphs[:count])) for count in range(1, 7)
    ]
    bot.answerer.answers["how?"] = build_answer(text)
    bot.ask("how?")
    messages = posted(bot.slack)
    sections = [
        block["text"]["text"].split()
        for message in messages
        for block in message["blocks"]
        if block["type"] == "section"
    ]
    assert len(messages) == 2 and list(chain(*sections)) == text.split()
    assert find_trace(bot).answer_ts == [message["ts"] for message in messages]


def test_what_slack_could_take_for_more_than_text_is_not_left_to_it(bot: Bot) -> None:
    mail = "Write to payroll-help@corp.example, or `payroll-help@corp.example`. [1]"
    page = "Page <!channel> and <!subteam^S123|@oncall>, or @here, when <@U0AAAA> is away. [1]"
    texts = (mail, f"{mail} Then wait.", f"{mail} Then wait. {page}")
    drafts = [build_answer(text) for text in (*texts, f"{texts[-1]} So it is.")]
    bot.answerer.written["who?"] = drafts
    bot.answerer.answers["who?"] = drafts[-1]
    answer = bot.ask("who?")
    assert "".join(appended(bot.slack)).strip() == f"{mail} Then wait."
    said, *_ = answer["blocks"]
    assert "Page &lt;!channel&gt; and" in said["text"]["text"]
    assert said["text"]["verbatim"] and len(posted(bot.slack)) == 1


# Any answer, however it is cut


PARAGRAPHS = [
    "Run `items[1]` and ``a ` b`` at 10:00, or write to payroll-help@corp.example.",
    f"See [the leave page]({SOURCE}) (or {SOURCE}), **in bold**, _in italics_ and ~~struck~~.",
    "```python\nrows[2] = {'a': [1]}\n\nif a < b:\n    print('<!-- x -->')\n```",
    "| Code | Means |\n| --- | --- |\n| `E1` | **too** many |\n| `E2` | |",
    "1. Stop it.\n2. Start it:\n\n   ```\n   spool start\n   ```\n\n3. Wait.",
    "- one\n  - nested one\n- two\n\n> quoted, she said",
    "Code | Means\n--- | ---\n`E1` | too many",
    "The [leave\npage](https://wiki.example/leave) says so.",
    "## A heading\n\nÜñïcödé 🙂 with a line\nbreak and 1 < 2 && 3 > 2.",
    "Restart <service> for <@U0AAAA>, not <!channel>; the limit is 15 %.",
]
PAGES = ("Leave is 30 days. Ask payroll-help@corp.example.", "Sick leave is paid. Send the note.")


def build_generated(seed: int) -> list[Text]:
    """Some paragraphs as the blocks of one answer, cut anywhere, some of them cited."""
    generator = random.Random(seed)
    text = "\n\n".join(generator.choices(PARAGRAPHS, k=generator.randint(1, 5)))
    cuts = sorted({0, len(text), *generator.choices(range(len(text)), k=generator.randint(0, 8))})
    blocks = []
    for start, end in pairwise(cuts):
        is_cited = generator.random() < 0.6 or end == len(text)
        cites: list[Cite] = [(generator.randrange(2), 0, 1)] if is_cited else []
        blocks.append(Text(text[start:end], cites=cites))
    return blocks


def build_candidate(number: int) -> Candidate:
    url = SOURCE if number == 0 else "https://wiki.example/sick"
    source = section(PAGES[number], section_id=number, document_id=number, url=url)
    return Candidate(section=source, hits=(), rrf_score=0.0)


class Generated:
    """Answers by Claude from two sections."""

    def __init__(self, claude: Claude) -> None:
        self._claude = claude

    def reading_as(self, _audiences: Iterable[str]) -> "Generated":
        return self

    def answer(
        self,
        turns: tuple[Turn, ...],
        trace: Keeping,
        tell: Tell,
    ) -> Answer:
        question = turns[-1].text
        answer = self._claude.generate(
            turns,
            Query(text=question, question=question),
            [build_candidate(0), build_candidate(1)],
            lambda answer: tell(Writing(answer=answer)),
        )
        trace.save_answer(answer, {}, {})
        return answer


@pytest.fixture
def claude_stand_in() -> Iterator[ClaudeStandIn]:
    with ClaudeStandIn(piece_characters=3) as stand_in:
        yield stand_in
        stand_in.assert_no_unknown_calls()


@pytest.fixture
def claude_bot(
    slack: SlackStandIn, database: Database, claude_stand_in: ClaudeStandIn
) -> Iterator[Bot]:
    """Questions answered by Claude, each answer growing as often as it can."""
    settings = Settings.model_validate(
        {
            "anthropic_api_key": claude_stand_in.api_key,
            "anthropic_base_url": claude_stand_in.base_url,
        }
    )
    with Claude(settings) as claude:
        yield Bot(slack, database, answerer=Generated(claude), questions_per_channel=1_000)


def squeeze(text: str) -> str:
    """What is left without the markers, for which a blank or a line may be put in."""
    return "".join(re.sub(r"\[\d\]", "", text).split())


def read_words(shown: str) -> list[str]:
    """The words that somebody sees, of Markdown or mrkdwn alike, but for the numbers of steps."""
    labels = re.sub(r"\]\([^)]*\)|<[^<>|]*\||```python|</?b>|(?m:^ *\d\. )", " ", shown)
    return re.findall(r"\w+", html.unescape(labels))


def test_any_answer_is_posted_as_it_was_generated(
    slack: SlackStandIn, claude_bot: Bot, claude_stand_in: ClaudeStandIn
) -> None:
    generated = {}
    for seed in range(ANSWERS):
        blocks = build_generated(seed)
        question = f"Question {seed}?"
        generated[question] = "".join(block.text for block in blocks)
        claude_stand_in.reply(blocks, where=lambda body, asked=question: asked in str(body))
        claude_bot.jobs.take(build_arrival(slack, question))
    claude_bot.settle()
    messages = posted(slack)
    assert len(messages) == ANSWERS
    grown = 0
    for trace in find_rows(claude_bot.database, "traces"):
        assert squeeze(trace.answer) == squeeze(generated[trace.question])
        (message,) = (each for each in messages if each["ts"] in trace.answer_ts)
        sections = [each["text"]["text"] for each in message["blocks"] if each["type"] == "section"]
        if sections:  # posted whole: there was nothing to see before it was
            assert read_words("\n\n".join(sections)) == read_words(trace.answer)
        else:
            grown += 1
            shown = message["text"]
            assert shown == trace.answer
    assert grown > ANSWERS / 2
    calls = slack.calls("chat.appendStream")
    for ts in {call.params["ts"] for call in calls}:
        seen = ""
        for call in calls:
            if call.params["ts"] == ts:
                seen += call.params["markdown_text"]
                assert not re.search(r"\[[^\]\n]*\Z|^\|[^\n]*\Z", seen, re.MULTILINE)
