"""`footnote sync`, as it is typed."""

from pathlib import Path

import pytest
from click.testing import Result

from tests.app.test_cli import fail, footnote, load, succeed
from tests.repositories import Repository

pytestmark = pytest.mark.model

LEAVE = "# Leave\n\nYou have 28 days of leave a year.\n"
VPN = "# VPN\n\nSet `VPN_MTU` to 1380 when pages load slowly.\n"
SOURCES = """
sources:
  - name: wiki
    path: wiki
    base_url: https://wiki.example
  - name: code
    git: origin
    folder: docs
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where sources.yml is, with a folder and a repository beside it."""
    (tmp_path / "sources.yml").write_text(SOURCES)
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki" / "leave.md").write_text(LEAVE)
    repository = Repository(tmp_path / "origin")
    (repository.root / "docs").mkdir()
    (repository.root / "docs" / "vpn.md").write_text(VPN)
    repository.commit()
    return tmp_path


def environment(root: Path) -> dict[str, str]:
    return {"SOURCES": str(root / "sources.yml"), "FOOTNOTE_HOME": str(root / "home")}


def sync(url: str, root: Path, *arguments: str) -> Result:
    return footnote(url, "sync", *arguments, **environment(root))


def test_all_sources_are_brought_up_to_date(database_url: str, root: Path) -> None:
    said = succeed(database_url, "sync", **environment(root))
    counts = "1 new, 0 changed, 0 unchanged, 0 removed, 0 skipped"
    assert said.splitlines() == ["[wiki]", counts, "[code]", counts]
    (root / "wiki" / "new.md").write_text("# New\n\nThe mast is red.\n")
    said = succeed(database_url, "sync", "wiki", **environment(root))
    assert said.splitlines() == ["[wiki]", "1 new, 0 changed, 1 unchanged, 0 removed, 0 skipped"]
    found = load(database_url, "retrieve", "VPN_MTU", "--json")
    assert found["candidates"][0]["doc"] == "vpn.md"


def test_a_source_that_fails_keeps_no_other_from_being_read(database_url: str, root: Path) -> None:
    (root / "wiki").rename(root / "away")
    result = sync(database_url, root)
    assert result.exit_code == 1
    assert "[code]\n1 new" in result.stdout
    (line,) = [each for each in result.stderr.splitlines() if "Error" in each]
    assert line.startswith("Error: wiki: ") and "is not a folder" in line
    (root / "away").rename(root / "wiki")
    assert sync(database_url, root).exit_code == 0


def test_what_is_gone_is_told_and_pruned_on_demand(database_url: str, root: Path) -> None:
    for number in range(4):
        (root / "wiki" / f"{number}.md").write_text(f"# {number}\n\nPage {number} of these.\n")
    sync(database_url, root, "wiki")
    (root / "wiki" / "leave.md").rename(root / "wiki" / "time-off.md")
    (root / "wiki" / "0.md").unlink()
    said = sync(database_url, root, "wiki").stdout
    assert "moved leave.md to time-off.md" in said
    assert "--prune removes them at once:\n  0.md" in said
    for number in (1, 2, 3):
        (root / "wiki" / f"{number}.md").unlink()
    result = sync(database_url, root, "wiki")
    assert result.exit_code == 1
    assert "Only 1 of the 5 documents of source 'wiki' are there" in result.stderr
    assert "with --prune" in result.stderr
    assert "4 removed" in succeed(database_url, "sync", "wiki", "--prune", **environment(root))
    assert sync(database_url, root, "wiki").exit_code == 0


def test_a_source_that_is_no_longer_named_is_removed_on_demand(
    database_url: str, root: Path
) -> None:
    sync(database_url, root)
    file = root / "sources.yml"
    file.write_text(SOURCES.replace("name: code", "name: handbook"))
    assert "names no source 'code'" in fail(database_url, "sync", "code", **environment(root))
    told = fail(database_url, "sync", "wyki", "--prune", **environment(root))
    assert "names no source 'wyki'" in told
    result = sync(database_url, root, "wiki")
    assert "Source code is named handbook now" in result.stderr
    said = succeed(database_url, "sync", "code", "wiki", "--prune", **environment(root))
    assert said.startswith(f"[code]\n1 removed, all: {file} does not name it\n[wiki]\n0 new")
    assert "[handbook]" not in said
    assert list((root / "home" / "checkouts").iterdir()) == []


def test_a_folder_is_not_ingested_by_the_name_of_a_source(database_url: str, root: Path) -> None:
    file = root / "sources.yml"
    file.write_text(SOURCES + "    audience: channel:C1\n")
    sync(database_url, root, "code")
    docs = root / "origin" / "docs"
    told = fail(database_url, "ingest", str(docs), "--source", "code", **environment(root))
    assert "names a source 'code'. Run `footnote sync code`" in told
    result = footnote(database_url, "ingest", str(docs), "--source", "code")  # without SOURCES
    assert result.exit_code == 1
    assert "vpn.md of source 'code' is for channel:C1" in result.stderr
    found = load(database_url, "retrieve", "VPN_MTU", "--audience", "everyone", "--json")
    assert found["candidates"] == []
    named = fail(database_url, "ingest", str(docs), "--source", "mine", **environment(root))
    assert "has pages of this folder in its source 'code'" in named
    file.write_text("sources: [")
    assert "not valid YAML" in fail(database_url, "ingest", str(docs), **environment(root))


def test_what_is_wrong_is_told_on_one_line(database_url: str, root: Path) -> None:
    assert "SOURCES is not set" in fail(database_url, "sync")
    told = fail(database_url, "sync", "wyki", **environment(root))
    assert "names no source 'wyki'. It names: wiki, code." in told
    (root / "sources.yml").write_text("sources: [{name: wiki, path: wiki, onwer: x}]")
    assert "onwer" in fail(database_url, "sync", **environment(root))
    assert footnote(database_url, "sync", "--prune").exit_code == 2
