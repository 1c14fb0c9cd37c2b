"""What the index was when cases were run over it, to be told later what is not as it was."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from retrieval.generations import round_probe
from retrieval.retrieve import Retriever


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """What was searched, and with which model; None and nothing where nothing was indexed."""

    generation_id: int | None
    created_at: datetime | None  # of the generation: when it was begun, long before it is searched
    chunker: str | None
    embedder: str | None
    probe: tuple[float, ...]  # of the embedder that built the index
    model: str  # the embedder that was loaded; where it is another one, nothing is found
    model_probe: tuple[float, ...]
    documents: int
    sections: int
    chunks: int
    characters: int  # of the documents' texts
    kinds: Mapping[str, int]  # documents by the ending of their path, as ".md"
    failure: str | None = None  # why nothing could be searched

    def to_json(self) -> dict[str, Any]:
        created_at = self.created_at.isoformat() if self.created_at else None
        return {**asdict(self), "created_at": created_at}


def load(retriever: Retriever) -> Index:
    """The index that is searched now; the active one where none can be."""
    with retriever.database.snapshot() as connection:
        generation = retriever.find_generation(connection)
        counted = _count_parts(connection, generation.generation_id if generation else None)
        kinds = _load_kinds(connection)
    return Index(
        generation_id=generation.generation_id if generation else None,
        chunker=generation.chunker if generation else None,
        embedder=generation.embedder if generation else None,
        probe=round_probe(generation.probe) if generation else (),
        model=retriever.embedder.name,
        model_probe=round_probe(retriever.embedder.probe),
        documents=sum(kinds.values()),
        **counted,
        kinds=kinds,
    )


def parse(fields: Mapping[str, Any]) -> Index | None:
    """What to_json gave; None where an older version of Footnote noted less, or nothing."""
    try:
        probes = {name: tuple(fields[name]) for name in ("probe", "model_probe")}
        created_at = fields["created_at"] and datetime.fromisoformat(fields["created_at"])
        return Index(**{**fields, **probes, "created_at": created_at})
    except (KeyError, TypeError):
        return None


def _count_parts(connection: Connection, generation_id: int | None) -> dict[str, Any]:
    """When a generation was begun, of how much text it is, and how many parts it has."""
    row = connection.execute(
        text("""
            SELECT (SELECT created_at FROM generations WHERE generation_id = :generation_id),
                   (SELECT count(*) FROM sections WHERE generation_id = :generation_id) AS sections,
                   (SELECT count(*) FROM chunks WHERE generation_id = :generation_id) AS chunks,
                   (SELECT coalesce(sum(length(text)), 0) FROM documents) AS characters
        """),
        {"generation_id": generation_id},
    ).one()
    return dict(row._mapping)


def _load_kinds(connection: Connection) -> dict[str, int]:
    rows = connection.execute(
        text(r"""
            SELECT coalesce(lower(substring(path FROM '\.[^./]+$')), '') AS kind,
                   count(*) AS documents
            FROM documents GROUP BY 1 ORDER BY 1
        """)
    )
    return {row.kind: row.documents for row in rows}
