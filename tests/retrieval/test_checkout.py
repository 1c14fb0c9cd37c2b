"""Repositories to folders of files."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from retrieval.errors import ConfigError
from retrieval.sources import checkout
from retrieval.sources.catalog import Source
from tests.repositories import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "origin")


def source(repository: Repository | str, **more: object) -> Source:
    address = repository if isinstance(repository, str) else f"file://{repository.root}"
    return Source(name="wiki", git=address, **more)  # type: ignore[arg-type]


def find_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".git")


def count_commits(folder: Path) -> int:
    command = ["git", "-C", str(folder), "rev-list", "--count", "HEAD"]
    return int(subprocess.run(command, check=True, capture_output=True).stdout)


def test_a_folder_follows_its_branch(repository: Repository, tmp_path: Path) -> None:
    folder = tmp_path / "home" / "wiki"
    first = repository.commit(leave="28 days", vpn="Use it.")
    assert checkout.refresh(source(repository), folder) == first
    assert find_names(folder) == ["leave.md", "vpn.md"]
    (repository.root / "vpn.md").unlink()
    second = repository.commit(leave="30 days")
    assert checkout.refresh(source(repository), folder) == second
    assert find_names(folder) == ["leave.md"]
    assert (folder / "leave.md").read_text() == "30 days"
    assert checkout.refresh(source(repository), folder) == second


def test_only_what_is_needed_of_the_history_is_fetched(
    repository: Repository, tmp_path: Path
) -> None:
    repository.commit(leave="28 days")
    repository.commit(leave="30 days")
    folder = tmp_path / "wiki"
    checkout.refresh(source(repository), folder)
    assert count_commits(folder) == 1
    checkout.refresh(source(repository, dates="git"), folder)
    assert count_commits(folder) == 2


def test_a_branch_and_a_path_can_be_named(repository: Repository, tmp_path: Path) -> None:
    repository.commit(leave="28 days")
    repository.git("switch", "--quiet", "--create", "next/one")
    wanted = repository.commit(leave="30 days")
    repository.git("switch", "--quiet", "main")
    repository.git("tag", "next/one", "main")  # of the same name; the branch is meant
    by_path = source(str(repository.root), branch="next/one")
    assert checkout.refresh(by_path, tmp_path / "wiki") == wanted


def test_history_that_was_rewritten_is_followed(repository: Repository, tmp_path: Path) -> None:
    repository.commit(leave="28 days")
    checkout.refresh(source(repository), tmp_path / "wiki")
    (repository.root / "leave.md").write_text("30 days")
    repository.git("commit", "--quiet", "--amend", "--all", "--message", "Other pages")
    rewritten = repository.git("rev-parse", "HEAD")
    assert checkout.refresh(source(repository), tmp_path / "wiki") == rewritten


@pytest.mark.parametrize("broken", ["lock", "head", "objects", "no repository", "edited", "file"])
def test_what_is_broken_heals(repository: Repository, tmp_path: Path, broken: str) -> None:
    folder = tmp_path / "wiki"
    repository.commit(leave="28 days")
    checkout.refresh(source(repository), folder)
    if broken == "lock":
        (folder / ".git" / "index.lock").touch()
    elif broken == "head":
        (folder / ".git" / "HEAD").write_text("")
    elif broken == "objects":
        shutil.rmtree(folder / ".git" / "objects")
    elif broken == "no repository":
        shutil.rmtree(folder / ".git")
    elif broken == "file":
        shutil.rmtree(folder)
        folder.touch()
    (folder.with_name("wiki.new")).mkdir()  # left behind by one that was killed
    if broken == "edited":
        (folder / "leave.md").write_text("99 days")
        (folder / "draft.md").touch()
    wanted = repository.commit(leave="30 days")
    assert checkout.refresh(source(repository), folder) == wanted
    assert find_names(folder) == ["leave.md"]
    assert (folder / "leave.md").read_text() == "30 days"
    assert checkout.refresh(source(repository), folder) == wanted


def test_a_repository_that_is_away_leaves_the_folder_as_it_was(
    repository: Repository, tmp_path: Path
) -> None:
    folder = tmp_path / "wiki"
    wanted = repository.commit(leave="28 days")
    checkout.refresh(source(repository), folder)
    repository.root.rename(tmp_path / "away")
    with pytest.raises(ConfigError, match=r"origin cannot be read\. Check that it can be reached"):
        checkout.refresh(source(repository), folder)
    assert find_names(folder) == ["leave.md"]
    (tmp_path / "away").rename(repository.root)
    assert checkout.refresh(source(repository), folder) == wanted


def test_a_network_that_fails_amid_a_fetch_clones_nothing_anew(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is asked twice is a repository that answers the first time only."""
    repository.commit(leave="28 days")
    folder = tmp_path / "wiki"
    checkout.refresh(source(repository), folder)
    repository.commit(leave="30 days")
    calls = write_git(tmp_path, monkeypatch, fails_after=1)
    with pytest.raises(ConfigError, match="cannot be read"):
        checkout.refresh(source(repository), folder)
    assert (folder / "leave.md").read_text() == "28 days"
    assert calls() == ["ls-remote", "fetch", "ls-remote"]


def write_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fails_after: int
) -> Callable[[], list[str]]:
    """Have the network be cut after so many calls to it; gives what was asked of it, in order."""
    bin, asked = tmp_path / "bin", tmp_path / "asked"
    bin.mkdir()
    asked.touch()
    script = bin / "git"
    script.write_text(f"""#!/bin/sh
for word; do case $word in ls-remote|fetch)
    echo $word >> {asked}
    test $(wc -l < {asked}) -le {fails_after} || exit 128
esac; done
exec {shutil.which("git")} "$@"
""")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}{os.pathsep}{os.environ['PATH']}")
    return lambda: asked.read_text().split()


def test_a_missing_branch_and_an_empty_repository_are_told(
    repository: Repository, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="has no commit yet"):
        checkout.refresh(source(repository), tmp_path / "wiki")
    repository.commit(leave="28 days")
    with pytest.raises(ConfigError, match="has no branch 'trunk'"):
        checkout.refresh(source(repository, branch="trunk"), tmp_path / "wiki")
    assert not (tmp_path / "wiki").exists()


@pytest.mark.parametrize(
    "address",
    [
        "https://bot:s3cret@127.0.0.1:1/pages.git?token=s3cret",
        "http://s3cret@127.0.0.1:1/pages.git",
        "https://s3cret@[broken/pages.git",
    ],
)
def test_an_error_holds_no_credentials(address: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        checkout.refresh(source(address), tmp_path / "wiki")
    assert "cannot be read" in str(raised.value)
    assert "s3cret" not in str(raised.value)
    assert raised.value.__cause__ is None and raised.value.__suppress_context__


def test_the_address_is_kept_in_no_file(repository: Repository, tmp_path: Path) -> None:
    repository.commit(leave="28 days")
    checkout.refresh(source(repository), tmp_path / "wiki")
    files = [path for path in (tmp_path / "wiki" / ".git").rglob("*") if path.is_file()]
    kept = [path.name for path in files if str(repository.root).encode() in path.read_bytes()]
    assert kept == ["FETCH_HEAD"]  # without its credentials, which git leaves out there


@pytest.mark.parametrize("address", ["ext::touch ran", "--upload-pack=touch ran", "-h"])
def test_no_command_hides_in_an_address(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        checkout.refresh(source(address), tmp_path / "wiki")
    assert list(tmp_path.iterdir()) == []


def test_neither_hooks_nor_submodules_are_run(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = Repository(tmp_path / "inner")
    inner.commit(secret="Not ours.")
    allow = ("-c", "protocol.file.allow=always")
    repository.git(*allow, "submodule", "add", "--quiet", f"file://{inner.root}", "inner")
    repository.commit(leave="28 days")
    hook = tmp_path / "templates" / "hooks" / "post-checkout"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    # What the user Footnote runs as may have set up.
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(tmp_path / "templates"))
    folder = tmp_path / "wiki"
    checkout.refresh(source(repository), folder)
    assert find_names(folder / "inner") == []
    assert not (tmp_path / "ran").exists()


def test_the_repository_of_a_hook_that_calls_us_is_left_alone(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = repository.commit(leave="28 days")
    other = Repository(tmp_path / "other")
    kept = other.commit(draft="Mine.")
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.root / ".git" / "index"))
    assert checkout.refresh(source(repository), tmp_path / "wiki") == wanted
    monkeypatch.undo()
    assert other.git("rev-parse", "HEAD") == kept


def test_sources_have_folders_of_their_own(tmp_path: Path) -> None:
    names = {
        checkout.find_folder(tmp_path, tenant, name)
        for tenant in ("acme", "other")
        for name in ("wiki", "desk/../..")
    }
    assert len(names) == 4
    assert all(folder.parent == tmp_path for folder in names)
