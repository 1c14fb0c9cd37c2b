"""How many questions are answered an hour, by person and by channel, whichever process takes them.

They are counted over traces. What was refused does not count, so who goes on asking waits no
longer; an answer to an edited question counts beside the one before, so editing gives no more.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Connection, text

from app import blocks, claims
from app.blocks import Message
from app.records import Arrival
from retrieval import db

HOUR = timedelta(hours=1)
PERSON = "I have answered {limit} of your questions in the last hour, which is as many as I answer."
CHANNEL = (
    "I have answered {limit} questions in this channel in the last hour, which is as many as I "
    "answer."
)
AGAIN = "Please ask this one again after {time}."

# now() is one moment of a transaction, by which an index can be searched; clock_timestamp() is not.
# SQL: since when nothing of what :condition names is one too many, and NULL where nothing is: when
# as many were asked before this question as are allowed, the first of them.
_FULL_SINCE = """(
    SELECT max(asked_at) FROM (
        SELECT asked_at,
               sum(CASE WHEN settings #>> '{{before,outcome}}' <> 'failed' THEN 2 ELSE 1 END)
                   OVER (ORDER BY asked_at DESC, trace_id) AS answers
        FROM traces
        WHERE {condition} AND asked_at > now() - interval '1 hour'
        AND (asked_at, trace_id) < (own.until, own.trace_id)
        AND is_question(traces) AND error_class IS DISTINCT FROM :limited
    ) AS counted
    WHERE answers >= {limit}
)"""
_OF_PERSON = "tenant_id = own.tenant_id AND team_id = own.team_id AND user_id = own.user_id"
_OF_CHANNEL = "tenant_id = own.tenant_id AND channel_id = own.channel_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Full:
    """Since when there is no room for a question."""

    person: datetime | None  # None: there is room
    channel: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """That a question is one too many."""

    message: Message | None  # what its asker is to be told; None: they were, within the hour


class Limits:
    """What one person and one channel may ask in an hour."""

    def __init__(self, *, per_person: int, per_channel: int) -> None:
        self._per_person = per_person
        self._per_channel = per_channel

    def find_refusal(
        self, connection: Connection, arrival: Arrival, trace_id: UUID, *, is_edited: bool = False
    ) -> Refusal | None:
        """What is to be done about a question that was just claimed; None: to answer it.

        The transaction sees all that its tenant's people have asked. Of one that was edited, the
        answer stays as it is.
        """
        full = self._load(connection, trace_id, is_edited=is_edited)
        if full.person is None and full.channel is None:
            return None
        if arrival.is_unasked and not is_edited:
            return Refusal(message=None)
        is_first = _note(connection, trace_id)
        return Refusal(message=self._build_message(full) if is_first else None)

    def _load(self, connection: Connection, trace_id: UUID, *, is_edited: bool) -> _Full:
        person = _FULL_SINCE.format(condition=_OF_PERSON, limit=":per_person")
        channel = _FULL_SINCE.format(condition=_OF_CHANNEL, limit=":per_channel")
        row = connection.execute(
            text(f"""
                SELECT {person} AS person, {channel} AS channel
                FROM (
                    SELECT trace_id, tenant_id, team_id, user_id, channel_id,
                           CASE WHEN :is_edited THEN now() ELSE asked_at END
                               AS until
                    FROM traces WHERE trace_id = :trace_id
                ) AS own
            """),
            {
                "trace_id": trace_id,
                "per_person": self._per_person,
                "per_channel": self._per_channel,
                "is_edited": is_edited,
                "limited": claims.LIMITED,
            },
        ).one()
        return _Full(**row._mapping)

    def _build_message(self, full: _Full) -> Message:
        told = (
            PERSON.format(limit=self._per_person)
            if full.person
            else CHANNEL.format(limit=self._per_channel)
        )
        again = max(filter(None, (full.person, full.channel))) + HOUR
        time = f"<!date^{again.timestamp():.0f}^{{time}}|{again:%H:%M} UTC>"
        return blocks.build_notice(f"{told} {AGAIN.format(time=time)}")


def _note(connection: Connection, trace_id: UUID) -> bool:
    """Whether it is the first one of its asker's in an hour."""
    db.lock(connection, "limits")  # each sees what was noted before
    return bool(
        connection.execute(
            text(f"""
                UPDATE traces AS own SET settings = settings || '{{"limited": true}}'
                WHERE trace_id = :trace_id
                RETURNING NOT EXISTS (
                    SELECT FROM traces
                    WHERE {_OF_PERSON} AND settings ? 'limited'
                    AND asked_at > now() - interval '1 hour')
            """),
            {"trace_id": trace_id},
        ).scalar()
    )
