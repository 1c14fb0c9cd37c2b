"""What is not as it was of index, settings and code between two runs, as causes; pure."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from app import mrkdwn
from app.evaluating import Run, StoredRun
from app.loop.index import Index
from retrieval.generations import SAME_MODEL

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

OTHER_CUTS = 0.1  # of the chunks that as many pages gave before: more or fewer were not edited
NAMES_TOLD = 8  # of one cause; more are counted
NAME_LENGTH = 120  # of a path or a title
REASON_LENGTH = 300  # of why nothing could be searched
FOLDERS = re.compile(r"(?<!\S)/(?:[^\s/]+/)*")  # before a name; a ticket may be read by anybody
# Settings that are told by a cause of their own, or change with the questions.
TOLD_OTHERWISE = {"generation_id", "embedder", "chunker", "rewriting"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Something that changed, and what it explains."""

    kind: Kind
    told: str  # a sentence, in Markdown that has no marks but those of code
    explains: frozenset[str] = frozenset()  # lost cases, by id

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
        reason = code(FOLDERS.sub("", run.index.failure), REASON_LENGTH)
        causes.append(Cause(kind="unsearchable", told=f"Nothing was found: {reason}."))
    if not run.index.failure:
        causes += _find_settings(good, run)
    if good.commit != run.commit:
        told = f"The code is at {code(run.commit or 'unknown')}, it was at"
        causes.append(Cause(kind="code", told=f"{told} {code(good.commit or 'unknown')}."))
    return causes


def code(text: str, length: int = NAME_LENGTH) -> str:
    """Text as code, which Markdown and Slack show as it is: nobody is called, nothing linked."""
    return f"`{mrkdwn.flatten(text, length).replace('`', chr(39))}`"


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
    elif (similarity := _compare(before.probe, now.probe)) < SAME_MODEL:
        yield Cause(kind="embedder", told=f"{_tell_swap(now.embedder, similarity)}.")
    if now.failure and now.embedder != now.model:
        told = f"The index is of the embedding model {_name(now.embedder)}, and {_name(now.model)}"
        yield Cause(kind="unsearchable", told=f"{told} is set: nothing is found by it.")
    elif now.failure and (similarity := _compare(now.probe, now.model_probe)) < SAME_MODEL:
        told = f"{_tell_swap(now.embedder, similarity)}, and the index is still the old one's"
        yield Cause(kind="unsearchable", told=f"{told}: nothing is found until it is built anew.")


def _tell_swap(name: str | None, similarity: float) -> str:
    alike = f"probe similarity {similarity:.2f}"
    return f"The embedding model {_name(name)} changed under the same name ({alike})"


def _find_cuts(before: Index, now: Index) -> Iterator[Cause]:
    """Another chunker, by its name or by what it makes of as many pages."""
    same_count = before.documents == now.documents and before.chunks
    differs = same_count and abs(now.chunks / before.chunks - 1) > OTHER_CUTS
    parts = f"the same {now.documents} pages make {now.chunks} chunks instead of {before.chunks}"
    if before.chunker != now.chunker:
        told = f"The chunker is {code(str(now.chunker))}, it was {code(str(before.chunker))}"
        yield Cause(kind="chunker", told=f"{told}: {parts}." if same_count else f"{told}.")
    elif differs:
        told = f"{parts.capitalize()}: the chunker cuts otherwise, under the same name."
        yield Cause(kind="chunker", told=told)


def _find_kinds(before: Index, now: Index) -> Iterator[Cause]:
    new = {kind: count for kind, count in now.kinds.items() if kind not in before.kinds}
    if new:
        told = ", ".join(f"{code(kind or 'without ending')} ({new[kind]})" for kind in sorted(new))
        yield Cause(kind="document kinds", told=f"There are documents of a new kind: {told}.")


def _find_settings(good: StoredRun, run: Run) -> Iterator[Cause]:
    before = good.settings
    now = json.loads(json.dumps(dict(run.settings)))  # as those of before went: no tuples
    changed = [
        f"{code(name)} is {_tell(now.get(name))}, it was {_tell(before.get(name))}"
        for name in dict.fromkeys([*now, *before])
        if name not in TOLD_OTHERWISE and now.get(name) != before.get(name)
    ]
    if changed:
        yield Cause(kind="settings", told=f"Settings changed: {'; '.join(changed)}.")


def _tell(value: object) -> str:
    return "not set" if value is None else code(str(value))


def _name(model: str | None) -> str:
    """A model's name; of a folder the last part."""
    return code(FOLDERS.sub("", str(model)))


def _compare(before: Sequence[float], now: Sequence[float]) -> float:
    """The similarity of two probes; 0 where they have not one dimension."""
    return float(np.dot(before, now)) if len(before) == len(now) else 0.0
