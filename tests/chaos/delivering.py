"""How events reach Footnote: as Slack delivers them, on a bad day."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from tests.stand_ins.slack_socket import Ack

from .agenda import Agenda
from .faulty_slack import FaultySlack
from .journal import Journal
from .plan import Dice

ACK_S = 3.0
# Slack tries again at once, after a minute and after five.
RETRY_AFTER_S = (0.0, 60.0, 300.0)
# So many times shorter, so that a run is; but a process takes as long to start as it does.
COMPRESSED = 2


@dataclass(slots=True, kw_only=True, eq=False)
class Delivery:
    """One event on its way."""

    event: Mapping[str, Any]
    event_id: str
    begun_at: float
    envelope_ids: list[str] = field(default_factory=list)
    unsent: int = 0  # tries at which no connection was open
    acked_at: float | None = None
    is_given_up: bool = False


class Deliveries:
    """All events of a run, each delivered until it is acknowledged or Slack gives up."""

    def __init__(self, agenda: Agenda, dice: Dice, journal: Journal) -> None:
        self._agenda = agenda
        self._dice = dice
        self._journal = journal
        self._lock = threading.Lock()
        self._by_envelope: dict[str, Delivery] = {}
        self._early: set[str] = set()  # acknowledged before its sender knew the envelope's id
        self.all: list[Delivery] = []
        self.ack_seconds: list[float] = []  # of each envelope that was acknowledged
        self.slack: FaultySlack | None = None  # that sends

    def send(self, event: Mapping[str, Any]) -> Delivery:
        """Have Slack deliver an event, maybe late, twice, or after the one that follows it."""
        assert self.slack is not None
        delivery = Delivery(event=event, event_id=self.slack.new_event_id(), begun_at=monotonic())
        with self._lock:
            self.all.append(delivery)
        way = self._dice.roll()
        if way is not None:
            self._journal.note(f"fault: {delivery.event_id} {way} {_describe(event)}")
        if way == "late":
            self._agenda.after(self._dice.draw(2, 8), partial(self._try, delivery, 1))
        elif way == "out of order":
            self._agenda.after(self._dice.draw(0.3, 3), partial(self._try, delivery, 0))
        elif way == "not delivered":
            self._plan_retry(delivery, 0, is_sent=True)
        else:
            self._try(delivery, 0)
            if way == "twice":
                self._send_once(delivery, 0)
        return delivery

    def heard(self, ack: Ack) -> None:
        with self._lock:
            self.ack_seconds.append(ack.ack_seconds)
            delivery = self._by_envelope.get(ack.envelope_id)
            if delivery is None:
                self._early.add(ack.envelope_id)
            elif delivery.acked_at is None:
                delivery.acked_at = monotonic()

    def count_open(self) -> int:
        with self._lock:
            return sum(each.acked_at is None and not each.is_given_up for each in self.all)

    def _try(self, delivery: Delivery, attempt: int) -> None:
        with self._lock:
            if delivery.acked_at is not None:
                return
        is_sent = self._send_once(delivery, attempt)
        if not is_sent:
            delivery.unsent += 1
        self._plan_retry(delivery, attempt, is_sent=is_sent)

    def _plan_retry(self, delivery: Delivery, attempt: int, *, is_sent: bool) -> None:
        wait_s = ACK_S if is_sent else 0
        if attempt < len(RETRY_AFTER_S):
            wait_s += RETRY_AFTER_S[attempt] / COMPRESSED
            self._agenda.after(wait_s, partial(self._try, delivery, attempt + 1))
        else:
            self._agenda.after(wait_s, partial(self._give_up, delivery))

    def _give_up(self, delivery: Delivery) -> None:
        delivery.is_given_up = delivery.acked_at is None
        if delivery.is_given_up:
            self._journal.note(f"Slack gives up {delivery.event_id} {_describe(delivery.event)}")

    def _send_once(self, delivery: Delivery, attempt: int) -> bool:
        assert self.slack is not None
        envelope_id = self.slack.deliver(delivery.event, delivery.event_id, attempt)
        if envelope_id is None:
            return False
        self._journal.note(
            f"sent: {envelope_id} {delivery.event_id} retry {attempt} {_describe(delivery.event)}"
        )
        with self._lock:
            delivery.envelope_ids.append(envelope_id)
            self._by_envelope[envelope_id] = delivery
            if envelope_id in self._early and delivery.acked_at is None:
                delivery.acked_at = monotonic()
        return True


def _describe(event: Mapping[str, Any]) -> str:
    inner = event.get("message") or event.get("previous_message") or event
    return f"{event['type']} {event.get('subtype', '')} {event['channel']} {inner['ts']}"
