"""A relevance model fitted on made-up cases that one feature tells apart."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from retrieval import calibration
from retrieval.calibration import Sample
from retrieval.comparison import Difference
from retrieval.errors import ConfigError
from retrieval.evaluation import EvalCase
from retrieval.literal import Literal
from retrieval.metrics import Gold
from retrieval.records import Turn
from retrieval.relevance import Basis, RelevanceModel
from retrieval.rerank import Features
from tests.retrieval.candidates import candidate, measured

BASIS = Basis(
    reranker="r",
    ranking=("late", "cosine", "length"),
    certainty=("rare", "question"),
    embedder="m",
    chunker="1/2/3",
)
LOGIT = replace(BASIS, reranker="cross", ranking=("logit",), certainty=())


def sample(
    number: int, *, answerable: bool = True, basis: Basis = BASIS, kind: str = "t", edge: float = 1
) -> Sample:
    """A case with ten candidates, of which the seventh answers and is ahead by edge.

    It is so in the first feature that ranks, and in the first that tells whether it answers.
    """
    gold = (Gold(doc="7.md", span="the answer"),) if answerable else ()
    case = EvalCase(
        case_id=str(number),
        type=kind,
        turns=(Turn(speaker="user", text=f"question {number}"),),
        gold_any=gold,
        gold_all=(),
    )
    generator = np.random.default_rng(number)
    features = generator.normal(0, 0.1, (10, len(basis.ranking) + len(basis.certainty)))
    if answerable:
        features[7, 0] += edge
        features[7, len(basis.ranking) :][:1] += edge
    candidates = [
        candidate(n, path=f"{n}.md", text="the answer" if n == 7 else "other") for n in range(10)
    ]
    return calibration.build_sample(case, measured(candidates, features))


def with_features(sample: Sample, features: Features) -> Sample:
    return replace(sample, measured=replace(sample.measured, features=(features,)))


def calibrate(
    samples: list[Sample],
    *,
    basis: Basis = BASIS,
    in_use: RelevanceModel | None = None,
    held_out: Sequence[Sample] = (),
) -> calibration.Calibration:
    return calibration.calibrate(
        samples, basis, cases=["set/dev"], in_use=in_use, held_out=held_out
    )


def packaged(
    late: float,
    *,
    score: float = 0.0,
    rare: float = 0.0,
    intercept: float = 0.0,
    floor: float = 0.123,
    cases: tuple[str, ...] = ("other/dev",),
    fitted_on: Sequence[Sample] = (),
) -> RelevanceModel:
    return RelevanceModel(
        basis=BASIS,
        weights={"late": late, "cosine": 0.0, "length": 0.0},
        certainty={"score": score, "rare": rare, "question": 0.0},
        intercept=intercept,
        floor=floor,
        cases=cases,
        fitted_on="2026-01-01",
        case_digests=tuple(each.case.content_digest for each in fitted_on),
    )


def top(model: RelevanceModel, sample: Sample) -> float:
    """The relevance of the best candidate."""
    return float(model.relevance(sample.features).max())


MIXED = [
    *(sample(n) for n in range(40)),
    *(sample(n, answerable=False, kind="general") for n in range(40, 50)),
    *(sample(n, answerable=False, kind="near") for n in range(50, 70)),
]


@pytest.fixture(scope="module")
def calibrated() -> calibration.Calibration:
    return calibrate(MIXED)


def test_a_sample_knows_what_answers_it() -> None:
    assert sample(1).relevant == tuple(n == 7 for n in range(10))
    assert not any(sample(1, answerable=False).relevant)


def test_what_tells_apart_gets_the_weight(calibrated: calibration.Calibration) -> None:
    model = calibrated.fitted.model
    for weights, name in ((model.weights, "late"), (model.certainty, "rare")):
        others = [abs(weight) for other, weight in weights.items() if other not in (name, "score")]
        assert weights[name] > 2 * max(others)
    assert list(model.certainty) == ["score", "rare", "question"]
    assert calibrated.fitted.recall_at_5 == 1
    assert (model.basis, model.cases) == (BASIS, ("set/dev",))
    relevance = model.relevance(MIXED[0].features)
    assert int(np.argmax(relevance)) == 7 and relevance[7] > 0.5
    # The floor lets the answerable through but for one in a hundred, and none of the others.
    assert sum(top(model, each) >= model.floor for each in MIXED[:40]) >= 39
    assert all(top(model, each) < model.floor for each in MIXED[40:])


def test_answers_are_ranked_within_their_question_alone(
    calibrated: calibration.Calibration,
) -> None:
    # What is higher for all candidates of the questions that are answered ranks none of them.
    samples = [
        with_features(each, each.features + np.array([0, float(each.answerable), 0, 0, 0]))
        for each in MIXED
    ]
    assert calibrate(samples).fitted.model.weights == pytest.approx(
        calibrated.fitted.model.weights, rel=0.2, abs=1
    )


def test_a_feature_counts_alike_on_whatever_scale_it_is_measured(
    calibrated: calibration.Calibration,
) -> None:
    scale = np.array([1, 1000, 1, 1, 1 / 1000])
    samples = [with_features(each, each.features * scale) for each in MIXED]
    model, scaled = calibrated.fitted.model, calibrate(samples).fitted.model
    assert scaled.weights["cosine"] * 1000 == pytest.approx(model.weights["cosine"], rel=0.01)
    for one, other in zip(MIXED, samples, strict=True):
        assert scaled.logit(other.features) == pytest.approx(model.logit(one.features), rel=0.01)


def mixed(*, basis: Basis, edge: float = 1) -> list[Sample]:
    return [sample(n, answerable=n < 30, basis=basis, edge=edge) for n in range(40)]


def test_a_single_logit_gets_scale_and_offset() -> None:
    model = calibrate(mixed(basis=LOGIT), basis=LOGIT).fitted.model
    assert list(model.weights) == ["logit"] and model.weights["logit"] > 0
    assert list(model.certainty) == ["score"] and model.certainty["score"] > 0
    answer, other = (model.relevance(np.array([[logit], [0.0]])) for logit in (1.0, 0.0))
    assert answer[0] > 0.9 and other[0] < 0.1
    assert answer[1] < 0.1 * answer[0]


@pytest.mark.parametrize("unanswerable", [0, 10])
def test_a_reranker_that_prefers_what_does_not_answer_is_refused(unanswerable: int) -> None:
    samples = mixed(basis=LOGIT, edge=-1)[: 30 + unanswerable]
    with pytest.raises(ConfigError, match="cross scores answers no higher than the rest"):
        calibrate(samples, basis=LOGIT)


def test_a_reranker_whose_best_tells_nothing_is_refused() -> None:
    # It finds the answer where there is one, and is as sure of the best one where there is none.
    samples = mixed(basis=LOGIT)
    sure = [each if each.answerable else with_features(each, each.features + 2) for each in samples]
    with pytest.raises(ConfigError, match="cross scores answers no higher than the rest"):
        calibrate(sure, basis=LOGIT)


def test_as_many_as_asked_are_answered_and_fewer_above(
    calibrated: calibration.Calibration,
) -> None:
    coverage = calibrated.fitted.coverage
    floors = [each.floor for each in coverage]
    answered = [each.answered for each in coverage]
    assert floors == sorted(set(floors))
    assert answered == sorted(answered, reverse=True)
    assert answered[0] == 1 and answered[-1] == pytest.approx(0.8, abs=0.03)
    chosen = calibrated.fitted.model.floor
    (row,) = [each for each in coverage if each.floor == chosen]
    assert row.answered >= calibration.COVERAGE
    assert row == coverage[0]  # a higher floor would let no fewer false answers through


def test_a_higher_floor_is_chosen_where_it_lets_fewer_false_answers_through() -> None:
    # One answer in 200 is as weak as what answers nothing.
    weak = sample(300, edge=0.3)
    false = [sample(n, answerable=False, kind="odd") for n in range(301, 341)]
    odd = [with_features(each, each.features + 0.6 * (n == 0)) for n, each in enumerate(false)]
    strong = [sample(n) for n in range(100, 299)]
    coverage = calibrate([*strong, weak, *odd]).fitted.coverage
    lowest, higher = coverage[:2]
    assert lowest.false_answers["odd"] > higher.false_answers["odd"]
    assert calibrate([*strong, weak, *odd]).fitted.model.floor == higher.floor


def test_false_answers_are_counted_by_type() -> None:
    # Those of the type near have what answers as other questions have it.
    near = [
        replace(
            sample(n), case=sample(n, answerable=False, kind="near").case, relevant=(False,) * 10
        )
        for n in range(70, 80)
    ]
    calibrated = calibrate([*MIXED[:50], *near])
    assert calibrated.answerable == 40
    assert dict(calibrated.unanswerable) == {"general": 10, "near": 10}
    coverage = calibrated.fitted.coverage
    assert all(row.false_answers["general"] == 0 for row in coverage)
    # Above higher floors the draw of these ten tells, however the folds fall.
    assert all(row.false_answers["near"] >= 0.5 for row in coverage if row.answered > 0.9)


def test_the_same_cases_give_the_same_model() -> None:
    assert calibrate(MIXED[25:45]) == calibrate(MIXED[25:45])


def test_without_unanswerable_cases_there_are_no_false_answers_to_tell() -> None:
    # Where the best is no answer, of some cases another one is.
    samples = [sample(n, edge=0.2) for n in range(20)]
    calibrated = calibrate(samples)
    assert not calibrated.unanswerable
    assert all(each.false_answers == {} for each in calibrated.fitted.coverage)


def test_a_case_without_candidates_does_no_harm(calibrated: calibration.Calibration) -> None:
    empty = calibration.build_sample(MIXED[45].case, measured([], np.zeros((0, 5))))
    found = calibrate([*MIXED, empty])
    assert found.unanswerable["general"] == 11
    assert found.fitted.model.weights == calibrated.fitted.model.weights
    assert found.fitted.model.certainty == calibrated.fitted.model.certainty
    assert all(row.false_answers["general"] == 0 for row in found.fitted.coverage)


def test_what_is_refused_by_a_name_is_no_false_answer(
    calibrated: calibration.Calibration,
) -> None:
    asked = sample(80, answerable=False, kind="name")
    sure = np.vstack([asked.features[:9], MIXED[0].features[7:8]])
    unknown = calibration.build_sample(
        asked.case, measured(asked.measured.candidates, sure, unknown=("E-1077",))
    )
    told = replace(unknown, measured=replace(unknown.measured, unknown=()))
    false = [
        calibrate([*MIXED, each]).fitted.coverage[0].false_answers["name"]
        for each in (unknown, told)
    ]
    assert false == [0, 1]


def test_that_a_section_holds_the_identifier_counts_for_the_floor() -> None:
    # What is measured tells nothing of ten cases, but the section that answers holds the name.
    weak = [
        calibration.build_sample(
            each.case,
            replace(each.measured, literal=Literal(holders=frozenset({7}), sure=sure)),
        )
        for each in (sample(n, edge=0) for n in range(90, 100))
        for sure in [0.0]
    ]
    sure = [
        replace(
            each,
            measured=replace(each.measured, literal=replace(each.measured.literal, sure=0.5)),
        )
        for each in weak
    ]
    floors = [calibrate([*MIXED, *each]).fitted.model.floor for each in (weak, sure)]
    assert floors[0] < 0.5 < floors[1]


def test_cases_whose_best_is_always_an_answer_give_no_floor() -> None:
    told = (
        "Of 40 cases to fit on, the best section is an answer for 40 and none for 0: .* 2 of each"
    )
    with pytest.raises(ConfigError, match=told):
        calibrate(MIXED[:40])


def test_what_is_in_use_stays_with_its_floor_unless_the_fitted_one_is_better() -> None:
    hard = [sample(n, answerable=n < 12, edge=0.45) for n in range(18)]
    # The best weight of a difference of 0.45 at a deviation of 0.1 is 0.45 / 0.1**2.
    known = packaged(45.0, score=0.8, rare=45.0, intercept=-45 * 0.45 / 2 - 0.8 * 45 * 0.3)
    calibrated = calibrate(hard, in_use=known)
    assert calibrated.rival is not None and calibrated.rival.model == known
    assert calibrated.rival.recall_at_5 >= calibrated.fitted.recall_at_5
    assert calibrated.rival.log_loss < calibrated.fitted.log_loss
    assert not calibrated.is_better
    (coverage,) = calibrated.rival.coverage
    assert calibrated.rival.at_floor == coverage and coverage.floor == 0.123
    over = sum(top(known, each) >= 0.123 for each in hard[:12]) / 12
    assert coverage.answered == pytest.approx(over)


def test_the_fitted_model_is_better_where_it_finds_more() -> None:
    calibrated = calibrate(MIXED, in_use=packaged(-10.0))
    assert calibrated.rival is not None
    assert calibrated.rival.recall_at_5 < calibrated.fitted.recall_at_5 == 1
    assert calibrated.is_better and calibrated.is_new
    recall, sureness = calibrated.changes
    assert (recall.metric, recall.case_count) == ("recall@5", 40)  # those answerable
    assert (sureness.metric, sureness.case_count) == ("-log loss", 70)
    assert recall.after == 1 and recall.before == round(calibrated.rival.recall_at_5, 4)
    assert sureness.after == -round(calibrated.fitted.log_loss, 4)


def test_of_two_that_find_as_much_the_better_calibrated_is_better() -> None:
    calibrated = calibrate(MIXED, in_use=packaged(10.0, rare=0.5))
    assert calibrated.rival is not None
    assert calibrated.rival.recall_at_5 == calibrated.fitted.recall_at_5 == 1
    assert calibrated.fitted.log_loss < calibrated.rival.log_loss
    assert calibrated.is_better


def difference(metric: str, interval: tuple[float, float], *, cases: int = 10) -> Difference:
    return Difference(
        metric=metric,
        case_count=cases,
        before=0.5,
        after=0.5 + sum(interval) / 2,
        interval=interval,
        won=(),
        lost=(),
    )


BETTER, SAME, WORSE = (0.01, 0.02), (-0.1, 0.1), (-0.2, -0.01)


@pytest.mark.parametrize(
    ("recall", "sureness", "held_out", "is_better"),
    [
        (SAME, SAME, {}, False),  # what differs may be chance
        (BETTER, SAME, {}, True),
        (SAME, BETTER, {}, True),
        (BETTER, WORSE, {}, False),
        (WORSE, BETTER, {}, False),
        (BETTER, SAME, {"recall@5": SAME, "answered": SAME, "refused": SAME}, True),
        *(
            (BETTER, SAME, {"recall@5": BETTER, metric: WORSE}, False)
            for metric in ("recall@5", "answered", "refused")
        ),
        (SAME, SAME, {"recall@5": BETTER}, False),
    ],
)
def test_better_is_beyond_noise_and_nowhere_worse(
    calibrated: calibration.Calibration,
    recall: tuple[float, float],
    sureness: tuple[float, float],
    held_out: dict[str, tuple[float, float]],
    is_better: bool,
) -> None:
    told = replace(
        calibrated,
        in_use=calibrated.fitted.model,
        rival=calibrated.fitted,
        changes=(difference("recall@5", recall), difference("-log loss", sureness)),
        held_out=tuple(difference(*each) for each in held_out.items()),
    )
    assert told.is_better is is_better


@pytest.mark.parametrize(
    ("held_out", "is_better"),
    [
        ({}, False),
        ({"recall@5": SAME, "answered": SAME, "refused": SAME}, False),
        ({"recall@5": BETTER, "answered": SAME, "refused": SAME}, True),
        ({"recall@5": SAME, "answered": SAME, "refused": BETTER}, True),
        ({"recall@5": BETTER, "answered": SAME, "refused": WORSE}, False),
        ({"recall@5": SAME, "answered": BETTER, "refused": WORSE}, False),
    ],
)
def test_of_two_fitted_on_the_same_cases_those_held_out_decide(
    calibrated: calibration.Calibration,
    held_out: dict[str, tuple[float, float]],
    is_better: bool,
) -> None:
    told = replace(
        calibrated,
        in_use=calibrated.fitted.model,
        held_out=tuple(difference(*each) for each in held_out.items()),
    )
    assert told.is_better is is_better
    few = tuple(difference(*each, cases=9) for each in held_out.items())
    assert not replace(told, held_out=few).is_better


def test_a_floor_that_refuses_what_was_held_out_is_not_better() -> None:
    weak = [sample(number, edge=0.35) for number in range(300, 330)]
    low = packaged(10.0, score=1.0, rare=1.0, floor=0.01)
    found = calibrate(MIXED, in_use=low, held_out=weak)
    assert found.losses == ("answered",)
    assert not found.is_better
    assert calibrate(MIXED, in_use=low).is_better


def test_no_model_is_judged_by_cases_that_it_was_fitted_on() -> None:
    for own in (
        packaged(10.0, fitted_on=MIXED[-1:]),  # whatever its set is called
        packaged(10.0, cases=("other/dev", "set/dev")),  # which cases is not known
    ):
        found = calibrate(MIXED, in_use=own)
        assert found.in_use == own
        assert found.rival is None and not found.changes and not found.is_better
    other = packaged(-10.0, cases=("set/dev",), fitted_on=[sample(200)])  # a set of before
    found = calibrate(MIXED, in_use=other)
    assert found.rival and found.rival.model == other and found.is_better


def test_one_fitted_on_the_same_cases_is_replaced_where_those_held_out_say_so() -> None:
    held_out = [sample(number) for number in range(100, 112)]
    worse = packaged(-10.0, fitted_on=MIXED[:-1])
    assert not calibrate(MIXED, in_use=worse).is_better
    assert calibrate(MIXED, in_use=worse, held_out=held_out).is_better
    # A case held out that either was fitted on tells nothing.
    told = calibrate(MIXED, in_use=packaged(-10.0, fitted_on=held_out), held_out=held_out)
    assert told.rival and not told.held_out
    assert not calibrate(MIXED, in_use=worse, held_out=MIXED[:9]).held_out


def test_without_a_model_in_use_any_is_better(calibrated: calibration.Calibration) -> None:
    assert calibrated.in_use is None and calibrated.is_better and calibrated.is_new


def test_what_was_fitted_on_the_same_cases_again_is_nothing_new(
    calibrated: calibration.Calibration,
) -> None:
    before = replace(calibrated.fitted.model, fitted_on="2026-01-01")
    assert not calibrate(MIXED, in_use=before).is_new
    assert not calibrate(MIXED, in_use=replace(before, cases=("a/b",), case_digests=())).is_new
    assert calibrate(MIXED, in_use=replace(before, floor=before.floor / 2)).is_new


def test_a_model_knows_its_cases_by_what_they_are(calibrated: calibration.Calibration) -> None:
    digests = {each.case.content_digest for each in MIXED}
    assert set(calibrated.fitted.model.case_digests) == digests and len(digests) == 70


def test_cases_held_out_tell_what_changes_and_nothing_is_fitted_on_them(
    calibrated: calibration.Calibration,
) -> None:
    held_out = [
        *(sample(n, edge=1) for n in range(100, 112)),
        sample(112, answerable=False, kind="near"),
    ]
    turned = [with_features(each, -each.features) for each in held_out]
    found = calibrate(MIXED, in_use=packaged(-10.0), held_out=held_out)
    assert found.fitted == calibrated.fitted
    recall, answered, refused = found.held_out
    assert (recall.metric, recall.case_count, recall.after) == ("recall@5", 12, 1.0)
    assert recall.before < 0.5 and len(recall.won) == round(12 * (1 - recall.before))
    assert (answered.metric, answered.case_count, answered.after) == ("answered", 12, 1.0)
    assert (refused.metric, refused.case_count) == ("refused", 1)
    assert found.is_better
    # What these cases speak against is not kept, whatever the others say.
    against = calibrate(MIXED, in_use=packaged(-10.0), held_out=turned)
    assert against.held_out[0].interval[1] < 0
    assert not against.is_better


@pytest.mark.parametrize("unanswerable", [5, 6, 9])
def test_each_fold_has_its_share_of_both_kinds(unanswerable: int) -> None:
    samples = [sample(n, answerable=n >= unanswerable) for n in range(47)]
    fold = calibration.deal(samples)
    for answerable in (True, False):
        counts = [
            sum(s.answerable == answerable for s, f in zip(samples, fold, strict=True) if f == each)
            for each in range(calibration.FOLDS)
        ]
        assert max(counts) - min(counts) <= 1


def test_how_many_cases_of_a_kind_are_there_and_needed_is_told() -> None:
    # The fold of the only one would leave none to fit on.
    samples = [*(sample(n) for n in range(20)), sample(50, answerable=False)]
    told = (
        "Of 21 cases to fit on, the best section is an answer for 20 and none for 1: .* at least 2"
    )
    with pytest.raises(ConfigError, match=told):
        calibrate(samples)


def test_two_unanswerable_cases_are_enough_wherever_they_stand() -> None:
    for place in range(1, 12):
        samples = [sample(n, answerable=n not in (0, place)) for n in range(12)]
        assert calibrate(samples).answerable == 10


@pytest.mark.parametrize("answerable", [0, 1, 9])
def test_too_few_cases_are_told(answerable: int) -> None:
    samples = [sample(n, answerable=n < answerable) for n in range(20)]
    with pytest.raises(ConfigError, match=f"too few to fit on: for {answerable} the answer"):
        calibrate(samples)


def test_cases_that_every_candidate_answers_are_too_few() -> None:
    samples = [replace(sample(n), relevant=(True,) * 10) for n in range(20)]
    with pytest.raises(ConfigError, match="too few to fit on"):
        calibrate(samples)
