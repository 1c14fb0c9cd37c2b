"""Which change is told as the cause of which lost cases, and in what order."""

from dataclasses import replace

from app.loop import causes
from app.loop.causes import Evidence, LostCase, Page
from app.loop.index_changes import Cause
from app.loop.page_changes import PageChange
from retrieval.metrics import Gold
from tests.app import eval_runs
from tests.retrieval.candidates import candidate


def lost(case_id: str, *paths: str, span: str | None = None, new: str = "") -> LostCase:
    golds = tuple(Gold(doc=path, span=span) for path in paths)
    return LostCase(case_id=case_id, golds=golds, new_in_place=frozenset(new.split()))


def change(kind: str, path: str, *, was: str | None = None, title: str = "T") -> PageChange:
    return PageChange(kind=kind, path=path, title=title, was=was)  # type: ignore[arg-type]


def build(
    changes: list[PageChange],
    *cases: LostCase,
    namesakes: tuple[Page, ...] = (),
    gone_folders: tuple[str, ...] = (),
) -> list[tuple[str, str, list[str]]]:
    evidence = Evidence(
        lost=cases, changes=tuple(changes), namesakes=namesakes, gone_folders=gone_folders
    )
    return [
        (cause.kind, cause.told, sorted(cause.explains)) for cause in causes.build_pages(evidence)
    ]


def test_pages_that_touch_a_lost_case_are_named_and_the_others_counted() -> None:
    found = build(
        [
            change("removed", "a.md"),
            change("changed", "b.md"),
            change("moved", "new/c.md", was="c.md"),
            change("added", "d.md"),
            change("added", "e.md"),
            change("removed", "f.md"),
        ],
        lost("1", "a.md", "b.md"),
        lost("2", "c.md"),
        lost("3", "z.md", new="d.md x.md"),
    )
    assert found == [
        ("removed", "`a.md` was removed.", ["1"]),
        ("moved", "`c.md → new/c.md` was moved or renamed.", ["2"]),
        ("changed", "`b.md` was changed.", ["1"]),
        ("added", "`d.md` was added.", ["3"]),
        ("elsewhere", "Elsewhere: pages 1 removed, 1 added.", []),
    ]


def test_a_folder_that_is_gone_is_named_as_one() -> None:
    changes = [change("removed", f"policies/{name}.md") for name in "abc"]
    found = build(changes, lost("1", "policies/a.md"), gone_folders=("policies/",))
    told = "3 pages below `policies/` were removed; none is left there."
    assert found == [("folder", told, ["1"])]


def test_a_folder_of_one_page_is_told_as_the_page() -> None:
    found = build(
        [change("removed", "policies/a.md")],
        lost("1", "policies/a.md"),
        gone_folders=("policies/",),
    )
    assert found == [("removed", "`policies/a.md` was removed.", ["1"])]


SPLIT = tuple(Page(path=f"run/{n}.md", title="Runbook", text=f"step {n} of it") for n in "123")


def test_a_page_split_into_pages_of_its_title_is_told_as_that() -> None:
    changes = [change("removed", "run.md", title="Runbook")]
    changes += [change("added", page.path, title="Runbook") for page in SPLIT]
    found = build(changes, lost("1", "run.md"), lost("2", "other.md"), namesakes=SPLIT)
    told = "3 pages have the title `Runbook`: `run/1.md`, `run/2.md`, `run/3.md`; `run.md` is gone."
    assert found == [("titles", told, ["1"])]


def test_pages_of_one_title_are_known_by_what_they_took_from_a_page_that_is_gone() -> None:
    changes = [change("removed", "old.md", title="Before")]
    changes += [change("added", page.path, title="Runbook") for page in SPLIT]
    ((kind, _, explained), *_) = build(
        changes, lost("1", "old.md", span="Step 2 of it"), namesakes=SPLIT
    )
    assert (kind, explained) == ("titles", ["1"])


def test_pages_of_one_title_that_touch_no_lost_case_are_no_cause() -> None:
    changes = [change("added", page.path, title="Runbook") for page in SPLIT]
    assert build(changes, lost("1", "other.md"), namesakes=SPLIT) == [
        ("elsewhere", "Elsewhere: pages 3 added.", [])
    ]


def page_cause(*case_ids: str) -> Cause:
    return Cause(kind="changed", told="page", explains=frozenset(case_ids))


CUT = Cause(kind="chunker", told="cut")
CASES = [lost("1"), lost("2"), lost("3")]


def test_what_explains_more_lost_cases_comes_first() -> None:
    first, second = causes.sort([page_cause("1")], [CUT], CASES)
    assert (first.kind, sorted(first.explains)) == ("chunker", ["2", "3"])
    assert second.kind == "changed"
    first, second = causes.sort([page_cause("1", "2")], [CUT], CASES)
    assert (first.kind, second.kind) == ("changed", "chunker")


def test_an_index_that_cannot_be_searched_explains_every_lost_case() -> None:
    unsearchable = Cause(kind="unsearchable", told="no")
    first, *_ = causes.sort([page_cause("1", "2", "3")], [unsearchable], CASES)
    assert (first.kind, len(first.explains)) == ("unsearchable", 3)


def test_a_page_is_new_in_a_cases_place_when_it_was_not_kept_before() -> None:
    kept = [candidate(1, path="old.md"), candidate(2, path="new.md"), candidate(3, path="not.md")]
    result = eval_runs.result(eval_runs.case("c1"), kept, kept=2)
    good = eval_runs.stored({"c1": {"recall@5": 1.0}})  # which kept old.md
    (built,) = causes.build_lost(good, [result, eval_runs.result(eval_runs.case("c2"))], ["c1"])
    assert built.case_id == "c1"
    assert built.rests_on == {"leave.md"}
    assert built.new_in_place == {"new.md"}
    assert replace(built, golds=()).rests_on == frozenset()
