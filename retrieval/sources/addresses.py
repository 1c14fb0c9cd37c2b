"""Where repositories are, of which one has many addresses."""

import re
from pathlib import Path, PurePosixPath

HIDDEN = "…"  # in place of what cannot be told from a secret
# Its host, "" for this machine, and its path there.
_PARTS = re.compile(r"(?:[^:/]+://)?([^:/]*)(?::[0-9]+/|[:/])?(.*?)/*")


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
    host = HIDDEN if "@" in "".join(query) else address.rpartition("@")[2]
    return repository.removesuffix(rest) + host


def find_place(repository: str) -> PurePosixPath | None:
    """The same for all addresses of one repository, as far as those tell; without credentials.

    Absolute for one of this machine; None where no more is known than that it is secret.
    """
    address = hide_credentials(repository)
    if address.endswith(HIDDEN):
        return None
    if not is_remote(repository):
        address = f"file://{Path(repository).resolve()}"
    match = _PARTS.fullmatch(address)
    assert match is not None  # each part of it may be empty
    # Here x.git lies beside x, while hosts take either for the other.
    path = match[2].removesuffix(".git" if match[1] else "/.git").rstrip("/")
    return PurePosixPath(f"{match[1].lower()}/{path}")
