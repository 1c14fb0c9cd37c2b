"""The embedding models of generations: a process goes on answering while the index is built anew.

A process searches what its models fit. Where another process has built the index by another model,
that is loaded beside, and the generation before is searched until it is there.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from retrieval.embedding import Embedder
from retrieval.errors import ConfigError, IndexMismatch
from retrieval.generations import Generation, chunker_name
from retrieval.tuning import Tuning

RETRY_S = 300  # until one that could not be loaded is tried again; chosen

Load = Callable[[Generation, Tuning], Embedder]

log = logging.getLogger(__name__)


def load_for(generation: Generation, tuning: Tuning) -> Embedder:
    """The model that built a generation, loaded.

    Raises IndexMismatch when it cannot be, has changed, or the code of today cuts otherwise.
    """
    if generation.chunker != chunker_name(tuning):
        raise IndexMismatch(
            f"Generation {generation.generation_id} is by chunker {generation.chunker}, and this "
            f"Footnote has {chunker_name(tuning)}. Run `footnote ingest` to build one anew."
        )
    try:
        embedder = Embedder(generation.embedder)
    except ConfigError as error:
        raise IndexMismatch(
            f"Generation {generation.generation_id} is by the embedding model "
            f"{generation.embedder}, which cannot be loaded here. Put it there, or run "
            "`footnote ingest` with an EMBEDDING_MODEL that can."
        ) from error
    if difference := generation.difference(embedder, tuning):
        raise IndexMismatch(
            f"Generation {generation.generation_id} does not fit: {difference}. Put the model "
            "back, or run `footnote ingest` to build one anew."
        )
    return embedder


class Models:
    """The models that a running process has loaded after it began, for several threads and tenants.

    One is loaded once, whoever has generations by it.
    """

    def __init__(self, load: Load = load_for, *, now: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._now = now
        self._lock = threading.Lock()
        self._loading = threading.Lock()  # for as long as one loads; whoever asks does not wait
        # By generation_id, with when each was begun; under the lock.
        self._begun: dict[int, tuple[float, Future[Embedder]]] = {}

    def find(self, generation: Generation, tuning: Tuning) -> Embedder | None:
        """The model of a generation if it is loaded; else it is being loaded from now on."""
        future = self._begin(generation, tuning)
        return future.result() if future.done() and future.exception() is None else None

    def wait(self, generation: Generation, tuning: Tuning) -> None:
        """Return once the model of a generation is loaded, or has turned out not to be there."""
        self._begin(generation, tuning).exception()

    def _begin(self, generation: Generation, tuning: Tuning) -> Future[Embedder]:
        with self._lock:
            begun_at, future = self._begun.get(generation.generation_id, (0.0, None))
            is_failed = future is not None and future.done() and future.exception() is not None
            if future is None or (is_failed and self._now() - begun_at >= RETRY_S):
                future = Future()
                self._begun[generation.generation_id] = (self._now(), future)
                threading.Thread(
                    target=self._work,
                    args=(future, generation, tuning),
                    name=f"model of generation {generation.generation_id}",
                    daemon=True,
                ).start()
        return future

    def _work(self, future: Future[Embedder], generation: Generation, tuning: Tuning) -> None:
        log.info("Generation %d is loading its model", generation.generation_id)
        try:
            with self._loading:
                shared = self._find_loaded(generation, tuning)
                future.set_result(shared or self._load(generation, tuning))
            log.info("Generation %d is answered from now on", generation.generation_id)
        except Exception as error:
            log.error(
                "Generation %d has no model here: %s; the one before answers on",
                generation.generation_id,
                error if isinstance(error, IndexMismatch) else type(error).__name__,
            )
            future.set_exception(error)

    def _find_loaded(self, generation: Generation, tuning: Tuning) -> Embedder | None:
        """What was loaded for another generation, if it fits this one."""
        with self._lock:
            done = [future for _, future in self._begun.values() if future.done()]
        loaded = [future.result() for future in done if future.exception() is None]
        return next((each for each in loaded if not generation.difference(each, tuning)), None)
