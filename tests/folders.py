"""Folders of documents, read as those of a source are."""

from collections.abc import Iterator
from pathlib import Path

from retrieval.sources import folder
from retrieval.sources.catalog import Source
from retrieval.sources.reads import Read, Skipped


def read_folder(root: Path, *, base_url: str | None = None) -> Iterator[Read | Skipped]:
    """All that a folder has, none of it known before."""
    source = Source(name=root.name, path=root, base_url=base_url)
    for read in folder.read_files(folder.find_files(root), folder=root, source=source, known={}):
        assert isinstance(read, Read | Skipped)
        yield read
