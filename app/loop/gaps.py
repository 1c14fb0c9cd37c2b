"""Questions that went unanswered or were flagged, those that ask the same put together; pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Greatest mean cosine distance of two clusters that become one. Of the 40 pairs of paraphrases in
# the tests, among the 376 questions of the three evaluation sets and embedded by all-MiniLM-L6-v2,
# 0.35, 0.45 and 0.5 put 28, 34 and 37 together, and 1%, 4% and 17% of their questions with others.
DISTANCE = 0.45
APART = 1e6  # of two questions that no cluster may hold: no mean brings that down to DISTANCE
_NUMBER = re.compile(r"\d+")

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Questions that went unanswered, or were flagged, and are one: by a name that they ask about
    and no page mentions, by their text, or because they ask the same in other words.

    Those that the viewer may see are apart from the others: else whoever asks the same would learn
    how many others did.
    """

    count: int
    abstained: int
    flagged: int
    name: str | None  # as typed last; None without one, and where the viewer may not see it
    question: str | None  # the most typical that the viewer may see


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Questions that are one by their text or their unknown name."""

    gap: Gap
    vector: Vector | None  # None: not known, or of another index; such are put with no others


def cluster(asked: Iterable[Asked]) -> list[Gap]:
    """One gap for all that ask the same, the most frequent first, equals in the order given.

    Each has the words of its most typical question: that with the least distance to the others.
    What asks about an unknown name stays by itself, and so do questions whose numbers differ: to an
    embedder ERR_2041 and ERR_2042 are one.
    """
    listed = list(asked)
    is_alone = [each.vector is None or each.gap.name is not None for each in listed]
    clusters = [[place] for place, alone in enumerate(is_alone) if alone]
    if places := [place for place, alone in enumerate(is_alone) if not alone]:
        distances = _measure([listed[place] for place in places])
        counts = np.array([listed[place].gap.count for place in places])
        for members in _group(distances):
            far = distances[np.ix_(members, members)] @ counts[members]
            typical = members[int(far.argmin())]
            others = [each for each in members if each != typical]
            clusters.append([places[each] for each in (typical, *others)])
    clusters.sort(key=min)
    gaps = [_merge([listed[place].gap for place in members]) for members in clusters]
    return sorted(gaps, key=lambda gap: -gap.count)


def _measure(asked: Sequence[Asked]) -> NDArray[np.float64]:
    """The distance of every two, shape (questions, questions)."""
    vectors = np.array([each.vector for each in asked], dtype=np.float64)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    distances: NDArray[np.float64] = np.clip(1 - vectors @ vectors.T, 0, 2)
    numbers = [frozenset(_NUMBER.findall(each.gap.question or "")) for each in asked]
    for one, own in enumerate(numbers):
        for other, others in enumerate(numbers[:one]):
            if not (own <= others or others <= own):
                distances[one, other] = distances[other, one] = APART
    np.fill_diagonal(distances, 0)
    return distances


def _group(distances: NDArray[np.float64]) -> list[list[int]]:
    """Which belong together, by their places."""
    if len(distances) == 1:
        return [[0]]
    from sklearn.cluster import AgglomerativeClustering  # takes a second to import

    labels = AgglomerativeClustering(
        n_clusters=None, metric="precomputed", linkage="average", distance_threshold=DISTANCE
    ).fit_predict(distances)
    groups: dict[int, list[int]] = defaultdict(list)
    for place, label in enumerate(labels.tolist()):
        groups[label].append(place)
    return list(groups.values())


def _merge(gaps: Sequence[Gap]) -> Gap:
    """One gap of several, in the words of the first."""
    first = gaps[0]
    return Gap(
        count=sum(gap.count for gap in gaps),
        abstained=sum(gap.abstained for gap in gaps),
        flagged=sum(gap.flagged for gap in gaps),
        name=first.name,
        question=first.question,
    )
