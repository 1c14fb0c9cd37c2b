"""Who may read a page: names of which one is enough, and the number under which each set is kept.

everyone is each colleague, public whoever is in a channel with us, and channel:ID, group:ID and
user:ID are Slack's.
"""

import re
from collections.abc import Collection, Iterable

from sqlalchemy import Connection, text

from retrieval.errors import ConfigError

_NAME = re.compile(r"everyone|public|channel:[CG][A-Z0-9]+|group:S[A-Z0-9]+|user:[UW][A-Z0-9]+")


def parse(names: Iterable[str]) -> tuple[str, ...]:
    """The names without repetition, sorted; what colleagues may read needs no other name.

    Raises ConfigError for a name that is none, and where there is no name at all.
    """
    audience = sorted({str(name).strip() for name in names})
    wrong = [name for name in audience if not _NAME.fullmatch(name)]
    if wrong or not audience:
        raise ConfigError(
            (f"{wrong[0]!r} is no audience. " if wrong else "An audience has at least one name. ")
            + "Use everyone, public, channel:C123, group:S123 or user:U123."
        )
    return next(((name,) for name in ("public", "everyone") if name in audience), tuple(audience))


def load_id(connection: Connection, audience: tuple[str, ...]) -> int:
    """The number of an audience, as parse gives it; one that has none yet gets one."""
    values = {"audience": sorted({"*", *audience})}
    connection.execute(
        text("""
            INSERT INTO audiences (tenant_id, audience)
            SELECT current_setting('footnote.tenant_id'), CAST(:audience AS text[])
            WHERE NOT EXISTS (SELECT FROM audiences WHERE audience = CAST(:audience AS text[]))
            ON CONFLICT DO NOTHING
        """),
        values,
    )
    audience_id: int = connection.execute(
        text("SELECT audience_id FROM audiences WHERE audience = CAST(:audience AS text[])"),
        values,
    ).scalar_one()
    return audience_id


def withdraw(
    connection: Connection,
    audience: tuple[str, ...],
    document_ids: Collection[int],
    *,
    content_hash: str | None = None,
) -> None:
    """Delete what was made of older texts of documents, if not all of an audience may read those.

    Before the documents are for this audience: all that is made of them is, then. content_hash is
    that of the text which is not older, where it is not stored yet.
    """
    connection.execute(
        text("""
            DELETE FROM sections USING documents JOIN audiences USING (audience_id)
            WHERE sections.document_id = documents.document_id
            AND documents.document_id = ANY(:document_ids)
            AND sections.content_hash <> coalesce(:content_hash, documents.content_hash)
            AND NOT (audience @> CAST(:audience AS text[]) OR 'public' = ANY(audience)
                     OR 'everyone' = ANY(audience) AND 'public' <> ALL(:audience))
        """),
        {
            "audience": list(audience),
            "document_ids": list(document_ids),
            "content_hash": content_hash,
        },
    )


def assign(
    connection: Connection, audience: tuple[str, ...], document_ids: Collection[int]
) -> None:
    """Have documents, and all that is made of them, be read by this audience alone."""
    connection.execute(
        text("""
            UPDATE documents SET audience_id = :audience_id WHERE document_id = ANY(:document_ids)
        """),
        {"audience_id": load_id(connection, audience), "document_ids": list(document_ids)},
    )


def may_read(connection: Connection, document_ids: Collection[int]) -> bool:
    """Whether whoever the connection reads as may read all of these documents."""
    count = connection.execute(
        text("SELECT count(*) FROM documents WHERE document_id = ANY(:document_ids)"),
        {"document_ids": list(document_ids)},
    ).scalar_one()
    return bool(count == len(set(document_ids)))


def intersect(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Who may read both what one audience may and what the other may; empty: nobody for sure."""
    for wide in (("public",), ("everyone",)):
        if wide in (one, other):
            return other if one == wide else one
    return tuple(name for name in one if name in other)
