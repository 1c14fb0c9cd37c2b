"""What is only said to be polite."""

from time import perf_counter

import pytest

from app import fillers


@pytest.mark.parametrize(
    ("typed", "left"),
    [
        (
            "hey team, quick q - does anyone know what the failover timeout is? thanks!!",
            "what the failover timeout is?",
        ),
        ("Hi there!\n\nThe VPN is down, any ideas?\n\nBest regards,\nJane Doe", "The VPN is down"),
        ("Good morning, could someone tell me where the wiki is please", "where the wiki is"),
        ("sorry for the noise but how do I reset it", "how do I reset it"),
        ("So sorry if this has been asked before, where is it? - Bob", "where is it?"),
        ("hi, where's x?\n-- \nJane\nACME", "where's x?"),
        ("@jane @bob: how do I deploy? :pray:", "how do I deploy?"),
        ("who manages waybill? cc @jane", "who manages waybill?"),
        ("@here wifi down? pls help", "wifi down?"),
        ("thanks for the help! what is x", "what is x"),
        ("ok so what about staging?", "what about staging?"),
        ("I'm wondering if prod has it, TIA 🙏", "if prod has it"),
        ("how do I get access thanks", "how do I get access"),
    ],
)
def test_what_is_polite_falls_away(typed: str, left: str) -> None:
    assert fillers.strip(typed) == left


@pytest.mark.parametrize(
    "typed",
    [
        "how do I say thanks",
        "hello world example?",
        "hey login broken",
        "hi --force does what?",
        "Perfect Forward Secrecy?",
        "OK status meaning?",
        "right to work check?",
        "morning standup time?",
        "@jane is on call?",
        "who manages @jane",
        "sorry about the outage yesterday, how do I restart it",
        "quick question about vault: who owns it",
        "what is TIA",
        "`hi` what does it do",
        "what does it say after “thanks”",
        "> hi team\nwhat does that mean",
        "how do I run it with `please`",
    ],
)
def test_words_that_mean_something_stay(typed: str) -> None:
    assert fillers.strip(typed) == typed


@pytest.mark.parametrize("typed", ["thanks!", "hi all", "great, thank you so much", "", "?", "🙏"])
def test_nothing_but_politeness_leaves_nothing(typed: str) -> None:
    assert fillers.strip(typed) == ""


@pytest.mark.parametrize(
    "typed",
    [
        "hi" + " " * 40_000 + "x",
        "thanks " * 6_000,
        "x" + "\n" * 40_000 + "thanks",
        "just " * 8_000 + "x",
        "`" * 40_001,
        "'a" * 20_000,
        "@a " * 13_000,
        "new topic" + "\n " * 20_000 + "x",
        "and for" + " a-" * 13_000 + "!",
        "?" * 40_000 + "x",
        "who is " * 6_000,
        "is a " * 8_000,
        ", " * 20_000,
        "A, " * 13_000,
        "wait " * 8_000 + "x",
        "how is " + "a" * 40_000,
        "*" * 20_000 + "new topic" + "*" * 20_000,
    ],
)
def test_the_longest_message_of_slack_takes_no_second(typed: str) -> None:
    start = perf_counter()
    fillers.strip(typed)
    fillers.cut_topic(typed)
    fillers.asks_on(typed)
    fillers.is_for_people(typed)
    fillers.count_words(typed)
    assert perf_counter() - start < 1


@pytest.mark.parametrize(
    ("typed", "kind"),
    [
        ("", "nothing"),
        ("What can you do?", "nothing"),
        ("who are you", "nothing"),
        ("help", "nothing"),
        ("new topic", "nothing"),
        ("New topic.", "nothing"),
        ("new topic please", "nothing"),
        ("*new topic*", "nothing"),
        ("???", "nothing"),
        ("@jane", "nothing"),
        ("can you help me?", "nothing"),
        ("ok", "nothing"),
        ("never mind", "nothing"),
        ("hi", "greeting"),
        ("Hello there!", "greeting"),
        ("good morning everyone", "greeting"),
        ("hey, how are you?", "greeting"),
        ("👋", "greeting"),
        ("thanks!", "thanks"),
        ("cheers, that helped", "thanks"),
        ("Thank you so much 🙏", "thanks"),
        ("ok thanks", "thanks"),
        ("great, thanks a lot!!", "thanks"),
        ("perfect", "thanks"),
        ("hi, thanks for the help", "thanks"),
        ("thanks, that was very helpful", "thanks"),
        (":pray:", "thanks"),
    ],
)
def test_small_talk_is_told_from_questions(typed: str, kind: str) -> None:
    assert fillers.find_small_talk(typed) == kind


@pytest.mark.parametrize(
    "typed",
    [
        "thanks, and in the first year?",
        "thanks but it is wrong",
        "hello world",
        "hi, VPN?",
        "`thanks`",
        "what does the bot say after “thanks”?",
        "how do I say thanks",
        "great circle?",
        "help desk",
        "what can you do about a lost key?",
        "new topic branches?",
        "new topic: how long?",
        "yes",
        "why?",
        "sundays?",
        "works council",
        "it works?",
        "is it useful?",
        "all hands",
        "hi " * 60 + "there",
    ],
)
def test_what_may_be_a_question_is_no_small_talk(typed: str) -> None:
    assert fillers.find_small_talk(typed) is None
