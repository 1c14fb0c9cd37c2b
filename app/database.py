"""Settings to the database."""

from app.config import Settings
from retrieval import db, schema
from retrieval.db import Database


def find_url(settings: Settings) -> str:
    """DATABASE_URL, or that of the embedded server, which is then running."""
    if settings.database_url:
        return settings.database_url.get_secret_value()
    return db.start_embedded(settings.footnote_home)


def open_database(settings: Settings) -> Database:
    """The checked database of the tenant; raises ConfigError as `retrieval.schema` does."""
    return schema.open_database(
        find_url(settings), tenant_id=settings.tenant_id, workers=settings.answer_workers
    )
