"""One file to a document: read by its kind, with what is known of it from elsewhere."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import fields as fields_of
from dataclasses import replace
from pathlib import PurePosixPath

from retrieval import languages, masking
from retrieval.lexical import DATA
from retrieval.records import Document
from retrieval.sources import conversion, fields, markdown, mdx, notices, notion
from retrieval.sources import text as plain
from retrieval.sources.fields import shown
from retrieval.sources.markdown import plain_text
from retrieval.sources.reads import Facts, Page, Read, Skipped, Unreadable

VERSION = "1"  # raise it with any change that reads another document from the same file

MARKDOWN = (".md", ".markdown")
TEXT = (*MARKDOWN, ".mdx", ".txt", ".csv")
SUFFIXES = (*TEXT, *conversion.HTML, *conversion.OFFICE, *conversion.UNREAD)
# Chosen: a page of such a size is a log or an export. Office files are mostly pictures.
MAX_BYTES = 2_000_000
MAX_HTML_BYTES = 10_000_000
MAX_OFFICE_BYTES = 100_000_000
LANGUAGE_TEXT = 10_000  # characters, of which some may be code

_CODE = re.compile(r"^(```|~~~).*?(?:^\1|\Z)|`[^`\n]*`", re.DOTALL | re.MULTILINE)

Convert = Callable[[bytes, str], Page]


def read(data: bytes, facts: Facts, *, convert: Convert = conversion.convert) -> Read | Skipped:
    """One file as a document, or why it is none.

    Newlines become \\n and NUL is dropped, since PostgreSQL cannot hold it; nothing else of
    a Markdown text is changed. convert reads what is not text.
    """
    path = PurePosixPath(facts.path)
    suffix = path.suffix.lower()
    title, notion_hash = notion.split_name(path.stem)
    try:
        _refuse(too_large(len(data), suffix))
        if suffix in conversion.HTML:
            facts = replace(facts, anchors=facts.anchors or "explicit")
        page = _read_text(data, suffix) if suffix in TEXT else _clean(convert(data, suffix))
        _refuse(too_large(len(page.text.encode()), None))
        if notion_hash:
            page = replace(page, stated={**notion.read_properties(page.text), **page.stated})
        return _build(page, facts, title if notion_hash else path.name.split(".")[0])
    except Unreadable as error:
        return Skipped(path=facts.path, reason=str(error))


def too_large(size: int, suffix: str | None) -> str | None:
    """Why a file of so many bytes, or its text where it has no suffix, is not read; else None."""
    most = MAX_BYTES
    if suffix in conversion.HTML:
        most = MAX_HTML_BYTES
    elif suffix in (*conversion.OFFICE, *conversion.UNREAD):
        most = MAX_OFFICE_BYTES
    if size <= most:
        return None
    of_text = "" if suffix else " of text"
    return f"of {size / 1e6:.1f} MB{of_text}, more than {most / 1e6:.0f} MB; split it"


def _refuse(reason: str | None) -> None:
    if reason:
        raise Unreadable(reason)


def _read_text(data: bytes, suffix: str) -> Page:
    text = _decode(data, suffix)
    count = text.count("\0")
    page = _READERS.get(suffix, markdown.read)(text.replace("\0", ""))
    return replace(page, notes=(f"{count} NUL bytes dropped", *page.notes)) if count else page


_READERS = {".mdx": mdx.read, ".txt": plain.read, ".csv": notion.read_database}


def _decode(data: bytes, suffix: str) -> str:
    """The text, newlines as \\n. A text file of Windows' may be in UTF-16."""
    is_wide = suffix in (".txt", ".csv") and data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = data.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start}; save it as UTF-8") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _clean(page: Page) -> Page:
    """A converted page with nothing in it that cannot be stored."""
    return replace(page, text=shown(page.text.replace("\0", "")))


def _build(page: Page, facts: Facts, name: str) -> Read:
    if not any(character.isalnum() for character in page.text):
        raise Unreadable("empty: it has no words")
    notes = page.notes
    if longest := max(map(len, DATA.findall(page.text)), default=0):
        notes += (f"a word of {longest:,} characters is kept but cannot be searched for",)
    stated = page.stated
    is_superseded, superseded_by = find_superseded(page)
    written = Document(
        path=facts.path,
        title=fields.one_line(stated.get("title"))
        or markdown.first_heading(page.text)
        or name.replace("-", " ").replace("_", " ").strip()
        or facts.path,
        url=facts.url,
        text=page.text,
        owner=fields.find_line(stated, fields.OWNER_KEYS) or facts.owner,
        updated_at=fields.find_timestamp(stated, fields.UPDATED_KEYS) or facts.updated_at,
        verified_at=fields.find_day(stated, fields.VERIFIED_KEYS),
        language=fields.find_language(stated) or languages.detect(_prose(page.text)),
        audience=fields.narrow(facts.audience, stated),
        freshness_days=fields.find_freshness(stated) or facts.freshness_days,
        is_superseded=is_superseded,
        superseded_by=superseded_by,
        anchors=facts.anchors,
    )
    document = masking.mask(written)
    return Read(document=replace(document, content_hash=_hash(document)), notes=notes)


def find_superseded(page: Page) -> tuple[bool, str | None]:
    """Whether the page says that it no longer holds, and what it names in its place."""
    is_stated, stated = fields.find_superseded(page.stated)
    is_noticed, noticed = notices.find(page.text)
    return is_stated or is_noticed, stated or noticed


def _prose(text: str) -> str:
    """The words at the head of a text without its code, to tell its language by."""
    return plain_text(_CODE.sub(" ", text[:LANGUAGE_TEXT]))


def _hash(document: Document) -> str:
    stated = [getattr(document, each.name) for each in fields_of(document)]
    return hashlib.sha256(repr(stated).encode()).hexdigest()
