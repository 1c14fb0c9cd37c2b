"""Secrets in documents: taken out before anything is stored, so that no path can show one.

What is indexed, searched, read by a model, quoted, cited, kept in traces and shown to reviewers is
all made of a document's stored text; masked there, a secret is nowhere, and what is cited still
stands word for word in its section.

Tokens and keys that have a form of their own are found by Kingfisher, without a network: 488 rules
take 0.1 s for 11 MB of Markdown. Yelp's detect-secrets 1.5.0 takes 40 s, has had no release since
2024, finds half of the kinds in tests and calls 40 harmless words a secret, where Kingfisher does
5. Passwords that people write down have no form; for these there is `passwords`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from retrieval import passwords
from retrieval.passwords import Secret
from retrieval.records import Document

if TYPE_CHECKING:  # loading it takes up to seconds, and only what indexes needs it
    from kingfisher_sdk import Scanner

VERSION = "3"  # of what is found; another one reads unchanged files again
MASK = "[secret removed]"

# Kingfisher wants a blank or a quote behind most tokens; in prose other things are there, too.
_PUNCTUATION = str.maketrans(dict.fromkeys("()[]{}<>|*,", " "))
_END = re.compile(r"[.:!?](?=\s|\Z)")

_KINDS = {"jwt": "JSON web token", "curl-auth-header": "authorization header"}


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
    for secret in sorted({*_find_tokens(text), *passwords.find(text)}):
        if merged and secret.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, secret.end))
        else:
            merged.append(secret)
    return merged


def _find_tokens(text: str) -> Iterator[Secret]:
    prose = _END.sub(" ", text.translate(_PUNCTUATION))
    for scanned in dict.fromkeys((text, prose)):
        data = scanned.encode()
        for finding in _load_scanner().scan(data):
            if not finding.visible or passwords.is_placeholder(finding.secret):
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
