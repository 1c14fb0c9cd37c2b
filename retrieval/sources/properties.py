"""What a file of Word, PowerPoint or Excel says of itself, and whether it can be opened at all."""

import io
import zipfile
from xml.etree import ElementTree

from retrieval.sources.fields import Fields, normalize
from retrieval.sources.reads import Unreadable

MAX_UNPACKED = 200_000_000  # bytes of XML; chosen: a book of 2,000 pages has a tenth of it

_OLD_OR_ENCRYPTED = b"\xd0\xcf\x11\xe0"  # the container of both
_CORE = {"modified": "updated", "contentStatus": "status", "language": "lang"}


def unpack(data: bytes) -> zipfile.ZipFile:
    """The file opened; raises Unreadable for one that is encrypted, broken or far too large."""
    if data.startswith(_OLD_OR_ENCRYPTED):
        raise Unreadable(
            "it has a password or is of an Office before 2007; save it anew without a password"
        )
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError) as error:
        raise Unreadable("broken, or not what its name says: it cannot be unpacked") from error
    parts = [part for part in archive.infolist() if part.filename.endswith((".xml", ".rels"))]
    size = sum(part.file_size for part in parts)
    if size > MAX_UNPACKED:
        raise Unreadable(
            f"of {size / 1e6:,.0f} MB when unpacked, more than {MAX_UNPACKED / 1e6:.0f} MB; "
            "split it"
        )
    return archive


def read(archive: zipfile.ZipFile) -> Fields:
    """When it was modified, its status and language, and its custom properties by name.

    Its author and title are whatever its template had; they are not used here.
    """
    found: dict[str, str | None] = {}
    for element in _parse(archive, "docProps/core.xml"):
        name = element.tag.rsplit("}", 1)[-1]
        if name in _CORE:
            found[_CORE[name]] = element.text
    custom: dict[str, str | None] = {}
    for element in _parse(archive, "docProps/custom.xml"):
        if element.get("name") and len(element):
            custom[element.attrib["name"]] = element[0].text
    return normalize({**found, **custom})


def _parse(archive: zipfile.ZipFile, name: str) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(archive.read(name))
    except (KeyError, ElementTree.ParseError):
        return ElementTree.Element("none")
