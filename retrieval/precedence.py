"""Which candidates come first because their pages hold: later editions, what was verified; pure."""

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date
from typing import Protocol

from retrieval import editions
from retrieval.lexical import build_words
from retrieval.records import Candidate, PassedOver, StoredSection
from retrieval.tuning import Tuning


class Dated(Protocol):
    """What says when its page was last verified: a section, or what cites one."""

    @property
    def verified_at(self) -> date | None: ...

    @property
    def freshness_days(self) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """What tells which pages hold."""

    today: date
    freshness_days: int  # of a page that does not say it itself
    # Pairs of document ids, the lower first, whose pages say nearly the same.
    copies: Collection[tuple[int, int]] = ()

    def is_fresh(self, section: StoredSection) -> bool:
        """Whether somebody has verified the page lately enough."""
        return section.verified_at is not None and not self.is_stale(section)

    def is_stale(self, page: Dated) -> bool:
        """Whether it was verified too long ago; what has no date is neither stale nor fresh."""
        days = page.freshness_days or self.freshness_days
        return page.verified_at is not None and (self.today - page.verified_at).days > days

    def holds(self, section: StoredSection) -> bool:
        """Whether nothing is known against the page."""
        return not section.is_superseded and not self.is_stale(section)


def pass_over(
    candidates: Sequence[Candidate],
    query: str,
    *,
    floor: float,
    tuning: Tuning,
    validity: Validity,
) -> tuple[list[Candidate], list[PassedOver]]:
    """The candidates without those that others replace, and these, both as they come.

    A page is replaced by the one that it names, by a later edition, and by a copy or a page of its
    title and place that was verified later; only where that is a candidate above the floor, and
    answers about as well. One that has a word of the question that the other has not stays.
    """
    asked = set(build_words(query).split())
    best = candidates[0].relevance or 0 if candidates else 0
    above = [
        each for each in candidates if (each.relevance or 0) >= max(floor, tuning.keep_ratio * best)
    ]
    replaced: dict[int, PassedOver] = {}
    for one in above:
        for other in above:
            before = replaced.get(other.section.section_id)
            is_circle = before is not None and before.document_id == one.section.document_id
            is_as_good = (other.relevance or 0) >= tuning.replaced_share * (one.relevance or 0)
            if (
                is_as_good
                and not is_circle
                and _replaces(other.section, one.section, asked, validity)
            ):
                replaced[one.section.section_id] = PassedOver(
                    section=one.section, document_id=other.section.document_id
                )
                break
    left = [each for each in candidates if each.section.section_id not in replaced]
    return left, list(replaced.values())


def prefer(
    kept: Sequence[Candidate], *, floor: float, tuning: Tuning, validity: Validity
) -> tuple[Candidate, ...]:
    """What is kept, best first, when pages that may not hold count only a share of their relevance.

    Stale ones do beside a fresh one, superseded ones beside any that holds, if that is above the
    floor. Of them, those are left out that are far less relevant still.
    """
    above = [each for each in kept if (each.relevance or 0) >= floor]
    holding = [each for each in above if validity.holds(each.section)]
    fresh = [each for each in holding if validity.is_fresh(each.section)]

    def find_better(section: StoredSection) -> list[Candidate]:
        if section.is_superseded:
            return holding
        return fresh if validity.is_stale(section) else []

    ordered = [each for each in kept if not find_better(each.section)]
    for each in kept:
        if better := find_better(each.section):
            relevance = tuning.unverified_share * (each.relevance or 0)
            best = max(other.relevance or 0 for other in better)
            if relevance >= tuning.unverified_ratio * best:
                _insert(ordered, replace(each, relevance=relevance))
    return tuple(ordered)


def _insert(ordered: list[Candidate], candidate: Candidate) -> None:
    """Add a candidate before the first that is less relevant; the others keep their order, which
    is not that of relevance alone."""
    relevance = candidate.relevance or 0
    places = (at for at, each in enumerate(ordered) if (each.relevance or 0) < relevance)
    ordered.insert(next(places, len(ordered)), candidate)


def _replaces(new: StoredSection, old: StoredSection, asked: Set[str], validity: Validity) -> bool:
    if new.document_id == old.document_id or new.is_superseded:
        return False
    if old.superseded_by and editions.is_named(new, old.superseded_by):
        return not _names_more(old, new, asked, with_text=False)
    if editions.is_older(old, new, validity.today):
        return not _names_more(old, new, asked, with_text=False)
    if not _is_verified_later(new, old):
        return False
    low, high = sorted((new.document_id, old.document_id))
    is_same = (low, high) in validity.copies or editions.is_one_work(new, old)
    return is_same and not _names_more(old, new, asked, with_text=True)


def _is_verified_later(new: StoredSection, old: StoredSection) -> bool:
    if old.is_superseded:
        return True
    dates = new.verified_at, old.verified_at
    return dates[0] is not None and dates[1] is not None and dates[0] > dates[1]


def _names_more(
    one: StoredSection, other: StoredSection, asked: Set[str], *, with_text: bool
) -> bool:
    """Whether a section has a word of the question that the other has not, in title or path or,
    with_text, anywhere."""
    words = f"{one.title} {one.path} {one.text if with_text else ''}"
    others = f"{other.title} {other.path} {other.text}"
    return bool((asked & {*build_words(words).split()}) - {*build_words(others).split()})
