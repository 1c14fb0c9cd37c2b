"""Settings to the parts that are held open: embedding model, reranker, search, answerer.

Importing this loads PyTorch, which takes seconds.
"""

from typing import TYPE_CHECKING

from app.answering import Answerer
from app.config import Settings
from app.generate.generator import Generator
from app.generate.quoted import Quoter
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.rerank import LateInteraction, Reranker
from retrieval.retrieve import Retriever
from retrieval.tuning import CROSS_ENCODED, DEFAULT, Tuning

if TYPE_CHECKING:
    from app.reword import Rewriter


def load_embedder(settings: Settings) -> Embedder:
    """The embedding model, loaded."""
    return Embedder(settings.embedding_model)


def load_reranker(settings: Settings) -> Reranker:
    """The cross-encoder where one is named, loaded, else late interaction."""
    if settings.rerank_model is None:
        return LateInteraction()
    from retrieval.cross_encoder import CrossEncoder

    return CrossEncoder(settings.rerank_model)


def find_tuning(settings: Settings) -> Tuning:
    """What the search goes by."""
    return CROSS_ENCODED if settings.rerank_model else DEFAULT


def build_retriever(settings: Settings, database: Database) -> Retriever:
    """The whole search, models loaded."""
    return Retriever(
        database=database,
        embedder=load_embedder(settings),
        reranker=load_reranker(settings),
        tuning=find_tuning(settings),
    )


def build_answerer(settings: Settings, database: Database) -> Answerer:
    """The whole path from a question to its answer: by Claude where a key is set, else quoted.

    Raises as Retriever.check does, before anybody asks.
    """
    answerer = assemble_answerer(settings, database)
    answerer.retriever.check()
    return answerer


def assemble_answerer(settings: Settings, database: Database) -> Answerer:
    """The same, over whatever is indexed."""
    retriever = build_retriever(settings, database)
    return Answerer(
        retriever=retriever,
        generator=_build_generator(settings, retriever.embedder),
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
