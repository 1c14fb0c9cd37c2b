"""What a model should not have written: markers and links of its own; pure."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from html import unescape

from app import hidden
from app.mrkdwn import EMAIL, LINE_BREAK, TAG
from retrieval.statements import parse_blocks

Span = tuple[int, int]  # half-open
Edit = tuple[int, int, str]  # text[start:end] becomes this

LINK_REMOVED = "(link removed)"

# No part of these looks further than the next bracket of its kind or a fixed number of
# characters: 100 kB of brackets take as long as 100 kB of words.
_MARKER = r"\[\^?[1-9]\d{0,2}(?:[ \t]?[,;–-][ \t]?\^?\d{1,3})*\]|【[^【】\n]{0,40}】"
_LABEL = r"(?:[^\[\]]|\[[^\[\]]*\])*"
_ADDRESS = r"[^()\s<>]*(?:\([^()\s<>]*\)[^()\s<>]*)*"
_TITLE = r"\s{1,9}(?:\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\))"
_URL = r"(?:[A-Za-z][A-Za-z0-9+.-]{1,20}://|(?<![^\W_])www\.|\bmailto:)[^\s<>\"`|\[\]{}\0]+"
_UNWANTED = re.compile(
    rf"!?\[(?P<label>{_LABEL})\]\(\s{{0,9}}<?(?P<address>{_ADDRESS})>?(?:{_TITLE})?\s{{0,9}}\)"
    rf"|(?P<marker>{_MARKER})|<(?P<angle>[^<>\n]*)>|(?P<url>{_URL})"
    rf"|(?P<mail>{EMAIL.pattern})"
)
_MAIL = re.compile(r"mailto:([\w.+-]+@[\w-]+(?:\.[\w-]+)+)")  # an address alone, no message to it
_LEFT_OVER = re.compile(rf"{_MARKER}|(?P<url>{_URL})|(?P<mail>{EMAIL.pattern})")
_IS_MARKER = re.compile(_MARKER)
_IS_URL = re.compile(_URL)
# What a browser opens elsewhere; of others, as s3://… and http://localhost:8080, nobody gets any.
_WEB = re.compile(
    r"(?:https?|ftp)://(?!(?:localhost|127\.0\.0\.1)(?::\d+)?(?:/|\Z))|www\.|mailto:", re.IGNORECASE
)
_NAME = re.compile(r"[^\W\d]\w{0,60}\Z")  # before an index: args[1]
# Escapes of what needs none, and entities: behind them https\:&sol;/evil.example is a link.
_DISGUISED = re.compile(
    r"\\\\|\\(?P<escaped>[:/@]|\.(?=\w))|&(?:[a-z][a-z0-9]{1,31}|#\d{1,7}|#x[0-9a-f]{1,6});",
    re.IGNORECASE,
)
_HTML = re.compile(rf"(?P<line_break>{LINE_BREAK.pattern})|{TAG.pattern}", re.IGNORECASE)
_IS_TAG = re.compile(r"/?(?:a|img|iframe|script|link|form|area|object|embed|video|audio)\b", re.I)


def apply(text: str, edits: Iterable[Edit], places: Sequence[int]) -> tuple[str, list[int]]:
    """The edited text, and where the places, in order, are in it now.

    Edits are in order and do not overlap. A place inside of what is replaced moves behind it.
    """
    parts: list[str] = []
    moved: list[int] = []
    done = shift = 0
    for start, end, new in edits:
        while len(moved) < len(places) and places[len(moved)] <= start:
            moved.append(places[len(moved)] + shift)
        while len(moved) < len(places) and places[len(moved)] < end:
            moved.append(start + shift + len(new))
        parts += [text[done:start], new]
        done = end
        shift += len(new) - (end - start)
    moved += [place + shift for place in places[len(moved) :]]
    return "".join([*parts, text[done:]]), moved


def code_spans(text: str) -> Iterator[Span]:
    """Where the text has code, in order: whole blocks, and inline code with its backticks."""
    # What is code only below a block of HTML or a link's definition would not be code in Slack.
    for block in parse_blocks(text, is_chat=True):
        start, end = block.span
        if block.kind == "code":
            yield start, end
        elif block.kind == "table":
            for cell in re.finditer(r"(?:\\.|[^\n|])+", text[start:end]):
                yield from _inline_code(text, start + cell.start(), start + cell.end())
        elif block.kind != "markup":
            yield from _inline_code(text, start, end)


def _inline_code(text: str, start: int, end: int) -> Iterator[Span]:
    """Backticks up to the next run of as many, as CommonMark has it."""
    runs = [match.span() for match in re.compile("`+").finditer(text, start, end)]
    by_size = defaultdict(list)
    for index, (first, last) in enumerate(runs):
        by_size[last - first].append(index)
    index = 0
    while index < len(runs):
        first, last = runs[index]
        if _is_escaped(text, first):
            first += 1
        closing = by_size.get(last - first, [])
        at = bisect_right(closing, index)
        if first < last and at < len(closing):
            index = closing[at]
            yield first, runs[index][1]
        index += 1


def _is_escaped(text: str, place: int) -> bool:
    start = place
    while start and text[start - 1] == "\\":
        start -= 1
    return (place - start) % 2 == 1


def html(text: str) -> Iterator[Edit]:
    """The edits that take out HTML for looks, with a line break for each <br>; not of code.

    Before all others: https://<b>evil.example is a link without its tag.
    """
    code = list(code_spans(text))
    for block in parse_blocks(text, is_chat=True):
        line_break = " " if block.kind == "table" else "  \n"
        for match in _HTML.finditer(text, *block.span):
            if not any(start <= match.start() < end for start, end in code):
                yield *match.span(), line_break if match["line_break"] else ""


def disguises(text: str) -> Iterator[Edit]:
    """The edits that show as written what others look for, and take out what is not seen."""
    code = list(code_spans(text))
    for match in _DISGUISED.finditer(text):
        shown = match["escaped"] or unescape(match[0])
        seen = hidden.remove(shown)
        is_address = bool(match["escaped"]) or re.fullmatch(r"[A-Za-z0-9:/.@]", shown)
        if (is_address or not seen) and not any(a <= match.start() < b for a, b in code):
            yield *match.span(), seen


def unwanted(text: str, *, urls: Collection[str], sources: Sequence[str]) -> Iterator[Edit]:
    """The edits that take out markers, and the addresses of links to anything but urls.

    A bare URL becomes code where one of the sources holds it, to be copied but not clicked,
    and is removed otherwise if it leads into the web: it may carry data away. An e-mail address
    that no source holds becomes code; so does an index that one does. Code is left as it is.
    """
    masked = _mask(text)
    mails = _find_mails(sources)
    # Between as many backticks as also stand alone somewhere, a URL would open code there.
    alone = {len(match[0]) for match in re.finditer("`+", masked)}
    ticks = "`" * next(size for size in range(1, len(alone) + 2) if size not in alone)

    def edits(start: int, end: int) -> Iterator[Edit]:
        done = start
        for match in _UNWANTED.finditer(masked, start, end):
            if match["marker"] is not None:
                edit = index(match, done) or _without_marker(text, *match.span(), done)
                done = edit[1]
                yield edit
                continue
            done = match.end()
            if match["mail"] is not None:
                yield *match.span(), mail(match["mail"])
            elif match["url"] is not None:
                yield from bare(_url(match), _url(match))
            elif match["angle"] is not None:
                yield from angle(match)
            else:
                yield from link(match.span(), match.span("label"), match.span("address"))

    def index(match: re.Match[str], done: int) -> Edit | None:
        name = _NAME.search(masked, done, match.start())
        written = f"{name[0]}{match[0]}" if name else ""
        if not name or not any(written in source for source in sources):
            return None
        return name.start(), match.end(), f"{ticks}{written}{ticks}"

    def mail(address: str) -> str:
        return address if address in mails else f"{ticks}{address}{ticks}"

    def bare(written: Span, whole: Span) -> Iterator[Edit]:
        url = text[slice(*written)]
        if found := _MAIL.fullmatch(url):
            yield *written, mail(found[1])
        elif url not in urls:
            stays = not _WEB.match(url) or any(url in source for source in sources)
            yield *whole, f"{ticks}{url}{ticks}" if stays else LINK_REMOVED

    def angle(match: re.Match[str]) -> Iterator[Edit]:
        start, end = match.span("angle")
        bar = text.find("|", start, end)
        first = _IS_URL.match(masked, start, end)
        if bar >= 0 and first:
            yield from link(match.span(), (bar + 1, end), (start, bar))
        elif bar >= 0 and _IS_URL.match(masked, bar + 1, end):
            yield from link(match.span(), (start, bar), (bar + 1, end))
        elif first:
            yield from bare(_url(first), match.span())
        elif EMAIL.fullmatch(match["angle"]):
            yield *match.span(), mail(match["angle"])
        elif _IS_TAG.match(text, start, end):
            yield *match.span(), ""

    def link(whole: Span, label: Span, address: Span) -> Iterator[Edit]:
        url, words = text[slice(*address)], text[slice(*label)]
        if found := _MAIL.fullmatch(url):
            shown = mail(found[1])
            yield *whole, shown if found[1] in words else f"{words} ({shown})"
            return
        if re.fullmatch(r"[\s\[\]^\d]*", words):
            yield *whole, ""  # A marker, written as a link.
            return
        ours = url in urls
        yield whole[0], label[0], "[" if ours else ""
        yield from edits(*label)
        yield label[1], whole[1], f"]({url})" if ours else ""

    yield from edits(0, len(text))


def leftovers(text: str, *, urls: Collection[str], sources: Sequence[str]) -> Iterator[Edit]:
    """The edits that make harmless what took shape when something else was removed.

    Removing [2] from [[2]1] leaves a marker, and backticks that come to stand together no
    longer close. Nothing is taken out here, so nothing new takes shape.
    """
    mails = _find_mails(sources)
    for match in _LEFT_OVER.finditer(_mask(text)):
        if match["mail"] is not None:
            if match["mail"] not in mails:
                yield *match.span(), LINK_REMOVED
        elif match["url"] is None:
            yield *match.span(), _in_round_brackets(match)
        elif text[slice(*_url(match))] not in urls:
            yield *match.span(), LINK_REMOVED


def _find_mails(sources: Sequence[str]) -> frozenset[str]:
    return frozenset(mail for source in sources for mail in EMAIL.findall(source))


def find_markers(text: str) -> list[tuple[int, Span]]:
    """The markers of an answer that was checked, and where they are."""
    masked = _mask(text)
    return [(int(match[1]), match.span()) for match in re.finditer(r"\[(\d{1,3})\]", masked)]


def marker_removals(text: str) -> Iterator[Edit]:
    """The edits that take out all markers."""
    done = 0
    for match in _IS_MARKER.finditer(_mask(text)):
        edit = _without_marker(text, *match.span(), done)
        done = edit[1]
        yield edit


def neutralised_markers(text: str) -> Iterator[Edit]:
    """The edits that put all markers in round brackets."""
    for match in _IS_MARKER.finditer(_mask(text)):
        yield *match.span(), _in_round_brackets(match)


def _in_round_brackets(match: re.Match[str]) -> str:
    before = match.string[max(match.start() - 1, 0) : match.start()]
    return f"{' ' if before == ']' else ''}({match[0][1:-1]})"  # [x](2) would be a link


def _mask(text: str) -> str:
    """The text with \\0 for every character of its code."""
    masked, _ = apply(text, ((a, b, "\0" * (b - a)) for a, b in code_spans(text)), [])
    return masked


def _without_marker(text: str, start: int, end: int, limit: int) -> Edit:
    """A marker goes with the blanks before it, or at the start of a line with those after it."""
    while start > limit and text[start - 1] in " \t":
        start -= 1
    if start == 0 or text[start - 1] == "\n":
        while end < len(text) and text[end] in " \t":
            end += 1
    return start, end, ""


def _url(match: re.Match[str]) -> Span:
    """Where the URL is, without the punctuation of the sentence round it."""
    url = match[0].rstrip(".,;:!?'*_~")
    surplus = url.count(")") - url.count("(")
    while surplus > 0 and url.endswith(")"):
        url = url[:-1].rstrip(".,;:!?'*_~")
        surplus -= 1
    return match.start(), match.start() + len(url)
