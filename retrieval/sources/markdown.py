"""A folder of Markdown files to Documents, with what had to be skipped or cleaned."""

import hashlib
import itertools
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml
from markdown_it import MarkdownIt

from retrieval import languages
from retrieval.errors import ConfigError
from retrieval.lexical import DATA
from retrieval.records import Document

SUFFIXES = (".md", ".markdown")
MAX_BYTES = 2_000_000  # chosen: a page of this size is a log or an export, not a page

VERIFIED_KEYS = ("last_verified", "verified_at", "verified", "last_reviewed_on", "last_reviewed")
UPDATED_KEYS = ("updated_at", "last_updated", "updated", "last_modified", "lastmod", "date")
OWNER_KEYS = ("owner", "owners", "owner_slack", "maintainer", "team")
LANGUAGE_KEYS = ("lang", "language", "locale")

_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?\n)??---[ \t]*(?:\n|\Z)", re.DOTALL)

# A tag of HTML, one with attributes, or a link's bare address.
_TAG = re.compile(
    r"</?(?:a|abbr|b|blockquote|body|br|center|code|dd|del|details|div|dl|dt|em|figure|figcaption"
    r"|font|h[1-6]|hr|html|i|img|ins|kbd|li|mark|ol|p|pre|s|samp|small|span|strong|sub|summary|sup"
    r"|table|tbody|td|tfoot|th|thead|tr|u|ul|var)(?:\s[^<>]*)?/?>"
    r"|<[A-Za-z][\w.:-]*\s[^<>]*=[^<>]*>|<\w+:[^<>\s]*>",
    re.IGNORECASE,
)

_CODE = re.compile(r"^(```|~~~).*?(?:^\1|\Z)|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LANGUAGE_TEXT = 10_000  # characters, of which some may be code

_parser = MarkdownIt("commonmark").disable("inline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A file that did not become a document."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A document and what was cleaned on the way, in words for the operator."""

    document: Document
    notes: tuple[str, ...]


def find_files(folder: Path) -> list[Path]:
    """The Markdown files below a folder, sorted; hidden folders and linked folders are left out.

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
        files += [Path(root, name) for name in names if name.lower().endswith(SUFFIXES)]
    return sorted(files)


def read_files(
    files: Iterable[Path], *, folder: Path, base_url: str | None = None
) -> Iterator[Read | Skipped]:
    """Each file read or skipped with a reason, in order; its path is that below the folder.

    url is base_url followed by the path, or the file's own URL without a base_url.
    """
    root = folder.resolve()
    for file in files:
        path = file.relative_to(folder).as_posix()
        try:
            if reason := _refusal(file, root):
                yield Skipped(path=_shown(path), reason=reason)
                continue
            data = file.read_bytes()
        except OSError as error:
            yield Skipped(path=path, reason=f"cannot be read: {error.strerror}")
        else:
            url = f"{base_url.rstrip('/')}/{quote(path)}" if base_url else file.resolve().as_uri()
            yield parse_document(data, path=path, url=url)


def _refusal(file: Path, root: Path) -> str | None:
    """Why a file is not to be read at all; None when it is."""
    if _shown(str(file)) != str(file):
        return "its name is not UTF-8; rename it"
    if not file.resolve().is_relative_to(root):
        return "a link to a file outside the folder; put the file itself there"
    facts = file.stat()
    if not stat.S_ISREG(facts.st_mode):
        return "not a regular file"
    return _too_large(facts.st_size)


def _too_large(size: int) -> str | None:
    if size <= MAX_BYTES:
        return None
    return f"of {size / 1e6:.1f} MB, more than {MAX_BYTES / 1e6:.0f} MB; split it"


def _shown(text: str) -> str:
    """The text with what no encoding can write, half a character, as a question mark."""
    return text.encode(errors="replace").decode()


def parse_document(data: bytes, *, path: str, url: str) -> Read | Skipped:
    """One Markdown file as a document.

    Newlines become \\n and NUL is dropped, since PostgreSQL cannot hold it; nothing else of
    the text is changed. Front matter that is not valid YAML stays in the text.
    """
    if reason := _too_large(len(data)):
        return Skipped(path=path, reason=reason)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Skipped(path=path, reason=f"not UTF-8 at byte {error.start}; save it as UTF-8")
    notes = []
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        notes.append(f"{text.count(chr(0))} NUL bytes dropped")
        text = text.replace("\0", "")
    fields, body = _split_front_matter(text)
    if fields is None:
        notes.append("front matter is not valid YAML; its fields are not used")
        fields = {}
    body = (
        body if body.strip() else text
    )  # A page of nothing but front matter still says something.
    if not any(character.isalnum() for character in body):
        return Skipped(path=path, reason="empty: it has no words")
    if longest := max(map(len, DATA.findall(body)), default=0):
        notes.append(f"a word of {longest:,} characters is kept but cannot be searched for")
    document = Document(
        path=path,
        title=_one_line(fields.get("title")) or _first_heading(body) or _title_from(path),
        url=url,
        text=body,
        owner=next((value for key in OWNER_KEYS if (value := _one_line(fields.get(key)))), None),
        updated_at=next((t for key in UPDATED_KEYS if (t := _timestamp(fields.get(key)))), None),
        verified_at=next((v for key in VERIFIED_KEYS if (v := _day(fields.get(key)))), None),
        language=_stated_language(fields) or languages.detect(_prose(body)),
    )
    return Read(document=replace(document, content_hash=_hash(document)), notes=tuple(notes))


def _split_front_matter(text: str) -> tuple[Mapping[str, Any] | None, str]:
    """The fields and the text after them; None for fields that cannot be read."""
    match = _FRONT_MATTER.match(text)
    if not match:
        return {}, text
    try:
        fields = yaml.safe_load(match[1] or "")
    # PyYAML's constructors raise whatever they meet: ValueError for 2026-02-31, KeyError for
    # `!!bool maybe`, AttributeError for `!!timestamp x`, RecursionError for deep nesting.
    except Exception:
        return None, text
    body = text[match.end() :]
    if fields is None:
        return {}, body
    return (fields, body) if isinstance(fields, dict) else (None, text)


def _first_heading(text: str) -> str | None:
    tokens = _parser.parse(text)
    for token, inline in itertools.pairwise(tokens):
        if token.type == "heading_open" and token.tag == "h1":
            return plain_heading(inline.content) or None
    return None


def plain_heading(markdown: str) -> str:
    """A heading's text on one line without its markup, {#anchors} among it."""
    return " ".join(plain_text(re.sub(r"\{#[^}]*\}", "", markdown)).split())


def plain_text(markdown: str) -> str:
    """The words of a Markdown text: link targets, tags, rules and emphasis marks are left out.

    For searching, where a link's address would take the place of words. Never for showing.
    What only looks like a tag is a word: <timeout>, <maxConnections>, <your-token>.
    """
    # Beyond the last end of a comment there is none to look for, again and again.
    closed, end, rest = markdown.rpartition("-->")
    text = re.sub(r"<!--.*?-->", "", closed + end, flags=re.DOTALL) + rest
    text = re.sub(
        r"!?\[([^\[\]]*)\](?:\([^()\s]*(?:\([^()]*\)[^()\s]*)*(?:\s\"[^\"]*\")?\)|\[[^\]]*\])",
        r"\1",
        text,
    )
    text = _TAG.sub(" ", text)
    text = re.sub(r"(?<![ \t])[ \t]*\|[ \t:|-]*", " | ", text)
    text = re.sub(r"[*`]+|(?<!\w)_+|_+(?!\w)|([-=~#.])\1{2,}|^#+", "", text, flags=re.MULTILINE)
    return re.sub(r"[ \t]{2,}", " ", text).strip()


def _stated_language(fields: Mapping[str, Any]) -> str | None:
    stated = (_one_line(fields.get(key)) for key in LANGUAGE_KEYS)
    return next((found for value in stated if value and (found := languages.parse(value))), None)


def _prose(markdown: str) -> str:
    """The words at the head of a text without its code, to tell its language by."""
    return plain_text(_CODE.sub(" ", markdown[:LANGUAGE_TEXT]))


def _title_from(path: str) -> str:
    stem = path.rsplit("/", 1)[-1].split(".")[0]
    return stem.replace("-", " ").replace("_", " ").strip() or path


def _one_line(value: object) -> str | None:
    """A field as one line of text; lists are joined, anything deeper is not used."""
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str | int | float) for item in items):
        return None
    try:
        line = ", ".join(str(item) for item in items)
    except ValueError:  # a number of thousands of digits
        return None
    return " ".join(_shown(line).replace("\0", "").split()) or None


def _day(value: object) -> date | None:
    stamp = _timestamp(value)
    return stamp.date() if stamp else None


def _timestamp(value: object) -> datetime | None:
    """A YAML date or an ISO 8601 string as an aware UTC time; None for anything else."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, datetime):
        try:
            return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        except OverflowError:  # the first or last day of the calendar, in another zone
            return None
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    return None


def _hash(document: Document) -> str:
    fields = (
        document.path,
        document.title,
        document.url,
        document.text,
        document.owner,
        document.updated_at and document.updated_at.isoformat(),
        document.verified_at and document.verified_at.isoformat(),
        document.language,
    )
    return hashlib.sha256(repr(fields).encode()).hexdigest()
