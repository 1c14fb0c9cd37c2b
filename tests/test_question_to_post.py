"""A Slack event in; the posted message and the saved trace out, with the sample documents."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from app import abstaining
from app.abstaining import IN_CHANNEL
from app.answering import Answerer
from app.config import Settings
from app.generate.anthropic import Claude
from app.generate.quoted import Quoter
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.retrieve import Retriever
from tests.app.bot import connected, find_rows
from tests.retrieval.pages import build_retriever, ingest, page
from tests.stand_ins.claude import Cite, ClaudeStandIn, Text
from tests.stand_ins.slack import SlackStandIn
from tests.stand_ins.slack_workspace import TEAM_ID

ERR_2041 = "what does err 2041 mean?"


@pytest.fixture
def quoting(retriever: Retriever) -> Answerer:
    return Answerer(retriever=retriever, generator=Quoter(retriever.embedder))


@pytest.fixture
def claude(retriever: Retriever, stand_in: ClaudeStandIn) -> Iterator[Answerer]:
    settings = Settings(
        anthropic_api_key=SecretStr(stand_in.api_key), anthropic_base_url=stand_in.base_url
    )
    with Claude(settings) as generator:
        yield Answerer(retriever=retriever, generator=generator)


@contextmanager
def serving(slack: SlackStandIn, answerer: Answerer) -> Iterator[None]:
    """The bot as it serves; what was sent to it is over when the block is left."""
    with connected(slack, answerer.retriever.database, answerer=answerer):
        yield


def ask(slack: SlackStandIn, answerer: Answerer, question: str) -> dict[str, Any]:
    """Mention the bot; the message with its answer."""
    event = slack.write(f"<@U0BOT> {question}", channel_id="C1")
    with serving(slack, answerer):
        slack.wait_for_ack(slack.send_event({**event, "type": "app_mention"}))
    root, answer = slack.messages("C1", event["ts"])
    assert root["ts"] == event["ts"] and "reactions" not in root
    return answer


def find_source_list(answer: Mapping[str, Any]) -> str:
    # A stale page has a button of its own.
    *_, sources, buttons = (each for each in answer["blocks"] if each["type"] != "actions")
    assert (sources["type"], buttons["type"]) == ("context", "context_actions")
    return str(sources["elements"][0]["text"])


def find_sources(answer: Mapping[str, Any]) -> dict[int, str]:
    """The URL of each number in the source list."""
    lines = find_source_list(answer).splitlines()
    found = [re.match(r"\[(\d+)\] <([^|>]+)\|", line) for line in lines]
    return {int(match[1]): match[2] for match in found if match}


def find_trace(answerer: Answerer) -> Any:
    (trace,) = find_rows(answerer.retriever.database, "traces")
    return trace


def test_a_question_becomes_a_quoted_answer_and_a_trace(
    slack: SlackStandIn, quoting: Answerer
) -> None:
    answer = ask(slack, quoting, ERR_2041)
    assert "ERR_2041" in answer["text"] and "[1]" in answer["text"]
    assert find_sources(answer)[1].startswith("https://wiki.halvermeer.example/")
    assert "verified 2026-" in find_source_list(answer)
    (call,) = slack.calls("chat.postMessage")
    assert (call.params["unfurl_links"], call.params["unfurl_media"]) == (False, False)

    trace = find_trace(quoting)
    assert (trace.outcome, trace.question, trace.queries) == ("answered", ERR_2041, [ERR_2041])
    assert (trace.team_id, trace.channel_id, trace.user_id) == (TEAM_ID, "C1", "U1")
    assert trace.answer_ts == [answer["ts"]]
    assert trace.abstained_because is None and trace.error_class is None
    assert {citation["url"] for citation in trace.citations} == set(find_sources(answer).values())
    kept = [each["section_id"] for each in trace.candidates][: len(trace.kept)]
    assert trace.kept == kept
    assert {"doc", "chunk_ids", "rrf_score", "relevance"} <= set(trace.candidates[0])
    assert trace.settings["generator"] == "quoted"
    assert {"embed", "rerank", "generate", "total"} <= set(trace.stage_ms)
    assert trace.completed_at >= trace.asked_at


def test_an_off_topic_question_is_refused_in_words(slack: SlackStandIn, quoting: Answerer) -> None:
    answer = ask(slack, quoting, "who wrote the opera Aida?")
    refused = "I couldn't find this in the 35 pages of wiki."
    assert answer["text"] == f"{refused} {abstaining.IN_CHANNEL}"
    trace = find_trace(quoting)
    assert (trace.outcome, trace.abstained_because) == ("abstained", "BELOW_FLOOR")
    assert (trace.kept, trace.citations) == ([], [])
    assert trace.candidates  # so that one can see how near it was


def test_claude_writes_the_answer_from_what_was_kept(
    slack: SlackStandIn, claude: Answerer, stand_in: ClaudeStandIn
) -> None:
    answer = ask(slack, claude, ERR_2041)  # the stand-in quotes the first block
    (request,) = stand_in.requests()
    *results, question = request.body["messages"][-1]["content"]
    assert question["text"] == ERR_2041
    assert answer["text"].startswith("It says: ")
    assert list(find_sources(answer)) == [1]
    trace = find_trace(claude)
    assert len(results) == len(trace.kept)
    assert find_sources(answer) == {1: results[0]["source"]}
    assert trace.settings["generator"] == request.body["model"]
    assert trace.tokens["input"] > trace.tokens["output"] > 0


ABROAD = {
    "Bis wann stelle ich den Urlaubsantrag?": (
        "Urlaubsanträge stellen Sie spätestens zwei Wochen vorher im Portal."
    ),
    "Jusqu'à quand déposer mes notes de frais ?": (
        "Les employés déposent leurs notes de frais avant le 5 du mois."
    ),
    "経費精算の申請はいつまでですか": (
        "出張の経費精算は、翌月の五日までにシステムから申請してください。"
    ),
}


@pytest.mark.parametrize("question", ABROAD)
def test_a_page_in_another_language_is_quoted_as_it_is(
    slack: SlackStandIn, database: Database, embedder: Embedder, question: str
) -> None:
    texts = [f"# {text.split()[0][:4]}\n\n{text}\n" for text in ABROAD.values()]
    ingest(database, embedder, *(page(f"{at}.md", text) for at, text in enumerate(texts)))
    retriever = build_retriever(database, embedder)
    answerer = Answerer(retriever=retriever, generator=Quoter(embedder))
    answer = ask(slack, answerer, question)
    assert f"{ABROAD[question]} [1]" in answer["text"]
    (citation,) = find_trace(answerer).citations
    assert citation["cited_text"] == ABROAD[question]


def test_claude_is_asked_for_the_language_of_the_question_and_its_words_stay(
    slack: SlackStandIn, claude: Answerer, stand_in: ClaudeStandIn
) -> None:
    stand_in.reply([Text("Die Vorlage wird zurückgesetzt.", cites=[(0, 0, 1)])])
    answer = ask(slack, claude, "Was bedeutet ERR_2041?")
    (request,) = stand_in.requests()
    assert "Write in the language of the question" in str(request.body["system"])
    assert answer["text"].startswith("Die Vorlage wird zurückgesetzt. [1]")


def test_p39_numbers_and_source_list_agree_whatever_the_order_of_the_reranking(
    slack: SlackStandIn, claude: Answerer, stand_in: ClaudeStandIn
) -> None:
    shown: list[str] = []

    def last_then_first(body: Mapping[str, Any]) -> list[Text]:
        results = [each for each in body["messages"][-1]["content"] if "source" in each]
        shown.extend(each["source"] for each in results)
        last = len(results) - 1
        return [
            Text("The last says one thing.", cites=[(last, 0, 1)]),
            Text(" The first says another [7].", cites=[(0, 0, 1)]),
            Text(" And the last again.", cites=[(last, 0, 1)]),
        ]

    stand_in.reply(last_then_first)
    answer = ask(slack, claude, ERR_2041)
    assert len(shown) >= 2
    assert answer["text"].endswith(  # what comes first may be stale, and then says so
        "The last says one thing. [1] The first says another. [2] And the last again. [1]"
    )
    assert find_sources(answer) == {1: shown[-1], 2: shown[0]}


def test_an_answer_that_cites_what_no_section_holds_is_not_shown(
    slack: SlackStandIn, claude: Answerer, stand_in: ClaudeStandIn
) -> None:
    invented = Cite(0, 0, 1, cited_text="ERR_2041 means that the fuse is blown.")
    stand_in.reply([Text("The fuse is blown.", cites=[invented])])
    answer = ask(slack, claude, ERR_2041)
    assert "fuse" not in str(answer)
    assert answer["text"] == (
        "I found related pages, but they don't answer this. I looked in the 35 pages of wiki. "
        f"{IN_CHANNEL}\n\nNearest page, may not answer: "
        "<https://wiki.halvermeer.example/reference/error-codes.md|Error codes>"
    )
    trace = find_trace(claude)
    assert (trace.outcome, trace.abstained_because) == ("abstained", "UNSUPPORTED")
    assert trace.kept and trace.citations == []
    assert trace.settings["nearest"]["path"] == "reference/error-codes.md"


def test_a_claude_that_is_down_is_told_and_traced(
    slack: SlackStandIn, claude: Answerer, stand_in: ClaudeStandIn
) -> None:
    stand_in.fail_next(500, times=3)  # the client tries three times
    answer = ask(slack, claude, ERR_2041)
    trace = find_trace(claude)
    assert str(trace.trace_id) in answer["text"]
    assert (trace.outcome, trace.error_class) == ("failed", "GenerationError")
    assert trace.candidates and trace.kept  # what was found is not lost


def test_a_thumbs_down_is_tied_to_the_trace_and_counted(
    slack: SlackStandIn, quoting: Answerer
) -> None:
    answer = ask(slack, quoting, ERR_2041)
    with serving(slack, quoting):
        envelope_id = slack.send_event(
            {
                "type": "reaction_added",
                "user": "U2",
                "reaction": "-1::skin-tone-3",
                "item": {"type": "message", "channel": "C1", "ts": answer["ts"]},
                "event_ts": "1800000000.000001",
            }
        )
        slack.wait_for_ack(envelope_id)
    (vote,) = find_rows(quoting.retriever.database, "feedback")
    assert (vote.trace_id, vote.user_id, vote.vote) == (find_trace(quoting).trace_id, "U2", -1)
    with serving(slack, quoting):
        slack.send_slash_command("/ragstats", "", "U1", "C1")
        (call,) = slack.wait_for_call("response_url")
    assert call.params["response_type"] == "ephemeral"
    assert "Asked: 1\nAnswered: 1 (100%)" in call.params["text"]
    assert "Flagged 👎: 1 (100%)" in call.params["text"]


def test_a_follow_up_in_the_thread_is_searched_with_its_question(
    slack: SlackStandIn, quoting: Answerer
) -> None:
    answer = ask(slack, quoting, "what do I get per day for being on call?")
    event = slack.write("<@U0BOT> and sundays?", channel_id="C1", thread_ts=answer["thread_ts"])
    with serving(slack, quoting):
        slack.send_event({**event, "type": "app_mention"})
        slack.wait_for_call("chat.postMessage", count=2, timeout_s=60)
    *_, followed = find_rows(quoting.retriever.database, "traces")
    both = "what do I get per day for being on call? and sundays?"
    assert followed.queries == [both, "and sundays?"]
    assert "runbooks/oncall-guide.md" in {each["doc"] for each in followed.candidates[:5]}
