"""What stands above or below the line in a PDF to the word that it belongs to: 10⁶, CO2."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from retrieval.sources.text import raise_up

# Times the size of the word; chosen. Most programs have 0.6 to 0.8, and initials of a text twice
# its size.
SMALLEST, LARGEST = 0.55, 0.9
NEAR = 0.15  # times the part's size, from the word's end; a blank is wider
RAISED = 0.2  # times its size, from middle to middle; chosen


def join(words: Sequence[Any]) -> list[Any]:
    """The words of a page in their order, each with what stands above or below its end."""
    ends: dict[int, list[Any]] = defaultdict(list)
    wholes: dict[int, Any] = {}  # by the part's or the word's identity: the word with its parts
    for word in sorted(words, key=lambda word: word["x0"]):
        places = range(round(word["x0"] - word["size"]), round(word["x0"]) + 3)
        near = [each for at in places for each in ends[at]]
        whole = next((wholes[id(each)] for each in near if _touches(wholes[id(each)], word)), None)
        others = [each for each in near if wholes[id(each)] is not whole]
        if whole is None or any(_leads_to(each, word, whole) for each in others):
            wholes[id(word)] = dict(word)
        else:
            wholes[id(word)] = whole
            is_raised = _middle(whole) - _middle(word) > RAISED * whole["size"]
            whole["text"] += raise_up(word["text"]) if is_raised else word["text"]
            whole["x1"] = word["x1"]
            whole["is_joined"] = True
        ends[round(word["x1"])].append(word)
    return list({id(wholes[id(word)]): wholes[id(word)] for word in words}.values())


def _leads_to(other: Any, word: Any, whole: Any) -> bool:
    """Whether a word goes on from another one of its size, on its line, and not from the whole."""
    is_alike = other["size"] == word["size"] and abs(other["bottom"] - word["bottom"]) < 1
    return is_alike and bool(whole["x0"] < other["x1"] < whole["x1"])


def _touches(whole: Any, word: Any) -> bool:
    """Whether a word goes on where the whole ends: in small type, or after such as before it."""
    is_near = abs(word["x0"] - whole["x1"]) <= NEAR * word["size"]
    if not is_near or word["x0"] <= whole["x0"]:
        return False
    if word["size"] == whole["size"]:
        return "is_joined" in whole and bool(word["bottom"] == whole["bottom"])
    is_small = bool(SMALLEST <= word["size"] / whole["size"] <= LARGEST)
    shared = min(word["bottom"], whole["bottom"]) - max(word["top"], whole["top"])
    return is_small and bool(shared > word["size"] / 3)  # and not of the next line


def _middle(word: Any) -> float:
    return float(word["top"] + word["bottom"]) / 2
