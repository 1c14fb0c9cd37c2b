"""Which messages are questions, and what they ask."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from app import turns
from app.channels import ChannelMode
from app.records import Arrival, PastAnswer, Turn
from app.turns import Standing


def message(**more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "channel": "D1",
        "channel_type": "im",
        "user": "U1",
        "text": "how long?",
        "ts": "1700000000.000100",
        **more,
    }


def reason(event: dict[str, Any]) -> str | None:
    return turns.find_reason_to_ignore(event, bot_user_id="UBOT", bot_id="BBOT")


def plain(text: str) -> str:
    return turns.build_plain_text(text, bot_user_id="UBOT")


@pytest.mark.parametrize(
    ("more", "ignored"),
    [
        ({}, None),
        ({"subtype": "file_share", "files": [{}]}, None),
        ({"subtype": "thread_broadcast", "thread_ts": "1700000000.000001"}, None),
        ({"bot_id": "BBOT"}, "OWN"),
        ({"user": "UBOT"}, "OWN"),
        ({"subtype": "bot_message", "bot_id": "BBOT", "user": None}, "OWN"),
        ({"bot_id": "BOTHER"}, "OTHER_BOT"),
        ({"bot_profile": {"id": "BOTHER"}}, "OTHER_BOT"),
        ({"subtype": "bot_message", "text": "<@UBOT> how long?"}, "OTHER_BOT"),
        ({"subtype": "message_changed", "message": {"text": "how far?"}}, "SUBTYPE"),
        ({"subtype": "message_changed", "hidden": True}, "HIDDEN"),
        ({"subtype": "message_deleted", "deleted_ts": "1700000000.000001"}, "SUBTYPE"),
        ({"subtype": "channel_join"}, "SUBTYPE"),
        ({"channel": "C1", "channel_type": "channel"}, "OVERHEARD"),
        ({"channel": "C1", "channel_type": "group", "thread_ts": "1700000000.000001"}, "OVERHEARD"),
        ({"channel": "C1", "channel_type": "channel", "text": "<@UBOT> how long?"}, "NOT_DIRECT"),
        ({"channel": "C1", "channel_type": "channel", "text": "<@UBOT|f> how?"}, "NOT_DIRECT"),
        ({"channel": "C1", "channel_type": "channel", "text": "<@UBOT2> how long?"}, "OVERHEARD"),
        ({"channel": "C1", "channel_type": "channel", "bot_id": "BOTHER"}, "OTHER_BOT"),
        ({"channel": "C1", "channel_type": "channel", "subtype": "channel_topic"}, "SUBTYPE"),
        ({"channel": "G1", "channel_type": "mpim"}, "NOT_DIRECT"),
        ({"type": "app_mention", "channel": "C1", "channel_type": None}, None),
        ({"type": "app_mention", "channel": "C1", "bot_id": "BOTHER"}, "OTHER_BOT"),
    ],
)
def test_what_is_ignored_and_why(more: dict[str, Any], ignored: str | None) -> None:
    assert reason(message(**more)) == ignored


def test_p35_markup_is_decoded_and_only_our_mention_goes() -> None:
    text = (
        "<@UBOT> is <#C0ABC|help-it> the place for R&amp;D laptop asks?"
        " see <https://wiki.example/it|IT wiki>"
    )
    assert plain(text) == "is #help-it the place for R&D laptop asks? see IT wiki"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<@UBOT|footnote>: how long?", "how long?"),
        ("hey <@UBOT> how long?", "hey how long?"),
        ("how long, <@UBOT>", "how long,"),
        ("<@UBOT>", ""),
        (" <@UBOT> <@UBOT|footnote> ", ""),
        ("may <@U9> and <@U8|ana> go?", "may @U9 and @ana go?"),
        ("what is <#C123>, <#C124|>?", "what is #C123, #C124?"),
        ("does <!subteam^S1|@oncall> page <!subteam^S2>?", "does @oncall page @S2?"),
        ("may I write <!here> or <!channel|channel>?", "may I write @here or @channel?"),
        ("since <!date^1392734382^{date}|18 Feb>?", "since 18 Feb?"),
        ("see <https://wiki.example/a?b=1&amp;c=2>", "see https://wiki.example/a?b=1&c=2"),
        ("ask <mailto:pay@corp.example|pay@corp.example>", "ask pay@corp.example"),
        ("is 1 &lt; 2 &amp;&amp; 3 &gt; 2?", "is 1 < 2 && 3 > 2?"),
        ("what does &amp;lt; mean?", "what does &lt; mean?"),
        ("what does &amp;nbsp; mean?", "what does &nbsp; mean?"),
        ("is a < b or c > d?", "is a < b or c > d?"),
        ("run:\n    a  b\n<@UBOT> why?", "run:\n    a  b\n why?"),
        ("a\0b", "ab"),
    ],
)
def test_text_is_what_the_sender_saw(text: str, shown: str) -> None:
    assert plain(text) == shown


def arrival(event: dict[str, Any]) -> Arrival:
    return turns.build_arrival(event, team_id="T1", bot_user_id="UBOT")


def test_p13_a_message_outside_a_thread_is_the_root_of_its_own() -> None:
    assert arrival(message()) == Arrival(
        surface="slack",
        question="how long?",
        team_id="T1",
        channel_id="D1",
        message_ts="1700000000.000100",
        thread_ts="1700000000.000100",
        user_id="U1",
    )
    assert arrival(message(thread_ts="")).thread_ts == "1700000000.000100"
    assert arrival(message(thread_ts="1700000000.000001")).thread_ts == "1700000000.000001"


@pytest.mark.parametrize(
    ("more", "is_unasked"),
    [
        ({}, False),
        ({"channel": "C1", "channel_type": "channel"}, True),
        ({"channel": "C1", "channel_type": "channel", "text": "<@UBOT> how long?"}, False),
        ({"channel": "C1", "channel_type": None, "type": "app_mention"}, False),
        ({"channel": "C1", "channel_type": None}, False),  # of a shortcut
    ],
)
def test_nobody_has_asked_us_what_is_said_in_a_channel_without_our_mention(
    more: dict[str, Any], is_unasked: bool
) -> None:
    assert arrival(message(**more)).is_unasked == is_unasked


def said(text: str, **more: Any) -> dict[str, Any]:
    """What was written in a channel, in a thread of ours unless told otherwise."""
    place = {"channel": "C1", "channel_type": "channel", "thread_ts": "1700000000.000001"}
    return message(text=text, **{**place, **more})


STANDING = Standing(trace_id=uuid4(), user_id="U1", is_answered=True, is_joined=False)


def silence(
    event: dict[str, Any], *, mode: ChannelMode = "follow-ups", standing: Standing | None = STANDING
) -> str | None:
    return turns.find_reason_for_silence(event, arrival(event), mode, standing)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("and in the first year?", None),
        ("what about part-timers", None),
        ("how do I apply for it", None),
        ("and for part-timers", None),
        ("ok, and for part-timers?", None),
        ("warum ist das so?", None),
        ("thanks!", "NO_QUESTION"),
        ("ok I'll try", "NO_QUESTION"),
        ("lol nice one", "NO_QUESTION"),
        ("what a mess", "NO_QUESTION"),
        ("same for me", "NO_QUESTION"),
        ("and thanks", "NO_QUESTION"),
        ("run `a ? b : c` now", "NO_QUESTION"),
        ("really?", "NO_QUESTION"),
        ("see <https://wiki.example/a?b=1>", "NO_QUESTION"),
        ("is it the same in Germany", None),
        ("does that include Sundays", None),
        ("can you give an example", None),
        ("tell me more", None),
        ("do I need a doctor's note", None),
        ("wait what?", "NO_QUESTION"),
        ("you see? told you", "NO_QUESTION"),
        ("give me a sec", "NO_QUESTION"),
        ("anyone else seeing this?", "TO_OTHERS"),
        ("what now, team?", "TO_OTHERS"),
        ("Sara, are you sure?", "TO_OTHERS"),
        ("<@U2> is that right?", "TO_OTHERS"),
        ("<!subteam^S1|@people> is that right?", "TO_OTHERS"),
        ("<!here> is that right?", "TO_OTHERS"),
    ],
)
def test_a_follow_up_without_a_mention_has_to_ask_and_to_call_nobody(
    text: str, reason: str | None
) -> None:
    assert silence(said(text)) == reason
    assert silence(said(text), mode="questions") == reason
    assert silence(said(text), mode="mentions") == "CHANNEL"


@pytest.mark.parametrize(
    ("standing", "reason"),
    [
        (None, "NOT_OUR_THREAD"),
        (replace(STANDING, is_answered=False), "NOT_OUR_THREAD"),
        (replace(STANDING, is_joined=True), "OTHERS_TALK"),
        (replace(STANDING, user_id="U2"), "OTHERS_TALK"),
    ],
)
def test_a_follow_up_is_ours_only_between_us_and_who_asked(
    standing: Standing | None, reason: str
) -> None:
    assert silence(said("and in the first year?"), standing=standing) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("how many days of leave do we get", None),
        ("Hi all, where's the VPN guide? Thanks!", None),
        ("The VPN is down, any ideas?", None),
        ("wie viele Urlaubstage gibt es?", None),
        ("有薪假有多少天？", None),
        ("lunch?", "NO_QUESTION"),
        ("who's in?", "NO_QUESTION"),
        ("how are you all today?", "NO_QUESTION"),
        ("can you help me?", "NO_QUESTION"),
        ("lol nice one", "NO_QUESTION"),
        ("The VPN is down", "NO_QUESTION"),
        ("when I left it worked", "NO_QUESTION"),
        ("and for part-timers", "NO_QUESTION"),  # of nothing said before
        ("how do I get there <@U2>?", "TO_OTHERS"),
        ("<!subteam^S1|@people> how do I get there?", "TO_OTHERS"),
        # The whole channel is asked, which is what we answer there.
        ("<!channel> who knows the VPN guide?", None),
        ("<!here|here> how many days of leave do we get", None),
        ("can I carry over leave into next year", None),
        ("Do we have a policy on working from abroad", None),
        ("are parcels over 30 kg accepted at depot 4", None),
        ("looking for the link to the brand guidelines", None),
        ("need help: how do I get access to it", None),
        ("the scanner prints E14, what does that mean", None),
        ("is not allowed here anyway", "NO_QUESTION"),
        ("do the dishes please", "NO_QUESTION"),
        ("Sara, are you joining the call?", "TO_OTHERS"),
        ("can someone review my pull request?", "TO_OTHERS"),
        ("who is in the office tomorrow?", "TO_OTHERS"),
        ("are we going out for lunch?", "TO_OTHERS"),
        ("what do you think about the new logo?", "TO_OTHERS"),
        ("how did the interview go?", "TO_OTHERS"),
    ],
)
def test_of_a_channel_only_whole_questions_to_nobody_in_particular_are_taken(
    text: str, reason: str | None
) -> None:
    event = said(text, thread_ts=None)
    assert silence(event, mode="questions", standing=None) == reason
    assert silence(event, mode="follow-ups", standing=None) in ("CHANNEL", "TO_OTHERS")


@pytest.mark.parametrize(
    ("event", "joins"),
    [
        (said("and in the first year?"), False),
        (said("thanks!"), False),
        (said("I think 25", user="U2"), True),
        (said("<@U2> do you know?"), True),
        (said("<!here> is that right?"), True),
        (said("<@UBOT> and in the first year?"), False),
        (said("<@UBOT> <@U2> says 25, how many?"), True),
        (said("<@UBOT|footnote> is <!subteam^S1|@people> right?"), True),
    ],
)
def test_who_else_writes_or_is_called_joins_the_thread(event: dict[str, Any], joins: bool) -> None:
    assert turns.joins(event, STANDING, bot_user_id="UBOT") == joins


@pytest.mark.parametrize(
    ("event", "may_join"),
    [
        (said("I think 25"), True),
        (said("<@UBOT> and in the first year?"), False),  # it comes as a mention, too
        (said("shrugs", subtype="me_message"), True),
        (said("here it is", subtype="file_share"), True),
        (said("<@UBOT> how long?", type="app_mention", channel_type=None, thread_ts=None), True),
        (said("how long?", thread_ts=None), False),  # in no thread
        (said("how long?", channel_type="mpim"), False),
        (said("how long?", bot_id="BOTHER"), False),
        (said("how long?", user="UBOT"), False),
        (said("", subtype="message_changed"), False),
        (said("has joined", subtype="channel_join"), False),
    ],
)
def test_people_join_a_thread_by_whatever_they_say_there(
    event: dict[str, Any], may_join: bool
) -> None:
    assert turns.may_join(event, bot_user_id="UBOT", bot_id="BBOT") == may_join


def test_a_message_without_text_asks_nothing() -> None:
    assert arrival(message(text=None)).question == ""


def test_the_question_comes_last_in_the_conversation() -> None:
    past = [
        PastAnswer(trace_id=uuid4(), question="", answer="Ask me something."),
        PastAnswer(trace_id=uuid4(), question="how many days?", answer="25 [1]"),
    ]
    assert turns.read(past, "and part-time?") == (
        Turn(speaker="user", text="how many days?"),
        Turn(speaker="bot", text="25 [1]"),
        Turn(speaker="user", text="and part-time?"),
    )


def test_a_question_without_an_answer_that_was_seen_is_said_alone() -> None:
    past = [PastAnswer(trace_id=uuid4(), question="how many days?", answer="")]
    assert [turn.text for turn in turns.read(past, "and part-time?")] == [
        *("how many days?", "and part-time?")
    ]


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("new topic: how long?", "how long?"),
        ("New topic. How long?", "How long?"),
        ("new topic\nhow long?", "how long?"),
        ("new topic how long can I stay?", "how long can I stay?"),
        ("*new topic* how long?", "how long?"),
        ("ok, new topic: how long?", "how long?"),
        ("new topic please: how long?", "how long?"),
        ("New topic 🙂 how long?", "how long?"),
        ("new topic branches?", "new topic branches?"),
        ("what is a new topic?", "what is a new topic?"),
        ("new topic", "new topic"),
    ],
)
def test_that_a_topic_is_new_is_no_part_of_the_question(typed: str, asked: str) -> None:
    past = [PastAnswer(trace_id=uuid4(), question=typed, answer="30 s")]
    assert [turn.text for turn in turns.read(past, typed)] == [asked, "30 s", asked]


def changed(text: str = "how far?", *, after_s: float = 5, **more: Any) -> dict[str, Any]:
    """What Slack sends when message() is edited; more is laid over the event."""
    old = {"type": "message", "user": "U1", "text": "how long?", "ts": "1700000000.000100"}
    edited = {"user": "U1", "ts": f"{1700000000.0001 + after_s:.6f}"}
    return {
        **message(ts="1700000009.000100", subtype="message_changed", hidden=True),
        "message": {**old, "text": text, "edited": edited},
        "previous_message": old,
        **more,
    }


def question_after(event: dict[str, Any]) -> str | None:
    edited = turns.find_edited(event, bot_user_id="UBOT", bot_id="BBOT")
    return None if edited is None else arrival({**edited}).question


@pytest.mark.parametrize(
    ("event", "question"),
    [
        (changed(), "how far?"),
        (changed("<@UBOT> how far?", channel="C1", channel_type="channel"), "how far?"),
        (changed(after_s=599), "how far?"),
        (changed(after_s=601), None),
        (changed("how long?"), None),
        (changed(channel="C1", channel_type="channel"), None),  # no longer for us
        (changed(message={"text": "how far?", "ts": "1700000000.000100"}), None),  # by Slack
        (changed(message={"text": "how far?"}), None),
        (changed(message=None), None),
        (changed(subtype=None), None),
        (changed(message={**changed()["message"], "bot_id": "BBOT"}), None),
        (changed(message={**changed()["message"], "subtype": "bot_message"}), None),
    ],
)
def test_an_edit_is_a_question_where_its_text_is_another(
    event: dict[str, Any], question: str | None
) -> None:
    assert question_after(event) == question


def test_an_edited_question_keeps_its_place() -> None:
    edited = turns.find_edited(changed(), bot_user_id="UBOT", bot_id="BBOT")
    assert edited is not None
    assert arrival({**edited}) == replace(arrival(message()), question="how far?")


@pytest.mark.parametrize(
    ("event", "ts"),
    [
        (message(subtype="message_deleted", deleted_ts="1700000000.000001"), "1700000000.000001"),
        (changed(message={"subtype": "tombstone", "ts": "1700000000.000002"}), "1700000000.000002"),
        (changed(), None),
        (changed(message=None), None),
        (message(), None),
    ],
)
def test_a_root_with_replies_is_deleted_by_becoming_a_tombstone(
    event: dict[str, Any], ts: str | None
) -> None:
    assert turns.find_deleted(event) == ts


@pytest.mark.parametrize(
    ("changes", "question"),
    [
        ({}, "how long?"),
        ({"event_ts": "1700001199.000100"}, "how long?"),
        ({"event_ts": "1700001201.000100"}, None),
        ({"channel_type": "channel"}, None),
        ({"previous_message": {**message(), "bot_id": "BBOT"}}, None),
        ({"subtype": "message_changed", "message": message()}, None),
    ],
)
def test_a_deletion_tells_of_its_question(changes: dict[str, Any], question: str | None) -> None:
    told = {"channel_type": "im", "deleted_ts": message()["ts"], "event_ts": "1700000001.000100"}
    event = {**message(), "subtype": "message_deleted", "previous_message": message()}
    gone = turns.find_withdrawn({**event, **told, **changes}, bot_user_id="UBOT", bot_id="BBOT")
    assert (gone and arrival({**gone}).question) == question
