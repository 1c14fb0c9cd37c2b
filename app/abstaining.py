"""The words with which Footnote says that it has no answer."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from sqlalchemy import text

from app import freshness, rewrite
from app.counting import list_names
from app.records import Abstention, Nearest
from retrieval.db import Database
from retrieval.precedence import Validity
from retrieval.records import Candidate, Query, Retrieval, StoredSection
from retrieval.statements import parse

# Of the floor, what makes a page worth a look; chosen. Of the sample's questions that are refused,
# the answerable ones have 0.34 of it and more, and one off their topic 0.05.
NEAR_SHARE = 0.3
# What is told of every channel, whatever there is: it tells nobody that there is a page.
IN_CHANNEL = "In channels I use only pages for all there: ask me directly to search yours, too."
AMONG_COMPANIES = "Other companies read here, so I looked only in what is public. Ask me directly."

# Which part of the search has failed says nothing to whoever asks.
PARTLY = "A part of my search is not working just now, so there may be pages that I did not find."
NO_TELLING = (
    "A part of my search is not working just now, so I can't tell whether the pages answer this. "
    "Please ask me again later."
)
UNREAD = (
    "I found related pages, but nothing in them to quote, and no model has answered just now. "
    "Please ask me again later."
)

MOST_NAMED = 3  # names that no page mentions; who asks for more has pasted them

# No dot, with which a name may be the address of a site, and no mark of Markdown's at an end.
_HARMLESS = re.compile(r"[^\W_]+(?:[ _/-][^\W_]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What was searched."""

    page_count: int  # that the asker may read
    sources: tuple[str, ...]  # their names


def load_searched(database: Database) -> Searched:
    """What a search of this tenant's documents looks through."""
    with database.transaction() as connection:
        rows = connection.execute(
            text("SELECT source, count(*) AS pages FROM documents GROUP BY source ORDER BY source")
        ).all()
    return Searched(
        page_count=sum(row.pages for row in rows), sources=tuple(row.source for row in rows)
    )


def explain(
    reason: Abstention, query: Query, searched: Searched | None, *, unknown: Sequence[str] = ()
) -> str:
    """Why there is no answer, as a colleague would say it, and where we looked.

    unknown are the names of an UNKNOWN_IDENTIFIER, as typed. Without searched, nothing is told of
    what there is for the asker alone.
    """
    if searched is not None and not searched.page_count:
        return "There are no pages that I may use here, so I can't answer this."
    pages = _pages(searched) if searched else "the pages that I could show"
    if reason == "UNKNOWN_IDENTIFIER":
        shown = [_neutralise(name) for name in unknown[:MOST_NAMED]]
        more = len(unknown) - len(shown)
        named = list_names([*shown, *([f"{more} more"] if more else [])], "or")
        if searched is not None and searched.page_count == 1:
            return f"{pages[0].upper()}{pages[1:]} does not mention {named}."
        return f"None of {pages} mentions {named}."
    if reason == "UNSUPPORTED":
        return f"I found related pages, but they don't answer this. I looked in {pages}."
    asked = " ".join(query.text.split())
    looked_for = f" I searched for “{asked}”." if asked != " ".join(query.question.split()) else ""
    return f"I couldn't find this in {pages}.{looked_for}"


def find_nearest(reason: Abstention, retrieval: Retrieval, validity: Validity) -> Nearest | None:
    """The section that came nearest, of those that the search found for this asker.

    Where even the best is far below the floor, it is one that has a word of the question in its
    title or headings that no other page has at all. None where there is none, and where no page
    mentions what the question hinges on: whatever was found is then about something else.
    """
    if reason == "UNKNOWN_IDENTIFIER" or not retrieval.candidates:
        return None
    best, *_ = retrieval.kept or retrieval.candidates
    floor = retrieval.settings.get("floor")
    is_near = isinstance(floor, float) and (best.relevance or 0) >= NEAR_SHARE * floor
    if not (retrieval.kept or is_near):
        named = _find_by_name(retrieval)
        if named is None:
            return None
        best = named
    section = best.section
    return Nearest(
        path=section.path,
        title=section.title,
        heading_path=section.heading_path,
        url=section.url,
        caveat=freshness.find_caveat(section, validity),
    )


def _find_by_name(retrieval: Retrieval) -> Candidate | None:
    """The best candidate about half of what is asked, or more, that no other page even mentions.

    A heading with a word that other pages have too, or with one word of many, tells nothing.
    """
    mentioned: defaultdict[int, frozenset[str]] = defaultdict(frozenset)  # by document
    for each in retrieval.candidates:
        words = rewrite.find_topic_words(each.section.text) | _find_named(each.section)
        mentioned[each.section.document_id] |= words
    counts = Counter(chain.from_iterable(mentioned.values()))
    asked = rewrite.find_topic_words(retrieval.query.text)
    telling = {word for word in asked if counts[word] == 1}
    about = (
        each
        for each in retrieval.candidates
        if (named := telling & _find_named(each.section)) and 2 * len(named) >= len(asked)
    )
    return next(about, None)


def _find_named(section: StoredSection) -> frozenset[str]:
    """What a section is about, by the words of its title and headings."""
    headings = (each.heading_path for each in parse(section.text) if each.kind == "heading")
    named = [section.title, *section.heading_path, *chain.from_iterable(headings)]
    return rewrite.find_topic_words(" ".join(named))


def _pages(searched: Searched) -> str:
    count = searched.page_count
    number = "the one page" if count == 1 else f"the {count:,} pages"
    return f"{number} of {list_names(searched.sources)}" if searched.sources else number


def _neutralise(name: str) -> str:
    """A name that somebody typed, as code unless it is made of what no chat reads anything into:
    an address would become a link, and a handle might call somebody."""
    flat = " ".join(name.replace("`", "'").split())
    return flat if _HARMLESS.fullmatch(flat) else f"`{flat}`"
