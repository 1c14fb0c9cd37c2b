"""What people say is wrong with an answer becomes a case, and people decide about it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from uuid import UUID

import pytest
from sqlalchemy import Connection, text

from app import feedback, traces
from app.feedback import Complaint
from app.loop import cases
from app.loop.cases import HELD_OUT, Case, Reply
from retrieval.db import Database
from retrieval.metrics import Gold
from retrieval.records import Turn
from tests.app import questions


@pytest.fixture
def pages(database: Database) -> list[int]:
    return [questions.add_page(database, "wiki", path) for path in ("a.md", "b.md")]


def flag(database: Database, trace_id: UUID, user_id: str = "U1", page: int | None = None) -> None:
    feedback.vote(database, trace_id, user_id, -1)
    feedback.save_complaint(database, trace_id, user_id, Complaint(document_id=page))


def ask_flagged(database: Database, question: str = "how long?", page: int | None = None) -> Case:
    trace_id = questions.ask(database, question=question)
    flag(database, trace_id, page=page)
    return find(database, trace_id)


def find(database: Database, trace_id: UUID) -> Case:
    case = cases.find(database, trace_id)
    assert case is not None
    return case


def load(database: Database, case_id: str) -> Case:
    case = cases.load(database, case_id)
    assert case is not None
    return case


def list_briefly(database: Database) -> list[tuple[str, str, list[str]]]:
    return [
        (case.question, case.state, [gold.doc for gold in case.gold_any])
        for case in cases.list_cases(database)
    ]


def delete(database: Database, trace_id: UUID) -> None:
    with database.transaction() as connection:
        row = connection.execute(
            text("SELECT team_id, channel_id, message_ts FROM traces WHERE trace_id = :id"),
            {"id": trace_id},
        ).one()
    traces.save_deletion(database, row.team_id, row.channel_id, row.message_ts)


def reply(
    reply_id: str = "C1-1",
    question: str = "how long?",
    answer: str = "Two hours.",
    document_id: int | None = None,
    trace_id: UUID | None = None,
) -> Reply:
    return Reply(
        reply_id=reply_id,
        question=question,
        answer=answer,
        document_id=document_id,
        user_id="U9",
        trace_id=trace_id,
    )


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


@contextmanager
def beside(database: Database, change: Callable[[], None]) -> Iterator[Connection]:
    """A transaction that is committed once a change made beside it waits for it, or is done."""
    with ThreadPoolExecutor(1) as pool:
        with database.transaction() as connection:
            yield connection
            changing = pool.submit(change)
            while not changing.done() and not is_waited_for(connection):
                wait([changing], timeout=0.01)
        changing.result()


def is_waited_for(connection: Connection) -> bool:
    return bool(
        connection.execute(
            text("""
                SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
            """)
        ).scalar()
    )


def test_flags_on_answers_to_one_question_at_once_make_one_case(database: Database) -> None:
    first, second = (questions.ask(database) for _ in range(2))
    with beside(database, lambda: feedback.vote(database, second, "U1", -1)) as connection:
        add_vote(connection, first)
        cases.propose(connection, first)
    (case,) = cases.list_cases(database)
    assert set(case.trace_ids) == {first, second}


def test_flags_taken_back_at_once_leave_no_case(database: Database) -> None:
    first, second = (questions.ask(database) for _ in range(2))
    for trace_id in (first, second):
        flag(database, trace_id)
    with beside(database, lambda: feedback.take_back(database, second, "U1", -1)) as connection:
        connection.execute(text("DELETE FROM feedback WHERE trace_id = :id"), {"id": first})
        cases.propose(connection, first)
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
        lambda database, trace_id: traces.reopen(database, trace_id, "how much?"),
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
def test_what_was_decided_stays_when_its_answers_go(
    database: Database, decide: Callable[[Database, str, str], bool]
) -> None:
    case = ask_flagged(database)
    decide(database, case.case_id, "U7")
    delete(database, case.trace_ids[0])
    assert load(database, case.case_id).trace_ids == ()


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


# What is decided


def test_a_case_is_approved_once_and_votes_no_longer_change_it(
    database: Database, pages: list[int]
) -> None:
    case = ask_flagged(database, page=pages[0])
    assert cases.approve(database, case.case_id, "U7")
    assert not cases.approve(database, case.case_id, "U8")
    assert not cases.approve(database, "flag-none", "U8")
    flag(database, case.trace_ids[0], "U2", pages[1])
    approved = load(database, case.case_id)
    assert approved.reviewer == "U7" and approved.reviewed_at is not None
    assert list_briefly(database) == [("how long?", "approved", ["a.md"])]


def test_a_flag_on_an_approved_question_joins_its_case(database: Database) -> None:
    case = ask_flagged(database)
    cases.approve(database, case.case_id, "U7")
    again = ask_flagged(database, "How long")
    assert again.case_id == case.case_id and again.state == "approved"
    assert len(again.trace_ids) == 2


def test_a_flag_joins_the_case_that_counts_before_one_that_was_dismissed(
    database: Database,
) -> None:
    dismissed = ask_flagged(database, "how far?").case_id
    cases.dismiss(database, dismissed, "U7")
    approved = ask_flagged(database, "how long?").case_id
    cases.save_gold(database, approved, "U7", gold=[], question="how far?")
    cases.approve(database, approved, "U7")
    assert ask_flagged(database, "How far").case_id == approved


def test_a_dismissed_case_is_proposed_again_by_a_flag_on_a_newer_answer_alone(
    database: Database,
) -> None:
    case = ask_flagged(database)
    assert cases.claim_review(database, case.case_id, "C9")
    assert cases.save_review_ts(database, case.case_id, "1.1")
    assert cases.dismiss(database, case.case_id, "U7")
    assert not cases.dismiss(database, case.case_id, "U8")
    flag(database, case.trace_ids[0], "U2")
    assert ask_flagged(database).state == "dismissed"  # asked a day before
    newer = questions.ask(database, days_ago=-1)
    flag(database, newer)
    again = find(database, newer)
    assert (again.case_id, again.state, again.reviewer) == (case.case_id, "proposed", None)
    assert again.review_ts is None  # the reviewers get it anew
    assert cases.claim_review(database, case.case_id, "C9")


def test_the_pages_of_a_reviewer_stay_whatever_voters_name(
    database: Database, pages: list[int]
) -> None:
    case = ask_flagged(database, page=pages[0])
    gold = [Gold(doc="b.md", span="two hours")]
    assert cases.save_gold(database, case.case_id, "U7", gold=gold, answer="2 h")
    flag(database, case.trace_ids[0], "U2", pages[0])
    saved = load(database, case.case_id)
    assert (saved.gold, saved.reviewer, saved.state) == (tuple(gold), "U7", "proposed")
    assert (saved.question, saved.answer) == ("how long?", "2 h")
    assert not cases.save_gold(database, "flag-none", "U7", gold=gold)


def test_a_question_worded_anew_is_still_found_as_it_was_asked(database: Database) -> None:
    case = ask_flagged(database, "how long")
    cases.save_gold(database, case.case_id, "U7", gold=[], question="How long may a job wait?")
    assert ask_flagged(database, "how long?").case_id == case.case_id
    assert ask_flagged(database, "how long may a job wait").case_id == case.case_id


def test_an_edited_question_makes_a_case_beside_the_approved_one_that_it_was(
    database: Database,
) -> None:
    before = ask_flagged(database, "how long?")
    cases.approve(database, before.case_id, "U7")
    (trace_id,) = before.trace_ids
    traces.reopen(database, trace_id, "how much?")
    feedback.vote(database, trace_id, "U1", -1)
    after = find(database, trace_id)
    assert after.question == "how much?" and after.case_id != before.case_id
    assert load(database, before.case_id).question == "how long?"


def test_the_first_to_say_that_the_page_is_wrong_is_kept(database: Database) -> None:
    case = ask_flagged(database)
    assert cases.mark_page_wrong(database, case.case_id, "U7")
    assert not cases.mark_page_wrong(database, case.case_id, "U8")
    marked = load(database, case.case_id)
    assert (marked.page_wrong_by, marked.state) == ("U7", "proposed")


def test_cases_are_listed_by_state_the_oldest_first(database: Database) -> None:
    first, second, third = (ask_flagged(database, f"how {n}?").case_id for n in range(3))
    cases.approve(database, second, "U7")
    assert [case.case_id for case in cases.list_cases(database)] == [first, second, third]
    assert [case.case_id for case in cases.list_cases(database, "proposed")] == [first, third]
    assert [case.case_id for case in cases.list_cases(database, "approved")] == [second]


# Which part


def test_one_in_four_is_held_out_whoever_decides_and_when(database: Database) -> None:
    approved = [ask_flagged(database, f"how long is job {n}?").case_id for n in range(60)]
    for case_id in approved:
        cases.approve(database, case_id, "U7")
    held_out = {case.question for case in cases.list_cases(database) if case.held_out}
    assert 60 / HELD_OUT / 2 < len(held_out) < 60 / HELD_OUT * 2  # 15, give or take
    for case_id in approved:
        cases.dismiss(database, case_id, "U8")
        cases.approve(database, case_id, "U8")
    assert {case.question for case in cases.list_cases(database) if case.held_out} == held_out


def test_what_is_asked_in_other_words_is_in_the_same_part(database: Database) -> None:
    first = ask_flagged(database, "how long?")
    cases.approve(database, first.case_id, "U7")
    other = not load(database, first.case_id).held_out  # than by its words
    with database.transaction() as connection:
        connection.execute(text("UPDATE eval_cases SET held_out = :other"), {"other": other})
    alike, unlike = ask_flagged(database, "for what time?"), ask_flagged(database, "how long ?!")
    assert unlike.case_id == first.case_id
    for case, vector in ((first, "[1,0.1]"), (alike, "[1,0]")):
        with database.transaction() as connection:
            connection.execute(
                text("UPDATE traces SET embedding = :vector WHERE trace_id = :trace_id"),
                {"vector": vector, "trace_id": case.trace_ids[0]},
            )
    cases.approve(database, alike.case_id, "U7")
    assert load(database, alike.case_id).held_out == other


@pytest.mark.parametrize("vector", ["[0,1]", "[1,0,0]"])
def test_other_questions_and_other_embedders_tell_nothing_of_the_part(
    database: Database, vector: str
) -> None:
    alone = ask_flagged(database, "how far?")
    cases.approve(database, alone.case_id, "U7")
    part = load(database, alone.case_id).held_out
    cases.dismiss(database, alone.case_id, "U7")
    other = ask_flagged(database, "how long?")
    cases.approve(database, other.case_id, "U7")
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE eval_cases SET held_out = :part WHERE case_id = :case_id"),
            {"part": not part, "case_id": other.case_id},
        )
        for case, own in ((alone, "[1,0]"), (other, vector)):
            connection.execute(
                text("UPDATE traces SET embedding = :own WHERE trace_id = :trace_id"),
                {"own": own, "trace_id": case.trace_ids[0]},
            )
    cases.approve(database, alone.case_id, "U7")
    assert load(database, alone.case_id).held_out == part


# Answers by hand


def test_an_answer_by_hand_is_a_case_once(database: Database, pages: list[int]) -> None:
    assert cases.propose_reply(database, reply(document_id=pages[1])) == "reply-C1-1"
    assert cases.propose_reply(database, reply(answer="3 h", document_id=pages[1])) == "reply-C1-1"
    (case,) = cases.list_cases(database)
    assert (case.state, case.origin, case.answer) == ("proposed", "reply", "3 h")
    assert (case.gold, case.reviewer) == ((Gold(doc="b.md"),), "U9")


def test_an_answer_by_hand_goes_into_the_case_of_its_question(
    database: Database, pages: list[int]
) -> None:
    flagged = ask_flagged(database, page=pages[0])
    case_id = cases.propose_reply(database, reply(question="How long", answer="2 h"))
    assert case_id == flagged.case_id
    told = load(database, case_id)
    assert (told.origin, told.answer, told.gold) == ("flag", "2 h", (Gold(doc="a.md"),))
    cases.propose_reply(database, reply(document_id=pages[1]))
    flag(database, flagged.trace_ids[0], "U2", pages[0])
    assert load(database, case_id).gold == (Gold(doc="b.md"),)


def test_an_answer_by_hand_leaves_an_approved_case_as_it_is(database: Database) -> None:
    case = ask_flagged(database)
    cases.approve(database, case.case_id, "U7")
    assert cases.propose_reply(database, reply()) == case.case_id
    assert load(database, case.case_id).answer == ""
    cases.dismiss(database, case.case_id, "U7")
    cases.propose_reply(database, reply())
    assert load(database, case.case_id).state == "proposed"


def test_an_answer_by_hand_goes_with_its_question_and_not_with_a_vote(database: Database) -> None:
    trace_id = questions.ask(database, "abstained")
    cases.propose_reply(database, reply(trace_id=trace_id))
    assert find(database, trace_id).case_id == "reply-C1-1"
    feedback.vote(database, trace_id, "U1", -1)
    feedback.take_back(database, trace_id, "U1", -1)
    assert find(database, trace_id).case_id == "reply-C1-1"
    delete(database, trace_id)
    assert cases.list_cases(database) == []


# Who posts it


def test_one_process_posts_a_case_to_the_reviewers(database: Database) -> None:
    case_id = ask_flagged(database).case_id
    assert cases.claim_review(database, case_id, "C9")
    assert not cases.claim_review(database, case_id, "C9")
    cases.release_review(database, case_id)
    assert cases.claim_review(database, case_id, "C9")
    with database.transaction() as connection:  # whose process died
        connection.execute(
            text("UPDATE eval_cases SET review_claimed_at = now() - interval '301 seconds'")
        )
    assert cases.claim_review(database, case_id, "C8")
    assert cases.save_review_ts(database, case_id, "1.1")
    cases.release_review(database, case_id)
    assert not cases.claim_review(database, case_id, "C9")
    case = load(database, case_id)
    assert (case.review_channel_id, case.review_ts) == ("C8", "1.1")


def test_what_is_decided_or_gone_is_posted_to_nobody(database: Database) -> None:
    gone, decided = ask_flagged(database, "how far?"), ask_flagged(database, "how long?")
    cases.dismiss(database, decided.case_id, "U7")
    assert not cases.claim_review(database, decided.case_id, "C9")
    assert cases.claim_review(database, gone.case_id, "C9")
    delete(database, gone.trace_ids[0])
    assert not cases.save_review_ts(database, gone.case_id, "1.1")
