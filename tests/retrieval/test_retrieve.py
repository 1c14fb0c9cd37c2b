"""The whole search, over the sample documents."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event, text

from retrieval import relevance
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.errors import ConfigError, IndexMismatch
from retrieval.indexing import Summary
from retrieval.records import Candidate, Query
from retrieval.relevance import RelevanceModel
from retrieval.rerank import Features
from retrieval.retrieve import Retriever
from retrieval.trimming import GAP
from retrieval.tuning import DEFAULT, Tuning
from tests.retrieval.pages import ask, before_statement, build_retriever, ingest, page

QUESTION = ask("what does err 2041 mean?")


def test_every_stage_tells_its_time_and_settings(retriever: Retriever) -> None:
    found = retriever.retrieve(QUESTION)
    stages = ["embed", "dense", "lexical", "identifier", "fuse", "late"]
    assert list(found.stage_ms) == [*stages, "rerank", "names", "keep"]
    assert all(ms >= 0 for ms in found.stage_ms.values())
    assert found.settings["embedder"] == "all-MiniLM-L6-v2"
    assert found.settings["chunker"] == "1.1.1/900/180/128"
    assert found.settings["rrf_k"] == 60
    model = relevance.load_packaged(retriever.basis)
    assert model is not None
    assert found.settings["reranker"] == "late-interaction"
    assert found.settings["floor"] == model.floor
    assert found.settings["relevance_fitted_on"] == model.fitted_on
    assert isinstance(found.settings["generation_id"], int)


def test_candidates_come_best_first_with_all_their_evidence(retriever: Retriever) -> None:
    found = retriever.retrieve(QUESTION)
    relevance = [candidate.relevance or 0 for candidate in found.candidates]
    assert relevance == sorted(relevance, reverse=True)
    assert len({candidate.section.section_id for candidate in found.candidates}) == len(relevance)
    by_path = {candidate.section.path: candidate for candidate in found.candidates[:3]}
    best = by_path["reference/error-codes.md"]
    ranks = {hit.leg: hit.rank for hit in best.hits}
    assert set(ranks) == {"dense", "lexical", "identifier", "late"}
    weights = {"identifier": 0.5, "late": 2.0}
    assert best.rrf_score == pytest.approx(
        sum(weights.get(leg, 1) / (60 + rank) for leg, rank in ranks.items())
    )
    assert best.chunk_ids and best.section.url.startswith("https://wiki.halvermeer.example/")


def test_at_most_five_are_kept_and_none_far_below_the_best(retriever: Retriever) -> None:
    found = retriever.retrieve(QUESTION)
    assert 1 <= len(found.kept) <= 5
    best, *others = found.kept
    assert best.section.section_id == found.candidates[0].section.section_id
    least = DEFAULT.keep_ratio * (best.relevance or 0)
    assert all((each.relevance or 0) >= least for each in others)
    only = replace(retriever, tuning=replace(DEFAULT, keep_ratio=1.0)).retrieve(QUESTION)
    assert only.kept == found.kept[:1]


def test_no_more_candidates_are_reranked_than_asked(retriever: Retriever) -> None:
    few = replace(retriever, tuning=replace(DEFAULT, candidates=7, keep=2))
    found = few.retrieve(QUESTION)
    assert (len(found.candidates), len(found.kept)) == (7, 2)


def test_an_index_without_documents_finds_nothing(database: Database, embedder: Embedder) -> None:
    found = build_retriever(database, embedder).retrieve(QUESTION)
    assert (found.candidates, found.kept, dict(found.settings)) == ((), (), {})
    assert dict(found.stage_ms) == {}


def test_another_chunker_is_told_not_searched(retriever: Retriever) -> None:
    other = replace(retriever, tuning=replace(DEFAULT, section_tokens=500))
    with pytest.raises(IndexMismatch, match=r"1.1.1/900/180/128 is now 1.1.1/500/180/128\. Run"):
        other.retrieve(QUESTION)


def test_other_tenants_documents_are_not_found(indexed_url: str, retriever: Retriever) -> None:
    other = Database(indexed_url, tenant_id="other")
    assert replace(retriever, database=other).retrieve(QUESTION).candidates == ()
    other.close()


def test_the_same_question_gives_the_same_result(retriever: Retriever) -> None:
    once, again = (retriever.retrieve(QUESTION) for _ in range(2))
    assert once.candidates == again.candidates


def test_measured_candidates_are_those_of_a_search_in_the_order_of_fusion(
    retriever: Retriever,
) -> None:
    measured = retriever.measure(QUESTION)
    found = retriever.retrieve(QUESTION).candidates
    assert {each.section.section_id for each in measured.candidates} == {
        each.section.section_id for each in found
    }
    scores = [candidate.rrf_score for candidate in measured.candidates]
    assert scores == sorted(scores, reverse=True)
    assert [len(features) for features in measured.features] == [len(scores)]


def test_measuring_without_an_index_is_an_error(database: Database, embedder: Embedder) -> None:
    with pytest.raises(ConfigError, match="Nothing is indexed"):
        build_retriever(database, embedder).measure(QUESTION)


def test_a_question_asked_while_pages_change_sees_them_all_old(
    database: Database, embedder: Embedder
) -> None:
    old = page("leave.md", "# Leave\n\nYou have 28 days of leave a year.\n")
    ingest(database, embedder, old)
    new = page("leave.md", "# Leave\n\nYou have 30 days of leave now.\n")
    changed: list[Summary] = []

    def change() -> None:
        changed.append(ingest(database, embedder, new))

    before_statement(database, "FROM identifier_postings", call=change)
    found = build_retriever(database, embedder).retrieve(ask("how many days of leave?"))
    assert changed
    assert ["28 days" in candidate.section.text for candidate in found.candidates] == [True]


def test_pages_that_change_while_a_model_is_waited_for_are_found_as_they_are_now(
    database: Database, embedder: Embedder
) -> None:
    ingest(database, embedder, page("leave.md", "# Leave\n\nYou have 28 days of leave a year.\n"))
    new = page("leave.md", "# Leave\n\nYou have 30 days of leave now.\n")

    def reword(query: Query) -> Query:
        # Ingest would wait for ever, had the search left a transaction open on its connection.
        assert database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
        ingest(database, embedder, new)
        return replace(query, variants=("annual leave",))

    found = build_retriever(database, embedder).retrieve(ask("how many days of leave?"), reword)
    (candidate,) = found.candidates
    assert "30 days" in candidate.section.text
    assert {hit.wording for hit in candidate.hits} == {0, 1}


def test_what_was_searched_for_ahead_is_not_searched_for_again(
    database: Database, embedder: Embedder
) -> None:
    ingest(database, embedder, page("leave.md", "# Leave\n\nYou have 28 days of leave a year.\n"))
    retriever = build_retriever(database, embedder)
    sent: list[str] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def count(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        sent.extend(["leg"] * ("FROM identifier_postings" in statement))

    query = ask("how many days of leave?")
    found = retriever.retrieve(query, lambda query: query)
    assert len(sent) == 1
    assert found.candidates == retriever.retrieve(query).candidates
    assert len(sent) == 2


def build_open(database: Database, embedder: Embedder, tuning: Tuning = DEFAULT) -> Retriever:
    """A search by the packaged model that refuses no question."""
    retriever = build_retriever(database, embedder, tuning)
    packaged = relevance.load_packaged(build_retriever(database, embedder).basis)
    assert packaged is not None
    with database.transaction() as connection:
        relevance.save(connection, replace(packaged, basis=retriever.basis, floor=0.0))
    return retriever


def kept_paths(retriever: Retriever, question: str) -> list[str]:
    return [each.section.path for each in retriever.retrieve(ask(question)).kept]


COPIED = """
The garage below the office has forty parking places. Book one in the app before noon on the day
before; a booking that is not used by ten in the morning lapses. Visitors ring at the gate, and
reception lets them in. Bicycles stand in the yard, where there are sockets to charge them.
"""


def test_copies_of_one_passage_leave_places_to_other_pages(
    database: Database, embedder: Embedder
) -> None:
    ingest(
        database,
        embedder,
        *(page(f"copy-{number}.md", f"# Parking\n{COPIED}") for number in range(6)),
        page(
            "fees.md", "# Fees\n\nA parking place costs three euros a day, taken from the salary.\n"
        ),
        page("lunch.md", "# Lunch\n\nThe kitchen on the second floor serves soup at noon.\n"),
    )
    kept = kept_paths(build_open(database, embedder), "how do I book a parking place?")
    assert kept[0].startswith("copy-")
    assert sum(path.startswith("copy-") for path in kept) == 1
    assert "fees.md" in kept


# Sections of one heading each.
SMALL = replace(DEFAULT, section_tokens=40, chunk_tokens=40)


def test_a_question_that_needs_two_pages_gets_both(database: Database, embedder: Embedder) -> None:
    receipts = ["train", "taxi", "hotel", "meal", "flight", "rented car", "ferry"]
    sections = [
        f"## Expense claim for a {each}\n\nFile the expense claim for a {each} in the tool, "
        f"with the receipt of a {each}, and send the expense claim on.\n\n"
        for each in receipts
    ]
    ingest(
        database,
        embedder,
        page("claims.md", "# Expense claims\n\n" + "".join(sections)),
        page("sign.md", "# Budgets\n\nAbove 500 euros, a signature of the owner is needed.\n"),
        page("lunch.md", "# Lunch\n\nSoup is served at noon.\n"),
        tuning=SMALL,
    )
    question = "how is an expense claim filed in the tool, and is a signature needed?"
    one_page = build_open(database, embedder, replace(SMALL, same_document=1.0))
    assert kept_paths(one_page, question) == ["claims.md"] * 5
    kept = kept_paths(build_open(database, embedder, SMALL), question)
    assert kept[0] == "claims.md" and "sign.md" in kept


SERVICES = ["atlas", "boreas", "calypso", "daphne", "echo"]


def build_template(service: str) -> str:
    """A page that names its service in two lines of many."""
    return f"# Runbook of {service}\n\n" + "\n".join(
        [
            f"To restart it, run `servicectl restart {service}` on the host.",
            "Look at the dashboard first, and tell the channel of the team on duty before you act.",
            "Wait until all connections are drained, which takes up to five minutes on a busy day.",
            "Then look at the log of the proxy for errors, and at the queue for jobs left behind.",
            "When the queue grows for more than ten minutes, call the engineer on duty at once.",
            "Write down what you did and when, so that the review on the day after can be short.",
            "Never restart more than one host at a time, since the others take over its traffic.",
            "A host that does not come back within ten minutes is taken out of the load balancer.",
        ]
    )


def test_those_asked_for_of_pages_made_from_a_template_are_kept(
    database: Database, embedder: Embedder
) -> None:
    ingest(
        database,
        embedder,
        *(page(f"runbooks/{service}.md", build_template(service)) for service in SERVICES),
    )
    retriever = build_open(database, embedder)
    for service in SERVICES:
        assert kept_paths(retriever, f"how do I restart {service}?")[0] == f"runbooks/{service}.md"
    both = kept_paths(retriever, "how do I restart boreas and daphne?")
    assert {"runbooks/boreas.md", "runbooks/daphne.md"} <= set(both)


def test_equals_come_in_one_order_wherever_their_rows_lie(
    database: Database, embedder: Embedder
) -> None:
    ingest(database, embedder, *(page(f"{n:02}.md", f"# Parking\n{COPIED}") for n in range(12)))
    retriever = build_open(database, embedder, replace(DEFAULT, candidates=5, interacted=8))
    before = retriever.retrieve(ask("who lets visitors in?"))
    assert [each.section.path for each in before.candidates] == [f"{n:02}.md" for n in range(5)]
    with database.transaction() as connection:  # an updated row is written anew, after the others
        for table in ("sections", "chunks", "lexical_postings"):
            connection.execute(
                text(f"UPDATE {table} SET tenant_id = tenant_id WHERE section_id % 2 = 0")
            )
    after = retriever.retrieve(ask("who lets visitors in?"))
    assert (after.candidates, after.kept) == (before.candidates, before.kept)


def test_what_is_kept_is_trimmed_and_the_candidates_are_whole(retriever: Retriever) -> None:
    found = retriever.retrieve(ask("who approves an exception from the freeze?"))
    whole = {each.section.section_id: each for each in found.candidates}
    for each in found.kept:
        full = whole[each.section.section_id]
        assert replace(each, section=full.section) == full
        parts = each.section.text.split(f"{GAP}\n")
        assert all(part.strip() in full.section.text for part in parts)
    best = found.kept[0].section.text
    assert "### Exceptions\n\nWrite to Marit" in best
    assert GAP in best and len(best) < len(found.candidates[0].section.text)


class Knowing:
    """A reranker that knows the section that answers."""

    name, ranking, certainty = "knowing", ("logit",), ()

    def __init__(self, right: int) -> None:
        self.right = right

    def measure(
        self, connection: object, asked: object, candidates: Sequence[Candidate], found: object
    ) -> Features:
        is_right = [each.section.section_id == self.right for each in candidates]
        return np.where(is_right, 9.0, -9.0).reshape(-1, 1)


def test_p71_the_floor_is_for_what_was_reranked_whatever_its_place_in_fusion(
    database: Database, embedder: Embedder
) -> None:
    pages = (
        page(f"{number}.md", f"# Quota {number}\n\n{'The quota of a team is set here. ' * number}")
        for number in range(1, 31)
    )
    ingest(database, embedder, *pages)
    question = ask("what is the quota of a team?")
    fused = build_retriever(database, embedder).narrow(question)
    right = fused[17]  # the 18th
    retriever = replace(
        build_retriever(database, embedder), reranker=Knowing(right.section.section_id)
    )
    model = RelevanceModel(
        basis=retriever.basis,
        weights={"logit": 1.0},
        certainty={"score": 1.0},
        intercept=0.0,
        floor=0.3,
        cases=("c",),
        fitted_on="2026-11-30",
    )
    with database.transaction() as connection:
        relevance.save(connection, model)
    found = retriever.retrieve(question)
    assert len(found.candidates) == len(fused) >= 18
    assert all(each.rrf_score < 0.3 for each in found.candidates)  # or none would have passed
    best = found.candidates[0]
    assert found.kept[0].section.section_id == best.section.section_id == right.section.section_id
    assert best.rrf_score == right.rrf_score < fused[0].rrf_score
    assert best.relevance == pytest.approx(1 / (1 + np.exp(-9)))
    scores = {hit.leg: hit.score for hit in best.hits}
    assert scores == {hit.leg: hit.score for hit in right.hits} and {"dense", "late"} <= set(scores)
    assert {best.rrf_score, best.relevance}.isdisjoint(scores.values())


def test_what_was_searched_for_brings_its_vector(retriever: Retriever) -> None:
    found = retriever.retrieve(replace(QUESTION, variants=("error codes",)))
    vector = retriever.embedder.embed_query(QUESTION.text).embedding.vector
    assert found.vector == tuple(vector.tolist())
    assert len(found.vector) == retriever.embedder.dimension


def test_a_floor_that_is_set_goes_before_that_of_the_model(retriever: Retriever) -> None:
    assert retriever.retrieve(QUESTION).kept
    strict = replace(retriever, tuning=replace(DEFAULT, floor=1.0))
    found = strict.retrieve(QUESTION)
    assert found.kept == () and found.settings["floor"] == 1.0
    open_ = replace(retriever, tuning=replace(DEFAULT, floor=0.0))
    assert open_.retrieve(ask("who wrote the opera Aida?")).kept
    assert not retriever.retrieve(ask("who wrote the opera Aida?")).kept
