"""Candidates that hold an identifier of the question letter by letter, ahead of near misses.

To any measure of meaning 2.3.1 and 2.3.2 are the same, and a page about quotas is nearer to
ERR_QUOTA_77 than the line of a table that explains it.
"""

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from retrieval import identifiers, names, search
from retrieval.names import Name
from retrieval.records import Candidate, Query

# What more candidates hold tells none of them from the rest; chosen: on handbook dev, the sample
# and claude-docs 5, 10, 30 and any number are the same.
MOST_HOLDERS = 10
# That a section which holds all that little more than an identifier asks for has the answer;
# chosen. Without it "PAY021" alone, or an incident's number, does not pass the floor.
SURE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """Which candidates hold identifiers of the question that tell them from the others."""

    holders: frozenset[int] = frozenset()  # section_ids of those that hold most of them
    named: frozenset[int] = frozenset()  # of these, those of the page that is named so
    sure: float = 0.0  # what it is worth to hold them: SURE where the question hinges on them


def find(connection: Connection, query: Query, candidates: Sequence[Candidate]) -> Literal:
    """What the identifiers of a question tell of its candidates, in any order.

    Nothing where none has them, or more than MOST_HOLDERS have.
    """
    exact = names.find_exact(query.question) or names.find_exact(query.text)
    telling = _find_holders(connection, exact, candidates)
    if not telling:
        possible = _find_holders(connection, names.find_possible(query.question), candidates)
        telling = {
            name: holders
            for name, holders in possible.items()
            if names.hinges(query.text, [*exact, name])
        }
    if not telling:
        return Literal()
    counts = Counter(id_ for holders in telling.values() for id_ in holders)
    most = frozenset(id_ for id_, count in counts.items() if count == max(counts.values()))
    if not names.hinges(query.text, [*telling]):
        return Literal(holders=most)
    forms = frozenset(form for name in telling for form in name.forms)
    sections = (each.section for each in candidates if each.section.section_id in most)
    named = (
        each.section_id
        for each in sections
        if forms & identifiers.extract_names(each.path, each.title)
    )
    return Literal(holders=most, named=frozenset(named), sure=SURE)


def put_first(candidates: Sequence[Candidate], found: Literal) -> list[Candidate]:
    """The candidates, best first as they come, but holders ahead, and of these the named."""
    return _put_ahead(_put_ahead(candidates, found.holders, sure=found.sure), found.named)


def _find_holders(
    connection: Connection, asked: Sequence[Name], candidates: Sequence[Candidate]
) -> dict[Name, set[int]]:
    """The section_ids of those that hold each name, where that tells some from the others."""
    ids = [candidate.section.section_id for candidate in candidates]
    forms = frozenset(form for name in asked for form in name.forms)
    held = search.load_identifiers(connection, ids, forms) if forms else {}
    holders = {name: {id_ for id_ in held if held[id_] & name.forms} for name in asked}
    return {name: each for name, each in holders.items() if 0 < len(each) <= MOST_HOLDERS}


def _put_ahead(
    candidates: Sequence[Candidate], wanted: Set[int], sure: float = 0.0
) -> list[Candidate]:
    """The candidates with those of the wanted section_ids first, none of them less relevant.

    Their relevance is that of any one of these: that they answer by what was measured, that the
    best of the others would, which is about something else, and what is sure besides.
    """
    first = [each for each in candidates if each.section.section_id in wanted]
    rest = [each for each in candidates if each.section.section_id not in wanted]
    against = (1 - sure) * (1 - max((each.relevance or 0 for each in rest), default=0))
    return [
        *(replace(each, relevance=1 - (1 - (each.relevance or 0)) * against) for each in first),
        *rest,
    ]
