"""Which code a run was made with."""

import subprocess
from pathlib import Path

import pytest

from app import commit


def write(root: Path, code: str = "print(1)\n") -> Path:
    for package in ("app", "retrieval"):
        (root / package).mkdir(parents=True, exist_ok=True)
        (root / package / "code.py").write_text(code, encoding="utf-8")
    return root / "app"


def git(root: Path, *arguments: str) -> str:
    who = ["-c", "user.name=ann", "-c", "user.email=ann@acme.example"]
    command = ["git", "-C", str(root), *who, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_checkout_is_told_by_its_commit_and_whether_files_differ(tmp_path: Path) -> None:
    app = write(tmp_path)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert commit.find(app) == head
    write(tmp_path, "print(2)\n")
    assert commit.find(app) == f"{head}-dirty"


def test_outside_a_checkout_it_is_told_by_what_the_code_is(tmp_path: Path) -> None:
    app = write(tmp_path)
    first = commit.find(app)
    assert commit.find(write(tmp_path / "elsewhere")) == first
    (app / "code.pyc").write_bytes(b"whatever Python wrote")
    assert commit.find(app) == first
    write(tmp_path, "print(2)\n")
    assert commit.find(app) != first


def test_code_that_lies_in_the_checkout_of_something_else_is_not_told_by_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "lib"
    app = write(root)
    outside = commit.find(app)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    assert commit.find(app) == outside
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))  # as in a hook of git's
    assert commit.find(app) == outside
