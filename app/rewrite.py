"""Turns to the query that is searched for."""

from collections.abc import Sequence

from retrieval.records import Query, Turn


def rewrite(turns: Sequence[Turn]) -> Query:
    """The last turn as a query; a follow-up takes the question before it along.

    "And in the first year?" finds nothing by itself, and what it leaves out was nearly always
    said in the question before.
    """
    *earlier, last = turns
    asked = [turn.text for turn in earlier if turn.speaker == "user"]
    return Query(text=" ".join([*asked[-1:], last.text]), question=last.text)
