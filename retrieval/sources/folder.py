"""A folder of files to documents, with what had to be skipped or cleaned."""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path, PurePosixPath

from retrieval import masking
from retrieval.errors import ConfigError
from retrieval.sources import conversion, notion, reading, rules
from retrieval.sources.catalog import Source
from retrieval.sources.fields import shown
from retrieval.sources.reads import Facts, Read, Skipped, Unchanged
from retrieval.sources.sandbox import Converter

_GENERATED = ("404.html", "genindex.html", "py-modindex.html")
_SPHINX = {"genindex.html", "searchindex.js"}  # beside which search.html is its own


def find_files(folder: Path) -> list[Path]:
    """The files below a folder that can be read, sorted; hidden and linked folders are left out.

    So are the pages that a site's generator makes of itself, for searching and for what is not
    found.

    Raises ConfigError when the folder is missing or a part of it cannot be listed: a
    listing with a hole in it would look as if pages had been removed.
    """

    def fail(error: OSError) -> None:
        raise ConfigError(f"{error.filename} cannot be listed: {error.strerror}.") from error

    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder. Give the folder that holds the documents.")
    files = []
    for root, folders, names in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(root, name) for name in names if _is_page(name, names)]
    return sorted(files)


def _is_page(name: str, names: Sequence[str]) -> bool:
    """Whether a file is read; names are those of its folder."""
    if not name.lower().endswith(reading.SUFFIXES) or name.startswith(("~$", "._")):
        return False  # the last two: an open file's lock of Office's, and macOS's own
    if name in _GENERATED or (name == "search.html" and _SPHINX.intersection(names)):
        return False
    if not name.lower().endswith(".csv"):
        return True
    # Of tables of data only Notion's are pages, and of two of one, that with all columns.
    stem = name[: -len(".csv")]
    return notion.split_name(stem)[1] is not None and f"{stem}_all.csv" not in names


def read_files(
    files: Iterable[Path],
    *,
    folder: Path,
    source: Source,
    known: Mapping[str, str],
    letters: Mapping[str, Skipped] = {},
) -> Iterator[Read | Skipped | Unchanged]:
    """Each file read, unchanged or skipped with a reason, in order.

    Its path is that below the folder. known has the file_hash of each path that was read before,
    letters what could not be read then: a file with the same bytes that would be read the same way
    is not read again.
    """
    root = folder.resolve()
    known_rules = rules.load(folder, source)
    with closing(Converter()) as converter:
        for file in files:
            path = file.relative_to(folder).as_posix()
            try:
                if reason := _refusal(file, root):
                    yield Skipped(path=shown(path), reason=reason)
                    continue
                data = file.read_bytes()
            except OSError as error:
                yield Skipped(path=path, reason=f"cannot be read: {error.strerror}")
            else:
                facts = known_rules.find_facts(file, path)
                file_hash = _hash(data, facts)
                letter = letters.get(path)
                if known.get(path) == file_hash:
                    yield Unchanged(path=path)
                elif letter and letter.file_hash == file_hash:
                    yield letter
                else:
                    read = reading.read(data, facts, convert=converter.convert)
                    # What says that its page is to be hidden or gone is cheap, and says it anew.
                    if isinstance(read, Read) or read.before == "stays":
                        read = replace(read, file_hash=file_hash)
                    yield read


def _refusal(file: Path, root: Path) -> str | None:
    """Why a file is not to be read at all; None when it is."""
    if shown(str(file)) != str(file):
        return "its name is not UTF-8; rename it"
    try:
        target = file.resolve()
    except RuntimeError:
        return "a link that leads back to itself; put the file itself there"
    if not target.is_relative_to(root):
        return "a link to a file outside the folder; put the file itself there"
    facts = file.stat()
    if not stat.S_ISREG(facts.st_mode):
        return "not a regular file"
    return reading.too_large(facts.st_size, file.suffix.lower())


def _hash(data: bytes, facts: Facts) -> str:
    """Of a file's bytes and of whatever reads another document from the same bytes."""
    libraries = conversion.find_versions(PurePosixPath(facts.path).suffix.lower())
    how = repr((reading.VERSION, masking.VERSION, libraries, facts))
    return hashlib.sha256(how.encode() + data).hexdigest()
