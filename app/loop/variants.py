"""What if a setting were another: a set of cases as it is and with each variant, paired.

Nothing is saved: what is only tried is no run of the set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from app.evaluating import EvalSet, Progress, answer_case
from app.generate.generator import Generator
from app.searching import build_query, search
from retrieval import comparison, evaluation
from retrieval.comparison import Difference
from retrieval.errors import ConfigError
from retrieval.evaluation import CaseResult, EvalCase
from retrieval.records import Retrieval
from retrieval.retrieve import Retriever
from retrieval.tuning import Tuning

if TYPE_CHECKING:  # takes seconds to import, and most runs do without
    from app.reword import Rewriter

# What the index was built with; another value is of no effect until it is built anew.
INDEXED = ("section_tokens", "chunk_tokens", "token_dimension", "heading_weight")
# Least and greatest value of the others; without a source or a proof, chosen.
RANGES: Mapping[str, tuple[type[int] | type[float], float, float]] = {
    "k1": (float, 0, 100),
    "b": (float, 0, 1),
    "depth": (int, 1, 1_000),
    "rrf_k": (int, 0, 10_000),
    "identifier_weight": (float, 0, 100),
    "interacted": (int, 1, 1_000),
    "late_weight": (float, 0, 100),
    "candidates": (int, 1, 1_000),
    "keep": (int, 1, 100),
    "floor": (float, 0, 1),
    "keep_ratio": (float, 0, 1),
    "same_document": (float, 0, 1),
    "replaced_share": (float, 0, 1),
    "unverified_share": (float, 0, 1),
    "unverified_ratio": (float, 0, 1),
    "exact_below": (int, 0, 1_000_000_000),
    "ef_search": (int, 1, 1_000),  # pgvector takes no more
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Settings that are tried together."""

    changes: Mapping[str, Any]  # number by the name of the setting; at least one

    @property
    def name(self) -> str:
        """The settings as they are typed."""
        return ",".join(f"{name}={value:.12g}" for name, value in self.changes.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A variant beside what is used now, over the same cases."""

    variant: Variant
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A set as it is, and what each variant changes."""

    name: str  # of the set
    questions: Mapping[str, str]  # by case_id
    means: Mapping[str, Mapping[str, float]]  # as it is: group -> metric -> mean
    tried: tuple[Tried, ...]


def parse(texts: Sequence[str], tuning: Tuning) -> list[Variant]:
    """A variant for each text such as rrf_k=20 or keep=4,floor=0.1, to be tried on this tuning.

    Raises ConfigError naming all that is wrong at once.
    """
    now = asdict(tuning)
    wrong: list[str] = []
    variants: list[Variant] = []
    for text in texts:
        changes: dict[str, float] = {}
        for part in text.split(","):
            name, _, value = (each.strip() for each in part.partition("="))
            if name in changes:
                wrong.append(f"{name} is there twice in {text}")
            elif fault := _find_fault(name, value):
                wrong.append(fault)
            elif (number := RANGES[name][0](value)) == now[name]:
                wrong.append(f"{name} is {value} already")
            else:
                changes[name] = number
        tried = {**now, **changes}
        if tried["ef_search"] < tried["depth"]:
            wrong.append(f"{text}: ef_search is at least depth, so set both")
        variant = Variant(changes=changes)
        if changes and variant in variants:
            wrong.append(f"{text} is there twice")
        variants.append(variant)
    if wrong:
        raise ConfigError(f"These variants cannot be tried: {'; '.join(wrong)}.")
    return variants


def _find_fault(name: str, value: str) -> str | None:
    """What is wrong with a setting, in words."""
    if name in INDEXED:
        return (
            f"{name} is built into the index: change it in retrieval/tuning.py, ingest with "
            "--tenant into a tenant of its own, and run the cases there"
        )
    if name not in RANGES:
        return f"{name or 'a blank'} is no setting; there are {', '.join(RANGES)}"
    kind, low, high = RANGES[name]
    try:
        number = kind(value)
    except ValueError:
        number = None
    # Python reads 2_0 and digits of other scripts, too.
    if number is None or "_" in value or not value.isascii():
        return f"{name} takes {'a whole number' if kind is int else 'a number'}, not {value!r}"
    if not low <= number <= high:
        return f"{name} goes from {low:g} to {high:g}"
    return None


def measure(
    retriever: Retriever,
    eval_set: EvalSet,
    variants: Sequence[Variant],
    *,
    progress: Progress,
    generator: Generator | None = None,
    rewriter: "Rewriter | None" = None,
) -> WhatIf:
    """Each case as it is and with every variant; with a generator it is answered each time, too.

    A model's wordings are asked for once, so that they do not differ. Raises as a search does, and
    as the generator does.
    """
    retrievers = [
        replace(retriever, tuning=replace(retriever.tuning, **each.changes)) for each in variants
    ]
    results: list[list[CaseResult]] = []  # of a case: as it is, then with each variant
    for done, case in enumerate(eval_set.cases, 1):
        found = search(retriever, case.turns, rewriter).retrieval
        retrievals = [found, *(_repeat(each, case, found) for each in retrievers)]
        results.append([_score(case, each, generator) for each in retrievals])
        progress(done, len(eval_set.cases))
    now, *others = zip(*results, strict=True)
    return WhatIf(
        name=eval_set.name,
        questions={case.case_id: case.question for case in eval_set.cases},
        means=evaluation.means(now),
        tried=tuple(
            Tried(variant=variant, differences=_compare(now, other))
            for variant, other in zip(variants, others, strict=True)
        ),
    )


def _repeat(retriever: Retriever, case: EvalCase, found: Retrieval) -> Retrieval:
    """The same search by another retriever, in the wordings that were found with."""
    query = build_query(retriever.database, case.turns)
    if query == found.query:
        return retriever.retrieve(query)
    return retriever.retrieve(query, lambda _: found.query)


def _score(case: EvalCase, retrieval: Retrieval, generator: Generator | None) -> CaseResult:
    answer = answer_case(generator, case, retrieval) if generator else None
    return evaluation.build_result(case, retrieval, answer)


def _compare(now: Sequence[CaseResult], other: Sequence[CaseResult]) -> tuple[Difference, ...]:
    values = [{each.case.case_id: each.values for each in results} for results in (now, other)]
    return tuple(comparison.compare(*values))
