"""Settings to the parts that are held open: embedding model, search, answerer.

Importing this loads PyTorch, which takes seconds.
"""

from app.answering import Answerer
from app.config import Settings
from app.generate.generator import Generator
from app.generate.quoted import Quoter
from retrieval import relevance
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.retrieve import Retriever
from retrieval.tuning import DEFAULT


def load_embedder(settings: Settings) -> Embedder:
    """The embedding model, loaded."""
    return Embedder(settings.embedding_model)


def build_retriever(settings: Settings, database: Database) -> Retriever:
    """The whole search, models loaded."""
    return Retriever(
        database=database,
        embedder=load_embedder(settings),
        model=relevance.load(),
        tuning=DEFAULT,
    )


def build_answerer(settings: Settings, database: Database) -> Answerer:
    """The whole path from a question to its answer: by Claude where a key is set, else quoted."""
    retriever = build_retriever(settings, database)
    return Answerer(retriever=retriever, generator=_build_generator(settings, retriever.embedder))


def _build_generator(settings: Settings, embedder: Embedder) -> Generator:
    if settings.anthropic_api_key is None:
        return Quoter(embedder)
    from app.generate.anthropic import Claude  # takes seconds to import, too

    return Claude(settings)
