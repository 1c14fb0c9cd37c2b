"""The errors that a person can do something about, one for each remedy."""


class FootnoteError(Exception):
    """Base of all; its text is a sentence for the operator that says what to do."""


class ConfigError(FootnoteError):
    """Fix the environment: a setting, a server, a folder, a version."""


class Busy(ConfigError):
    """Wait: somebody else is at it."""


class OtherBuild(ConfigError):
    """Finish or drop the index that is half built before another one is begun."""


class IndexMismatch(FootnoteError):
    """Index again: the index was built by another embedding model or chunker."""


class GenerationError(FootnoteError):
    """Claude gave nothing usable; asking again later may help."""
