"""What the tests share: an environment without surprises, a real database, Slack on localhost."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import NullPool, create_engine, make_url, text

from retrieval.db import Database, start_embedded
from retrieval.schema import migrate
from tests.stand_ins.claude import ClaudeStandIn
from tests.stand_ins.slack import SlackStandIn

if TYPE_CHECKING:  # what needs PyTorch takes seconds to import, and most tests do without
    from retrieval.embedding import Embedder
    from retrieval.retrieve import Retriever

# Before anything that reads them is imported: nothing of the developer's own setup counts here,
# no model is looked for on a network, and localhost is not reached through a proxy.
OWN_PREFIXES = (
    *("ADMINS", "ANSWER_", "ANTHROPIC_", "DATABASE_", "EMBEDDING_", "EVAL_", "FOOTNOTE_"),
    *("FRESHNESS_", "GITHUB_", "LOG_", "OTEL_", "QUESTIONS_", "REPORT_", "RERANK_"),
    *("RETENTION_", "REVIEW_", "REWRITE_", "SLACK_", "TENANT_"),
)
OWN_NAMES = ("CHANNELS", "EXPERTS", "HOST", "PORT", "PRICES", "SOURCES", "TICKETS")
for name in list(os.environ):
    if name in OWN_NAMES or name.startswith(OWN_PREFIXES) or name.lower().endswith("_proxy"):
        del os.environ[name]
os.environ["HF_HUB_OFFLINE"] = "1"
# Threads that wait for work by spinning take the cores from PostgreSQL and from other runs:
# beside one other process, indexing the sample took 46 s so and 13 s with this.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

TEMPLATE = "footnote_template"
SAMPLE_TEMPLATE = "footnote_sample"
SAMPLE = Path(__file__).parent / "sample"
_numbers = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark whatever loads the model, so that `-m "not model"` is what runs in seconds."""
    for item in items:
        if "embedder" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.model)


class Server:
    """The embedded server of this test run."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url)

    def url(self, name: str) -> str:
        """The URL of one of its databases."""
        return self._url.set(database=name).render_as_string(hide_password=False)

    def execute(self, statement: str, *, database: str = "postgres") -> None:
        """Run a statement as the superuser, outside a transaction."""
        engine = create_engine(
            make_url(self.url(database)).set(drivername="postgresql+psycopg"),
            isolation_level="AUTOCOMMIT",
            poolclass=NullPool,  # a statement that fails leaves no connection behind, either
        )
        with engine.connect() as connection:
            connection.execute(text(statement))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A PostgreSQL with pgvector; it stops with the process."""
    server = Server(start_embedded(tmp_path_factory.mktemp("home")))
    for setting in ("fsync", "full_page_writes", "synchronous_commit"):  # nothing has to survive
        server.execute(f"ALTER SYSTEM SET {setting} = off")
    server.execute("SELECT pg_reload_conf()")
    return server


@pytest.fixture(scope="session")
def template(server: Server) -> str:
    """The name of a migrated, empty database, to be copied and never written to."""
    server.execute(f"CREATE DATABASE {TEMPLATE}")
    migrate(server.url(TEMPLATE))
    return TEMPLATE


@pytest.fixture(scope="session")
def embedder() -> "Embedder":
    """The packaged model, loaded once a run; the same texts are embedded once."""
    from tests.remembering import RememberingEmbedder

    return RememberingEmbedder()


@pytest.fixture(scope="session")
def mirrored(embedder: "Embedder", tmp_path_factory: pytest.TempPathFactory) -> "Embedder":
    """Another model, of whose vectors the packaged one's are as far as can be."""
    from tests.remembering import RememberingEmbedder
    from tests.retrieval.embedders import save_mirrored

    return RememberingEmbedder(save_mirrored(tmp_path_factory.mktemp("mirrored"), embedder))


@pytest.fixture(scope="session")
def sample_template(server: Server, template: str, embedder: "Embedder") -> str:
    """The name of a database with the sample documents of the tenant acme, never written to."""
    from retrieval import indexing
    from retrieval.tuning import DEFAULT
    from tests.folders import read_folder

    server.execute(f"CREATE DATABASE {SAMPLE_TEMPLATE} TEMPLATE {template}")
    database = Database(server.url(SAMPLE_TEMPLATE), tenant_id="acme")
    docs = SAMPLE / "docs"
    reads = read_folder(docs, base_url="https://wiki.halvermeer.example")
    indexing.ingest(database, embedder, reads, source="wiki", tuning=DEFAULT)
    database.close()
    return SAMPLE_TEMPLATE


@contextmanager
def copied(server: Server, template: str) -> Iterator[str]:
    """The URL of a copy of a database, for as long as the block runs."""
    name = f"test_{next(_numbers)}"
    server.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    yield server.url(name)
    server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database_url(server: Server, template: str) -> Iterator[str]:
    """The URL of a migrated, empty database of this test alone."""
    with copied(server, template) as url:
        yield url


@pytest.fixture
def empty_url(server: Server) -> Iterator[str]:
    """The URL of a database that nobody has migrated."""
    with copied(server, "template1") as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A migrated, empty database of this test alone, as the tenant acme."""
    database = Database(database_url, tenant_id="acme")
    yield database
    database.close()


@pytest.fixture
def indexed_url(server: Server, sample_template: str) -> Iterator[str]:
    """The URL of a database of this test alone with the sample documents."""
    with copied(server, sample_template) as url:
        yield url


@pytest.fixture
def indexed(indexed_url: str) -> Iterator[Database]:
    """The sample documents of the tenant acme, in a database of this test alone."""
    database = Database(indexed_url, tenant_id="acme")
    yield database
    database.close()


@pytest.fixture
def retriever(indexed: Database, embedder: "Embedder") -> "Retriever":
    """The search over the sample documents, as it is by default."""
    from retrieval.rerank import LateInteraction
    from retrieval.retrieve import Retriever
    from retrieval.tuning import DEFAULT

    return Retriever(
        database=indexed, embedder=embedder, reranker=LateInteraction(), tuning=DEFAULT
    )


@pytest.fixture
def slack() -> Iterator[SlackStandIn]:
    """Slack, at whose end nothing unknown may have been called."""
    with SlackStandIn() as stand_in:
        yield stand_in
        stand_in.assert_no_unknown_calls()


@pytest.fixture
def stand_in() -> Iterator[ClaudeStandIn]:
    """Claude, at whose end nothing unknown may have been called."""
    with ClaudeStandIn() as claude:
        yield claude
        claude.assert_no_unknown_calls()
