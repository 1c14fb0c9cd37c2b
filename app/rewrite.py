"""Turns to the query that is searched for, by rules alone; English; pure."""

import re
from collections.abc import Sequence
from itertools import takewhile

from app import fillers
from retrieval import identifiers
from retrieval.records import Query, Turn

# A turn that means so many words before it points at anything names its own subject. Of the
# handbook's dev questions 201 of 228 do, and none of its 16 follow-ups; with 3, two of these do.
ENOUGH_WORDS = 4
LONGEST_TOPIC = 60  # words that a follow-up takes along: its own must fit the embedder's window

# What a follow-up opens with,
_LINK = re.compile(
    r"(?:and|or|but|also|plus|then|same|what about|what if|how about|what else|else|since when|"
    r"until when|which ones?|what for|in that case)\b|(?:why|why not|how come|who|when|where)\W*$",
    re.IGNORECASE,
)
# and what in it stands for something said before.
_POINTERS = frozenset(
    "it its it's itself that that's this these those they they're them their theirs he she him her "
    "his hers same such also else above previous earlier former latter".split()
)
STOP_WORDS = frozenset(
    "a about after again all am an and any are aren't as at be because been before being but by "
    "can can't could did didn't do does doesn't doing don't down for from get gets getting go "
    "going got had has hasn't have haven't having how how's i i'd i'm i've if in into is isn't "
    "just like long lot many may maybe me might more most much must my need never no not now of "
    "off on one ones only or our out over please really s should shouldn't so some someone still "
    "t than the then there there's thing things though through to too under until up us use used "
    "using very want was wasn't we we're were what what's whats when when's where where's which "
    "who who's whos whose why will with won't would yes yet you your".split()
)
_WORD = re.compile(r"[^\W_](?:[\w'-]*[^\W_])?")
_NEW = r"(?:an?other|a different|different|other|a new|new|a separate|separate|next|one more)"
_TOPIC_CHANGE = re.compile(
    rf"(?:(?:now|and|on|to) )*(?:{_NEW} (?:topic|subject|note|(?P<more>question|thing))|"
    r"(?:an )?unrelated(?: question)?|separately|change of (?:topic|subject)|"
    r"something (?:completely |entirely |totally )?(?:else|different))\b"
    r"\s*[,.!:;…–—-]+\s+(?=\w)",
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\s,;!?()\"“”]{0,100}[^\W_]")
_NUMBERED = re.compile(r"[A-Za-z]{2,12} #?\d+\b")
# "And E-1077?", "what about ADR 7?", "same for 2024"
_LONE_NAME = re.compile(
    rf"(?:(?:and|or|but|then|what about|how about|same(?: thing)?|for|with|in|on|about|the) )*"
    rf"(?P<name>{_NUMBERED.pattern}|{_NAME.pattern})[\s?!.]*",
    re.IGNORECASE,
)


def rewrite(turns: Sequence[Turn]) -> Query:
    """The last turn as a query, without filler; a follow-up takes along what it leaves out.

    "And in the first year?" finds nothing by itself, and what it leaves out was nearly always
    asked before: in the last question that stood on its own. Only users' turns are used.

    What seems to be a follow-up may still change the topic, so it is searched for by itself, too,
    and a section counts by the better reading. One that names its own subject is read by itself
    alone: else an off-topic question is answered from what was asked before it, 25 of 32 times
    when all were taken for follow-ups, 10 times so.
    """
    *earlier, last = (turn.text for turn in turns if turn.speaker == "user")
    said: tuple[str, ...] = ()
    for text in filter(None, map(fillers.strip, earlier)):
        said = _follow(said, text)
    asked = fillers.strip(last)
    if not asked:
        return Query(text=last, question=last)
    read = _follow(said, asked)
    text = " ".join(read)
    if len(read) == 1:
        return Query(text=text, question=last)
    return Query(text=text, question=last, variants=(asked,), readings=(text, asked))


def is_plain(turns: Sequence[Turn]) -> bool:
    """Whether a model has nothing to add to the last turn.

    That is thanks and the like, or a question of its own about an identifier with one word more
    at most, or of one or two words.
    """
    *earlier, last = (turn.text for turn in turns if turn.speaker == "user")
    words = _find_words(fillers.strip(last))
    meant = [word for word in words if word.casefold() not in STOP_WORDS]
    plain = [word for word in meant if not identifiers.extract(word)]
    return not words or (not earlier and (len(words) <= 2 or (len(plain) <= 1 and plain != meant)))


def _follow(said: tuple[str, ...], text: str) -> tuple[str, ...]:
    """The last question that stood on its own and what followed it, with one more turn."""
    if not said:
        return (text,)
    if change := _TOPIC_CHANGE.match(text):
        text = text[change.end() :]
        if not (change["more"] and _points_back(text)):
            return (text,)
    if _stands_alone(text):
        return (text,)
    topic = " ".join(said[0].split()[-LONGEST_TOPIC:])
    if swapped := _swap_name(topic, text):
        return (swapped,)
    return (topic, *said[1:][-1:], text)


def _stands_alone(text: str) -> bool:
    """Whether a turn names its own subject before it points at anything."""
    own = takewhile(lambda word: word.casefold() not in _POINTERS, _find_words(text))
    return not _LINK.match(text) and sum(map(_weigh, own)) >= ENOUGH_WORDS


def _points_back(text: str) -> bool:
    return bool(_LINK.match(text)) or any(
        word.casefold() in _POINTERS for word in _find_words(text)
    )


def find_topic_words(text: str) -> frozenset[str]:
    """The words of a text that say what it is about, without their case."""
    words = (word.casefold() for word in _find_words(text))
    return frozenset(word for word in words if word not in STOP_WORDS)


def _find_words(text: str) -> list[str]:
    return _WORD.findall(text.replace("’", "'"))


def _weigh(word: str) -> int:
    if any(_build(word)):
        return ENOUGH_WORDS - 1  # a name with one word more is a subject: "RFC 842"
    return sum(part.casefold() not in STOP_WORDS for part in word.split("-"))


def _swap_name(topic: str, text: str) -> str | None:
    """The topic about another name, when a name of the same kind is all that the turn says."""
    lone = _LONE_NAME.fullmatch(text)
    if not lone:
        return None
    name = lone["name"]
    names = (_NUMBERED if " " in name else _NAME).findall(topic)
    old = {each for each in names if _are_alike(each, name)}
    if len(old) != 1:
        return None
    return re.sub(rf"(?<!\w){re.escape(old.pop())}(?!\w)", lambda _: name, topic)


def _are_alike(one: str, other: str) -> bool:
    """Whether two names are of one kind: E-1042 and E-1077, ADR 4 and ADR 7, 2023 and 2024."""
    begins, others = (re.split(r"[\W\d_]", name.casefold(), maxsplit=1)[0] for name in (one, other))
    if begins == others and begins not in STOP_WORDS:
        return " " in one or bool(identifiers.extract(one) and identifiers.extract(other))
    return " " not in one and any(_build(one)) and _build(one) == _build(other)


def _build(name: str) -> tuple[bool, bool, bool]:
    """What makes a word a name at sight: a digit, an underscore, a capital inside."""
    return bool(re.search(r"\d", name)), "_" in name, bool(re.search(r"[a-z][A-Z]", name))
