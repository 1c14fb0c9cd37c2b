"""What is not as it was of index, settings and code between two runs, as causes; pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app import eval_runs, mrkdwn
from app.eval_runs import Run, StoredRun
from app.loop.index import Index
from retrieval.generations import SAME_MODEL, compare_probes

# In the order in which they are told where they explain as many cases.
Kind = Literal[
    "unsearchable",
    "titles",
    "folder",
    "removed",
    "moved",
    "changed",
    "added",
    "embedder",
    "chunker",
    "settings",
    "document kinds",
    "code",
    "generation",
    "elsewhere",
]

# It was lost by that; it may well have been; it changed, and nothing else speaks for it.
Strength = Literal["strong", "weak", "none"]

OTHER_CUTS = 1.5  # times as many or as few chunks for as much text are no matter of edits; chosen
EMPTY = "(empty)"  # two marks of code with nothing between them are no code
NAMES_TOLD = 8  # of one cause; more are counted
NAME_LENGTH = 120  # of a path or a title
REASON_LENGTH = 300  # of why nothing could be searched
# Before the last name of a path; a ticket may be read by anybody. From a text's start, or from a
# quotation mark, the names may hold spaces.
FOLDERS = re.compile(
    r"""(?:^|(?<=['"]))~?/+(?:[^'"/\n]+/+)*(?=[^'"/])|(?<![\w.~-])~?/+(?:[^\s'"/]+/+)*(?=[^\s'"/])"""
)
# Settings that are told by a cause of their own, or change with the questions.
TOLD_OTHERWISE = {"generation_id", "embedder", "chunker", "rewriting"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Something that changed, and what it explains."""

    kind: Kind
    told: str  # a sentence, in Markdown that has no marks but those of code
    explains: frozenset[str] = frozenset()  # lost cases, by id
    strength: Strength = "strong"

    def explaining(self, case_ids: frozenset[str]) -> "Cause":
        return replace(self, explains=case_ids)


def find(good: StoredRun, run: Run) -> list[Cause]:
    """What changed everywhere; of a good run before there were such notes only settings and code.

    An index that could not be searched has used no settings.
    """
    causes: list[Cause] = []
    if good.index:
        causes += _find_models(good.index, run.index)
        causes += _find_cuts(good.index, run.index)
        is_anew = good.index.generation_id != run.index.generation_id
        if is_anew and not causes:
            causes.append(Cause(kind="generation", told="The index was built anew."))
        causes += _find_kinds(good.index, run.index)
    if run.index.failure and not any(cause.kind == "unsearchable" for cause in causes):
        reason = code(_hide_folders(run.index.failure), REASON_LENGTH)
        causes.append(Cause(kind="unsearchable", told=f"Nothing was found: {reason}."))
    if not run.index.failure:
        causes += _find_settings(good, run)
    if good.commit != run.commit:
        told = f"The code is at {_tell_commit(run)}, it was at {_tell_commit(good)}."
        causes.append(Cause(kind="code", told=told, strength="none"))
    return causes


def code(text: str, length: int = NAME_LENGTH) -> str:
    """Text as code, which Markdown and Slack show as it is: nobody is called, nothing linked."""
    shown = mrkdwn.flatten(text, length).replace("`", "'")
    return f"`{shown or EMPTY}`"


def list_code(names: Sequence[str]) -> str:
    """Names as code, by commas; of many the first and how many more."""
    told = ", ".join(map(code, names[:NAMES_TOLD]))
    more = len(names) - NAMES_TOLD
    return f"{told} and {more} more" if more > 0 else told


def _find_models(before: Index, now: Index) -> Iterator[Cause]:
    """Another model built the index, or is loaded and can't search it."""
    if before.embedder != now.embedder:
        told = f"The embedding model is {_name(now.embedder)}, it was {_name(before.embedder)}."
        yield Cause(kind="embedder", told=told)
    elif (similarity := compare_probes(before.probe, now.probe)) < SAME_MODEL:
        yield Cause(kind="embedder", told=f"{_tell_swap(now.embedder, similarity)}.")
    if now.failure and now.embedder != now.model:
        told = f"The index is of the embedding model {_name(now.embedder)}, and {_name(now.model)}"
        yield Cause(kind="unsearchable", told=f"{told} is set: nothing is found by it.")
    elif now.failure and (similarity := compare_probes(now.probe, now.model_probe)) < SAME_MODEL:
        told = f"{_tell_swap(now.embedder, similarity)}, and the index is still the old one's"
        yield Cause(kind="unsearchable", told=f"{told}: nothing is found until it is built anew.")


def _tell_swap(name: str | None, similarity: float) -> str:
    alike = f"probe similarity {similarity:.2f}"
    return f"The embedding model {_name(name)} changed under the same name ({alike})"


def _find_cuts(before: Index, now: Index) -> Iterator[Cause]:
    """Another chunker, by its name or by how many chunks it makes of as much text."""
    was, is_now = _measure_cut(before), _measure_cut(now)
    parts = f"there is a chunk for every {is_now:.0f} characters, there was one for every {was:.0f}"
    if before.chunker != now.chunker:
        told = f"The chunker is {code(str(now.chunker))}, it was {code(str(before.chunker))}"
        yield Cause(kind="chunker", told=f"{told}: {parts}." if was and is_now else f"{told}.")
    elif was and is_now and max(was, is_now) / min(was, is_now) > OTHER_CUTS:
        told = f"{parts.capitalize()}: the chunker cuts otherwise, under the same name."
        yield Cause(kind="chunker", told=told)


def _measure_cut(index: Index) -> float:
    """Characters for each chunk; 0 where there is none."""
    return index.characters / index.chunks if index.chunks else 0.0


def _find_kinds(before: Index, now: Index) -> Iterator[Cause]:
    new = {kind: count for kind, count in now.kinds.items() if kind not in before.kinds}
    if new:
        told = ", ".join(f"{code(kind or 'without ending')} ({new[kind]})" for kind in sorted(new))
        told = f"There are documents of a new kind: {told}."
        yield Cause(kind="document kinds", told=told, strength="none")


def _find_settings(good: StoredRun, run: Run) -> Iterator[Cause]:
    changed = [
        f"{code(name)} is {_tell(now)}, it was {_tell(before)}"
        for name, (before, now) in eval_runs.find_changed(good, run.settings).items()
        if name not in TOLD_OTHERWISE
    ]
    if changed:
        yield Cause(kind="settings", told=f"Settings changed: {'; '.join(changed)}.")


def _tell(value: object) -> str:
    return "not set" if value is None else _name(str(value))


def _name(text: str | None) -> str:
    """A name or value as code; of a path the last part."""
    return code(_hide_folders(str(text)))


def _hide_folders(text: str) -> str:
    return FOLDERS.sub("", text)


def _tell_commit(run: Run | StoredRun) -> str:
    return code(run.commit or "unknown")
