"""sources.yml: where documents are, what is known of them, and how often they are read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import yaml
from pathspec import PathSpec
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from retrieval import audiences, cron
from retrieval.errors import ConfigError
from retrieval.records import Anchors
from retrieval.sources import addresses
from retrieval.sources.fields import MAX_FRESHNESS_DAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRule:
    """What is known of the pages whose path matches a pattern; None: what is known otherwise."""

    pattern: str  # as in .gitignore
    owner: str | None = None
    audience: tuple[str, ...] | None = None
    freshness_days: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A folder of documents, and what is known of all of them."""

    name: str
    path: Path | None = None  # a folder; of path and git, sources.yml gives one
    git: str | None = None  # URL or path of a repository
    branch: str | None = None  # None: the repository's default
    folder: str = ""  # of the repository, below which the documents are
    # {path} is the page's path, {stem} the path without its suffix, {id} the number or hash at
    # its end, by which Confluence and Notion name a page; without any, the path is appended.
    base_url: str | None = None
    audience: tuple[str, ...] = ("everyone",)
    pages: tuple[PageRule, ...] = ()  # of those that match a page, the later ones win
    owner: str | None = None
    freshness_days: int | None = None
    anchors: Anchors | None = None
    dates: Literal["page", "git"] = "page"  # git: its last commit, where a page has no date
    schedule: str | None = None  # five fields of cron, UTC; None: only when told to


def load_sources(path: Path) -> tuple[Source, ...]:
    """The sources that a file names, in its order.

    Raises ConfigError for a file that cannot be read and for what is wrong in it; the message
    names source and key, and says what to do.
    """
    try:
        loaded = yaml.load(path.read_bytes(), Loader=_Loader)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "see the example in README"
        raise ConfigError(f"{path} is not valid YAML{place}: {problem}.") from error
    entries = loaded.get("sources") if isinstance(loaded, dict) and len(loaded) == 1 else None
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path} has to be one list under the key `sources`, as in README.")
    sources = tuple(_read_entry(entry, number, path) for number, entry in enumerate(entries, 1))
    names = [source.name for source in sources]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"{path}: two sources are named {twice!r}. Rename one of them.")
    for first, second in combinations(sources, 2):
        if overlap(first, second):
            is_open = any(each.git and not each.branch for each in (first, second))
            branches = " Or name the `branch` of a repository, if that is another." * is_open
            raise ConfigError(
                f"{path}: sources {first.name!r} and {second.name!r} have pages in common, which "
                "would be there twice, once for the audience of each. Remove one of them: `pages` "
                f"gives parts of a source an audience and an owner of their own.{branches}"
            )
    return sources


def overlap(one: Source, other: Source) -> bool:
    """Whether they are the same folder of files, or one lies in the other.

    Repositories are the same or not: hosts give names below that of one to another.
    """
    if one.git and other.git:
        repository = addresses.find_place(one.git)
        if repository is None or repository != addresses.find_place(other.git):
            return False
        if one.branch and other.branch and one.branch != other.branch:
            return False
        places = PurePosixPath(one.folder), PurePosixPath(other.folder)
    else:
        here, there = _find_folder(one), _find_folder(other)
        if here is None or there is None:
            return False
        places = here, there
    return any(here.is_relative_to(there) for here, there in (places, places[::-1]))


def find_root(source: Source) -> str:
    """Where a source is, for good: the same for all ways to write its address, and no secret."""
    if source.git is None:
        return str(_find_folder(source))
    folder = f"//{source.folder}" if source.folder else ""
    branch = f" on {source.branch}" if source.branch else ""
    return f"{addresses.find_place(source.git) or addresses.HIDDEN}{folder}{branch}"


def find_renamed(roots: Mapping[str, str], sources: Sequence[Source]) -> dict[str, Source]:
    """Of sources by their roots, those that are not named any more but are one that is, by name."""
    names = {source.name for source in sources}
    named = {find_root(source): source for source in sources}
    return {
        name: named[root]
        for name, root in roots.items()
        if name not in names and root in named and not root.startswith(addresses.HIDDEN)
    }


def _find_folder(source: Source) -> PurePosixPath | None:
    """The folder of this machine whose files a source's are; None where they are in none, as those
    of a branch or of a bare repository."""
    if source.git is None:
        assert source.path is not None  # it is one or the other
        return PurePosixPath(source.path.resolve())
    place = addresses.find_place(source.git)
    is_here = place is not None and place.is_absolute() and place.suffix != ".git"
    return place / source.folder if place and is_here and not source.branch else None


class _Loader(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error: the first audience would be lost."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                problem = f"the key {key.value!r} stands twice"
                raise yaml.constructor.ConstructorError(
                    problem=problem, problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _read_entry(entry: object, number: int, path: Path) -> Source:
    name = entry.get("name") if isinstance(entry, dict) else None
    called = f"source {name!r}" if isinstance(name, str) else f"source {number}"
    try:
        read = _Entry.model_validate(entry)
    except ValidationError as error:
        raise ConfigError(f"{path}, {called}: {_explain(error)}") from error
    if problem := next(_find_contradictions(read), None):
        raise ConfigError(f"{path}, {called}: {problem}")
    return _build(read, path.parent)


def _explain(error: ValidationError) -> str:
    """The first fault in one line: its key, and what to do."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = [f"number {each + 1}" if isinstance(each, int) else each for each in first["loc"]]
    inside = f"{', '.join(place[:-1])}: " if place[:-1] else ""
    if first["type"] == "extra_forbidden":
        return f"{inside}there is no key {place[-1]!r}. Remove it, or correct its spelling."
    if first["type"] == "missing":
        return f"{inside}the key {place[-1]!r} is missing."
    problem = f"{_word(first).rstrip('.')}."
    return f"{', '.join(place)}: {problem}" if place else problem


def _word(error: ErrorDetails) -> str:
    if error["type"] == "literal_error":
        return f"has to be {error['ctx']['expected']}"
    return _WORDS.get(error["type"]) or error["msg"].removeprefix("Value error, ")


_WORDS = {
    "string_type": "has to be text, in quotes where it looks like a number or a date",
    "list_type": "has to be a list, as in README",
    "model_type": "has to be keys with values, as in README",
}


def _find_contradictions(entry: "_Entry") -> Iterator[str]:
    if (entry.path is None) == (entry.git is None):
        yield "give either path, a folder, or git, a repository."
    if entry.git is None and (entry.branch or entry.folder):
        yield "branch and folder are for a git repository. Remove them, or give git."


def _build(entry: "_Entry", folder: Path) -> Source:
    """The source; what is relative counts from the file's folder."""
    stated = {name: getattr(entry, name) for name in entry.model_fields_set}
    stated["pages"] = tuple(
        PageRule(**{name: getattr(rule, name) for name in rule.model_fields_set})
        for rule in entry.pages
    )
    if entry.path is not None:
        stated["path"] = folder / Path(entry.path).expanduser()
    elif entry.git is not None:
        stated["git"] = _locate(entry.git, folder)
    return Source(**{name: value for name, value in stated.items() if value is not None})


def _locate(git: str, folder: Path) -> str:
    """A repository's URL as it is, host:path among them; a path from the file's folder."""
    return git if addresses.is_remote(git) else str(folder / Path(git).expanduser())


def _check_text(text: str) -> str:
    if not text.strip() or any(ord(character) < 32 for character in text):
        raise ValueError("has to be text on one line")
    return text.strip()


def _check_folder(folder: str) -> str:
    if folder.startswith("/") or ".." in folder.split("/"):
        raise ValueError("has to be a folder of the repository, as docs/handbook")
    return folder.strip("/")


def _check_base_url(url: str) -> str:
    rest = url.replace("{path}", "").replace("{stem}", "").replace("{id}", "")
    if not url.lower().startswith(("https://", "http://")) or set("{} <>\"'|") & set(rest):
        raise ValueError("has to begin with https:// and may hold {path}, {stem} or {id}")
    return url


def _check_pattern(pattern: str) -> str:
    """A leading ! would turn the rule round, for all other pages."""
    try:
        count = len(PathSpec.from_lines("gitignore", [pattern]))
    except ValueError:
        count = 0
    if count != 1 or pattern.startswith(("!", "#")):
        raise ValueError("has to be a pattern as in .gitignore, as policies/ or *.pdf")
    return pattern


def _check_days(days: object) -> object:
    if type(days) is not int or not 0 < days <= MAX_FRESHNESS_DAYS:
        raise ValueError(f"has to be a number of days, from 1 to {MAX_FRESHNESS_DAYS}, unquoted")
    return days


def _split_names(value: object) -> object:
    if value is None:
        raise ValueError("says nothing. Give it a name, as everyone, or remove the key")
    return value.replace(",", " ").split() if isinstance(value, str) else value


def _parse_audience(names: list[str]) -> tuple[str, ...]:
    try:
        return audiences.parse(names)
    except ConfigError as error:
        raise ValueError(str(error)) from error


Text = Annotated[str, AfterValidator(_check_text)]
# Not None: somebody who has written the key has meant to say who.
Audience = Annotated[list[str], BeforeValidator(_split_names), AfterValidator(_parse_audience)]
Days = Annotated[int, BeforeValidator(_check_days)]


class _Rule(BaseModel):
    model_config = ConfigDict(extra="forbid")

    pattern: Annotated[Text, AfterValidator(_check_pattern)]
    owner: Text | None = None
    audience: Audience = []  # where it is not stated
    freshness_days: Days | None = None


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Text
    path: Text | None = None
    git: Text | None = None
    branch: Text | None = None
    folder: Annotated[Text, AfterValidator(_check_folder)] | None = None
    base_url: Annotated[Text, AfterValidator(_check_base_url)] | None = None
    audience: Audience = []  # where it is not stated
    pages: list[_Rule] = []
    owner: Text | None = None
    freshness_days: Days | None = None
    anchors: Anchors | None = None
    dates: Literal["page", "git"] | None = None
    schedule: Annotated[Text, AfterValidator(cron.check)] | None = None
