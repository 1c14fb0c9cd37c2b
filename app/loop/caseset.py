"""The approved cases as a set: what is measured, which are alike, and where their pages went."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from sqlalchemy import Connection, text

from app.loop import cases
from app.loop.cases import ALIKE, Case
from app.questions import QUESTION_KEY
from retrieval import metrics
from retrieval.db import Database
from retrieval.errors import ConfigError
from retrieval.metrics import Gold

if TYPE_CHECKING:  # both take seconds to import, and following pages needs neither
    from app.evaluating import EvalSet
    from retrieval.embedding import Embedder

NAME = "cases"  # of the set in eval_runs
# Words of what answers that tell its page from all others, if only one has them in a row; chosen.
LEAST_WORDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Two cases that may ask one thing."""

    first: Case  # the older
    second: Case
    similarity: float  # cosine of their questions; 1 for the same words


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What answers a case now stands on another page."""

    case_id: str
    doc: str  # the page's path before
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What became of the pages that answer cases, as far as it is news."""

    moved: tuple[Move, ...] = ()
    orphaned: tuple[str, ...] = ()  # ids of cases that no page answers any more
    found_again: tuple[str, ...] = ()  # … and of those that one does again


def load_set(database: Database, *, held_out: bool | None = None) -> "EvalSet":
    """The approved cases, or one part of them, as a set to run.

    Raises ConfigError when there is none.
    """
    from app.evaluating import EvalSet

    approved = cases.list_cases(database, "approved")
    part = [case for case in approved if held_out in (None, case.held_out)]
    if not part:
        missing = {None: "", True: " that is held out", False: " that is not held out"}[held_out]
        raise ConfigError(
            f"No case is approved yet{missing}. Review what was flagged with `footnote cases "
            "review`, or bring cases with `footnote cases import FILE`."
        )
    return EvalSet(name=NAME, cases=tuple(case.eval_case for case in part))


def find_alike(database: Database, embedder: "Embedder") -> list[Alike]:
    """The pairs of cases whose questions are alike, those that are most so first.

    Cases that were dismissed are left out.
    """
    known = [case for case in cases.list_cases(database) if case.state != "dismissed"]
    if not known:
        return []
    keys = _load_keys(database)
    asked = ["\n".join(turn.text for turn in case.eval_case.turns) for case in known]
    vectors = np.stack([each.vector for each in embedder.embed_documents(asked)])
    similarities = vectors @ vectors.T
    pairs = []
    for first, second in zip(*np.triu_indices(len(known), 1), strict=True):
        one, other = known[first], known[second]
        is_same = one.history == other.history and keys[one.case_id] == keys[other.case_id]
        similarity = 1.0 if is_same else float(similarities[first, second])
        if similarity >= ALIKE:
            pairs.append(Alike(first=one, second=other, similarity=similarity))
    return sorted(pairs, key=lambda pair: -pair.similarity)


def _load_keys(database: Database) -> dict[str, str]:
    with database.transaction() as connection:
        rows = connection.execute(text(f"SELECT case_id, {QUESTION_KEY} AS key FROM eval_cases"))
        return {row.case_id: row.key for row in rows}


def follow_pages(database: Database) -> Followed:
    """Have cases name the pages on which what answers them stands by now.

    What answers has to stand there word for word; the metrics are content with most of it, but
    another figure may make it untrue. A page that is gone is known again by its text, else by what
    answers, if that stands in one other page alone; so is what voters have named of it. A case of
    which some answer stands nowhere is an orphan from then on until it is found again. Cases that
    were dismissed are left alone.
    """
    database = database.unrestricted
    known = [case for case in cases.list_cases(database) if case.gold and case.state != "dismissed"]
    with database.snapshot() as connection:
        places = _Places(connection, known)
    changes = [change for case in known if (change := _follow(case, places)).is_news]
    with database.transaction() as connection:
        # As votes do it: what is said first, then the case. Else the two may wait for each other.
        for change in changes:
            _move_named(connection, change)
        saved = [change for change in changes if _save(connection, change)]
    return Followed(
        moved=tuple(move for change in saved for move in change.moves),
        orphaned=tuple(each.before.case_id for each in saved if each.is_lost),
        found_again=tuple(each.before.case_id for each in saved if each.is_found_again),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What became of the gold of a case."""

    before: Case
    after: Case
    is_orphan: bool

    @property
    def is_news(self) -> bool:
        return bool(self.moves) or self.is_lost or self.is_found_again

    @property
    def is_lost(self) -> bool:
        return self.is_orphan and not self.before.orphaned_at

    @property
    def is_found_again(self) -> bool:
        return self.before.orphaned_at is not None and not self.is_orphan

    @property
    def moves(self) -> list[Move]:
        return [
            Move(case_id=self.before.case_id, doc=was.doc, to=now.doc) for was, now in self.moved
        ]

    @property
    def moved(self) -> list[tuple[Gold, Gold]]:
        both = zip(self.before.gold, self.after.gold, strict=True)
        return [(was, now) for was, now in both if was != now]


def _follow(case: Case, places: "_Places") -> _Change:
    after = replace(
        case,
        gold_any=tuple(map(places.follow, case.gold_any)),
        gold_all=tuple(map(places.follow, case.gold_all)),
    )
    is_orphan = not all(any(map(places.holds, answer)) for answer in after.eval_case.answers)
    return _Change(before=case, after=after, is_orphan=is_orphan)


def _move_named(connection: Connection, change: _Change) -> None:
    """Have the page that voters named follow, or the next vote would bring the old one back."""
    for was, now in change.moved:
        connection.execute(
            text("""
                UPDATE feedback SET right_source = :source, right_path = :doc
                FROM case_traces
                WHERE feedback.trace_id = case_traces.trace_id AND case_id = :case_id
                AND right_path = :was_doc AND right_source = coalesce(:was_source, right_source)
            """),
            {
                "case_id": change.before.case_id,
                "source": now.source,
                "doc": now.doc,
                "was_source": was.source,
                "was_doc": was.doc,
            },
        )


def _save(connection: Connection, change: _Change) -> bool:
    """False where a reviewer has chosen otherwise meanwhile."""
    saved = connection.execute(
        text("""
            UPDATE eval_cases
            SET gold_any = CAST(:gold_any AS jsonb), gold_all = CAST(:gold_all AS jsonb),
                orphaned_at = CASE WHEN :is_orphan THEN coalesce(orphaned_at, now()) END
            WHERE case_id = :case_id
            AND gold_any = CAST(:any_before AS jsonb) AND gold_all = CAST(:all_before AS jsonb)
        """),
        {
            "case_id": change.before.case_id,
            "is_orphan": change.is_orphan,
            "gold_any": _to_json(change.after.gold_any),
            "gold_all": _to_json(change.after.gold_all),
            "any_before": _to_json(change.before.gold_any),
            "all_before": _to_json(change.before.gold_all),
        },
    )
    return saved.rowcount > 0


def _to_json(gold: Sequence[Gold]) -> str:
    return json.dumps(cases.build_gold(gold))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """A page as it stands in the index."""

    source: str
    path: str
    words: str  # all that it says, with nothing else between them than a space

    def is_named(self, gold: Gold) -> bool:
        return gold.doc == self.path and gold.source in (None, self.source)


class _Places:
    """Where what answers some cases stands; all pages are read once at most, for what is lost."""

    def __init__(self, connection: Connection, known: Iterable[Case]) -> None:
        golds = {gold for case in known for gold in case.gold}
        self._pages = _load_pages(connection, {gold.doc for gold in golds})
        lost = {gold for gold in golds if not self.holds(gold)}
        gone = {gold.doc for gold in lost if not self._find(gold)}
        self._moves = _find_moves(connection, gone)
        self._pages += _load_pages(connection, {now.doc for _, now in self._moves})
        self._found = _find_spans(connection, {gold.span for gold in lost if gold.span})

    def holds(self, gold: Gold) -> bool:
        """Whether a page is there and has what answers, word for word."""
        pages = self._find(gold)
        if gold.span is None:
            return bool(pages)
        words = _flatten(gold.span)
        return any(words in page.words for page in pages)

    def follow(self, gold: Gold) -> Gold:
        """The same on the page where it stands by now; as it is, where that is nowhere known."""
        if self.holds(gold):
            return gold
        for was, now in self._moves:
            moved = replace(now, span=gold.span)
            if was.doc == gold.doc and gold.source in (None, was.source) and self.holds(moved):
                return moved
        found = self._found.get(gold.span or "", [])
        return replace(found[0], span=gold.span) if len(found) == 1 else gold

    def _find(self, gold: Gold) -> list[_Page]:
        return [page for page in self._pages if page.is_named(gold)]


def _load_pages(connection: Connection, paths: Iterable[str]) -> list[_Page]:
    """The pages at these paths, of whatever source."""
    rows = connection.execute(
        text("SELECT source, path, text FROM documents WHERE path = ANY(:paths)"),
        {"paths": list(paths)},
    )
    return [_Page(source=row.source, path=row.path, words=_flatten(row.text)) for row in rows]


def _find_moves(connection: Connection, gone: Iterable[str]) -> list[tuple[Gold, Gold]]:
    """Where pages that are gone were, and where the page of the same text is."""
    rows = connection.execute(
        text("""
            SELECT DISTINCT ON (page_changes.source, page_changes.path)
                   page_changes.source AS was_source, page_changes.path AS was_path,
                   documents.source, documents.path
            FROM page_changes JOIN documents ON md5(documents.text) = text_hash
            WHERE kind = 'removed' AND page_changes.path = ANY(:gone)
            ORDER BY page_changes.source, page_changes.path, change_id DESC, documents.path
        """),
        {"gone": list(gone)},
    )
    return [
        (Gold(doc=row.was_path, source=row.was_source), Gold(doc=row.path, source=row.source))
        for row in rows
    ]


def _find_spans(connection: Connection, spans: Iterable[str]) -> dict[str, list[Gold]]:
    """All pages that have these; short ones are not told."""
    flat = {span: _flatten(span) for span in spans}
    wanted = {span: words for span, words in flat.items() if len(words.split()) >= LEAST_WORDS}
    found: dict[str, list[Gold]] = {span: [] for span in wanted}
    if wanted:
        rows = connection.execution_options(yield_per=500).execute(
            text("SELECT source, path, text FROM documents ORDER BY path, source")
        )
        for source, path, body in rows:
            page = _flatten(body)
            for span, words in wanted.items():
                if words in page:
                    found[span].append(Gold(doc=path, source=source))
    return found


def _flatten(body: str) -> str:
    return f" {' '.join(metrics.words(body))} "
