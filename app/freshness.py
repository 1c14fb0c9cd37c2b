"""Which cited pages may no longer hold: long unverified, replaced, or unlike an older one; pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from types import MappingProxyType

from app import mrkdwn
from app.confirming import find_owner_names
from app.records import Answer, Citation, Successor
from retrieval import editions
from retrieval.lexical import build_words
from retrieval.precedence import Validity
from retrieval.records import Retrieval, StoredSection

OLDER = "older than"  # begins what a caveat says of a page that has a later edition
SUPERSEDED = "says that it no longer holds"
ARCHIVED = "is filed as archived"
MOST_DIFFERENT = 2  # older pages that are named beside one that holds
TITLE_LENGTH = 40
OWNER_LENGTH = 60  # and of what a page names in its place

# In an answer's Markdown, what can be shown as it is: no style, link, mention or marker.
# A dot may be that of an address, or begin a sentence.
_PLAIN = re.compile(r"[\w ,'@+-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """An older page of which a part was found, too, and the one that holds in its place."""

    title: str
    path: str
    source: str
    verified_at: date | None
    document_id: int  # of the one that holds
    words: frozenset[str]  # of the part that was found


def mark(
    citations: Sequence[Citation],
    validity: Validity,
    replaced: Sequence[Replaced] = (),
    successors: Mapping[int, Successor | None] = MappingProxyType({}),
) -> tuple[Citation, ...]:
    """The citations, with a caveat where the page is stale, says that it no longer holds, is
    archived, or where another one is a later edition of it; and with the older pages that each
    differs from.

    When editions were verified tells nothing: each shows that itself. Of successors, those of pages
    by document_id, it is told in place of what these name.
    """

    def judge(page: Citation) -> Citation:
        known = [*find_over(page), *_find_newer(page, citations, validity)]
        is_stale = validity.is_stale(page)
        successor = successors.get(page.document_id or 0)
        leads_back = successor is None and page.document_id in successors
        named = successor.title if successor else page.superseded_by
        return replace(
            page,
            is_stale=is_stale,
            is_due=is_stale and not known,
            caveat=_build_caveat(page, known, validity),
            differs_from=tuple(_name_different(page, replaced)),
            superseded_by=None if leads_back else named,
            successor=successor,
        )

    return tuple(map(judge, citations))


def open_with_warning(answer: Answer, validity: Validity) -> Answer:
    """The answer; where what it says first rests on a page that is stale, says that it no longer
    holds or is archived, it opens by saying so.

    That is known as soon as there is a first footnote, so that what is seen of an answer while it
    is written begins as the whole does. Owners are data: nobody is called.
    """
    lead = next(iter(answer.citations), None)
    known = _find_faults(lead, validity) if lead else []
    if lead is None or not known:
        return answer
    notice = [f"The best page that I found {' and '.join(known)}.", _build_advice(lead.owner)]
    if lead.superseded_by:
        notice.insert(1, f"In its place it names {_show(lead.superseded_by)}.")
    return replace(answer, text=f"{' '.join(notice)}\n\n{answer.text}")


def _find_faults(page: Citation, validity: Validity) -> list[str]:
    """What there is against a page by itself, its age first."""
    faults = [f"was {_build_verified(page.verified_at, validity)}"] if page.is_stale else []
    return [*faults, *find_over(page)]


def find_over(page: Citation | StoredSection) -> list[str]:
    """What a page says of itself, or where it is, against its holding still."""
    if page.is_superseded:
        return [SUPERSEDED]
    return [ARCHIVED] if editions.is_archived(page.path) else []


def find_caveat(page: StoredSection, validity: Validity) -> str | None:
    """What there is against a page by itself, in words."""
    stale = [_build_verified(page.verified_at, validity)] if validity.is_stale(page) else []
    return ", ".join([*stale, *find_over(page)]) or None


def find_replaced(retrieval: Retrieval) -> tuple[Replaced, ...]:
    """The older pages that were passed over, the most relevant first, that say something else."""
    known: dict[int, set[str]] = {}
    for candidate in retrieval.candidates:
        section = candidate.section
        known.setdefault(section.document_id, set()).update(_read_words(section))
    return tuple(
        Replaced(
            title=each.section.title,
            path=each.section.path,
            source=each.section.source,
            verified_at=each.section.verified_at,
            document_id=each.document_id,
            words=words,
        )
        for each in retrieval.passed_over
        if (words := _read_words(each.section)) - known.get(each.document_id, set())
    )


def _read_words(section: StoredSection) -> frozenset[str]:
    return frozenset(build_words(section.text).split())


def _name_different(citation: Citation, replaced: Sequence[Replaced]) -> Iterator[str]:
    names = dict.fromkeys(
        _name(each, citation) for each in replaced if each.document_id == citation.document_id
    )
    yield from list(names)[:MOST_DIFFERENT]


def _name(page: Replaced, other: Citation) -> str:
    """By its title or, where that is the other's, by where it is."""
    if page.title != other.title:
        name = mrkdwn.flatten(page.title, TITLE_LENGTH)
    elif page.path != other.path:
        name = mrkdwn.flatten(page.path, TITLE_LENGTH)
    else:
        name = f"its copy in {mrkdwn.flatten(page.source, TITLE_LENGTH)}"
    return f"{name} (verified {page.verified_at})" if page.verified_at else name


def _build_advice(owner: str | None) -> str:
    """An address would be a link, so it is told below alone; so is a name that Slack has for an
    id, as no answer keeps those."""
    if not owner:
        return "It names no owner: check before you rely on it."
    shown = mrkdwn.flatten(owner, OWNER_LENGTH)
    is_told = _PLAIN.fullmatch(shown) and not find_owner_names(owner)
    asked = f"({shown})" if is_told else "(named below)"
    return f"Ask its owner {asked} before you rely on it."


def _show(words: str) -> str:
    shown = mrkdwn.flatten(words, OWNER_LENGTH).replace("`", "'")
    return shown if _PLAIN.fullmatch(shown) else f"`{shown}`"


def _find_newer(
    citation: Citation, citations: Sequence[Citation], validity: Validity
) -> Iterator[str]:
    """What tells of the first of the citations that is a later edition of one."""
    for each in citations:
        if editions.is_older(citation, each, validity.today):
            yield f"{OLDER} [{each.marker}]"
            break


def _build_caveat(citation: Citation, known: Sequence[str], validity: Validity) -> str | None:
    is_stale = validity.is_stale(citation)
    dated = _build_verified(citation.verified_at, validity) if is_stale else citation.dated
    if known or is_stale:
        return ", ".join(filter(None, (dated, *known)))
    return None


def _build_verified(day: date | None, validity: Validity) -> str:
    """When a page was last verified, of one that is stale, and so has a day."""
    assert day is not None
    return f"last verified {day}, {_build_age((validity.today - day).days)} ago"


def _build_age(days: int) -> str:
    for unit, length in (("year", 365), ("month", 30)):
        if days >= length:
            return f"{days // length} {unit}{'s' if days >= 2 * length else ''}"
    return f"{days} {'day' if days == 1 else 'days'}"
