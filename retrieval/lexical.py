"""Text to the words that the lexical leg stores and looks up."""

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+")
_VERSION = re.compile(r"\bv(?=\d+\.\d)", re.IGNORECASE)  # v2.3.1 is 2.3.1


def build_words(text: str) -> str:
    """The text's words in lower case without accents, separated by spaces.

    PostgreSQL's own parser takes <timeout> for a tag, -17 for a number and config.yaml for a
    host; after this it only stems. Nothing that a person types can act as an operator.
    """
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(character for character in plain if not unicodedata.combining(character))
    return " ".join(_WORD.findall(_VERSION.sub("", plain))).lower()
