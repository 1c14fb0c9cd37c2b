"""A candidate's features to the probability that it answers the question."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from retrieval import db, literal
from retrieval.embedding import Embedder
from retrieval.errors import ConfigError
from retrieval.generations import SAME_MODEL, chunker_name, compare_probes, round_probe
from retrieval.records import Candidate
from retrieval.rerank import Features, Measured, Reranker
from retrieval.tuning import Tuning

MAX_LOGIT = 30.0  # a little beyond, a float tells no probability from 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a relevance model is fitted on; its numbers mean nothing on another."""

    reranker: str
    ranking: tuple[str, ...]  # features of the reranker, as are those of certainty
    certainty: tuple[str, ...]
    embedder: str  # of the index, as is the chunker
    chunker: str
    # What tells the embedder from another of its name, as in a generation; empty: not known.
    probe: tuple[float, ...] = field(default=(), compare=False)

    def fits(self, other: "Basis") -> bool:
        """Whether what was fitted on this one is of use on another."""
        if self != other or not (self.probe and other.probe):
            return self == other
        return compare_probes(self.probe, other.probe) >= SAME_MODEL


@dataclass(frozen=True, slots=True, kw_only=True)
class RelevanceModel:
    """What orders the candidates of a question, and the probability that each answers it.

    The score that orders them is fitted to put answers first among the candidates of their own
    question, which beats by two points of recall@5 one that is fitted to tell answers from all
    else. Whether the best one is an answer at all is then told by its score and further features,
    which without any of them is Platt's scaling (Advances in Large Margin Classifiers, 1999). The
    others are as probable beside the best one as the scores were fitted to tell.
    """

    basis: Basis
    weights: Mapping[str, float]  # feature of ranking -> weight in the score
    certainty: Mapping[str, float]  # "score" or feature of certainty -> weight in the log-odds
    intercept: float
    floor: float  # least relevance of the best candidate to answer from
    cases: tuple[str, ...]  # the sets that weights or floor were fitted on
    fitted_on: str  # date, ISO 8601
    # The content_digest of each of those cases; none: not known, as of the packaged model.
    case_digests: tuple[str, ...] = ()

    def scores(self, features: Features) -> NDArray[np.float64]:
        """What orders the rows of features, shape (rows,); higher is better."""
        weights = np.array([self.weights[name] for name in self.basis.ranking])
        scores: NDArray[np.float64] = features[:, : len(weights)] @ weights
        return scores

    def logit(self, features: Features) -> float:
        """The log-odds that the best row is an answer; the rows are all those of one question.

        Without a row: minus infinity.
        """
        scores = self.scores(features)
        if not len(scores):
            return -np.inf
        best = int(scores.argmax())
        weights = np.array([self.certainty[name] for name in self.basis.certainty])
        evidence = float(features[best, len(self.basis.ranking) :] @ weights)
        return self.certainty["score"] * float(scores[best]) + evidence + self.intercept

    def relevance(self, features: Features) -> NDArray[np.float64]:
        """The probability of each row, shape (rows,), in (0, 1); all those of one question."""
        scores = self.scores(features)
        beside_best = np.exp(np.maximum(scores - scores.max(initial=-np.inf), -MAX_LOGIT))
        relevance: NDArray[np.float64] = to_probability(self.logit(features)) * beside_best
        return relevance

    def rank(self, measured: Measured) -> list[Candidate]:
        """The candidates with their relevance, best first.

        By the reading in which each is most relevant; in one by their scores, which differ where
        probabilities near 1 no longer do. Equal ones keep the order given.
        """
        best = _take_best([self._rank(measured, features) for features in measured.features])
        return literal.put_first(best, measured.literal)

    def _rank(self, measured: Measured, features: Features) -> list[Candidate]:
        relevance = self.relevance(features)
        order = np.argsort(-self.scores(features), kind="stable")
        return [
            replace(measured.candidates[index], relevance=float(relevance[index]))
            for index in order
        ]


def _take_best(rankings: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """Each candidate as the ranking has it in which it is most relevant, best first.

    Equals keep the order of the first ranking.
    """
    first, *others = rankings
    best = {candidate.section.section_id: candidate for candidate in first}
    for candidate in (candidate for ranking in others for candidate in ranking):
        key = candidate.section.section_id
        best[key] = max(best[key], candidate, key=lambda each: each.relevance or 0)
    return sorted(best.values(), key=lambda candidate: -(candidate.relevance or 0))


def build_basis(reranker: Reranker, embedder: Embedder, tuning: Tuning) -> Basis:
    """What a model has to be fitted on to be of use with these."""
    return Basis(
        reranker=reranker.name,
        ranking=tuple(reranker.ranking),
        certainty=tuple(reranker.certainty),
        embedder=embedder.name,
        chunker=chunker_name(tuning),
        probe=round_probe(embedder.probe),
    )


def to_probability(logit: float) -> float:
    """The logistic function, its result never rounded to 0 or 1."""
    return float(1 / (1 + np.exp(-np.clip(logit, -MAX_LOGIT, MAX_LOGIT))))


def build_refusal(basis: Basis, *, beside: int | None = None) -> ConfigError:
    """Why a search on a basis that no model was fitted on has no result, and what to do; beside is
    the generation, where it is not the active one."""
    option = "" if beside is None else f" --generation {beside}"
    return ConfigError(
        f"The reranker {basis.reranker} has no floor for an index by {basis.embedder} and chunker "
        f"{basis.chunker}. Run `footnote calibrate CASES --apply{option}` on cases of your own."
    )


def load(connection: Connection, basis: Basis) -> RelevanceModel:
    """What find gives; raises ConfigError where that is nothing."""
    model = find(connection, basis)
    if model is None:
        raise build_refusal(basis)
    return model


def find(connection: Connection, basis: Basis) -> RelevanceModel | None:
    """The model in use: the tenant's own for this basis that was saved last and not reverted, else
    the packaged one; None when neither was fitted on it."""
    stored = connection.execute(
        text("""
            SELECT model FROM calibrations
            WHERE tenant_id = current_setting('footnote.tenant_id')
            AND reranker = :reranker AND embedder = :embedder AND chunker = :chunker
            AND reverted_at IS NULL
            ORDER BY calibration_id DESC LIMIT 1
        """),
        _key(basis),
    ).scalar()
    own = stored and _parse(stored)
    return own if own and own.basis.fits(basis) else load_packaged(basis)


def load_packaged(basis: Basis) -> RelevanceModel | None:
    """The model that comes with Footnote; None when it was fitted on another basis."""
    packaged = _parse(json.loads(files("retrieval").joinpath("relevance.json").read_text("utf-8")))
    return packaged if packaged and packaged.basis.fits(basis) else None


def build_json(model: RelevanceModel) -> str:
    """What retrieval/relevance.json holds."""
    return json.dumps(asdict(model), indent=2) + "\n"


def replace_in_use(
    connection: Connection, model: RelevanceModel, *, before: RelevanceModel | None
) -> None:
    """Save a model that was found better than the one before; raises ConfigError when that is no
    longer what is in use, since somebody else has saved or reverted one meanwhile."""
    db.lock(connection, "calibration")
    if find(connection, model.basis) != before:
        raise ConfigError(
            "Another calibration was applied or reverted meanwhile. Run `footnote calibrate` again."
        )
    save(connection, model)


def save(connection: Connection, model: RelevanceModel) -> None:
    """Have a model be the tenant's own for its basis from now on; those before are kept."""
    connection.execute(
        text("""
            INSERT INTO calibrations (tenant_id, reranker, embedder, chunker, model)
            VALUES (current_setting('footnote.tenant_id'), :reranker, :embedder, :chunker,
                    CAST(:model AS jsonb))
        """),
        {**_key(model.basis), "model": json.dumps(asdict(model))},
    )


def revert(connection: Connection, basis: Basis) -> bool:
    """Undo what was saved last for a basis, so that the one before is in use again; False when
    there is nothing to undo."""
    db.lock(connection, "calibration")
    reverted = connection.execute(
        text("""
            UPDATE calibrations SET reverted_at = now() WHERE calibration_id = (
                SELECT max(calibration_id) FROM calibrations
                WHERE tenant_id = current_setting('footnote.tenant_id')
                AND reranker = :reranker AND embedder = :embedder AND chunker = :chunker
                AND reverted_at IS NULL
            )
        """),
        _key(basis),
    )
    return reverted.rowcount > 0


def _key(basis: Basis) -> Mapping[str, str]:
    return {"reranker": basis.reranker, "embedder": basis.embedder, "chunker": basis.chunker}


def _parse(fields: Mapping[str, Any]) -> RelevanceModel | None:
    """The model; None where another version of Footnote wrote it, whose model has other parts."""
    try:
        basis = fields["basis"]
        names = {kind: tuple(basis[kind]) for kind in ("ranking", "certainty")}
        names["probe"] = tuple(basis.get("probe", ()))
        lists = {"cases": fields["cases"], "case_digests": fields.get("case_digests", ())}
        return RelevanceModel(
            **{
                **fields,
                "basis": Basis(**{**basis, **names}),
                **{name: tuple(each) for name, each in lists.items()},
            }
        )
    except (KeyError, TypeError):
        return None
