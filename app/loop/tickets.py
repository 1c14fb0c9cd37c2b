"""One ticket for each drop: opened once, told when it falls further, closed on recovery.

- A drop opens a ticket unless one of the set is open: the row is the claim, made before the tracker
  is called. Where the tracker refuses, the claim is given up, and the next run tries again; where
  nobody knows whether it took it, the next run looks for it there before it opens another.
- Of an open ticket the same drop says nothing. A further one, beyond noise against the run that was
  told last, adds a comment.
- It is closed once the run has fallen from neither the last good run nor any recent one; with too
  few cases left of the good run, once it has fallen from no recent one.
- One that somebody closes in the tracker counts as open here until then: who closed it knows of the
  drop. A comment on recovery does no harm there.
- Where the set has changed so much that no run can be compared, nothing is opened or closed.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from sqlalchemy import text

from app.evaluating import Run, StoredRun, load_run
from app.loop import causes, drops, ticket_texts
from app.loop.drops import Drop
from app.loop.index_changes import Cause
from app.loop.trackers import Note, TicketLost, TicketRefused, Tracker
from retrieval.db import Database

CLAIM_S = 300  # after which nobody is at work any more on a ticket without a reference; chosen

Event = Literal["opened", "told further", "closed", "open", "failed"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """An open ticket."""

    ticket_id: int
    good_run_id: int
    run_id: int  # the last that it tells of
    reference: str | None  # None until the tracker has said where it stands
    good_started_at: datetime

    @property
    def mark(self) -> str:
        return f"Footnote ticket {self.ticket_id}, {self.good_started_at.isoformat()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A drop and what may have caused it."""

    drop: Drop
    causes: tuple[Cause, ...]  # likeliest first

    @property
    def good(self) -> StoredRun:
        return self.drop.good


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What became of the ticket of a set in one run."""

    event: Event
    reference: str | None


def keep_up(
    database: Database,
    tracker: Tracker,
    run: Run,
    runs: Sequence[StoredRun],
    alarm: Alarm | None,
) -> News | None:
    """Have the tracker know of a run what there is to know; None where that is nothing.

    runs are the recent ones before, latest first, and alarm the drop that the run shows against
    them. What the tracker does not take is logged, and tried again with the next run.
    """
    ticket = load_open(database, run.name)
    if ticket is not None and ticket.reference is not None:
        return _follow(database, tracker, ticket, run, runs, alarm)
    if ticket is not None:
        return _take_over(database, tracker, ticket, run, alarm)
    ticket = claim(database, run, alarm.good) if alarm else None
    return _open(database, tracker, ticket, run, alarm) if ticket and alarm else None


def raise_alarm(database: Database, drop: Drop, run: Run) -> Alarm:
    """The drop with its causes."""
    lost = [change.case_id for change in drop.difference.lost]
    return Alarm(drop=drop, causes=tuple(causes.find(database, drop.good, run, lost)))


def load_open(database: Database, name: str) -> Ticket | None:
    """The open ticket of a set; None when there is none."""
    with database.transaction() as connection:
        row = connection.execute(
            text("""
                SELECT ticket_id, good_run_id, tickets.run_id, reference,
                       good.started_at AS good_started_at
                FROM tickets JOIN eval_runs AS good ON good.run_id = good_run_id
                WHERE tickets.cases_name = :name AND closed_at IS NULL
            """),
            {"name": name},
        ).one_or_none()
    return Ticket(**row._mapping) if row else None


def claim(database: Database, run: Run, good: StoredRun) -> Ticket | None:
    """The ticket that this process, of all, is to open; None when another one does."""
    with database.transaction() as connection:
        ticket_id = connection.execute(
            text("""
                INSERT INTO tickets (tenant_id, cases_name, good_run_id, run_id)
                VALUES (current_setting('footnote.tenant_id'), :name, :good_run_id, :run_id)
                ON CONFLICT (tenant_id, cases_name) WHERE closed_at IS NULL DO NOTHING
                RETURNING ticket_id
            """),
            {"name": run.name, "good_run_id": good.run_id, "run_id": run.run_id},
        ).scalar()
    if ticket_id is None:
        return None
    return Ticket(
        ticket_id=ticket_id,
        good_run_id=good.run_id,
        run_id=run.run_id,
        reference=None,
        good_started_at=good.started_at,
    )


def _open(database: Database, tracker: Tracker, ticket: Ticket, run: Run, alarm: Alarm) -> News:
    title = ticket_texts.build_title(alarm.drop.difference)
    body = ticket_texts.build_opening(run, alarm.drop, alarm.causes)
    try:
        reference = tracker.open(_build_note(ticket, title, body))
    except TicketRefused as error:
        log.warning("Ticket %s was not opened: %s", ticket.ticket_id, error)
        _execute(database, "DELETE FROM tickets WHERE ticket_id = :ticket_id", ticket)
        return News(event="failed", reference=None)
    except TicketLost as error:
        log.warning("Ticket %s may have been opened: %s", ticket.ticket_id, error)
        return News(event="failed", reference=None)
    _save_reference(database, ticket, reference)
    return News(event="opened", reference=reference)


def _take_over(
    database: Database, tracker: Tracker, ticket: Ticket, run: Run, alarm: Alarm | None
) -> News | None:
    """See to a ticket of which nobody knows whether it was opened, unless somebody is at it."""
    taken = _execute(
        database,
        "UPDATE tickets SET opened_at = now() WHERE ticket_id = :ticket_id AND reference IS NULL"
        f" AND opened_at < now() - make_interval(secs => {CLAIM_S})",
        ticket,
    )
    if not taken:
        return None
    try:
        reference = tracker.find(_build_note(ticket, "", ""))
    except (TicketRefused, TicketLost) as error:
        log.warning("Ticket %s was not looked for: %s", ticket.ticket_id, error)
        return News(event="failed", reference=None)
    if reference is not None:
        _save_reference(database, ticket, reference)
        return News(event="open", reference=reference)  # the next run goes on from there
    if alarm is not None:
        return _open(database, tracker, ticket, run, alarm)
    _execute(database, "DELETE FROM tickets WHERE ticket_id = :ticket_id", ticket)
    return None


def _follow(
    database: Database,
    tracker: Tracker,
    ticket: Ticket,
    run: Run,
    runs: Sequence[StoredRun],
    alarm: Alarm | None,
) -> News:
    """Say of an open ticket what is new: that it fell further, or is over."""
    good, told = load_run(database, ticket.good_run_id), load_run(database, ticket.run_id)
    assert good and told  # the rows of tickets refer to them
    further = drops.weigh(told, run)
    if further and drops.is_drop(further):
        worse = raise_alarm(database, Drop(good=told, difference=further), run)
        return _tell_further(database, tracker, ticket, run, worse)
    since_good = drops.weigh(good, run)
    is_comparable = since_good is not None or any(drops.weigh(each, run) for each in runs)
    if alarm is None and is_comparable and not (since_good and drops.is_drop(since_good)):
        body = ticket_texts.build_recovery(run, good, since_good)
        return _close(database, tracker, ticket, body)
    return News(event="open", reference=ticket.reference)


def _tell_further(
    database: Database, tracker: Tracker, ticket: Ticket, run: Run, alarm: Alarm
) -> News:
    assert ticket.reference is not None
    moved = "UPDATE tickets SET run_id = :to WHERE ticket_id = :ticket_id AND run_id = :run_id"
    if not _execute(database, moved, ticket, to=run.run_id):
        return News(event="open", reference=ticket.reference)  # another process tells it
    title = ticket_texts.build_title(alarm.drop.difference)
    body = ticket_texts.build_further(run, alarm.drop, alarm.causes)
    note = _build_note(ticket, title, body)
    try:
        tracker.comment(ticket.reference, note)
    except TicketRefused as error:
        log.warning("Ticket %s was not told of a further drop: %s", ticket.ticket_id, error)
        _execute(database, moved, replace(ticket, run_id=run.run_id), to=ticket.run_id)
        return News(event="failed", reference=ticket.reference)
    except TicketLost as error:  # better not told than told twice
        log.warning("Ticket %s may not know of a further drop: %s", ticket.ticket_id, error)
    return News(event="told further", reference=ticket.reference)


def _close(database: Database, tracker: Tracker, ticket: Ticket, body: str) -> News:
    assert ticket.reference is not None
    closed = (
        "UPDATE tickets SET closed_at = now() WHERE ticket_id = :ticket_id AND closed_at IS NULL"
    )
    if not _execute(database, closed, ticket):
        return News(event="closed", reference=ticket.reference)
    try:
        tracker.close(ticket.reference, _build_note(ticket, "Recovered", body))
    except (TicketRefused, TicketLost) as error:
        log.warning("Ticket %s was not closed: %s", ticket.ticket_id, error)
        _execute(
            database, "UPDATE tickets SET closed_at = NULL WHERE ticket_id = :ticket_id", ticket
        )
        return News(event="failed", reference=ticket.reference)
    return News(event="closed", reference=ticket.reference)


def _build_note(ticket: Ticket, title: str, body: str) -> Note:
    return Note(ticket_id=ticket.ticket_id, mark=ticket.mark, title=title, body=body)


def _save_reference(database: Database, ticket: Ticket, reference: str) -> None:
    _execute(
        database,
        "UPDATE tickets SET reference = :reference WHERE ticket_id = :ticket_id",
        ticket,
        reference=reference,
    )


def _execute(database: Database, statement: str, ticket: Ticket, **values: object) -> bool:
    """Whether the statement found the ticket as it expects it."""
    with database.transaction() as connection:
        done = connection.execute(
            text(statement), {"ticket_id": ticket.ticket_id, "run_id": ticket.run_id, **values}
        )
    return done.rowcount == 1
