"""The real clients against the stand-ins: what the other tests rely on."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic.types import CitationsSearchResultLocation, Message, TextBlock
from slack_bolt import Ack, App, BoltRequest, BoltResponse, Respond
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry import ConnectionErrorRetryHandler, FixedValueRetryIntervalCalculator

from tests.stand_ins import slack_limits
from tests.stand_ins.claude import Cite, ClaudeStandIn, Text
from tests.stand_ins.recording import Recording
from tests.stand_ins.slack import SlackStandIn
from tests.stand_ins.tracker import TrackerStandIn


@pytest.fixture
def slack() -> Iterator[SlackStandIn]:
    with SlackStandIn() as stand_in:
        yield stand_in
        stand_in.assert_no_unknown_calls()


@pytest.fixture
def claude() -> Iterator[ClaudeStandIn]:
    with ClaudeStandIn() as stand_in:
        yield stand_in
        stand_in.assert_no_unknown_calls()


def web_client(slack: SlackStandIn, **options: Any) -> WebClient:
    return WebClient(slack.bot_token, base_url=slack.api_url, **options)


def bolt_app(slack: SlackStandIn) -> App:
    return App(client=web_client(slack))


@pytest.fixture
def claude_client(claude: ClaudeStandIn) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(api_key=claude.api_key, base_url=claude.base_url) as client:
        yield client


def question(*, blocks: tuple[str, ...] = ("Failover takes 30 s.", " It pages.")) -> Any:
    """What is asked of Claude: one search result, then the question."""
    result = {
        "type": "search_result",
        "source": "https://docs.example.com/failover",
        "title": "Failover",
        "content": [{"type": "text", "text": text} for text in blocks],
        "citations": {"enabled": True},
    }
    content = [result, {"type": "text", "text": "How long does failover take?"}]
    messages = [{"role": "user", "content": content}]
    return {"model": "claude-test", "max_tokens": 100, "messages": messages}


def cited(message: Message) -> list[tuple[str, list[str]]]:
    """Each text block with its cited texts."""
    blocks = [block for block in message.content if isinstance(block, TextBlock)]
    return [(b.text, [citation.cited_text for citation in b.citations or []]) for b in blocks]


def test_slack_stores_a_thread_and_gives_it_back(slack: SlackStandIn) -> None:
    client = web_client(slack)
    root = slack.write("<@U0BOT> how long?", channel_id="C1")
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "30 s [1]"}}]
    posted = client.chat_postMessage(
        channel="C1", thread_ts=root["ts"], text="30 s", blocks=blocks, metadata={"event_type": "a"}
    )
    client.chat_update(channel="C1", ts=posted["ts"], text="31 s")
    client.reactions_add(channel="C1", timestamp=root["ts"], name="eyes")
    thread = client.conversations_replies(channel="C1", ts=root["ts"])["messages"]
    assert [message["text"] for message in thread] == ["<@U0BOT> how long?", "31 s"]
    assert thread[0]["reactions"][0]["name"] == "eyes"
    assert thread[1]["blocks"] == blocks
    (call,) = slack.calls("chat.postMessage")
    assert call.params["metadata"] == {"event_type": "a"}
    client.chat_delete(channel="C1", ts=posted["ts"])
    assert len(slack.messages("C1")) == 1


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"text": "a" * 40_001}, "msg_too_long"),
        ({"text": ""}, "no_text"),
        ({"text": "a", "thread_ts": ""}, "invalid_thread_ts"),
        ({"text": "a", "channel": "general"}, "channel_not_found"),
        ({"text": "a", "blocks": [section("a")] * 51}, "msg_blocks_too_many"),
        ({"text": "a", "blocks": [section("a" * 3_001)]}, "invalid_blocks"),
        ({"text": "a", "blocks": [{"type": "context", "elements": [{}] * 11}]}, "invalid_blocks"),
        (
            {"text": "a", "blocks": [{"type": "header", "text": {"text": "a" * 151}}]},
            "invalid_blocks",
        ),
    ],
)
def test_slack_refuses_what_slack_refuses(
    slack: SlackStandIn, params: dict[str, Any], error: str
) -> None:
    with pytest.raises(SlackApiError, match=error):
        web_client(slack).api_call("chat.postMessage", json={"channel": "C1", **params})
    assert slack.messages("C1") == []


def test_slack_takes_what_just_fits(slack: SlackStandIn) -> None:
    blocks = [section("a" * 3_000)] * 50
    web_client(slack).chat_postMessage(channel="C1", text="a" * 40_000, blocks=blocks)
    (message,) = slack.messages("C1")
    with pytest.raises(SlackApiError, match="msg_too_long"):
        web_client(slack).chat_update(channel="C1", ts=message["ts"], text="a" * 4_001)


def test_slack_checks_the_token(slack: SlackStandIn) -> None:
    for token, error in [
        (None, "not_authed"),
        ("xoxb-other", "invalid_auth"),
        (slack.app_token, "not_allowed_token_type"),
    ]:
        with pytest.raises(SlackApiError, match=error):
            WebClient(token, base_url=slack.api_url).auth_test()


def test_slack_refuses_unknown_methods_and_remembers_them() -> None:
    with SlackStandIn() as slack:
        with pytest.raises(SlackApiError, match="unknown_method"):
            web_client(slack).pins_list(channel="C1")
        with pytest.raises(AssertionError, match=r"pins\.list"):
            slack.assert_no_unknown_calls()


def test_slack_tells_of_channels_and_people(slack: SlackStandIn) -> None:
    client = web_client(slack)
    slack.workspace.channels["C2"] = {"is_ext_shared": True, "is_archived": True}
    slack.workspace.users["U2"] = {"is_restricted": True}
    assert not client.conversations_info(channel="C1")["channel"]["is_ext_shared"]
    assert client.conversations_info(channel="C2")["channel"]["is_ext_shared"]
    assert client.users_info(user="U1")["user"]["profile"]["email"] == "u1@example.com"
    assert client.users_info(user="U2")["user"]["is_restricted"]
    with pytest.raises(SlackApiError, match="is_archived"):
        client.chat_postMessage(channel="C2", text="a")


def test_slack_answers_an_allowed_method_as_told(slack: SlackStandIn) -> None:
    slack.allow("views.publish", {"view": {"id": "V1"}})
    answer = web_client(slack).views_publish(user_id="U1", view={"type": "home", "blocks": []})
    assert answer["view"]["id"] == "V1"
    assert slack.calls("views.publish")[0].params["view"] == {"type": "home", "blocks": []}


def test_slack_gives_a_long_thread_in_pages(slack: SlackStandIn) -> None:
    root = slack.write("1", channel_id="C1")
    for text in ("2", "3"):
        slack.write(text, channel_id="C1", thread_ts=root["ts"])
    pages = web_client(slack).conversations_replies(channel="C1", ts=root["ts"], limit=2)
    texts = [[message["text"] for message in page["messages"]] for page in pages]
    assert texts == [["1", "2"], ["3"]]


def test_a_wait_in_vain_says_what_came_instead(slack: SlackStandIn) -> None:
    web_client(slack).chat_postMessage(channel="C1", text="a")
    with pytest.raises(AssertionError, match=r"1 not received.*\n.*chat\.postMessage"):
        slack.wait_for_call("chat.update", timeout_s=0)


def test_slack_fails_as_told(slack: SlackStandIn) -> None:
    slack.fail_next("chat.postMessage", status=429, headers={"Retry-After": "7"})
    with pytest.raises(SlackApiError, match="ratelimited") as raised:
        web_client(slack).chat_postMessage(channel="C1", text="a")
    assert raised.value.response.headers["Retry-After"] == "7"
    assert slack.messages("C1") == []
    web_client(slack).chat_postMessage(channel="C1", text="a")
    assert [call.status for call in slack.calls("chat.postMessage")] == [429, 200]


def test_slack_stores_a_post_whose_answer_is_lost(slack: SlackStandIn) -> None:
    slack.fail_next("chat.postMessage", drop_connection=True, after_storing=True)
    with pytest.raises(ConnectionError):
        web_client(slack, retry_handlers=[]).chat_postMessage(channel="C1", text="a")
    assert len(slack.messages("C1")) == 1


def test_slack_sdk_posts_twice_when_an_answer_is_lost(slack: SlackStandIn) -> None:
    # What every WebClient does unless told otherwise, but for the second of waiting.
    retry = ConnectionErrorRetryHandler(interval_calculator=FixedValueRetryIntervalCalculator(0))
    slack.fail_next("chat.postMessage", drop_connection=True, after_storing=True)
    web_client(slack, retry_handlers=[retry]).chat_postMessage(channel="C1", text="a")
    assert len(slack.messages("C1")) == 2


def test_slack_tells_of_edits_previews_and_deletions(slack: SlackStandIn) -> None:
    message = slack.write("how long?", channel_id="D1")
    edit = slack.edit(message, "how far?")
    assert (edit["subtype"], edit["message"]["text"]) == ("message_changed", "how far?")
    assert edit["previous_message"]["text"] == "how long?"
    assert float(edit["message"]["edited"]["ts"]) - float(message["ts"]) == pytest.approx(5)
    preview = slack.unfurl(message)
    assert preview["message"]["text"] == preview["previous_message"]["text"] == "how far?"
    web_client(slack).chat_postMessage(channel="D1", thread_ts=message["ts"], text="a")
    assert slack.delete(message)["message"]["subtype"] == "tombstone"
    alone = slack.write("how long?", channel_id="D1")
    deletion = slack.delete(alone)
    assert (deletion["subtype"], deletion["deleted_ts"]) == ("message_deleted", alone["ts"])


def test_slack_takes_a_status_for_a_message_that_is_there(slack: SlackStandIn) -> None:
    client, message = web_client(slack), slack.write("how long?", channel_id="C1")
    client.assistant_threads_setStatus(channel_id="C1", thread_ts=message["ts"], status="")
    with pytest.raises(SlackApiError, match="invalid_thread_ts"):
        client.assistant_threads_setStatus(channel_id="C1", thread_ts="", status="is reading…")


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"thread_ts": ""}, "invalid_thread_ts"),
        ({"thread_ts": "1700000000.000100"}, "message_not_found"),
        ({"prompts": []}, "invalid_arguments"),
        ({"prompts": [{"title": "Leave"}]}, "invalid_arguments"),
        ({"prompts": [{"title": "Leave", "message": "how long?"}] * 5}, "invalid_arguments"),
    ],
)
def test_slack_takes_up_to_four_whole_prompts(
    slack: SlackStandIn, more: dict[str, Any], error: str
) -> None:
    client, prompt = web_client(slack), {"title": "Leave", "message": "how much leave?"}
    thread_ts = slack.open_pane(channel_id="D1")["assistant_thread"]["thread_ts"]
    suggest = client.assistant_threads_setSuggestedPrompts
    suggest(channel_id="D1", prompts=[prompt] * 4)
    suggest(channel_id="D1", prompts=[prompt], thread_ts=thread_ts)
    with pytest.raises(SlackApiError, match=error):
        suggest(**{"channel_id": "D1", "prompts": [prompt], **more})


def test_slack_holds_back_an_answer(slack: SlackStandIn) -> None:
    until, answered = threading.Event(), threading.Event()

    def post() -> None:
        web_client(slack).chat_postMessage(channel="C1", text="a")
        answered.set()

    slack.delay("chat.postMessage", until)
    thread = threading.Thread(target=post)
    thread.start()
    slack.wait_for_call("chat.postMessage")
    assert not answered.is_set()
    until.set()
    thread.join()


def test_bolt_answers_over_socket_mode(slack: SlackStandIn) -> None:
    app = bolt_app(slack)

    @app.event("app_mention")
    def mention(event: dict[str, Any], client: WebClient, body: dict[str, Any]) -> None:
        client.chat_postMessage(
            channel=event["channel"], thread_ts=event["ts"], text=body["event_id"]
        )

    @app.command("/rag")
    def command(ack: Ack, respond: Respond, command: dict[str, Any]) -> None:
        ack("looking")
        respond(text=f"found {command['text']}")

    @app.action("down")
    def vote(ack: Ack, body: dict[str, Any], client: WebClient) -> None:
        ack()
        title = {"type": "plain_text", "text": "Why?"}
        view = {"type": "modal", "callback_id": "why", "title": title, "blocks": [section("?")]}
        client.views_open(trigger_id=body["trigger_id"], view=view)

    @app.view("why")
    def reason(ack: Ack) -> None:
        ack(response_action="clear")

    with slack.connected(app):
        message = slack.write("<@U0BOT> hi", channel_id="C1")
        event = {**message, "type": "app_mention"}
        envelope_id = slack.send_event(event, event_id="Ev9", retry_attempt=1)
        (call,) = slack.wait_for_call("chat.postMessage")
        assert (call.params["thread_ts"], call.params["text"]) == (message["ts"], "Ev9")
        assert slack.wait_for_ack(envelope_id).ack_seconds < 3

        envelope_id = slack.send_slash_command("/rag", "failover", "U1", "C1")
        assert slack.wait_for_ack(envelope_id).payload == {"text": "looking"}
        (call,) = slack.wait_for_call("response_url")
        assert call.params["text"] == "found failover"

        answer_ts = slack.messages("C1")[-1]["ts"]
        action = {"type": "button", "action_id": "down", "value": "1"}
        slack.send_block_action(action, user_id="U1", channel_id="C1", message_ts=answer_ts)
        (call,) = slack.wait_for_call("views.open")
        envelope_id = slack.send_view_submission(call.params["view"], user_id="U1", values={})
        assert slack.wait_for_ack(envelope_id).payload == {"response_action": "clear"}


def test_an_ephemeral_message_is_there_for_one_person(slack: SlackStandIn) -> None:
    button = {"type": "button", "action_id": "more", "text": {"text": "More"}}
    shown = web_client(slack).chat_postEphemeral(
        channel="C1", user="U1", text="a", blocks=[{"type": "actions", "elements": [button]}]
    )
    assert slack.messages("C1") == []
    app, seen = bolt_app(slack), threading.Event()

    @app.action("more")
    def more(ack: Ack, body: dict[str, Any]) -> None:
        ack()
        assert "message" not in body
        assert body["container"]["is_ephemeral"]
        seen.set()

    with slack.connected(app):
        action = {"type": "button", "action_id": "more"}
        where: dict[str, Any] = {"channel_id": "C1", "message_ts": shown["message_ts"]}
        slack.send_block_action(action, user_id="U1", **where)
        assert seen.wait(10)
        with pytest.raises(KeyError):
            slack.send_block_action(action, user_id="U2", **where)


def form(**more: Any) -> dict[str, Any]:
    """A modal with a menu that is filled while one types."""
    label = {"type": "plain_text", "text": "Page"}
    element = {"type": "external_select", "action_id": "page", "min_query_length": 2}
    block = {"type": "input", "block_id": "p", "label": label, "element": element, **more}
    words = {"title": label, "submit": label}
    return {"type": "modal", "callback_id": "form", **words, "blocks": [block]}


def test_slack_asks_for_options_while_one_types(slack: SlackStandIn) -> None:
    app = bolt_app(slack)

    @app.options("page")
    def options(ack: Ack, body: dict[str, Any]) -> None:
        text = {"type": "plain_text", "text": body["value"]}
        ack(options=[{"text": text, "value": body["view"]["callback_id"]}])

    with slack.connected(app):
        envelope_id = slack.send_block_suggestion(
            form(), user_id="U1", action_id="page", value="le"
        )
        payload = slack.wait_for_ack(envelope_id).payload
    text = {"type": "plain_text", "text": "le"}
    assert payload == {"options": [{"text": text, "value": "form"}]}
    assert slack_limits.option_problems(payload["options"]) == []


LONG_OPTION = {"text": {"type": "plain_text", "text": "a" * 76}, "value": "1"}
RADIO = {"type": "radio_buttons", "options": [LONG_OPTION]}


@pytest.mark.parametrize(
    "view",
    [
        {**form(), "title": {"type": "plain_text", "text": "a" * 25}},
        {**form(), "submit": {"type": "plain_text", "text": "a" * 25}},
        {key: value for key, value in form().items() if key != "submit"},
        {**form(), "private_metadata": "a" * 3_001},
        {**form(), "blocks": [{"type": "context_actions", "elements": [{}]}]},
        {**form(), "blocks": form()["blocks"] * 101},
        form(element=RADIO),
        form(element={"type": "radio_buttons", "options": []}),
        form(element={"type": "plain_text_input", "max_length": 2, "initial_value": "abc"}),
        form(label={"type": "mrkdwn", "text": "Page"}),
    ],
)
def test_slack_refuses_forms_that_break_its_rules(view: dict[str, Any]) -> None:
    assert slack_limits.view_problems(form()) == []
    assert slack_limits.view_problems(view)


def test_each_envelope_goes_to_one_connection_and_a_refresh_loses_none(
    slack: SlackStandIn,
) -> None:
    seen: dict[str, list[str]] = {"a": [], "b": []}

    def recording_app(name: str) -> App:
        app = bolt_app(slack)

        @app.event("app_home_opened")
        def opened(body: dict[str, Any]) -> None:
            seen[name].append(body["event_id"])

        return app

    opened = {"type": "app_home_opened"}
    with slack.connected(recording_app("a")), slack.connected(recording_app("b")):
        slack.wait_for_connections(2)
        before = [slack.send_event(opened) for _ in range(4)]
        slack.refresh_connections()
        after = [slack.send_event(opened) for _ in range(2)]
        for envelope_id in [*before, *after]:
            slack.wait_for_ack(envelope_id)
        assert len(slack.calls("apps.connections.open")) == 4
    assert sorted(seen["a"] + seen["b"]) == [f"Ev{number:04d}" for number in range(1, 7)]
    assert [len(seen["a"]), len(seen["b"])] == [3, 3]


def test_what_is_not_acknowledged_can_be_sent_again_as_often_as_slack_does(
    slack: SlackStandIn,
) -> None:
    app, numbers = bolt_app(slack), Recording[str]()

    @app.event("app_mention", middleware=[lambda: BoltResponse(status=503)])
    def nothing() -> None: ...

    @app.middleware
    def note(request: BoltRequest, next: Callable[[], None]) -> None:
        numbers.add(request.headers["x-slack-retry-num"][0])
        next()

    event = slack.write("<@U0BOT> how long?", channel_id="C1")
    with slack.connected(app):
        sent = [slack.send_event({**event, "type": "app_mention"})]
        for count in range(1, 4):
            numbers.wait_for(count=count)
            sent.append(slack.send_again(sent[-1]))
        numbers.wait_for(count=4)
        assert slack.find_unacknowledged() == tuple(sent)
        with pytest.raises(AssertionError, match="does not send it again"):
            slack.send_again(sent[-1])
    assert numbers.having() == ("0", "1", "2", "3")


def test_claude_cites_the_first_block_unless_told_otherwise(
    claude: ClaudeStandIn, claude_client: anthropic.Anthropic
) -> None:
    with claude_client.messages.stream(**question()) as stream:
        pieces = list(stream.text_stream)
        message = stream.get_final_message()
    assert cited(message) == [
        ("It says: ", []),
        ("Failover takes 30 s.", ["Failover takes 30 s."]),
    ]
    # Pieces of 7: 9 characters make 2, 20 make 3.
    assert pieces == ["It says", ": ", "Failove", "r takes", " 30 s."]
    assert message.stop_reason == "end_turn"
    # 28 of the question and 20 + 10 of the blocks; 9 + 20 written; a quarter of each, rounded up.
    assert (message.usage.input_tokens, message.usage.output_tokens) == (15, 8)
    assert claude.requests()[0].body["stream"] is True


def test_claude_answers_the_same_without_a_stream(claude_client: anthropic.Anthropic) -> None:
    message = claude_client.messages.create(**question())
    first, second = message.content
    assert isinstance(first, TextBlock) and isinstance(second, TextBlock)
    assert (first.text, first.citations) == ("It says: ", None)
    assert second.text == "Failover takes 30 s."
    assert second.citations == [
        CitationsSearchResultLocation(
            type="search_result_location",
            cited_text="Failover takes 30 s.",
            source="https://docs.example.com/failover",
            title="Failover",
            search_result_index=0,
            start_block_index=0,
            end_block_index=1,
        )
    ]


def test_claude_follows_scripts(claude: ClaudeStandIn, claude_client: anthropic.Anthropic) -> None:
    claude.reply([Text("Both.", cites=[(0, 0, 2)])], stop_reason="max_tokens")
    claude.reply([Text("Lie.", cites=[Cite(0, 0, 1, cited_text="Never written.")])])
    claude.reply(lambda body: [Text(body["model"])], where=lambda body: body["max_tokens"] == 1)
    claude.reply([Text("There is no sixth.", cites=[(5, 0, 1)])])
    claude.reply("two_sources.json")

    message = claude_client.messages.create(**question())
    assert message.stop_reason == "max_tokens"
    assert cited(message) == [("Both.", ["Failover takes 30 s. It pages."])]
    assert cited(claude_client.messages.create(**question())) == [("Lie.", ["Never written."])]
    with pytest.raises(anthropic.BadRequestError, match="stand-in: the scripted"):
        claude_client.messages.create(**question())
    message = claude_client.messages.create(**{**question(), "max_tokens": 1})
    assert cited(message) == [("claude-test", [])]
    two = question()
    two["messages"][0]["content"].insert(0, two["messages"][0]["content"][0])
    assert cited(claude_client.messages.create(**two))[3] == (
        "the on-call engineer is paged",
        [" It pages.", "Failover takes 30 s. It pages."],
    )


def test_claude_refuses_malformed_requests(claude_client: anthropic.Anthropic) -> None:
    plain = question()
    assistant = {"role": "assistant", "content": "Hm."}
    mixed = question()
    other = {**mixed["messages"][0]["content"][0], "citations": {"enabled": False}}
    mixed["messages"][0]["content"].append(other)
    for request, complaint in [
        (question(blocks=("a", " ")), "non-whitespace"),
        (question(blocks=()), "non-empty content"),
        ({**plain, "messages": [*plain["messages"], assistant]}, "end with a user message"),
        ({**plain, "messages": plain["messages"] * 2}, "alternate"),
        ({**plain, "extra_body": {"temprature": 0}}, "temprature"),
        (mixed, "for all search results or for none"),
    ]:
        with pytest.raises(anthropic.BadRequestError, match=complaint):
            claude_client.messages.create(**request)


def test_claude_fails_as_told(claude: ClaudeStandIn, claude_client: anthropic.Anthropic) -> None:
    claude.fail_next(529, times=3)  # the first try and the two retries of the client
    with pytest.raises(anthropic.APIStatusError) as raised:
        claude_client.messages.create(**question())
    assert raised.value.status_code == 529
    claude.fail_next(429)
    claude_client.messages.create(**question())
    assert [request.status for request in claude.requests()] == [529, 529, 529, 429, 200]


def test_claude_refuses_wrong_keys_and_unknown_paths(claude_client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.AuthenticationError):
        claude_client.with_options(api_key="sk-other").messages.create(**question())
    with ClaudeStandIn() as claude, pytest.raises(AssertionError, match="/v1/models"):
        with anthropic.Anthropic(api_key=claude.api_key, base_url=claude.base_url) as client:
            with pytest.raises(anthropic.NotFoundError):
                client.models.list()
        claude.assert_no_unknown_calls()


def read(client: anthropic.Anthropic) -> Message:
    with client.messages.stream(**question()) as stream:
        return stream.get_final_message()


def test_slack_takes_a_file_in_three_steps(slack: SlackStandIn) -> None:
    client = web_client(slack)
    client.files_upload_v2(filename="a.png", content=b"\x89PNG", channel="C1", initial_comment="x")
    (message,) = slack.messages("C1")
    assert (message["text"], message["files"]) == ("x", [{"id": "F0001", "title": "a.png"}])
    opened = client.files_getUploadURLExternal(filename="b.png", length=4)
    assert refusal(lambda: client.files_getUploadURLExternal(filename="b", length=0)) == (
        "invalid_arguments"
    )
    unsent = [{"id": opened["file_id"], "title": "b"}]
    assert refusal(lambda: client.files_completeUploadExternal(files=unsent)) == "file_not_found"


def refusal(call: Callable[[], object]) -> str:
    """Slack's error for a call that it refuses."""
    with pytest.raises(SlackApiError) as caught:
        call()
    return str(caught.value.response["error"])


def test_github_refuses_a_wrong_token_and_an_unknown_place() -> None:
    with TrackerStandIn() as tracker:
        issues = f"{tracker.github_url}/repos/{tracker.repository}/issues"
        fields = {"title": "t", "body": "b"}
        right = {"Authorization": f"Bearer {tracker.token}"}
        assert httpx2.post(issues, json=fields).status_code == 401
        assert httpx2.post(f"{issues}x", json=fields, headers=right).status_code == 404
        assert httpx2.get(f"{issues}/1", headers=right).status_code == 404
        assert httpx2.post(issues, json=fields, headers=right).status_code == 201
        assert [issue["number"] for issue in httpx2.get(issues, headers=right).json()] == [1]
        assert httpx2.post(tracker.webhook_url, json=fields).status_code == 204
        assert tracker.events.having() == (fields,)


def test_claude_cuts_a_stream_in_three_ways(
    claude: ClaudeStandIn, claude_client: anthropic.Anthropic
) -> None:
    claude.cut_next(after_events=4)
    with pytest.raises(httpx2.RemoteProtocolError):  # as it is: anthropic 2.14 does not wrap it
        read(claude_client)
    claude.cut_next(after_events=4, how="error")
    with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
        read(claude_client)
    claude.cut_next(after_events=4, how="end")
    message = read(claude_client)  # the client takes it for whole: only stop_reason tells
    assert (cited(message), message.stop_reason) == ([("It says", [])], None)


def test_claude_holds_a_stream(claude: ClaudeStandIn, claude_client: anthropic.Anthropic) -> None:
    until = threading.Event()
    claude.hold_next(until, after_events=4)
    with claude_client.messages.stream(**question()) as stream:
        pieces = iter(stream.text_stream)
        assert next(pieces) == "It says"
        until.set()
        assert "".join(pieces) == ": Failover takes 30 s."
