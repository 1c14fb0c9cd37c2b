"""Turns to what is found for them: rewriting and synonyms, then the search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app import synonyms
from app.records import Turn
from app.rewrite import is_plain, rewrite
from app.synonyms import Table
from retrieval.db import Database
from retrieval.records import Query, Retrieval
from retrieval.retrieve import Retriever

if TYPE_CHECKING:  # takes seconds to import, and without a key nothing needs it
    from app.reword import Rewording, Rewriter


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found, and what asking a model for wordings cost."""

    retrieval: Retrieval
    tokens: Mapping[str, int]  # as billed; empty where no model was asked or none replied in time


def build_query(database: Database, turns: Sequence[Turn]) -> Query:
    """The last turn as it is searched for without a model."""
    return synonyms.expand(rewrite(turns), _load_table(database))


def search(retriever: Retriever, turns: Sequence[Turn], rewriter: "Rewriter | None") -> Found:
    """What is found for the last turn, by wordings of a model too where there is a rewriter.

    The search for the question as asked runs while the model is asked. settings tell what came
    of that under "rewriting": "rules" where no model was needed or is there, else the outcome of
    the Rewording. Raises as Retriever.retrieve does.
    """
    pending = rewriter.start(turns) if rewriter and not is_plain(turns) else None
    table = _load_table(retriever.database)
    query = synonyms.expand(rewrite(turns), table)
    if not rewriter or not pending:
        retrieval = retriever.retrieve(query)
        return Found(retrieval=_tell(retrieval, {"rewriting": "rules"}), tokens={})
    retrieval = retriever.retrieve(
        query, lambda query: _reword(query, pending.result(), turns, table)
    )
    rewording = pending.result()
    return Found(
        retrieval=_tell(retrieval, {**rewriter.settings, "rewriting": rewording.outcome}),
        tokens=rewording.tokens,
    )


def _reword(query: Query, rewording: "Rewording", turns: Sequence[Turn], table: Table) -> Query:
    """The query with the model's wordings; those of a follow-up are reranked against its own."""
    standalone = rewording.standalone if len(turns) > 1 else None
    known = {text.casefold() for text in (query.text, *query.variants)}
    wordings = tuple(
        wording
        for wording in dict.fromkeys(filter(None, (standalone, *rewording.queries)))
        if wording.casefold() not in known
    )
    reworded = replace(query, variants=query.variants + wordings)
    if standalone is None:
        return reworded
    return synonyms.expand(replace(reworded, readings=(standalone,)), table)


def _tell(retrieval: Retrieval, settings: Mapping[str, object]) -> Retrieval:
    return replace(retrieval, settings={**retrieval.settings, **settings})


def _load_table(database: Database) -> Table:
    return synonyms.build_table(synonyms.load(database))
