"""What is deleted for good when somebody asks for it: of a person, or of a page.

Logs hold ids and counts alone, so nothing is to be deleted there; backups of the database are the
business of who makes them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, CursorResult, text

from app.loop import proposing
from retrieval import purged
from retrieval.db import Database
from retrieval.errors import ConfigError
from retrieval.purged import Page

WITHOUT_ANSWER = "(This answer is gone: a page that it rested on was purged.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """What was deleted, or changed so that it tells no more."""

    counts: Mapping[str, int]  # by what they count, in the plural
    messages: tuple[tuple[str, str], ...]  # channel and ts of each of ours that stands in Slack


class _Kept(Exception):
    """Ends a transaction that was only tried."""


@contextmanager
def tried(database: Database, *, for_good: bool) -> Iterator[Connection]:
    """A transaction over all that the tenant has, undone at its end unless it is for good."""
    try:
        with database.unrestricted.transaction() as connection:
            yield connection
            if not for_good:
                raise _Kept
    except _Kept:
        pass


def purge_person(connection: Connection, user_id: str) -> Purged:
    """Delete all that a person has asked and said, and words and name where others' stand.

    A case goes with the questions that it rests on, unless others have asked the same or a file
    has brought it. What a person has answered by hand goes as far as it is known to be theirs:
    while it is proposed.
    """
    values = {"user_id": user_id}
    cards = _find_cards(connection)
    asked = connection.execute(
        text("SELECT trace_id, channel_id, answer_ts FROM traces WHERE user_id = :user_id"), values
    ).all()
    escalated = _find_escalations(connection, [row.trace_id for row in asked])
    for row in asked:
        proposing.forget(connection, row.trace_id)
    run = _Runner(connection, values)
    counts = {
        "words in what others asked": _delete_words(run),
        "questions": run("DELETE FROM traces WHERE user_id = :user_id"),
        "votes": _delete_votes(connection, user_id)
        + run("""
            UPDATE traces SET settings = jsonb_set(settings, '{before,votes}', (
                SELECT coalesce(jsonb_agg(vote), '[]')
                FROM jsonb_array_elements(settings #> '{before,votes}') AS vote
                WHERE vote ->> 'user_id' <> :user_id))
            WHERE settings #> '{before,votes}'
                @> jsonb_build_array(jsonb_build_object('user_id', CAST(:user_id AS text)))
        """),
        "answers by hand": run("""
            DELETE FROM eval_cases
            WHERE reviewer = :user_id AND origin = 'reply' AND state = 'proposed'
        """),
        "names": run("""
            UPDATE escalations SET asked_by = traces.user_id FROM traces
            WHERE traces.trace_id = escalations.trace_id AND asked_by = :user_id
        """)
        + run("UPDATE escalations SET resolved_by = '' WHERE resolved_by = :user_id")
        + run("UPDATE eval_cases SET reviewer = NULL WHERE reviewer = :user_id")
        + run("UPDATE eval_cases SET page_wrong_by = '' WHERE page_wrong_by = :user_id")
        + run("UPDATE documents SET confirmed_by = NULL WHERE confirmed_by = :user_id")
        + _forget_installer(connection, user_id),
    }
    messages = (*_list_messages(asked), *escalated, *_find_lost(connection, cards))
    return Purged(counts=counts, messages=messages)


def purge_page(connection: Connection, page: Page) -> Purged:
    """Delete a page, what answers have of it, and keep it out when its source is read again.

    An answer that cites it, or names it as nearest, loses its words; a case that rests on no other
    page goes, any other one loses its answer, in which its words may be.
    """
    cards = _find_cards(connection)
    values: dict[str, Any] = {
        "source": page.source,
        "path": page.path,
        "document_ids": purged.find_ids(connection, page),
        "told": WITHOUT_ANSWER,
    }
    run = _Runner(connection, values)
    answered = connection.execute(text(_FIND_ANSWERS), values).all()
    values["trace_ids"] = [row.trace_id for row in answered]
    counts = {
        "answers": run("""
            UPDATE traces SET answer = :told, citations = '[]', settings = settings - 'nearest'
            WHERE trace_id = ANY(:trace_ids)
        """)
        + run("""
            UPDATE traces SET settings = settings #- '{before,answer}' #- '{before,citations}'
            WHERE settings #> '{before,citations}'
                @> jsonb_build_array(jsonb_build_object('path', CAST(:path AS text)))
        """),
        "cases": run(f"""
            DELETE FROM eval_cases USING ({_FIND_CASES}) AS named
            WHERE eval_cases.case_id = named.case_id AND left_any || left_all = '[]'
        """)
        + run(f"""
            UPDATE eval_cases SET gold_any = left_any, gold_all = left_all, answer = ''
            FROM ({_FIND_CASES}) AS named WHERE eval_cases.case_id = named.case_id
        """)
        + run("""
            UPDATE eval_cases SET page_wrong_by = NULL, page_wrong_at = NULL,
                                  page_wrong_source = NULL, page_wrong_path = NULL
            WHERE page_wrong_source = :source AND page_wrong_path = :path
        """),
        "pages named by voters": run("""
            UPDATE feedback SET right_source = NULL, right_path = NULL
            WHERE right_source = :source AND right_path = :path
        """),
        "pages": purged.delete(connection, page),
    }
    messages = (*_list_messages(answered), *_find_lost(connection, cards))
    return Purged(counts=counts, messages=messages)


def find_page(connection: Connection, path: str, source: str | None) -> Page:
    """The page that is meant; raises ConfigError where it is none, or any of several."""
    sources = purged.find_sources(connection, path)
    if source in sources or (source is None and len(sources) == 1):
        return Page(source=source or sources[0], path=path)
    if not sources or source is not None:
        raise ConfigError(
            f"There is no page {path!r}{f' of source {source!r}' if source else ''}, and there was "
            "none. Give its path below its source's folder, as `footnote retrieve` shows it."
        )
    raise ConfigError(
        f"Several sources have a page {path!r}: {', '.join(sources)}. Say which with --source."
    )


class _Runner:
    """Runs statements with the same values, and counts the rows."""

    def __init__(self, connection: Connection, values: Mapping[str, Any]) -> None:
        self._connection = connection
        self._values = values

    def __call__(self, statement: str) -> int:
        done: CursorResult[Any] = self._connection.execute(text(statement), self._values)
        return done.rowcount


def _delete_words(run: _Runner) -> int:
    """What others asked later in the same threads was worded to stand on its own with them."""
    return (
        run(f"""
            UPDATE eval_cases SET question = traces.question
            FROM traces JOIN case_traces USING (trace_id)
            WHERE case_traces.case_id = eval_cases.case_id
            AND eval_cases.question = queries[1] AND queries[1] <> traces.question
            AND {_ASKED_LATER}
        """)
        + run(f"""
            UPDATE traces SET queries = '{{}}'
            WHERE queries <> ARRAY[question] AND user_id <> :user_id AND {_ASKED_LATER}
        """)
        + run("""
            UPDATE eval_cases SET history = (
                SELECT coalesce(jsonb_agg(turn ORDER BY at), '[]')
                FROM jsonb_array_elements(history) WITH ORDINALITY AS turns (turn, at)
                WHERE turn ->> 'text' NOT IN (
                    SELECT question FROM traces WHERE user_id = :user_id))
            WHERE EXISTS (
                SELECT FROM jsonb_array_elements(history) AS turn JOIN traces
                ON traces.question = turn ->> 'text' WHERE user_id = :user_id)
        """)
    )


def _forget_installer(connection: Connection, user_id: str) -> int:
    """The name of who has installed Footnote goes; it works on with the bot's own token.

    Installations are of no tenant, as they say which one there is, so for once it is not set.
    """
    set_tenant = text("SELECT set_config('footnote.tenant_id', :tenant_id, true)")
    tenant_id = connection.execute(
        text("SELECT current_setting('footnote.tenant_id')")
    ).scalar_one()
    connection.execute(set_tenant, {"tenant_id": ""})
    forgotten = connection.execute(
        text("""
            UPDATE slack_installations
            SET user_id = '', user_token = NULL, user_refresh_token = NULL, user_scopes = NULL
            WHERE user_id = :user_id AND :tenant_id IN (enterprise_id, team_id)
        """),
        {"user_id": user_id, "tenant_id": tenant_id},
    )
    connection.execute(set_tenant, {"tenant_id": tenant_id})
    return forgotten.rowcount


def _delete_votes(connection: Connection, user_id: str) -> int:
    """Delete what a person thought of answers to others; the cases follow what is left."""
    deleted: Sequence[UUID] = (
        connection.execute(
            text("DELETE FROM feedback WHERE user_id = :user_id RETURNING trace_id"),
            {"user_id": user_id},
        )
        .scalars()
        .all()
    )
    for trace_id in deleted:
        proposing.propose(connection, trace_id)
    return len(deleted)


def _find_escalations(connection: Connection, trace_ids: Sequence[UUID]) -> list[tuple[str, str]]:
    """The messages with which questions were passed on."""
    rows = connection.execute(
        text("""
            SELECT channel_id, ts FROM escalations
            WHERE trace_id = ANY(:trace_ids) AND ts IS NOT NULL
        """),
        {"trace_ids": list(trace_ids)},
    )
    return [(row.channel_id, row.ts) for row in rows]


def _find_cards(connection: Connection) -> dict[str, tuple[str, str]]:
    """The messages to the reviewers, by case."""
    rows = connection.execute(
        text("""
            SELECT case_id, review_channel_id, review_ts FROM eval_cases
            WHERE review_ts IS NOT NULL
        """)
    )
    return {row.case_id: (row.review_channel_id, row.review_ts) for row in rows}


def _find_lost(
    connection: Connection, cards: Mapping[str, tuple[str, str]]
) -> list[tuple[str, str]]:
    """Those of the messages to the reviewers whose case is gone."""
    left = _find_cards(connection)
    return [card for case_id, card in cards.items() if case_id not in left]


def _list_messages(rows: Sequence[Any]) -> Iterator[tuple[str, str]]:
    for row in rows:
        yield from ((row.channel_id, ts) for ts in row.answer_ts)


# SQL over a trace: whether the person has asked before it in its thread.
_ASKED_LATER = """EXISTS (
    SELECT FROM traces AS earlier
    WHERE earlier.user_id = :user_id AND earlier.channel_id = traces.channel_id
    AND earlier.thread_ts = traces.thread_ts AND earlier.message_ts < traces.message_ts
)"""
# A candidate is of the page by its id, or by its path if no page has that id any more: two sources
# may have pages of one path.
_FIND_ANSWERS = """
    SELECT trace_id, channel_id, answer_ts FROM traces
    WHERE EXISTS (
        SELECT FROM jsonb_to_recordset(candidates)
            AS found (section_id bigint, document_id bigint, doc text)
        WHERE (document_id = ANY(:document_ids) OR (doc = :path AND NOT EXISTS (
            SELECT FROM documents WHERE documents.document_id = found.document_id)))
        AND (doc = settings #>> '{nearest,path}' OR EXISTS (
            SELECT FROM jsonb_to_recordset(citations) AS cited (section_id bigint)
            WHERE cited.section_id = found.section_id))
    )
"""
_FIND_CASES = """
    SELECT case_id, gold_any_left AS left_any, gold_all_left AS left_all FROM (
        SELECT case_id, gold_any, gold_all,
               (SELECT coalesce(jsonb_agg(gold), '[]') FROM jsonb_array_elements(gold_any) AS gold
                WHERE NOT (gold ->> 'doc' = :path
                           AND coalesce(gold ->> 'source', :source) = :source)) AS gold_any_left,
               (SELECT coalesce(jsonb_agg(gold), '[]') FROM jsonb_array_elements(gold_all) AS gold
                WHERE NOT (gold ->> 'doc' = :path
                           AND coalesce(gold ->> 'source', :source) = :source)) AS gold_all_left
        FROM eval_cases
    ) AS each
    WHERE (gold_any, gold_all) IS DISTINCT FROM (gold_any_left, gold_all_left)
"""
