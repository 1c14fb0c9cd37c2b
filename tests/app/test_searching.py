"""From turns to what is found, over the sample documents: rules, synonyms, a model's wordings."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from sqlalchemy import event

from app import claims, synonyms, traces
from app.answering import Answerer, ask
from app.config import Settings
from app.generate.quoted import Quoter
from app.records import Answer, Arrival
from app.reword import Rewriter
from app.searching import build_query, search
from retrieval.records import Query
from retrieval.retrieve import Retriever
from tests.app.bot import find_rows
from tests.app.conversations import build_turns
from tests.stand_ins.claude import ClaudeStandIn, Text

QUESTION = "my parcel scanner will not register, what can I do"
SCANNERS = "reference/handheld-scanners.md"
WORDINGS = {
    "standalone": QUESTION,
    "queries": ["handheld scanner enrolling fails", "enrolling a device in the cradle"],
}


Rewriting = Callable[[int], Rewriter]


@pytest.fixture
def rewriting(stand_in: ClaudeStandIn) -> Iterator[Rewriting]:
    """What builds a Rewriter that waits so many milliseconds."""
    built = []

    def build(timeout_ms: int = 30_000) -> Rewriter:
        settings = Settings(
            anthropic_api_key=stand_in.api_key,  # type: ignore[arg-type]
            anthropic_base_url=stand_in.base_url,
            rewrite_timeout_ms=timeout_ms,
        )
        built.append(Rewriter(settings))
        return built[-1]

    yield build
    for rewriter in built:
        rewriter.close()


def reply(stand_in: ClaudeStandIn, wordings: Mapping[str, Any]) -> None:
    stand_in.reply([Text(json.dumps(wordings))])


def test_a_page_that_says_it_otherwise_wins_by_a_synonym(retriever: Retriever) -> None:
    turns = build_turns("hi, where do I get a new zapper?")
    before = search(retriever, turns, None).retrieval
    assert not before.kept
    synonyms.add(retriever.database, [synonyms.build("zapper", "handheld scanner", two_way=True)])
    found = search(retriever, turns, None).retrieval
    assert found.query.text == "where do I get a new zapper?"
    assert found.query.variants == ("where do I get a new handheld scanner?",)
    assert found.candidates[0].section.path == found.kept[0].section.path == SCANNERS
    assert found.settings["rewriting"] == "rules"


def test_what_is_calibrated_on_is_what_is_searched_for(retriever: Retriever) -> None:
    synonyms.add(retriever.database, [synonyms.build("vault", "safe", two_way=True)])
    query = build_query(retriever.database, build_turns("hi, who opens the vault?"))
    assert query.text == "who opens the vault?"
    assert query.variants == ("who opens the safe?",)


def test_the_search_for_the_question_as_asked_does_not_wait_for_the_model(
    retriever: Retriever, stand_in: ClaudeStandIn, rewriting: Rewriting
) -> None:
    searched = threading.Event()

    @event.listens_for(retriever.database.engine, "after_cursor_execute")
    def notice(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if "identifier_postings" in statement:  # the last leg of the first wording is over
            searched.set()

    stand_in.hold_next(searched)  # the model replies only after that
    reply(stand_in, WORDINGS)
    found = search(retriever, build_turns(QUESTION), rewriting(30_000))
    assert found.retrieval.settings["rewriting"] == "model"
    assert found.retrieval.query == Query(
        text=QUESTION, question=QUESTION, variants=tuple(WORDINGS["queries"])
    )
    wordings = {hit.wording for each in found.retrieval.candidates for hit in each.hits}
    assert wordings == {0, 1, 2}
    assert found.retrieval.stage_ms["wait"] >= 0


def test_a_models_wordings_find_what_the_question_does_not(
    retriever: Retriever, stand_in: ClaudeStandIn, rewriting: Rewriting
) -> None:
    reply(stand_in, WORDINGS)
    found = search(retriever, build_turns(QUESTION), rewriting(30_000)).retrieval
    (scanners,) = (each for each in found.candidates if each.section.path == SCANNERS)
    best = {hit.wording: hit.rank for hit in scanners.hits if hit.leg == "lexical"}
    assert best[1] == 1 and best.get(0, 99) >= best[1]


def test_a_follow_up_is_reranked_against_the_models_wording(
    retriever: Retriever, stand_in: ClaudeStandIn, rewriting: Rewriting
) -> None:
    turns = build_turns("what do I get per day for being on call?", "€32 [1].", "and sundays?")
    worded = "what do I get for being on call on sundays?"
    reply(stand_in, {"standalone": worded, "queries": ["on call pay sunday"]})
    found = search(retriever, turns, rewriting(30_000)).retrieval
    by_rules = "what do I get per day for being on call? and sundays?"
    assert found.query == Query(
        text=by_rules,
        question="and sundays?",
        variants=("and sundays?", worded, "on call pay sunday"),
        readings=(worded,),
    )
    assert found.candidates[0].section.path == "runbooks/oncall-guide.md"


def test_synonyms_hold_for_the_models_wording_of_a_follow_up(
    retriever: Retriever, stand_in: ClaudeStandIn, rewriting: Rewriting
) -> None:
    synonyms.add(retriever.database, [synonyms.build("sundays", "weekends", two_way=True)])
    turns = build_turns("what is paid for being on call?", "€32 [1].", "and sundays?")
    reply(stand_in, {"standalone": "on call pay, sundays", "queries": ["on call pay"]})
    found = search(retriever, turns, rewriting(30_000)).retrieval
    assert found.query.readings == ("on call pay, sundays", "on call pay, weekends")
    assert set(found.query.readings) < set(found.query.variants)


def test_a_change_of_topic_that_looks_like_a_follow_up_finds_the_new_topic(
    retriever: Retriever,
) -> None:
    old = "what do I get per day for being on call?"
    turns = build_turns(old, "€32 [1].", "and who has to approve prod-deploy?")
    found = search(retriever, turns, None).retrieval
    assert found.query.text == f"{old} and who has to approve prod-deploy?"
    assert found.candidates[0].section.path == "onboarding/request-access.md"


@pytest.mark.parametrize("question", ["ERR_2041", "hi, what does err_2041 mean? thanks"])
def test_a_plain_question_costs_nothing(
    retriever: Retriever, stand_in: ClaudeStandIn, rewriting: Rewriting, question: str
) -> None:
    found = search(retriever, build_turns(question), rewriting(30_000))
    assert (found.retrieval.settings["rewriting"], dict(found.tokens)) == ("rules", {})
    assert stand_in.requests() == ()


def fail(stand_in: ClaudeStandIn) -> None:
    stand_in.fail_next(429)


def cut(stand_in: ClaudeStandIn) -> None:
    stand_in.cut_next(after_events=0)


def hold(stand_in: ClaudeStandIn) -> None:
    stand_in.hold_next(threading.Event())


def babble(stand_in: ClaudeStandIn) -> None:
    stand_in.reply([Text("I would search for scanners.")])


@pytest.mark.parametrize(
    ("disturb", "timeout_ms", "outcome"),
    [
        (fail, 30_000, "failed: RateLimitError"),
        (cut, 30_000, "failed: APIConnectionError"),
        (hold, 1, "timed out"),
        (babble, 30_000, "nonsense"),
    ],
)
def test_the_answer_goes_on_without_the_model_and_the_trace_says_so(
    retriever: Retriever,
    stand_in: ClaudeStandIn,
    rewriting: Rewriting,
    disturb: Callable[[ClaudeStandIn], None],
    timeout_ms: int,
    outcome: str,
) -> None:
    question = "how many days of annual leave do I get?"
    disturb(stand_in)
    answerer = Answerer(
        retriever=retriever,
        generator=Quoter(retriever.embedder),
        rewriter=rewriting(timeout_ms),
    )
    asked = ask(answerer, build_turns(question))
    assert asked.answer.citations
    (trace,) = find_rows(retriever.database, "traces")
    assert (trace.outcome, trace.queries) == ("answered", [question])
    assert trace.settings["rewriting"] == outcome
    assert trace.settings["rewrite_model"] == "claude-haiku-5-5"
    assert ("rewrite_input" in trace.tokens) == (outcome == "nonsense")
    rules = search(retriever, build_turns(question), None).retrieval
    assert asked.retrieval.candidates == rules.candidates


def test_a_trace_has_the_models_wordings_and_what_they_cost(
    retriever: Retriever, stand_in: ClaudeStandIn, rewriting: Rewriting
) -> None:
    reply(stand_in, WORDINGS)
    answerer = Answerer(
        retriever=retriever, generator=Quoter(retriever.embedder), rewriter=rewriting(30_000)
    )
    ask(answerer, build_turns(QUESTION))
    (trace,) = find_rows(retriever.database, "traces")
    assert trace.queries == [QUESTION, *WORDINGS["queries"]]
    assert trace.settings["rewriting"] == "model"
    assert trace.tokens["rewrite_input"] > trace.tokens["rewrite_output"] > 0


def test_the_tokens_of_both_models_are_kept(retriever: Retriever) -> None:
    database = retriever.database
    turns = build_turns(QUESTION)
    found = search(retriever, turns, None)
    trace_id = claims.claim(database, Arrival(question=QUESTION))
    assert trace_id is not None
    traces.save_retrieval(database, trace_id, found.retrieval, tokens={"rewrite_input": 7})
    answer = Answer(text="It is so.", tokens={"input": 9, "output": 3})
    traces.save_answer(database, trace_id, answer, settings={}, stage_ms={})
    (trace,) = find_rows(database, "traces")
    assert trace.tokens == {"rewrite_input": 7, "input": 9, "output": 3}
