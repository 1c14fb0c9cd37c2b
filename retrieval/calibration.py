"""Eval cases to a relevance model and its floor, judged by cross-validation."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import log
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from retrieval import comparison, metrics
from retrieval.comparison import Difference
from retrieval.errors import ConfigError
from retrieval.evaluation import EvalCase, read_result
from retrieval.relevance import Basis, RelevanceModel
from retrieval.rerank import Features, Measured

FOLDS = 5
MIN_CASES = 10  # chosen: with fewer, each moves the floor by itself
LEAST_OF_A_KIND = 2  # cases: one is left to fit on when a fold has the other
REGULARISATION = 0.003  # of the ranking; 0.001 to 0.01 differ by less than a point
COVERAGE = 0.99  # least share of the answerable cases that are answered
COVERAGES = (1.0, COVERAGE, 0.98, 0.95, 0.9, 0.8)  # that are told of

RECALL = "recall@5"
SURENESS = "-log loss"  # the greater the better, as of every metric
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
    # Of each case, by its place: RECALL, whatever the floor, where it is answerable, and SURENESS
    # of its best candidate.
    values: Mapping[str, Mapping[str, float]]
    coverage: tuple[Coverage, ...]  # from the lowest floor to the highest, the model's among them

    @property
    def recall_at_5(self) -> float:
        """The mean over answerable cases."""
        return fmean(each[RECALL] for each in self.values.values() if RECALL in each)

    @property
    def log_loss(self) -> float:
        """The mean over all cases, in nats."""
        return -fmean(each[SURENESS] for each in self.values.values())

    @property
    def at_floor(self) -> Coverage:
        """What its own floor does."""
        return next(each for each in self.coverage if each.floor == self.model.floor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A model fitted on the cases, beside the one that it would replace."""

    answerable: int  # cases
    unanswerable: Mapping[str, int]  # type -> cases
    fitted: Contender
    in_use: RelevanceModel | None  # None: none is, as none fits reranker and index
    # What is in use, as it does on these cases; None where nothing is, or it was fitted on some.
    rival: Contender | None
    changes: tuple[Difference, ...]  # of the fitted one to its rival
    held_out: tuple[Difference, ...]  # of the fitted one to what is in use, on cases for neither

    @property
    def is_new(self) -> bool:
        """Whether the fitted one is another than what is in use, whatever both were fitted on."""
        fitted = self.fitted.model
        return self.in_use is None or fitted != replace(
            self.in_use,
            cases=fitted.cases,
            case_digests=fitted.case_digests,
            fitted_on=fitted.fitted_on,
        )

    @property
    def deciding(self) -> tuple[Difference, ...]:
        """What may show the fitted one to be better, over no fewer than MIN_CASES: those that it
        was fitted on, by cross-validation or, where what is in use was fitted on some of them too,
        those held out."""
        compared = self.changes if self.rival else self.held_out
        return tuple(each for each in compared if each.case_count >= MIN_CASES)

    @property
    def losses(self) -> tuple[str, ...]:
        """The metrics in which the fitted one is beyond noise worse than what is in use."""
        both = (*self.changes, *self.held_out)
        return tuple(dict.fromkeys(each.metric for each in both if each.interval[1] < 0))

    @property
    def is_better(self) -> bool:
        """Whether the fitted one is beyond noise better than what is in use in something that is
        deciding, and worse in nothing, such as what its floor makes of the cases held out.

        A company's cases are few: of two that differ by one case, that in use stays. Anything is
        better than nothing.
        """
        if self.in_use is None:
            return True
        return any(each.interval[0] > 0 for each in self.deciding) and not self.losses


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
    in_use: RelevanceModel | None,
    held_out: Sequence[Sample] = (),
) -> Calibration:
    """The model for these cases, named as sets by cases, and how it compares.

    Its floor lets at least COVERAGE of the answerable cases through, by the cross-validated
    relevance, and as few of the others as that allows. What is held out is compared on but for what
    either model was fitted on. Raises ConfigError when the cases are too few to fit on, or a single
    feature is higher for what does not answer.
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
        case_digests=tuple(sorted({sample.case.content_digest for sample in samples})),
        fitted_on=datetime.now(UTC).date().isoformat(),
    )
    model = _fit(samples, blank, least=LEAST_OF_A_KIND)
    fitted = _judge(samples, model, _cross_validate(samples, blank))
    rival = None
    if in_use and not _has_seen(in_use, blank):
        rival = _judge_known(samples, in_use)
    return Calibration(
        answerable=sum(sample.answerable for sample in samples),
        unanswerable=Counter(each.case.type for each in samples if not each.answerable),
        fitted=fitted,
        in_use=in_use,
        rival=rival,
        changes=tuple(comparison.compare(rival.values, fitted.values)) if rival else (),
        held_out=_compare(held_out, in_use, fitted.model),
    )


def _has_seen(model: RelevanceModel, other: RelevanceModel) -> bool:
    """Whether it was fitted on some of the cases that the other is.

    By the cases themselves, whatever their sets are called. The packaged model does not keep which
    they were: it has seen whatever is in a set of one of its names.
    """
    if model.case_digests:
        return bool(set(model.case_digests) & set(other.case_digests))
    return bool(set(model.cases) & set(other.cases))


def _compare(
    held_out: Sequence[Sample], in_use: RelevanceModel | None, fitted: RelevanceModel
) -> tuple[Difference, ...]:
    """What the fitted model changes on cases that none was fitted on."""
    if in_use is None:
        return ()
    seen = {*in_use.case_digests, *fitted.case_digests}
    values = [
        {
            each.case.case_id: _measure(model, each)
            for each in held_out
            if each.case.content_digest not in seen
        }
        for model in (in_use, fitted)
    ]
    return tuple(comparison.compare(*values))


def _measure(model: RelevanceModel, sample: Sample) -> dict[str, float]:
    """What a model is worth on one case, as metrics."""
    verdict = _ask(model, sample)
    is_answered = verdict.relevance >= model.floor
    if sample.answerable:
        return {RECALL: verdict.recall_at_5, "answered": float(is_answered)}
    return {"refused": float(not is_answered)}


def _fit(samples: Sequence[Sample], blank: RelevanceModel, *, least: int = 1) -> RelevanceModel:
    """The blank model with weights; raises ConfigError when none can be told from the cases.

    So it does when there are fewer than least cases whose best section is an answer, or is none.
    """
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
    right = sum(answers)
    wrong = len(answers) - right
    if min(right, wrong) < least:
        raise ConfigError(
            f"Of {len(answers)} cases to fit on, the best section is an answer for {right} and "
            f"none for {wrong}: to tell a floor, at least {LEAST_OF_A_KIND} of each are needed. "
            "Add questions that the documents answer, and some that they do not."
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
    answerable = tops[[sample.answerable for sample in samples]]
    # Not interpolated: the case whose best candidate is at the floor is answered.
    floors = {float(np.quantile(answerable, 1 - share, method="lower")) for share in COVERAGES}
    coverage = _cover(samples, tops, floors)
    # The one that lets the fewest false answers through, and of such the lowest.
    chosen = min(
        (each for each in coverage if each.answered >= COVERAGE),
        key=lambda each: sum(each.false_answers.values()),
    )
    return _build_contender(samples, replace(model, floor=chosen.floor), verdicts, coverage)


def _judge_known(samples: Sequence[Sample], model: RelevanceModel) -> Contender:
    """What a model is worth as it is, with its own floor."""
    verdicts = [_ask(model, each) for each in samples]
    coverage = _cover(samples, np.array([each.relevance for each in verdicts]), {model.floor})
    return _build_contender(samples, model, verdicts, coverage)


def _cover(samples: Sequence[Sample], tops: Weights, floors: Set[float]) -> tuple[Coverage, ...]:
    """What each floor does to the relevance of the best candidates, from the lowest floor."""
    answerable = tops[[sample.answerable for sample in samples]]
    unanswerable: dict[str, list[float]] = defaultdict(list)
    for sample, top in zip(samples, tops.tolist(), strict=True):
        if not sample.answerable:
            unanswerable[sample.case.type].append(top)
    return tuple(
        Coverage(
            floor=floor,
            answered=float((answerable >= floor).mean()),
            false_answers={
                kind: sum(top >= floor for top in own) / len(own)
                for kind, own in unanswerable.items()
            },
        )
        for floor in sorted(floors)
    )


def _build_contender(
    samples: Sequence[Sample],
    model: RelevanceModel,
    verdicts: Sequence[_Verdict],
    coverage: tuple[Coverage, ...],
) -> Contender:
    values = {}
    for place, (sample, verdict) in enumerate(zip(samples, verdicts, strict=True)):
        chance = verdict.relevance if verdict.is_answer else 1 - verdict.relevance
        recall = {RECALL: verdict.recall_at_5} if sample.answerable else {}
        values[str(place)] = {**recall, SURENESS: log(max(chance, EPSILON))}
    return Contender(model=model, values=values, coverage=coverage)
