"""Eval cases to a relevance model and its floor, judged by cross-validation."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from retrieval import metrics
from retrieval.errors import ConfigError
from retrieval.evaluation import EvalCase, read_result
from retrieval.records import Candidate
from retrieval.relevance import FEATURES, Features, RelevanceModel
from retrieval.rerank import Measured

FOLDS = 5
REGULARISATION = 0.3  # scikit-learn's C; 0.01 to 1 differ by less than a point
COVERAGE = 0.98  # share of answerable cases that the floor lets through


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One case with its candidates measured."""

    case: EvalCase
    candidates: tuple[Candidate, ...]
    features: Features  # (candidates, FEATURES)
    relevant: tuple[bool, ...]  # whether the candidate hits the case's gold

    @property
    def answerable(self) -> bool:
        return bool(self.case.gold_any or self.case.gold_all)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A model fitted on all cases, and what one fitted on the others does on each fold."""

    model: RelevanceModel
    recall_at_5: float  # cross-validated, mean over answerable cases
    coverage: Sequence[
        tuple[float, float, float]
    ]  # floor, answered, false answers; cross-validated


def build_sample(case: EvalCase, candidates: Sequence[Candidate], measured: Measured) -> Sample:
    """A case's candidates with their features and whether each answers it."""
    gold = [*case.gold_any, *case.gold_all]
    return Sample(
        case=case,
        candidates=tuple(candidates),
        features=measured.features,
        relevant=tuple(
            any(metrics.hits(read_result(candidate), each) for each in gold)
            for candidate in candidates
        ),
    )


def fit(samples: Sequence[Sample], *, embedder: str, cases: Sequence[str]) -> Calibration:
    """The model for these cases; needs answerable ones, and those that nothing answers.

    The floor lets COVERAGE of the answerable cases through, by the cross-validated relevance.
    Raises ConfigError when the cases are too few to fit on.
    """
    found = [sample for sample in samples if any(sample.relevant)]
    if len(found) < FOLDS or all(all(sample.relevant) for sample in samples):
        raise ConfigError(
            f"These cases are too few to fit on: at least {FOLDS} whose answer is found are needed."
        )
    fold = np.random.default_rng(0).permutation(len(samples)) % FOLDS
    held_out: list[Features] = [np.zeros(0)] * len(samples)
    for each in range(FOLDS):
        weights, intercept = _fit_logistic(
            [s for s, f in zip(samples, fold, strict=True) if f != each]
        )
        for index in np.flatnonzero(fold == each).tolist():
            held_out[index] = samples[index].features @ weights + intercept
    best = np.array([logits.max(initial=-30) for logits in held_out])
    answerable = np.array([sample.answerable for sample in samples])
    tops = 1 / (1 + np.exp(-best))
    weights, intercept = _fit_logistic(samples)
    model = RelevanceModel(
        weights=dict(zip(FEATURES, map(float, weights), strict=True)),
        intercept=float(intercept),
        floor=round(float(np.quantile(tops[answerable], 1 - COVERAGE)), 5),
        embedder=embedder,
        cases=tuple(cases),
        fitted_on=datetime.now(UTC).date().isoformat(),
    )
    return Calibration(
        model=model,
        recall_at_5=float(
            np.mean([_recall(s, h) for s, h in zip(samples, held_out, strict=True) if s.answerable])
        ),
        coverage=[
            (
                float(floor),
                float((tops[answerable] >= floor).mean()),
                float((tops[~answerable] >= floor).mean()) if (~answerable).any() else 0.0,
            )
            for floor in np.quantile(tops[answerable], (0, 0.01, 0.02, 0.05, 0.1, 0.2))
        ],
    )


def _fit_logistic(samples: Sequence[Sample]) -> tuple[Features, float]:
    """Weights and intercept for features as they are measured."""
    features = np.concatenate([sample.features for sample in samples])
    relevant = np.concatenate([np.array(sample.relevant, dtype=bool) for sample in samples])
    scaler = StandardScaler().fit(features)
    logistic = LogisticRegression(C=REGULARISATION, max_iter=2000)
    logistic.fit(scaler.transform(features), relevant)
    weights = logistic.coef_[0] / scaler.scale_
    return weights, float(logistic.intercept_[0] - weights @ scaler.mean_)


def _recall(sample: Sample, logits: Features) -> float:
    order = np.argsort(-logits, kind="stable")[:5]
    kept = [read_result(sample.candidates[index]) for index in order]
    return metrics.recall(kept, sample.case.gold_any, sample.case.gold_all)
