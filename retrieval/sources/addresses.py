"""Where repositories are, of which one has many addresses."""

import re
from pathlib import Path, PurePosixPath

# Its host, "" for this machine, and its path there.
_PARTS = re.compile(r"(?:[^:/]+://)?([^:/]*)(?::[0-9]+/|[:/])?(.*?)/*(?:\.git)?/*")


def is_remote(repository: str) -> bool:
    """Whether it is a URL, or host:path, and no path of this machine."""
    return ":" in repository.split("/", 1)[0]


def hide_credentials(repository: str) -> str:
    """The address without what may be a secret in it; of a path, all of it."""
    if not is_remote(repository):
        return repository
    rest = repository.split("://", 1)[-1]
    address, *query = re.split("[?#]", rest, maxsplit=1)
    # A password may hold what no host may, and then it is anybody's guess where it ends.
    host = "…" if "@" in "".join(query) else address.rpartition("@")[2]
    return repository.removesuffix(rest) + host


def find_place(repository: str) -> PurePosixPath:
    """The same for all addresses of one repository, as far as those tell; without credentials."""
    address = hide_credentials(repository)
    if not is_remote(repository):
        address = f"file://{Path(repository).resolve()}"
    match = _PARTS.fullmatch(address)
    assert match is not None  # each part of it may be empty
    return PurePosixPath(f"{match[1].lower()}/{match[2]}")
