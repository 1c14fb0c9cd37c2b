"""The index is built anew by another model while questions are asked."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from threading import Event
from typing import Any

from sqlalchemy import text

from app.answering import Answerer, Asked, ask
from app.generate.generator import Write
from app.records import Answer, Turn
from retrieval import generations, switching
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.models import Models
from retrieval.records import Candidate, Query
from retrieval.retrieve import Retriever
from retrieval.tuning import DEFAULT
from tests.app.bot import find_rows
from tests.conftest import SAMPLE
from tests.retrieval.pages import build_retriever, fit, ingest, page
from tests.retrieval.test_models import DESK, LEAVE, VPN
from tests.stand_ins.recording import Recording
from tests.stand_ins.slack import SlackStandIn

LEAST = 500  # questions
THREADS = 4
QUICK = replace(DEFAULT, depth=30, interacted=20, candidates=10)
NEW_PAGE = page("lamps.md", "# Lamps\n\nThe lamp L-17 is on the third floor.\n")


def load_questions(count: int) -> list[str]:
    lines = (SAMPLE / "cases.jsonl").read_text().splitlines()
    return [str(json.loads(line)["question"]) for line in islice(lines, count)]


class Pointing:
    """Names the pages that hold the answer, best first; answers need no reading here."""

    settings: Mapping[str, object] = {"generator": "pointing"}

    def generate(
        self, turns: Sequence[Turn], query: Query, kept: Sequence[Candidate], write: Write
    ) -> Answer:
        return Answer(text="\n".join(each.section.path for each in kept))


@contextmanager
def asking(
    ask_one: Callable[[str, int], Any], questions: Sequence[str]
) -> Iterator[Recording[Any]]:
    """What comes of the questions, asked over and over by threads while the block runs.

    Each thread begins at another question, and tells its own number with each.
    """
    answered: Recording[Any] = Recording()
    is_over = Event()

    def go_on(number: int) -> None:
        for question in islice(cycle(questions), number * len(questions) // THREADS, None):
            if is_over.is_set():
                return
            answered.add(ask_one(question, number))

    with ThreadPoolExecutor(THREADS) as pool:
        threads = [pool.submit(go_on, number) for number in range(THREADS)]
        try:
            yield answered
        finally:
            is_over.set()
        for each in threads:
            each.result()


def find_generation(asked: Asked) -> object:
    return asked.retrieval.settings["generation_id"]


def test_p69_the_embedder_is_changed_while_500_questions_are_asked(
    indexed: Database, retriever: Retriever, embedder: Embedder, mirrored: Embedder
) -> None:
    fit(build_retriever(indexed, mirrored))
    models = Models(lambda generation, tuning: mirrored)
    retriever = replace(retriever, models=models, tuning=QUICK)
    answerer = Answerer(retriever=retriever, generator=Pointing())
    questions = load_questions(12)
    before = {each: ask(answerer, [Turn(speaker="user", text=each)]) for each in questions}
    assert sum(asked.answer.abstained_because is None for asked in before.values()) > 9
    (old,) = {find_generation(asked) for asked in before.values()}

    def ask_one(question: str, _: int) -> Asked:
        return ask(answerer, [Turn(speaker="user", text=question)])

    with asking(ask_one, questions) as answered:
        answered.wait_for(lambda each: find_generation(each) == old, count=50, timeout_s=60)
        assert ingest(indexed, mirrored, NEW_PAGE, source="notes").state == "active"
        answered.wait_for(lambda each: find_generation(each) != old, count=50, timeout_s=60)
        kept = switching.drop(indexed)
        answered.wait_for(count=LEAST, timeout_s=120)
    assert (kept.generation_id, kept.state) == (old, "kept")
    with indexed.transaction() as connection:
        (new,) = generations.load_all(connection)
        rows = connection.execute(
            text("""
                SELECT settings ->> 'embedder' AS embedder, outcome, count(*)
                FROM traces GROUP BY 1, 2 ORDER BY min(asked_at)
            """)
        ).all()
    for asked in answered.having():
        first = before[asked.question].answer
        assert asked.answer.abstained_because == first.abstained_because
        # What is as relevant may change places.
        assert asked.answer.text.split("\n")[0] in first.text or first.abstained_because
    assert {find_generation(each) for each in answered.having()} == {old, new.generation_id}
    told = dict.fromkeys(row.embedder for row in rows)
    assert list(told) == [embedder.name, mirrored.name]
    assert {row.outcome for row in rows} <= {"answered", "abstained"}
    assert find_rows(indexed, "traces")[-1].settings["generation_id"] == new.generation_id


ROOT = Path(__file__).parents[1]
ASKED = (
    *("how many days of leave do I have?", "what is VPN_MTU set to?"),
    *("when is the help desk open?", "who wrote the opera Aida?"),  # the last is refused
)


@contextmanager
def serving(slack: SlackStandIn, database_url: str, home: Path) -> Iterator[None]:
    """`footnote serve` as a process of its own, connected; what it took is over at the end."""
    more = {
        "DATABASE_URL": database_url,
        "FOOTNOTE_HOME": str(home),
        "TENANT_ID": "acme",
        "SLACK_API_URL": slack.api_url,
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_APP_TOKEN": slack.app_token,
        "QUESTIONS_PER_PERSON": "10000",
        "QUESTIONS_PER_CHANNEL": "10000",
    }
    command = [sys.executable, "-m", "app", "serve"]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **more}, stderr=log)
    try:
        slack.wait_for_connections(1, timeout_s=120)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(60)
        logged = (home / "log").read_text()
        assert (status, "ERROR" in logged, "Traceback" in logged) == (0, False, False), logged


def ask_in_slack(slack: SlackStandIn, database: Database, question: str, number: int) -> Any:
    """The trace of a question that somebody asks in a channel of theirs, once it is answered."""
    channel_id = f"C{number}"
    event = slack.write(f"<@U0BOT> {question}", channel_id=channel_id, user_id=f"U{number}")
    slack.send_event({**event, "type": "app_mention"})
    slack.wait_for_call(
        "chat.postMessage",
        where=lambda call: call.params["thread_ts"] == event["ts"],
        timeout_s=60,
    )
    (trace,) = [each for each in find_rows(database, "traces") if each.message_ts == event["ts"]]
    return trace


def test_each_question_to_a_process_is_answered_once_while_the_embedder_is_changed(
    slack: SlackStandIn,
    database: Database,
    database_url: str,
    embedder: Embedder,
    mirrored: Embedder,
    tmp_path: Path,
) -> None:
    ingest(database, embedder, LEAVE, VPN, DESK)
    fit(build_retriever(database, mirrored))
    ask_one = partial(ask_in_slack, slack, database)
    with serving(slack, database_url, tmp_path):
        before = {each: ask_one(each, 9) for each in ASKED}
        (old,) = {trace.settings["generation_id"] for trace in before.values()}
        with asking(ask_one, ASKED) as answered:
            answered.wait_for(count=12, timeout_s=60)
            assert ingest(database, mirrored, source="none").state == "active"
            answered.wait_for(
                lambda trace: trace.settings["generation_id"] != old, count=12, timeout_s=60
            )
            answered.wait_for(count=40, timeout_s=60)
    with database.transaction() as connection:
        new = generations.load(connection, "active")
    assert new is not None and new.embedder == mirrored.name
    traces = find_rows(database, "traces")
    asked = {trace.message_ts: trace for trace in traces}
    assert len(traces) == len(asked) == len(answered.having()) + len(ASKED)
    assert {trace.settings["generation_id"] for trace in traces} == {old, new.generation_id}
    assert [trace.outcome for trace in before.values()] == [*["answered"] * 3, "abstained"]
    for trace in traces:
        first = before[trace.question]
        assert (trace.outcome, trace.answer) == (first.outcome, first.answer)
        _, answer = slack.messages(trace.channel_id, trace.thread_ts)  # and no second one
        assert trace.answer_ts == [answer["ts"]]
