"""One attempt at a question: what a worker does from taking it up to what its asker sees.

Whatever happens to a worker, another attempt takes up where the trace stands: a question without an
outcome is answered anew, and what is to be told is told, but for what stands in Slack already.
"""

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Protocol
from uuid import UUID, uuid4

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

from app import (
    abstaining,
    blocks,
    claims,
    confirming,
    conversations,
    escalation,
    fillers,
    logs,
    posting,
    telemetry,
    traces,
    turns,
)
from app.answering import Keeping, Stage, Tell, Writing
from app.blocks import Message
from app.claims import Begun
from app.fillers import SmallTalk
from app.metrics import Metrics
from app.outbox import Outbox
from app.posting import Own, Part
from app.records import Answer, Citation, Turn
from app.rights import Rights, RightsUnknown
from app.status import Status, describe
from app.streaming import INTERVAL_S, Stream
from app.traces import Superseded
from retrieval import faults
from retrieval.db import Database
from retrieval.errors import FootnoteError
from retrieval.records import Retrieval
from retrieval.timing import span

SMALL_TALK: Mapping[SmallTalk, Answer] = {
    "greeting": Answer(
        text="Hi! Ask me a question and I look for the answer in our documents: "
        "“How many days of leave can I carry over?”"
    ),
    "thanks": Answer(text="You're welcome! Ask me again whenever something comes up."),
    "nothing": Answer(
        text="Ask me a question and I look for the answer in our documents. Mention me with it, "
        "or write to me directly: “How many days of leave can I carry over?”"
    ),
}

EMPTY_RUN = 5  # so many questions in a row that find nothing tell of the index; chosen
STATUS_THREADS = 8  # each waits for Slack most of the time; chosen, not measured
TIMEOUT_S = 30  # of one call to Slack; slack_sdk's default

# For how long a question is tried, all chosen: a person waits for minutes, not for hours, but what
# there is to say is worth an hour's outage of Slack.
MOST_ATTEMPTS = 8
LATE_S = 900
UNTOLD_S = 3_600
LONGEST_BACKOFF_S = 60

log = logging.getLogger(__name__)


class Answering(Protocol):
    """What answers a conversation and has its trace kept, or raises.

    tell is told of each stage as it begins. reading_as gives what answers from what one of these
    audiences may read.
    """

    def reading_as(self, audiences: Iterable[str]) -> "Answering": ...

    def answer(self, turns: tuple[Turn, ...], trace: Keeping, tell: Tell) -> Answer: ...


class Again(FootnoteError):
    """A question is to be taken up again, by whoever is there."""

    def __init__(self, after_s: float) -> None:
        super().__init__("Another attempt is to be made.")
        self.after_s = after_s


class Late(FootnoteError):
    """A question could not be answered for so long, or so often, that nobody waits any more."""


class _Stopping(FootnoteError):
    """This process stops; another one answers the question."""


# What the asker is told of failures that nobody has to mend.
SORRY: Mapping[type[Exception], str] = {traces.Narrowed: posting.NARROWED, Late: posting.LATE}


class Attempts:
    """Works on questions; safe to use from several threads.

    experts are the channels and user groups to ask what is not answered, by page owner or source.
    stream_interval_s is the least time between two additions to an answer that grows.
    """

    def __init__(
        self,
        *,
        client: WebClient,
        database: Database,
        answerer: Answering,
        rights: Rights,
        metrics: Metrics,
        experts: Mapping[str, str] = MappingProxyType({}),
        stream_interval_s: float = INTERVAL_S,
    ) -> None:
        self.client = client
        self.database = database
        self.answerer = answerer
        self.rights = rights
        self.metrics = metrics
        self.experts = experts
        self.stream_interval_s = stream_interval_s
        self.statuses = ThreadPoolExecutor(STATUS_THREADS, thread_name_prefix="status")
        self.is_stopping = threading.Event()
        self._lock = threading.Lock()
        self._empty_run = 0  # under the lock
        self._bot_id: str | None = None

    def run(self, trace_id: UUID) -> None:
        """Answer a question, or tell what is still to be told of it; raises Again.

        Nothing happens when another attempt has begun since, or when its trace is gone.
        """
        with logs.about(trace_id), self.metrics.working():
            try:
                begun = claims.begin(self.database, trace_id)
                if begun is not None:
                    self._run(begun)
            except Again:
                raise
            except Exception as error:
                if faults.is_passing(error):
                    raise Again(1) from error
                log.error("Question %s meets a fault of ours", trace_id, exc_info=error)
                raise Again(LONGEST_BACKOFF_S) from error

    def _run(self, begun: Begun) -> None:
        is_first = begun.attempt == 1
        with telemetry.question(
            begun.trace_id,
            tenant_id=self.database.tenant_id,
            attempt=begun.attempt,
            waiting_since=begun.asked_at if is_first else datetime.now(UTC),
        ) as root:
            log.info("Question %s, attempt %d", begun.trace_id, begun.attempt)
            try:
                _Attempt(self, begun).run()
            except Superseded:
                log.info("Question %s is answered by another attempt", begun.trace_id)
            finally:
                outcome = self.metrics.note(
                    self.database, begun.trace_id, begun.attempt, was_told=begun.is_told
                )
                telemetry.tell(root, outcome)

    def stop(self) -> None:
        """Have what is being answered given back, as soon as each notices; what is told already is
        told to its end."""
        self.is_stopping.set()

    def find_bot_id(self) -> str:
        """As whom we post."""
        if self._bot_id is None:
            self._bot_id = str(posting.hasten(self.client).auth_test()["bot_id"])
        return self._bot_id

    def watch(self, answer: Answer) -> None:
        """Raise the alarm when one question after the other finds nothing at all."""
        with self._lock:
            is_empty = answer.abstained_because == "NO_CANDIDATES"
            self._empty_run = self._empty_run + 1 if is_empty else 0
            if self._empty_run and self._empty_run % EMPTY_RUN == 0:
                log.error(
                    "The last %d questions found no page at all: see `footnote doctor`",
                    self._empty_run,
                )


class _Attempt:
    """One attempt, and what it knows of the messages that are seen."""

    def __init__(self, attempts: Attempts, begun: Begun) -> None:
        self.trace_id = begun.trace_id
        self._attempts = attempts
        self._database = attempts.database
        self._begun = begun
        self._arrival = begun.arrival
        # Now, as a copy of the client does not follow its token. It waits for nothing: meanwhile,
        # its thread could answer somebody else.
        self._client = posting.hasten(attempts.client, TIMEOUT_S)
        self._part = Part(trace_id=begun.trace_id, key=uuid4().hex, number=0, count=1)
        self._status = Status(attempts.client, begun.arrival, attempts.statuses)
        self._stream = Stream(
            self._client,
            begun.arrival,
            self._part,
            self._note_stream,
            interval_s=attempts.stream_interval_s,
        )
        self._shown = Answer(text="")
        self._is_partial = False  # a part of the search has failed
        self._seen = list(begun.answer_ts)
        self._outbox = begun.outbox
        self._is_failed = begun.outcome == "failed"
        self._cited: tuple[Citation, ...] = ()  # by what is written so far
        if begun.arrival.is_unasked or self._seen:
            self._stream.end()  # it comes whole: in the place of what stands there, say
        if begun.arrival.is_unasked:
            self._status.clear()

    def run(self) -> None:
        """Bring the question to its end, or raise Again."""
        try:
            if self._begun.is_deleted:
                self._take_back()
            elif self._begun.outcome == "pending":
                self._find_answer()
            elif self._outbox is not None:
                self._resume(self._outbox)
            self._tidy()
        finally:
            self._stream.end()
            self._status.clear()

    def _find_answer(self) -> None:
        begun = self._begun
        try:
            if begun.age_s > LATE_S or begun.tries > MOST_ATTEMPTS:
                raise Late("It has been tried for too long.")
            answer = self._answer()
        except posting.StoppedByAsker:
            self._stop()
            return
        except Superseded:
            raise
        except _Stopping:
            raise Again(0) from None
        except Exception as error:
            wait_s = self._find_wait(error)
            if wait_s is not None and begun.tries < MOST_ATTEMPTS:
                log.warning("Question %s is tried again: %s", self.trace_id, _name(error))
                raise Again(wait_s) from error
            self._fail(error)
            return
        if self._outbox is None:  # overheard, and not worth an answer
            return
        try:
            is_whole = self._stream.finish(answer)
        except posting.StoppedByAsker:
            self._stop()
            return
        if is_whole and self._stream.ts is not None:
            self._note_told([self._stream.ts])
        else:
            self._tell(self._outbox)

    def _answer(self) -> Answer:
        """What is shown for the question; it is in the trace, and in the outbox."""
        arrival, rights = self._arrival, self._attempts.rights
        kind = fillers.find_small_talk(arrival.question)
        if kind is not None:
            self.save_answer(SMALL_TALK[kind], {"small_talk": kind}, {})
            return self._shown
        audiences = rights.find_for_question(arrival)
        reading = self._database.reading_as(audiences)
        past = conversations.find_past_answers(reading, arrival)
        if past:
            traces.save_past(self._database, self.trace_id, past)
        answer = self._attempts.answerer.reading_as(audiences).answer(
            turns.read(past, arrival.question), self, self._show
        )
        if not self._is_partial:
            self._attempts.watch(answer)
        if not traces.are_readable(reading, [each.trace_id for each in past]):
            raise traces.Narrowed("An answer before it has got another audience.")
        return self._shown

    def save_retrieval(self, retrieval: Retrieval, tokens: Mapping[str, int]) -> None:
        """Keep what was found."""
        self._is_partial = "failed_legs" in retrieval.settings
        traces.save_retrieval(
            self._database,
            self.trace_id,
            retrieval,
            tokens=tokens,
            attempt=self._begun.attempt,
        )

    def save_answer(
        self, answer: Answer, settings: Mapping[str, object], stage_ms: Mapping[str, float]
    ) -> None:
        """Keep the answer, and what the asker is to be told of it."""
        is_worth_it = bool(answer.citations) and answer.is_sure
        # It was not meant for us: nobody is to read it among what went unanswered.
        if self._arrival.is_unasked and not is_worth_it and self._forget():
            return
        self._shown = self._build_shown(answer)
        outbox = Outbox(
            messages=tuple(self._build_messages(self._shown)),
            attempt=self._begun.attempt,
            key=self._part.key,
        )
        traces.save_answer(
            self._database,
            self.trace_id,
            answer,
            settings=settings,
            stage_ms=stage_ms,
            attempt=self._begun.attempt,
            outbox=outbox,
        )
        self._outbox = outbox

    def _show(self, stage: Stage) -> None:
        if self._attempts.is_stopping.is_set():
            raise _Stopping("Footnote stops.")
        if isinstance(stage, Writing):
            self._cited = stage.answer.citations
            self._stream.grow(stage.answer)
        else:
            self._status.show(describe(stage))

    def _build_shown(self, answer: Answer) -> Answer:
        """The answer with what stands in no trace."""
        arrival, rights = self._arrival, self._attempts.rights
        # The names are to go when somebody has themselves forgotten.
        named = confirming.name_all_owners(answer.citations, rights)
        answer = replace(answer, citations=named)
        if answer.abstained_because and not str(arrival.channel_id).startswith("D"):
            is_shared = rights.is_shared(arrival)
            place = abstaining.AMONG_COMPANIES if is_shared else abstaining.IN_CHANNEL
            return replace(answer, text=f"{answer.text} {place}")
        return answer

    def _build_messages(self, answer: Answer) -> list[Message]:
        *others, last = blocks.build_messages(answer)
        if answer.abstained_because and escalation.find_expert(
            self._database, self.trace_id, self._attempts.experts, outcome="pending"
        ):
            last = blocks.offer_person(last)
        return [*others, last]

    def _resume(self, outbox: Outbox) -> None:
        """Tell what an attempt before this one has left to be told."""
        if not self._is_failed:
            try:
                audiences = self._attempts.rights.find_for_question(self._arrival)
            except RightsUnknown as error:
                wait_s = self._find_wait(error)
                if wait_s is not None and self._begun.age_s < UNTOLD_S:
                    raise Again(wait_s) from error
                self._fail(error)
                return
            reading = self._database.reading_as(audiences)
            if not traces.are_readable(reading, [self.trace_id]):
                self._fail(traces.Narrowed("A page has got another audience."))
                return
        self._tell(outbox)

    def _tell(self, outbox: Outbox) -> None:
        """Have Slack show what is to be told, in the place of what is seen; raises Again."""
        try:
            with span("post"):
                if traces.is_deleted(self._database, self.trace_id):
                    self._take_back()
                elif outbox.is_private:
                    self._tell_privately(outbox)
                else:
                    self._post(outbox)
        except (SlackClientError, posting.PostLost, *posting.CONNECTION_FAULTS) as error:
            wait_s = self._find_wait(error)
            if wait_s is not None and self._begun.age_s < UNTOLD_S:
                log.warning("Question %s is told later: %s", self.trace_id, _name(error))
                raise Again(wait_s) from error
            if self._is_failed or wait_s is not None:
                # To the asker alone, where nothing can be posted, as in a thread that is locked.
                log.error("Question %s cannot be told", self.trace_id, exc_info=error)
                self._attempts.metrics.given_up.inc()
                for message in outbox.messages:
                    posting.show_privately(
                        self._client, posting.build_asker(self._arrival), message
                    )
                self._note_told(self._seen)
            else:
                self._fail(error)

    def _post(self, outbox: Outbox) -> None:
        """Post what does not stand there yet, first in the place of what is seen."""
        self._stream.end()
        count = len(outbox.messages)
        standing = self._find_standing(outbox)
        if streamed := [ts for part, ts in standing if part.count < count]:
            self._note_told(streamed)
            return
        by_number = {part.number: ts for part, ts in standing}
        places = [ts for ts in self._seen if ts not in by_number.values()]
        posted: list[str] = []
        for number, message in enumerate(outbox.messages):
            ts = by_number.get(number) or self._put(
                message, replace(self._part, key=outbox.key, number=number, count=count), places
            )
            posted.append(ts)
            # One by one, so that a vote on the first finds its trace if the second fails.
            self._note_seen([*posted, *places], newest=ts)
        for ts in places:
            self._delete(ts)
        self._note_told(posted)

    def _find_standing(self, outbox: Outbox) -> list[tuple[Part, str]]:
        """The messages of an outbox that stand there already.

        There are none in the attempt that has made it: of what may stand there nothing else is
        told before another one.
        """
        if outbox.attempt == self._begun.attempt:
            return []
        try:
            found = list(self._find_own())
        except SlackApiError as error:
            if error.response.get("error") != "missing_scope":
                raise
            # An app that was installed before may lack it: an answer twice is better than none.
            log.warning("Nobody knows what stands in %s: missing_scope", self._arrival.channel_id)
            return []
        return [
            (own.part, own.ts)
            for own in found
            if own.part and (own.part.trace_id, own.part.key) == (self.trace_id, outbox.key)
        ]

    def _put(self, message: Message, part: Part, places: list[str]) -> str:
        """Put a message into the first of these places, or post it; its ts. The place is taken."""
        if not traces.is_latest(self._database, self.trace_id, self._begun.attempt):
            raise Superseded("Another attempt has begun.")
        if not places:
            return posting.post(self._client, self._arrival, message, part)
        place = places.pop(0)
        ts = posting.replace(self._client, self._arrival, place, message, part)
        if ts != place:  # posted anew, so that the rest comes below
            for left in places:
                self._delete(left)
            places.clear()
        return ts

    def _note_seen(self, answer_ts: list[str], *, newest: str) -> None:
        """Keep which messages are seen; the newest goes if another attempt has told it all."""
        try:
            traces.save_answer_ts(
                self._database, self.trace_id, answer_ts, attempt=self._begun.attempt
            )
        except Superseded:
            if traces.is_told_without(self._database, self.trace_id, newest):
                self._delete(newest)
            raise
        self._seen = answer_ts

    def _note_stream(self, ts: str) -> None:
        try:
            self._note_seen([ts], newest=ts)
        except Superseded:
            self._stream.end()
            self._delete(ts)  # nobody would ever find it again
            raise

    def _note_told(self, answer_ts: list[str]) -> None:
        """Keep that all is told, and in which messages."""
        traces.save_answer_ts(
            self._database, self.trace_id, answer_ts, attempt=self._begun.attempt, is_told=True
        )
        self._seen, self._outbox = answer_ts, None
        # Deleted meanwhile: then those that were not saved yet are not deleted by withdraw.
        if traces.is_deleted(self._database, self.trace_id):
            self._delete_seen()

    def _take_back(self) -> None:
        """Have nothing be seen of the answer to a question that is gone."""
        if self._begun.outcome == "pending" and self._outbox is None:
            traces.save_stopped(self._database, self.trace_id, "", (), attempt=self._begun.attempt)
        if not self._delete_seen() and self._begun.age_s < UNTOLD_S:
            raise Again(LONGEST_BACKOFF_S)
        traces.save_answer_ts(
            self._database, self.trace_id, [], attempt=self._begun.attempt, is_told=True
        )

    def _stop(self) -> None:
        """Keep what was seen of an answer whose asker has seen enough."""
        traces.save_stopped(
            self._database,
            self.trace_id,
            self._stream.text,
            self._cited,
            attempt=self._begun.attempt,
        )
        if not self._stream.text:
            self._delete_seen()

    def _fail(self, error: Exception) -> None:
        """The one broad handler: log what has to be mended, complete the trace, tell the asker.

        Nothing of the question or of the error's text reaches Slack. What is seen of the answer
        gives way: it has no sources below.
        """
        if type(error) in SORRY:
            log.info("Question %s is given up: %s", self.trace_id, _name(error))
            self._attempts.metrics.given_up.inc()
        else:
            log.error("Question %s failed", self.trace_id, exc_info=error)
        if self._arrival.is_unasked and self._forget():
            return
        text = SORRY.get(type(error), posting.FAILURE).format(reference=self.trace_id)
        outbox = Outbox(messages=(blocks.build_notice(text),), attempt=self._begun.attempt)
        traces.save_failure(
            self._database,
            self.trace_id,
            type(error).__name__,
            attempt=self._begun.attempt,
            outbox=outbox,
        )
        self._is_failed, self._outbox = True, outbox
        self._tell(outbox)

    def _forget(self) -> bool:
        """Have a message that nobody had asked us about count as never seen, unless somebody has
        asked since; whether it does."""
        if not claims.forget_unasked(self._database, self.trace_id):
            return False
        self._delete_seen()
        self._outbox = None
        return True

    def _tell_privately(self, outbox: Outbox) -> None:
        """Let the asker alone see it; raises as posting does where they surely don't yet.

        Nobody can look up whether they do: else they could be told the same again and again.
        """
        for message in outbox.messages:
            try:
                reader = posting.build_asker(self._arrival)
                posting.tell_privately(self._client, reader, message)
            except (SlackApiError, posting.PostLost) as error:
                if posting.has_surely_posted_nothing(error) and self._find_wait(error) is not None:
                    raise
                log.info("Nobody knows whether %s is told: %s", self.trace_id, _name(error))
        self._note_told(self._seen)

    def _tidy(self) -> None:
        """Delete what attempts before this one, or calls whose answer got lost, have left behind.

        An empty message is one that was to grow. Should it be that of another question in the
        thread that has just begun: its answer comes whole, then.
        """
        self._status.clear()
        is_clear = self._status.wait_until_clear()
        if self._begun.attempt == 1 and is_clear and not self._stream.may_be_lost:
            return
        try:
            posting.clear_working(posting.hasten(self._client), self._arrival)
            for own in list(self._find_own()):
                is_left = own.is_empty or (own.part and own.part.trace_id == self.trace_id)
                if is_left and own.ts not in self._seen:
                    self._tidy_away(own.ts)
        except (SlackClientError, *posting.CONNECTION_FAULTS) as error:
            log.info("Not tidied in %s: %s", self._arrival.channel_id, _name(error))
            wait_s = self._find_wait(error)
            if wait_s is not None and self._begun.age_s < LATE_S:
                raise Again(wait_s) from error

    def _tidy_away(self, ts: str) -> None:
        """Delete a message, unless another attempt may have posted it; raises as Slack's client
        does where another attempt helps."""
        if not traces.is_latest(self._database, self.trace_id, self._begun.attempt):
            raise Superseded("Another attempt has begun.")
        try:
            posting.delete(self._client, str(self._arrival.channel_id), ts)
        except SlackApiError as error:
            if self._find_wait(error) is not None:
                raise
            log.info("%s stays in %s: %s", ts, self._arrival.channel_id, _name(error))

    def _find_own(self) -> Iterator[Own]:
        return posting.find_own(self._client, self._arrival, self._attempts.find_bot_id())

    def _delete_seen(self) -> bool:
        """Delete what is seen; whether it is gone."""
        self._stream.end()
        return all([self._delete(ts) for ts in self._seen])

    def _delete(self, ts: str) -> bool:
        return posting.take_back(self._client, str(self._arrival.channel_id), ts)

    def _find_wait(self, error: Exception) -> float | None:
        """How long to wait until another attempt helps; None where none does."""
        backoff_s = min(2 ** (self._begun.tries - 1), LONGEST_BACKOFF_S)
        if isinstance(error, SlackApiError):
            return posting.find_wait(error, backoff_s)
        if isinstance(error, RightsUnknown) and isinstance(error.__cause__, SlackApiError):
            return posting.find_wait(error.__cause__, backoff_s) or backoff_s
        passing = (*posting.CONNECTION_FAULTS, posting.PostLost, RightsUnknown)
        is_passing = isinstance(error, passing) or faults.is_passing(error)
        return backoff_s if is_passing else None


def _name(error: Exception) -> str:
    return type(error).__name__
