"""What is known of each page of a source before it is read: by its rules and its repository."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from codeowners import CodeOwners
from pathspec import PathSpec

from retrieval.sources import history, notion
from retrieval.sources.catalog import PageRule, Source
from retrieval.sources.reads import Facts

_NUMBER = re.compile(r"(?:.*_)?(\d{4,})")  # Confluence's, at the end of an exported page's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A source's rules, and what its folder's repository knows."""

    source: Source
    patterns: tuple[tuple[PathSpec[Any], PageRule], ...]
    dates: Mapping[str, datetime] = field(default_factory=dict)  # by path below the folder
    owners: CodeOwners | None = None
    place: str = ""  # of the folder in its repository, ending in /

    def find_facts(self, file: Path, path: str) -> Facts:
        """What is known of one page.

        The last page rule that matches it and says something counts, then the source; an owner
        in CODEOWNERS stands between the two, since page rules are written for Footnote.
        """
        matching = self._find_matching(path)
        owner = next((rule.owner for rule in matching if rule.owner), None)
        if owner is None and self.owners:
            owner = history.find_owner(self.owners, self.place + path)
        return Facts(
            path=path,
            url=build_url(self.source, file, path),
            audience=self._choose_audience(matching),
            owner=owner or self.source.owner,
            freshness_days=next(
                (rule.freshness_days for rule in matching if rule.freshness_days),
                self.source.freshness_days,
            ),
            anchors=self.source.anchors,
            updated_at=self.dates.get(path),
        )

    def find_audience(self, path: str) -> tuple[str, ...]:
        """Who may read a page, unless it says itself that fewer may."""
        return self._choose_audience(self._find_matching(path))

    def _choose_audience(self, matching: Sequence[PageRule]) -> tuple[str, ...]:
        return next((rule.audience for rule in matching if rule.audience), self.source.audience)

    def _find_matching(self, path: str) -> list[PageRule]:
        """The page rules for a page, the one that counts most first."""
        normal = unicodedata.normalize("NFC", path)
        return [rule for spec, rule in self.patterns if spec.match_file(normal)][::-1]


def build(source: Source) -> Rules:
    """The rules that the source itself states."""
    patterns = tuple((compile_pattern(rule.pattern), rule) for rule in source.pages)
    return Rules(source=source, patterns=patterns)


def load(folder: Path, source: Source) -> Rules:
    """The rules for the files of a folder; git and CODEOWNERS are read once."""
    root = history.find_root(folder)
    below = folder.resolve().relative_to(root).as_posix()
    return replace(
        build(source),
        dates=history.load_dates(folder) if source.dates == "git" else {},
        owners=history.load_owners(root),
        place="" if below == "." else f"{below}/",
    )


def compile_pattern(pattern: str) -> PathSpec[Any]:
    """A pattern as in .gitignore; raises ValueError for one that is none."""
    return PathSpec.from_lines("gitignore", [unicodedata.normalize("NFC", pattern)])


def build_url(source: Source, file: Path, path: str) -> str:
    """Where a page is read: by the source's base_url, else the file's own URL."""
    if source.base_url is None:
        return file.resolve().as_uri()
    stem = path[: len(path) - len(file.suffix)]
    parts = {"path": path, "stem": stem, "id": _find_id(file.stem) or stem}
    if not any(f"{{{name}}}" in source.base_url for name in parts):
        return f"{source.base_url.rstrip('/')}/{quote(path)}"
    return re.sub(r"\{(path|stem|id)\}", lambda match: quote(parts[match[1]]), source.base_url)


def _find_id(stem: str) -> str | None:
    _, notion_hash = notion.split_name(stem)
    if notion_hash:
        return notion_hash.replace("-", "")
    match = _NUMBER.fullmatch(stem)
    return match[1] if match else None
