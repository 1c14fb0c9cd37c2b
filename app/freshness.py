"""Which cited pages may no longer hold: long unverified, replaced, or unlike an older one; pure."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

from app import mrkdwn
from app.records import Answer, Citation
from retrieval import editions
from retrieval.lexical import build_words
from retrieval.precedence import Validity
from retrieval.records import Retrieval, StoredSection

OLDER = "older than"  # begins what a caveat says of a page that has a later edition
SUPERSEDED = "says that it no longer holds"
MOST_DIFFERENT = 2  # older pages that are named beside one that holds
TITLE_LENGTH = 40
OWNER_LENGTH = 60  # and of what a page names in its place

# In an answer's Markdown, what can be shown as it is: no style, link, mention or marker.
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
    circular: Collection[int] = (),
) -> tuple[Citation, ...]:
    """The citations, with a caveat where the page is stale, says that it no longer holds, or where
    another one is a later edition of it; and with the older pages that each differs from.

    When editions were verified tells nothing: each shows that itself. Of circular pages, given by
    document_id, it is not told what they name in their place.
    """
    return tuple(
        replace(
            each,
            is_stale=validity.is_stale(each),
            caveat=_build_caveat(each, citations, validity),
            differs_from=tuple(_name_different(each, replaced)),
            superseded_by=None if each.document_id in circular else each.superseded_by,
        )
        for each in citations
    )


def open_with_warning(answer: Answer, validity: Validity) -> Answer:
    """The answer; where what it says first rests on a page that is stale or says that it no longer
    holds, it opens by saying so.

    That is known as soon as there is a first footnote, so that what is seen of an answer while it
    is written begins as the whole does. Owners are data: nobody is called.
    """
    lead = next(iter(answer.citations), None)
    known = list(_find_faults(lead, validity)) if lead else []
    if lead is None or not known:
        return answer
    notice = [f"The best page that I found {' and '.join(known)}.", _build_advice(lead.owner)]
    if lead.superseded_by:
        notice.insert(1, f"In its place it names {_show(lead.superseded_by)}.")
    return replace(answer, text=f"{' '.join(notice)}\n\n{answer.text}")


def _find_faults(page: Citation, validity: Validity) -> Iterator[str]:
    if page.is_stale and page.verified_at:
        age = _build_age((validity.today - page.verified_at).days)
        yield f"was last verified {age} ago ({page.verified_at})"
    if page.is_superseded:
        yield SUPERSEDED


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


def find_circular(retrieval: Retrieval) -> frozenset[int]:
    """Of the pages that were found, those that are replaced by themselves, or by one another."""
    sections = {each.section.document_id: each.section for each in retrieval.candidates}

    def find(page: StoredSection) -> StoredSection | None:
        return editions.find_successor(page, sections.values())

    return frozenset(key for key, page in sections.items() if editions.goes_round(page, find))


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
    return f"{name} ({page.verified_at})" if page.verified_at else name


def _build_advice(owner: str | None) -> str:
    if not owner:
        return "It names no owner: check before you rely on it."
    return f"Its owner is {_show(owner)}: ask before you rely on it."


def _show(words: str) -> str:
    shown = mrkdwn.flatten(words, OWNER_LENGTH).replace("`", "'")
    return shown if _PLAIN.fullmatch(shown) else f"`{shown}`"


def _build_caveat(
    citation: Citation, citations: Sequence[Citation], validity: Validity
) -> str | None:
    today = validity.today
    newer = next((each for each in citations if editions.is_older(citation, each, today)), None)
    dated = citation.dated
    is_stale = validity.is_stale(citation)
    if is_stale and citation.verified_at:
        age = _build_age((today - citation.verified_at).days)
        dated = f"last verified {citation.verified_at:%Y-%m-%d}, {age} ago"
    known = [SUPERSEDED] if citation.is_superseded else []
    if newer:
        known.append(f"{OLDER} [{newer.marker}]")
    if known or is_stale:
        return ", ".join(filter(None, (dated, *known)))
    return None


def _build_age(days: int) -> str:
    for unit, length in (("year", 365), ("month", 30)):
        if days >= length:
            return f"{days // length} {unit}{'s' if days >= 2 * length else ''}"
    return f"{days} {'day' if days == 1 else 'days'}"
