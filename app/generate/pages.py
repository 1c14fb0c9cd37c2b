"""A kept section as what can be quoted of it: statements, their blocks, headings and sizes."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from retrieval.records import Candidate
from retrieval.sources.markdown import plain_text
from retrieval.statements import Statement, parse

LONGEST = 90  # words of one statement that are shown; chosen, with room for what leads in

_BY_NUMBER = re.compile(r"\d{1,9}[.)]\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A kept section with its statements."""

    candidate: Candidate
    statements: tuple[Statement, ...]
    sizes: tuple[int, ...]  # words of each statement; 0 for what has nothing to read
    headings: tuple[int | None, ...]  # the index of each statement's nearest, where it has one
    groups: dict[int, tuple[int, ...]]  # what each top-level block has to read, by index

    def size(self, indexes: Iterable[int]) -> int:
        """In words as they are shown."""
        return sum(min(self.sizes[index], LONGEST) for index in indexes)

    def block(self, index: int) -> tuple[int, ...]:
        """The statements of the top-level block that one is in."""
        return self.groups[self.statements[index].group]

    def counts_steps(self, index: int) -> bool:
        """Whether a statement is in a numbered list."""
        first = self.statements[self.block(index)[0]]
        return first.kind == "item" and bool(_BY_NUMBER.match(first.text))

    def following(self, index: int) -> tuple[int, ...]:
        """The block that a statement only introduces; empty where it says something itself."""
        statement = self.statements[index]
        after = next((at for at in range(index + 1, len(self.sizes)) if self.sizes[at]), None)
        if (
            statement.kind != "sentence"
            or after is None
            or self.statements[after].kind == "heading"
        ):
            return ()
        return self.block(after) if statement.text.rstrip("*_").endswith(":") else ()


def read(candidate: Candidate) -> Page:
    section = candidate.section
    statements = parse(section.text, under=section.heading_path)
    sizes = tuple(
        0 if each.kind == "markup" else count(plain_text(each.text)) for each in statements
    )
    groups: dict[int, list[int]] = defaultdict(list)
    headings: list[int | None] = []
    heading = None
    for index, statement in enumerate(statements):
        heading = index if statement.kind == "heading" else heading
        headings.append(heading)
        if sizes[index]:
            groups[statement.group].append(index)
    return Page(
        candidate=candidate,
        statements=statements,
        sizes=sizes,
        headings=tuple(headings),
        groups={group: tuple(indexes) for group, indexes in groups.items()},
    )


def count(text: str) -> int:
    """Words that a reader would count: neither bars, rules nor bullets."""
    return len(re.findall(r"\w+", text))
