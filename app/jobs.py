"""The work on each question, on threads of our own, so that none waits for another."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, Protocol
from uuid import UUID, uuid4

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from app import abstaining, blocks, confirming, escalation, fillers, posting, traces, turns
from app.answering import Stage, Tell, Writing
from app.blocks import Message
from app.fillers import SmallTalk
from app.limits import Limits
from app.records import Answer, Arrival, Citation, Turn
from app.rights import Rights
from app.status import Status, describe, describe_wait
from app.streaming import INTERVAL_S, Stream
from retrieval.db import Database
from retrieval.errors import FootnoteError

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

# At 8 workers and 5 s an answer, the last of them waits for two minutes. Chosen.
MOST_WAITING = 200
EMPTY_RUN = 5  # so many questions in a row that find nothing tell of the index; chosen
STATUS_THREADS = 8  # each waits for Slack most of the time; chosen, not measured

log = logging.getLogger(__name__)


class Answering(Protocol):
    """What answers a conversation and completes its trace, or raises.

    before_saving comes before the trace is completed. tell is told of each stage as it begins.
    What they raise ends the answering. reading_as gives what answers from what one of these
    audiences may read.
    """

    def reading_as(self, audiences: Iterable[str]) -> "Answering": ...

    def answer(
        self,
        turns: tuple[Turn, ...],
        trace_id: UUID,
        before_saving: Callable[[], None],
        tell: Tell,
    ) -> Answer: ...


class Busy(FootnoteError):
    """There is more to do already than is done soon; asking again later helps."""


class Stopped(FootnoteError):
    """Footnote was stopped before the answer was ready; asking again later helps."""


class Superseded(FootnoteError):
    """Another process answers the question as it was edited meanwhile."""


# What the asker is told of failures that nobody has to mend.
SORRY: Mapping[type[Exception], str] = {Busy: posting.BUSY, traces.Narrowed: posting.NARROWED}

End = Literal["own", "given up", "superseded"]


@dataclass(slots=True, kw_only=True, eq=False)
class _Job:
    """A question being worked on.

    earlier is the work on it as it read before it was edited.
    """

    arrival: Arrival
    trace_id: UUID
    status: Status
    stream: Stream
    posted: list[str] = field(default_factory=list)  # the ts of the messages of a whole answer
    replaced: list[str] = field(default_factory=list)  # … and of those of an answer before it
    earlier: Future[None] | None = None
    is_revised: bool = False
    cited: tuple[Citation, ...] = ()  # by what is written so far
    end: End | None = None  # None until decided, once: by the job itself, close or revise

    def find_seen(self) -> list[str]:
        """The messages that are seen of its answer, free to be replaced or deleted."""
        self.stream.end()
        own = [] if self.stream.ts is None else [self.stream.ts]
        return list(dict.fromkeys([*self.posted, *own, *self.replaced]))


class Jobs:
    """The questions being worked on.

    workers are how many of them the executor works on at once; those beyond are told to wait, and
    those beyond MOST_WAITING to ask again: of each of these refused is told, unless it was
    overheard.
    experts are the channels and user groups to ask what is not answered, by page owner
    or source.
    stream_interval_s is the least time between two additions to an answer that grows.
    follow is entered while an answer that may be under review is taken back.
    limits say what is one question too many.
    """

    def __init__(
        self,
        *,
        client: WebClient,
        database: Database,
        answerer: Answering,
        rights: Rights,
        executor: Executor,
        workers: int | None = None,
        refused: Callable[[], None] = lambda: None,
        experts: Mapping[str, str] = MappingProxyType({}),
        stream_interval_s: float = INTERVAL_S,
        follow: Callable[[UUID | None], AbstractContextManager[object]] = nullcontext,
        limits: Limits | None = None,
    ) -> None:
        self._client = client
        self._database = database
        self._answerer = answerer
        self.rights = rights
        self._executor = executor
        self._workers = workers
        self._refused = refused
        self._status_executor = ThreadPoolExecutor(STATUS_THREADS, thread_name_prefix="status")
        self._experts = experts
        self._stream_interval_s = stream_interval_s
        self._follow = follow
        self._limits = limits
        self._lock = threading.Lock()
        self._open: dict[Future[None], _Job] = {}  # with every end: under the lock
        self._empty_run = 0  # under the lock, too

    def take(self, arrival: Arrival) -> None:
        """Start on a question and return; nothing happens when a delivery of it was taken before.

        Slack delivers a mention in two events and repeats what it thinks is lost, perhaps to
        another process or after a restart: only the claim in the database decides.
        """
        trace_id = traces.claim(self._database, arrival)
        if trace_id is None:
            return
        log.info("Question %s in %s", trace_id, arrival.channel_id)
        if self._limits and self._limits.refuses(arrival, trace_id):
            return
        self._begin(self._build_job(arrival, trace_id))

    def take_again(self, arrival: Arrival) -> None:
        """As take, but a question that failed is begun anew: somebody asks for that.

        Of one that is being worked on the end is told, though nobody had asked us.
        """
        future, earlier = self._find_open(arrival)
        if earlier is not None and earlier.end is None:
            earlier.arrival = replace(earlier.arrival, is_unasked=False)
            return
        trace_id = traces.claim_again(self._database, arrival)
        if trace_id is None:
            self.take(arrival)
            return
        log.info("Question %s is asked again", trace_id)
        if self._limits and self._limits.refuses(arrival, trace_id):
            return
        self._begin_anew(arrival, trace_id, future)

    def revise(self, arrival: Arrival) -> None:
        """Start anew on a question whose text was changed, and return.

        The new answer takes the place of the old one. Nothing happens when it is no question, asks
        the same as before, or was changed before.
        """
        future, earlier = self._find_open(arrival)
        trace_id = traces.claim_revision(self._database, arrival, is_open=future is not None)
        if trace_id is None:
            return
        log.info("Question %s was edited", trace_id)
        if self._limits and self._limits.refuses_edit(arrival, trace_id):
            return
        if future is not None and earlier is not None:
            future.cancel()
            if self._decide(earlier, "superseded"):
                earlier.status.clear()
        self._begin_anew(arrival, trace_id, future)

    def withdraw(self, team_id: str, channel_id: str, message_ts: str) -> None:
        """Delete the answer to a question that was deleted; one still being made is not posted.

        So is what was passed on to people of it.
        """
        trace_id = traces.find_by_message(self._database, team_id, channel_id, message_ts)
        with self._follow(trace_id):
            answer_ts = traces.save_deletion(self._database, team_id, channel_id, message_ts)
        for ts in answer_ts:
            posting.take_back(self._client, channel_id, ts)
        if passed_on := escalation.withdraw(self._database, team_id, channel_id, message_ts):
            posting.take_back(self._client, *passed_on)

    def fail(
        self,
        error: Exception,
        arrival: Arrival,
        trace_id: UUID | None,
        seen: Sequence[str] = (),
    ) -> None:
        """The one broad handler: log what has to be mended, tell the asker, complete the trace.

        Nothing of the question or of the error's text reaches Slack. What is seen of the answer, by
        the ts of its messages, goes: it has no sources below.
        """
        reference = trace_id or uuid4()
        is_deleted = False
        if isinstance(error, traces.Narrowed):
            log.info("Question %s rests on what has changed meanwhile", reference)
        else:
            log.error("Question %s failed", reference, exc_info=error)
        may_stand_there = isinstance(error, posting.PostLost) and not seen
        if trace_id is not None and arrival.is_unasked and not may_stand_there:
            with _despite_errors("forget what was overheard"):
                traces.forget(self._database, trace_id)
        elif trace_id is not None:
            with _despite_errors("complete the trace"):
                traces.save_failure(self._database, trace_id, type(error).__name__)
                is_deleted = traces.is_deleted(self._database, trace_id)
        if is_deleted or arrival.is_unasked:
            self._take_back(arrival, seen)
        elif not may_stand_there:
            with _despite_errors("tell the asker"):
                text = SORRY.get(type(error), posting.FAILURE)
                message = blocks.build_notice(text.format(reference=reference))
                told = self._tell(message, arrival, reference, seen)
                if trace_id is not None and told:
                    traces.save_failure_ts(self._database, trace_id, told)

    def close(self, timeout_s: float) -> None:
        """Finish what is begun; what is not done in time, or not begun, is told to its asker.

        What is being told its end when the time is over is waited for; what is given up goes on,
        but neither posts nor completes its trace.
        """
        self._executor.shutdown(wait=False)
        with self._lock:
            left = dict(self._open)
        telling = []
        for future in wait(left, timeout_s).not_done:
            has_begun = not future.cancel()
            job = left[future]
            if not self._decide(job, "given up"):
                telling.append(future)
                continue
            if job.is_revised and not has_begun:
                with _despite_errors("find what is to be replaced"):
                    self._reopen(job)
            error = Stopped("Footnote was stopped.")
            self.fail(error, job.arrival, job.trace_id, job.find_seen())
            job.status.clear()
        wait(telling)
        self._status_executor.shutdown()

    def _build_job(self, arrival: Arrival, trace_id: UUID) -> _Job:
        def started(ts: str) -> None:
            self._save_ts(job, ts, [ts])

        job = _Job(
            arrival=arrival,
            trace_id=trace_id,
            status=Status(self._client, arrival, self._status_executor),
            stream=Stream(
                self._client, arrival, trace_id, started, interval_s=self._stream_interval_s
            ),
        )
        if arrival.is_unasked:
            job.stream.end()
            job.status.clear()
        return job

    def _begin_anew(self, arrival: Arrival, trace_id: UUID, earlier: Future[None] | None) -> None:
        """Answer once more, after the work on it as it was, if that goes on."""
        job = self._build_job(arrival, trace_id)
        job.stream.end()  # the answer comes whole, in the place of what stands there
        job.earlier, job.is_revised = earlier, True
        self._begin(job)

    def _begin(self, job: _Job) -> None:
        with self._lock:
            ahead = len(self._open)
            workers = ahead + 1 if self._workers is None else self._workers
            is_full = ahead >= workers + MOST_WAITING and not job.is_revised
            if not is_full:
                if ahead >= workers:
                    job.status.show(describe_wait(ahead))
                future = self._executor.submit(self._work, job)
                self._open[future] = job
        if is_full:
            if not job.arrival.is_unasked:
                self._refused()
            self.fail(Busy("Too many questions are waiting."), job.arrival, job.trace_id)
        else:
            future.add_done_callback(self._forget)

    def _find_open(self, arrival: Arrival) -> tuple[Future[None], _Job] | tuple[None, None]:
        """The work on a message, if there is any here."""
        with self._lock:
            for future, job in self._open.items():
                if _place(job.arrival) == _place(arrival):
                    return future, job
        return None, None

    def _reopen(self, job: _Job) -> None:
        with self._follow(job.trace_id):
            job.replaced = traces.reopen(self._database, job.trace_id, job.arrival.question)

    def _work(self, job: _Job) -> None:
        trace_id = job.trace_id
        try:
            if job.earlier is not None:  # begun before, so it does not wait for this thread
                wait([job.earlier])
                if job.end is not None:  # its trace is complete
                    return
            if job.is_revised:
                self._reopen(job)
            self._post(self._answer(job), job)
        except Superseded:
            log.info("Question %s is answered by another process", trace_id)
        except posting.StoppedByAsker:
            if self._decide(job, "own"):
                with _despite_errors("complete the trace"):
                    traces.save_stopped(self._database, trace_id, job.stream.text, job.cited)
            if not job.stream.text:
                self._take_back(job.arrival, job.find_seen())
        except Exception as error:
            if self._decide(job, "own"):
                self.fail(error, job.arrival, trace_id, job.find_seen())
        finally:
            job.stream.end()
            if self._decide(job, "own"):
                job.status.clear()

    def _decide(self, job: _Job, end: End) -> bool:
        """Whether this is how the job ends: whoever decides first, decides, and may ask again."""
        with self._lock:
            job.end = job.end or end
            return job.end == end

    def _answer(self, job: _Job) -> Answer:
        def before_saving() -> None:
            if not self._decide(job, "own"):
                raise Stopped("Footnote was stopped.")

        def tell(stage: Stage) -> None:
            if job.end is not None:
                raise Stopped("Footnote was stopped.")
            if isinstance(stage, Writing):
                job.cited = stage.answer.citations
                job.stream.grow(stage.answer)
            else:
                job.status.show(describe(stage))

        arrival, trace_id = job.arrival, job.trace_id
        kind = fillers.find_small_talk(arrival.question)
        if kind is not None:
            before_saving()
            traces.save_small_talk(self._database, trace_id, kind, SMALL_TALK[kind])
            return SMALL_TALK[kind]
        audiences = self.rights.find_for_question(arrival)
        reading = self._database.reading_as(audiences)
        is_direct = str(arrival.channel_id).startswith("D")
        is_shared = not is_direct and self.rights.is_shared(arrival)
        past = traces.find_past_answers(reading, arrival)
        if past:
            traces.save_past(self._database, trace_id, past)
        answer = self._answerer.reading_as(audiences).answer(
            turns.read(past, arrival.question), trace_id, before_saving, tell
        )
        self._watch(answer)
        if not traces.are_readable(reading, [each.trace_id for each in past]):
            raise traces.Narrowed("An answer before it has got another audience.")
        job.cited = answer.citations
        # In no trace, as names are to go when somebody has themselves forgotten.
        named = confirming.name_all_owners(answer.citations, self.rights)
        answer = replace(answer, citations=named)
        if answer.abstained_because and not is_direct:
            place = abstaining.AMONG_COMPANIES if is_shared else abstaining.IN_CHANNEL
            return replace(answer, text=f"{answer.text} {place}")
        return answer

    def _watch(self, answer: Answer) -> None:
        """Raise the alarm when one question after the other finds nothing at all."""
        with self._lock:
            is_empty = answer.abstained_because == "NO_CANDIDATES"
            self._empty_run = self._empty_run + 1 if is_empty else 0
            if self._empty_run and self._empty_run % EMPTY_RUN == 0:
                log.error(
                    "The last %d questions found no page at all: see `footnote doctor`",
                    self._empty_run,
                )

    def _post(self, answer: Answer, job: _Job) -> None:
        """Post the answer, in place of an earlier one as far as that goes."""
        arrival, trace_id = job.arrival, job.trace_id
        is_deleted = traces.is_deleted(self._database, trace_id)
        is_worth_it = answer.citations and answer.is_sure and not is_deleted
        if arrival.is_unasked and not is_worth_it:
            # It was not meant for us: nobody is to read it among what went unanswered.
            traces.forget(self._database, trace_id)
            return
        if not is_deleted and not job.stream.finish(answer):
            self._post_whole(answer, job)
        # Deleted meanwhile: then those that were not saved yet are not deleted by withdraw.
        if is_deleted or traces.is_deleted(self._database, trace_id):
            self._take_back(arrival, job.find_seen())

    def _post_whole(self, answer: Answer, job: _Job) -> None:
        """Post an answer, first in the place of what is seen; raises Superseded."""
        *others, last = blocks.build_messages(answer)
        if answer.abstained_because and escalation.find_expert(
            self._database, job.trace_id, self._experts
        ):
            last = blocks.offer_person(last)
        if not traces.is_asked(self._database, job.trace_id, job.arrival.question):
            raise Superseded("The question was edited.")
        messages, places = [*others, last], job.find_seen()
        for number, message in enumerate(messages):
            place = places[number] if number < len(places) else None
            ts = self._put(message, job.arrival, job.trace_id, place)
            job.posted.append(ts)
            if place is not None and ts != place:  # posted anew, so that the rest comes below
                self._take_back(job.arrival, places[number + 1 :])
                places = places[: number + 1]
            # One by one, so that a vote on the first finds its trace if the second fails.
            self._save_ts(job, job.posted[-1], [*job.posted, *places[number + 1 :]])
        if left := places[len(messages) :]:
            self._take_back(job.arrival, left)
            self._save_ts(job, job.posted[-1], job.posted)
        job.replaced = []

    def _save_ts(self, job: _Job, newest: str, answer_ts: Sequence[str]) -> None:
        """Add the messages of an answer to its trace; raises Superseded, without the newest."""
        question = job.arrival.question
        if not traces.save_answer_ts(self._database, job.trace_id, question, answer_ts):
            self._take_back(job.arrival, [newest])
            raise Superseded("The question was edited.")

    def _tell(
        self, message: Message, arrival: Arrival, reference: UUID, places: Sequence[str]
    ) -> str | None:
        """Put a message into the first of these places and delete the others, or post it; its ts.

        To the asker alone, and None, where nothing can be posted, as in a thread that is locked.
        """
        try:
            return self._put(message, arrival, reference, next(iter(places), None))
        except SlackApiError:
            posting.show_privately(self._client, posting.build_asker(arrival), message)
            return None
        finally:
            self._take_back(arrival, places[1:])

    def _put(self, message: Message, arrival: Arrival, trace_id: UUID, place: str | None) -> str:
        """Put a message into this place, or post it; its ts."""
        if place is None:
            return posting.post(self._client, arrival, message, trace_id)
        return posting.replace(self._client, arrival, place, message, trace_id)

    def _take_back(self, arrival: Arrival, messages: Iterable[str]) -> None:
        for ts in messages:
            posting.take_back(self._client, str(arrival.channel_id), ts)

    def _forget(self, future: Future[None]) -> None:
        with self._lock:
            self._open.pop(future, None)


def _place(arrival: Arrival) -> tuple[str | None, ...]:
    return arrival.team_id, arrival.channel_id, arrival.message_ts


@contextmanager
def _despite_errors(what: str) -> Iterator[None]:
    """Do one part of handling an error; its own error must not prevent the rest."""
    try:
        yield
    except Exception:
        log.exception("Could not %s", what)
