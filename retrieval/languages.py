"""Text or tag to the language of a document, by the name of a text search configuration.

Among those that every supported PostgreSQL has; its configuration decides how words are stemmed.
"""

import re
from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier

DEFAULT = "english"  # what a text too short or too mixed to tell counts as
UNKNOWN = "simple"  # of a language that PostgreSQL has no stemmer for

# Least probability to believe. Of the handbook's 1,942 English pages none is taken for another at
# this; of a sentence of 80 characters in each of 22 other languages all are told.
SURE = 0.7
READ = 1_000  # characters; more tell nothing new and take time

_BY_TAG = {
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nb": "norwegian",
    "ne": "nepali",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    # What is looked up by its characters needs no stemmer; the words among it are English.
    **dict.fromkeys(("ja", "km", "ko", "lo", "my", "th", "wuu", "yue", "zh"), "english"),
    "zxx": DEFAULT,  # no language at all
}


def parse(value: str) -> str | None:
    """The language that a page states: de, de-AT, pt_BR, german; None when it states none.

    A page about a programming language may say `language: python`.
    """
    stated = re.match(r"\s*([a-z]*)", value.casefold())
    name = stated[1] if stated else ""
    return name if name in _BY_TAG.values() else _BY_TAG.get(name)


def detect(text: str) -> str:
    """The language that most of the text is in; prose, without code."""
    tag, probability = _load().classify(text[:READ])
    return _BY_TAG.get(tag, UNKNOWN) if probability >= SURE else DEFAULT


@cache
def _load() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
