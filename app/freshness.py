"""Which cited pages may no longer hold: long unverified, replaced, or unlike an older one; pure."""

import re
from collections.abc import Iterator, Sequence
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
OWNER_LENGTH = 60

# In an answer's Markdown, what can be shown as it is: no style, link, mention or marker.
_PLAIN = re.compile(r"[\w ,'@+-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """An older page of which a part was found, too, and the one that holds in its place."""

    title: str
    verified_at: date | None
    document_id: int  # of the one that holds
    words: frozenset[str]  # of the part that was found


def mark(
    citations: Sequence[Citation], validity: Validity, replaced: Sequence[Replaced] = ()
) -> tuple[Citation, ...]:
    """The citations, with a caveat where the page is stale, says that it no longer holds, or where
    another one is a later edition of it; and with the older pages that each differs from.

    When editions were verified tells nothing: each shows that itself.
    """
    return tuple(
        replace(
            each,
            is_stale=_is_stale(each, validity),
            caveat=_build_caveat(each, citations, validity),
            differs_from=tuple(_name_different(each, replaced)),
        )
        for each in citations
    )


def open_with_age(answer: Answer, validity: Validity) -> Answer:
    """The answer; where what it says first rests on a stale page, it opens by saying so.

    That is known as soon as there is a first footnote, so that what is seen of an answer while it
    is written begins as the whole does. Owners are data: nobody is called.
    """
    lead = next(iter(answer.citations), None)
    if lead is None or not lead.is_stale or lead.verified_at is None:
        return answer
    age = _build_age((validity.today - lead.verified_at).days)
    notice = (
        f"The best page that I found was last verified {age} ago ({lead.verified_at}). "
        f"{_build_advice(lead.owner)}"
    )
    return replace(answer, text=f"{notice}\n\n{answer.text}")


def find_replaced(retrieval: Retrieval) -> tuple[Replaced, ...]:
    """The older pages that were passed over, the most relevant first, that say something else."""
    known: dict[int, set[str]] = {}
    for candidate in retrieval.candidates:
        section = candidate.section
        known.setdefault(section.document_id, set()).update(_read_words(section))
    return tuple(
        Replaced(
            title=each.section.title,
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
        _name(each) for each in replaced if each.document_id == citation.document_id
    )
    yield from list(names)[:MOST_DIFFERENT]


def _name(page: Replaced) -> str:
    title = mrkdwn.flatten(page.title, TITLE_LENGTH)
    return f"{title} ({page.verified_at})" if page.verified_at else title


def _build_advice(owner: str | None) -> str:
    if not owner:
        return "It names no owner: check before you rely on it."
    shown = mrkdwn.flatten(owner, OWNER_LENGTH).replace("`", "'")
    shown = shown if _PLAIN.fullmatch(shown) else f"`{shown}`"
    return f"Its owner is {shown}: ask before you rely on it."


def _is_stale(citation: Citation, validity: Validity) -> bool:
    days = citation.freshness_days or validity.freshness_days
    verified_at = citation.verified_at
    return verified_at is not None and (validity.today - verified_at).days > days


def _build_caveat(
    citation: Citation, citations: Sequence[Citation], validity: Validity
) -> str | None:
    today = validity.today
    newer = next((each for each in citations if editions.is_older(citation, each, today)), None)
    dated = citation.dated
    is_stale = _is_stale(citation, validity)
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
