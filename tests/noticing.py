"""Waiting for what is logged."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Watch(logging.Handler):
    def __init__(self, words: str) -> None:
        super().__init__()
        self.words, self.noticed = words, threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self.words in record.getMessage():
            self.noticed.set()


@contextmanager
def watching(logger: str, words: str) -> Iterator[threading.Event]:
    """What is set once something with these words is logged."""
    watch = _Watch(words)
    logging.getLogger(logger).addHandler(watch)
    try:
        yield watch.noticed
    finally:
        logging.getLogger(logger).removeHandler(watch)
