"""Whether the candidates are good enough to answer from, and which of them."""

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from retrieval import editions, shingles
from retrieval.lexical import build_words
from retrieval.records import Candidate
from retrieval.tuning import Tuning

SHINGLE = 4  # words; Broder, On the Resemblance and Containment of Documents, 1997
NEAR_COPY = 0.9  # of the section's shingles, in another one


def apply(
    candidates: Sequence[Candidate], query: str, *, floor: float, tuning: Tuning
) -> tuple[Candidate, ...]:
    """The candidates to answer from, at most tuning.keep; best first as they come.

    The floor decides about the question: below it the best one, and so all, are refused, and an
    empty tuple is a result like any other. Above, those far less relevant than the best are left
    out, and near copies of what is kept or of a part of it; of two copies that which was verified
    last is kept, and of other editions, such as a policy of two years, both are. A question may
    need two pages: for each section that is kept of a document, its others count
    tuning.same_document of what they did.
    """
    best = candidates[0].relevance if candidates else None
    if best is None or best < floor:
        return ()
    asked = set(build_words(query).split())
    kept: list[Candidate] = []
    texts: list[_Text] = []  # of those kept
    left = [each for each in candidates if (each.relevance or 0) >= tuning.keep_ratio * best]
    while left and len(kept) < tuning.keep:
        documents = Counter(each.section.document_id for each in kept)
        chosen = max(
            left,
            key=lambda each: (
                (each.relevance or 0) * tuning.same_document ** documents[each.section.document_id]
            ),
        )
        left.remove(chosen)
        text = _read(chosen)
        copied = [
            at
            for at, each in enumerate(texts)
            if _is_near_copy(text, each, asked) and not _are_editions(chosen, kept[at])
        ]
        if not copied:
            kept.append(chosen)
            texts.append(text)
        elif _is_newer(chosen, kept[copied[0]]) and _is_near_copy(texts[copied[0]], text, asked):
            # Of two that hardly differ, what differs is what has changed since.
            kept[copied[0]] = replace(chosen, relevance=kept[copied[0]].relevance)
            texts[copied[0]] = text
    return tuple(kept)


def _are_editions(one: Candidate, other: Candidate) -> bool:
    """Whether two are of one work, and known to be earlier and later."""
    is_one_work = editions.is_one_work(one.section, other.section)
    return is_one_work and not editions.is_one_edition(one.section, other.section)


def _is_newer(one: Candidate, other: Candidate) -> bool:
    dates = one.section.verified_at, other.section.verified_at
    return dates[0] is not None and dates[1] is not None and dates[0] > dates[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """A section as it is compared with others."""

    words: Set[str]  # of title, path and text
    shingles: Set[str]  # of the text


def _read(candidate: Candidate) -> _Text:
    section = candidate.section
    words = build_words(section.text).split()
    return _Text(
        words={*build_words(f"{section.title} {section.path}").split(), *words},
        shingles=shingles.build(words, SHINGLE),
    )


def _is_near_copy(one: _Text, other: _Text, asked: Set[str]) -> bool:
    """Whether a section says hardly anything that the other does not, which may say more.

    Of pages made from one template for several services each is near to the others: one that has
    a word of the question that the other has not is no copy.
    """
    if (asked & one.words) - other.words:
        return False
    return len(one.shingles & other.shingles) >= NEAR_COPY * len(one.shingles)
