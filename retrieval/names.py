"""The names that a question hinges on: what a page would have to mention to answer it; pure.

A question hinges on a name when little else is asked: "who owns the service marmalade-broker" is
answered by no page that lacks the name, "my disk on walrus-77 is full, what now" well may be.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from retrieval import identifiers
from retrieval.embedding import EmbeddedQuery

MAX_LENGTH = 80  # characters of a name; longer runs are data
MAX_QUESTION = 1_000  # characters; what is longer tells of more than one name

# Typed with spaces, an identifier of two words cannot be told from two words: on handbook dev,
# taking them for one costs 5 points of MRR, and 3 or more words none.
LEAST_WORDS = 3

# Words that mean something, besides the names and what they name, up to which a question hinges
# on its names. On made-up questions about names that stand nowhere the rest has 0 to 2 of them,
# and on questions that only bring such a name along, 3 and more.
MAX_WORDS = 2
MAX_WORDS_FOR_CONTACT = 1  # people put in addresses of their own: "reset the password of jo@x.com"
MAX_WORDS_OF_OWN = 0  # "how do I restart X", "my X": what to do is asked, and X is the asker's
MAX_WORDS_BESIDE_SPELT = 0  # "duties of the data protection officer" may mean just these words


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """What a question names, and what would show that some document knows it."""

    text: str  # as typed
    forms: frozenset[str]  # of the identifier
    # In lower case. Where there are any, one of them must be in no document for the name to be
    # unknown: what is made of known words may be ordinary language.
    words: tuple[str, ...] = ()
    series: str = ""  # what its number counts, as in RFC 842; one of many, or no name at all
    twins: str = ""  # pattern of the forms of its like; without any it may be known by less: 3.12
    is_contact: bool = False  # an e-mail address, a handle or a channel
    is_certain: bool = True  # a name by its shape alone, whatever stands beside it
    is_spelt: bool = False  # typed as words


# What people call by a name of its own.
_KINDS = frozenset(
    "adr agent alarm alert api app application backend binary bot branch broker bucket bug "
    "build bundle chart class cli cluster code codename codes collector command component "
    "config container controller cron cronjob daemon dashboard database dataset db decision "
    "deployment device driver endpoint engine env environment error errors event exception "
    "exporter feature field file firmware flag folder frontend function gateway handler "
    "header host hostname image incident index instance integration issue item job key "
    "lambda library list machine method metric microservice middleware model module monitor "
    "namespace node operator option package parameter part path pipeline pkg playbook "
    "plugin pod portal postmortem process product program project proxy queue record "
    "release repo repository resource rfc role router rpc rule runbook scheduler schema "
    "script sdk secret server service setting sku squad stack stage step stream subsystem "
    "svc system table tag task team tenant ticket token tool topic type ui unit user value "
    "var variable vault version vm volume webhook worker workflow workload workspace".split()
)
# What asks about a name without adding to it, and what sentences are held together by.
_LIGHT = frozenset(
    "a about active actual actually after again all also am an and another any anybody "
    "anyone anything appear appears are around as ask asking at be because been before "
    "being between both but by call called came can check come comes could current "
    "currently decided defined definition describe detail details did do doc docs document "
    "documentation documented does doing done else ever every exact exactly exist exists "
    "explain explanation find fire fired fires firing fix fixed for found from get gets "
    "getting give given go goes going good got had handle happen happened happening happens "
    "has have having hello help here hey hi how i if in info information into is it its "
    "just kind know known let like list look looking made make many may me mean meaning "
    "means mention mentions might more most much must my name named need needs new no not "
    "now of ok on one or other our out over own page pages people per please purpose "
    "question quick really regarding resolve resolved s said say says see seeing seen set "
    "shall should show shown shows since so solve solved some somebody someone something "
    "stand stands still stuff summary t tell than thank thanks that the their them then "
    "there these they thing things this those to told trigger triggered triggering triggers "
    "under until us use used using versus via vs want was we were what whats when where "
    "which who whom whose why will with within would you your".split()
)
# Who says I or asks what is allowed wants to know what to do, and that may stand in general words.
_OWN = re.compile(
    r"\b(?:i|we|my|our|me|us|mine|ours|im|ive|i'[a-z]+|we'[a-z]+|how to|can you|could you)\b"
    r"|^\W*(?:why )?(?:can|can't|cannot|cant|could|may|must|should)\b|\ballowed\b"
)
# In these we is the company.
_COMPANY = re.compile(r"\b(?:did|have|had) (?:we|i)\b|\bdo we (?:have|know|own|run|use)\b")
_VAGUE = frozenset("anything bar baz blah dummy foo something thing whatever".split())

_TOKEN = re.compile(r"\S+")
_BETWEEN = re.compile(r"[,;/]")  # two codes: E-1046,E-1047
_AROUND = "\"'`“”‘’«»()[]<>,;:?!…*|="
# Words, and numbers that point at something: a date, a version, three digits and more.
_WORDS = re.compile(r"[^\W\d_]{2,}(?:'[a-z]+)?|\d{4}-\d\d-\d\d|\d(?:\.?\d){2,}\w*")
_SLACK_ID = re.compile(r"[#@][A-Z][A-Z0-9]{7,}")  # a mention that came without a name
_FILE_TYPES = (
    "bash|bat|cfg|conf|cron|crt|csv|env|gz|html|ini|jar|java|js|json|key|lock|log|md|pdf|pem|php|"
    "plist|properties|ps1|py|rb|rs|service|sh|sql|tf|tfvars|toml|ts|txt|war|xls|xlsx|xml|yaml|yml|"
    "zip"
)
_PART = r"[^\W_]+"

_UNMISTAKABLE = re.compile(
    r"0x[0-9a-f]{3,}|-[a-z]|--[a-z][a-z\d]*(?:[-_][a-z\d]+)*"  # 0xBADF00D7, -x, --dry-run
    rf"|_?{_PART}(?:_{_PART})+"  # WAYBILL_DB_POOL_SIZE
    r"|(?-i:[A-Z]{2,}(?:-[A-Z]{2,})+|X(?:-[A-Z][a-z]+)+)"  # ERR-QUOTA-BURST, X-Request-Id
    r"|(?-i:[A-Z]?[a-z\d]+(?:[A-Z]+[a-z\d]+){2,}[A-Z]*)"  # KubePodCrashLooping
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|(?=(?:[a-z]*\d){3})(?=(?:\d*[a-z]){2})[a-z\d]{8,}",  # 5CD1234XYA, 001a2b3c4d5e
    re.IGNORECASE,
)
_LONG = re.compile(r"[a-z]{18,}", re.IGNORECASE)  # kubepodcrashlooping: hardly a word is as long
# Letters and at least three digits: ZZQ-40417, E1046, PROC-4471-B; 8841-B, TC57-99812.
_CODE = re.compile(
    r"(?:[a-z]{2,10}[-.:/#]?|[a-z](?:-|(?=\d{4})))\d{3,}[a-z]{0,2}(?:[-.][a-z\d]+)*"
    r"|\d{3,}-(?-i:[A-Z]{1,3})\d*|(?-i:[A-Z]{1,4}\d{1,2}-\d{3,})",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"(?:fy|cy|[qh]\d?|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*|week|year|covid)"
    r"[-.:/]?(?:19|20)\d\d",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"([a-z]{2,4})-?(\d{1,2})", re.IGNORECASE)  # PAY-17, ADR32
# Before a number that stands apart: RFC 842, E 1046
_SERIES = re.compile(r"[a-z]{2,12}|(?-i:[A-Z])", re.IGNORECASE)
_NUMBER = re.compile(r"#?\d{1,6}")
_CONTACT = re.compile(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|@[a-z][\w.-]{2,}|#[a-z][\w-]{2,}", re.IGNORECASE
)
_FILE = re.compile(
    rf"~?/[\w.@-]+(?:/[\w.@-]+)+|[\w-]+(?:\.[\w-]+)*\.(?:{_FILE_TYPES})", re.IGNORECASE
)
_HOST = re.compile(  # or another dotted name
    r"(?=.*[\d_-])(?=.*[a-z])[\w-]+(?:\.[a-z][\w-]+)+|[a-z][\w-]+(?:\.[a-z][\w-]*){2,}",
    re.IGNORECASE,
)
_VERSION = re.compile(r"v?((\d+(?:\.\d+){1,2})\.\d+)", re.IGNORECASE)  # or an address
# What holds two digits or a capital inside is typed so for a reason: spool01, zeppelin-41,
# maxConnections. 40cm is a measure; GitHub and OAuth2 are words.
_SHAPED = re.compile(
    rf"(?!\d+[a-z]*$)(?=.*[a-z])(?=.*\d.*\d){_PART}(?:[-_.:/#]{_PART})*"
    r"|(?-i:[a-z]{2,}(?:[A-Z][a-z]{2,})+)",
    re.IGNORECASE,
)
_JOINED = re.compile(rf"{_PART}(?:-{_PART})+|[A-Z]?[a-z]{{2,}}(?:[A-Z][a-z]{{2,}})+")
_LETTERED = re.compile(r"(?<![\w.-])\d{4,}[A-Za-z](?![\w-])")
# Where a question may go on with another, and what begins one.
_CLAUSES = re.compile(r"[.?!;]+\s+|\b(?:and|also|but|plus)\b[\s,]*", re.IGNORECASE)
_ASKS = re.compile(
    r"(?:(?:then|so)\s+)?(?:who|whom|whose|what|when|where|which|why|how|is|are|was|were|do|does|"
    r"did|can|could|may|must|should|will|would|has|have)\b",
    re.IGNORECASE,
)
_POINTS = re.compile(
    r"\b(?:it|its|they|them|their|this|that|these|those|he|she|him|her|his|one)\b", re.IGNORECASE
)
_RUNS = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_HUMP = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def find(question: str, *, rare: Collection[str]) -> tuple[Name, ...]:
    """The names in a question, in its order, each once.

    rare holds its words, in lower case, that are no common ones.
    """
    found: dict[str, Name] = {}
    for name in _find(identifiers.plain(question[:MAX_QUESTION]), rare):
        found.setdefault(name.text, name)
    return tuple(found.values())


def find_exact(question: str) -> tuple[Name, ...]:
    """What in a question is an identifier by its shape alone, or is one if a document has it."""
    question = identifiers.plain(question[:MAX_QUESTION])
    certain = (name for name in find(question, rare=()) if name.is_certain)
    lettered = (
        Name(text=text, forms=frozenset({text.casefold()})) for text in _LETTERED.findall(question)
    )
    shaped = (
        _build(token)
        for token in _tokens(question)
        if _SHAPED.fullmatch(token) and len(token) <= MAX_LENGTH and not _TIME.fullmatch(token)
    )
    signed = (
        Name(text=text, forms=frozenset({text.casefold()}))
        for text in identifiers.find_signed(question)
    )
    return _each_once((*certain, *lettered, *shaped, *signed))


def find_possible(question: str) -> tuple[Name, ...]:
    """What in a question may be an identifier, if the question hinges on it.

    That is a number, a word in capitals, a word with a number after it, and LEAST_WORDS
    neighbouring words and more, the longest first: kube pod crash looping.
    """
    question = identifiers.plain(question[:MAX_QUESTION])
    tokens = _tokens(question)
    is_cased = not question.isupper() or len(tokens) == 1
    bare = (
        Name(text=token, forms=identifiers.extract_typed(token))
        for token in tokens
        if token.isdigit() or (is_cased and token.isalpha() and token.isupper() and token[1:])
    )
    counted = (
        _numbered(f"{token} {after}", token)
        for token, after in pairwise(tokens)
        if _NUMBER.fullmatch(after) and _SERIES.fullmatch(token)
    )
    spelt = (
        Name(text=text, forms=frozenset({form}), is_spelt=True)
        for text, form in identifiers.find_windows(question, least=LEAST_WORDS)
        if identifiers.FILLING.isdisjoint(_RUNS.findall(text.casefold()))
    )
    return _each_once((*counted, *bare, *spelt))


def hinges(text: str, names: Sequence[Name]) -> bool:
    """Whether a question asks about its names and little else.

    text is the question worded to stand on its own: after "how do I silence an alert", "and on
    walrus-77?" asks about more than its name.
    """
    text = identifiers.plain(text)
    rest = text
    for name in names:
        rest = rest.replace(name.text, " ")
    rest = rest.casefold().replace("’", "'")
    limit = MAX_WORDS_FOR_CONTACT if all(name.is_contact for name in names) else MAX_WORDS
    if all(name.is_spelt for name in names):
        limit = MAX_WORDS_BESIDE_SPELT
    if _OWN.search(_COMPANY.sub(" ", rest)):
        limit = MAX_WORDS_OF_OWN
    words = {word for word in _WORDS.findall(rest) if not _is_light(word)}
    return bool(names) and len(words) <= limit and not _asks_besides(text, names)


def _asks_besides(text: str, names: Sequence[Name]) -> bool:
    """Whether a part of the text asks about something else than a name: "… and who owns that?"
    does not, "… and who is the privacy officer?" does."""
    for clause in _CLAUSES.split(text):
        own = clause
        for name in (*names, *find(clause, rare=())):
            own = own.replace(name.text, " ")
        is_apart = own == clause and _ASKS.match(own) and not _POINTS.search(own)
        if is_apart and any(not _is_light(word) for word in _LETTERS.findall(own.casefold())):
            return True
    return False


def _each_once(names: Iterable[Name]) -> tuple[Name, ...]:
    """The names, of those with the same forms the first."""
    return tuple({name.forms: name for name in reversed(tuple(names))}.values())[::-1]


def find_rare(query: EmbeddedQuery) -> frozenset[str]:
    """The words of a query, in lower case, that the model's tokenizer does not know whole."""
    words = [(match[0].casefold(), *match.span()) for match in _LETTERS.finditer(query.text)]
    return frozenset(
        word
        for word, start, end in words
        if sum(a < end and b > start for a, b in query.token_spans) > 1
    )


def _is_light(word: str) -> bool:
    word = re.sub(r"'[a-z]+$", "", word)
    return word in _LIGHT or word in _KINDS or word.removesuffix("s") in _KINDS


def _find(question: str, rare: Collection[str]) -> Iterator[Name]:
    tokens = ["", *_tokens(question), ""]
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        parts = _HUMP.findall(token.casefold())
        if len(token) > MAX_LENGTH or _VAGUE.intersection(parts) or _TIME.fullmatch(token):
            continue
        if not parts and not _VERSION.fullmatch(token):
            continue
        if name := _name(token):
            yield name
        elif _NUMBER.fullmatch(after) and _SERIES.fullmatch(token) and token not in _LIGHT:
            # "table 842" is said of many; E 1046 and RFC 842 are names
            is_certain = token.isupper() or len(after) > 2
            yield replace(_numbered(f"{token} {after}", token), is_certain=is_certain)
        elif _is_named(before, token, after, rare):
            words = _words(token)
            own = [word for word in words if word not in _KINDS]
            yield replace(_build(token, words=own or words), is_certain=False)


def _tokens(question: str) -> list[str]:
    tokens = []
    for run in _TOKEN.findall(question):
        parts = [_strip(part) for part in _BETWEEN.split(_strip(run))]
        tokens += parts if all(map(_CODE.fullmatch, parts)) else [_strip(run)]
    return tokens


def _strip(token: str) -> str:
    token = token.strip(_AROUND).rstrip(".")
    return re.sub(r"['’]s$", "", token).strip(_AROUND)


def _name(token: str) -> Name | None:
    """The name that a token is by its shape alone."""
    if _CONTACT.fullmatch(token) and not _SLACK_ID.fullmatch(token):
        return _build(token, words=_words(token), is_contact=True)
    if version := _VERSION.fullmatch(token):
        return Name(
            text=token, forms=frozenset({version[1]}), twins=rf"{re.escape(version[2])}\.\d+"
        )
    if _LONG.fullmatch(token):
        return _build(token, words=(token.casefold(),))
    if _FILE.fullmatch(token) or _HOST.fullmatch(token):
        return _build(token, words=_words(token))
    if _UNMISTAKABLE.fullmatch(token) or _CODE.fullmatch(token):
        return _build(token)
    if numbered := _NUMBERED.fullmatch(token):
        return _numbered(token, numbered[1])
    return None


def _is_named(before: str, token: str, after: str, rare: Collection[str]) -> bool:
    """Whether a token that may be ordinary language is a name by what stands in or beside it."""
    is_beside = before.casefold() in _KINDS or after.casefold().removesuffix("s") in _KINDS
    if _JOINED.fullmatch(token):
        return (
            "-" not in token
            or is_beside
            or not _KINDS.isdisjoint(_HUMP.findall(token.casefold()))
            or any(character.isdigit() for character in token)
        )
    is_proper = bool(before) and token.istitle() and token.isalpha() and len(token) > 4
    return is_proper and is_beside and token.casefold() in rare


def _build(token: str, *, words: Iterable[str] = (), is_contact: bool = False) -> Name:
    forms = {identifiers.squash(token)}
    if is_contact or (_HOST.fullmatch(token) and not _FILE.fullmatch(token)):
        # Its domain is known from many others.
        forms |= identifiers.extract_typed(re.split(r"(?<=.)[.@]", token)[0])
    else:
        # Its last part alone may be no name: v1 of orders.parcels.v1.
        found = identifiers.extract_typed(token)
        forms |= {form for form in found if len(form) > 3 or not form.isalnum()}
    return Name(text=token, forms=frozenset(forms), words=tuple(words), is_contact=is_contact)


def _numbered(text: str, kind: str) -> Name:
    return Name(
        text=text, forms=frozenset({identifiers.squash(text)}), series=identifiers.squash(kind)
    )


def _words(token: str) -> tuple[str, ...]:
    return tuple(word.casefold() for word in _HUMP.findall(token) if len(word) > 2)
