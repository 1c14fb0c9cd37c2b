"""Which questions without an answer are one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
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


def test_not_even_by_way_of_all_that_has_no_number() -> None:
    wordings = [asked(f"what is that error {letter}?", at(0)) for letter in "abcdefgh"]
    found = gaps.cluster([asked("ERR_2041?", at(0)), asked("ERR_2042?", at(0)), *wordings])
    assert len(found) == 2 and sum(gap.count for gap in found) == 10


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


def index(database: Database) -> None:
    """Build what is searched, in place of what was searched before."""
    with database.transaction() as connection:
        connection.execute(text("DELETE FROM generations"))
        connection.execute(
            text("""
                INSERT INTO generations (tenant_id, state, chunker, embedder, dimension, probe,
                                         projection, token_dimension)
                VALUES (:tenant_id, 'active', 'c', 'm', 2, '{1}', '', 1)
            """),
            {"tenant_id": database.tenant_id},
        )


def add(
    database: Database,
    question: str,
    vector: Sequence[float] | None,
    *,
    query: str | None = None,
    **more: Any,
) -> None:
    """A question without an answer, embedded as what is searched is."""
    trace_id = ask(database, "abstained", question=question, **more)
    with database.transaction() as connection:
        connection.execute(
            text("""
                UPDATE traces SET embedding = :vector, queries = ARRAY[:query],
                    settings = jsonb_build_object(
                        'generation_id', (SELECT generation_id FROM generations))
                WHERE trace_id = :trace_id
            """),
            {
                "vector": HalfVector(list(vector)) if vector else None,
                "query": query or question,
                "trace_id": trace_id,
            },
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


def test_vectors_of_another_index_are_not_compared(database: Database) -> None:
    index(database)
    add(database, "a?", (1, 0))
    index(database)  # by an embedder of the same name, maybe
    add(database, "b?", (1, 0))
    add(database, "c?", (1, 0))
    assert sorted(load(database)) == [(1, "a?"), (2, "c?")]


def test_a_follow_up_is_what_it_was_searched_for(database: Database) -> None:
    index(database)
    add(database, "and for 2025?", at(0), query="annual leave and for 2025?", user_id="U2")
    add(database, "And for 2025", at(90), query="public holidays And for 2025")
    add(database, "leave of 2026?", at(1))
    assert sorted(load(database)) == [
        (1, "annual leave and for 2025?"),
        (1, "leave of 2026?"),
        (1, "public holidays And for 2025"),
    ]
    mine = load(database, Viewer(user_id="U1"))
    assert [question for _, question in mine].count(None) == 1
    assert (1, "annual leave and for 2025?") not in mine


EVERYONE = Viewer(is_everyone=True)


def test_all_see_what_was_asked_in_a_channel_or_by_three(database: Database) -> None:
    index(database)
    add(database, "how do I park?", at(0), channel_id="C1")
    for number, channel_id in enumerate(("D1", "G1", None)):
        more = {"channel_id": channel_id, "user_id": f"U{number}"}
        add(database, "am I ill?", at(30 * number), **more)
    for number, user_id in enumerate(("U1", "U2", "U2")):
        add(database, "is Ann paid more?", at(90), channel_id=f"D{number}", user_id=user_id)
    add(database, "where do I park?", at(1), channel_id="D1")
    assert load(database, EVERYONE) == [
        (3, "am I ill?"),
        (1, "how do I park?"),
        (3, None),
        (1, None),
    ]


def test_a_name_that_three_ask_about_does_not_show_the_words_of_one(database: Database) -> None:
    for number, question in enumerate(("what is tulip?", "tulip?", "was Ann fired for tulip?")):
        more = {"channel_id": f"D{number}", "user_id": f"U{number}"}
        ask(database, "abstained", question=question, unknown="tulip", **more)
    assert load(database, EVERYONE) == [(3, None)]
    ask(database, "abstained", question="is tulip on?", unknown="tulip", user_id="U9")
    assert load(database, EVERYONE) == [(1, "is tulip on?"), (3, None)]


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
                       'abstained', now() - n * interval '1 minute',
                       jsonb_build_object('generation_id', generation_id), '[1,0]'
                FROM generate_series(1, :many) AS n CROSS JOIN generations
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
