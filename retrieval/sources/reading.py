"""One file to a document: read by its kind, with what is known of it from elsewhere."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import fields as fields_of
from dataclasses import replace
from pathlib import PurePosixPath

from retrieval import languages, masking, verifying
from retrieval.lexical import DATA
from retrieval.records import Document
from retrieval.sources import conversion, fields, markdown, mdx, notices, notion
from retrieval.sources import text as plain
from retrieval.sources.fields import shown
from retrieval.sources.markdown import plain_text
from retrieval.sources.reads import Empty, Facts, Page, Read, Skipped, Unreadable

VERSION = "6"  # raise it with any change that reads another document from the same file

MARKDOWN = (".md", ".markdown")
TEXT = (*MARKDOWN, ".mdx", ".txt", ".csv")
SUFFIXES = (*TEXT, *conversion.HTML, *conversion.OFFICE, *conversion.UNREAD)
# Chosen: a page of such a size is a log or an export. Office files are mostly pictures.
MAX_BYTES = 2_000_000
MAX_HTML_BYTES = 10_000_000
MAX_OFFICE_BYTES = 100_000_000
LFS_POINTER = b"version https://git-lfs.github.com/spec/"  # what stands for a file that is not here
LANGUAGE_TEXT = 10_000  # characters, of which some may be code
# Of a text's bytes; chosen. A page of French has one in thirty that is no ASCII, of Russian most.
NUL_SHARE = 0.25
FOREIGN_SHARE = 0.15

_EDITION = re.compile(r"(?<!\d)(20\d\d)(?!\d)|(?<![^\W_])v(?:ersion)?[ ._-]*(\d+(?:\.\d+)*)")
_LOCALE = re.compile(r"\.[a-z]{2}(?:[-_][A-Za-z]{2})?$")  # of README.de.md
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
        _refuse(too_large(len(data), suffix) or _not_here(data))
        if suffix in conversion.HTML:
            facts = replace(facts, anchors=facts.anchors or "explicit")
        page = _read_text(data, suffix) if suffix in TEXT else _clean(convert(data, suffix))
        if suffix == ".xlsx" and _is_of_another(str(page.stated.get("title") or ""), title):
            page = replace(page, stated={**page.stated, "title": None})
        _refuse(too_large(len(page.text.encode()), None))
        if notion_hash:
            page = replace(page, stated={**notion.read_properties(page.text), **page.stated})
        return _build(page, facts, title if notion_hash else _LOCALE.sub("", path.stem))
    except Unreadable as error:
        return Skipped(path=facts.path, reason=str(error), before=error.before)


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


def _not_here(data: bytes) -> str | None:
    if not data.startswith(LFS_POINTER):
        return None
    return "an LFS pointer; install git-lfs for the user that Footnote runs as"


def _refuse(reason: str | None) -> None:
    if reason:
        raise Unreadable(reason)


def _is_of_another(title: str, name: str) -> bool:
    """Whether a title has a year or a version where the file's name has another one.

    A sheet that is saved under a new name keeps the title that few people ever see.
    """
    stated, named = (set(_EDITION.findall(each.casefold())) for each in (title, name))
    return bool(stated - named and named - stated)


def _read_text(data: bytes, suffix: str) -> Page:
    text, notes = _decode(data, suffix)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if count := text.count("\0"):
        notes += (f"{count} NUL bytes dropped",)
    page = _READERS.get(suffix, markdown.read)(text.replace("\0", ""))
    return replace(page, notes=(*notes, *page.notes))


_READERS = {".mdx": mdx.read, ".txt": plain.read, ".csv": notion.read_database}


def _decode(data: bytes, suffix: str) -> tuple[str, tuple[str, ...]]:
    """The text, and a note where its encoding was guessed, as it is for plain text only.

    UTF-16 is known by its mark; without it, every other byte of most texts is NUL.
    """
    is_wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    if not is_wide and data.count(0) > len(data) * NUL_SHARE:
        raise Unreadable("not text, or UTF-16 without its mark; save it as UTF-8")
    try:
        return data.decode("utf-16" if is_wide else "utf-8-sig"), ()
    except UnicodeDecodeError as error:
        if is_wide:
            raise Unreadable(f"not UTF-16 at byte {error.start}; save it as UTF-8") from error
        guessed = _guess(data)
        if guessed and suffix == ".txt":
            return guessed, ("not UTF-8, read as Windows-1252; save it as UTF-8",)
        looks = ", it looks like Windows-1252" if guessed else ""
        raise Unreadable(f"not UTF-8 at byte {error.start}{looks}; save it as UTF-8") from error


def _guess(data: bytes) -> str | None:
    """The text of a Western language in Windows' encoding; None where it may be any other.

    In other scripts most letters are no ASCII.
    """
    if sum(byte > 127 for byte in data) > len(data) * FOREIGN_SHARE:
        return None
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return None


def _clean(page: Page) -> Page:
    """A converted page with nothing in it that cannot be stored."""
    return replace(page, text=shown(page.text.replace("\0", "")))


def _build(page: Page, facts: Facts, name: str) -> Read:
    if not any(character.isalnum() for character in page.text):
        raise Empty("empty: it has no words")
    notes = page.notes
    if longest := max(map(len, DATA.findall(page.text)), default=0):
        notes += (f"a word of {longest:,} characters is kept but cannot be searched for",)
    stated = page.stated
    is_superseded, superseded_by = find_superseded(page, facts)
    verified_at = fields.find_day(stated, fields.VERIFIED_KEYS)
    if verified_at and verifying.is_to_come(verified_at):
        notes += (f"verified on {verified_at}, a day to come: that counts as no date",)
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
        verified_at=verified_at,
        language=fields.find_language(stated) or languages.detect(_prose(page.text)),
        audience=fields.narrow(facts.audience, stated),
        freshness_days=fields.find_freshness(stated) or facts.freshness_days,
        is_superseded=is_superseded,
        superseded_by=superseded_by,
        anchors=facts.anchors,
    )
    document = masking.mask(written)
    return Read(document=replace(document, content_hash=_hash(document)), notes=notes)


def find_superseded(page: Page, facts: Facts) -> tuple[bool, str | None]:
    """Whether the page says that it no longer holds, and what it names in its place."""
    is_stated, stated = fields.find_superseded(page.stated, own=(facts.path, facts.url))
    is_noticed, noticed = notices.find(page.text)
    return is_stated or is_noticed, stated or noticed


def _prose(text: str) -> str:
    """The words at the head of a text without its code, to tell its language by."""
    return plain_text(_CODE.sub(" ", text[:LANGUAGE_TEXT]))


def _hash(document: Document) -> str:
    stated = [getattr(document, each.name) for each in fields_of(document)]
    return hashlib.sha256(repr(stated).encode()).hexdigest()
