"""Tickets on GitHub and behind a webhook."""

import json
import logging
from collections.abc import Iterator

import pytest
from pydantic import SecretStr

from app import logs
from app.config import Settings
from app.loop import trackers
from app.loop.trackers import Note, TicketGone, TicketLost, TicketRefused, Tracker
from retrieval.errors import ConfigError
from tests.app.nights import on_github
from tests.app.test_logs import levels as levels  # puts back what logs.configure sets
from tests.stand_ins.tracker import TrackerStandIn

NOTE = Note(
    ticket_id=7,
    mark="Footnote ticket 7, today",
    tenant_id="acme",
    cases_name="cases",
    title="It fell",
    body="By a lot.",
)


@pytest.fixture
def stand_in_tracker() -> Iterator[TrackerStandIn]:
    with TrackerStandIn() as tracker:
        yield tracker


@pytest.fixture
def github(stand_in_tracker: TrackerStandIn) -> Tracker:
    tracker = trackers.build(on_github(stand_in_tracker))
    assert tracker
    return tracker


@pytest.fixture
def webhook(stand_in_tracker: TrackerStandIn) -> Tracker:
    tracker = trackers.build(Settings(tickets=stand_in_tracker.webhook_url))
    assert tracker
    return tracker


def test_without_tickets_there_is_no_tracker() -> None:
    assert trackers.build(Settings()) is None


def test_github_without_a_token_is_told() -> None:
    with pytest.raises(ConfigError, match="set GITHUB_TOKEN"):
        trackers.build(Settings(tickets="github:acme/wiki"))


def test_a_ticket_on_github_is_opened_told_more_and_closed(
    github: Tracker, stand_in_tracker: TrackerStandIn
) -> None:
    reference = github.open(NOTE)
    assert reference == "https://github.example/acme/wiki/issues/1"
    (issue,) = stand_in_tracker.issues
    assert issue.title == "It fell"
    assert issue.body == "By a lot.\n\n<!-- Footnote ticket 7, today -->"
    github.comment(reference, NOTE)
    github.close(reference, NOTE)
    assert (issue.state, issue.comments) == ("closed", ["By a lot.", "By a lot."])


def test_a_ticket_on_github_is_found_by_its_mark(github: Tracker) -> None:
    assert github.find(NOTE) is None
    reference = github.open(NOTE)
    assert github.find(NOTE) == reference


def test_an_issue_that_was_deleted_is_gone(
    github: Tracker, stand_in_tracker: TrackerStandIn
) -> None:
    for write in (github.comment, github.close):
        with pytest.raises(TicketGone, match="status 404"):
            write("https://github.example/acme/wiki/issues/9", NOTE)
    github.close("7", NOTE)  # of a webhook that was set before
    assert stand_in_tracker.issues == []


def test_where_the_closing_fails_the_comment_was_made(
    github: Tracker, stand_in_tracker: TrackerStandIn
) -> None:
    reference = github.open(NOTE)
    stand_in_tracker.fail_next(status=502, after_storing=True)
    with pytest.raises(TicketLost):
        github.close(reference, NOTE)
    (issue,) = stand_in_tracker.issues
    assert (issue.state, issue.comments) == ("open", ["By a lot."])


def test_a_repository_that_was_renamed_is_followed_by_the_same_method(
    github: Tracker, stand_in_tracker: TrackerStandIn
) -> None:
    reference = github.open(NOTE)
    stand_in_tracker.moved_to = f"{stand_in_tracker.github_url}/repositories/7"
    assert github.find(NOTE) == reference
    github.close(reference, NOTE)
    (issue,) = stand_in_tracker.issues
    assert (issue.state, issue.comments) == ("closed", ["By a lot."])


def test_no_other_host_is_given_the_token(
    github: Tracker, stand_in_tracker: TrackerStandIn
) -> None:
    with TrackerStandIn() as other:
        stand_in_tracker.moved_to = f"{other.github_url}/repositories/7"
        with pytest.raises(TicketRefused, match="status 301"):
            github.open(NOTE)
        assert other.requests.having() == ()


def test_a_repository_that_always_moves_on_is_left(
    github: Tracker, stand_in_tracker: TrackerStandIn
) -> None:
    url = stand_in_tracker.github_url
    stand_in_tracker.moved_to = f"{url}/repos/{stand_in_tracker.repository}/issues"
    with pytest.raises(TicketRefused, match="status 301"):
        github.open(NOTE)
    assert len(stand_in_tracker.requests.having()) == 1 + trackers.MOST_MOVES


def test_a_webhook_gets_each_event_with_the_number_of_the_ticket(
    webhook: Tracker, stand_in_tracker: TrackerStandIn
) -> None:
    reference = webhook.open(NOTE)
    webhook.comment(reference, NOTE)
    webhook.close(reference, NOTE)
    assert reference == "7" and webhook.find(NOTE) is None
    told = {
        "tenant": "acme",
        "set": "cases",
        "ticket_id": 7,
        "title": "It fell",
        "body": "By a lot.",
    }
    assert stand_in_tracker.events.having() == (
        {"event": "opened", **told},
        {"event": "commented", **told},
        {"event": "closed", **told},
    )


@pytest.mark.parametrize(
    ("status", "expected"),
    [(401, TicketRefused), (422, TicketRefused), (301, TicketRefused), (502, TicketLost)],
)
@pytest.mark.parametrize("name", ["github", "webhook"])
def test_what_is_refused_is_told_from_what_may_have_arrived(
    name: str,
    status: int,
    expected: type[Exception],
    stand_in_tracker: TrackerStandIn,
    request: pytest.FixtureRequest,
) -> None:
    tracker: Tracker = request.getfixturevalue(name)
    stand_in_tracker.fail_next(status=status)
    with pytest.raises(expected, match=f"status {status}"):
        tracker.open(NOTE)


def test_an_answer_that_got_lost_is_no_refusal(
    github: Tracker, stand_in_tracker: TrackerStandIn
) -> None:
    stand_in_tracker.fail_next(after_storing=True)
    with pytest.raises(TicketLost):
        github.open(NOTE)
    assert github.find(NOTE) == "https://github.example/acme/wiki/issues/1"


def test_a_tracker_that_is_not_there_took_nothing() -> None:
    tracker = trackers.build(Settings(tickets="http://127.0.0.1:1/hooks/secret-7"))
    assert tracker
    with pytest.raises(TicketRefused, match="ConnectError"):
        tracker.open(NOTE)


def test_neither_token_nor_address_is_told_by_an_error_or_a_log(
    stand_in_tracker: TrackerStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    logs.configure("DEBUG")
    github = on_github(stand_in_tracker)
    for settings in (github, Settings(tickets=stand_in_tracker.webhook_url)):
        tracker = trackers.build(settings.model_copy(update={"github_token": SecretStr("wrong")}))
        assert tracker
        stand_in_tracker.fail_next(status=403)
        with pytest.raises(TicketRefused) as caught:
            tracker.open(NOTE)
        assert str(caught.value) == "status 403"
    assert "secret-7" not in caplog.text and "wrong" not in caplog.text
    assert "It fell" not in caplog.text
    (first, _) = stand_in_tracker.requests.having()
    assert first.headers["authorization"] == "Bearer wrong"
    assert json.loads(first.body)["title"] == "It fell"
