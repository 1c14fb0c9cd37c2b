"""Text to identifiers in normal form: what names one thing, however it is typed.

Prose gets stemming; identifiers never do. Each identifier has several forms, and a document and
a question meet in at least one of them:

- folded: case aside, as written: `payments_webhook_secret`, `/etc/acme/config.yaml`
- squashed: without separators and leading zeros, so that PAY-17, `pay 17` and PAY017 are one
- the last parts of a path, a dotted name or an address, so that `config.yaml` finds its folder,
  and the first part of a host or an address, where that names something by itself
- with its sign, where that is what makes it a name: `-x`, `#general`, `.env`, `C++`
- of a document's alone: its parts run together, and its number by itself, since people say
  `PO20240099` and `error 1046`; a question's would not tell E-1046 from ERR_1046
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import islice
from string import ascii_lowercase

VERSION = "1"  # raise it with any change that yields other forms for the same text

MAX_LENGTH = 200  # characters; longer runs are data, and nobody types them
MAX_WORDS = 8  # neighbouring words of a question that may be one identifier typed with spaces
LONG = 8  # characters from which an identifier with a slip in it is hardly another one
LONG_WORD = 14  # the same for what may be a word: kubepodcrashloping
MAX_SLIP = 60  # characters; longer ones are pasted, not typed
MOST_RUNS = 300  # of a question, as well as words; a log that was pasted has thousands
MOST_SLIPS = 20  # of a question; each brings some 1,000 forms

# Neighbours that are all of these ask something and name nothing: "what is", for a page whatis.md.
FILLING = frozenset(
    "a am an and are as at be but by can could did do does for from had has have how i if in is it "
    "me my no not of off on or our should so that the them then there they this to us was we were "
    "what when where which who why will with would you your".split()
)

# An identifier starts and ends with a letter or digit; in between, what joins its parts.
_RUN = re.compile(r"[^\W_](?:(?:[\w.:/@+\-]|(?<=[^\W\d_])&(?=[^\W\d_]))*[^\W_])?")
_JOINED = re.compile(r"\d|\w[_.:/@+&\-]+\w|[a-z][A-Z]")
_WORD = re.compile(r"\d+(?:\.\d+)+|[^\W_]+?(?:(?<=[a-z\d])(?=[A-Z])|(?![^\W_]))")
# A flag, channel, handle, command or dot file of one word; C++ and C#.
_SIGNED = re.compile(
    r"(?<![^\s(\[{\"'`|,=<>:])(?:--?|[#@!/.$%])[^\W\d_]\w*(?![-./:@]?\w)"
    r"|(?<!\w)[^\W\d_](?:\+\+|#)(?!\w)"
)
_NUMBERED = re.compile(r"(?<![\w-])[A-Z]{2,10} #?\d+(?![\w.]*\w)")  # RFC 842, PAY 17
_VERSION = re.compile(r"(?<![\w.])(?<!\d-)v?(\d+(?:\.\d+){2,3})(?!\d|\.\d)")
_IN_AMOUNTS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))|(?<=\d)\.00(?!\d)")  # 1,500.00 is 1500
_INVISIBLE = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")
_DASH_IN_NAME = re.compile(r"(?<=\w)\u2010(?=\w)|(?<=[^\W\d_])[\u2011-\u2013\u2212](?=\d)")
_RECORD_FOLDER = re.compile(r"(?:^|/)(adr|adrs|rfc|rfcs|decisions?|[\w-]*decision-records?)(?=/|$)")


def extract(text: str) -> frozenset[str]:
    """All forms of all identifiers in a document's text; empty for plain prose."""
    runs, typed = _read(text)
    return typed.union(form for run in runs for form in _loose_forms(run))


def extract_typed(text: str) -> frozenset[str]:
    """The forms that tell each identifier of a text from every other."""
    return _read(text)[1]


def extract_names(path: str, title: str) -> frozenset[str]:
    """The forms under which a document is named by its path and its title."""
    return extract_from_path(path) | extract(title)


def extract_from_path(path: str) -> frozenset[str]:
    """The forms under which a document's own path names it.

    A numbered file in a folder of decision records is also found by its kind and number, as
    people say it: `adr/0047-use-karpenter.md` by ADR 47.
    """
    folder, _, name = path.rpartition("/")
    stem = name.split(".")[0]
    forms = {squash(stem), name.casefold(), *_forms(path)}
    number = re.match(r"\D{0,4}(\d+)", stem)
    if number and (kind := _RECORD_FOLDER.search(folder.casefold())):
        decision = {"adr", "decision", "decision record", kind[1].rstrip("s")}
        names = {"rfc"} if kind[1] in ("rfc", "rfcs") else decision
        forms |= {squash(f"{each}-{number[1]}") for each in names}
    return frozenset(form for form in forms if len(form) > 1)


def extract_from_question(question: str) -> frozenset[str]:
    """The forms by which a question may name an identifier, for looking up, not for storing.

    Long words are taken too, and neighbouring words squashed into one, since people type
    kubepodcrashlooping and kube pod crash looping; what stands in no document matches nothing.
    """
    question = plain(question)
    # A short word in lower case is a word: `it` must not find the IT department.
    runs = [run for run in _RUN.findall(question) if _is_identifier(run) or len(run) > 5]
    runs = runs[:MOST_RUNS]
    forms = {form for run in runs for form in _forms(run)}.union(find_signed(question))
    forms.update(form for _, form in find_windows(question, least=2))
    return frozenset(form for form in forms if 1 < len(form) <= MAX_LENGTH)


def find_windows(question: str, *, least: int) -> Iterator[tuple[str, str]]:
    """Neighbouring words as typed, and what they are squashed into one; the longest first."""
    question = plain(question)
    words = list(islice(_WORD.finditer(question), MOST_RUNS))
    for size in range(MAX_WORDS, least - 1, -1):
        for start in range(len(words) - size + 1):
            window = words[start : start + size]
            if not FILLING.issuperset(word[0].casefold() for word in window):
                typed = question[window[0].start() : window[-1].end()]
                yield typed, squash(" ".join(word[0] for word in window))


def find_signed(text: str) -> Iterator[str]:
    """The names of a text that a sign makes one, folded."""
    return (match[0].casefold() for match in _SIGNED.finditer(text) if len(match[0]) <= MAX_LENGTH)


def extract_slips(question: str) -> dict[str, frozenset[str]]:
    """The long identifiers of a question, squashed, each with what one slip of the hand makes of
    it; for looking up where the identifier itself stands nowhere."""
    squashed = dict.fromkeys(
        squash(run)
        for run in _RUN.findall(plain(question))
        if len(run) >= (LONG if _is_identifier(run) else LONG_WORD)
    )
    forms = [form for form in squashed if LONG <= len(form) <= MAX_SLIP][:MOST_SLIPS]
    return {form: find_near(form) for form in forms}


def find_near(form: str) -> frozenset[str]:
    """The forms that one slip of the hand makes of one: a letter left out, added or changed, or
    two neighbours swapped. Digits stay: E-1043 is no slip for E-1042."""
    near: set[str] = set()
    for at in range(len(form) + 1):
        start, end = form[:at], form[at:]
        near.update(start + letter + end for letter in ascii_lowercase)
        if end[:1].isalpha():
            near.add(start + end[1:])
            near.update(start + letter + end[1:] for letter in ascii_lowercase)
            if end[1:2].isalpha():
                near.add(start + end[1] + end[0] + end[2:])
    return frozenset(near - {form})


def plain(text: str) -> str:
    """Text as a keyboard gives it, with amounts as plain numbers.

    Copied from a page or a chat, a name may hold zero-width characters, a hyphen that does not
    break, full-width letters or an HTML entity.
    """
    text = _INVISIBLE.sub("", text.replace("&amp;", "&"))
    text = _DASH_IN_NAME.sub("-", unicodedata.normalize("NFKC", text))
    return _IN_AMOUNTS.sub("", text)


def _is_identifier(run: str) -> bool:
    """Whether a run of letters, digits and joiners names something, rather than being a word."""
    if len(run) > MAX_LENGTH or (run.isdigit() and len(run) < 3):
        return False
    return bool(_JOINED.search(run)) or (run.isupper() and len(run) > 1)


def _forms(run: str) -> Iterator[str]:
    folded = run.casefold()
    yield folded
    yield squash(run)
    # /etc/acme/config.yaml is asked for as config.yaml, billing.timeout_ms as timeout_ms.
    rest = folded
    while parts := re.match(r"[^/.@:]*[/.@:]+(?!\d)", rest):
        rest = rest[parts.end() :]
        if _is_identifier(rest):
            yield rest
            yield squash(rest)
    # A host is asked for by its own name; v2.3.1 is not v2, since a number is never cut.
    if (own := re.match(r"[^/.@:]+(?=[.@:](?!\d))", folded)) and _is_identifier(own[0]):
        yield own[0]
        yield squash(own[0])
    if re.match(r"v\d", folded):
        yield folded[1:]
    yield from _VERSION.findall(folded)  # of waybill-2.3.1.tar.gz


def _read(text: str) -> tuple[list[str], frozenset[str]]:
    """The identifiers of a text as written, and the forms that tell each from every other."""
    text = plain(text)
    runs = list(filter(_is_identifier, _RUN.findall(text)))
    numbered = _NUMBERED.findall(text)
    forms = (*(form for run in runs for form in _forms(run)), *find_signed(text))
    return [*runs, *numbered], frozenset((*forms, *map(squash, numbered)))


def _loose_forms(run: str) -> Iterator[str]:
    joined = re.sub(r"[\W_]+", "", run.casefold())
    if len(joined) >= LONG or not joined.isdigit():
        yield joined
    if numbered := re.fullmatch(r"[^\W\d_]+[-_:# ]?(\d{3,})", run):
        yield squash(numbered[1])


def squash(text: str) -> str:
    """Without separators, and with numbers as numbers: ADR-0047 and adr 47 are one.

    Between two digits a separator stays, as a point: 2.3.1 is not 23.1.
    """
    text = re.sub(r"(?<=\d)[\W_]+(?=\d)", ".", text.casefold())
    text = re.sub(r"(?<![\d.])0+(?=\d)", "", text)
    return re.sub(r"(?!(?<=\d)\.(?=\d))[\W_]+", "", text)
