"""The generations of the index as `footnote index list` and `footnote doctor` tell of them."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from retrieval import generations
from retrieval.generations import State

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The last run of eval cases over a generation."""

    name: str  # of its set
    started_at: datetime
    recall_at_5: float | None  # None where no case has one


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One generation, and how it stands."""

    generation_id: int
    state: State
    embedder: str
    chunker: str
    document_count: int
    lacking_count: int  # documents that it has not as they are stored
    chunk_count: int
    size_bytes: int  # of texts and vectors; indexes come on top
    created_at: datetime
    activated_at: datetime | None  # None: never, or before there were such notes
    measured: Measured | None

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, default=datetime.isoformat)

    @property
    def size(self) -> str:
        return f"{self.size_bytes / MEGABYTE:,.1f} MB"


def load(connection: Connection) -> list[Listed]:
    """All generations, the active one first, then those before it, latest first."""
    return [
        _load(connection, each.generation_id, generations.count_lacking(connection, each))
        for each in generations.load_all(connection)
    ]


def _load(connection: Connection, generation_id: int, lacking_count: int) -> Listed:
    # The length of a value that is stored apart is known without reading it.
    row = connection.execute(
        text("""
            SELECT generation_id, state, embedder, chunker, created_at, activated_at,
                   (SELECT count(DISTINCT document_id) FROM sections
                    WHERE sections.generation_id = generations.generation_id) AS document_count,
                   chunks.count AS chunk_count, chunks.bytes AS size_bytes,
                   run.cases_name, run.started_at, run.recall_at_5
            FROM generations
            CROSS JOIN LATERAL (
                SELECT count(*), coalesce(sum(octet_length(token_vectors) + octet_length(text)
                                              + 2 * vector_dims(embedding)), 0) AS bytes
                FROM chunks WHERE chunks.generation_id = generations.generation_id
            ) AS chunks
            LEFT JOIN LATERAL (
                SELECT cases_name, started_at,
                       CAST(means -> 'all' ->> 'recall@5' AS float8) AS recall_at_5
                FROM eval_runs
                WHERE CAST(index ->> 'generation_id' AS bigint) = generations.generation_id
                ORDER BY run_id DESC LIMIT 1
            ) AS run ON true
            WHERE generation_id = :generation_id
        """),
        {"generation_id": generation_id},
    ).one()
    fields = dict(row._mapping)
    name, started_at, recall = (
        fields.pop(each) for each in ("cases_name", "started_at", "recall_at_5")
    )
    return Listed(
        **{**fields, "size_bytes": int(row.size_bytes)},
        lacking_count=lacking_count,
        measured=Measured(name=name, started_at=started_at, recall_at_5=recall) if name else None,
    )


def build_text(listed: Sequence[Listed]) -> str:
    """Two lines a generation."""
    return "\n".join(map(_build, listed)) or "Nothing is indexed."


def _build(listed: Listed) -> str:
    since = f", searched since {listed.activated_at:%Y-%m-%d}" if listed.activated_at else ""
    lacking = f", {listed.lacking_count:,} lacking" if listed.lacking_count else ""
    run = listed.measured
    if run is None:
        measured = "not measured"
    else:
        recall = "–" if run.recall_at_5 is None else f"{run.recall_at_5:.3f}"
        measured = f"recall@5 {recall} on {run.name}, {run.started_at:%Y-%m-%d}"
    return (
        f"{listed.generation_id:>4}  {listed.state:8}  {listed.embedder}, "
        f"chunker {listed.chunker}\n"
        f"      {listed.document_count:,} documents{lacking}, {listed.chunk_count:,} chunks, "
        f"{listed.size}; begun {listed.created_at:%Y-%m-%d}{since}; {measured}"
    )
