"""Features to a probability, and the model that is in force."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from retrieval import relevance
from retrieval.db import Database
from retrieval.errors import ConfigError
from retrieval.relevance import Basis, RelevanceModel
from retrieval.rerank import Features, LateInteraction
from retrieval.retrieve import Retriever
from tests.retrieval.candidates import candidate, measured
from tests.retrieval.pages import ask

BASIS = Basis(
    reranker="r", ranking=("late", "named"), certainty=("rare",), embedder="m", chunker="1/2/3"
)
LOGIT = Basis(reranker="cross", ranking=("logit",), certainty=(), embedder="m", chunker="1/2/3")


def model(basis: Basis = BASIS, *, intercept: float = -2.0, **weights: float) -> RelevanceModel:
    """A model in which what is not named has no weight."""
    certainty = ("score", *basis.certainty)
    return RelevanceModel(
        basis=basis,
        weights={name: weights.get(name, 0.0) for name in basis.ranking},
        certainty={name: weights.get(name, 0.0) for name in certainty},
        intercept=intercept,
        floor=0.2,
        cases=("c",),
        fitted_on="2026-11-30",
        case_digests=("0a1b", "2c3d"),
    )


def features(*rows: tuple[float, float, float]) -> Features:
    """Rows of late, named and rare."""
    return np.array(rows, dtype=np.float64)


def logistic(logit: float) -> float:
    return float(1 / (1 + np.exp(-logit)))


def test_the_best_is_judged_by_its_certainty_and_the_others_beside_it() -> None:
    told = model(late=4.0, named=1.0, score=0.5, rare=3.0)
    rows = features((0.5, 0.0, 0.0), (0.5, 1.0, 0.4), (0.0, 0.0, 1.0))
    assert told.scores(rows) == pytest.approx([2.0, 3.0, 0.0])
    assert told.logit(rows) == pytest.approx(0.5 * 3.0 + 3.0 * 0.4 - 2.0)
    best = logistic(0.7)
    assert told.relevance(rows) == pytest.approx([best * np.exp(-1), best, best * np.exp(-3)])


def test_what_tells_whether_the_best_answers_orders_nothing() -> None:
    told = model(late=4.0, score=1.0, rare=3.0)
    one, other = features((0.5, 0, 0), (0.4, 0, 0)), features((0.5, 0, 0), (0.4, 0, 9))
    assert told.relevance(one).tolist() == told.relevance(other).tolist()


def test_relevance_never_reaches_0_or_1() -> None:
    told = model(late=10.0, score=1.0, rare=1.0)
    for rare in (-9e9, 9e9):
        found = told.relevance(features(*((late, 0, rare) for late in (-9e9, -5, 6, 9e9))))
        assert ((found > 0) & (found < 1)).all()


def test_candidates_are_ranked_by_scores_where_probabilities_are_alike() -> None:
    candidates = [candidate(n) for n in range(5)]
    logits = np.array([[-5.0], [902.0], [-95.0], [901.0], [902.0]])
    told = model(LOGIT, logit=1.0, score=1.0)
    ranked = told.rank(measured(candidates, logits))
    assert [each.section.section_id for each in ranked] == [1, 4, 3, 0, 2]  # 1 was before 4
    assert ranked[3].relevance == ranked[4].relevance
    assert candidates[0].relevance is None  # what was given is as it was
    alone = told.rank(measured(candidates[:1], logits[:1]))
    assert alone[0].relevance == pytest.approx(logistic(-5 - 2))


def test_a_candidate_counts_by_the_reading_in_which_it_is_most_relevant() -> None:
    told = model(LOGIT, logit=1.0, score=1.0)
    readings = np.array([[2.0], [1.0], [-9.0]]), np.array([[-9.0], [2.3], [3.0]])
    ranked = told.rank(measured([candidate(n) for n in range(3)], *readings))
    assert [each.section.section_id for each in ranked] == [2, 0, 1]
    best = [logistic(3 - 2), logistic(2 - 2), logistic(3 - 2) * np.exp(2.3 - 3)]
    assert [each.relevance for each in ranked] == pytest.approx(best)


def test_no_candidates_have_no_relevance() -> None:
    nothing = np.zeros((0, 3))
    assert model().relevance(nothing).shape == (0,)
    assert model().logit(nothing) == -np.inf
    assert model().rank(measured([], nothing)) == []


def test_the_model_that_comes_along_is_that_of_the_default(retriever: Retriever) -> None:
    loaded = relevance.load_packaged(retriever.basis)
    assert loaded is not None
    assert tuple(loaded.weights) == LateInteraction.ranking
    assert tuple(loaded.certainty) == ("score", *LateInteraction.certainty)
    assert loaded.certainty["score"] > 0
    assert 0 < loaded.floor < 1
    assert loaded.cases and loaded.fitted_on


OTHER_BASES: list[dict[str, Any]] = [
    {"reranker": "other"},
    {"ranking": ("other",)},
    {"certainty": ()},
    {"embedder": "other"},
    {"chunker": "1/2/4"},
]


@pytest.mark.parametrize(
    ("probe", "is_one"),
    [((0.6, 0.8), True), ((0.6001, 0.7999), True), ((0.8, 0.6), False), ((1.0,), False)],
)
def test_a_model_is_not_for_other_weights_of_the_same_name(
    database: Database, probe: tuple[float, ...], is_one: bool
) -> None:
    fitted = model(replace(BASIS, probe=(0.6, 0.8)))
    with database.transaction() as connection:
        relevance.save(connection, fitted)
        found = relevance.find(connection, replace(BASIS, probe=probe))
        assert found == (fitted if is_one else None)
        assert relevance.find(connection, BASIS) == fitted


def test_the_packaged_model_is_for_nothing_else(retriever: Retriever) -> None:
    for other in OTHER_BASES:
        assert relevance.load_packaged(replace(retriever.basis, **other)) is None


def test_a_saved_model_is_in_force_for_its_basis_alone(database: Database) -> None:
    own = model(late=1 / 3)
    with database.transaction() as connection:
        relevance.save(connection, replace(own, floor=0.9))
        relevance.save(connection, own)  # in place of the one before
        assert relevance.load(connection, BASIS) == own
        for other in OTHER_BASES:
            with pytest.raises(ConfigError, match="Run `footnote calibrate CASES --apply`"):
                relevance.load(connection, replace(BASIS, **other))
        for other in ("reranker", "embedder", "chunker"):
            assert not relevance.revert(connection, replace(BASIS, **{other: "other"}))


def test_what_was_saved_is_undone_one_after_the_other(database: Database) -> None:
    saved = [model(late=late) for late in (0.1, 0.2, 0.3)]
    with database.transaction() as connection:
        for each in saved[:2]:
            relevance.save(connection, each)
        assert relevance.revert(connection, BASIS)
        assert relevance.find(connection, BASIS) == saved[0]
        relevance.save(connection, saved[2])
        assert relevance.find(connection, BASIS) == saved[2]
        assert relevance.revert(connection, BASIS)  # not to what was undone before
        assert relevance.find(connection, BASIS) == saved[0]
        assert relevance.revert(connection, BASIS)
        assert relevance.find(connection, BASIS) is None
        assert not relevance.revert(connection, BASIS)
        kept = connection.execute(text("SELECT count(*), count(reverted_at) FROM calibrations"))
        assert tuple(kept.one()) == (3, 3)


def test_of_two_that_replace_the_same_model_at_once_one_does(database: Database) -> None:
    meet = Barrier(2)

    def apply(late: float) -> str | None:
        meet.wait(30)
        try:
            with database.transaction() as connection:
                relevance.replace_in_use(connection, model(late=late), before=None)
        except ConfigError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(apply, (0.1, 0.2)))
    assert told.count(None) == 1
    (refused,) = filter(None, told)
    assert "Run `footnote calibrate` again" in refused
    with database.transaction() as connection:
        assert relevance.find(connection, BASIS) == model(late=(0.1, 0.2)[told.index(None)])
        assert relevance.revert(connection, BASIS)
        assert not relevance.revert(connection, BASIS)


def test_of_two_that_undo_at_once_each_undoes_one(database: Database) -> None:
    with database.transaction() as connection:
        for late in (0.1, 0.2, 0.3):
            relevance.save(connection, model(late=late))
    meet = Barrier(2)

    def revert(_: int) -> bool:
        meet.wait(30)
        with database.transaction() as connection:
            return relevance.revert(connection, BASIS)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(revert, range(2))) == [True, True]
    with database.transaction() as connection:
        assert relevance.find(connection, BASIS) == model(late=0.1)


@pytest.mark.parametrize(
    "stored",
    [
        # As the versions before stored it: one list of features, and no certainty.
        "jsonb_set(model #- '{basis,ranking}', '{basis,features}', '[\"late\"]') - 'certainty'",
        "model - 'floor'",
        "model || '{\"more\": 1}'",
        "jsonb_set(model, '{basis,more}', '1')",
        "model - 'basis'",
        "'null'",
        "'[]'",
    ],
)
def test_a_model_of_another_version_counts_as_none(database: Database, stored: str) -> None:
    with database.transaction() as connection:
        relevance.save(connection, model())
        connection.execute(text(f"UPDATE calibrations SET model = CAST({stored} AS jsonb)"))
        with pytest.raises(ConfigError, match="Run `footnote calibrate CASES --apply`"):
            relevance.load(connection, BASIS)
        relevance.save(connection, model())
        assert relevance.load(connection, BASIS) == model()


def test_what_lacks_a_floor_is_named(database: Database) -> None:
    with (
        database.transaction() as connection,
        pytest.raises(
            ConfigError, match=r"reranker cross has no floor for an index by m and chunker 1/2/3\."
        ),
    ):
        relevance.load(connection, LOGIT)


def test_a_saved_model_goes_before_the_packaged_one(retriever: Retriever) -> None:
    question = ask("what does err 2041 mean?")
    packaged = relevance.load_packaged(retriever.basis)
    assert packaged is not None
    assert retriever.retrieve(question).kept
    with retriever.database.transaction() as connection:
        relevance.save(connection, replace(packaged, floor=1.0, fitted_on="2026-12-01"))
    found = retriever.retrieve(question)
    assert found.kept == () and found.candidates
    assert found.settings["floor"] == 1.0
    assert found.settings["relevance_fitted_on"] == "2026-12-01"


def test_a_saved_model_is_its_tenants_alone(database: Database, database_url: str) -> None:
    with database.transaction() as connection:
        relevance.save(connection, model())
    other = Database(database_url, tenant_id="other")
    with other.transaction() as connection, pytest.raises(ConfigError):
        relevance.load(connection, BASIS)
    other.close()


def test_a_search_without_a_floor_for_its_index_is_refused(retriever: Retriever) -> None:
    class Other(LateInteraction):
        ranking = LateInteraction.ranking[::-1]  # not what the packaged model was fitted on

    changed = replace(retriever, reranker=Other())
    for search in (changed.check, lambda: changed.retrieve(ask("err 2041"))):
        with pytest.raises(ConfigError, match="late-interaction has no floor"):
            search()
    assert changed.measure(ask("err 2041")).candidates  # which is what calibration needs


def test_the_file_of_a_model_has_all_of_it() -> None:
    told = json.loads(relevance.build_json(model(late=1.5, score=0.7)))
    assert told["basis"] == {
        "reranker": "r",
        "ranking": ["late", "named"],
        "certainty": ["rare"],
        "embedder": "m",
        "chunker": "1/2/3",
        "probe": [],
    }
    assert told["weights"] == {"late": 1.5, "named": 0.0}
    assert told["certainty"] == {"score": 0.7, "rare": 0.0}
    assert (told["floor"], told["cases"], told["fitted_on"]) == (0.2, ["c"], "2026-11-30")
