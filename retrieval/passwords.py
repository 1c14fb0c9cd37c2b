"""Secrets that people write down: what stands behind a name such as "password"; pure.

They have no form of their own, so a name says that there is one, and what stands there is judged:
what says what a password has to be, where it is or what stands for it is none.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Secret(NamedTuple):
    """Where a text holds a secret, and of which kind."""

    start: int
    end: int
    kind: str  # as its owner is told


# Where a name begins: not within a word, but as the second one of dbPassword and PGPASSWORD.
_START = r"(?:(?<![^\W_])(?:[a-z]{1,12}(?=passw))?|(?-i:(?<=[a-z0-9])(?=[A-Z])))"
# A number behind a loose one counts something: passes, periods, how many passwords there are.
_NAME = (
    r"(?:pass(?:word|wd|phrase|code|wort)|kennwort|mot de passe|contrase(?:ñ|n)a|wachtwoord"
    r"|has[łl]o|(?P<loose>passwords|passwörter|kennwörter|pwd?|pass))"
)
_KEY = r"(?:api|access|secret|private|auth|client|account|encryption)"
_FULL_KEY = rf"{_KEY}[_ -]?(?:key|token|secret)"
_TOKEN = rf"(?:{_FULL_KEY}|token|secret)"  # not nextToken, which is no secret
# Of which system it is: PASSWORD_PROD, Password (prod).
_OF = (
    r"(?:_(?-i:[A-Z0-9][A-Z0-9_]{0,30}|prod\w{0,9}|stag\w{0,5}|dev|test))?"
    r"(?:\s?\([^()|\n]{1,30}\))?"
)
_MARKS = r"[\"'`*_]{0,3}\s{0,3}[\"'`*_]{0,3}"
# "The password for the printer on floor two is …"
_WHOSE = (
    r"(?:\s(?:for|of|to|on|at|für|von|zu|zum|pour|du|de|para|voor)(?:\s[^\s.:;|=]{1,20}){1,5}?)?"
)
_SAYS = r"(?:[:=：]{1,2}>?|\b(?:is|ist|lautet|est|es)\b:?)"
_BETWEEN = rf"{_OF}{_WHOSE}{_MARKS}[ \t]{{0,40}}{_SAYS}[ \t]{{0,40}}{_MARKS}"
_VALUE = r"[^\s\"'`|<>,;]"


def _build_entry(name: str) -> str:
    """As Kubernetes has it, and XML."""
    return (
        rf"\b(?:name|key)[\"']?\s{{0,3}}[:=]\s{{0,3}}[\"']?(?:[\w.-]{{0,40}}[_.-])?{name}{_OF}"
        r"[\"']?,?\s{1,40}[\"']?value[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
    )


_PATTERNS = {
    "password": (
        rf"{_START}{_NAME}{_BETWEEN}(?P<secret>{_VALUE})",
        rf"{_build_entry(_START + _NAME)}(?P<secret>{_VALUE})",
        # Only in quotes where nothing says that it follows.
        rf"(?:{_START}{_NAME}|\bidentified\s+by)\s{{1,3}}[\"'`](?P<secret>{_VALUE}{{6}})",
        rf"<[\w:-]{{0,40}}{_NAME}>\s{{0,3}}(?P<secret>[^\s<>]{{6}})[^\s<>]{{0,250}}\s{{0,3}}</",
        # Below its name, alone: on a line, or in a block of code.
        rf"{_START}{_NAME}[*_]{{0,3}}:[*_]{{0,3}}[ \t]*\n\s{{0,20}}"
        rf"(?P<secret>{_VALUE}{{6,250}})[ \t]*$",
        rf"{_START}{_NAME}[*_:]{{0,4}}[ \t]*\n\s{{0,20}}`(?P<secret>{_VALUE}{{6,250}})`[ \t]*$",
        rf"{_START}{_NAME}[*_:]{{0,4}}[ \t]*\n\s{{0,20}}(?:```|~~~)[^\n]{{0,20}}\n[ \t]{{0,20}}"
        rf"(?P<secret>{_VALUE}{{6,250}})[ \t]*\n[ \t]{{0,20}}(?:```|~~~)",
        rf"\b(?:mysql\w{{0,10}}|mariadb)\b[^\n|]{{0,80}}?\s-p[\"']?(?P<secret>{_VALUE}{{6}})",
        r"(?<!\S)(?:--(?:[\w-]{1,20}-)?pass(?:word|wd)?|sshpass\s+-p"
        rf"|docker\s+login\b[^\n|]{{0,80}}?\s-p)[\s=][\"']?(?P<secret>{_VALUE}{{6}})",
        r"\b(?:log-?in|credentials?|zugangsdaten)[*_]{0,3}\s?[:=][*_]{0,3}\s?`?[^\s`]{1,40}`?\s/\s`?"
        rf"(?P<secret>{_VALUE}{{6}})",
    ),
    "key": (
        rf"(?:(?<![\w-])(?:[\w-]{{0,40}}[_-])?{_TOKEN}|{_START}(?:{_FULL_KEY}|secret)){_BETWEEN}"
        r"(?P<secret>[A-Za-z0-9+/=_.~-]{16,1024})",
        rf"{_build_entry(_TOKEN)}(?P<secret>[A-Za-z0-9+/=_.~-]{{16,1024}})",
        r"\"auth\"\s{0,3}:\s{0,3}\"(?P<secret>[A-Za-z0-9+/]{12,512}={0,2})\"",
    ),
    # Without its end no scanner takes it for one.
    "private key": (
        r"(?P<secret>-----BEGIN (?:[A-Z]{1,12} ){0,3}PRIVATE KEY-----"
        r"(?:(?:\\[nr]|[\s>]){1,20}[A-Za-z0-9+/=]{16,80}){1,200})",
    ),
    "Telegram bot token": (r"(?<![\w:])(?P<secret>\d{8,10}:AA[\w-]{33})(?![\w-])",),
    "password hash": (
        r"(?P<secret>\$(?:apr1|[156])\$[^$\s]{1,40}\$[./0-9A-Za-z]{22,86})(?![./\w])",
    ),
    "signature in a URL": (r"[?&]sig=(?P<secret>[A-Za-z0-9%+/=_-]{20,256})",),
    "password in a URL": (
        r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'`<>]{0,64}:(?P<secret>[^\s/\"'`]{3,256})@"
        r"(?=[\w\[][^@/\s]{0,256}(?:[/\s]|\Z))",
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
# What is no secret where it stands behind "pass": of seasons, flights, mountains and tests.
_PASS = "pass"
_LABEL = {
    _PASS: re.compile(r"[*_`\s]*(?:[\w-]{1,30} ){0,4}pass[*_`:\s]*", re.IGNORECASE),
} | {
    kind: re.compile(
        rf"[*_`\s]*(?:[\w-]{{1,30}}[ _-]){{0,4}}(?:[a-z]{{1,12}}(?=passw))?{name}{_OF}[*_`:\s]*",
        re.IGNORECASE,
    )
    for kind, name in (("password", _NAME), ("key", _TOKEN))
}
_VARIABLE = re.compile(r"[*`\s]*[A-Z0-9]+(?:_[A-Z0-9]+)+[*`\s]*")
_RULE = re.compile(r"[\s|:-]*-[\s|:-]*")
_CELL = re.compile(r"((?:\\.|[^|\\])*)(?:\||\\?\Z)")
_ALONE = re.compile(r"[\s*_`\"']*(?P<secret>\S{6,512}?)[\s*_`\"']*")
_LONGEST_LABEL = 80

# Where a secret without quotes ends: before a blank, a tag, the next name, or what ends its quotes
# or its link; what closes a sentence or stands around it is none of it.
_NEXT = re.compile(
    r"\s|</?[a-z!][^<>\n]{0,80}>|[;&,](?=[\w .-]{1,30}=)|[\"'`](?!\w)|\]\(|(?P<bar>(?<!\\)\|)",
    re.IGNORECASE,
)
_AROUND = "\"'`*_)]}>,;.:?|\\"
_IN_QUOTES = {
    quote: re.compile(rf"(?:\\.|[^{quote}\\\n])*(?={quote})") for quote in ('"', "'", "`")
}
_LONGEST, _LONGEST_ROW = 256, 10_000  # bound the time that a page without blanks or lines takes

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
    (?:[_-][a-z0-9_-]*)?)
    # which edition
    | v?\d+(?:\.\d+)+[\w.+-]*
    """,
    re.IGNORECASE | re.VERBOSE,
)
_SIGN = re.compile(r"[!@#$%^&*+~]")
_NO_TICKET = re.compile(r"(?=.*[a-z])(?=.*[A-Z]).*|.*[!@#^&~].*")
_AS_IN_CODE = re.compile(r"[=\"'`<>]")
_SAID = re.compile(_SAYS, re.IGNORECASE)


def find(text: str) -> Iterator[Secret]:
    """The secrets that stand behind, below or in the column of a name; in any order."""
    for kind, pattern in _COMPILED:
        for match in pattern.finditer(text):
            start = match.start("secret")
            head_end, end = _find_ends(kind, match)
            is_said = bool(_SAID.search(match[0]))
            is_alone = is_said and _ends_line(text, end)
            loose = match.groupdict().get("loose")
            if _is_secret(
                _PASS if loose and _is_ticket(match) else kind,
                text[start:head_end],
                may_be_number=is_said and not loose,
                is_alone=is_alone,
            ):
                yield Secret(start, end, kind)
    yield from _find_in_tables(text)


def is_placeholder(text: str) -> bool:
    """Whether it stands for a secret and says so."""
    return bool(_PLACEHOLDER.search(text))


def _find_ends(kind: str, match: re.Match[str]) -> tuple[int, int]:
    """Where the first word of a secret ends, by which it is judged, and where all of it does."""
    text, start = match.string, match.start("secret")
    if kind != "password":  # its pattern has all of it
        end = start + len(match["secret"].rstrip(".:?)"))
        return end, end
    quotes = _IN_QUOTES.get(text[start - 1])
    if quotes and (quoted := quotes.match(text, start, start + _LONGEST)):
        return start + len(quoted[0].split(maxsplit=1)[0].rstrip(".:?)")), quoted.end()
    line = text.rfind("\n", max(0, start - _LONGEST_ROW), start) + 1
    is_row = text[line : line + 4].lstrip().startswith("|")
    stop = min(start + _LONGEST, len(text))
    ends = (each.start() for each in _NEXT.finditer(text, start, stop) if is_row or not each["bar"])
    end = start + len(text[start : next(ends, stop)].rstrip(_AROUND))
    return end, end


def _ends_line(text: str, end: int) -> bool:
    return not re.match(r"[^\S\n]*[^\s\"'`*_|]", text[end : end + 80])


def _is_ticket(match: re.Match[str]) -> bool:
    """Whether it stands behind "pass" as in prose."""
    begin, end = match.span("loose")
    is_in_code = re.match(r"\w", match.string[max(0, begin - 1) : begin]) or _AS_IN_CODE.search(
        match.string, end, match.start("secret")
    )
    return match["loose"].lower() == _PASS and not is_in_code


def _is_secret(kind: str, text: str, *, may_be_number: bool, is_alone: bool) -> bool:
    """Whether it is no placeholder and, where words could stand, no word."""
    if kind == "private key":
        return True
    if is_placeholder(text) or _NO_SECRET.fullmatch(text):
        return False
    if kind == _PASS:
        return bool(_has_letters_and_digits(text) and _NO_TICKET.fullmatch(text)) and len(text) >= 6
    if kind == "password":
        # "Password: must be twelve characters" says what one has to be.
        has_sign = is_alone and len(text) >= 8 and bool(_SIGN.search(text))
        is_number = may_be_number and text.isdecimal()
        return len(text) >= 6 and (_has_letters_and_digits(text) or has_sign or is_number)
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
        cells = _split_row(line) if "|" in line[0] else []
        if cells and _RULE.fullmatch(line[0]):
            head = [_name(cell[1]) for cell in before]
        elif cells:
            yield from _find_in_row(cells, head)
        else:
            head = ()
        before = cells


def _split_row(line: re.Match[str]) -> list[re.Match[str]]:
    """The cells of a row; what is before its first bar is none, if that is nothing."""
    cells = list(_CELL.finditer(line.string, *line.span()))
    return cells[1:] if not cells[0][1].strip() else cells


def _find_in_row(cells: Sequence[re.Match[str]], head: Sequence[str | None]) -> Iterator[Secret]:
    names = [_name(cell[1]) for cell in cells]
    variable = names[0] if names and _VARIABLE.fullmatch(cells[0][1]) else None
    for cell, above, left in zip(
        cells, [*head, *[None] * len(cells)], [None, *names], strict=False
    ):
        kind = above or left or variable
        alone = _ALONE.fullmatch(cell.string, *cell.span(1)) if kind else None
        if (
            kind
            and alone
            and _is_secret(kind, alone["secret"], may_be_number=False, is_alone=False)
        ):
            yield Secret(*alone.span("secret"), "password" if kind == _PASS else kind)


def _name(cell: str) -> str | None:
    if len(cell) > _LONGEST_LABEL:
        return None
    return next((kind for kind, label in _LABEL.items() if label.fullmatch(cell)), None)
