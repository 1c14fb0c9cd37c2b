"""Settings to the parts that are held open: database, model, generator."""

from app.answering import Answerer
from app.config import Settings
from app.generate import Generator
from app.generate.anthropic import ClaudeGenerator
from app.generate.quoted import QuotedGenerator
from retrieval import db
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.tuning import DEFAULT


def find_database_url(settings: Settings) -> str:
    """DATABASE_URL, or that of the embedded server, which is then running."""
    if settings.database_url:
        return settings.database_url.get_secret_value()
    return db.start_embedded(settings.footnote_home)


def open_database(settings: Settings) -> Database:
    """The checked database of the tenant; raises ConfigError as `retrieval.db` does."""
    return db.open_database(find_database_url(settings), tenant_id=settings.tenant_id)


def load_embedder(settings: Settings) -> Embedder:
    """The embedding model, loaded."""
    return Embedder(settings.embedding_model)


def build_generator(settings: Settings) -> Generator:
    """Claude where a key is set, else quotations."""
    if settings.anthropic_api_key is None:
        return QuotedGenerator()
    return ClaudeGenerator(
        api_key=settings.anthropic_api_key.get_secret_value(),
        base_url=settings.anthropic_base_url,
        model=settings.answer_model,
        timeout_s=settings.answer_timeout_s,
    )


def build_answerer(settings: Settings, database: Database) -> Answerer:
    """The whole path from a question to its answer, models loaded."""
    return Answerer(
        database=database,
        embedder=load_embedder(settings),
        generator=build_generator(settings),
        tuning=DEFAULT,
    )
