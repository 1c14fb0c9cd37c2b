"""The stages at which an answer can go wrong, and which of them it was; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from app.abstaining import NEAR_SHARE
from app.records import Abstention

# In the order in which they are looked for: not in the corpus; not among the candidates; used, and
# wrong itself; used, and wrongly told; cut by the floor; above it, and another page kept instead:
# of such, what is old loses to what was verified later.
Stage = Literal["missing", "search", "generation", "floor", "stale", "rerank"]

# A relevance is the probability that a section answers: below, it rather does not.
LIKELY = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Flagged:
    """The trace of an answer that was flagged, with what is known of the right page.

    Of a page of which the passage is known that answers, only the sections that hold it count.
    """

    asked_on: date
    was_indexed: bool  # the right page was in the corpus when it was asked about
    verified_at: date | None  # as it was then
    relevances: Mapping[int, float]  # of the candidates from the right page, by section_id
    kept: frozenset[int]  # section ids of what was handed over, of whatever page
    floor: float  # 0 where nothing was searched
    is_disputed: bool = False  # the right page itself is said to be what is wrong or outdated

    @property
    def best(self) -> float:
        """The relevance of the right page."""
        return max(self.relevances.values(), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptoms:
    """What a trace and its voters tell while nobody has named the right page."""

    abstained_because: Abstention | None = None
    relevances: tuple[float, ...] = ()  # of the candidates
    left: tuple[float, ...] = ()  # … and of those that were not kept
    floor: float = 0
    reasons: frozenset[str] = frozenset()  # of the voters
    caveats: tuple[str, ...] = ()  # of the citations, those that have one


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The stage at fault, and by what one sees it."""

    stage: Stage
    why: str  # goes on from "stage: "; holds no words of anybody
    is_known: bool  # or it is the likeliest, as long as nobody has named the right page


def find_stage(flagged: Flagged, *, freshness_days: int) -> Stage:
    """The first stage that the right page did not get through.

    Where nothing was kept, though the right page is above the floor, the question was refused for
    a name that no page mentions. That is for the search to tell by its identifiers, and no other
    floor or order would have kept the page: search.

    A page counts as stale by its age when it was asked about; without a date it has none. Age alone
    loses it nothing where it was used: that an old page was told right, or wrong, its date does not
    say. Used and said to be wrong or outdated itself, by a voter, a reviewer or the later edition
    cited beside it, it is stale: the generator has told what stands there.
    """
    if not flagged.relevances:
        return "search" if flagged.was_indexed else "missing"
    if flagged.kept & flagged.relevances.keys():
        return "stale" if flagged.is_disputed else "generation"
    if flagged.best < flagged.floor:
        return "floor"
    if not flagged.kept:
        return "search"
    oldest = flagged.asked_on - timedelta(days=freshness_days)
    is_stale = flagged.verified_at is not None and flagged.verified_at < oldest
    return "stale" if is_stale else "rerank"


def explain(flagged: Flagged, *, freshness_days: int) -> Fault:
    """The stage at fault with the right page known, and by what one sees it."""
    stage = find_stage(flagged, freshness_days=freshness_days)
    measured = f"its best section had relevance {flagged.best:.2f} (floor {flagged.floor:.2f})"
    if stage == "stale" and flagged.is_disputed:
        why = "the right page was used, and is itself said to be wrong or outdated"
    elif stage == "search" and flagged.relevances:
        why = f"no page mentions a name that is asked about, so all was refused; {measured}"
    else:
        why = {
            "missing": "no page of the index answered this when it was asked",
            "search": "the right page was in the index, but was not found for this question",
            "generation": "the right page was used, but not told, or told wrongly",
            "floor": f"the right page was found, but not kept: {measured}",
            "stale": f"the right page was last verified {flagged.verified_at}, and newer ones were "
            f"kept instead; {measured}",
            "rerank": f"the right page was found, but others were kept instead; {measured}",
        }[stage]
    return Fault(stage=stage, why=why, is_known=True)


def guess(symptoms: Symptoms) -> Fault:
    """The likeliest stage while the right page is not known, and why it is likely."""
    stage, why = (_guess_abstained if symptoms.abstained_because else _guess_answered)(symptoms)
    return Fault(stage=stage, why=why, is_known=False)


def _guess_abstained(symptoms: Symptoms) -> tuple[Stage, str]:
    best = max(symptoms.relevances, default=0.0)
    measured = f"the best page had relevance {best:.2f} (floor {symptoms.floor:.2f})"
    if symptoms.abstained_because == "UNKNOWN_IDENTIFIER":
        return "missing", "no page mentions a name that is asked about"
    if not symptoms.relevances:
        return "missing", "nothing was found at all"
    if symptoms.abstained_because == "UNSUPPORTED" and best >= LIKELY:
        return "generation", f"nothing was told from what was kept, though {measured}"
    if symptoms.abstained_because == "UNSUPPORTED":
        return "missing", f"what was kept does not answer it; {measured}"
    if best >= NEAR_SHARE * symptoms.floor:
        return "floor", f"nothing passed the floor, but something came near: {measured}"
    return "missing", f"nothing above the floor; {measured}"


def _guess_answered(symptoms: Symptoms) -> tuple[Stage, str]:
    best = max(symptoms.relevances, default=0.0)
    if "outdated" in symptoms.reasons:
        return "stale", "somebody says that the answer is outdated"
    if symptoms.caveats:
        return "stale", f"the answer rests on a page that may no longer hold: {symptoms.caveats[0]}"
    if "not_asked" in symptoms.reasons:
        return "search", "somebody says that something else was asked"
    if "missing" in symptoms.reasons:
        return _guess_incomplete(symptoms)
    if best < LIKELY:
        return "search", f"nothing that was found clearly answers it: relevance {best:.2f} at best"
    return "generation", f"what was kept looks right: relevance {best:.2f} at best"


def _guess_incomplete(symptoms: Symptoms) -> tuple[Stage, str]:
    """Where what is missing from an answer has likely got lost."""
    said = "somebody says that something is missing"
    above = sum(relevance >= symptoms.floor for relevance in symptoms.left)
    best = max(symptoms.left, default=0.0)
    if above:
        return "rerank", f"{said}, and {above} more above the floor were not kept"
    if symptoms.left and best >= NEAR_SHARE * symptoms.floor:
        return "floor", f"{said}, and the next page came near the floor: relevance {best:.2f}"
    return "search", f"{said}, and nothing else that was found comes near"
