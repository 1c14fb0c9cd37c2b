"""Settings to the parts that are held open: embedding model, reranker, search, answerer.

Importing this loads PyTorch, which takes seconds.
"""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.answering import Answerer
from app.config import Settings
from app.generate.generator import Generator
from app.generate.quoted import INSTEAD, Quoter
from retrieval import generations
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.errors import IndexMismatch
from retrieval.models import Models, load_for
from retrieval.rerank import LateInteraction, Reranker
from retrieval.retrieve import Retriever
from retrieval.tuning import CROSS_ENCODED, DEFAULT, PACKAGED, Tuning

if TYPE_CHECKING:
    from app.reword import Rewriter


def load_embedder(settings: Settings) -> Embedder:
    """The embedding model that is set, loaded: ingest indexes by it."""
    name = settings.embedding_model
    # Another process finds a generation's model by its name, wherever it was started.
    is_folder = name != PACKAGED and Path(name).is_dir()
    return Embedder(str(Path(name).resolve()) if is_folder else name)


def load_reranker(settings: Settings) -> Reranker:
    """The cross-encoder where one is named, loaded, else late interaction."""
    if settings.rerank_model is None:
        return LateInteraction()
    from retrieval.cross_encoder import CrossEncoder

    return CrossEncoder(settings.rerank_model)


def find_tuning(settings: Settings) -> Tuning:
    """What the search goes by."""
    return CROSS_ENCODED if settings.rerank_model else DEFAULT


def build_retriever(
    settings: Settings, database: Database, generation_id: int | None = None
) -> Retriever:
    """The whole search, models loaded: of one generation or, by default, of the index in use.

    The index decides by which model it is searched; that which is set is for ingest. Raises
    ConfigError when there is no such generation, and as load_for does when its model is not there.
    """
    if generation_id is None:
        embedder = _load_searched_embedder(database) or load_embedder(settings)
    else:
        with database.transaction() as connection:
            generation = generations.load_by_id(connection, generation_id)
        embedder = load_for(generation, DEFAULT)
    return Retriever(
        database=database,
        embedder=embedder,
        reranker=load_reranker(settings),
        tuning=find_tuning(settings),
        generation_id=generation_id,
        freshness_days=settings.freshness_days,
    )


def _load_searched_embedder(database: Database) -> Embedder | None:
    """The model of the first of the generations in use whose model is there; None where there is
    none."""
    with database.transaction() as connection:
        found = list(generations.find_searched(connection))
    for generation in found:
        with suppress(IndexMismatch):
            return load_for(generation, DEFAULT)
    return None


def follow_index(answerer: Answerer) -> Answerer:
    """The same for a process that goes on for long: when the index is built anew by another model,
    it searches that one as soon as it has loaded its model."""
    return replace(answerer, retriever=replace(answerer.retriever, models=Models()))


def build_answerer(settings: Settings, database: Database) -> Answerer:
    """The whole path from a question to its answer: by Claude where a key is set, else quoted.

    While Claude is away it is quoted, too. Raises as Retriever.check does, before anybody asks.
    """
    answerer = assemble_answerer(settings, build_retriever(settings, database))
    answerer.retriever.check()
    return answerer


def assemble_answerer(settings: Settings, retriever: Retriever) -> Answerer:
    """The same, over whatever is indexed."""
    has_key = settings.anthropic_api_key is not None
    return Answerer(
        retriever=retriever,
        generator=_build_generator(settings, retriever.embedder),
        quoter=Quoter(retriever.embedder, INSTEAD) if has_key else None,
        rewriter=build_rewriter(settings),
        freshness_days=settings.freshness_days,
    )


def build_rewriter(settings: Settings) -> "Rewriter | None":
    """What words questions by Claude; None, and they are worded by rules, where no key is set."""
    if settings.anthropic_api_key is None:
        return None
    from app.reword import Rewriter  # takes seconds to import, too

    return Rewriter(settings)


def _build_generator(settings: Settings, embedder: Embedder) -> Generator:
    if settings.anthropic_api_key is None:
        return Quoter(embedder)
    from app.generate.anthropic import Claude  # takes seconds to import, too

    return Claude(settings)
