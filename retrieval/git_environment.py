"""What git inherits of our environment, whatever it is run for."""

import os

# What a caller that is a hook of git itself hands on: the repository that it is about.
_OF_ANOTHER = (
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE"),
    *("GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_WORK_TREE"),
)


def build() -> dict[str, str]:
    """All of it but what would have git look at another repository than it is told to."""
    return {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER}
