"""What a folder's git repository knows of its files: when each last changed, and whose it is."""

import os
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from codeowners import CodeOwners

from retrieval import git_environment

TIMEOUT_S = 300  # a history of 100,000 commits takes some seconds
# As GitHub takes them, of which the first that is there counts.
PLACES = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
MAX_BYTES = 3_000_000  # as GitHub

# The repository's own settings may name programs; none of them is run, whoever owns the folder.
_GIT = (
    *("git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false"),
    *("--no-pager", "--no-optional-locks"),
)


def find_root(folder: Path) -> Path:
    """The folder of the repository that a folder belongs to; without one, the folder itself."""
    folder = folder.resolve()
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


def load_dates(folder: Path) -> Mapping[str, datetime]:
    """When the last commit of each file below a folder was made, by its path; in UTC.

    Empty where git or its history is missing. A clone without its history would say of every
    file that it was changed by the last commit that there is.
    """
    if _run(folder, "rev-parse", "--is-shallow-repository").strip() != b"false":
        return {}
    log = _run(
        folder,
        *("log", "--format=%x01%ct", "--name-only", "-z", "--no-renames", "--relative", "--", "."),
    )
    dates: dict[str, datetime] = {}
    committed = datetime.min.replace(tzinfo=UTC)
    for part in re.split(rb"[\0\n]+", log):
        if part.startswith(b"\1"):
            committed = datetime.fromtimestamp(int(part[1:]), UTC)
        elif part:
            dates.setdefault(os.fsdecode(part), committed)  # from the newest commit on
    return dates


def _run(folder: Path, *arguments: str) -> bytes:
    """What git prints; nothing where it fails."""
    try:
        return subprocess.run(
            [*_GIT, "-C", str(folder), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=True,
            env=git_environment.build(),
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return b""


def load_owners(root: Path) -> CodeOwners | None:
    """The CODEOWNERS of a repository; None without one that can be read."""
    for place in PLACES:
        file = root / place
        if file.is_file() and not file.is_symlink() and file.stat().st_size <= MAX_BYTES:
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            try:
                return CodeOwners("\n".join(re.sub(r"(?<=\s)#.*", "", line) for line in lines))
            except ValueError:  # a pattern that is none
                return None
    return None


def find_owner(owners: CodeOwners, path: str) -> str | None:
    """Who owns a path of the repository, by the last rule that names it; None for nobody."""
    return ", ".join(name for _, name in owners.of(path)) or None
