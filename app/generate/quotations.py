"""What a statement is quoted with, and how that is shown; pure."""

import re
from collections.abc import Collection, Iterator, Sequence
from textwrap import dedent

from app.generate.pages import LONGEST, Page, count

PARAGRAPH_WORDS = 40  # up to here a paragraph is quoted whole; 60 does alike on handbook dev
LIST_WORDS = 40  # up to here a list is quoted whole; likewise
STEPS_WORDS = 80  # … and steps, tables or code; chosen
TOGETHER = 120  # with what leads in and what follows; chosen, leaving room for an opening

_POINTS_BACK = re.compile(r"\W*(?:these|those|this|such|they)\b", re.IGNORECASE)

# What goes with a statement


def surround(page: Page, index: int, *, without: Collection[int] = ()) -> list[int]:
    """A statement with what it cannot be understood without, ascending.

    Of its own block without what must not be said with it.
    """
    block = page.block(index)
    if page.statements[index].kind == "row":
        indexes = _rows(page, index, [at for at in block if at not in without])
    elif page.counts_steps(index):
        indexes = _steps(page, index, block)
    elif page.statements[index].depth:
        indexes = _items(page, index, [at for at in block if at not in without])
    elif page.statements[index].kind == "sentence":
        indexes = _sentences(page, index, block)
    else:
        indexes = [index]
    before = block[0] - 1
    if indexes[0] in block and before >= 0 and block == page.following(before):
        indexes = [before, *indexes]
    return indexes + _led_to(page, indexes)


def points_back(page: Page, index: int) -> bool:
    """Whether a sentence is about what stands before it: "These do not:"."""
    statement = page.statements[index]
    return statement.kind == "sentence" and bool(_POINTS_BACK.match(statement.text))


def _rows(page: Page, index: int, table: list[int]) -> list[int]:
    return table if page.size(table) <= STEPS_WORDS else [table[0], index]


def _steps(page: Page, index: int, block: Sequence[int]) -> list[int]:
    """One run of steps: all, as many from the first as fit if this is one of them, or from this."""
    run = _run(page, block, STEPS_WORDS)
    return (
        run
        if index in run
        else _run(page, block[block.index(_opening(page, index)) :], STEPS_WORDS)
    )


def _items(page: Page, index: int, block: Sequence[int]) -> list[int]:
    """The whole list where it is short, else the item with all that is in it."""
    if page.size(block) <= LIST_WORDS:
        return list(block)
    start = _opening(page, index)
    depth = page.statements[start].depth
    ends = (at for at in block if at > start and _opens(page, at, depth))
    end = next(ends, block[-1] + 1)
    return _fitting(page, [at for at in block if start <= at < end], STEPS_WORDS)


def _opening(page: Page, index: int) -> int:
    """Where the item that a statement is in begins."""
    depth = 1 if page.counts_steps(index) else page.statements[index].depth
    return next((at for at in range(index, -1, -1) if _opens(page, at, depth)), index)


def _opens(page: Page, index: int, depth: int) -> bool:
    return page.statements[index].kind == "item" and page.statements[index].depth <= depth


def _sentences(page: Page, index: int, block: Sequence[int]) -> list[int]:
    """The paragraph where it is short, else its sentences from this one on, but not too many."""
    at = 0 if page.size(block) <= PARAGRAPH_WORDS else block.index(index)
    if at and points_back(page, index) and page.size(block[at - 1 : at + 1]) <= PARAGRAPH_WORDS:
        at -= 1
    return _fitting(page, block[at:], PARAGRAPH_WORDS)


def _led_to(page: Page, indexes: Sequence[int]) -> list[int]:
    """What the last of the statements introduces, or as much of it as fits."""
    block = page.following(indexes[-1])
    if not block:
        return []
    kind = page.statements[block[0]].kind
    limit = STEPS_WORDS if kind in ("code", "head") or page.counts_steps(block[0]) else LIST_WORDS
    return _run(page, block, min(limit, TOGETHER - page.size(indexes)))


def _run(page: Page, block: Sequence[int], limit: int) -> list[int]:
    """The first of a block's items, whole, or of its statements; one at least."""
    fitting = _fitting(page, block, limit)
    depth = page.statements[block[0]].depth
    ends = [at for at, index in enumerate(block) if at and _opens(page, index, depth)]
    if not ends or len(fitting) == len(block):
        return fitting
    return fitting[: max((end for end in ends if end <= len(fitting)), default=len(fitting))]


def _fitting(page: Page, indexes: Sequence[int], limit: int) -> list[int]:
    """The first ones, one at least, and a table's head not alone."""
    least = 2 if page.statements[indexes[0]].kind == "head" else 1
    sizes = (page.size(indexes[:size]) for size in range(1, len(indexes) + 1))
    return list(indexes[: max(least, sum(size <= limit for size in sizes))])


# How it is shown


def show(page: Page, indexes: Sequence[int]) -> Iterator[str]:
    """The statements as written, one quotation a paragraph, list, table or code block.

    What leads in stays with what it leads to, and a heading, in bold, with what is under it. What
    is left out at the end of a list or of a long statement is told, as "… 4 more steps". Of a list
    or table, what else is left out leaves no trace.
    """
    heading = quotation = ""
    before: int | None = None
    for index in indexes:
        if page.statements[index].kind == "heading":
            if quotation:
                yield heading + dedent(quotation)
            heading, quotation, before = (
                f"**{page.statements[index].heading_path[-1]}**\n\n",
                "",
                None,
            )
            continue
        gap = None if before is None else _gap(page, before, index, quotation)
        if gap is None and quotation:
            yield heading + dedent(quotation)
            heading = quotation = ""
        quotation += (gap or "") + _shown(page, index, indented=not gap or gap[-1:] == "\n")
        before = index
        if rest := _left_out(page, index, indexes):
            yield f"{heading}{dedent(quotation)}\n\n{rest}"
            heading, quotation, before = "", "", None
    if quotation:
        yield heading + dedent(quotation)


def _gap(page: Page, before: int, index: int, quotation: str) -> str | None:
    """What stands between two statements of one quotation; None where another begins."""
    if quotation[:1].isspace() and not _indentation(page, index):
        return None  # Together they would not be dedented, and so be shown as code.
    same = page.block(before) == page.block(index)
    if index == before + 1 and (same or page.following(before)):
        between = page.candidate.section.text[
            page.statements[before].span[1] : page.statements[index].span[0]
        ]
        return between.rstrip(" \t") if "\n" in between else between
    if same and _can_be_apart(page, index):
        return "\n"
    led = page.statements[index].depth <= 1 and page.block(index) == page.following(before)
    return "\n\n" if led else None


def _can_be_apart(page: Page, index: int) -> bool:
    """Whether it may follow, in one list or table, on what does not come right before it.

    Steps would be numbered anew when shown: 4. and 6. as 4. and 5.
    """
    kind = page.statements[index].kind
    return kind == "row" or (kind == "item" and not page.counts_steps(index))


def _shown(page: Page, index: int, *, indented: bool) -> str:
    statement = page.statements[index]
    text = statement.text
    if page.sizes[index] > LONGEST:
        text = _code_head(text) if statement.kind == "code" else _head(text)
    return (_indentation(page, index) if indented else "") + text


def _head(text: str) -> str:
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    fitting = [end for end in ends if count(text[:end]) <= LONGEST]
    return f"{text[: fitting[-1]]} …"


def _code_head(text: str) -> str:
    """The first lines, and the last where that closes the fence."""
    lines = text.splitlines()
    closing = lines[-1:] if re.match(r"\s*(`{3,}|~{3,})\s*\Z", lines[-1]) else []
    head: list[str] = []
    for line in lines[: len(lines) - len(closing)]:
        if count("\n".join([*head, line])) > LONGEST:
            head += [] if len(head) > 1 else [_head(line)]
            break
        head.append(line)
    return "\n".join([*head, *closing])


def _left_out(page: Page, index: int, indexes: Sequence[int]) -> str:
    """What to tell of what is not shown after a statement; empty where all of it is."""
    statement = page.statements[index]
    if statement.kind == "code" and page.sizes[index] > LONGEST:
        lines = len(statement.text.splitlines()) - len(_code_head(statement.text).splitlines())
        return f"… {lines} more lines" if lines > 1 else "…"
    if not statement.depth:
        return ""
    block = page.block(index)
    own = [at for at in indexes if at in block]
    rest = block[block.index(index) + 1 :]
    from_first = own == list(block[: len(own)])
    if index != own[-1] or not rest or not (from_first or page.counts_steps(index)):
        return ""
    items = sum(_opens(page, at, 1) for at in rest)
    unit = "step" if page.counts_steps(index) else "item"
    return f"… {items} more {unit}{'s' * (items > 1)}" if items else "…"


def _indentation(page: Page, index: int) -> str:
    """The blanks before a statement on its line, by which a nested item is one."""
    text = page.candidate.section.text
    start = page.statements[index].span[0]
    before = text[text.rfind("\n", 0, start) + 1 : start]
    return "" if before.strip() else before
