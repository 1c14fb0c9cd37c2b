"""What a source's rules, git and CODEOWNERS say of its pages, and what a page may say itself."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from retrieval.records import Document
from retrieval.sources import folder
from retrieval.sources.catalog import PageRule, Source
from retrieval.sources.reads import Read, Skipped, Unchanged

Reads = dict[str, Read | Skipped | Unchanged]


def write(root: Path, pages: Mapping[str, str]) -> None:
    for path, text in pages.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def read(root: Path, known: Mapping[str, str] | None = None, **stated: object) -> Reads:
    source = Source(name="wiki", path=root, **stated)  # type: ignore[arg-type]
    return dict(_read(root, source, known or {}))


def _read(
    root: Path, source: Source, known: Mapping[str, str]
) -> Iterator[tuple[str, Read | Skipped | Unchanged]]:
    files = folder.find_files(root)
    for found in folder.read_files(files, folder=root, source=source, known=known):
        yield found.document.path if isinstance(found, Read) else found.path, found


def document(found: Read | Skipped | Unchanged) -> Document:
    assert isinstance(found, Read), found
    return found.document


def git(root: Path, *arguments: str, when: str = "2026-01-02T03:04:05Z") -> None:
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@x", "GIT_AUTHOR_DATE": when}
    who |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@x", "GIT_COMMITTER_DATE": when}
    subprocess.run(
        ["git", "-C", str(root), "-c", "commit.gpgsign=false", *arguments],
        check=True,
        capture_output=True,
        env={**os.environ, **who},
    )


def commit(root: Path, when: str) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-m", "x", when=when)


def test_the_later_rule_wins_and_the_page_itself_before_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "a.md": "# A\n",
            "pay/b.md": "# B\n",
            "pay/salaries.md": "# C\n",
            "pay/own.md": "---\nowner: Ana\nfreshness_days: 30\n---\n# D\n",
        },
    )
    reads = read(
        tmp_path,
        owner="Everybody",
        freshness_days=365,
        pages=(
            PageRule(pattern="pay/", owner="Finance", freshness_days=90),
            PageRule(pattern="salaries*", audience=("group:S1",), freshness_days=10),
        ),
    )
    assert {
        path: (page.owner, page.audience, page.freshness_days)
        for path, found in reads.items()
        if (page := document(found))
    } == {
        "a.md": ("Everybody", ("everyone",), 365),
        "pay/b.md": ("Finance", ("everyone",), 90),
        "pay/salaries.md": ("Finance", ("group:S1",), 10),
        "pay/own.md": ("Ana", ("everyone",), 30),
    }


def test_a_rule_holds_however_a_name_is_encoded(tmp_path: Path) -> None:
    write(tmp_path, {"Gehälter.md": "# A\n"})  # decomposed, as macOS writes it
    rule = PageRule(pattern="Geh\u00e4lter*", audience=("group:S1",))
    (found,) = read(tmp_path, pages=(rule,)).values()
    assert document(found).audience == ("group:S1",)


@pytest.mark.parametrize(
    ("allowed", "own", "audience"),
    [
        (("everyone",), "group:S1", ("group:S1",)),
        (("everyone",), "[group:S1, user:U1]", ("group:S1", "user:U1")),
        (("everyone",), "group:S1, user:U1", ("group:S1", "user:U1")),
        (("everyone",), "public", ("everyone",)),
        (("public",), "everyone", ("everyone",)),
        (("public",), "group:S1", ("group:S1",)),
        (("group:S1",), "everyone", ("group:S1",)),
        (("group:S1",), "public", ("group:S1",)),
        (("group:S1", "group:S2"), "[group:S2, group:S3]", ("group:S2",)),
        (("group:S1",), "group:S3", None),
        (("everyone",), "managers", None),
        (("everyone",), "", None),
        (("everyone",), "{group: S1}", None),
    ],
)
def test_a_page_may_only_be_for_fewer(
    tmp_path: Path, allowed: tuple[str, ...], own: str, audience: tuple[str, ...] | None
) -> None:
    write(tmp_path, {"a.md": f"---\nAudience: {own}\n---\n# A\n"})
    (found,) = read(tmp_path, audience=allowed).values()
    if audience is None:
        assert isinstance(found, Skipped)
        assert found.reason.startswith("its audience")
        assert ("give it another name" in found.reason) == (own != "group:S3")
    else:
        assert document(found).audience == audience


@pytest.mark.parametrize(
    "text",
    [
        "---\naudience: group:S1\ntitle: a: b\n---\n# A\n",  # not valid YAML
        "---\naudience: group:S1\n\n# A\n",  # not closed
        "\n---\naudience: group:S1\n---\n# A\n",
        "+++\naudience = 'group:S1'\n+++\n# A\n",
    ],
)
def test_an_audience_that_cannot_be_read_keeps_a_page_out(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"a.md": text, "b.mdx": text})
    for found in read(tmp_path).values():
        assert isinstance(found, Skipped)
        assert "audience" in found.reason


def test_codeowners_stand_between_page_rules_and_the_source(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".git/HEAD": "",
            ".github/CODEOWNERS": (
                "* @halvermeer/all  # by default\n/docs/pay/ @halvermeer/finance ana@x.example\n"
                "/docs/pay/open.md\n"
            ),
            "CODEOWNERS": "* @halvermeer/root  # GitHub takes the one above first\n",
            "docs/a.md": "# A\n",
            "docs/pay/b.md": "# B\n",
            "docs/pay/c d.md": "# C\n",
            "docs/pay/open.md": "# D\n",
            "docs/own.md": "---\nowner: Ana\n---\n# E\n",
        },
    )
    rules = (PageRule(pattern="c d.md", owner="Bo"),)
    reads = read(tmp_path / "docs", owner="Everybody", pages=rules)
    assert {path: document(found).owner for path, found in reads.items()} == {
        "a.md": "@halvermeer/all",
        "own.md": "Ana",
        "pay/b.md": "@halvermeer/finance, ana@x.example",
        "pay/c d.md": "Bo",
        "pay/open.md": "Everybody",
    }


def test_codeowners_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    write(tmp_path, {"CODEOWNERS": "[broken @a\n/x[ @b\n", "a.md": "# A\n"})
    assert document(read(tmp_path)["a.md"]).owner is None


def test_dates_of_git_are_those_of_the_last_commit_of_each_file(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    own = "---\nupdated: 2026-05-05\n---\n# Own\n"
    write(tmp_path, {"docs/a.md": "# A\n", "docs/über b.md": "# B\n", "docs/own.md": own})
    commit(tmp_path, "2026-01-02T03:04:05Z")
    write(tmp_path, {"docs/a.md": "# A\n\nNew.\n", "c.md": "# C\n"})
    commit(tmp_path, "2026-02-03T04:05:06+01:00")
    write(tmp_path, {"docs/new.md": "# New\n"})
    reads = read(tmp_path / "docs", dates="git")
    assert {path: document(found).updated_at for path, found in reads.items()} == {
        "a.md": datetime(2026, 2, 3, 3, 5, 6, tzinfo=UTC),
        "new.md": None,
        "own.md": datetime(2026, 5, 5, tzinfo=UTC),
        "über b.md": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    }
    assert document(read(tmp_path / "docs")["a.md"]).updated_at is None
    assert document(reads["a.md"]).verified_at is None


def test_a_clone_without_its_history_says_nothing_of_dates(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "whole")
    for number in range(2):
        write(tmp_path / "whole", {f"{number}.md": "# A\n"})
        commit(tmp_path / "whole", "2026-01-02T03:04:05Z")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{tmp_path}/whole", "clone")
    for found in read(tmp_path / "clone", dates="git").values():
        assert document(found).updated_at is None


def test_a_folder_without_git_has_no_dates_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"docs/a.md": "# A\n", "other/a.md": "# B\n"})
    git(tmp_path, "init", "-q", "other")
    commit(tmp_path / "other", "2026-01-02T03:04:05Z")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))  # as in a hook of git's
    assert document(read(tmp_path / "docs", dates="git")["a.md"]).updated_at is None


@pytest.mark.parametrize(
    ("base_url", "path", "url"),
    [
        ("https://w.example/", "a b/c.md", "https://w.example/a%20b/c.md"),
        ("https://w.example/{stem}/", "a b/c.d.md", "https://w.example/a%20b/c.d/"),
        ("https://w.example/x?p={path}&v=1", "a/c.md", "https://w.example/x?p=a/c.md&v=1"),
        ("https://w.example/p?id={id}", "Leave-policy_4711.html", "https://w.example/p?id=4711"),
        ("https://w.example/p?id={id}", "index.html", "https://w.example/p?id=index"),
        (
            "https://notion.example/{id}",
            "HR/Leave 0123456789abcdef0123456789abcdef.md",
            "https://notion.example/0123456789abcdef0123456789abcdef",
        ),
    ],
)
def test_where_a_page_is_read(tmp_path: Path, base_url: str, path: str, url: str) -> None:
    write(tmp_path, {path: "<h1>A</h1><p>Text.</p>" if path.endswith("html") else "# A\n"})
    (found,) = read(tmp_path, base_url=base_url).values()
    assert document(found).url == url


def test_what_is_known_is_not_read_again(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "# A\n", "b.html": "<p>B</p>", "c.txt": "C\n"})
    first = read(tmp_path)
    known = {path: found.file_hash for path, found in first.items() if isinstance(found, Read)}
    assert set(known) == {"a.md", "b.html", "c.txt"}
    assert read(tmp_path, known) == {path: Unchanged(path=path) for path in known}
    write(tmp_path, {"c.txt": "D\n"})
    assert isinstance(read(tmp_path, known)["c.txt"], Read)
    for stated in (
        {"owner": "Ana"},
        {"audience": ("group:S1",)},
        {"base_url": "https://w.example"},
        {"anchors": "github"},
        {"pages": (PageRule(pattern="*", freshness_days=3),)},
    ):
        assert isinstance(read(tmp_path, known, **stated)["a.md"], Read), stated


@pytest.mark.parametrize(
    ("front_matter", "expected"),
    [
        ("status: deprecated", (True, None)),
        ("status: Superseded", (True, None)),
        ("status: active", (False, None)),
        ("status: archived since May", (True, None)),
        ("superseded_by: leave-2026.md", (True, "leave-2026.md")),
        ("replaced-by: Leave 2026", (True, "Leave 2026")),
        ("deprecated: true", (True, None)),
        ("deprecated: false", (False, None)),
        ("deprecated: 2026-01-01", (True, None)),
        ("superseded_by:", (False, None)),
        *(
            (f"superseded_by: {filler}", (False, None))
            for filler in ("none", "'-'", "N/A", "false", "tbd", "''", "[]", "[none, null]", "—")
        ),
        ("superseded_by: [none, Leave 2026, Leave]", (True, "Leave 2026")),
        ("superseded_by: yes", (True, None)),
        ("superseded_by: a.md", (False, None)),  # itself
        ("status: deprecated\nsuperseded_by: a.md", (True, None)),
        ("deprecated: none", (False, None)),
        *((f"status: {word}", (True, None)) for word in ("outdated", "Withdrawn", "retired")),
    ],
)
def test_front_matter_says_that_a_page_no_longer_holds(
    tmp_path: Path, front_matter: str, expected: tuple[bool, str | None]
) -> None:
    write(tmp_path, {"a.md": f"---\n{front_matter}\n---\n# A\n\nText.\n"})
    page = document(read(tmp_path)["a.md"])
    assert (page.is_superseded, page.superseded_by) == expected


def test_what_only_fills_a_field_names_no_owner(tmp_path: Path) -> None:
    pages = {
        "a.md": "---\nowner: TBD\nteam: IT\n---\n# A\n\nText.\n",
        "b.md": "---\nowners: [none, Ana, Bo]\n---\n# B\n\nText.\n",
        "c.md": "---\nowner: n/a\n---\n# C\n\nText.\n",
    }
    write(tmp_path, pages)
    reads = read(tmp_path, owner="Operations")
    owners = [document(reads[path]).owner for path in pages]
    assert owners == ["IT", "Ana, Bo", "Operations"]


def test_a_page_verified_on_a_day_to_come_is_told(tmp_path: Path) -> None:
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)  # as it may be where that was written
    write(
        tmp_path,
        {
            "a.md": "---\nlast_verified: 2999-01-01\n---\n# A\n\nText.\n",
            "b.md": f"---\nlast_verified: {tomorrow}\n---\n# B\n\nText.\n",
        },
    )
    notes = [each.notes for each in read(tmp_path).values() if isinstance(each, Read)]
    assert notes == [("verified on 2999-01-01, a day to come: that counts as no date",), ()]


def test_notion_pages_and_databases(tmp_path: Path) -> None:
    page, table = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
    write(
        tmp_path,
        {
            f"HR {page}/Leave {page}.md": (
                "# Leave\n\nOwner: Ana Castillo\nLast verified: March 3, 2026\n"
                "Status: Deprecated\nTags: hr, time off\n\nYou have 28 days.\n"
            ),
            f"Rates {table}.csv": 'City,Cap\nLisbon,"140\n160 in August"\nOslo,190\n',
            f"Rates {table}_all.csv": 'City,Cap,Note\nLisbon,"140\n160 in August",x\nOslo,190,\n',
            "numbers.csv": "a,b\n1,2\n",
        },
    )
    reads = read(tmp_path)
    assert set(reads) == {f"HR {page}/Leave {page}.md", f"Rates {table}_all.csv"}
    leave, rates = map(document, reads.values())
    assert (leave.title, leave.owner, leave.is_superseded) == ("Leave", "Ana Castillo", True)
    assert leave.verified_at == date(2026, 3, 3)
    assert leave.text.endswith("You have 28 days.\n")
    assert rates.title == "Rates"
    assert rates.text == (
        "| City | Cap | Note |\n| --- | --- | --- |\n"
        "| Lisbon | 140<br>160 in August | x |\n| Oslo | 190 |  |\n"
    )


def test_only_notions_pages_have_properties_in_their_text(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "# A\n\nOwner: Ana\n\nText.\n"})
    assert document(read(tmp_path)["a.md"]).owner is None


def test_pages_that_a_generator_makes_of_its_own_site_are_left_out(tmp_path: Path) -> None:
    names = ("404.html", "genindex.html", "search.html", "index.html", "how/search.html")
    write(tmp_path, {name: "<p>Text." for name in names})
    assert sorted(read(tmp_path)) == ["how/search.html", "index.html"]
