"""Text to identifiers in normal form: what names one thing, however it is typed.

Prose gets stemming; identifiers never do. Each identifier has several forms, and a document and
a question meet in at least one of them:

- folded: case aside, as written: `payments_webhook_secret`, `/etc/acme/config.yaml`
- squashed: without separators and leading zeros, so that PAY-17, `pay 17` and PAY017 are one
- the last parts of a path, a dotted name or an address, so that `config.yaml` finds its folder,
  and the first part of a host or an address, where that names something by itself
"""

import re
from collections.abc import Iterator

MAX_LENGTH = 200  # characters; longer runs are data, and nobody types them
MAX_WORDS = 5  # neighbouring words of a question that may be one identifier typed with spaces

# An identifier starts and ends with a letter or digit; in between, what joins its parts.
_RUN = re.compile(r"[^\W_](?:[\w.:/@+\-]*[^\W_])?")
_WORD = re.compile(r"\d+(?:\.\d+)+|[^\W_]+")
_IN_AMOUNTS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))|(?<=\d)\.00(?!\d)")  # 1,500.00 is 1500
_RECORD_FOLDER = re.compile(r"(?:^|/)(adr|adrs|rfc|rfcs|decisions?|[\w-]*decision-records?)(?=/|$)")


def extract(text: str) -> frozenset[str]:
    """All forms of all identifiers in a document's text; empty for plain prose."""
    runs = _RUN.findall(_IN_AMOUNTS.sub("", text))
    return frozenset(form for run in runs if _is_identifier(run) for form in _forms(run))


def extract_from_path(path: str) -> frozenset[str]:
    """The forms under which a document's own path names it.

    A numbered file in a folder of decision records is also found by its kind and number, as
    people say it: `adr/0047-use-karpenter.md` by ADR 47.
    """
    folder, _, name = path.rpartition("/")
    stem = name.split(".")[0]
    forms = {_squash(stem), name.casefold(), *_forms(path)}
    number = re.match(r"\D{0,4}(\d+)", stem)
    if number and (kind := _RECORD_FOLDER.search(folder.casefold())):
        names = {"adr", kind[1].rstrip("s")} if kind[1] not in ("rfc", "rfcs") else {"rfc"}
        forms |= {_squash(f"{each}-{number[1]}") for each in names}
    return frozenset(form for form in forms if len(form) > 1)


def extract_from_question(question: str) -> frozenset[str]:
    """The forms by which a question may name an identifier, for looking up, not for storing.

    Long words are taken too, and neighbouring words squashed into one, since people type
    kubepodcrashlooping and kube pod crash looping; what stands in no document matches nothing.
    """
    question = _IN_AMOUNTS.sub("", question)
    # A short word in lower case is a word: `it` must not find the IT department.
    runs = [run for run in _RUN.findall(question) if _is_identifier(run) or len(run) > 5]
    forms = {form for run in runs for form in _forms(run)}
    words = _WORD.findall(_split_camel(question))
    for size in range(2, MAX_WORDS + 1):
        for start in range(len(words) - size + 1):
            forms.add(_squash(" ".join(words[start : start + size])))
    return frozenset(form for form in forms if 1 < len(form) <= MAX_LENGTH)


def _is_identifier(run: str) -> bool:
    """Whether a run of letters, digits and joiners names something, rather than being a word."""
    if len(run) > MAX_LENGTH or (run.isdigit() and len(run) < 3):
        return False
    return (
        any(character.isdigit() for character in run)
        or bool(re.search(r"[\w][_.:/@+\-]+[\w]", run))
        or (run.isupper() and len(run) > 1)
        or bool(re.search(r"[a-z][A-Z]", run))
    )


def _forms(run: str) -> Iterator[str]:
    folded = run.casefold()
    yield folded
    yield _squash(run)
    # /etc/acme/config.yaml is asked for as config.yaml, billing.timeout_ms as timeout_ms.
    rest = folded
    while parts := re.match(r"[^/.@:]*[/.@:]+(?!\d)", rest):
        rest = rest[parts.end() :]
        if _is_identifier(rest):
            yield rest
            yield _squash(rest)
    # A host is asked for by its own name; v2.3.1 is not v2, since a number is never cut.
    if (own := re.match(r"[^/.@:]+(?=[.@:](?!\d))", folded)) and _is_identifier(own[0]):
        yield own[0]
        yield _squash(own[0])
    if re.match(r"v\d", folded):
        yield folded[1:]


def _squash(text: str) -> str:
    """Without separators, and with numbers as numbers: ADR-0047 and adr 47 are one.

    Between two digits a separator stays, as a point: 2.3.1 is not 23.1.
    """
    text = re.sub(r"(?<=\d)[\W_]+(?=\d)", ".", text.casefold())
    text = re.sub(r"(?<![\d.])0+(?=\d)", "", text)
    return re.sub(r"(?!(?<=\d)\.(?=\d))[\W_]+", "", text)


def _split_camel(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
