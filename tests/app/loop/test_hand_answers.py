"""Questions in threads that people answer by hand."""

from uuid import UUID

import pytest
from sqlalchemy import text

from app import feedback
from app.loop import cases, hand_answers, proposing
from app.loop.cases import Case, Reply
from app.loop.hand_answers import ThreadQuestion
from retrieval.db import Database
from retrieval.metrics import Gold
from tests.app.questions import add_page, ask, complain

THREAD = "1767225600.000001"  # of all that is asked here
LATER = "1767225699.000001"


def change(database: Database, statement: str) -> None:
    with database.transaction() as connection:
        connection.execute(text(statement))


def ask_in_vain(database: Database) -> UUID:
    """A question that we could not answer, in a thread."""
    trace_id = ask(database, "abstained")
    change(database, f"UPDATE traces SET message_ts = thread_ts, answer_ts = '{{{THREAD}}}'")
    return trace_id


def answer(
    database: Database, trace_id: UUID | None, words: str = "500", page: int | None = None
) -> Case:
    reply = Reply(
        reply_id=f"C1-{LATER}",
        question="how long?",
        answer=words,
        document_id=page,
        user_id="U2",
        trace_id=trace_id,
    )
    case = cases.load(database, proposing.propose_reply(database, reply))
    assert case is not None
    return case


def find(database: Database) -> ThreadQuestion:
    found = hand_answers.find_question(database, "C1", THREAD, "1767225700.000001")
    assert found is not None
    return found


def find_given(database: Database, words: str) -> list[Case]:
    return hand_answers.find_given(database, "C1", THREAD, LATER, words)


def test_a_reply_answers_the_last_question_before_it(database: Database) -> None:
    for number, (outcome, question) in enumerate([("answered", "one?"), ("abstained", "two?")]):
        trace_id = ask(database, outcome, question=question)
        with database.transaction() as connection:
            connection.execute(
                text("""
                    UPDATE traces SET message_ts = :ts, answer_ts = '{1767225699.000001}'
                    WHERE trace_id = :trace_id
                """),
                {"ts": f"176722560{number}.000001", "trace_id": trace_id},
            )

    def find(reply_ts: str) -> tuple[str, bool] | None:
        found = hand_answers.find_question(database, "C1", "1767225600.000001", reply_ts)
        return (found.question, found.is_open) if found else None

    assert find("1767225600.000000") is None
    assert find("1767225600.500000") == ("one?", False)
    assert find("1767225602.000001") == ("two?", True)
    change(database, """UPDATE traces SET settings = '{"deleted": true}' WHERE question = 'two?'""")
    assert find("1767225602.000001") == ("one?", False)


def test_only_what_names_a_page_takes_the_place_of_what_names_none(database: Database) -> None:
    trace_id = ask_in_vain(database)
    assert (find(database).is_open, find(database).is_open_to_page) == (True, True)
    answer(database, trace_id)
    assert (find(database).is_open, find(database).is_open_to_page) == (False, True)
    answer(database, trace_id, page=add_page(database, "wiki", "a.md"))
    assert (find(database).is_open, find(database).is_open_to_page) == (False, False)


def test_what_a_reviewer_has_looked_at_is_his(database: Database) -> None:
    case = answer(database, ask_in_vain(database))
    cases.save_gold(database, case.case_id, "U5", gold=[])
    assert not find(database).is_open_to_page


@pytest.mark.parametrize("is_in_thread", [True, False])
def test_words_that_change_or_go_are_found_where_they_were_kept(
    database: Database, is_in_thread: bool
) -> None:
    case = answer(database, ask_in_vain(database) if is_in_thread else None)
    assert find_given(database, "500") == [case]
    assert find_given(database, "600") == []
    hand_answers.save_answer(database, case, "600")
    (changed,) = find_given(database, "600")
    assert changed.answer == "600"
    hand_answers.save_answer(database, case, "700")  # it was 500 when it was read
    assert find_given(database, "600") == [changed]
    hand_answers.save_answer(database, changed, "")
    assert cases.list_cases(database) == []


def test_words_of_what_was_decided_stay(database: Database) -> None:
    case = answer(database, ask_in_vain(database))
    cases.approve(database, case.case_id, "U5")
    assert find_given(database, "500") == []
    hand_answers.save_answer(database, case, "")
    (kept,) = cases.list_cases(database)
    assert kept.answer == "500"


def test_a_case_that_is_flagged_too_loses_the_words_alone(database: Database) -> None:
    trace_id = ask_in_vain(database)
    case = answer(database, trace_id)
    feedback.vote(database, trace_id, "U1", -1)
    hand_answers.save_answer(database, case, "")
    (kept,) = cases.list_cases(database)
    assert (kept.answer, kept.gold) == ("", ())


def test_a_page_that_the_words_named_goes_with_them(database: Database) -> None:
    case = answer(database, ask_in_vain(database), page=add_page(database, "wiki", "a.md"))
    assert case.gold == (Gold(doc="a.md", source="wiki"),)
    hand_answers.save_answer(database, case, "")
    assert cases.list_cases(database) == []


def test_a_case_that_is_flagged_no_more_goes_with_the_words(database: Database) -> None:
    trace_id = ask_in_vain(database)
    feedback.vote(database, trace_id, "U1", -1)
    case = answer(database, trace_id)
    feedback.vote(database, trace_id, "U1", 1)
    hand_answers.save_answer(database, case, "")
    assert cases.list_cases(database) == []


def test_a_case_that_was_in_the_set_stays_without_the_words(database: Database) -> None:
    trace_id = ask_in_vain(database)
    case = answer(database, trace_id)
    cases.approve(database, case.case_id, "U5")
    feedback.vote(database, trace_id, "U1", -1)
    complain(database, trace_id, "U1", add_page(database, "wiki", "a.md"))
    feedback.vote(database, trace_id, "U1", 1)
    hand_answers.save_answer(database, case, "")
    (kept,) = cases.list_cases(database)
    assert (kept.state, kept.answer) == ("proposed", "")
