"""What changed since a good run, as causes of a drop, likeliest first.

Strong evidence comes first: the page of a lost case is gone, or what it said. A change of the whole
index explains all lost cases but those. That a page was edited and still answers, or has come into
a case's results, is weak evidence, and none where it is about as true of the cases that are still
found: all pages may have been touched. Of other code, and of new kinds of documents, nothing more
is known. Of causes with equal evidence, the one that explains more cases comes first; between
equals the order of KINDS decides.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import get_args

from sqlalchemy import Connection, text

from app.eval_runs import Run, StoredRun
from app.loop import index_changes, page_causes, page_changes
from app.loop.index_changes import Cause, Kind, Strength
from app.loop.page_causes import CasePages, Evidence, Page
from app.loop.page_changes import PageChange
from retrieval.db import Database
from retrieval.evaluation import CaseResult

KINDS: tuple[Kind, ...] = get_args(Kind)
STRENGTHS: tuple[Strength, ...] = get_args(Strength)


def find(database: Database, good: StoredRun, run: Run, lost: Iterable[str]) -> list[Cause]:
    """What changed from a good run to the run, likeliest cause of the lost cases first.

    Changes that explain none of them come last; none where nothing changed.
    """
    built_lost, built_found = build_cases(good, run.results, lost)
    with database.snapshot() as connection:
        changes = page_changes.load(connection, _find_start(good, run))
        evidence = Evidence(
            lost=built_lost,
            found=built_found,
            changes=tuple(changes),
            namesakes=tuple(_load_namesakes(connection, changes)),
            gone_folders=tuple(load_gone_folders(connection, changes)),
        )
    return sort(page_causes.build(evidence), index_changes.find(good, run), evidence)


def _find_start(good: StoredRun, run: Run) -> datetime:
    """From when on changes of pages count.

    In the generation that comes next pages change while the one before still answers: a good run
    may be later than a change that it has not seen.
    """
    begun = run.index.created_at
    if begun and good.index and good.index.generation_id != run.index.generation_id:
        return min(good.started_at, begun)
    return good.started_at


def build_cases(
    good: StoredRun, results: Sequence[CaseResult], lost: Iterable[str]
) -> tuple[tuple[CasePages, ...], tuple[CasePages, ...]]:
    """The lost cases of a run, and those of the good run that are found still; in its order."""
    wanted = set(lost)
    known = [result for result in results if result.case.case_id in good.cases]
    return (
        tuple(_build_case(good, each) for each in known if each.case.case_id in wanted),
        tuple(
            _build_case(good, each)
            for each in known
            if each.trails and not any(trail.fault for trail in each.trails)
        ),
    )


def _build_case(good: StoredRun, result: CaseResult) -> CasePages:
    trails = [trail for trail in result.trails if trail.fault] or result.trails
    return CasePages(
        case_id=result.case.case_id,
        golds=tuple(gold for trail in trails for gold in trail.answer),
        missing=frozenset(
            gold.doc for trail in trails if trail.fault == "missing" for gold in trail.answer
        ),
        new_in_place=frozenset(
            candidate.section.path for candidate in result.retrieval.kept
        ).difference(good.cases[result.case.case_id].kept),
    )


def sort(pages: Sequence[Cause], everywhere: Sequence[Cause], evidence: Evidence) -> list[Cause]:
    """All causes, likeliest first; those everywhere explain what has no strong evidence.

    An index that cannot be searched explains every case.
    """
    every = frozenset(case.case_id for case in evidence.lost)
    unexplained = frozenset(case.case_id for case in evidence.unexplained)
    told = [
        *pages,
        *(
            cause.explaining(every if cause.kind == "unsearchable" else unexplained)
            for cause in everywhere
        ),
    ]

    def likeliest(cause: Cause) -> tuple[bool, int, int, int]:
        strength, kind = STRENGTHS.index(cause.strength), KINDS.index(cause.kind)
        return not cause.explains, strength, -len(cause.explains), kind

    return sorted(told, key=likeliest)


def _load_namesakes(connection: Connection, changes: Sequence[PageChange]) -> Iterator[Page]:
    """The pages of every title that a new page has, where there are several, by title and path."""
    new = [change.title for change in changes if change.kind == "added"]
    rows = connection.execute(
        text("""
            SELECT path, title, text FROM documents
            WHERE title = ANY(:titles) AND title IN (
                SELECT title FROM documents WHERE title = ANY(:titles)
                GROUP BY title HAVING count(*) > 1)
            ORDER BY title, path
        """),
        {"titles": new},
    )
    return (Page(**row._mapping) for row in rows)


def load_gone_folders(connection: Connection, changes: Sequence[PageChange]) -> Iterator[str]:
    """The outermost folders of pages removed in which no page is left, sorted."""
    folders = {
        f"{parent}/"
        for change in changes
        if change.kind == "removed"
        for parent in PurePosixPath(change.path).parents
        if parent.name
    }
    rows = connection.execute(
        text("""
            SELECT folder FROM unnest(CAST(:folders AS text[])) AS folder
            WHERE NOT EXISTS (SELECT FROM documents WHERE starts_with(path, folder))
        """),
        {"folders": sorted(folders)},
    )
    outermost = ""
    for folder in sorted(row.folder for row in rows):  # the server may sort words, not characters
        if not (outermost and folder.startswith(outermost)):
            outermost = folder
            yield folder
