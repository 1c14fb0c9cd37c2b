"""Secrets that people write down: what stands behind a name such as "password"; pure.

They have no form of their own, so a name says that there is one, and what stands there is judged:
what says what a password has to be, where it is or what stands for it is none.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Secret(NamedTuple):
    """Where a text holds a secret, and of which kind."""

    start: int
    end: int
    kind: str  # as its owner is told


# Where a name begins: not within a word, but as the second one of dbPassword.
_START = r"(?:(?<![^\W_])|(?-i:(?<=[a-z0-9])(?=[A-Z])))"
_NAME = (
    r"(?:pass(?:word|wd|phrase|code)?|pwd?|passwort|kennwort|mot de passe|contrase(?:ñ|n)a"
    r"|wachtwoord|has[łl]o)"
)
_KEY = r"(?:api|access|secret|private|auth|client|account|encryption)"
_FULL_KEY = rf"{_KEY}[_ -]?(?:key|token|secret)"
_TOKEN = rf"(?:{_FULL_KEY}|token|secret)"  # not nextToken, which is no secret
_MARKS = r"[\"'`*_]{0,3}\s{0,3}[\"'`*_]{0,3}"
# "The password for the printer on floor two is …"
_WHOSE = (
    r"(?:\s(?:for|of|to|on|at|für|von|zu|zum|pour|du|de|para|voor)(?:\s[^\s.:;|=]{1,20}){1,4}?)?"
)
_BETWEEN = rf"{_WHOSE}{_MARKS}(?:[:=]{{1,2}}>?|\b(?:is|ist|lautet|est|es)\b:?){_MARKS}"
_VALUE = r"[^\s\"'`|<>,;]"
_PATTERNS = {
    "password": (
        rf"{_START}{_NAME}{_BETWEEN}(?P<secret>{_VALUE}{{6,64}})",
        rf"<[\w:-]{{0,40}}{_NAME}>\s{{0,3}}(?P<secret>[^\s<>]{{6,64}})\s{{0,3}}</",
        # Below its name, alone: on a line, or in a block of code.
        rf"{_START}{_NAME}[*_]{{0,3}}:[*_]{{0,3}}[ \t]*\n\s{{0,20}}"
        rf"(?P<secret>{_VALUE}{{6,64}})[ \t]*$",
        rf"{_START}{_NAME}[*_:]{{0,4}}[ \t]*\n\s{{0,20}}(?:```|~~~)[^\n]{{0,20}}\n[ \t]{{0,20}}"
        rf"(?P<secret>{_VALUE}{{6,64}})[ \t]*\n[ \t]{{0,20}}(?:```|~~~)",
        rf"\b(?:mysql\w{{0,10}}|mariadb)\b[^\n|]{{0,80}}?\s-p[\"']?(?P<secret>{_VALUE}{{6,64}})",
        r"(?<!\S)(?:--pass(?:word|wd)?|sshpass\s+-p|docker\s+login\b[^\n|]{0,80}?\s-p)[\s=][\"']?"
        rf"(?P<secret>{_VALUE}{{6,64}})",
        r"\b(?:log-?in|credentials?|zugangsdaten)[*_]{0,3}\s?[:=][*_]{0,3}\s?`?[^\s`]{1,40}`?\s/\s`?"
        rf"(?P<secret>{_VALUE}{{6,64}})",
    ),
    "key": (
        rf"(?:(?<![^\W_])(?:[\w-]{{0,40}}[_-])?{_TOKEN}|{_START}(?:{_FULL_KEY}|secret)){_BETWEEN}"
        r"(?P<secret>[A-Za-z0-9+/=_.~-]{16,512})(?![\w/])",
        r"\"auth\"\s{0,3}:\s{0,3}\"(?P<secret>[A-Za-z0-9+/]{12,512}={0,2})\"",
    ),
    "signature in a URL": (r"[?&]sig=(?P<secret>[A-Za-z0-9%+/=_-]{20,256})",),
    "password in a URL": (
        r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'`<>]{0,64}:(?P<secret>[^\s/@\"'`<>]{3,256})@[\w\[]",
    ),
    "authorization header": (
        r"\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:basic|bearer|token)\s+"
        r"(?P<secret>[A-Za-z0-9+/=_.~-]{8,})",
    ),
    "AWS access key": (r"(?<!\w)(?P<secret>(?:AKIA|ASIA)[A-Z2-7]{16})(?!\w)",),
}
_COMPILED = [
    (kind, re.compile(pattern, re.IGNORECASE | re.MULTILINE))
    for kind, patterns in _PATTERNS.items()
    for pattern in patterns
]
_LABEL = {
    "password": re.compile(rf"[*_`\s]*(?:[\w-]+[ _-]){{0,4}}{_NAME}[*_`:\s]*", re.IGNORECASE),
    "key": re.compile(rf"[*_`\s]*(?:[\w-]+[ _-]){{0,4}}{_TOKEN}[*_`:\s]*", re.IGNORECASE),
}
_RULE = re.compile(r"[\s|:-]*-[\s|:-]*")
_CELL = re.compile(r"(?:\\.|[^|\n\\])+")
_ALONE = re.compile(rf"[\s*_`\"']*(?P<secret>{_VALUE}{{6,512}}?)[\s*_`\"']*")

_PLACEHOLDER = re.compile(
    r"""
    (?:\A|[\W_])(?:your|example|change.?me|place.?holder|redacted|dummy|sample|secret.?removed)
    (?:[\W_]|\Z) | \Ayour(?:api|access|secret|pass|token|key) | (?-i:EXAMPLE)(?:KEY)?\Z
    | x{4} | \*{3} | \.{3} | … | \A(?:[a-z_-]*1234567\d*|abc.?123)\Z
    | \A(?:a-)?(?:my|the|some)?[_-]?
    (?:user|pass|password|secret|token|key|auth|api|access|client|[_-])+\Z
    """,
    re.IGNORECASE | re.VERBOSE,
)
_NO_SECRET = re.compile(
    r"""
    # a variable, a template, a call
    \$(?:[{(].*|[a-z_]\w*) | [{\[<(].* | %\w+% | [a-z_][\w.]*(?:\([^)]*\)?|\[[^\]]*\]?)
    | (?:process|os|env|environ|config|settings|self|this|req|request|ctx|vault|secrets|vars?
    |local|data|module|values|params|props|args|options)(?:\.[a-z_][\w-]*)+
    # where it is: a reference, a path, an address
    | !(?:vault|env|secret|ref|sub)\w* | (?:[a-z][a-z0-9+-]{1,20}:/|arn:|[a-z]:\\).*
    | [~.]{0,2}/[\w./-]+ | [\w.-]+(?:/[\w.-]+){2,} | [\w.+-]+@[\w-]+(?:\.[\w-]+)+
    # its length or age
    | \d+[-–]?(?:char|digit|letter|word|symbol|day|hour|minute|second|week|month|year|bit|byte
    |time|zeichen|stellig|tage|monat|jahr)[\w-]*
    # what is done with it
    | (?:argon2|bcrypt|scrypt|pbkdf2|sha-?\d|md5|aes|rsa|hmac|base64|ed25519|oauth|saml|sso|totp
    |2fa|ntlm|x\.?509|fido2|[rh]s256|utf-?8)[\w-]*
    | (?:required|optional|mandatory|needed|missing|invalid|wrong|incorrect|expired|forgotten)\W*
    # whom to ask
    | (?-i:(?:[a-z0-9_-]*[_-])?(?:ask|see|team|group|ops|oncall|admins?|support)
    (?:[_-][a-z0-9_-]*|\d*))
    """,
    re.IGNORECASE | re.VERBOSE,
)
_SIGN = re.compile(r"[!@#$%^&*+~]")


def find(text: str) -> Iterator[Secret]:
    """The secrets that stand behind, below or in the column of a name; in any order."""
    for kind, pattern in _COMPILED:
        for match in pattern.finditer(text):
            yield from _judge(kind, match)
    yield from _find_in_tables(text)


def is_placeholder(text: str) -> bool:
    """Whether it stands for a secret and says so."""
    return bool(_PLACEHOLDER.search(text))


def _judge(kind: str, match: re.Match[str]) -> Iterator[Secret]:
    secret = match["secret"].rstrip(".:?)")
    start = match.start("secret")
    end = start + len(secret)
    ends_line = not re.match(r"[^\S\n]*[^\s\"'`*_|]", match.string[end : end + 80])
    if _is_secret(kind, secret, is_alone=ends_line and bool(re.search(r"[:=]", match[0]))):
        yield Secret(start, end, kind)


def _is_secret(kind: str, text: str, *, is_alone: bool) -> bool:
    """Whether it is no placeholder and, where words could stand, no word."""
    if is_placeholder(text) or _NO_SECRET.fullmatch(text):
        return False
    if kind == "password":
        # "Password: must be twelve characters" says what one has to be.
        has_sign = is_alone and len(text) >= 8 and bool(_SIGN.search(text))
        return len(text) >= 6 and (_has_letters_and_digits(text) or has_sign)
    if kind == "key":
        # The name of a key is made of short words: tokens-for-team-2.
        return any(len(part) >= 12 and _has_letters_and_digits(part) for part in _split(text))
    return True


def _split(text: str) -> list[str]:
    return re.split(r"[_.~/=+-]", text)


def _has_letters_and_digits(text: str) -> bool:
    return bool(re.search(r"\d", text) and re.search(r"[^\W\d_]", text))


def _find_in_tables(text: str) -> Iterator[Secret]:
    """What stands alone in a cell below the name of a column, or beside the name of a row."""
    head: Sequence[str | None] = ()
    before: list[re.Match[str]] = []
    for line in re.finditer(r"[^\n]+", text):
        cells = list(_CELL.finditer(text, *line.span())) if "|" in line[0] else []
        if cells and _RULE.fullmatch(line[0]):
            head = [_name(cell[0]) for cell in before if cell[0].strip()]
        elif cells:
            said = [cell for cell in cells if cell is not cells[0] or cell[0].strip()]
            yield from _find_in_row(said, head)
        else:
            head = ()
        before = cells


def _find_in_row(cells: Sequence[re.Match[str]], head: Sequence[str | None]) -> Iterator[Secret]:
    kinds: Iterable[str | None] = [*head, *[None] * len(cells)]
    beside = [None, *(_name(cell[0]) for cell in cells)]
    for cell, above, left in zip(cells, kinds, beside, strict=False):
        kind = above or left
        # With the name before it nothing else is in the cell, so it begins where the line did not.
        if kind and (match := _ALONE.fullmatch(cell.string, *cell.span())):
            yield from _judge(kind, match)


def _name(cell: str) -> str | None:
    return next((kind for kind, label in _LABEL.items() if label.fullmatch(cell)), None)
