"""What is known of pages besides what is indexed: who may read them, whose they are, how old."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import methodcaller
from typing import Any

from sqlalchemy import Connection, text

from retrieval import audiences, verifying
from retrieval.planning import Pending

BATCH = 1_000  # pages a statement
STATED = """
    jsonb_to_recordset(CAST(:stated AS jsonb)) AS stated (
        document_id bigint, url text, owner text, updated_at timestamptz, stated_on date,
        freshness_days integer, is_superseded boolean, superseded_by text, secret_kinds text[],
        content_hash text, file_hash text)
"""


def assign(connection: Connection, wanted: Mapping[int, tuple[str, ...]]) -> None:
    """Have pages be for other audiences, given by document_id, until they are read again."""
    if not wanted:
        return
    by_audience: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for document_id, audience in wanted.items():
        by_audience[audience].append(document_id)
    for audience, document_ids in by_audience.items():
        audiences.withdraw(connection, audience, document_ids)
        audiences.assign(connection, audience, document_ids)
    connection.execute(
        text("UPDATE documents SET file_hash = NULL WHERE document_id = ANY(:document_ids)"),
        {"document_ids": list(wanted)},
    )


def save(connection: Connection, pages: Sequence[Pending]) -> None:
    """Save all that stored pages say but what is indexed of them, which is as it was."""
    for at in range(0, len(pages), BATCH):
        rows = [build_row(page) for page in pages[at : at + BATCH]]
        stated = json.dumps(rows, default=methodcaller("isoformat"))
        # Sections that were made of an older text stay marked as such.
        for statement in (
            f"""
            UPDATE sections SET content_hash = stated.content_hash
            FROM documents JOIN {STATED} USING (document_id)
            WHERE sections.document_id = documents.document_id
            AND sections.content_hash = documents.content_hash
            """,
            f"""
            UPDATE documents SET
                url = stated.url, owner = stated.owner, updated_at = stated.updated_at,
                stated_on = stated.stated_on,
                verified_at = {verifying.build_sql("stated.stated_on", "documents.confirmed_on")},
                freshness_days = stated.freshness_days, is_superseded = stated.is_superseded,
                superseded_by = stated.superseded_by, secret_kinds = stated.secret_kinds,
                content_hash = stated.content_hash,
                file_hash = coalesce(stated.file_hash, documents.file_hash)
            FROM {STATED} WHERE documents.document_id = stated.document_id
            """,
        ):
            connection.execute(text(statement), {"stated": stated})


def build_row(page: Pending) -> dict[str, Any]:
    """All that, by the names of its columns."""
    document = page.document
    return {
        "document_id": page.document_id,
        "url": document.url,
        "owner": document.owner,
        "updated_at": document.updated_at,
        "stated_on": document.verified_at,
        "freshness_days": document.freshness_days,
        "is_superseded": document.is_superseded,
        "superseded_by": document.superseded_by,
        "secret_kinds": list(document.secret_kinds),
        "content_hash": document.content_hash,
        "file_hash": page.file_hash,
    }
