"""Writing to Slack: once, in the thread, waiting when told to."""

from time import monotonic
from uuid import UUID

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from app import posting
from app.blocks import Message
from app.posting import Part, PostLost
from app.records import Arrival
from tests.stand_ins.slack import SlackStandIn

TRACE_ID = UUID("00000000-0000-0000-0000-000000000001")
PART = Part(trace_id=TRACE_ID, key="k", number=0, count=1)
MESSAGE = Message(
    text="30 s", blocks=({"type": "section", "text": {"type": "mrkdwn", "text": "30 s"}},)
)


@pytest.fixture
def client(slack: SlackStandIn) -> WebClient:
    return posting.build_client(slack.bot_token, slack.api_url)


def asked(slack: SlackStandIn) -> Arrival:
    ts = slack.write("how long?", channel_id="C1")["ts"]
    return Arrival(question="how long?", channel_id="C1", message_ts=ts, thread_ts=ts)


def test_the_ts_of_what_was_posted_comes_back(slack: SlackStandIn, client: WebClient) -> None:
    arrival = asked(slack)
    ts = posting.post(client, arrival, MESSAGE, PART)
    (_, posted) = slack.messages("C1", arrival.thread_ts)
    assert (posted["ts"], posted["text"]) == (ts, "30 s")
    payload = {"trace_id": str(TRACE_ID), "key": "k", "number": 0, "count": 1}
    assert posted["metadata"]["event_payload"] == payload


def test_slack_is_told_to_add_nothing_to_a_post(slack: SlackStandIn, client: WebClient) -> None:
    posting.post(client, asked(slack), MESSAGE, PART)
    (call,) = slack.calls("chat.postMessage")
    additions = ("unfurl_links", "unfurl_media", "link_names", "parse")
    assert [call.params[name] for name in additions] == [False, False, False, "none"]


def test_p26_a_post_waits_as_told_and_is_there_once(slack: SlackStandIn, client: WebClient) -> None:
    slack.fail_next("chat.postMessage", status=429, headers={"Retry-After": "1"})
    start = monotonic()
    posting.post(client, asked(slack), MESSAGE, PART)
    assert monotonic() - start >= 1
    assert [call.status for call in slack.calls("chat.postMessage")] == [429, 200]
    assert len(slack.messages("C1")) == 2  # the question and its answer


@pytest.mark.parametrize("is_stored", [True, False])
def test_p27_a_post_whose_answer_is_lost_is_not_repeated(
    slack: SlackStandIn, client: WebClient, is_stored: bool
) -> None:
    slack.fail_next("chat.postMessage", drop_connection=True, after_storing=is_stored)
    with pytest.raises(PostLost):
        posting.post(client, asked(slack), MESSAGE, PART)
    assert len(slack.calls("chat.postMessage")) == 1


def test_a_refused_post_says_why(slack: SlackStandIn, client: WebClient) -> None:
    slack.workspace.channels["C1"] = {"is_archived": True}
    with pytest.raises(SlackApiError, match="is_archived"):
        posting.post(client, asked(slack), MESSAGE, PART)


def test_a_sign_that_does_not_come_is_let_be_and_one_that_does_not_go_is_told(
    slack: SlackStandIn, client: WebClient
) -> None:
    arrival = asked(slack)
    slack.fail_next("reactions.add", status=429, headers={"Retry-After": "60"})
    slack.fail_next("reactions.remove", drop_connection=True)
    posting.show_working(client, arrival)
    with pytest.raises(posting.CONNECTION_FAULTS):
        posting.clear_working(client, arrival)
    posting.clear_working(client, arrival)  # Slack: no_reaction
    assert len(slack.calls("reactions.add")) == 1


def test_what_one_person_sees_is_neither_waited_for_nor_sent_again(
    slack: SlackStandIn, client: WebClient
) -> None:
    reader = posting.Reader(user_id="U1", channel_id="C1")
    slack.fail_next("chat.postEphemeral", status=429, headers={"Retry-After": "60"})
    slack.fail_next("chat.postEphemeral", drop_connection=True)
    for _ in range(3):
        posting.show_privately(client, reader, MESSAGE)
    statuses = [call.answer and call.answer["ok"] for call in slack.calls("chat.postEphemeral")]
    assert statuses == [False, None, True]


def test_a_form_that_slack_does_not_open_is_an_error(
    slack: SlackStandIn, client: WebClient
) -> None:
    slack.fail_next("views.open", drop_connection=True)
    for _ in range(2):  # the second time: invalid_trigger_id
        with pytest.raises(posting.FormRefused):
            posting.open_form(client, "trigger", {"type": "modal"})
    assert len(slack.calls("views.open")) == 2
