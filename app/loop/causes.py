"""What changed since a good run, as causes of a drop, likeliest first.

A change of a page explains the lost cases that rest on that page, or into whose results the page
has come. A change of the whole index explains those whose pages did not change. What explains more
cases comes before what explains fewer; between equals the order of KINDS decides.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import get_args

from sqlalchemy import Connection, text

from app.evaluating import Run, StoredRun
from app.loop import index_changes, page_changes
from app.loop.index_changes import Cause, Kind, code, list_code
from app.loop.page_changes import PageChange
from retrieval import metrics
from retrieval.db import Database
from retrieval.evaluation import CaseResult
from retrieval.metrics import Gold, Result

FOLDER = 2  # pages from which on they are told as a folder

KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCase:
    """A case that was lost, and the pages that have to do with it."""

    case_id: str
    golds: tuple[Gold, ...]  # what answers it
    new_in_place: frozenset[str]  # paths of pages that are kept for it now, and were not before

    @property
    def rests_on(self) -> frozenset[str]:
        """Paths of the pages that answer it."""
        return frozenset(gold.doc for gold in self.golds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page as it is now."""

    path: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of what happened to pages, and of the lost cases."""

    lost: tuple[LostCase, ...]
    changes: tuple[PageChange, ...]
    namesakes: tuple[Page, ...]  # pages of one title, of which at least one is new
    gone_folders: tuple[str, ...]  # with pages once and none now: "policies/"; outermost ones only


def find(database: Database, good: StoredRun, run: Run, lost: Iterable[str]) -> list[Cause]:
    """What changed from a good run to the run, likeliest cause of the lost cases first.

    Changes that explain none of them come last; none where nothing changed.
    """
    with database.snapshot() as connection:
        changes = page_changes.load(connection, good.started_at)
        evidence = Evidence(
            lost=build_lost(good, run.results, lost),
            changes=tuple(changes),
            namesakes=tuple(_load_namesakes(connection, changes)),
            gone_folders=tuple(_load_gone_folders(connection, changes)),
        )
    return sort(build_pages(evidence), index_changes.find(good, run), evidence.lost)


def build_lost(
    good: StoredRun, results: Sequence[CaseResult], lost: Iterable[str]
) -> tuple[LostCase, ...]:
    """The lost cases of a run, in its order."""
    wanted = set(lost)
    return tuple(
        LostCase(
            case_id=result.case.case_id,
            golds=(*result.case.gold_any, *result.case.gold_all),
            new_in_place=frozenset(
                candidate.section.path for candidate in result.retrieval.kept
            ).difference(good.cases[result.case.case_id].kept),
        )
        for result in results
        if result.case.case_id in wanted
    )


def sort(
    pages: Sequence[Cause], everywhere: Sequence[Cause], lost: Sequence[LostCase]
) -> list[Cause]:
    """All causes, likeliest first; those everywhere explain what those of pages do not.

    An index that cannot be searched explains every case.
    """
    every = frozenset(each.case_id for each in lost)
    unexplained = every.difference(*(cause.explains for cause in pages if cause.kind != "added"))
    told = [
        *pages,
        *(
            cause.explaining(every if cause.kind == "unsearchable" else unexplained)
            for cause in everywhere
        ),
    ]
    return sorted(told, key=lambda cause: (-len(cause.explains), KINDS.index(cause.kind)))


def build_pages(evidence: Evidence) -> list[Cause]:
    """What pages explain; last, how many changes have to do with no lost case."""
    causes, left = [], list(evidence.changes)
    for build in (_build_namesakes, _build_folders, _build_changes):
        for cause, paths in build(evidence, left):
            causes.append(cause)
            left = [change for change in left if not change.paths & paths]
    if left:
        causes.append(Cause(kind="elsewhere", told=f"Elsewhere: {_count(left)}."))
    return causes


_Told = Iterator[tuple[Cause, frozenset[str]]]  # a cause, and the paths that are told by it


def _build_namesakes(evidence: Evidence, changes: Sequence[PageChange]) -> _Told:
    titles = dict.fromkeys(page.title for page in evidence.namesakes)
    for title in titles:
        pages = [page for page in evidence.namesakes if page.title == title]
        paths = frozenset(page.path for page in pages)
        gone = [each for each in changes if each.kind == "removed"]
        explained = {
            each.case_id: each.rests_on & {change.path for change in gone}
            for each in evidence.lost
            if paths & (each.rests_on | each.new_in_place) or _holds(pages, each, gone)
        }
        if explained:
            was = frozenset().union(*explained.values())
            end = f"; {list_code(sorted(was))} {_be(was)} gone" if was else ""
            told = (
                f"{len(pages)} pages have the title {code(title)}: {list_code(sorted(paths))}{end}."
            )
            yield Cause(kind="titles", told=told, explains=frozenset(explained)), paths | was


def _holds(pages: Sequence[Page], lost: LostCase, gone: Sequence[PageChange]) -> bool:
    """Whether one of the pages has what a case rests on, of a page that is gone, or its title."""
    for change in gone:
        for gold in lost.golds:
            if gold.doc == change.path and any(
                page.title == change.title
                or (gold.span and metrics.hits(Result(doc=gold.doc, text=page.text), gold))
                for page in pages
            ):
                return True
    return False


def _build_folders(evidence: Evidence, changes: Sequence[PageChange]) -> _Told:
    for folder in evidence.gone_folders:
        paths = frozenset(
            each.path for each in changes if each.kind == "removed" and each.path.startswith(folder)
        )
        explained = frozenset(each.case_id for each in evidence.lost if each.rests_on & paths)
        if len(paths) >= FOLDER and explained:
            told = f"{len(paths)} pages below {code(folder)} were removed; none is left there."
            yield Cause(kind="folder", told=told, explains=explained), paths


_TOLD: dict[page_changes.Kind, str] = {
    "removed": "removed",
    "moved": "moved or renamed",
    "changed": "changed",
    "added": "added",
}


def _build_changes(evidence: Evidence, changes: Sequence[PageChange]) -> _Told:
    """One cause for each kind of change, with the pages that touch a lost case."""
    for kind, verb in _TOLD.items():
        touching = {
            change: touched
            for change in changes
            if change.kind == kind and (touched := _find_touched(change, evidence.lost))
        }
        if touching:
            names = [f"{each.was} → {each.path}" if each.was else each.path for each in touching]
            told = f"{list_code(names)} {'was' if len(names) == 1 else 'were'} {verb}."
            explained = frozenset().union(*touching.values())
            paths = frozenset().union(*(change.paths for change in touching))
            yield Cause(kind=kind, told=told, explains=explained), paths


def _find_touched(change: PageChange, lost: Sequence[LostCase]) -> frozenset[str]:
    """The lost cases that rest on the page, or into whose results it has come; their ids."""
    return frozenset(
        each.case_id
        for each in lost
        if change.paths & each.rests_on
        or (change.kind != "removed" and change.path in each.new_in_place)
    )


def _count(changes: Sequence[PageChange]) -> str:
    kinds = [change.kind for change in changes]
    counts = [f"{kinds.count(kind)} {verb}" for kind, verb in _TOLD.items() if kind in kinds]
    return f"pages {', '.join(counts)}"


def _be(things: frozenset[str]) -> str:
    return "is" if len(things) == 1 else "are"


def _load_namesakes(connection: Connection, changes: Sequence[PageChange]) -> Iterator[Page]:
    """The pages of every title that a new page has, where there are several, by title and path."""
    new = [change.title for change in changes if change.kind in ("added", "moved")]
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


def _load_gone_folders(connection: Connection, changes: Sequence[PageChange]) -> Iterator[str]:
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
            ORDER BY folder
        """),
        {"folders": sorted(folders)},
    )
    outermost = ""
    for row in rows:
        if not (outermost and row.folder.startswith(outermost)):
            outermost = row.folder
            yield row.folder
