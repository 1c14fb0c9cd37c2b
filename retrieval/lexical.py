"""Text to the words that the lexical leg stores and looks up, and words to their stems."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

VERSION = "1"  # raise it with any change that yields other words, stems or weights for a text

MAX_LENGTH = 200  # characters; longer words are data, and nobody asks for them

# Base64 and the like: a run of these characters longer than any address.
DATA = re.compile(r"[^\W_][\w+/=-]{1999,}", re.ASCII)

# Written without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese. Korean has
# spaces, but hangs its particles onto the words.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U000323af"
)
# Accents and vowel signs, which Python takes for no part of a word.
_MARKS = "".join(
    chr(code) for code in range(0x300, 0x12000) if unicodedata.category(chr(code)) in ("Mn", "Mc")
)
_INVISIBLE = "\u00ad\u200c\u200d"  # soft hyphen, joiners: inside a word and never typed

# A word, which for 1,500 is 1500 and for v2.3.1 begins after the v. Marks apart, since looking for
# them at every letter would take twice the time.
_RUN = re.compile(
    rf"(?:\b[vV](?=\d+\.\d))?(\d{{1,3}}(?:,\d{{3}})+(?!,?\d)|\w+(?:[{_MARKS}{_INVISIBLE}]+\w*)*)"
)
_PIECE = re.compile(rf"([{_UNSPACED}]+)|[^_{_UNSPACED}]+")
_LEFT_OUT = re.compile(f"[,{_INVISIBLE}]")

# Accents, but not what makes й of и, which are two letters to a Russian; and the signs for vowels
# that Hebrew and Arabic are usually written without.
_ACCENTS = re.compile(
    "(?<![ИиУу])\u0306|[\u0300-\u0305\u0307-\u036f\u0591-\u05c7\u064b-\u065f\u0670]"
)
_LETTERS = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ı": "i"})

# SQL: the stems, as text[], of `word`, with `folded` as fold gives it, in `language`; none for a
# stop word. There are two where the accents matter to the stemmer: solicitação and solicitações
# are one by their spelling, solicitação and solicitacao one without accents.
#
# A dictionary is asked, not to_tsvector: PostgreSQL's parser takes <timeout> for a tag, -17 for a
# number, config.yaml for a host and a Japanese sentence for a word; a tsvector ends at 1 MB.
_DICTIONARY = (
    "CAST(CASE language WHEN 'simple' THEN language ELSE language || '_stem' END AS regdictionary)"
)
STEMS = f"""
    CASE WHEN ts_lexize({_DICTIONARY}, word) = '{{}}' THEN '{{}}'
    WHEN word = folded THEN ts_lexize({_DICTIONARY}, word)
    ELSE ARRAY(SELECT DISTINCT unnest(ts_lexize({_DICTIONARY}, word)
                                      || ts_lexize({_DICTIONARY}, folded))) END
"""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text; where words are not kept apart, two neighbouring characters."""

    text: str  # in lower case, with its accents
    span: tuple[int, int]  # half-open, in the text as it was


def find_words(text: str) -> list[Word]:
    """The text's words in order; nothing that a person types can act as an operator."""
    words: list[Word] = []
    for match in _RUN.finditer(DATA.sub(lambda data: " " * len(data[0]), text)):
        run = match[1]
        if run.isascii() and run.isalnum() and len(run) <= MAX_LENGTH:
            words.append(Word(run.lower(), match.span(1)))
        else:
            words += _split(run, match.start(1))
    return words


def _split(run: str, start: int) -> Iterator[Word]:
    plain = _LEFT_OUT.sub("", unicodedata.normalize("NFKC", run).casefold())
    for piece in _PIECE.finditer(plain):
        first, last = piece.span()
        # Bigrams find 経費精算 in the midst of a sentence, without a dictionary of Japanese.
        size = min(last - first, 2) if piece[1] else last - first
        if size > MAX_LENGTH:
            continue
        for begin in range(first, last - size + 1):
            span = (start + begin, start + begin + size)
            if len(plain) != len(run):  # ﬁ has become two letters, say
                span = (start, start + len(run))
            yield Word(plain[begin : begin + size], span)


def fold(word: str) -> str:
    """A word as it is typed without accents: résumé as resume, Straße as strasse."""
    if word.isascii():
        return word
    plain = unicodedata.normalize("NFKD", word.translate(_LETTERS))
    return unicodedata.normalize("NFC", _ACCENTS.sub("", plain))


def build_words(text: str) -> str:
    """The text's words without accents, separated by spaces."""
    return " ".join(fold(word.text) for word in find_words(text))
