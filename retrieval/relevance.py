"""Features of a candidate to the probability that it answers the question."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from retrieval.errors import ConfigError

# In this order in every array of features. "Late" is late interaction: the mean, over the
# question's tokens, of the best similarity to a token of the text.
FEATURES = (
    "late_section",  # over all of the section
    "late_chunk",  # over its best chunk
    "rare_section",  # the same two, each token weighted by the square root of its word's idf
    "rare_chunk",
    "covered",  # share of the question's idf whose words stand in the section
    "title",  # share of the title's words that stand in the question
    "identifier",  # score of the identifier leg
    "length",  # logarithm of the section's characters
)

Features = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelevanceModel:
    """A logistic model with what it was fitted on, and the floor that goes with it."""

    weights: Mapping[str, float]  # feature -> weight
    intercept: float
    floor: float  # least relevance to answer from
    embedder: str  # whose similarities it was fitted on
    cases: Sequence[str]  # the sets it was fitted on
    fitted_on: str  # date, ISO 8601

    def relevance(self, features: Features) -> NDArray[np.float64]:
        """The probability of each row of features, shape (rows,), in (0, 1)."""
        weights = np.array([self.weights[name] for name in FEATURES])
        logits = np.clip(features @ weights + self.intercept, -30, 30)
        probabilities: NDArray[np.float64] = 1 / (1 + np.exp(-logits))
        return probabilities

    def save(self, path: Path) -> None:
        """Write it where load finds it."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def load() -> RelevanceModel:
    """The model that comes with Footnote; raises ConfigError when its features are others."""
    fields = json.loads(files("retrieval").joinpath("relevance.json").read_text(encoding="utf-8"))
    if set(fields["weights"]) != set(FEATURES):
        raise ConfigError("retrieval/relevance.json has other features; run `footnote calibrate`.")
    return RelevanceModel(**fields)
