"""How many questions are answered an hour, by person and by channel, whichever process takes them.

They are counted over traces. What was refused does not count, so who goes on asking waits no
longer; an answer to an edited question counts beside the one before, so editing gives no more.
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from slack_sdk import WebClient
from sqlalchemy import text

from app import blocks, posting, traces
from app.records import Arrival
from retrieval import db
from retrieval.db import Database

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
_OF_PERSON = "tenant_id = :tenant_id AND team_id = own.team_id AND user_id = own.user_id"
_OF_CHANNEL = "tenant_id = :tenant_id AND channel_id = own.channel_id"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Full:
    """Since when there is no room for a question."""

    person: datetime | None  # None: there is room
    channel: datetime | None


class Limits:
    """What one person and one channel may ask in an hour."""

    def __init__(
        self, client: WebClient, database: Database, *, per_person: int, per_channel: int
    ) -> None:
        self._client = client
        self._database = database.unrestricted  # counts, and shows nobody anything
        self._per_person = per_person
        self._per_channel = per_channel

    def refuses(self, arrival: Arrival, trace_id: UUID) -> bool:
        """Whether a question that was just taken is one too many.

        Then it has failed, so that it can be asked again, and its asker alone is told, once; of
        what was overheard nothing is left.
        """
        return self._refuses(arrival, trace_id, is_edited=False)

    def refuses_edit(self, arrival: Arrival, trace_id: UUID) -> bool:
        """The same of one that was edited, whose answer stays as it is."""
        return self._refuses(arrival, trace_id, is_edited=True)

    def _refuses(self, arrival: Arrival, trace_id: UUID, *, is_edited: bool) -> bool:
        full = self._load(trace_id, is_edited=is_edited)
        if full.person is None and full.channel is None:
            return False
        log.info("Question %s is one too many", trace_id)
        if arrival.is_unasked and not is_edited:
            traces.forget(self._database, trace_id)
            return True
        is_first = self._note(trace_id, is_edited=is_edited)
        if is_first and not arrival.is_unasked:
            self._tell(arrival, full)
        return True

    def _load(self, trace_id: UUID, *, is_edited: bool) -> _Full:
        person = _FULL_SINCE.format(condition=_OF_PERSON, limit=":per_person")
        channel = _FULL_SINCE.format(condition=_OF_CHANNEL, limit=":per_channel")
        with self._database.transaction() as connection:
            row = connection.execute(
                text(f"""
                    SELECT {person} AS person, {channel} AS channel
                    FROM (
                        SELECT trace_id, team_id, user_id, channel_id,
                               CASE WHEN :is_edited THEN now() ELSE asked_at END
                                   AS until
                        FROM traces WHERE trace_id = :trace_id
                    ) AS own
                """),
                {
                    "tenant_id": self._database.tenant_id,
                    "trace_id": trace_id,
                    "per_person": self._per_person,
                    "per_channel": self._per_channel,
                    "is_edited": is_edited,
                    "limited": traces.LIMITED,
                },
            ).one_or_none()
        return _Full(**row._mapping) if row else _Full(person=None, channel=None)

    def _note(self, trace_id: UUID, *, is_edited: bool) -> bool:
        """Whether it is the first one of its asker's in an hour."""
        with self._database.transaction() as connection:
            db.lock(connection, "limits")  # each sees what was noted before
            is_first = connection.execute(
                text(f"""
                    UPDATE traces AS own SET settings = settings || '{{"limited": true}}'
                    WHERE trace_id = :trace_id
                    RETURNING NOT EXISTS (
                        SELECT FROM traces
                        WHERE {_OF_PERSON} AND settings ? 'limited'
                        AND asked_at > now() - interval '1 hour')
                """),
                {"tenant_id": self._database.tenant_id, "trace_id": trace_id},
            ).scalar()
        if not is_edited:
            traces.save_failure(self._database, trace_id, traces.LIMITED)
        return bool(is_first)

    def _tell(self, arrival: Arrival, full: _Full) -> None:
        told = (
            PERSON.format(limit=self._per_person)
            if full.person
            else CHANNEL.format(limit=self._per_channel)
        )
        again = max(filter(None, (full.person, full.channel))) + HOUR
        time = f"<!date^{again.timestamp():.0f}^{{time}}|{again:%H:%M} UTC>"
        posting.show_privately(
            self._client,
            posting.build_asker(arrival),
            blocks.build_notice(f"{told} {AGAIN.format(time=time)}"),
        )
