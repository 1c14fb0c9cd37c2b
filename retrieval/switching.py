"""Which generation is searched, where a person decides."""

from functools import partial

from sqlalchemy import Connection

from retrieval import generations, indexing, relevance
from retrieval.batches import Progress, Target
from retrieval.db import Database
from retrieval.errors import ConfigError
from retrieval.generations import Generation
from retrieval.models import load_for
from retrieval.rerank import Reranker
from retrieval.tuning import Tuning


def switch(
    database: Database,
    reranker: Reranker,
    tuning: Tuning,
    *,
    generation_id: int | None = None,
    progress: Progress = lambda done, total: None,
) -> Generation:
    """Have another generation be searched, once it has all documents as they are now.

    By default the one that was made ready last, else the one that was searched before. Raises
    ConfigError when there is none, it is not complete or no relevance model was fitted for it, and
    IndexMismatch as load_for does.
    """
    with database.transaction() as connection:
        found = _find(connection, generation_id)
    embedder = load_for(found, tuning)
    with database.transaction() as connection:
        if not relevance.find(connection, relevance.build_basis(reranker, embedder, tuning)):
            raise ConfigError(
                f"For generation {found.generation_id} and the reranker {reranker.name} no "
                "relevance model was fitted. Run `footnote calibrate CASES --apply --generation "
                f"{found.generation_id}` first."
            )
    target = Target(
        database=database.unrestricted, embedder=embedder, generation=found, tuning=tuning
    )
    indexing.fill(target, finish=partial(_activate, found), progress=progress)
    return found


def _activate(generation: Generation, connection: Connection) -> None:
    if count := generations.count_lost(connection, generation):
        raise ConfigError(
            f"Generation {generation.generation_id} lacks {count:,} of the documents that are "
            "found now, since they cannot be indexed: `footnote doctor` lists them. Mend them, or "
            "take them out of their source, and switch then."
        )
    generations.activate(connection, generation)


def _find(connection: Connection, generation_id: int | None) -> Generation:
    if generation_id is not None:
        found = generations.load_by_id(connection, generation_id)
        if found.state == "active":
            raise ConfigError(f"Generation {generation_id} is the one that is searched.")
        if found.state == "building":
            raise ConfigError(
                f"Generation {generation_id} is half built. Run `footnote ingest` with its "
                f"EMBEDDING_MODEL, {found.embedder}, to finish it."
            )
        return found
    others = generations.load_all(connection)
    for state in ("ready", "kept"):
        for each in others:
            if each.state == state:
                return each
    raise ConfigError(
        "There is no other complete generation. Set EMBEDDING_MODEL to another model and run "
        "`footnote ingest` to build one."
    )


def drop(database: Database, *, generation_id: int | None = None) -> Generation:
    """Delete a generation, which is then what it was; by default the only one beside the active.

    Raises ConfigError when it is the active one, or it is not said which of several.
    """
    with database.transaction() as connection:
        generations.lock(connection)
        found = _find_dropped(connection, generation_id)
        generations.drop(connection, found)
    return found


def _find_dropped(connection: Connection, generation_id: int | None) -> Generation:
    if generation_id is not None:
        found = generations.load_by_id(connection, generation_id)
        if found.state == "active":
            raise ConfigError(
                f"Generation {generation_id} is the one that is searched. Run `footnote index "
                "switch` to another one first."
            )
        return found
    others = [each for each in generations.load_all(connection) if each.state != "active"]
    if len(others) == 1:
        return others[0]
    listed = ", ".join(f"{each.generation_id} ({each.state})" for each in others)
    raise ConfigError(
        f"Say which generation to drop: {listed}."
        if others
        else "There is no generation beside the one that is searched."
    )
