"""The bot as it serves, with a given answerer, and what a test wants to know of it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import UUID

from slack_bolt import App
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from app import posting, queueing, traces
from app.answering import Keeping, Searching, Tell, Writing
from app.attempts import Answering, Attempts
from app.channels import ChannelMode
from app.config import Settings
from app.jobs import Jobs
from app.metrics import Metrics
from app.places import Places
from app.records import Answer, Turn
from app.rights import Rights
from app.serve import build_app, build_limits, build_reviews
from app.worker import Worker
from retrieval.db import Database
from tests.stand_ins.recording import Recording
from tests.stand_ins.slack import SlackStandIn
from tests.stand_ins.slack_workspace import TEAM_ID

if TYPE_CHECKING:  # takes seconds to import
    from retrieval.retrieve import Retriever

Json = dict[str, Any]
WORKERS = 4
ADMIN = "U9"  # sees what others asked


class GivenAnswers:
    """Answers each question as told, else with its own words, completing the trace."""

    def __init__(self, database: Database) -> None:
        self.asked: Recording[tuple[Turn, ...]] = Recording()
        self.answers: dict[str, Answer | Exception] = {}
        self.held: dict[str, Event] = {}
        self.read_as: list[tuple[str, ...]] = []  # for each question, by whom
        self.written: dict[str, list[Answer]] = {}  # what is seen of an answer before it is whole
        self._database = database

    def reading_as(self, audiences: Iterable[str]) -> "GivenAnswers":
        self.read_as.append(tuple(audiences))
        return self

    def answer(
        self,
        turns: tuple[Turn, ...],
        trace: Keeping,
        tell: Tell,
    ) -> Answer:
        tell(Searching(page_count=1942))
        self.asked.add(turns)
        question = turns[-1].text
        if question in self.held:
            assert self.held[question].wait(30)
        for draft in self.written.get(question, []):
            tell(Writing(answer=draft))
        answer = self.answers.get(question, Answer(text=f"You ask: {question}"))
        if isinstance(answer, Exception):
            raise answer
        trace.save_answer(answer, {}, {})
        return answer

    def wait_until_asked(self, question: str) -> None:
        self.asked.wait_for(lambda turns: turns[-1].text == question)


class Noted(Metrics):
    """Lets a test wait for the end of each attempt."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: Recording[UUID] = Recording()

    def note(
        self, database: Database, trace_id: UUID, attempt: int, *, was_told: bool = False
    ) -> str | None:
        outcome = super().note(database, trace_id, attempt, was_told=was_told)
        self.ended.add(trace_id)
        return outcome


class Bot:
    """One process of the bot."""

    def __init__(
        self,
        slack: SlackStandIn,
        database: Database,
        experts: dict[str, str] | None = None,
        channels: Mapping[str, ChannelMode] | None = None,
        *,
        retriever: "Retriever | None" = None,
        answerer: Answering | None = None,
        is_working: bool = True,
        **more: Any,
    ) -> None:
        """An answerer answers in the place of given answers; more are further settings."""
        self.slack = slack
        self.database = database
        self.answerer = GivenAnswers(database)
        settings = Settings(
            admins=frozenset({ADMIN}),
            experts=experts or {},
            channels=dict(channels or {}),
            **{"questions_per_person": 1_000, **more},
        )
        self.metrics = Noted()
        self.ended = self.metrics.ended
        client = posting.build_client(slack.bot_token, slack.api_url)
        rights = Rights(client, database)
        reviews = build_reviews(client, database, rights, settings)
        self.attempts = Attempts(
            client=client,
            database=database,
            answerer=answerer or self.answerer,
            rights=rights,
            experts=settings.experts,
            metrics=self.metrics,
            stream_interval_s=0,
        )
        queue = queueing.name(database.tenant_id)
        self.places = Places(client, database, queue=queue, capacity=WORKERS, refresh_s=0.05)
        self.jobs = Jobs(
            client=client,
            database=database,
            rights=rights,
            queue=queue,
            limits=build_limits(settings),
            places=self.places,
            follow=reviews.following,
        )
        self.worker = Worker(
            database,
            lambda _, trace_id: self.attempts.run(trace_id),
            self.attempts.stop,
            queue=queue,
            concurrency=WORKERS,
            taken_over=self.metrics.taken_over.inc,
            poll_s=0.05,
        )
        if is_working:
            self.worker.start()
        self.app: App = build_app(
            client,
            database=database,
            jobs=self.jobs,
            settings=settings,
            reviews=reviews,
            retriever=retriever,
        )

    def settle(self, *envelope_ids: str) -> None:
        """Return once all that these envelopes set off is over; nothing more is taken."""
        for envelope_id in envelope_ids:
            self.slack.wait_for_ack(envelope_id)
        self.app.listener_runner.listener_executor.shutdown()
        until = monotonic() + 30
        while self._has_jobs():
            assert monotonic() < until, "there is still something to do"
            Event().wait(0.01)
        self.close(timeout_s=30)

    def _has_jobs(self) -> bool:
        jobs = text("SELECT count(*) FROM procrastinate_jobs")
        try:
            with self.database.transaction() as connection:
                return bool(connection.execute(jobs).scalar())
        except SQLAlchemyError:  # nothing can be kept in a database that is not there
            return False

    def close(self, timeout_s: float) -> None:
        """Take up nothing more, as a process does that stops."""
        self.worker.close(timeout_s)
        self.places.close()
        self.attempts.statuses.shutdown()

    def mention(self, question: str, **more: Any) -> Json:
        """A mention that a person has just written, as Slack's event."""
        message = self.slack.write(f"<@U0BOT> {question}", channel_id="C1", **more)
        return {**message, "type": "app_mention"}

    def ask(self, question: str, **more: Any) -> Json:
        """Mention the bot with a question; the message with its answer."""
        event = self.mention(question, **more)
        self.slack.wait_for_ack(self.slack.send_event(event))
        trace_id = traces.find_by_message(self.database, TEAM_ID, "C1", event["ts"])
        self.ended.wait_for(lambda ended: ended == trace_id)
        return self.slack.messages("C1", event.get("thread_ts", event["ts"]))[-1]


@contextmanager
def connected(
    slack: SlackStandIn,
    database: Database,
    experts: dict[str, str] | None = None,
    channels: Mapping[str, ChannelMode] | None = None,
    **more: Any,
) -> Iterator[Bot]:
    bot = Bot(slack, database, experts, channels, **more)
    try:
        with slack.connected(bot.app):
            yield bot
            bot.settle()
    finally:
        bot.close(timeout_s=0)


def find_rows(database: Database, table: str) -> list[Any]:
    """The rows of a table, oldest first."""
    order = {"traces": "asked_at", "feedback": "voted_at", "escalations": "asked_at"}[table]
    with database.transaction() as connection:
        return list(connection.execute(text(f"SELECT * FROM {table} ORDER BY {order}")).all())
