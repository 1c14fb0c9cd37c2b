"""Eval cases to a relevance model and its floor, judged by cross-validation."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from retrieval import metrics
from retrieval.errors import ConfigError
from retrieval.evaluation import EvalCase, read_result
from retrieval.relevance import Basis, RelevanceModel
from retrieval.rerank import Features, Measured

FOLDS = 5
MIN_CASES = 10  # chosen: with fewer, each moves the floor by itself
REGULARISATION = 0.003  # of the ranking; 0.001 to 0.01 differ by less than a point
COVERAGE = 0.99  # least share of the answerable cases that are answered
COVERAGES = (1.0, COVERAGE, 0.98, 0.95, 0.9, 0.8)  # that are told of

EPSILON = 1e-9  # least probability whose logarithm is taken

Weights = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One case with its candidates measured."""

    case: EvalCase
    measured: Measured
    relevant: tuple[bool, ...]  # whether the candidate hits the case's gold

    @property
    def answerable(self) -> bool:
        return bool(self.case.gold_any or self.case.gold_all)

    @property
    def features(self) -> Features:
        """Of the question's text, to fit on; shape (candidates, features of the reranker)."""
        return self.measured.features[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What a floor does."""

    floor: float
    answered: float  # share of the answerable cases
    false_answers: Mapping[str, float]  # type -> share of its unanswerable cases


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A relevance model and what it is worth on the cases; a fitted one by cross-validation."""

    model: RelevanceModel
    recall_at_5: float  # mean over answerable cases, whatever the floor
    log_loss: float  # mean over the best candidates, in nats
    coverage: tuple[Coverage, ...]  # from the lowest floor to the highest


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A model fitted on the cases beside the packaged one, which they may not have been used for.

    packaged is None where it was fitted on another basis or on sets of the same names; its floor
    is that of these cases, too.
    """

    answerable: int  # cases
    unanswerable: Mapping[str, int]  # type -> cases
    fitted: Contender
    packaged: Contender | None

    @property
    def kept(self) -> Contender:
        """The one with the higher recall@5; of equals, the one with the lower log loss."""
        if self.packaged is None:
            return self.fitted
        return max(self.packaged, self.fitted, key=lambda each: (each.recall_at_5, -each.log_loss))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """What a model makes of one case."""

    relevance: float  # of its best candidate; 0 where the question is refused by a name
    is_answer: bool  # whether the candidate is one
    recall_at_5: float  # of the case


def build_sample(case: EvalCase, measured: Measured) -> Sample:
    """A case with whether each of its candidates answers it."""
    gold = [*case.gold_any, *case.gold_all]
    return Sample(
        case=case,
        measured=measured,
        relevant=tuple(
            any(metrics.hits(read_result(candidate), each) for each in gold)
            for candidate in measured.candidates
        ),
    )


def calibrate(
    samples: Sequence[Sample],
    basis: Basis,
    *,
    cases: Sequence[str],
    packaged: RelevanceModel | None,
) -> Calibration:
    """The model for these cases, named as sets by cases, and how it compares.

    Its floor lets at least COVERAGE of the answerable cases through, by the cross-validated
    relevance, and as few of the others as that allows. Raises ConfigError when the cases are too
    few to fit on, or a single feature is higher for what does not answer.
    """
    found = sum(any(sample.relevant) and not all(sample.relevant) for sample in samples)
    if found < MIN_CASES:
        raise ConfigError(
            f"These cases are too few to fit on: for {found} the answer was found, among other "
            f"sections, and at least {MIN_CASES} such are needed."
        )
    blank = RelevanceModel(
        basis=basis,
        weights={},
        certainty={},
        intercept=0.0,
        floor=0.0,
        cases=tuple(cases),
        fitted_on=datetime.now(UTC).date().isoformat(),
    )
    model = _fit(samples, blank)
    if packaged and not set(packaged.cases) & set(cases):
        packaged = replace(
            packaged, cases=(*packaged.cases, *model.cases), fitted_on=model.fitted_on
        )
        known = _judge(samples, packaged, [_ask(packaged, each) for each in samples])
    else:
        known = None
    return Calibration(
        answerable=sum(sample.answerable for sample in samples),
        unanswerable=Counter(each.case.type for each in samples if not each.answerable),
        fitted=_judge(samples, model, _cross_validate(samples, blank)),
        packaged=known,
    )


def _fit(samples: Sequence[Sample], blank: RelevanceModel) -> RelevanceModel:
    """The blank model with weights; raises ConfigError when none can be told from the cases."""
    size = len(blank.basis.ranking)
    model = replace(
        blank,
        weights=dict(zip(blank.basis.ranking, _fit_ranking(samples, size), strict=True)),
    )
    if not blank.basis.certainty and min(model.weights.values()) <= 0:
        raise _refuse(blank.basis)
    evidence, answers = [], []
    for sample in samples:
        if sample.relevant:
            scores = model.scores(sample.features)
            best = int(scores.argmax())
            evidence.append([scores[best], *sample.features[best, size:]])
            answers.append(sample.relevant[best])
    if len(set(answers)) < 2:
        raise ConfigError(
            "On these cases the best section is always an answer, or never: no floor can be told "
            "from them. Add questions that the documents answer, and some that they do not."
        )
    scaler = StandardScaler().fit(evidence)
    logistic = LogisticRegression(max_iter=1000).fit(scaler.transform(evidence), answers)
    weights = logistic.coef_[0] / scaler.scale_
    intercept = float(logistic.intercept_[0] - weights @ scaler.mean_)
    if not blank.basis.certainty and weights[0] <= 0:
        raise _refuse(blank.basis)
    names = ("score", *blank.basis.certainty)
    return replace(
        model, certainty=dict(zip(names, map(float, weights), strict=True)), intercept=intercept
    )


def _refuse(basis: Basis) -> ConfigError:
    return ConfigError(
        f"On these cases {basis.reranker} scores answers no higher than the rest: it cannot be "
        "used as a reranker."
    )


def _fit_ranking(samples: Sequence[Sample], size: int) -> list[float]:
    """The weights, for features as they are measured, by which answers come first.

    The likelihood that answers are drawn from the candidates of their question, each by the
    exponential of its score.

    Source: Cao et al., Learning to Rank: From Pairwise to Listwise Approach, ICML 2007.
    """
    used = [each for each in samples if any(each.relevant) and not all(each.relevant)]
    features = np.concatenate([sample.features[:, :size] for sample in used])
    scale = np.maximum(features.std(axis=0), 1e-9)
    rows = features / scale
    starts = np.cumsum([0, *(len(sample.relevant) for sample in used[:-1])])
    question = np.repeat(np.arange(len(used)), [len(sample.relevant) for sample in used])
    wanted = np.concatenate([np.array(each.relevant) / sum(each.relevant) for each in used])

    def loss(weights: Weights) -> tuple[float, Weights]:
        scores = rows @ weights
        scores -= np.maximum.reduceat(scores, starts)[question]
        logarithms = scores - np.log(np.add.reduceat(np.exp(scores), starts))[question]
        likelihood = float(wanted @ logarithms) / len(used)
        slope = rows.T @ (np.exp(logarithms) - wanted) / len(used)
        return REGULARISATION * float(weights @ weights) - likelihood, (
            slope + 2 * REGULARISATION * weights
        )

    fitted = minimize(loss, np.zeros(size), jac=True, method="L-BFGS-B")
    weights: list[float] = (fitted.x / scale).tolist()
    return weights


def _cross_validate(samples: Sequence[Sample], blank: RelevanceModel) -> list[_Verdict]:
    """Each sample's verdict by a model fitted on the other folds."""
    fold = deal(samples)
    models = [
        _fit([s for s, f in zip(samples, fold, strict=True) if f != each], blank)
        for each in range(FOLDS)
    ]
    return [_ask(models[f], sample) for sample, f in zip(samples, fold.tolist(), strict=True)]


def deal(samples: Sequence[Sample]) -> NDArray[np.intp]:
    """The fold of each sample; those of a type, and those answerable, spread over all folds."""
    order = np.random.default_rng(0).permutation(len(samples)).tolist()
    order.sort(key=lambda index: (samples[index].answerable, samples[index].case.type))
    fold = np.empty(len(samples), dtype=np.intp)
    fold[order] = np.arange(len(samples)) % FOLDS
    return fold


def _ask(model: RelevanceModel, sample: Sample) -> _Verdict:
    ranked = model.rank(sample.measured)
    case, results = sample.case, [read_result(each) for each in ranked[:5]]
    gold = [*case.gold_any, *case.gold_all]
    best = ranked[0].relevance if ranked and not sample.measured.unknown else None
    return _Verdict(
        relevance=best or 0.0,
        is_answer=any(metrics.hits(result, each) for result in results[:1] for each in gold),
        recall_at_5=metrics.recall(results, case.gold_any, case.gold_all),
    )


def _judge(
    samples: Sequence[Sample], model: RelevanceModel, verdicts: Sequence[_Verdict]
) -> Contender:
    """What the model is worth by its verdicts, with the floor that they tell."""
    tops = np.array([each.relevance for each in verdicts])
    is_answerable = [sample.answerable for sample in samples]
    answerable = tops[is_answerable]
    # Not interpolated: the case whose best candidate is at the floor is answered.
    floors = {
        share: float(np.quantile(answerable, 1 - share, method="lower")) for share in COVERAGES
    }
    unanswerable: dict[str, list[float]] = defaultdict(list)
    for sample, top in zip(samples, tops.tolist(), strict=True):
        if not sample.answerable:
            unanswerable[sample.case.type].append(top)
    is_answer = np.array([each.is_answer for each in verdicts])
    recalls = np.array([each.recall_at_5 for each in verdicts])
    coverage = [
        Coverage(
            floor=floor,
            answered=float((answerable >= floor).mean()),
            false_answers={
                kind: sum(top >= floor for top in own) / len(own)
                for kind, own in unanswerable.items()
            },
        )
        for floor in sorted(set(floors.values()))
    ]
    # The one that lets the fewest false answers through, and of such the lowest.
    chosen = min(
        (each for each in coverage if each.answered >= COVERAGE),
        key=lambda each: sum(each.false_answers.values()),
    )
    return Contender(
        model=replace(model, floor=chosen.floor),
        recall_at_5=float(recalls[is_answerable].mean()),
        log_loss=float(-np.log(np.maximum(np.where(is_answer, tops, 1 - tops), EPSILON)).mean()),
        coverage=tuple(coverage),
    )
