"""Which candidates come first because their pages hold: later editions, what was verified; pure."""

from collections.abc import Collection, Mapping, Sequence, Set
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
        return not _is_over(section) and not self.is_stale(section)


def pass_over(
    candidates: Sequence[Candidate],
    query: str,
    *,
    floor: float,
    tuning: Tuning,
    validity: Validity,
) -> tuple[list[Candidate], list[PassedOver]]:
    """The candidates without those that others replace, and these, both as they come.

    A page is replaced by the one that it names, or that this one names, and so on; by a later
    edition or, where it is to come, by that in force; and by a copy or a page of its title and
    place that was verified later and is no other edition. Only where that is a candidate above the
    floor, and answers about as well. One that has a word of the question that the other has not
    stays; so does an edition to come, behind the other, where the question asks ahead.
    """
    asked = set(build_words(query).split())
    best = candidates[0].relevance or 0 if candidates else 0
    above = [
        each for each in candidates if (each.relevance or 0) >= max(floor, tuning.keep_ratio * best)
    ]
    known = _Known(asked=asked, last=_find_last(candidates), validity=validity)
    replaced: dict[int, PassedOver] = {}
    for one in above:
        for other in above:
            before = replaced.get(other.section.section_id)
            is_circle = before is not None and before.document_id == one.section.document_id
            is_as_good = (other.relevance or 0) >= tuning.replaced_share * (one.relevance or 0)
            if is_as_good and not is_circle and _replaces(other.section, one.section, known):
                replaced[one.section.section_id] = PassedOver(
                    section=one.section, document_id=other.section.document_id
                )
                break
    left = [each for each in candidates if each.section.section_id not in replaced]
    over = _name_last(list(replaced.values()))
    if not editions.asks_ahead(query, validity.today):
        return left, over
    to_come = {
        each.section.section_id: each.document_id
        for each in over
        if editions.is_to_come(each.section, validity.today) and not each.section.is_superseded
    }
    for each in candidates:
        if document_id := to_come.get(each.section.section_id):
            _insert_behind(left, each, document_id)
    return left, [each for each in over if each.section.section_id not in to_come]


def _name_last(passed_over: Sequence[PassedOver]) -> list[PassedOver]:
    """The same, each for the page that is left where that for which it is was passed over, too."""
    after = {each.section.document_id: each.document_id for each in passed_over}
    found = []
    for each in passed_over:
        last, seen = each.document_id, {each.section.document_id}
        while last in after and last not in seen:
            seen.add(last)
            last = after[last]
        found.append(replace(each, document_id=last))
    return found


def prefer(
    kept: Sequence[Candidate], *, floor: float, tuning: Tuning, validity: Validity
) -> tuple[Candidate, ...]:
    """What is kept, best first, when pages that may not hold count only a share of their relevance.

    Stale ones do beside a fresh one, superseded and archived ones beside any that holds, if that is
    above the floor. Of them, those are left out that are far less relevant still.
    """
    above = [each for each in kept if (each.relevance or 0) >= floor]
    holding = [each for each in above if validity.holds(each.section)]
    fresh = [each for each in holding if validity.is_fresh(each.section)]

    def find_better(section: StoredSection) -> list[Candidate]:
        if _is_over(section):
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


def _insert_behind(ordered: list[Candidate], candidate: Candidate, document_id: int) -> None:
    """Add a candidate behind the best of a document, and no more relevant than that."""
    found = (pair for pair in enumerate(ordered) if pair[1].section.document_id == document_id)
    at, best = next(found, (len(ordered), candidate))
    relevance = min(candidate.relevance or 0, best.relevance or 0)
    ordered.insert(at + 1, replace(candidate, relevance=relevance))


def _insert(ordered: list[Candidate], candidate: Candidate) -> None:
    """Add a candidate before the first that is less relevant; the others keep their order, which
    is not that of relevance alone."""
    relevance = candidate.relevance or 0
    places = (at for at, each in enumerate(ordered) if (each.relevance or 0) < relevance)
    ordered.insert(next(places, len(ordered)), candidate)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What tells which of two pages replaces the other."""

    asked: Set[str]  # the words of the question
    last: Mapping[int, int]  # document_id -> that of the last of the pages that replace one another
    validity: Validity


def _find_last(candidates: Sequence[Candidate]) -> Mapping[int, int]:
    sections = {each.section.document_id: each.section for each in reversed(candidates)}
    return {number: last.document_id for number, last in editions.find_all_last(sections).items()}


def _replaces(new: StoredSection, old: StoredSection, known: _Known) -> bool:
    if new.document_id == old.document_id or new.is_superseded:
        return False
    is_named = old.superseded_by is not None and editions.is_named(new, old.superseded_by)
    if is_named or known.last.get(old.document_id) == new.document_id:
        return not _names_more(old, new, known.asked, with_text=False)
    is_one_work = editions.is_one_work(new, old)
    pair = min(new.document_id, old.document_id), max(new.document_id, old.document_id)
    if not is_one_work and pair not in known.validity.copies:
        return False
    today = known.validity.today
    if editions.gives_way(old, new, today):
        return not _names_more(old, new, known.asked, with_text=not is_one_work)
    is_other = editions.gives_way(new, old, today) or not editions.is_one_edition(new, old)
    is_later = not is_other and _is_verified_later(new, old)
    return is_later and not _names_more(old, new, known.asked, with_text=True)


def _is_over(section: StoredSection) -> bool:
    return section.is_superseded or editions.is_archived(section.path)


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
