"""What Claude wrote and cited to an answer whose every footnote was checked; pure."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

from app import cleaning, hidden
from app.records import Answer, Citation
from retrieval.records import StoredSection
from retrieval.statements import Block, Statement, parse, parse_blocks, statement_at

_MARKERS = re.compile(r"(?:[ \t]*\[\d+\])*")
_EMPTY_CELLS = re.compile(r"(?:\|[ \t–—-]*)+\Z")  # at the end of a row


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of what was generated, with what it is said to rest on."""

    text: str
    cited: tuple[tuple[int, str], ...] = ()  # index among the sections, from 0; cited text


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What is to be marked, and with which markers."""

    place: int  # the offset in a text at which it ends
    markers: tuple[int, ...]  # ascending


def check(pieces: Sequence[Piece], sections: Sequence[StoredSection]) -> Answer:
    """The pieces as one text with markers behind what is cited, and its citations.

    A cited text that does not stand word for word in its section is dropped; white space
    apart, the comparison is exact. A piece that is left without any is not shown, as its claim
    rests on nothing; what cited nothing is shown. Without a single cited text left there is no
    answer to show: it abstains as UNSUPPORTED, with an empty text. A section has one marker. A
    citation's heading path is that of the statement with which its cited text begins.

    Markers written by the model are removed, and its links lose their address, unless that
    is the URL of one of the sections; of other bare URLs and e-mail addresses, `cleaning` says
    what becomes. Text in code is left as it is.
    """
    pieces = [piece for piece in map(_normal, pieces) if piece.text]
    citations: dict[int, Citation] = {}  # by section_id, in order of first use
    marks: list[Mark] = []
    text = ""
    joined = False  # The piece before ended with a mark that may move behind this one.
    dropped = False
    for piece in pieces:
        markers = _number(piece, sections, citations) if piece.text.strip() else ()
        if piece.cited and piece.text.strip() and not markers:
            text = _drop(text, piece.text)
            dropped = True
            continue
        if dropped:
            text, piece = _mend(text, piece, marks)
            dropped = not piece.text
        place = len(text) + len(piece.text.rstrip())
        if joined and markers == marks[-1].markers and "\n" not in text[marks[-1].place :]:
            marks.pop()
        if markers:
            marks.append(Mark(place=place, markers=markers))
        text += piece.text
        joined = bool(markers) or (joined and not piece.text.strip())
    if not citations:
        return Answer(text="", abstained_because="UNSUPPORTED")
    if dropped:
        text, _ = _mend(text, Piece(text="\n"), marks)
    text, places = cleaning.apply(text, cleaning.html(text), [mark.place for mark in marks])
    text, places = cleaning.apply(text, cleaning.disguises(text), places)
    urls = {section.url for section in sections}
    sources = [section.text for section in sections]
    for find_edits in (cleaning.unwanted, cleaning.leftovers):
        edits = find_edits(text, urls=urls, sources=sources)
        text, places = cleaning.apply(text, edits, places)
    if not text.strip():
        return Answer(text="", abstained_because="UNSUPPORTED")
    text = _close_fence(text)
    marks = [replace(mark, place=place) for mark, place in zip(marks, places, strict=True)]
    # Without the blanks before it, but for those that make it code, in which all was left.
    text = re.sub(r"\A(?:[ \t]*\n)*(?: {1,3}(?![ \t]))?", "", insert(text, marks).rstrip())
    return Answer(text=text, citations=tuple(citations.values()))


def leave_out(answer: Answer, spans: Iterable[tuple[int, int]]) -> Answer:
    """The answer without these parts of its text, in order, and what only they cite.

    Without one that is left it abstains, as in check.
    """
    ends = ((start, _MARKERS.match(answer.text, end)) for start, end in spans)
    text, _ = cleaning.apply(answer.text, ((a, end.end(), "") for a, end in ends if end), [])
    found = cleaning.find_markers(text)
    numbers = {
        marker: number for number, marker in enumerate(dict.fromkeys(m for m, _ in found), 1)
    }
    text, _ = cleaning.apply(text, [(*span, f"[{numbers[m]}]") for m, span in found], [])
    kept = sorted(
        (
            replace(each, marker=numbers[each.marker])
            for each in answer.citations
            if each.marker in numbers
        ),
        key=lambda each: each.marker,
    )
    if not kept:
        return Answer(text="", abstained_because="UNSUPPORTED")
    return replace(answer, text=text.strip(), citations=tuple(kept))


def insert(text: str, marks: Sequence[Mark]) -> str:
    """The Markdown text with [n] at the marks, or near them where a marker would do harm.

    Behind code, a fence or a rule, not in it; in the last cell of a table's row that says
    something. A block of code has none if the mark before it says the same. Marks are in the order
    of their places.
    """
    text, _ = cleaning.apply(text, _insertions(text, marks), [])
    return text


def _normal(piece: Piece) -> Piece:
    """With \\n for every newline, and without what is not seen: removed later, it would leave
    behind what nobody has checked. NUL, for one, stands for code in cleaning."""
    text = piece.text.replace("\r\n", "\n").replace("\r", "\n")
    return replace(piece, text=hidden.remove(text))


def _drop(text: str, dropped: str) -> str:
    """The text before a piece that is dropped, with the wider of the breaks round the piece."""
    kept = text.rstrip()
    body = dropped.strip()
    start = dropped.index(body)
    gaps = (dropped[start + len(body) :], dropped[:start], text[len(kept) :])
    return kept + max(gaps, key=lambda gap: (gap.count("\n"), len(gap)))


def _mend(text: str, piece: Piece, marks: Sequence[Mark]) -> tuple[str, Piece]:
    """The text up to what was dropped and the piece after it, without what is left over of it.

    That is the punctuation that ended its sentence, a second blank, and the mark of a list's
    item that would be empty and could make the line before it a heading.
    """
    after = piece.text
    if text[-1:] in ("", *" \n\t.,;:!?"):
        after = re.sub(r"\A[.,;:!?]+(?=\s|\Z)", "", after)
    if text[-1:] in (" ", "\t"):
        after = after.lstrip(" \t")
    start = text.rfind("\n") + 1
    is_empty = re.fullmatch(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]*", text[start:])
    if is_empty and after.lstrip(" \t")[:1] == "\n" and not (marks and marks[-1].place > start):
        text = text[:start].rstrip()
    return text, replace(piece, text=after)


def _number(
    piece: Piece, sections: Sequence[StoredSection], citations: dict[int, Citation]
) -> tuple[int, ...]:
    """The markers of a piece; what it is the first to cite is added to the citations."""
    markers = set()
    for index, cited_text in piece.cited:
        if not 0 <= index < len(sections):
            continue
        section = sections[index]
        span = find(cited_text, section.text)
        if span is None:
            continue
        if section.section_id not in citations:
            citations[section.section_id] = build_citation(section, span, len(citations) + 1)
        markers.add(citations[section.section_id].marker)
    return tuple(sorted(markers))


def build_citation(section: StoredSection, span: tuple[int, int], marker: int) -> Citation:
    statement = statement_at(_parse(section.text, section.heading_path), span[0])
    return Citation(
        marker=marker,
        section_id=section.section_id,
        path=section.path,
        title=section.title,
        heading_path=statement.heading_path if statement else section.heading_path,
        url=section.find_url(span[0]),
        cited_text=section.text[slice(*span)],
        owner=section.owner,
        updated_at=section.updated_at,
        verified_at=section.verified_at,
        document_id=section.document_id,
        freshness_days=section.freshness_days,
        is_superseded=section.is_superseded,
        superseded_by=section.superseded_by,
    )


@lru_cache(maxsize=64)
def _parse(text: str, heading_path: tuple[str, ...]) -> tuple[Statement, ...]:
    """The statements of a section; an answer that grows is checked again and again."""
    return parse(text, under=heading_path)


@lru_cache(maxsize=512)
def find(cited_text: str, text: str) -> tuple[int, int] | None:
    """Where the text holds the cited text, whatever the white space; None if it does not.

    It must hold it from the start of a word to the end of one: "5 days" is not in "15 days".
    """
    wanted = " ".join(cited_text.split())
    if not any(character.isalnum() for character in wanted):
        return None
    words = [match.span() for match in re.finditer(r"\S+", text)]
    flat = " ".join(text.split())
    at = flat.find(wanted)
    while at >= 0 and (_in_word(flat, at) or _in_word(flat, at + len(wanted))):
        at = flat.find(wanted, at + len(wanted))
    if at < 0:
        return None
    # Where each word starts in flat, to get back to where it starts in text.
    starts = list(accumulate((end - start + 1 for start, end in words), initial=0))

    def original(position: int) -> int:
        index = bisect_left(starts, position + 1) - 1
        return words[index][0] + position - starts[index]

    return original(at), original(at + len(wanted) - 1) + 1


def _in_word(text: str, place: int) -> bool:
    return 0 < place < len(text) and text[place - 1].isalnum() and text[place].isalnum()


def _close_fence(text: str) -> str:
    """The text, with the end of a code block that it breaks off in."""
    *_, last = parse_blocks(text)
    lines = text[slice(*last.span)].splitlines()
    opening = re.match(r"\s*(`{3,}|~{3,})", lines[0])
    if last.kind != "code" or not opening or (len(lines) > 1 and _closes(lines[-1], opening[1])):
        return text
    return text.rstrip() + "\n" + opening[0]


def _closes(line: str, opening: str) -> bool:
    line = line.strip()
    return line.startswith(opening) and not line.strip(opening[0])


def _insertions(text: str, marks: Sequence[Mark]) -> Iterator[cleaning.Edit]:
    """The edits that put markers where they break no code, table or heading, in order."""
    blocks = list(parse_blocks(text))
    code = list(cleaning.code_spans(text))
    gathered: dict[tuple[int, str], set[int]] = {}
    said: tuple[int, ...] = ()
    for mark in marks:
        index = bisect_left(blocks, mark.place, key=lambda block: block.span[0])
        block = blocks[max(index - 1, 0)]
        repeats, said = mark.markers == said, mark.markers
        if block.kind == "code" and repeats:
            continue  # it would have a line to itself, with nothing new
        where = _where(text, block, mark.place, code)
        gathered.setdefault(where, set()).update(mark.markers)
    for (place, before), markers in sorted(gathered.items()):
        written = " ".join(f"[{marker}]" for marker in sorted(markers))
        follower = text[place : place + 1]
        # [1](… would be a link, and [1][… one by reference.
        after = " " if follower.isalnum() or follower in tuple("([") else ""
        yield place, place, before + written + after


def _where(text: str, block: Block, place: int, code: Sequence[tuple[int, int]]) -> tuple[int, str]:
    """The place nearest to the one wanted at which a marker can stand, and what goes before it."""
    start, end = block.span
    place = min(place, end)
    if block.kind == "code":
        first = text[start:end].splitlines()[0]
        return end, "\n" + first[: len(first) - len(first.lstrip())]
    if block.kind == "markup":
        return end, "\n\n"
    line_end = text.find("\n", place, end)
    line_end = end if line_end < 0 else line_end
    if block.kind in ("table", "heading") and _is_rule(text[start:end], place - start):
        line_end = place = text.find("\n", start)
    if block.kind == "table" and not text[place:line_end].strip(" |"):
        place = start + len(_EMPTY_CELLS.sub("", text[start:line_end]).rstrip())
    index = bisect_left(code, place, key=lambda span: span[1])
    if index < len(code) and code[index][0] < place:
        place = code[index][1]
    return place, "" if text[place - 1 : place].isspace() else " "


def _is_rule(block: str, place: int) -> bool:
    """Whether a place of a table or heading is in the rule that makes it one: its second line."""
    return block.count("\n", 0, place) == 1 and not block.split("\n")[1].strip(" |:-=>")
