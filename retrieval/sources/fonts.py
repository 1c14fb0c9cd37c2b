"""What a font's name tells of it, as Word has it or, without blanks, a PDF."""

import re

_MONOSPACED = re.compile(
    r"courier|consol|menlo|monaco|inconsolata|cascadia|lucida ?console|fira ?code|source ?code"
    r"|mono(?!type)",
    re.IGNORECASE,
)


def is_monospaced(name: str) -> bool:
    """Whether it is one in which code is written."""
    return _MONOSPACED.search(name) is not None
