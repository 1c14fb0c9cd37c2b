"""The whole loop: a wrong answer, its 👎, the review, the case, the page put right, the figure."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree

from sqlalchemy import text

from app import posting
from app.answering import Answerer
from app.config import Settings
from app.generate.quoted import Quoter
from app.loop import cases, nightly, review_blocks
from retrieval import indexing
from retrieval.retrieve import Retriever
from tests.app.bot import Json, connected
from tests.app.nights import ignore
from tests.app.reviewing import (
    REVIEWERS,
    open_form,
    open_found,
    read,
    send,
    wait_until_shown,
)
from tests.conftest import SAMPLE
from tests.folders import read_folder
from tests.stand_ins.slack import SlackStandIn

REPORTS = "C8"
SETTINGS = Settings(review_channel=REVIEWERS, report_channel=REPORTS)
QUESTION = "why can't my app just read the tables of another team directly"
PATH = "decisions/0012-one-postgres-cluster-per-service.md"
FIX = """
## Reading the tables of another team

An app can't just read the tables of another team directly: every service owns its tables, and the
others ask it or listen to its events.
"""


@contextmanager
def serving(retriever: Retriever, slack: SlackStandIn) -> Iterator[None]:
    """The bot as it serves; what was sent to it is over when the block is left."""
    answerer = Answerer(retriever=retriever, generator=Quoter(retriever.embedder))
    channels = {"review_channel": REVIEWERS, "report_channel": REPORTS}
    with connected(slack, retriever.database, retriever=retriever, answerer=answerer, **channels):
        yield


def ask(slack: SlackStandIn, question: str) -> Json:
    """Mention the bot; the message with its answer."""
    event = slack.write(f"<@U0BOT> {question}", channel_id="C1")
    slack.send_event({**event, "type": "app_mention"})
    answer = slack.wait_for_message(
        "C1", lambda each: each.get("thread_ts") == event["ts"] and "bot_id" in each
    )
    # By then its trace knows which message it is.
    slack.wait_for_call("assistant.threads.setStatus", where=lambda call: not call.params["status"])
    return answer


def flag(slack: SlackStandIn, answer: Json) -> None:
    (element,) = answer["blocks"][-1]["elements"]
    pressed = {"type": element["type"], "action_id": element["action_id"], "value": "-1"}
    slack.send_block_action(pressed, user_id="U1", channel_id="C1", message_ts=answer["ts"])


def find_page(retriever: Retriever, path: str) -> int:
    with retriever.database.transaction() as connection:
        document_id: int = connection.execute(
            text("SELECT document_id FROM documents WHERE path = :path"), {"path": path}
        ).scalar_one()
    return document_id


def find_report(slack: SlackStandIn) -> Json:
    """The last report, which comes with a picture."""
    return [each for each in slack.messages(REPORTS) if each.get("files")][-1]


def ingest(retriever: Retriever, docs: Path) -> None:
    reads = read_folder(docs, base_url="https://wiki.halvermeer.example")
    indexing.ingest(
        retriever.database, retriever.embedder, reads, source="wiki", tuning=retriever.tuning
    )


def test_a_wrong_answer_becomes_a_case_that_passes_once_its_page_is_right(
    slack: SlackStandIn, retriever: Retriever, tmp_path: Path
) -> None:
    client = posting.build_client(slack.bot_token, slack.api_url)
    with serving(retriever, slack):
        answer = ask(slack, QUESTION)
        assert "I couldn't find this" in answer["text"]
        flag(slack, answer)
        review = wait_until_shown(slack, "likely *floor*")
        page_id = find_page(retriever, PATH)
        send(slack, open_form(slack, review, review_blocks.CHOOSE_PAGE), page=page_id)
        review = wait_until_shown(slack, "No service reads another one's database.")
        assert "*At fault:* *floor* – the right page was found, but not kept" in read(review)
        send(slack, open_found(slack, review))
        wait_until_shown(slack, "<@U5> has made it a case")
    (case,) = cases.list_cases(retriever.database)
    assert (case.state, case.question, case.reviewer) == ("approved", QUESTION, "U5")
    (gold,) = case.gold
    assert gold.doc == PATH and gold.span

    nightly.run(retriever, SETTINGS, client, progress=ignore)
    assert "*recall@5 0.00* over 1 case" in read(find_report(slack))
    docs = tmp_path / "docs"
    copytree(SAMPLE / "docs", docs)
    with (docs / PATH).open("a", encoding="utf-8") as page:
        page.write(FIX)
    ingest(retriever, docs)
    nightly.run(retriever, SETTINGS, client, progress=ignore)
    report = read(find_report(slack))
    assert "*recall@5 1.00* over 1 case (+100.0 points" in report
    assert f"*1 case won*\n• {QUESTION} → <https://wiki.halvermeer.example/{PATH}|12. One" in report
