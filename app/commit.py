"""Which code this is, to be told from other code later."""

import hashlib
import subprocess
from importlib import metadata
from pathlib import Path

from retrieval import git_environment

APP = Path(__file__).parent
PACKAGES = ("app", "retrieval")
HASH_LENGTH = 12


def find(app: Path = APP) -> str:
    """The commit of a checkout, marked where files differ from it.

    Outside one the version that is installed, and a hash of the packages beside that folder.
    """
    return _find_commit(app.parent) or f"{_find_version()}+{_hash_sources(app.parent)}"


def _find_commit(root: Path) -> str | None:
    """None where the folder is not the top of a checkout: that of somebody else tells nothing."""
    top = _ask_git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root.resolve():
        return None
    return _ask_git(root, "describe", "--always", "--dirty", "--exclude=*", "--abbrev=40")


def _ask_git(root: Path, *arguments: str) -> str | None:
    command, own = ["git", "-C", str(root), *arguments], git_environment.build()
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=True, env=own)
    except (OSError, subprocess.CalledProcessError):
        return None
    return ran.stdout.strip()


def _find_version() -> str:
    try:
        return metadata.version("footnote")
    except metadata.PackageNotFoundError:
        return "unknown"


def _hash_sources(root: Path) -> str:
    """Changes with the code, and with what else the packages hold but what Python wrote there."""
    found = hashlib.sha256()
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            found.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:HASH_LENGTH]
