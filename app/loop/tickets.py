"""One ticket for each drop: opened once, told what is new, closed on recovery.

- A drop opens a ticket unless one of the set is open: the row is the claim, made before the tracker
  is called. Where the tracker refuses, the row stays, and every later run tries again from its good
  run as long as the drop lasts; where nobody knows whether it took it, the next run looks for it
  there before it opens another.
- Of an open ticket the same drop says nothing. A further one, beyond noise against the run that was
  told last, adds a comment; so do other cases, once most of the lost ones are such.
- It is closed once the figure is back by drops.is_back, so that one that goes up and down stays one
  ticket; or once no case of that run can be compared any more.
- That something was told or closed is saved after the tracker has answered: what is told twice does
  no harm. A drop that comes before a closing was taken carries on in the same ticket.
- One that somebody closes in the tracker counts as open here until recovery: who closed it knows of
  the drop. One that the tracker has no more is given up after MOST_GONE tries, so that the next
  drop opens another.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from sqlalchemy import text

from app.eval_runs import Run, StoredRun, load_run
from app.loop import causes, drops, ticket_texts
from app.loop.drops import Drop
from app.loop.index_changes import Cause
from app.loop.trackers import Note, TicketGone, TicketLost, TicketRefused, Tracker
from retrieval.comparison import Difference
from retrieval.db import Database

CLAIM_S = 300  # after which nobody is at work any more on a ticket without a reference; chosen
MOST_GONE = 3  # answers in a row that a ticket is gone, after which it is given up; chosen
OTHERS = "Most of the lost cases are others than those that were told here last."

Event = Literal["opened", "told", "closed", "open", "failed", "given up"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """An open ticket."""

    ticket_id: int
    cases_name: str
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


def keep_up(database: Database, tracker: Tracker, run: Run, alarm: Alarm | None) -> News | None:
    """Have the tracker know of a run what there is to know; None where that is nothing.

    alarm is the drop that the run shows against recent ones. What the tracker does not take is
    logged, and tried again with the next run.
    """
    ticket = load_open(database, run.name)
    if ticket is not None and ticket.reference is not None:
        return _follow(database, tracker, ticket, run)
    if ticket is not None:
        return _take_over(database, tracker, ticket, run)
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
                SELECT ticket_id, tickets.cases_name, good_run_id, tickets.run_id, reference,
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
        cases_name=run.name,
        good_run_id=good.run_id,
        run_id=run.run_id,
        reference=None,
        good_started_at=good.started_at,
    )


def _open(database: Database, tracker: Tracker, ticket: Ticket, run: Run, alarm: Alarm) -> News:
    title = ticket_texts.build_title(alarm.drop.difference)
    body = ticket_texts.build_opening(run, alarm.drop, alarm.causes)
    try:
        reference = tracker.open(_build_note(database, ticket, title, body))
    except TicketRefused as error:
        log.warning("Ticket %s was not opened: %s", ticket.ticket_id, error)
        _release(database, ticket)
        return News(event="failed", reference=None)
    except TicketLost as error:
        log.warning("Ticket %s may have been opened: %s", ticket.ticket_id, error)
        return News(event="failed", reference=None)
    _update(
        database, ticket, "reference = :reference, run_id = :to", reference=reference, to=run.run_id
    )
    return News(event="opened", reference=reference)


def _take_over(database: Database, tracker: Tracker, ticket: Ticket, run: Run) -> News | None:
    """See to a ticket that the tracker did not take, or nobody knows, unless somebody is at it."""
    if not _claim_again(database, ticket):
        return None
    try:
        reference = tracker.find(_build_note(database, ticket, "", ""))
    except (TicketRefused, TicketLost) as error:
        log.warning("Ticket %s was not looked for: %s", ticket.ticket_id, error)
        _release(database, ticket)
        return News(event="failed", reference=None)
    if reference is not None:
        _update(database, ticket, "reference = :reference", reference=reference)
        return _follow(database, tracker, replace(ticket, reference=reference), run)
    good = _load(database, ticket.good_run_id)
    since_good = _find_lasting(good, run)
    if since_good is None:
        _execute(database, "DELETE FROM tickets WHERE ticket_id = :ticket_id", ticket)
        return None
    alarm = raise_alarm(database, Drop(good=good, difference=since_good), run)
    return _open(database, tracker, ticket, run, alarm)


def _follow(database: Database, tracker: Tracker, ticket: Ticket, run: Run) -> News:
    """Say of an open ticket what is new: that it fell further, fell elsewhere, or is over."""
    good, told = _load(database, ticket.good_run_id), _load(database, ticket.run_id)
    since_good, further = _find_lasting(good, run), drops.weigh(told, run)
    if since_good is None:
        body = ticket_texts.build_recovery(run, good, drops.compare(good, run.results))
        return _close(database, tracker, ticket, run, body)
    if further and drops.is_drop(further):
        worse = raise_alarm(database, Drop(good=told, difference=further), run)
        body = ticket_texts.build_further(run, worse.drop, worse.causes)
    elif drops.is_drop(since_good) and _are_others(since_good, told):
        other = raise_alarm(database, Drop(good=good, difference=since_good), run)
        body = f"{OTHERS}\n\n{ticket_texts.build_opening(run, other.drop, other.causes)}"
    else:
        return News(event="open", reference=ticket.reference)
    note = _build_note(database, ticket, ticket_texts.build_title(since_good), body)
    event = _write(database, ticket, tracker.comment, note)
    if event is None:
        _update(database, ticket, "run_id = :to, gone_count = 0", to=run.run_id)
    return News(event=event or "told", reference=ticket.reference)


def _find_lasting(good: StoredRun, run: Run) -> Difference | None:
    """The drop from a good run, beyond noise or not; None once it is over."""
    found = drops.compare(good, run.results)
    return found if found and not drops.is_back(found) else None


def _are_others(since_good: Difference, told: StoredRun) -> bool:
    """Whether most of the lost cases were not lost in the run that was told last."""
    others = [
        change
        for change in since_good.lost
        if (case := told.cases.get(change.case_id)) is None
        or case.values.get(drops.METRIC, 0) >= change.before
    ]
    return 2 * len(others) > len(since_good.lost)


def _close(database: Database, tracker: Tracker, ticket: Ticket, run: Run, body: str) -> News:
    event = _write(
        database, ticket, tracker.close, _build_note(database, ticket, "Recovered", body)
    )
    if event is None:
        _update(database, ticket, "closed_at = now()")
    elif event == "failed":
        # It may stand there, closed: should it fall again before that is known, that is told.
        _update(database, ticket, "run_id = :to", to=run.run_id)
    return News(event=event or "closed", reference=ticket.reference)


def _write(
    database: Database, ticket: Ticket, write: Callable[[str, Note], None], note: Note
) -> Event | None:
    """Tell the tracker more of a ticket; None when it took that, else what became of it."""
    assert ticket.reference is not None
    try:
        write(ticket.reference, note)
    except TicketGone as error:
        log.warning("Ticket %s is gone: %s", ticket.ticket_id, error)
        return "given up" if _count_gone(database, ticket) else "failed"
    except (TicketRefused, TicketLost) as error:
        log.warning("Ticket %s may not know all: %s", ticket.ticket_id, error)
        return "failed"
    return None


def _build_note(database: Database, ticket: Ticket, title: str, body: str) -> Note:
    """What is told, with whose set it is of: several may tell one tracker."""
    whose = f"{database.tenant_id}/{ticket.cases_name}"
    return Note(
        ticket_id=ticket.ticket_id,
        mark=ticket.mark,
        tenant_id=database.tenant_id,
        cases_name=ticket.cases_name,
        title=f"{title} ({whose})",
        body=body,
    )


def _load(database: Database, run_id: int) -> StoredRun:
    run = load_run(database, run_id)
    assert run  # the rows of tickets refer to it
    return run


def _claim_again(database: Database, ticket: Ticket) -> bool:
    """Whether it is this process, of all, that opens a ticket that is without a reference."""
    return _execute(
        database,
        "UPDATE tickets SET claimed_at = now() WHERE ticket_id = :ticket_id AND reference IS NULL"
        " AND coalesce(claimed_at, '-infinity') < now() - make_interval(secs => :claim_s)",
        ticket,
        claim_s=CLAIM_S,
    )


def _release(database: Database, ticket: Ticket) -> None:
    """Let the next run open the ticket."""
    _update(database, ticket, "claimed_at = NULL")


def _count_gone(database: Database, ticket: Ticket) -> bool:
    """Count that the tracker has a ticket no more; whether it was given up."""
    _update(database, ticket, "gone_count = gone_count + 1")
    return _execute(
        database,
        "UPDATE tickets SET closed_at = now() WHERE ticket_id = :ticket_id AND gone_count >= :most",
        ticket,
        most=MOST_GONE,
    )


def _update(database: Database, ticket: Ticket, changes: str, **values: object) -> None:
    _execute(
        database, f"UPDATE tickets SET {changes} WHERE ticket_id = :ticket_id", ticket, **values
    )


def _execute(database: Database, statement: str, ticket: Ticket, **values: object) -> bool:
    """Whether the statement found the ticket as it expects it."""
    with database.transaction() as connection:
        done = connection.execute(text(statement), {"ticket_id": ticket.ticket_id, **values})
    return done.rowcount == 1
