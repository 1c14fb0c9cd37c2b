"""sources.yml: what it says becomes sources; what is wrong in it is one clear line."""

from pathlib import Path

import pytest

from retrieval.errors import ConfigError
from retrieval.sources.catalog import PageRule, Source, find_renamed, find_root, load_sources
from tests.retrieval.sources.formats import FORMATS


def load(tmp_path: Path, *lines: str) -> Source:
    (source,) = load_all(tmp_path, "sources:\n  - " + "\n    ".join(lines))
    return source


def load_all(tmp_path: Path, text: str) -> tuple[Source, ...]:
    (tmp_path / "sources.yml").write_text(text)
    return load_sources(tmp_path / "sources.yml")


def fail(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_all(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "sources.yml"))
    assert "\n" not in message
    return message.removeprefix(str(tmp_path / "sources.yml"))


def test_the_example() -> None:
    operations, handbook, site = load_sources(FORMATS / "sources.yml")
    assert operations == Source(
        name="operations",
        path=FORMATS / "confluence",
        base_url="https://halvermeer.example/wiki/pages/viewpage.action?pageId={id}",
        owner="Operations",
        freshness_days=180,
        schedule="0 3 * * *",
    )
    assert handbook == Source(
        name="handbook",
        git="https://git.halvermeer.example/handbook.git",
        branch="main",
        folder="docs",
        base_url="https://handbook.halvermeer.example/{stem}/",
        anchors="mkdocs",
        dates="git",
        pages=(
            PageRule(pattern="finance/", owner="Finance", freshness_days=90),
            PageRule(pattern="finance/salaries*", audience=("group:S0FINANCE", "user:U0ANNIKA")),
        ),
    )
    assert site == Source(name="site", path=FORMATS / "site", audience=("public",))


@pytest.mark.parametrize(
    ("git", "expected"),
    [
        ("git@git.example:a/b.git", "git@git.example:a/b.git"),
        ("ssh://git@git.example/b.git", "ssh://git@git.example/b.git"),
        ("../b.git", "{folder}/../b.git"),
        ("/srv/b.git", "/srv/b.git"),
    ],
)
def test_a_repository_is_a_url_or_a_path(tmp_path: Path, git: str, expected: str) -> None:
    assert load(tmp_path, "name: a", f"git: {git}").git == expected.format(folder=tmp_path)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("path: a", "source 1: the key 'name' is missing."),
        ("name: a", "source 'a': give either path, a folder, or git, a repository."),
        ("name: a\n    path: b\n    git: c", "source 'a': give either path, a folder, or git"),
        ("name: a\n    path: b\n    branch: main", "source 'a': branch and folder are for a git"),
        ("name: a\n    path: b\n    audiance: x", "source 'a': there is no key 'audiance'."),
        ("name: a\n    path: b\n    audience: x", "'x' is no audience. Use everyone, public,"),
        ("name: a\n    path: b\n    audience:", "source 'a': audience: says nothing. Give it"),
        (
            "name: a\n    path: b\n    pages: [{pattern: x, audience: }]",
            "source 'a': pages, number 1, audience: says nothing. Give it a name",
        ),
        ("name: a\n    path: b\n    audience: []", "source 'a': audience: An audience has"),
        (
            "name: a\n    path: b\n    schedule: daily",
            "source 'a': schedule: has to be",
        ),
        ('name: a\n    path: b\n    schedule: "99 * * * *"', "source 'a': schedule: has to be"),
        ("name: a\n    path: b\n    schedule: 0 0 */32 * 1#5", "source 'a': schedule: has to be"),
        ("name: a\n    path: b\n    base_url: wiki", "source 'a': base_url: has to begin with"),
        ("name: a\n    path: b\n    base_url: https://w/{slug}", "source 'a': base_url: has to"),
        *(
            (
                f"name: a\n    path: b\n    freshness_days: {days}",
                "a': freshness_days: has to be a number of days, from 1 to 36500, unquoted.",
            )
            for days in ("0", '"90"', "true", "1.5", "[1]")
        ),
        ("name: a\n    path: b\n    anchors: gitlab", "anchors: has to be 'github', 'mkdocs' or"),
        ("name: a\n    path: b\n    dates: file", "source 'a': dates: has to be 'page' or 'git'."),
        ("name: a\n    path: b\n    owner: 7", "source 'a': owner: has to be text, in quotes"),
        ("name: a\n    path: b\n    pages: x", "source 'a': pages: has to be a list, as in"),
        ("name: a\n    git: b\n    folder: ../c", "source 'a': folder: has to be a folder"),
        (
            "name: a\n    path: b\n    pages: [{pattern: '!x', owner: o}]",
            "source 'a': pages, number 1, pattern: has to be a pattern as in .gitignore",
        ),
        (
            "name: a\n    path: b\n    pages: [{owner: o}]",
            "source 'a': pages, number 1: the key 'pattern' is missing.",
        ),
        (
            "name: a\n    path: b\n    pages: [{pattern: x}, {pattern: y, ownr: o}]",
            "source 'a': pages, number 2: there is no key 'ownr'.",
        ),
        ("name: a\n    path: b\n    pages: [x]", "pages, number 1: has to be keys with values"),
        ("name: [a]\n    path: b", "source 1: name: has to be text"),
        ("just words", "source 1: has to be keys with values"),
    ],
)
def test_what_is_wrong_is_told_by_source_and_key(tmp_path: Path, lines: str, problem: str) -> None:
    assert problem in fail(tmp_path, f"sources:\n  - {lines}\n")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("path: nest", "path: ./nest"),
        ("path: nest/hr", "path: nest"),
        ("path: link", "path: nest/hr"),
        ("git: https://g/x.git", "git: https://bot:secret@G/x/"),
        ("git: git@g:x", "git: ssh://git@g:22/x.git"),
        ("git: https://g/x, folder: docs/hr", "git: https://g/x, folder: docs/"),
        ("git: https://g/x, branch: main", "git: https://g/x"),
        ("git: nest", "path: nest/hr"),
        ("git: nest, folder: hr", "path: ."),
        ("git: nest.git", "git: ./nest.git"),
        ("git: nest/.git", "git: nest"),
    ],
)
def test_no_page_is_in_two_sources(tmp_path: Path, one: str, other: str) -> None:
    (tmp_path / "nest").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nest")
    told = fail(tmp_path, f"sources:\n  - {{name: a, {one}}}\n  - {{name: c, {other}}}")
    assert told.startswith(": sources 'a' and 'c' have pages in common")
    assert "`pages` gives parts of a source an audience" in told
    assert ("name the `branch`" in told) == ("git:" in one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("path: nest", "path: nested"),
        ("git: https://g/x", "git: https://g/xy"),
        ("git: https://g/x, folder: docs", "git: https://g/x, folder: docs-hr"),
        ("git: https://g/x, branch: main", "git: https://g/x, branch: v1"),
        ("git: https://g/plugins", "git: https://g/plugins/foo"),
        ("git: nest.git", "path: nest"),
        ("git: nest.git", "git: nest"),
        ("git: nest.git", "path: ."),
        ("git: nest, branch: release", "path: nest/docs"),
        ("git: 'https://x:p?a@ss@one.g/x'", "git: 'https://x:p?a@ss@two.g/x'"),
    ],
)
def test_two_places_are_two_sources(tmp_path: Path, one: str, other: str) -> None:
    text = f"sources:\n  - {{name: a, {one}}}\n  - {{name: c, {other}}}"
    assert len(load_all(tmp_path, text)) == 2


@pytest.mark.parametrize(
    ("saved", "git", "folder", "is_one"),
    [
        ("ssh://git@g:22/x.git", "https://G/x", "", True),
        ("https://g/plugins", "https://g/plugins/foo", "", False),
        ("https://g/plugins/foo", "https://g/plugins", "foo", False),
        ("https://x:p?a@ss@one.g/x", "https://x:p?a@ss@two.g/x", "", False),
    ],
)
def test_a_source_is_renamed_where_its_repository_is_the_same(
    saved: str, git: str, folder: str, is_one: bool
) -> None:
    now = Source(name="now", git=git, folder=folder)
    roots = {"before": find_root(Source(name="before", git=saved))}
    assert find_renamed(roots, [now]) == ({"before": now} if is_one else {})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sources: [", " is not valid YAML at line 1: "),
        ("sources: []", " has to be one list under the key `sources`"),
        ("- name: a", " has to be one list under the key `sources`"),
        ("sources:\n  - name: a\n    path: b\nother: 1", " has to be one list"),
        (
            "sources:\n  - {name: a, path: b}\n  - {name: a, path: c}",
            ": two sources are named 'a'. Rename one of them.",
        ),
        (
            "sources:\n  - name: a\n    path: b\n    audience: group:S1\n    audience: everyone",
            " is not valid YAML at line 5: the key 'audience' stands twice.",
        ),
    ],
)
def test_a_file_that_is_no_list_of_sources(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in fail(tmp_path, text)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        load_sources(tmp_path / "sources.yml")
