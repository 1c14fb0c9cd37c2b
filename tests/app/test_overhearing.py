"""What is said without a mention: where it is answered, and where Footnote stays silent."""

from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from app.abstaining import IN_CHANNEL
from app.channels import ChannelMode
from app.records import Answer, Turn
from retrieval.db import Database
from tests.app.bot import Bot, connected, find_rows
from tests.app.test_listeners import cited_answer
from tests.stand_ins.slack import SlackStandIn

ASKED, FOLLOW_UP = "how many days of leave do we get?", "and in the first year?"
ABSTAINED = Answer(text="I couldn't find this.", abstained_because="BELOW_FLOOR")


class Channel:
    """A channel, heard by a new process of the bot each time: what counts has to be kept."""

    def __init__(
        self,
        slack: SlackStandIn,
        database: Database,
        mode: ChannelMode = "follow-ups",
        *,
        is_working: bool = True,
    ) -> None:
        self.slack = slack
        self.database = database
        self.mode = mode
        self.is_working = is_working
        self.answer: Answer | Exception = cited_answer()

    def ask(self, text: str = ASKED, **more: Any) -> str:
        """Mention the bot; the thread in which it has answered."""
        message = self.slack.write(f"<@U0BOT> {text}", channel_id="C1", **more)
        self.hear(message, {**message, "type": "app_mention"})
        return str(message.get("thread_ts", message["ts"]))

    def say(self, text: str, **more: Any) -> Bot:
        """Write something; the bot that has heard it."""
        return self.hear(self.slack.write(text, channel_id="C1", **more))

    def hear(self, *events: dict[str, Any]) -> Bot:
        channels = {"C1": self.mode}
        with connected(
            self.slack, self.database, channels=channels, is_working=self.is_working
        ) as bot:
            to_all = (f"@here {ASKED}", f"@channel {ASKED}")
            bot.answerer.answers |= dict.fromkeys((ASKED, FOLLOW_UP, *to_all), self.answer)
            bot.settle(*[self.slack.send_event(event) for event in events])
        return bot

    @property
    def visible(self) -> int:
        """How often the bot has shown itself: by answers, statuses and reactions."""
        methods = ("chat.postMessage", "assistant.threads.setStatus", "reactions.add")
        streams = ("chat.startStream", "chat.postEphemeral")
        return sum(len(self.slack.calls(method)) for method in (*methods, *streams))


@pytest.fixture
def channel(slack: SlackStandIn, database: Database) -> Channel:
    return Channel(slack, database)


def test_who_asked_goes_on_without_a_mention(channel: Channel) -> None:
    root = channel.ask()
    bot = channel.say(FOLLOW_UP, thread_ts=root)
    (turns,) = bot.answerer.asked.having()
    assert turns == (
        Turn(speaker="user", text=ASKED),
        Turn(speaker="bot", text=cited_answer().text),
        Turn(speaker="user", text=FOLLOW_UP),
    )
    *_, answer = channel.slack.messages("C1", root)
    assert answer["text"].startswith("It takes *30 s* [1].")
    assert len(find_rows(channel.database, "traces")) == 2


@pytest.mark.parametrize("mode", ["mentions", "follow-ups"])
def test_where_the_channel_does_not_allow_it_nothing_is_said(
    slack: SlackStandIn, database: Database, mode: ChannelMode
) -> None:
    channel = Channel(slack, database, mode)
    root = channel.ask()
    before = channel.visible
    channel.say(ASKED)
    if mode == "mentions":
        channel.say(FOLLOW_UP, thread_ts=root)
    assert channel.visible == before
    assert len(find_rows(database, "traces")) == 1


def test_any_channel_may_allow_it_but_direct_messages_of_several_do_not(
    slack: SlackStandIn, database: Database
) -> None:
    with connected(slack, database, channels={"*": "questions", "C2": "mentions"}) as bot:
        bot.answerer.answers[ASKED] = cited_answer()
        written = [slack.write(ASKED, channel_id=each) for each in ("C1", "C2", "G1", "G2")]
        written[-1]["channel_type"] = "mpim"
        bot.settle(*[slack.send_event(event) for event in written])
    posts = slack.calls("chat.postMessage")
    assert sorted(post.params["channel"] for post in posts) == ["C1", "G1"]


def test_where_people_talk_to_each_other_it_stays_silent_until_it_is_mentioned(
    channel: Channel,
) -> None:
    root = channel.ask(user_id="U1")
    channel.say("I think it's less", thread_ts=root, user_id="U2")
    before = channel.visible
    channel.say(FOLLOW_UP, thread_ts=root, user_id="U1")
    channel.say(FOLLOW_UP, thread_ts=root, user_id="U2")
    assert channel.visible == before
    channel.ask(thread_ts=root, user_id="U1")
    before = channel.visible
    channel.say(FOLLOW_UP, thread_ts=root, user_id="U1")
    assert channel.visible > before


def test_who_calls_somebody_speaks_to_them(channel: Channel) -> None:
    root = channel.ask()
    before = channel.visible
    channel.say("<@U2> is that right?", thread_ts=root)
    channel.say(FOLLOW_UP, thread_ts=root)  # is it for U2?
    assert channel.visible == before
    assert len(find_rows(channel.database, "traces")) == 1


@pytest.mark.parametrize("text", [f"<@U2> says 30 days. {ASKED}", f"<!here> {ASKED}"])
def test_who_is_called_beside_us_is_spoken_to(channel: Channel, text: str) -> None:
    root = channel.ask(text)
    before = channel.visible
    channel.say(FOLLOW_UP, thread_ts=root)
    assert channel.visible == before
    channel.ask(thread_ts=root)  # us alone
    before = channel.visible
    channel.say(FOLLOW_UP, thread_ts=root)
    assert channel.visible > before


def test_what_another_wrote_while_we_were_answering_may_be_what_is_followed_up(
    channel: Channel,
) -> None:
    slack = channel.slack
    message = slack.write(f"<@U0BOT> {ASKED}", channel_id="C1")
    other = slack.write("30, I think", channel_id="C1", thread_ts=message["ts"], user_id="U2")
    channel.hear({**message, "type": "app_mention"})  # answered after both
    channel.hear(other)
    before = channel.visible
    channel.say(FOLLOW_UP, thread_ts=message["ts"])
    assert channel.visible == before


@pytest.mark.parametrize("subtype", ["me_message", "file_share", "thread_broadcast"])
def test_another_joins_a_thread_by_whatever_they_put_there(channel: Channel, subtype: str) -> None:
    root = channel.ask()
    before = channel.visible
    other = channel.slack.write("shrugs", channel_id="C1", thread_ts=root, user_id="U2")
    channel.hear({**other, "subtype": subtype})
    channel.say(FOLLOW_UP, thread_ts=root)
    assert channel.visible == before


def test_another_who_mentions_us_is_the_one_to_go_on(channel: Channel) -> None:
    root = channel.ask(user_id="U1")
    channel.ask(thread_ts=root, user_id="U2")
    before = channel.visible
    channel.say(FOLLOW_UP, thread_ts=root, user_id="U2")
    answered = channel.visible
    assert answered > before
    channel.say(FOLLOW_UP, thread_ts=root, user_id="U1")
    assert channel.visible == answered


def test_after_a_deleted_follow_up_the_conversation_goes_on(channel: Channel) -> None:
    root = channel.ask()
    follow_up = channel.slack.write(FOLLOW_UP, channel_id="C1", thread_ts=root)
    channel.hear(follow_up)
    channel.hear(channel.slack.delete(follow_up))
    before = channel.visible
    channel.say(FOLLOW_UP, thread_ts=root)
    assert channel.visible > before


def test_who_has_joined_after_a_follow_up_stays_though_it_is_deleted(channel: Channel) -> None:
    root = channel.ask()
    follow_up = channel.slack.write(FOLLOW_UP, channel_id="C1", thread_ts=root)
    channel.hear(follow_up)
    channel.say("I think it's less", thread_ts=root, user_id="U2")
    channel.hear(channel.slack.delete(follow_up))
    before = channel.visible
    channel.say(FOLLOW_UP, thread_ts=root)
    assert channel.visible == before


@pytest.mark.parametrize("first", [RuntimeError("broken"), None], ids=["broken", "never asked"])
def test_a_thread_without_an_answer_is_not_ours(channel: Channel, first: Exception | None) -> None:
    if first is None:
        root = channel.slack.write(ASKED, channel_id="C1")["ts"]
    else:
        channel.answer = first
        root = channel.ask()
        channel.answer = cited_answer()
    before = channel.visible
    channel.say(FOLLOW_UP, thread_ts=root)
    assert channel.visible == before


def test_an_abstention_may_be_followed_up(channel: Channel) -> None:
    channel.answer = ABSTAINED
    root = channel.ask()
    channel.answer = cited_answer()
    before = channel.visible
    channel.say(FOLLOW_UP, thread_ts=root)
    assert channel.visible > before


@pytest.mark.parametrize("answer", [ABSTAINED, RuntimeError("broken")], ids=type)
def test_without_a_mention_only_an_answer_is_seen(
    channel: Channel, answer: Answer | Exception
) -> None:
    root = channel.ask()
    channel.answer = answer
    before = channel.visible
    bot = channel.say(FOLLOW_UP, thread_ts=root)
    assert len(bot.answerer.asked.having()) == 1
    assert channel.visible == before


@pytest.mark.parametrize("answer", [ABSTAINED, RuntimeError("broken")], ids=type)
def test_what_is_overheard_and_not_answered_is_forgotten(
    slack: SlackStandIn, database: Database, answer: Answer | Exception
) -> None:
    channel = Channel(slack, database, "questions")
    channel.answer = answer
    bot = channel.say(ASKED)
    assert len(bot.answerer.asked.having()) == 1
    assert find_rows(database, "traces") == []
    # So it can be asked of us after all.
    channel.answer = cited_answer()
    (message,) = slack.messages("C1")
    with connected(slack, database) as bot:
        bot.answerer.answers[ASKED] = cited_answer()
        bot.settle(
            slack.send_message_shortcut("ask_footnote", message, user_id="U2", channel_id="C1")
        )
    *_, shown = slack.messages("C1", message["ts"])
    assert "30 s" in shown["text"]


def test_small_talk_in_a_channel_gets_nothing_visible(
    slack: SlackStandIn, database: Database
) -> None:
    channel = Channel(slack, database, "questions")
    for text in ("lol nice one", "thanks!", "hi all", "can you help me?", "lunch?", ""):
        channel.say(text)
    assert channel.visible == 0
    assert find_rows(database, "traces") == []


@pytest.mark.parametrize("call", ["", "<!here> ", "<!channel> "])
def test_a_question_to_the_whole_channel_is_answered_in_a_thread_on_it(
    slack: SlackStandIn, database: Database, call: str
) -> None:
    channel = Channel(slack, database, "questions")
    channel.say(f"{call}{ASKED}")
    question, answer = slack.messages("C1")
    assert (answer["thread_ts"], answer["text"][:19]) == (question["ts"], "It takes *30 s* [1]")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["mention first", "message first"])
def test_a_mention_in_a_channel_that_is_heard_twice_is_answered_once_and_as_asked(
    slack: SlackStandIn, database: Database, order: tuple[int, int]
) -> None:
    channel = Channel(slack, database, "questions")
    channel.answer = ABSTAINED  # which without a mention nobody would see
    message = slack.write(f"<@U0BOT> {ASKED}", channel_id="C1")
    events = ({**message, "type": "app_mention"}, message)
    channel.hear(*[events[number] for number in order])
    (call,) = slack.calls("chat.postMessage")
    assert call.params["text"] == f"{ABSTAINED.text} {IN_CHANNEL}"
    assert len(find_rows(database, "traces")) == 1


def test_a_bot_that_mentions_us_again_and_again_gets_no_answer(
    slack: SlackStandIn, database: Database
) -> None:
    channel = Channel(slack, database, "questions")
    spoken = {"subtype": "bot_message", "bot_id": "B9", "user": None}
    for _ in range(10):
        message = {**slack.write(f"<@U0BOT> {ASKED}", channel_id="C1"), **spoken}
        channel.hear(message, {**message, "type": "app_mention"})
    assert (channel.visible, find_rows(database, "traces")) == (0, [])


def test_our_own_answer_in_a_channel_is_no_question(channel: Channel) -> None:
    channel.mode = "questions"
    root = channel.ask()
    before = channel.visible
    *_, answer = channel.slack.messages("C1", root)
    own = {**answer, "text": ASKED, "channel": "C1", "channel_type": "channel"}
    channel.hear(own, {key: own[key] for key in own if key != "bot_id"})
    assert channel.visible == before


def test_what_is_overheard_without_a_database_is_not_told(
    slack: SlackStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    unreachable = Database("postgresql://nobody@127.0.0.1:1/none", tenant_id="acme")
    with connected(slack, unreachable, channels={"C1": "questions"}, is_working=False) as bot:
        said = slack.write(ASKED, channel_id="C1")
        bot.settle(slack.send_event(said, retry_attempt=3))
    assert not slack.calls("chat.postMessage")
    assert "failed" in caplog.text and ASKED not in caplog.text


def test_an_answer_goes_with_its_deleted_question_though_nobody_had_mentioned_us(
    slack: SlackStandIn, database: Database
) -> None:
    channel = Channel(slack, database, "questions")
    channel.say(ASKED)
    question, _ = slack.messages("C1")
    channel.hear(slack.delete({**question, "channel": "C1"}))
    assert [message["text"] for message in slack.messages("C1")] == ["This message was deleted."]


def test_an_edit_of_what_was_overheard_changes_nothing(
    slack: SlackStandIn, database: Database
) -> None:
    channel = Channel(slack, database, "questions")
    channel.say(ASKED)
    question, answer = slack.messages("C1")
    channel.hear(slack.edit({**question, "channel": "C1"}, FOLLOW_UP))
    assert slack.messages("C1")[1] == answer


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("C1", "In this channel I answer mentions and follow-ups in my threads."),
        ("C2", "In this channel I answer mentions."),
        (
            "D1",  # with whom, Slack does not say
            "In direct messages with me I answer whatever you write; those with others I do not "
            "hear.",
        ),
    ],
)
def test_ragstats_tells_what_is_answered_here(channel: Channel, place: str, line: str) -> None:
    with connected(channel.slack, channel.database, channels={"C1": "follow-ups"}) as bot:
        bot.settle(channel.slack.send_slash_command("/ragstats", "", "U1", place))
    (call,) = channel.slack.calls("response_url")
    assert call.params["blocks"][-1]["text"]["text"] == f"*Here*\n{line}"


def test_an_answer_that_may_stand_there_stands_there_once(
    slack: SlackStandIn, database: Database
) -> None:
    channel = Channel(slack, database, "questions")
    slack.fail_next("chat.postMessage", drop_connection=True, after_storing=True)
    message = slack.write(ASKED, channel_id="C1")
    channel.hear(message)
    channel.hear(message)  # Slack sends it again
    assert len(slack.messages("C1", message["ts"])) == 2
    assert [trace.outcome for trace in find_rows(database, "traces")] == ["answered"]


def test_of_what_is_overheard_an_unsure_answer_is_not_shown(
    slack: SlackStandIn, database: Database
) -> None:
    channel = Channel(slack, database, "questions")
    channel.answer = replace(cited_answer(), is_sure=False)
    channel.say(ASKED)
    assert channel.visible == 0 and find_rows(database, "traces") == []


def test_a_question_deleted_while_it_is_worked_on_is_forgotten(
    slack: SlackStandIn, database: Database
) -> None:
    release = Event()
    with connected(slack, database, channels={"C1": "questions"}) as bot:
        bot.answerer.held[ASKED] = release
        message = slack.write(ASKED, channel_id="C1")
        slack.send_event(message)
        bot.answerer.wait_until_asked(ASKED)
        bot.app.listener_runner.listener_executor.submit(
            bot.jobs.withdraw, "T0001", "C1", message["ts"]
        ).result(10)
        release.set()
    assert find_rows(database, "traces") == []
