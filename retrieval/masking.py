"""Secrets in documents: taken out before anything is stored, so that no path can show one.

What is indexed, searched, read by a model, quoted, cited, kept in traces and shown to reviewers is
all made of a document's stored text; masked there, a secret is nowhere, and what is cited still
stands word for word in its section.

Tokens and keys that have a form of their own are found by Kingfisher, without a network: 488 rules
take 0.1 s for 11 MB of Markdown. Yelp's detect-secrets 1.5.0 takes 40 s, has had no release since
2024, finds half of the kinds in tests and calls 40 harmless words a secret, where Kingfisher does
5. Passwords that people write down have no form; for these there are patterns here.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from retrieval.records import Document

if TYPE_CHECKING:  # loading it takes up to seconds, and only what indexes needs it
    from kingfisher_sdk import Scanner

VERSION = "1"  # of what is found; another one reads unchanged files again
MASK = "[secret removed]"

# Kingfisher wants a blank or a quote behind most tokens; in prose other things are there, too.
_PUNCTUATION = str.maketrans(dict.fromkeys("()[]{}<>|*,", " "))
_END = re.compile(r"[.:!?](?=\s|\Z)")

_NAME = r"""(?:pass(?:word|wd|phrase|code)?|pwd|passwort|kennwort|mot\ de\ passe|contrase(?:ñ|n)a
    |wachtwoord|has[łl]o)"""
_KEY = r"(?:api|access|secret|private|auth|client|account|encryption)"
_TOKEN = rf"(?:{_KEY}[_ -]?(?:key|token|secret)|token|secret)"
_MARKS = r"[\"'`*_]{0,3}\s{0,3}[\"'`*_]{0,3}"
_BETWEEN = rf"{_MARKS}(?:[:=]{{1,2}}>?|\bis\b:?|\blautet\b:?|\best\b:?){_MARKS}"
_VALUE = r"[^\s\"'`|<>,;]"
_PATTERNS = {
    "password": re.compile(
        rf"(?<![^\W_]){_NAME}{_BETWEEN}(?P<secret>{_VALUE}{{6,64}})", re.IGNORECASE | re.VERBOSE
    ),
    "key": re.compile(
        rf"(?<![^\W_])(?:[\w-]{{0,40}}[_-])?{_TOKEN}{_BETWEEN}"
        r"(?P<secret>[A-Za-z0-9+/=_.~-]{16,512})(?![\w/])",
        re.IGNORECASE,
    ),
    "password in a URL": re.compile(
        r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'`<>]{0,64}:(?P<secret>[^\s/@\"'`<>]{3,256})@[\w\[]",
        re.IGNORECASE,
    ),
    "authorization header": re.compile(
        r"\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:basic|bearer|token)\s+"
        r"(?P<secret>[A-Za-z0-9+/=_.~-]{8,})",
        re.IGNORECASE,
    ),
    "AWS access key": re.compile(r"(?<!\w)(?P<secret>(?:AKIA|ASIA)[A-Z2-7]{16})(?!\w)"),
}
_PLACEHOLDER = re.compile(
    r"""your|example|change.?me|place.?holder|redacted|dummy|sample|secret.?removed|x{3}|\*{3}|\.{3}
    |…|1234567|abc.?123|[${(\[%#]|\)\Z|\A(?:a-)?(?:my|the|some)?[_-]?
    (?:user|pass|password|secret|token|key|auth|api|access|client|[_-])+\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_KINDS = {"jwt": "JSON web token", "curl-auth-header": "authorization header"}


class Secret(NamedTuple):
    """Where a text holds a secret, and of which kind."""

    start: int
    end: int
    kind: str  # as its owner is told


def mask(document: Document) -> Document:
    """The document with MASK for each secret, and their kinds; one without any is as it was."""
    kinds: set[str] = set()

    def cover(text: str) -> str:
        secrets = find(text)
        kinds.update(secret.kind for secret in secrets)
        return _replace(text, secrets)

    masked = replace(
        document,
        title=cover(document.title),
        text=cover(document.text),
        url=cover(document.url),
        owner=document.owner and cover(document.owner),
        superseded_by=document.superseded_by and cover(document.superseded_by),
    )
    return replace(masked, secret_kinds=tuple(sorted(kinds))) if kinds else document


def find(text: str) -> list[Secret]:
    """The secrets of a text, in order and apart; of two that overlap, both as one."""
    merged: list[Secret] = []
    for secret in sorted({*_find_tokens(text), *_find_written(text)}):
        if merged and secret.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, secret.end))
        else:
            merged.append(secret)
    return merged


def _find_written(text: str) -> Iterator[Secret]:
    for kind, pattern in _PATTERNS.items():
        for match in pattern.finditer(text):
            secret = match["secret"].rstrip(".:?)")
            if _is_secret(kind, secret):
                start = match.start("secret")
                yield Secret(start, start + len(secret), kind)


def _is_secret(kind: str, text: str) -> bool:
    """Whether it is no placeholder and, where words could stand, no word."""
    if _PLACEHOLDER.search(text):
        return False
    if kind == "password":
        # "Password: must be twelve characters" says what one has to be.
        return len(text) >= 6 and _has_letters_and_digits(text)
    if kind == "key":
        # The name of a key is made of short words: tokens-for-team-2.
        return any(len(part) >= 12 and _has_letters_and_digits(part) for part in _split(text))
    return True


def _split(text: str) -> list[str]:
    return re.split(r"[_.~/=+-]", text)


def _has_letters_and_digits(text: str) -> bool:
    return bool(re.search(r"\d", text) and re.search(r"[^\W\d_]", text))


def _find_tokens(text: str) -> Iterator[Secret]:
    prose = _END.sub(" ", text.translate(_PUNCTUATION))
    for scanned in dict.fromkeys((text, prose)):
        data = scanned.encode()
        for finding in _load_scanner().scan(data):
            if not finding.visible or _PLACEHOLDER.search(finding.secret):
                continue
            # A finding says where all that it was known by is; the secret is a part of that.
            found = finding.location
            at = scanned.find(finding.secret, len(data[: found["start_offset"]].decode()))
            if at >= 0:
                yield Secret(at, at + len(finding.secret), _name(finding.rule_id))


def _name(rule_id: str) -> str:
    """The kind as people know it: betterleaks.github-pat is a github pat."""
    *_, name = re.split(r"[./]", rule_id)
    return _KINDS.get(name, name.replace("-", " "))


@cache
def _load_scanner() -> "Scanner":
    """Compiled once a process: 5 s the first time on a machine, 0.4 s from its cache."""
    from kingfisher_sdk import Rules, Scanner

    return Scanner(Rules(confidence="low"), base64=False)


def _replace(text: str, secrets: Iterable[Secret]) -> str:
    parts, done = [], 0
    for secret in secrets:
        parts += [text[done : secret.start], MASK]
        done = secret.end
    return "".join([*parts, text[done:]])
