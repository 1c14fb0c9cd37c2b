"""What people say is wrong with an answer, and what they answer by hand, becomes a case."""

import json
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import Connection, text

from app import feedback
from app.loop import casefiles, cases, proposing
from retrieval.db import Database
from retrieval.metrics import Gold
from retrieval.records import Turn
from tests import beside
from tests.app import questions
from tests.app.loop.flags import ask_flagged, delete, find, flag, list_briefly, load, reply


@pytest.fixture
def pages(database: Database) -> list[int]:
    return [questions.add_page(database, "wiki", path) for path in ("a.md", "b.md")]


# What is proposed


def test_a_flag_is_a_case_before_anybody_names_a_page(database: Database) -> None:
    trace_id = questions.ask(database)
    feedback.vote(database, trace_id, "U1", -1)
    case = find(database, trace_id)
    assert case.case_id == f"flag-{trace_id}"
    assert (case.state, case.origin, case.type) == ("proposed", "flag", "flagged")
    assert (case.gold, case.reviewer, case.reviewed_at) == ((), None, None)
    assert case.eval_case.turns == (Turn(speaker="user", text="how long?"),)


def test_all_that_is_said_of_one_answer_makes_one_case(
    database: Database, pages: list[int]
) -> None:
    trace_id = questions.ask(database)
    for user_id, page in (("U1", pages[0]), ("U2", pages[1]), ("U3", pages[0])):
        flag(database, trace_id, user_id, page)
    assert list_briefly(database) == [("how long?", "proposed", ["a.md", "b.md"])]


def test_answers_to_one_question_make_one_case_however_it_is_typed(
    database: Database, pages: list[int]
) -> None:
    older = questions.ask(database, question="How  long?", days_ago=3)
    newer = questions.ask(database, question="how long", days_ago=2)
    questions.ask(database, question="how long", days_ago=1)  # nobody has flagged this one
    flag(database, newer, page=pages[0])
    flag(database, older, page=pages[1])
    assert list_briefly(database) == [("how long", "proposed", ["a.md", "b.md"])]
    assert find(database, older).trace_ids == (newer, older)
    feedback.vote(database, newer, "U1", 1)
    assert find(database, older).trace_ids == (older,)
    assert list_briefly(database) == [("how long", "proposed", ["b.md"])]


def test_a_follow_up_becomes_a_case_as_it_was_searched_for(database: Database) -> None:
    trace_id = questions.ask(database, question="and in Spain?")
    with database.transaction() as connection:
        connection.execute(text("UPDATE traces SET queries = '{leave in Spain, holidays}'"))
    flag(database, trace_id)
    assert find(database, trace_id).question == "leave in Spain"


def test_follow_ups_that_were_not_searched_for_are_cases_of_their_own(database: Database) -> None:
    first, second, alone = (
        questions.ask(database, question="and for exports?", channel_id=channel_id)
        for channel_id in ("C1", "C2", "C3")
    )
    for channel_id in ("C1", "C2"):
        questions.ask(database, question="how long?", channel_id=channel_id)
    with database.transaction() as connection:
        connection.execute(text("UPDATE traces SET queries = '{}'"))
        connection.execute(
            text("UPDATE traces SET message_ts = thread_ts WHERE question = 'how long?'")
        )
        connection.execute(
            text("UPDATE traces SET message_ts = '1767225601.000001' WHERE question <> 'how long?'")
        )
    for trace_id in (first, second, alone):
        flag(database, trace_id)
    assert len({find(database, each).case_id for each in (first, second, alone)}) == 3
    again = questions.ask(database, question="And for exports", channel_id="C4")
    flag(database, again)
    assert find(database, again).case_id == find(database, alone).case_id


def test_the_source_of_a_page_tells_it_from_another_of_the_same_path(database: Database) -> None:
    questions.add_page(database, "wiki", "index.md")
    page = questions.add_page(database, "handbook", "index.md")
    case = ask_flagged(database, page=page)
    assert case.gold == (Gold(doc="index.md", source="handbook"),)
    case_id = proposing.propose_reply(database, reply(document_id=page))
    assert load(database, case_id).gold == case.gold


# What is proposed again


@pytest.mark.parametrize("gold", [[Gold(doc="a.md", span="two hours")], []])
def test_an_approved_case_is_proposed_again_by_a_page_that_is_not_its_gold(
    database: Database, pages: list[int], gold: list[Gold]
) -> None:
    case = ask_flagged(database)
    cases.approve(database, case.case_id, "U7", gold=gold)
    cases.claim_review(database, case.case_id, "C9")
    cases.save_review_ts(database, case.case_id, "1.1")
    cases.mark_page_wrong(database, case.case_id, "U7", Gold(doc="a.md", source="wiki"))
    (trace_id,) = case.trace_ids
    flag(database, trace_id, "U2", pages[1])
    again = load(database, case.case_id)
    assert (again.state, again.reviewer, again.reviewed_at) == ("proposed", None, None)
    assert again.gold == (Gold(doc="b.md", source="wiki"),)
    assert (again.page_wrong_by, again.page_wrong) == (None, None)
    assert again.review_ts == "1.1"  # that message shows it then
    feedback.take_back(database, trace_id, "U1", -1)
    feedback.take_back(database, trace_id, "U2", -1)
    assert load(database, case.case_id).state == "proposed"  # no vote takes it out of the set


def test_an_approved_case_stays_so_where_nobody_names_another_page(
    database: Database, pages: list[int]
) -> None:
    case = ask_flagged(database)
    cases.approve(database, case.case_id, "U7", gold=[Gold(doc="a.md", span="two hours")])
    flag(database, case.trace_ids[0], "U2")
    again = ask_flagged(database, page=pages[0])
    assert (again.case_id, again.state) == (case.case_id, "approved")
    namesake = questions.add_page(database, "handbook", "a.md")
    assert ask_flagged(database, page=namesake).state == "approved"  # its source is not known
    assert cases.claim_review(database, case.case_id, "C9")  # the reviewers get to see it


def test_a_page_of_another_source_is_another_page(database: Database, pages: list[int]) -> None:
    case = ask_flagged(database, page=pages[0])
    cases.approve(database, case.case_id, "U7")
    namesake = questions.add_page(database, "handbook", "a.md")
    assert ask_flagged(database, page=namesake).state == "proposed"


def test_an_imported_case_keeps_what_answers_it_when_another_page_is_named(
    database: Database, tmp_path: Path, pages: list[int]
) -> None:
    import_case(database, tmp_path, gold_all=[{"doc": "a.md"}, {"doc": "c.md"}])
    case = ask_flagged(database, page=pages[1])
    assert (case.case_id, case.state) == ("i1", "proposed")
    assert case.gold_all == (Gold(doc="a.md"), Gold(doc="c.md"))
    feedback.take_back(database, case.trace_ids[0], "U1", -1)
    assert load(database, "i1").state == "proposed"


def test_a_dismissed_case_is_proposed_again_by_a_flag_on_an_answer_it_did_not_rest_on(
    database: Database,
) -> None:
    older = questions.ask(database, days_ago=3)
    case = ask_flagged(database)
    assert cases.claim_review(database, case.case_id, "C9")
    assert cases.save_review_ts(database, case.case_id, "1.1")
    assert cases.dismiss(database, case.case_id, "U7")
    flag(database, case.trace_ids[0], "U2")
    feedback.take_back(database, case.trace_ids[0], "U1", -1)
    feedback.vote(database, case.trace_ids[0], "U1", -1)
    assert load(database, case.case_id).state == "dismissed"
    flag(database, older)
    again = find(database, older)
    assert (again.case_id, again.state, again.reviewer) == (case.case_id, "proposed", None)
    assert again.review_ts == "1.1"  # that message shows it then


def test_flags_on_answers_to_one_question_at_once_make_one_case(database: Database) -> None:
    first, second = (questions.ask(database) for _ in range(2))
    with database.transaction() as connection:
        add_vote(connection, first)
        proposing.propose(connection, first)
        voting = beside.begin(database, lambda: feedback.vote(database, second, "U1", -1))
    voting.result(30)
    (case,) = cases.list_cases(database)
    assert set(case.trace_ids) == {first, second}


def test_flags_taken_back_at_once_leave_no_case(database: Database) -> None:
    first, second = (questions.ask(database) for _ in range(2))
    for trace_id in (first, second):
        flag(database, trace_id)
    with database.transaction() as connection:
        connection.execute(text("DELETE FROM feedback WHERE trace_id = :id"), {"id": first})
        proposing.propose(connection, first)
        taking = beside.begin(database, lambda: feedback.take_back(database, second, "U1", -1))
    taking.result(30)
    assert cases.list_cases(database) == []


def add_vote(connection: Connection, trace_id: UUID) -> None:
    connection.execute(
        text("""
            INSERT INTO feedback (trace_id, tenant_id, user_id, vote)
            VALUES (:trace_id, current_setting('footnote.tenant_id'), 'U1', -1)
        """),
        {"trace_id": trace_id},
    )


@pytest.mark.parametrize(
    "undo",
    [
        lambda database, trace_id: feedback.vote(database, trace_id, "U1", 1),
        lambda database, trace_id: feedback.take_back(database, trace_id, "U1", -1),
        lambda database, trace_id: questions.reopen(database, trace_id, "how much?"),
        delete,
    ],
    ids=["voted for", "taken back", "edited", "deleted"],
)
def test_a_case_goes_with_what_it_rests_on(
    database: Database, undo: Callable[[Database, UUID], object]
) -> None:
    gone, stays = ask_flagged(database, "how long?"), ask_flagged(database, "how far?")
    undo(database, gone.trace_ids[0])
    assert [case.case_id for case in cases.list_cases(database)] == [stays.case_id]


@pytest.mark.parametrize("decide", [cases.approve, cases.dismiss])
def test_what_was_decided_stays_when_its_votes_go(
    database: Database, decide: Callable[[Database, str, str], bool]
) -> None:
    case = ask_flagged(database)
    decide(database, case.case_id, "U7")
    decided = load(database, case.case_id)
    feedback.take_back(database, case.trace_ids[0], "U1", -1)
    assert load(database, case.case_id) == decided  # and whose words it has is still known


@pytest.mark.parametrize("decide", [cases.approve, cases.dismiss])
def test_who_deletes_a_question_takes_its_words_back_whatever_was_decided(
    database: Database, decide: Callable[[Database, str, str], bool]
) -> None:
    alone, shared = ask_flagged(database, "how far?"), ask_flagged(database, "how long?")
    others = ask_flagged(database, "How long")
    for case in (alone, shared):
        decide(database, case.case_id, "U7")
        feedback.take_back(database, case.trace_ids[0], "U1", -1)
        delete(database, case.trace_ids[0])
    (left,) = cases.list_cases(database)
    assert left.case_id == shared.case_id and left.trace_ids == others.trace_ids[:1]


def test_an_imported_case_stays_whoever_deletes_their_question(
    database: Database, tmp_path: Path
) -> None:
    import_case(database, tmp_path)
    trace_id = questions.ask(database)
    flag(database, trace_id)
    assert find(database, trace_id).case_id == "i1"
    delete(database, trace_id)
    assert load(database, "i1").trace_ids == ()


def import_case(database: Database, folder: Path, **more: object) -> None:
    row = {"id": "i1", "type": "table", "question": "how long?", **more}
    path = folder / "cases.jsonl"
    path.write_text(json.dumps(row), encoding="utf-8")
    casefiles.import_file(database, path, "ann")


def test_greetings_and_deleted_questions_make_no_case(database: Database) -> None:
    for setting in ("small_talk", "deleted"):
        flag(database, questions.ask(database, settings={setting: True}))
    assert cases.list_cases(database) == []


def test_cases_stay_with_their_tenant(database: Database, database_url: str) -> None:
    case = ask_flagged(database)
    other = Database(database_url, tenant_id="other")
    assert cases.load(other, case.case_id) is None
    assert not cases.approve(other, case.case_id, "U7")
    theirs = ask_flagged(other)  # the same question
    other.close()
    assert theirs.case_id != case.case_id
    assert load(database, case.case_id).state == "proposed"


# Answers by hand


def test_an_answer_by_hand_is_a_case_once(database: Database, pages: list[int]) -> None:
    assert proposing.propose_reply(database, reply(document_id=pages[1])) == "reply-C1-1"
    changed = reply(answer="3 h", document_id=pages[1])
    assert proposing.propose_reply(database, changed) == "reply-C1-1"
    (case,) = cases.list_cases(database)
    assert (case.state, case.origin, case.answer) == ("proposed", "reply", "3 h")
    assert (case.gold, case.reviewer) == ((Gold(doc="b.md", source="wiki"),), "U9")


def test_an_answer_by_hand_goes_into_the_case_of_its_question(
    database: Database, pages: list[int]
) -> None:
    flagged = ask_flagged(database, page=pages[0])
    case_id = proposing.propose_reply(database, reply(question="How long", answer="2 h"))
    assert case_id == flagged.case_id
    told = load(database, case_id)
    assert (told.origin, told.answer, told.gold) == ("flag", "2 h", flagged.gold)
    proposing.propose_reply(database, reply(document_id=pages[1]))
    flag(database, flagged.trace_ids[0], "U2", pages[0])
    assert load(database, case_id).gold == (Gold(doc="b.md", source="wiki"),)


def test_an_answer_by_hand_leaves_an_approved_case_as_it_is(database: Database) -> None:
    case = ask_flagged(database)
    cases.approve(database, case.case_id, "U7")
    assert proposing.propose_reply(database, reply()) == case.case_id
    assert load(database, case.case_id).answer == ""
    cases.overrule(database, case.case_id, "U7", "dismissed")
    proposing.propose_reply(database, reply())
    assert load(database, case.case_id).state == "proposed"


def test_a_page_that_voters_name_answers_a_reply_without_one(
    database: Database, pages: list[int]
) -> None:
    trace_id = questions.ask(database, "abstained")
    proposing.propose_reply(database, reply(trace_id=trace_id))
    flag(database, trace_id, page=pages[0])
    case = find(database, trace_id)
    assert (case.origin, case.gold) == ("reply", (Gold(doc="a.md", source="wiki"),))
    feedback.take_back(database, trace_id, "U1", -1)
    assert load(database, case.case_id).gold == ()


def test_an_answer_by_hand_stays_when_its_question_is_no_longer_flagged(
    database: Database,
) -> None:
    case = ask_flagged(database)
    (trace_id,) = case.trace_ids
    proposing.propose_reply(database, reply(trace_id=trace_id))
    feedback.take_back(database, trace_id, "U1", -1)
    kept = load(database, case.case_id)
    assert (kept.origin, kept.answer, kept.trace_ids) == ("flag", "Two hours.", (trace_id,))
    delete(database, trace_id)
    assert cases.list_cases(database) == []


@pytest.mark.parametrize("is_approved", [False, True])
def test_an_answer_by_hand_is_none_to_the_question_as_it_was_edited(
    database: Database, is_approved: bool
) -> None:
    trace_id = questions.ask(database, "abstained")
    case_id = proposing.propose_reply(database, reply(trace_id=trace_id))
    if is_approved:
        cases.approve(database, case_id, "U7")
    questions.reopen(database, trace_id, "where is the key?")
    assert cases.find(database, trace_id) is None
    flag(database, trace_id)
    assert find(database, trace_id).question == "where is the key?"
    assert (load(database, case_id).question, load(database, case_id).answer) == (
        "how long?",
        "Two hours.",
    )


def test_follow_ups_answered_by_hand_are_cases_of_their_own(database: Database) -> None:
    first, second = (
        questions.ask(database, "abstained", question="and for exports?", channel_id=channel_id)
        for channel_id in ("C1", "C2")
    )
    for trace_id, channel_id in ((first, "C1"), (second, "C2")):
        questions.ask(database, channel_id=channel_id)
        with database.transaction() as connection:
            connection.execute(text("UPDATE traces SET queries = '{}'"))
            connection.execute(
                text("UPDATE traces SET message_ts = 'z' WHERE trace_id = :id"), {"id": trace_id}
            )
        said = reply(str(trace_id), "and for exports?", trace_id=trace_id)
        assert proposing.propose_reply(database, said) == f"reply-{trace_id}"


def test_an_answer_by_hand_goes_with_its_question_and_not_with_a_vote(database: Database) -> None:
    trace_id = questions.ask(database, "abstained")
    proposing.propose_reply(database, reply(trace_id=trace_id))
    assert find(database, trace_id).case_id == "reply-C1-1"
    feedback.vote(database, trace_id, "U1", -1)
    feedback.take_back(database, trace_id, "U1", -1)
    assert find(database, trace_id).case_id == "reply-C1-1"
    delete(database, trace_id)
    assert cases.list_cases(database) == []
