"""What becomes of messages: each question is claimed with its job in one transaction.

Whatever happens to this process then, a worker answers it, of this process or another.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TypeVar
from uuid import UUID, uuid4

from slack_sdk import WebClient
from slack_sdk.errors import SlackClientError
from sqlalchemy import Connection

from app import blocks, claims, escalation, posting, queueing, traces
from app.limits import Limits, Refusal
from app.outbox import Outbox
from app.places import Places
from app.queueing import Ids
from app.records import Arrival
from app.rights import Rights
from retrieval import db
from retrieval.db import Database

# At 8 questions at once and 5 s an answer, the last of them waits for two minutes. Chosen.
MOST_WAITING = 200

OUTLAST_S = 1.5  # that a claim waits for the database: Slack waits 3 s to hear of it; chosen

T = TypeVar("T")

log = logging.getLogger(__name__)


class Jobs:
    """Takes questions to the workers of a queue.

    Beyond MOST_WAITING that wait, a question is refused, and its asker told unless it was
    overheard. limits say what is one question too many. places tell those that wait how many there
    are before them. follow is entered while an answer that may be under review is taken back.
    """

    def __init__(
        self,
        *,
        client: WebClient,
        database: Database,
        rights: Rights,
        queue: str,
        limits: Limits,
        places: Places,
        follow: Callable[[UUID | None], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.rights = rights
        self._client = client
        self._database = database
        self._queue = queue
        self._limits = limits
        self._places = places
        self._follow = follow

    def take(self, arrival: Arrival) -> None:
        """Have a question answered; nothing happens when a delivery of it was taken before.

        Slack delivers a mention in two events and repeats what it thinks is lost, perhaps to
        another process or after a restart: only the claim in the database decides.
        """
        trace_id = self._outlast(lambda connection: self._claim(connection, arrival))
        self._note(arrival, trace_id, "is taken")

    def take_again(self, arrival: Arrival) -> None:
        """As take, but a question that failed is begun anew: somebody asks for that.

        Of one that is being worked on the end is told, though nobody had asked us.
        """

        def claim(connection: Connection) -> UUID | None:
            if claims.call(connection, arrival):
                return None
            trace_id = claims.find_failed(connection, arrival)
            if trace_id is None:
                return self._claim(connection, arrival)
            claims.begin_anew(connection, trace_id, arrival.question)
            self._defer(connection, arrival, trace_id)
            return trace_id

        self._note(arrival, self._outlast(claim), "is asked again")

    def revise(self, arrival: Arrival) -> None:
        """Answer a question anew whose text was changed; the answer takes the place of the old one.

        Nothing happens when it asks the same as before, or was changed before. A change may come
        before its question, and is taken for that.
        """

        def claim(connection: Connection) -> tuple[UUID | None, Refusal | None]:
            _take_turns(connection, arrival)  # with its question, which may be just being claimed
            trace_id = claims.find_revised(connection, arrival)
            if trace_id is None:
                trace_id = self._claim(connection, arrival)
                if trace_id is not None:
                    claims.save_revised(connection, trace_id)
                return trace_id, None
            refusal = self._limits.find_refusal(connection, arrival, trace_id, is_edited=True)
            if refusal is None:
                claims.begin_anew(connection, trace_id, arrival.question)
                ids = self._build_ids(arrival, trace_id)
                load = queueing.find_load(connection, self._queue, ids)
                queueing.defer(connection, self._queue, ids, round=load.round)
            return trace_id, refusal

        place = (str(arrival.team_id), str(arrival.channel_id), str(arrival.message_ts))
        with self._follow(traces.find_by_message(self._database, *place)):
            trace_id, refusal = self._outlast(claim)
        if refusal is None:
            self._note(arrival, trace_id, "was edited")
        elif refusal.message is not None and not arrival.is_unasked:
            # Not by way of the trace, which may have something else to be told.
            reader = posting.build_asker(arrival)
            posting.show_privately(self._client, reader, refusal.message)

    def withdraw(
        self, team_id: str, channel_id: str, message_ts: str, asked: Arrival | None = None
    ) -> None:
        """Delete the answer to a question that was deleted; one still being made is not posted.

        So is what was passed on to people of it. A deletion may come before what was asked, which
        is not answered then, nor kept.
        """
        trace_id = traces.find_by_message(self._database, team_id, channel_id, message_ts)

        def delete(connection: Connection) -> None:
            if asked is not None:
                claims.add(connection, replace(asked, question=""), self._database.tenant_id)
            deleted_id = claims.save_deletion(connection, team_id, channel_id, message_ts)
            if deleted_id is not None:
                arrival = Arrival(question="", team_id=team_id, channel_id=channel_id)
                queueing.defer(connection, self._queue, self._build_ids(arrival, deleted_id))

        with self._follow(trace_id):
            self._outlast(delete)
        if passed_on := escalation.withdraw(self._database, team_id, channel_id, message_ts):
            posting.take_back(posting.hasten(self._client), *passed_on)

    def fail(self, error: Exception, arrival: Arrival) -> None:
        """Log what kept a message from being taken, and tell who has asked.

        Nothing of the question or of the error's text reaches Slack.
        """
        reference = uuid4()
        log.error("Message %s failed", reference, exc_info=error)
        if arrival.is_unasked:
            return
        message = blocks.build_notice(posting.FAILURE.format(reference=reference))
        try:
            posting.tell(
                self._client, str(arrival.channel_id), message, thread_ts=arrival.thread_ts
            )
        except (SlackClientError, posting.PostLost):
            log.exception("Message %s could not be told", reference)

    def _outlast(self, work: Callable[[Connection], T]) -> T:
        return self._database.unrestricted.outlast(work, for_s=OUTLAST_S)

    def _claim(self, connection: Connection, arrival: Arrival) -> UUID | None:
        """The trace of a question that is taken up; None where it was before, or is not to be."""
        _take_turns(connection, arrival)
        trace_id = claims.add(connection, arrival, self._database.tenant_id)
        if trace_id is not None:
            self._defer(connection, arrival, trace_id)
        return trace_id

    def _defer(self, connection: Connection, arrival: Arrival, trace_id: UUID) -> None:
        """Have a question answered or, where it is one too many, its asker told."""
        ids = self._build_ids(arrival, trace_id)
        load = queueing.find_load(connection, self._queue, ids)
        refusal = self._limits.find_refusal(connection, arrival, trace_id)
        told: Outbox | None
        is_busy = load.waiting >= MOST_WAITING
        if refusal is None and not is_busy:
            queueing.defer(connection, self._queue, ids, round=load.round)
        elif arrival.is_unasked:
            claims.drop(connection, trace_id)
        elif refusal is not None:
            message = refusal.message
            told = None if message is None else Outbox(messages=(message,), is_private=True)
            self._refuse(connection, ids, claims.LIMITED, told)
        else:
            told = Outbox(messages=(blocks.build_notice(posting.BUSY),))
            self._refuse(connection, ids, claims.BUSY, told)

    def _refuse(
        self, connection: Connection, ids: Ids, error_class: str, told: Outbox | None
    ) -> None:
        log.info("Question %s is not taken up: %s", ids.trace_id, error_class)
        claims.refuse(connection, UUID(ids.trace_id), error_class, told)
        if told is not None:
            queueing.defer(connection, self._queue, ids)

    def _build_ids(self, arrival: Arrival, trace_id: UUID) -> Ids:
        return queueing.build_ids(trace_id, self._database.tenant_id, arrival)

    def _note(self, arrival: Arrival, trace_id: UUID | None, what: str) -> None:
        if trace_id is not None:
            log.info("Question %s in %s %s", trace_id, arrival.channel_id, what)
            if not arrival.is_unasked:
                self._places.show(arrival, trace_id)


def _take_turns(connection: Connection, arrival: Arrival) -> None:
    """One question after the other of a person and of a channel: each counts those before it."""
    for place_id in (arrival.user_id, arrival.channel_id):
        db.lock(connection, f"questions {place_id}")
