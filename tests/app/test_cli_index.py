"""`footnote index`, and the other commands over an index of another model."""

import json
from pathlib import Path
from typing import Any

from sqlalchemy import text

from app import index_findings, rendering
from retrieval import generations
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.rerank import LateInteraction
from tests.app.test_cli import fail, footnote, load, succeed, write_cases
from tests.conftest import SAMPLE
from tests.retrieval.pages import build_retriever, fit, ingest, page

LEAVE = page("leave.md", "# Leave\n\nYou have 28 days of leave a year.\n")
VPN = page("vpn.md", "# VPN\n\nSet `VPN_MTU` to 1380 when pages load slowly.\n")
QUESTION = "how many days of leave do I have?"


def list_generations(url: str) -> list[dict[str, Any]]:
    lines = succeed(url, "index", "list", "--json").splitlines()
    return [json.loads(line) for line in lines]


def find_told(database: Database, embedder: Embedder, level: str) -> list[str]:
    with database.unrestricted.transaction() as connection:
        found = index_findings.examine(connection, embedder, LateInteraction())
        return [each.text for each in found if each.level == level]


def test_another_model_is_calibrated_measured_switched_to_and_the_old_one_dropped(
    indexed: Database, indexed_url: str, mirrored: Embedder, tmp_path: Path
) -> None:
    lines = (SAMPLE / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    cases = write_cases(tmp_path, *map(json.loads, lines[::3]))
    ingest(indexed, mirrored, source="none")
    active, ready = list_generations(indexed_url)
    old, new = str(active["generation_id"]), str(ready["generation_id"])
    assert (active["state"], ready["state"]) == ("active", "ready")
    assert ready["document_count"] == active["document_count"] == 35
    assert ready["chunk_count"] == active["chunk_count"] > 100
    assert 0 < ready["size_bytes"] == active["size_bytes"] and ready["measured"] is None
    assert "calibrate CASES --apply --generation" in fail(indexed_url, "index", "switch")
    assert "has no floor" in fail(indexed_url, "eval", cases, "--generation", new)
    applied = succeed(indexed_url, "calibrate", cases, "--apply", "--generation", new)
    assert applied.endswith(f"applied; `footnote index switch {new}` has it searched\n")
    assert load(indexed_url, "ask", QUESTION, "--json")["answer"]  # by the old one, still
    succeed(indexed_url, "eval", cases, "--generation", new)
    active, ready = list_generations(indexed_url)
    assert active["measured"] is None
    assert ready["measured"]["recall_at_5"] > 0.5
    posted = footnote(indexed_url, "eval", "--cases", "--post", "--generation", new)
    assert (posted.exit_code, "for the generation that is searched" in posted.stderr) == (2, True)
    assert succeed(indexed_url, "index", "switch") == (
        f"Generation {new}, by {mirrored.name}, is searched now.\n"
    )
    text = succeed(indexed_url, "index", "list")
    assert f"   {new}  active    {mirrored.name}, chunker" in text
    assert "searched since 20" in text and "recall@5 0." in text and "not measured" in text
    found = load(indexed_url, "retrieve", "what does err 2041 mean?", "--json")
    assert "reference/error-codes.md" in {each["doc"] for each in found["kept"]}
    assert "is the one that is searched" in fail(indexed_url, "index", "drop", new)
    dropped = succeed(indexed_url, "index", "drop")
    assert dropped.startswith(f"Generation {old} (kept), by all-MiniLM-L6-v2, is dropped: ")
    assert [each["generation_id"] for each in list_generations(indexed_url)] == [int(new)]
    # EMBEDDING_MODEL is the packaged one still: it is for the next ingest, and nothing else.
    assert (
        load(indexed_url, "retrieve", "what does err 2041 mean?", "--json")["kept"] == found["kept"]
    )


def test_what_is_asked_between_a_new_setting_and_its_index_is_answered_from_the_old_one(
    database: Database, database_url: str, embedder: Embedder, mirrored: Embedder, tmp_path: Path
) -> None:
    ingest(database, embedder, LEAVE, VPN)
    (tmp_path / "desk.md").write_text("# Help desk\n\nThe help desk is open from 8 to 18.\n")
    answer = succeed(database_url, "ask", QUESTION, EMBEDDING_MODEL=mirrored.name)
    assert "28 days" in answer
    ingested = succeed(database_url, "ingest", str(tmp_path), EMBEDDING_MODEL=mirrored.name)
    (old, new) = (each["generation_id"] for each in list_generations(database_url))
    assert f"generation {new} is complete, and not searched: run `footnote calib" in ingested
    assert "2 unchanged documents indexed again" in ingested
    found = succeed(database_url, "ask", "when is the help desk open?")
    assert "from 8 to 18" in found  # the old one got the new page, too
    unfitted = fail(database_url, "eval", str(SAMPLE / "cases.jsonl"), "--generation", str(new))
    assert f"`footnote calibrate CASES --apply --generation {new}`" in unfitted
    fit(build_retriever(database, mirrored))
    again = succeed(database_url, "ingest", str(tmp_path), EMBEDDING_MODEL=mirrored.name)
    assert f"generation {new} is complete, and not searched" in again
    succeed(database_url, "index", "switch")
    assert [each["state"] for each in list_generations(database_url)] == ["active", "kept"]
    assert "28 days" in succeed(database_url, "ask", QUESTION)
    back = succeed(database_url, "ingest", str(tmp_path))
    assert f"`footnote index switch {old}` goes back to it" in back


def test_doctor_tells_how_the_generations_stand(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    def write(statement: str) -> None:
        with database.transaction() as connection:
            connection.execute(text(statement))

    ingest(database, embedder, LEAVE, VPN)
    assert find_told(database, embedder, "note") == find_told(database, embedder, "error") == []
    (note,) = find_told(database, mirrored, "note")
    assert note.startswith(f"EMBEDDING_MODEL is {mirrored.name}, and the index that is searched is")
    assert "`footnote ingest` builds it anew" in note
    assert ingest(database, mirrored, LEAVE, VPN).state == "ready"
    (note,) = find_told(database, embedder, "note")
    assert "is complete, and not searched" in note and "footnote index switch" in note
    write("UPDATE generations SET embedder = '/nowhere' WHERE state = 'ready'")
    (note,) = find_told(database, embedder, "note")
    assert "/nowhere, which cannot be loaded" in note and "calibrate" not in note
    assert "`footnote index drop " in note
    write(f"""
        UPDATE generations SET state = 'building', embedder = '{mirrored.name}'
        WHERE state = 'ready'
    """)
    (note,) = find_told(database, embedder, "note")
    assert "half built: 2 of 2 documents" in note and "`footnote index drop " in note
    assert f"Run `EMBEDDING_MODEL={mirrored.name} footnote ingest` again" in note
    fit(build_retriever(database, mirrored))
    summary = ingest(database, mirrored, LEAVE, VPN)
    assert summary.state == "active"
    assert rendering.build_summary(summary).endswith(
        f"generation {summary.generation_id} is searched now; the one before is kept"
    )
    again = rendering.build_summary(ingest(database, mirrored, LEAVE, VPN))
    assert "is searched now" not in again
    (note,) = find_told(database, mirrored, "note")
    assert "which was searched before, takes 0.0 MB. Run `footnote eval`" in note
    write("""
        INSERT INTO eval_runs (tenant_id, cases_name, started_at, settings, index, means, results)
        SELECT tenant_id, 'c', now(), '{}', jsonb_build_object('generation_id', generation_id),
               '{}', '[]'
        FROM generations WHERE state = 'active'
    """)
    (note,) = find_told(database, mirrored, "note")
    assert "The one after it is measured" in note
    kept, *_ = find_told(database, embedder, "note")  # EMBEDDING_MODEL is the old one again
    assert "`footnote index switch " in kept and "`footnote ingest`" not in kept
    write("UPDATE generations SET embedder = '/nowhere' WHERE state = 'active'")
    assert find_told(database, embedder, "note") == []  # nothing is to be dropped now
    (error,) = find_told(database, embedder, "error")[:1]
    assert "The index does not fit" in error and "`footnote index switch " in error
    write(f"UPDATE generations SET embedder = '{mirrored.name}' WHERE state = 'active'")
    write("UPDATE documents SET content_hash = 'new' WHERE path = 'vpn.md'")
    assert "lacks 1 documents" in find_told(database, mirrored, "note")[0]
    assert find_told(database, mirrored, "error") == []


def test_doctor_tells_who_answers_from_the_index_before_and_what_does_not_fit(
    database: Database, embedder: Embedder, mirrored: Embedder
) -> None:
    ingest(database, embedder, LEAVE)
    fit(build_retriever(database, mirrored))
    ingest(database, mirrored, LEAVE)
    with database.transaction() as connection:
        connection.execute(text("UPDATE generations SET activated_at = now() - interval '1 hour'"))
        connection.execute(
            text("""
                INSERT INTO traces (tenant_id, trace_id, surface, question, asked_at, settings)
                SELECT tenant_id, gen_random_uuid(), 'terminal', 'q',
                       now() - interval '9 minutes',
                       jsonb_build_object('generation_id', generation_id)
                FROM generations
            """)
        )
    (error,) = find_told(database, mirrored, "error")
    assert error.startswith("1 questions of the last hour were answered from the index before")
    swapped = replace_probe(database)
    errors = " ".join(find_told(database, mirrored, "error"))
    assert f"{swapped} changed under the same name" in errors


def replace_probe(database: Database) -> str:
    """Have the active generation be by what was another model of the same name."""
    with database.transaction() as connection:
        active = generations.load(connection, "active")
        assert active is not None
        connection.execute(
            text("UPDATE generations SET probe = :probe WHERE state = 'active'"),
            {"probe": (-active.probe).tolist()},
        )
    return active.embedder
