"""People decide about cases."""

import json
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

import pytest
from sqlalchemy import Connection, text

from app import feedback
from app.loop import cases
from app.loop.cases import HELD_OUT
from retrieval.db import Database
from retrieval.metrics import Gold
from tests.app import questions
from tests.app.loop.flags import ask_flagged, delete, find, flag, list_briefly, load


@pytest.fixture
def pages(database: Database) -> list[int]:
    return [questions.add_page(database, "wiki", path) for path in ("a.md", "b.md")]


# What is decided


def test_a_case_is_approved_once_and_votes_no_longer_change_it(
    database: Database, pages: list[int]
) -> None:
    case = ask_flagged(database, page=pages[0])
    assert cases.approve(database, case.case_id, "U7")
    assert not cases.approve(database, case.case_id, "U8")
    assert not cases.approve(database, "flag-none", "U8")
    feedback.take_back(database, case.trace_ids[0], "U1", -1)
    flag(database, case.trace_ids[0], "U2")
    approved = load(database, case.case_id)
    assert approved.reviewer == "U7" and approved.reviewed_at is not None
    assert list_briefly(database) == [("how long?", "approved", ["a.md"])]


def test_a_case_is_approved_with_what_is_said_of_it_at_once(
    database: Database, pages: list[int]
) -> None:
    case = ask_flagged(database, page=pages[0])
    gold = [Gold(doc="b.md", span="two hours", source="wiki")]
    assert cases.approve(database, case.case_id, "U7", gold=gold, question="how long is it?")
    approved = load(database, case.case_id)
    assert (approved.state, approved.gold, approved.question) == (
        "approved",
        tuple(gold),
        "how long is it?",
    )


def test_what_was_decided_is_changed_by_no_other_reviewer(database: Database) -> None:
    approved, dismissed = ask_flagged(database, "how far?"), ask_flagged(database, "how long?")
    cases.approve(database, approved.case_id, "U7", gold=[Gold(doc="a.md")])
    cases.dismiss(database, dismissed.case_id, "U7")
    before = cases.list_cases(database)
    for case in before:
        assert not cases.approve(database, case.case_id, "U8", gold=[Gold(doc="b.md")])
        assert not cases.save_gold(database, case.case_id, "U8", gold=[Gold(doc="b.md")])
        assert not cases.dismiss(database, case.case_id, "U8")
    assert cases.list_cases(database) == before


def test_nobody_decides_about_other_gold_than_was_seen(
    database: Database, pages: list[int]
) -> None:
    case = ask_flagged(database, page=pages[0])
    flag(database, case.trace_ids[0], "U2", pages[1])
    changed = load(database, case.case_id)
    new = [Gold(doc="c.md")]
    assert not cases.approve(database, case.case_id, "U7", gold=new, seen=case.gold)
    assert not cases.save_gold(database, case.case_id, "U7", gold=new, seen=case.gold)
    assert not cases.approve(database, case.case_id, "U7", seen=())
    assert load(database, case.case_id) == changed
    assert cases.save_gold(database, case.case_id, "U7", gold=new, seen=changed.gold)
    assert cases.approve(database, case.case_id, "U7", seen=new)


def test_of_two_decisions_at_once_the_first_counts_as_a_whole(database: Database) -> None:
    case_id = ask_flagged(database).case_id

    def approve(doc: str) -> bool:
        gold = [Gold(doc=doc)]
        return cases.approve(database, case_id, doc, gold=gold, question=doc, seen=())

    with ThreadPoolExecutor(2) as pool:
        with database.transaction() as connection:
            connection.execute(text("SELECT FROM eval_cases FOR UPDATE"))
            decisions = {doc: pool.submit(approve, doc) for doc in ("a", "b")}
            while count_waiting(connection) < 2 and not wait(decisions.values(), timeout=0.01).done:
                pass
        (doc,) = [doc for doc, decision in decisions.items() if decision.result()]
    case = load(database, case_id)
    assert (case.reviewer, case.question, case.gold) == (doc, doc, (Gold(doc=doc),))


def count_waiting(connection: Connection) -> int:
    count: int = connection.execute(
        text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    ).scalar_one()
    return count


def test_pages_of_which_all_are_needed_stay_so_when_their_passages_are_chosen(
    database: Database,
) -> None:
    case_id = ask_flagged(database).case_id
    needed = [Gold(doc="a.md"), Gold(doc="b.md")]
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE eval_cases SET gold_all = CAST(:needed AS jsonb)"),
            {"needed": json.dumps(cases.build_gold(needed))},
        )
    chosen = [replace(gold, span="two hours", source="wiki") for gold in needed]
    assert cases.save_gold(database, case_id, "U7", gold=chosen)
    assert (load(database, case_id).gold_any, load(database, case_id).gold_all) == (
        (),
        tuple(chosen),
    )
    assert cases.approve(database, case_id, "U7")
    assert load(database, case_id).gold_all == tuple(chosen)
    assert cases.overrule(database, case_id, "U7", "dismissed")


def test_other_pages_are_each_enough(database: Database) -> None:
    case_id = ask_flagged(database).case_id
    with database.transaction() as connection:
        connection.execute(text("""UPDATE eval_cases SET gold_all = '[{"doc": "a.md"}]'"""))
    assert cases.approve(database, case_id, "U7", gold=[Gold(doc="b.md")])
    case = load(database, case_id)
    assert (case.gold_any, case.gold_all) == ((Gold(doc="b.md"),), ())


def test_a_decision_is_overruled_on_purpose_alone(database: Database) -> None:
    case_id = ask_flagged(database).case_id
    assert cases.overrule(database, case_id, "ann", "approved")
    assert not cases.overrule(database, case_id, "ben", "approved")
    assert load(database, case_id).reviewer == "ann"
    assert cases.overrule(database, case_id, "ben", "dismissed")
    assert (load(database, case_id).state, load(database, case_id).reviewer) == ("dismissed", "ben")
    assert not cases.overrule(database, "flag-none", "ben", "dismissed")


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
    questions.reopen(database, trace_id, "how much?")
    feedback.vote(database, trace_id, "U1", -1)
    after = find(database, trace_id)
    assert after.question == "how much?" and after.case_id != before.case_id
    assert load(database, before.case_id).question == "how long?"


def test_the_first_to_say_that_a_page_is_wrong_is_kept(database: Database) -> None:
    case = ask_flagged(database)
    page, namesake = Gold(doc="a.md", source="wiki"), Gold(doc="a.md", source="handbook")
    assert cases.mark_page_wrong(database, case.case_id, "U7", page)
    assert not cases.mark_page_wrong(database, case.case_id, "U8", page)
    marked = load(database, case.case_id)
    assert (marked.page_wrong_by, marked.page_wrong, marked.state) == ("U7", page, "proposed")
    assert cases.mark_page_wrong(database, case.case_id, "U8", namesake)
    marked = load(database, case.case_id)
    assert (marked.page_wrong_by, marked.page_wrong) == ("U8", namesake)


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
        cases.overrule(database, case_id, "U8", "dismissed")
        cases.overrule(database, case_id, "U8", "approved")
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
    cases.overrule(database, alone.case_id, "U7", "dismissed")
    other = ask_flagged(database, "how long?")
    cases.approve(database, other.case_id, "U7")
    with database.transaction() as connection:
        connection.execute(
            text("""
                UPDATE eval_cases
                SET held_out = CASE WHEN case_id = :case_id THEN CAST(:part AS boolean) END
            """),
            {"part": not part, "case_id": other.case_id},
        )
        for case, own in ((alone, "[1,0]"), (other, vector)):
            connection.execute(
                text("UPDATE traces SET embedding = :own WHERE trace_id = :trace_id"),
                {"own": own, "trace_id": case.trace_ids[0]},
            )
    cases.overrule(database, alone.case_id, "U7", "approved")
    assert load(database, alone.case_id).held_out == part


def test_a_part_is_chosen_once_whatever_is_approved_since(database: Database) -> None:
    first, second = ask_flagged(database, "how far?"), ask_flagged(database, "how long?")
    cases.approve(database, first.case_id, "U7")
    part = load(database, first.case_id).held_out
    cases.overrule(database, first.case_id, "U7", "dismissed")
    cases.approve(database, second.case_id, "U7")
    with database.transaction() as connection:
        connection.execute(text("UPDATE traces SET embedding = '[1,0]'"))
        connection.execute(
            text("UPDATE eval_cases SET held_out = :other WHERE case_id = :case_id"),
            {"other": not part, "case_id": second.case_id},
        )
        assert cases.find_nearest(connection, first.case_id) == second.case_id
        assert cases.find_nearest(connection, first.case_id, "proposed") is None
    cases.overrule(database, first.case_id, "U7", "approved")
    assert load(database, first.case_id).held_out == part


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
    assert not cases.save_review_ts(database, case_id, "1.2")  # by whom it was taken over
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
