"""Which change is told as the cause of which lost cases, and in what order."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from app.loop import causes, page_causes
from app.loop.index_changes import Cause
from app.loop.page_causes import CasePages, Evidence, Page
from app.loop.page_changes import PageChange
from retrieval.db import Database
from retrieval.metrics import Gold
from tests.app import eval_runs
from tests.retrieval.candidates import candidate


def rest(
    case_id: str, *paths: str, span: str | None = None, new: str = "", missing: str = ""
) -> CasePages:
    """A case, what it rests on, and by white space what is new in its place and what is missing."""
    return CasePages(
        case_id=case_id,
        golds=tuple(Gold(doc=path, span=span) for path in paths),
        missing=frozenset(missing.split()),
        new_in_place=frozenset(new.split()),
    )


def change(kind: str, path: str, *, was: str | None = None, title: str = "T") -> PageChange:
    return PageChange(kind=kind, path=path, title=title, was=was)  # type: ignore[arg-type]


def gather(
    changes: list[PageChange],
    *lost: CasePages,
    found: tuple[CasePages, ...] = (),
    namesakes: tuple[Page, ...] = (),
    gone_folders: tuple[str, ...] = (),
) -> Evidence:
    return Evidence(
        lost=lost,
        found=found,
        changes=tuple(changes),
        namesakes=namesakes,
        gone_folders=gone_folders,
    )


def build(evidence: Evidence) -> list[tuple[str, str, list[str]]]:
    return [
        (cause.kind, cause.told, sorted(cause.explains)) for cause in page_causes.build(evidence)
    ]


def sort(evidence: Evidence, *everywhere: Cause) -> list[tuple[str, int]]:
    """Kinds, likeliest first, and how many cases each explains."""
    found = causes.sort(page_causes.build(evidence), everywhere, evidence)
    return [(cause.kind, len(cause.explains)) for cause in found]


def test_pages_that_touch_a_lost_case_are_named_and_the_others_counted() -> None:
    evidence = gather(
        [
            change("removed", "a.md"),
            change("changed", "b.md"),
            change("moved", "new/c.md", was="c.md"),
            change("added", "d.md"),
            change("added", "e.md"),
            change("removed", "f.md"),
            change("changed", "g.md"),
        ],
        rest("1", "a.md", missing="a.md"),
        rest("2", "c.md", missing="c.md"),
        rest("3", "z.md", new="d.md x.md"),
        rest("4", "b.md"),
        rest("5", "g.md", missing="g.md"),
    )
    assert build(evidence) == [
        ("removed", "`a.md` was removed.", ["1"]),
        ("moved", "`c.md → new/c.md` was moved or renamed.", ["2"]),
        ("changed", "`g.md` was changed, and what answered is gone.", ["5"]),
        ("changed", "`b.md` was changed.", ["4"]),
        ("added", "`d.md` was added.", ["3"]),
        ("elsewhere", "Other pages: 1 removed, 1 added.", []),
    ]


def test_a_folder_that_is_gone_is_named_as_one() -> None:
    changes = [change("removed", f"policies/{name}.md") for name in "abc"]
    found = build(gather(changes, rest("1", "policies/a.md"), gone_folders=("policies/",)))
    told = "3 pages below `policies/` were removed; none is left there."
    assert found[0] == ("folder", told, ["1"])


def test_a_folder_of_one_page_is_told_as_the_page() -> None:
    changes = [change("removed", "policies/a.md")]
    found = build(gather(changes, rest("1", "policies/a.md"), gone_folders=("policies/",)))
    assert found == [("removed", "`policies/a.md` was removed.", ["1"])]


def test_of_folders_that_are_gone_the_outermost_are_named(database: Database) -> None:
    paths = ("a/x.md", "a/c/y.md", "a-b/z.md", "A/q.md")
    removed = [change("removed", path) for path in paths]
    with database.transaction() as connection:
        assert list(causes.load_gone_folders(connection, removed)) == ["A/", "a-b/", "a/"]


SPLIT = tuple(Page(path=f"run/{n}.md", title="Runbook", text=f"step {n} of it") for n in "123")
ADDED = [change("added", page.path, title="Runbook") for page in SPLIT]
TITLES = "3 pages have the title `Runbook`: `run/1.md`, `run/2.md`, `run/3.md`"


def test_a_page_split_into_pages_of_its_title_is_told_as_that() -> None:
    changes = [change("removed", "run.md", title="Runbook"), *ADDED]
    lost = [rest("1", "run.md", new="run/1.md"), rest("2", "other.md"), rest("3", "run.md")]
    assert build(gather(changes, *lost, namesakes=SPLIT)) == [
        ("titles", f"{TITLES}; `run.md` is gone.", ["1", "3"])
    ]


def test_pages_of_one_title_are_known_by_what_they_took_from_a_page_that_is_gone() -> None:
    changes = [change("removed", "old.md", title="Before"), *ADDED]
    lost = rest("1", "old.md", span="Step 2 of it")
    ((kind, _, explained), *_) = build(gather(changes, lost, namesakes=SPLIT))
    assert (kind, explained) == ("titles", ["1"])


def test_pages_of_one_title_may_have_taken_a_place_or_what_a_case_followed() -> None:
    lost = [rest("1", "other.md", new="run/3.md"), rest("2", "run/1.md")]
    assert build(gather(ADDED, *lost, namesakes=SPLIT)) == [("titles", f"{TITLES}.", ["1", "2"])]


def test_pages_of_one_title_that_touch_no_lost_case_are_no_cause() -> None:
    old = Page(path="run/0.md", title="Runbook", text="step 0 of it")
    lost = rest("1", "other.md", new="run/0.md")
    assert build(gather(ADDED, lost, namesakes=(old, *SPLIT))) == [
        ("elsewhere", "Other pages: 3 added.", [])
    ]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (change("changed", "a/it.md", title="Runbook"), "`a/it.md` was changed."),
        (change("removed", "a/it.md", title="Runbook"), "`a/it.md` was removed."),
    ],
)
@pytest.mark.parametrize("span", [None, "28 days"])
def test_unrelated_pages_of_one_title_do_not_hide_what_happened_to_a_page(
    changed: PageChange, told: str, span: str | None
) -> None:
    lost = rest("1", "a/it.md", span=span)
    assert build(gather([changed, *ADDED], lost, namesakes=SPLIT)) == [
        (changed.kind, told, ["1"]),
        ("elsewhere", "Other pages: 3 added.", []),
    ]


CUT = Cause(kind="chunker", told="cut")
CODE = Cause(kind="code", told="code", strength="none")
EDITED = [change("changed", f"{number}.md") for number in range(10)]


def cases(numbers: range, *, missing: bool = False) -> list[CasePages]:
    """Each rests on the page of its number."""
    return [
        rest(str(number), f"{number}.md", missing=f"{number}.md" if missing else "")
        for number in numbers
    ]


def test_a_page_that_was_edited_and_still_answers_hides_no_change_of_the_index() -> None:
    evidence = gather(EDITED[:2], *cases(range(3)), found=tuple(cases(range(3, 10))))
    assert sort(evidence, CODE, CUT) == [("chunker", 3), ("changed", 2), ("code", 3)]


def test_edits_of_all_pages_are_no_cause() -> None:
    evidence = gather(EDITED, *cases(range(4)), found=tuple(cases(range(4, 10))))
    assert sort(evidence, CODE) == [("code", 4), ("elsewhere", 0)]


def test_edits_that_touch_more_of_the_lost_cases_are_a_cause() -> None:
    # Of the lost ones 3 of 4, of those found 3 of 6.
    evidence = gather(EDITED[1:7], *cases(range(4)), found=tuple(cases(range(4, 10))))
    assert sort(evidence, CODE) == [("code", 4), ("elsewhere", 0)]
    # 3 of 4 and 2 of 6.
    evidence = gather(EDITED[1:6], *cases(range(4)), found=tuple(cases(range(4, 10))))
    assert sort(evidence, CODE)[0] == ("changed", 3)


def test_new_pages_that_come_into_all_results_are_no_cause() -> None:
    lost, found = rest("1", "a.md", new="n.md"), rest("2", "b.md", new="n.md")
    assert sort(gather([change("added", "n.md")], lost, found=(found,))) == [("elsewhere", 0)]


def test_a_change_of_the_index_explains_what_has_no_strong_evidence() -> None:
    gone = [change("removed", "0.md"), change("changed", "1.md")]
    lost = [*cases(range(2), missing=True), *cases(range(2, 5))]
    assert sort(gather(gone, *lost), CUT) == [("chunker", 3), ("removed", 1), ("changed", 1)]
    assert sort(gather(gone, *lost[:3]), CUT)[0] == ("removed", 1)  # as many: the page is surer


def test_an_index_that_cannot_be_searched_explains_every_lost_case() -> None:
    removed = [change("removed", f"{number}.md") for number in range(3)]
    first, *_ = sort(gather(removed, *cases(range(3))), Cause(kind="unsearchable", told="no"))
    assert first == ("unsearchable", 3)


def test_a_lost_case_rests_on_what_was_not_handed_over() -> None:
    kept = [candidate(1, path="old.md"), candidate(2, path="new.md"), candidate(3, path="not.md")]
    handed, gone = Gold(doc="handed.md"), Gold(doc="gone.md")
    trails = (eval_runs.trail(gold=handed), eval_runs.trail("missing", gold=gone))
    results = [
        eval_runs.result(eval_runs.case("c1"), kept, kept=2, trails=trails),
        eval_runs.result(eval_runs.case("c2")),
        eval_runs.result(eval_runs.case("c3"), trails=(eval_runs.trail("search"),)),
        eval_runs.result(eval_runs.case("c4")),
        eval_runs.result(eval_runs.case("c5", kind="unanswerable")),
    ]
    values = {"recall@5": 1.0}
    good = eval_runs.stored(dict.fromkeys(("c1", "c2", "c3", "c5"), values))  # which kept old.md
    (lost,), (found,) = causes.build_cases(good, results, ["c1"])
    assert lost == rest("c1", "gone.md", missing="gone.md", new="new.md")
    assert (found.case_id, found.rests_on) == ("c2", {"leave.md"})


@pytest.mark.parametrize(
    ("generation_id", "begun_before", "counts"),
    [(4, True, True), (4, False, False), (3, True, False)],
)
def test_what_changed_while_another_generation_was_built_counts(
    database: Database, generation_id: int, begun_before: bool, counts: bool
) -> None:
    begun = datetime.now(UTC)
    with database.transaction() as connection:
        connection.execute(
            text("""
                INSERT INTO documents (tenant_id, source, path, title, url, language, text,
                                       content_hash, updated_at)
                VALUES ('acme', 'wiki', 'leave.md', 'Leave', '', 'en', '28 days', '', now())
            """)
        )
    started = datetime.now(UTC)  # the good run, which saw none of it
    values = {"c1": {"recall@5": 1.0}}
    good = replace(eval_runs.stored(values), index=eval_runs.INDEX, started_at=started)
    index = replace(
        eval_runs.INDEX,
        generation_id=generation_id,
        created_at=begun if begun_before else datetime.now(UTC),
    )
    result = eval_runs.result(eval_runs.case("c1"), trails=(eval_runs.trail("search"),))
    found = causes.find(database, good, replace(eval_runs.run(result), index=index), ["c1"])
    assert ("added" in [cause.kind for cause in found]) == counts
