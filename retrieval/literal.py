"""Candidates that hold an identifier of the question letter by letter, ahead of near misses.

To any measure of meaning 2.3.1 and 2.3.2 are the same, and a page about quotas is nearer to
ERR_QUOTA_77 than the line of a table that explains it.
"""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from retrieval import names, search
from retrieval.records import Candidate, Query

# What more candidates hold tells none of them from the rest; chosen: on handbook dev, the sample
# and claude-docs 5, 10, 30 and any number are the same.
MOST_HOLDERS = 10
# That a section which holds all that little more than an identifier asks for has the answer;
# chosen. Without it "PAY021" alone, or an incident's number, does not pass the floor.
SURE = 0.5


def put_first(
    connection: Connection, query: Query, candidates: Sequence[Candidate]
) -> list[Candidate]:
    """The candidates, best first, those ahead that hold the most identifiers of the question.

    Their relevance is that of any one of these: that they answer by what was measured, that the
    best of the others would, which is about something else, and, where the question hinges on
    the identifiers, SURE. Where none has them, or more than MOST_HOLDERS have, nothing changes.
    """
    asked = names.find_exact(query.question) or names.find_exact(query.text)
    ids = [candidate.section.section_id for candidate in candidates]
    forms = frozenset(form for name in asked for form in name.forms)
    held = search.load_identifiers(connection, ids, forms) if forms else {}
    holders = [{id_ for id_ in ids if held[id_] & name.forms} for name in asked]
    telling = [
        (name, each)
        for name, each in zip(asked, holders, strict=True)
        if 0 < len(each) <= MOST_HOLDERS
    ]
    counts = [sum(id_ in each for _, each in telling) for id_ in ids]
    if not telling:
        return list(candidates)
    first = [each for each, count in zip(candidates, counts, strict=True) if count == max(counts)]
    rest = [each for each, count in zip(candidates, counts, strict=True) if count < max(counts)]
    against = 1 - max((each.relevance or 0 for each in rest), default=0)
    if names.hinges(query.text, [name for name, _ in telling]):
        against *= 1 - SURE
    return [
        *(replace(each, relevance=1 - (1 - (each.relevance or 0)) * against) for each in first),
        *rest,
    ]
