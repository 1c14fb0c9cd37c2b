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
    ],
)
def test_the_longest_message_of_slack_takes_no_second(typed: str) -> None:
    start = perf_counter()
    fillers.strip(typed)
    assert perf_counter() - start < 1
