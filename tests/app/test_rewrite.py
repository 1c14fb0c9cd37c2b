"""Turns to a query, by rules."""

from time import perf_counter

import pytest

from app.records import Turn
from app.rewrite import is_plain, rewrite
from retrieval.records import Query


def build_turns(*asked: str) -> list[Turn]:
    """A conversation in which every question but the last was answered."""
    said = [
        turn
        for text in asked
        for turn in (Turn(speaker="user", text=text), Turn(speaker="bot", text="Blah ERR_1 [1]."))
    ]
    return said[:-1]


def read(*asked: str) -> str:
    return rewrite(build_turns(*asked)).text


LEAVE = "how many days of leave do I get?"


def test_a_question_is_searched_for_without_its_filler() -> None:
    typed = "hi team, does anyone know who owns waybill? thanks!"
    assert rewrite(build_turns(typed)) == Query(text="who owns waybill?", question=typed)


@pytest.mark.parametrize("typed", ["thanks!", "hey", "  ", "?"])
def test_a_query_is_never_empty(typed: str) -> None:
    assert rewrite(build_turns(typed)).text == typed
    assert read(LEAVE, typed) == typed


def test_a_follow_up_takes_the_question_along_and_is_tried_by_itself_too() -> None:
    query = rewrite(build_turns("hi, " + LEAVE, "thanks! and in the first year?"))
    both = f"{LEAVE} and in the first year?"
    assert query == Query(
        text=both,
        question="thanks! and in the first year?",
        variants=("and in the first year?",),
        readings=(both, "and in the first year?"),
    )


@pytest.mark.parametrize(
    "follow_up",
    [
        "and staging?",
        "what about contractors",
        "same for interns?",
        "is that one still in force?",
        "who approves it?",
        "does the one hour clock start when it happened?",
        "why?",
        "another question: how long are they valid?",
    ],
)
def test_what_points_back_is_a_follow_up(follow_up: str) -> None:
    assert read(LEAVE, follow_up).startswith(LEAVE + " ")


@pytest.mark.parametrize(
    "question",
    [
        "how do I restart the waybill consumer after an outage?",
        "why did the new worker nodes fill up in September?",
        "what does E-1077 mean",
        "what was decided in RFC 842?",
        "CephRGWLatencyHigh runbook?",
    ],
)
def test_what_names_its_own_subject_drags_nothing_along(question: str) -> None:
    assert rewrite(build_turns(LEAVE, question)) == Query(text=question, question=question)


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("thanks! other topic: how do I get VPN access?", "how do I get VPN access?"),
        ("Unrelated: is it raining", "is it raining"),
        ("different question - wifi password", "wifi password"),
        ("something else: who is Bob?", "who is Bob?"),
    ],
)
def test_a_change_of_topic_that_is_told_leaves_the_old_one(typed: str, text: str) -> None:
    query = rewrite(build_turns(LEAVE, typed))
    assert (query.text, query.variants) == (text, ())


@pytest.mark.parametrize(
    ("asked", "follow_up", "text"),
    [
        ("what does E-1042 mean?", "and E-1077?", "what does E-1077 mean?"),
        ("what does E-1042 mean?", "what about e1077", "what does e1077 mean?"),
        ("what did ADR 4 decide?", "and ADR 7?", "what did ADR 7 decide?"),
        ("who was on call in 2023?", "and 2024?", "who was on call in 2024?"),
        ("default of pool_size?", "and read_timeout?", "default of read_timeout?"),
        ("is E-1042 like E-1043?", "and E-1077?", "is E-1042 like E-1043? and E-1077?"),
        ("who approves deploys?", "and E-1077?", "who approves deploys? and E-1077?"),
        ("what's the on-call pay?", "and on-prem?", "what's the on-call pay? and on-prem?"),
    ],
)
def test_a_new_name_takes_the_place_of_the_old_one(asked: str, follow_up: str, text: str) -> None:
    assert read(asked, follow_up) == text


def test_several_follow_ups_keep_the_question_that_stood_on_its_own() -> None:
    asked = "which range did production get in the plan of 2018?"
    assert read(asked, "and staging?") == f"{asked} and staging?"
    assert read(asked, "and staging?", "since when?") == f"{asked} and staging? since when?"
    # Of many only the last two count.
    assert read(asked, "and staging?", "since when?", "why?") == f"{asked} since when? why?"
    # Thanks in between are no turn; a new subject begins anew.
    assert read(asked, "thanks!", "and staging?") == f"{asked} and staging?"
    assert read(asked, "how do I request a new laptop for guests?", "and a phone?") == (
        "how do I request a new laptop for guests? and a phone?"
    )
    assert read("what does E-1042 mean?", "and E-1077?", "who fixes it?") == (
        "what does E-1077 mean? who fixes it?"
    )


def test_what_others_said_is_not_searched_for() -> None:
    assert "ERR_1" not in read(LEAVE, "and in the first year?")


def test_a_long_question_leaves_room_for_its_follow_up() -> None:
    words = read("lorem " * 1_000 + "how long is the leave?", "and for interns?").split()
    assert words[-8:] == ["how", "long", "is", "the", "leave?", "and", "for", "interns?"]
    assert len(words) == 63  # 60 of the question and the three of the follow-up


@pytest.mark.parametrize("asked", ["_" * 40_000, "a-" * 20_000, "x" * 40_000, "A1 " * 13_000])
def test_the_longest_message_of_slack_takes_no_second(asked: str) -> None:
    start = perf_counter()
    read(asked, "and E-1077?")
    read(LEAVE, asked, "and then?")
    assert perf_counter() - start < 1


@pytest.mark.parametrize(
    ("asked", "plain"),
    [
        (["ERR_2041"], True),
        (["hi, what does ERR_2041 mean? thanks"], True),
        (["holiday policy"], True),
        (["how many holidays do I have"], False),
        (["how do I clear ERR_2041 on the depot printer"], False),
        ([LEAVE, "and E-1077?"], False),
        ([LEAVE, "great, thanks!"], True),
    ],
)
def test_a_model_is_not_asked_about_plain_questions(asked: list[str], plain: bool) -> None:
    assert is_plain(build_turns(*asked)) is plain
