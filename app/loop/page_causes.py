"""What the changes of pages explain of the cases that were lost, as causes; pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.loop import page_changes
from app.loop.index_changes import Cause, Strength, code, list_code
from app.loop.page_changes import PageChange
from retrieval import metrics
from retrieval.metrics import Gold, Result

FOLDER = 2  # pages from which on they are told as a folder
# Times as large a share of the lost cases as of those found is touched by what is told as a cause
# on weak evidence; chosen.
TELLING = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePages:
    """A case, and the pages that have to do with it."""

    case_id: str
    golds: tuple[Gold, ...]  # what answers it; of a lost one what was not handed over
    missing: frozenset[str]  # paths of pages that do not say any more what they said, or are gone
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
    """What is known of what happened to pages, and of the cases."""

    lost: tuple[CasePages, ...]
    found: tuple[CasePages, ...]  # as before
    changes: tuple[PageChange, ...]
    namesakes: tuple[Page, ...]  # pages of one title, of which at least one is new
    gone_folders: tuple[str, ...]  # with pages once and none now: "policies/"; outermost ones only

    @property
    def unexplained(self) -> tuple[CasePages, ...]:
        """The lost cases for which there is no strong evidence."""
        gone = frozenset(change.gone for change in self.changes if change.gone)
        changed = frozenset[str]().union(*(change.paths for change in self.changes))
        return tuple(
            case for case in self.lost if not (case.rests_on & gone or case.missing & changed)
        )


def build(evidence: Evidence) -> list[Cause]:
    """What pages explain; last, how many changes explain none."""
    causes, left = [], list(evidence.changes)
    for find in (_find_namesakes, _find_folders, _find_changes):
        for cause, paths in find(evidence, left):
            causes.append(cause)
            left = [change for change in left if not change.paths & paths]
    if left:
        causes.append(Cause(kind="elsewhere", told=f"Other pages: {_count(left)}."))
    return causes


_Told = Iterator[tuple[Cause, frozenset[str]]]  # a cause, and the paths that are told by it


def _find_namesakes(evidence: Evidence, changes: Sequence[PageChange]) -> _Told:
    added = frozenset(change.path for change in changes if change.kind == "added")
    wanted = frozenset[str]().union(*(case.rests_on for case in evidence.lost))
    removed = [each for each in changes if each.kind == "removed" and each.path in wanted]
    for title in dict.fromkeys(page.title for page in evidence.namesakes):
        pages = [page for page in evidence.namesakes if page.title == title]
        new = [page for page in pages if page.path in added]
        paths = frozenset(page.path for page in new)
        split = frozenset(each.path for each in removed if _is_taken(each, new, evidence.lost))
        explained = frozenset(each.case_id for each in evidence.lost if each.rests_on & split)
        explained |= _find_likely(evidence, pages=paths, places=paths)
        if explained:
            names = list_code([page.path for page in pages])
            end = f"; {list_code(sorted(split))} {_be(split)} gone" if split else ""
            cause = Cause(
                kind="titles",
                told=f"{len(pages)} pages have the title {code(title)}: {names}{end}.",
                explains=explained,
                strength="strong" if split else "weak",
            )
            yield cause, paths | split


def _is_taken(removed: PageChange, new: Sequence[Page], lost: Sequence[CasePages]) -> bool:
    """Whether new pages have what a case rests on of the page that is gone."""
    return any(
        metrics.hits(Result(doc=gold.doc, text=page.text), gold)
        if gold.span
        else page.title == removed.title and page.path in case.new_in_place
        for case in lost
        for gold in case.golds
        if gold.doc == removed.path
        for page in new
    )


def _find_likely(
    evidence: Evidence, *, pages: frozenset[str], places: frozenset[str]
) -> frozenset[str]:
    """The ids of the lost cases without strong evidence that are touched.

    Those that rest on one of pages, or into whose results one of places has come. None where that
    is about as true of the cases that are found.
    """
    lost, found = (
        [case.case_id for case in cases if case.rests_on & pages or case.new_in_place & places]
        for cases in (evidence.unexplained, evidence.found)
    )
    usual = len(found) / max(len(evidence.found), 1)
    is_telling = lost and len(lost) / len(evidence.unexplained) > TELLING * usual
    return frozenset(lost if is_telling else ())


def _find_folders(evidence: Evidence, changes: Sequence[PageChange]) -> _Told:
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


def _find_changes(evidence: Evidence, changes: Sequence[PageChange]) -> _Told:
    """For each kind of change the pages by which cases were lost, and those by which maybe."""
    for kind in _TOLD:
        these = [change for change in changes if change.kind == kind]
        lacking = {
            change: frozenset(case.case_id for case in evidence.lost if _lacks(case, change))
            for change in these
        }
        yield from _tell(kind, "strong", lacking)
        likely = _find_likely(
            evidence,
            pages=frozenset[str]().union(*(change.paths for change in these)),
            places=frozenset(change.path for change in these),
        )
        touched = {
            change: likely.intersection(
                case.case_id for case in evidence.lost if _is_touched(case, change)
            )
            for change in these
        }
        yield from _tell(kind, "weak", touched)


def _lacks(case: CasePages, change: PageChange) -> bool:
    """Whether the case lacks its page by the change, or what that said."""
    return change.gone in case.rests_on or bool(change.paths & case.missing)


def _is_touched(case: CasePages, change: PageChange) -> bool:
    """Whether the case rests on the page, or that has come into its results."""
    return bool(change.paths & case.rests_on) or change.path in case.new_in_place


def _tell(
    kind: page_changes.Kind, strength: Strength, explained: Mapping[PageChange, frozenset[str]]
) -> _Told:
    touching = [change for change, case_ids in explained.items() if case_ids]
    if touching:
        names = [f"{each.was} → {each.path}" if each.was else each.path for each in touching]
        verb = f"{'was' if len(names) == 1 else 'were'} {_TOLD[kind]}"
        end = ", and what answered is gone" if (kind, strength) == ("changed", "strong") else ""
        cause = Cause(
            kind=kind,
            told=f"{list_code(names)} {verb}{end}.",
            explains=frozenset[str]().union(*explained.values()),
            strength=strength,
        )
        yield cause, frozenset[str]().union(*(change.paths for change in touching))


def _count(changes: Sequence[PageChange]) -> str:
    kinds = [change.kind for change in changes]
    return ", ".join(f"{kinds.count(kind)} {verb}" for kind, verb in _TOLD.items() if kind in kinds)


def _be(things: frozenset[str]) -> str:
    return "is" if len(things) == 1 else "are"
