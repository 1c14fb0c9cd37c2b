"""Which questions without an answer are one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest
from pgvector import HalfVector
from sqlalchemy import text

from app import answering, feedback, stats
from app.answering import Answerer
from app.config import Settings
from app.generate.quoted import Quoter
from app.loop import gaps
from app.loop.gaps import DISTANCE, Asked, Gap
from app.records import Turn
from app.stats import Scope, Viewer
from retrieval.db import Database
from tests.app.loop.paraphrases import PAIRS
from tests.app.questions import ask

if TYPE_CHECKING:
    from retrieval.embedding import Embedder
    from retrieval.retrieve import Retriever

EVERYTHING = Viewer(is_admin=True)


def asked(
    question: str | None,
    vector: Sequence[float] | None = None,
    *,
    count: int = 1,
    flagged: int = 0,
    name: str | None = None,
) -> Asked:
    gap = Gap(count=count, abstained=count - flagged, flagged=flagged, name=name, question=question)
    return Asked(gap=gap, vector=None if vector is None else np.array(vector, dtype=np.float32))


def at(degrees: float) -> tuple[float, float]:
    """A vector, so that two of them are as far apart as their angles."""
    return float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees)))


def test_what_asks_the_same_is_one_gap_with_all_its_questions() -> None:
    found = gaps.cluster(
        [
            asked("do we get shares?", at(0), count=3),
            asked("how do I park?", at(90), count=3),
            asked("is there a stock plan?", at(20), count=2, flagged=1),
        ]
    )
    assert found == [
        Gap(count=5, abstained=4, flagged=1, name=None, question="do we get shares?"),
        Gap(count=3, abstained=3, flagged=0, name=None, question="how do I park?"),
    ]


def test_a_gap_has_the_words_of_what_is_in_its_middle() -> None:
    ring = [asked(str(degrees), at(degrees)) for degrees in (-30, -25, 5, 30)]
    (gap,) = gaps.cluster([Asked(gap=_named(each, "?"), vector=each.vector) for each in ring])
    assert gap.question == "5?"
    heavy = asked("often?", at(30), count=9)
    (gap,) = gaps.cluster([asked("first?", at(0)), asked("second?", at(5)), heavy])
    assert gap.question == "often?"  # nine of eleven said it so


def _named(each: Asked, end: str) -> Gap:
    # In letters, as questions with different numbers are never one.
    words = {"-30": "a", "-25": "b", "5": "5", "30": "d"}
    question = words[str(each.gap.question)] + end
    return Gap(count=1, abstained=1, flagged=0, name=None, question=question)


def test_what_is_farther_apart_than_that_is_two() -> None:
    near, far = (float(np.degrees(np.arccos(1 - DISTANCE))) + more for more in (-1, 1))
    assert len(gaps.cluster([asked("a?", at(0)), asked("b?", at(near))])) == 1
    assert len(gaps.cluster([asked("a?", at(0)), asked("b?", at(far))])) == 2


def test_questions_about_other_numbers_are_never_one() -> None:
    same = at(0)
    found = gaps.cluster(
        [
            asked("what is ERR_2041?", same),
            asked("ERR_2042 help", same),
            asked("err 2041 again", same),
            asked("is 2.3.1 out?", at(90)),
            asked("2.3?", at(90)),  # which may well be the same
        ]
    )
    assert [(gap.count, gap.question) for gap in found] == [
        (2, "what is ERR_2041?"),
        (2, "is 2.3.1 out?"),
        (1, "ERR_2042 help"),
    ]


def test_what_has_no_vector_or_an_unknown_name_stands_alone() -> None:
    same = at(0)
    given = [
        asked("what is tulip?", same, name="tulip"),
        asked("what is crocus?", same, name="crocus"),
        asked("what is that?", same),
        asked("what is this?"),
        asked("what is it?"),
    ]
    assert gaps.cluster(given) == [each.gap for each in given]
    assert gaps.cluster([]) == []


def test_equals_keep_the_order_given() -> None:
    given = [asked("none?"), asked("a?", at(0)), asked("b?", at(90)), asked("name?", name="x")]
    assert [gap.question for gap in gaps.cluster(given)] == ["none?", "a?", "b?", "name?"]


def test_a_vector_without_a_length_does_no_harm() -> None:
    assert len(gaps.cluster([asked("a?", (0, 0)), asked("b?", at(0)), asked("c?", (0, 0))])) == 3


def index(database: Database, embedder: str = "m", dimension: int = 2) -> None:
    """What is searched, by an embedder."""
    with database.transaction() as connection:
        connection.execute(
            text("""
                INSERT INTO generations (tenant_id, state, chunker, embedder, dimension, probe,
                                         projection, token_dimension)
                VALUES (:tenant_id, 'active', 'c', :embedder, :dimension, '{1}', '', 1)
            """),
            {"tenant_id": database.tenant_id, "embedder": embedder, "dimension": dimension},
        )


def add(
    database: Database,
    question: str,
    vector: Sequence[float] | None,
    *,
    embedder: str = "m",
    user_id: str = "U1",
    days_ago: float = 1,
) -> None:
    """A question without an answer, embedded."""
    trace_id = ask(
        database,
        "abstained",
        question=question,
        user_id=user_id,
        days_ago=days_ago,
        settings={"embedder": embedder},
    )
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE traces SET embedding = :vector WHERE trace_id = :trace_id"),
            {"vector": HalfVector(list(vector)) if vector else None, "trace_id": trace_id},
        )


def load(database: Database, viewer: Viewer = EVERYTHING) -> list[tuple[int, str | None]]:
    loaded = stats.load_stats(database, Scope(), viewer=viewer, settings=Settings())
    return [(gap.count, gap.question) for gap in loaded.gaps.top]


def test_the_vectors_of_what_was_asked_put_it_together(database: Database) -> None:
    index(database)
    add(database, "do we get shares?", at(0), days_ago=3)
    add(database, "Do we get shares", None, days_ago=2)  # one with it by its text
    add(database, "is there a stock plan?", at(10))
    add(database, "how do I park?", at(90))
    assert load(database) == [(3, "Do we get shares"), (1, "how do I park?")]
    loaded = stats.load_stats(database, Scope(), viewer=EVERYTHING, settings=Settings()).gaps
    assert (loaded.groups, loaded.questions) == (2, 4)


def test_flagged_answers_and_those_not_answered_are_put_together(database: Database) -> None:
    index(database)
    add(database, "is there a stock plan?", at(10))
    add(database, "do we get shares?", at(0))
    with database.transaction() as connection:
        trace_id = connection.execute(
            text("UPDATE traces SET outcome = 'answered' WHERE question LIKE 'do%' RETURNING *")
        ).scalar_one()
    feedback.vote(database, trace_id, "U2", -1)
    loaded = stats.load_stats(database, Scope(), viewer=EVERYTHING, settings=Settings()).gaps
    (gap,) = loaded.top
    assert (gap.count, gap.abstained, gap.flagged) == (2, 1, 1)


@pytest.mark.parametrize(
    ("embedder", "vector"), [("other", (1.0, 0.0)), ("m", (1.0, 0.0, 0.0))], ids=["name", "size"]
)
def test_vectors_of_another_embedder_are_not_compared(
    database: Database, embedder: str, vector: tuple[float, ...]
) -> None:
    index(database)
    add(database, "a?", (1, 0))
    add(database, "b?", vector, embedder=embedder)
    assert len(load(database)) == 2


def test_without_an_index_questions_are_one_by_their_text(database: Database) -> None:
    for question in ("a?", "A", "b?"):
        add(database, question, (1, 0))
    assert load(database) == [(2, "A"), (1, "b?")]


def test_what_others_asked_is_not_put_together_with_ones_own(database: Database) -> None:
    index(database)
    for number, user_id in enumerate(("U2", "U3")):
        add(database, f"is project tulip over{'!' if number else ' now'}?", at(0), user_id=user_id)
    before = load(database, Viewer(user_id="U1"))
    add(database, "is tulip cancelled?", at(1), user_id="U1")
    assert load(database, Viewer(user_id="U1")) == [(1, "is tulip cancelled?"), *before]
    assert before == [(1, None), (1, None)]
    assert [count for count, _ in load(database)] == [3]


def test_no_more_are_compared_than_that_and_the_rest_is_counted(database: Database) -> None:
    index(database)
    with database.transaction() as connection:
        connection.execute(
            text("""
                INSERT INTO traces (tenant_id, surface, question, outcome, asked_at, settings,
                                    embedding)
                SELECT :tenant_id, 'slack', 'question ' || chr(96 + n / 26) || chr(97 + n % 26),
                       'abstained', now() - n * interval '1 minute', '{"embedder": "m"}', '[1,0]'
                FROM generate_series(1, :many) AS n
            """),
            {"tenant_id": database.tenant_id, "many": stats.MOST_COMPARED + 5},
        )
    loaded = stats.load_stats(database, Scope(), viewer=EVERYTHING, settings=Settings()).gaps
    assert (loaded.groups, loaded.questions) == (6, stats.MOST_COMPARED + 5)
    assert loaded.top[0].count == stats.MOST_COMPARED


def test_paraphrases_are_one_and_neighbours_are_not(embedder: "Embedder") -> None:
    questions = [
        *("are dogs allowed in the office?", "can I bring my dog to the office?"),
        *("how do I book a meeting room?", "meeting room booking"),
        *("which holidays are public holidays in Spain?", "public holidays Spain"),
        *("when is the office open?", "how do I cancel a customer's subscription?"),
    ]
    found = gaps.cluster(
        asked(each, embedder.embed_query(each).embedding.vector.tolist()) for each in questions
    )
    assert [(gap.count, gap.question) for gap in found] == [
        *((2, questions[at]) for at in (0, 2, 4)),
        *((1, questions[at]) for at in (6, 7)),
    ]


def test_most_pairs_of_paraphrases_are_found_and_hardly_any_question_is_mixed_up(
    embedder: "Embedder",
) -> None:
    given = [
        asked(each, embedder.embed_query(each).embedding.vector.tolist())
        for pair in PAIRS
        for each in pair
    ]
    sizes = [gap.count for gap in gaps.cluster(given)]
    together = sum(len(gaps.cluster(given[at : at + 2])) == 1 for at in range(0, len(given), 2))
    assert together >= 34 and sizes.count(2) >= 32  # of 40
    assert sum(size for size in sizes if size > 2) <= 4  # of 80


def test_what_was_really_asked_is_put_together(retriever: "Retriever") -> None:
    answerer = Answerer(retriever=retriever, generator=Quoter(retriever.embedder))
    for question in (
        "who wrote the opera Aida?",
        "which composer wrote Aida?",
        "what is the population of Peru?",
    ):
        turns = [Turn(speaker="user", text=question)]
        assert answering.ask(answerer, turns).answer.abstained_because
    assert load(retriever.database) == [
        (2, "which composer wrote Aida?"),
        (1, "what is the population of Peru?"),
    ]
