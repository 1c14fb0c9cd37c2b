"""What is deleted for good when somebody asks for it: of a person, or of a page.

Logs hold ids and counts alone, so nothing is to be deleted there; backups of the database are the
business of who makes them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, CursorResult, text

from app.loop import proposing
from retrieval import purged
from retrieval.errors import ConfigError
from retrieval.purged import Key

WITHOUT_ANSWER = "(This answer is gone: a page that it rested on was purged.)"
WITHOUT_WORDS = "(This answer is gone: it had words of somebody whose words were purged.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """What was deleted, or changed so that it tells no more."""

    counts: Mapping[str, int]  # by what they count, in the plural
    messages: tuple[tuple[str, str], ...]  # channel and ts of each of ours that stands in Slack


def purge_person(connection: Connection, user_id: str) -> Purged:
    """Delete all that a person has asked and said, and words and name where others' stand.

    A case goes with the questions that it rests on, unless others have asked the same or a file
    has brought it; one that has the person's answer by hand goes, too, unless others have flagged
    ours: that one loses it.
    """
    values: dict[str, Any] = {"user_id": user_id, "told": WITHOUT_WORDS}
    cards = _find_cards(connection)
    asked = connection.execute(
        text("SELECT trace_id, channel_id, answer_ts FROM traces WHERE user_id = :user_id"), values
    ).all()
    escalated = _find_escalations(connection, [row.trace_id for row in asked])
    for row in asked:
        proposing.forget(connection, row.trace_id)
    run = _Runner(connection, values)
    quoted = connection.execute(text(_FIND_QUOTED), values).all()
    values["quoted"] = [row.trace_id for row in quoted]
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
            DELETE FROM eval_cases WHERE author = :user_id AND origin = 'reply' AND NOT EXISTS (
                SELECT FROM case_traces JOIN feedback USING (trace_id)
                WHERE case_traces.case_id = eval_cases.case_id AND vote < 0)
        """)
        + run("UPDATE eval_cases SET answer = '', author = NULL WHERE author = :user_id"),
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
    messages = (
        *_list_messages([*asked, *quoted]),
        *escalated,
        *_forget_changed(connection, cards),
    )
    return Purged(counts=counts, messages=messages)


def purge_page(connection: Connection, page: Key) -> Purged:
    """Delete a page, what answers have of it, and keep it out when its source is read again.

    So do pages with the very same text. An answer that cites one, or names it as nearest, as what
    replaces another or as different, loses its words; a case that rests on no other page goes, any
    other one loses its answer and those before its question, in which its words may be.
    """
    cards = _find_cards(connection)
    copies = purged.find_copies(connection, page)
    values: dict[str, Any] = {
        "sources": [page.source, *(copy.source for copy in copies)],
        "paths": [page.path, *(copy.path for copy in copies)],
        "document_ids": [copy.document_id for copy in copies],
        "told": WITHOUT_ANSWER,
    }
    run = _Runner(connection, values)
    answered = connection.execute(text(_FIND_ANSWERS), values).all()
    values["trace_ids"] = [row.trace_id for row in answered]
    # What is not told yet is answered anew.
    run("""
        UPDATE traces SET outbox = NULL, outcome = 'pending'
        WHERE trace_id = ANY(:trace_ids) AND outbox IS NOT NULL AND outcome <> 'failed'
    """)
    counts = {
        "answers": run("""
            UPDATE traces SET answer = :told, citations = '[]', settings = settings - 'nearest'
            WHERE trace_id = ANY(:trace_ids)
        """)
        + run(f"""
            UPDATE traces SET settings = settings #- '{{before,answer}}' #- '{{before,citations}}'
            WHERE EXISTS (
                SELECT FROM jsonb_to_recordset(settings #> '{{before,citations}}')
                    AS cited (section_id bigint, document_id bigint, path text)
                LEFT JOIN sections USING (section_id)
                WHERE {_IS_OF.format(id=_CITED_ID, path="path")})
            OR {_TELLS_OF.format(citations="settings #> '{before,citations}'")}
        """),
        "cases": run(f"""
            DELETE FROM eval_cases USING ({_FIND_CASES}) AS named
            WHERE eval_cases.case_id = named.case_id AND left_any || left_all = '[]'
        """)
        + run(f"""
            UPDATE eval_cases SET gold_any = left_any, gold_all = left_all, answer = '',
                history = (
                    SELECT coalesce(jsonb_agg(turn ORDER BY at), '[]')
                    FROM jsonb_array_elements(history) WITH ORDINALITY AS turns (turn, at)
                    WHERE turn ->> 'role' = 'user')
            FROM ({_FIND_CASES}) AS named WHERE eval_cases.case_id = named.case_id
        """)
        + run(f"""
            UPDATE eval_cases SET page_wrong_by = NULL, page_wrong_at = NULL,
                                  page_wrong_source = NULL, page_wrong_path = NULL
            WHERE {_IS_NAMED.format(source="page_wrong_source", path="page_wrong_path")}
        """),
        "pages named by voters": run(f"""
            UPDATE feedback SET right_source = NULL, right_path = NULL
            WHERE {_IS_NAMED.format(source="right_source", path="right_path")}
        """),
        "pages": purged.delete(connection, page),
    }
    messages = (*_list_messages(answered), *_forget_changed(connection, cards))
    return Purged(counts=counts, messages=messages)


def find_page(connection: Connection, path: str, source: str | None) -> Key:
    """The page that is meant; raises ConfigError where it is none, or any of several."""
    sources = purged.find_sources(connection, path)
    if source in sources or (source is None and len(sources) == 1):
        return Key(source=source or sources[0], path=path)
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
            UPDATE traces SET queries = '{{}}',
                answer = CASE WHEN trace_id = ANY(:quoted) THEN :told ELSE answer END
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    """A message to the reviewers, and what it tells."""

    channel_id: str
    ts: str
    told: str  # the md5 of what it is made of


def _find_cards(connection: Connection) -> dict[str, _Card]:
    """The messages to the reviewers, by case."""
    rows = connection.execute(text(_FIND_CARDS))
    return {
        row.case_id: _Card(channel_id=row.review_channel_id, ts=row.review_ts, told=row.told)
        for row in rows
    }


def _forget_changed(connection: Connection, cards: Mapping[str, _Card]) -> list[tuple[str, str]]:
    """Those of the messages to the reviewers that tell what is no more; their cases have none."""
    left = _find_cards(connection)
    changed = [case_id for case_id, card in cards.items() if left.get(case_id) != card]
    connection.execute(
        text("""
            UPDATE eval_cases SET review_channel_id = NULL, review_ts = NULL
            WHERE case_id = ANY(:case_ids)
        """),
        {"case_ids": changed},
    )
    return [(cards[case_id].channel_id, cards[case_id].ts) for case_id in changed]


def _list_messages(rows: Sequence[Any]) -> Iterator[tuple[str, str]]:
    for row in rows:
        yield from ((row.channel_id, ts) for ts in row.answer_ts)


# SQL over a trace: whether the person has asked before it in its thread.
_ASKED_LATER = """EXISTS (
    SELECT FROM traces AS earlier
    WHERE earlier.user_id = :user_id AND earlier.channel_id = traces.channel_id
    AND earlier.thread_ts = traces.thread_ts AND earlier.message_ts < traces.message_ts
)"""
# SQL: what others asked later and have no answer to, if that quotes how it was worded.
_FIND_QUOTED = f"""
    SELECT trace_id, channel_id, answer_ts FROM traces
    WHERE outcome = 'abstained' AND queries[1] <> question AND user_id <> :user_id
    AND {_ASKED_LATER}
"""
# SQL: all that the message of a case is made of, but for the case that is most like it.
_FIND_CARDS = """
    SELECT case_id, review_channel_id, review_ts, md5(concat(
        eval_cases,
        (SELECT string_agg(concat(queries, answer, (
             SELECT count(*) FROM documents WHERE document_id IN (
                 SELECT document_id FROM jsonb_to_recordset(candidates)
                     AS found (section_id bigint, document_id bigint)
                 WHERE kept = '{}' OR section_id = ANY(kept)))), ' ' ORDER BY trace_id)
         FROM case_traces JOIN traces USING (trace_id)
         WHERE case_traces.case_id = eval_cases.case_id),
        (SELECT string_agg(CAST(feedback AS text), ' ' ORDER BY trace_id, user_id)
         FROM case_traces JOIN feedback USING (trace_id)
         WHERE case_traces.case_id = eval_cases.case_id)
    )) AS told
    FROM eval_cases WHERE review_ts IS NOT NULL
"""
# SQL: whether what has an id and a path is of the pages: by its id, or by its path if no page has
# that id any more, as two sources may have pages of one path.
_IS_OF = """({id} = ANY(:document_ids) OR ({path} = ANY(:paths) AND NOT EXISTS (
    SELECT FROM documents WHERE documents.document_id = {id})))"""
_CITED_ID = "coalesce(cited.document_id, sections.document_id)"
# SQL: whether a page is one of them by its name; without its source it may be of any.
_IS_NAMED = """EXISTS (
    SELECT FROM unnest(CAST(:sources AS text[]), CAST(:paths AS text[])) AS gone (source, path)
    WHERE gone.path = {path} AND gone.source = coalesce({source}, gone.source))"""
# SQL: whether citations name one of the pages beside what they cite: as what replaces it or as
# different. Which of several older pages that is they do not tell: any that was passed over.
_SUCCESSOR_ID = "CAST(successor ->> 'document_id' AS bigint)"
_TELLS_OF = f"""EXISTS (
    SELECT FROM jsonb_to_recordset({{citations}}) AS cited (differs_from jsonb, successor jsonb)
    WHERE (differs_from <> '[]' AND document_ids && CAST(:document_ids AS bigint[]))
    OR {_IS_OF.format(id=_SUCCESSOR_ID, path="successor ->> 'path'")})"""
_FIND_ANSWERS = f"""
    SELECT trace_id, channel_id, answer_ts FROM traces
    WHERE EXISTS (
        SELECT FROM jsonb_to_recordset(candidates)
            AS found (section_id bigint, document_id bigint, doc text)
        WHERE {_IS_OF.format(id="found.document_id", path="doc")}
        AND (doc = settings #>> '{{nearest,path}}' OR EXISTS (
            SELECT FROM jsonb_to_recordset(citations) AS cited (section_id bigint)
            WHERE cited.section_id = found.section_id))
    )
    OR {_TELLS_OF.format(citations="citations")}
"""
_IS_LEFT = f"""NOT {_IS_NAMED.format(source="gold ->> 'source'", path="gold ->> 'doc'")}"""
_FIND_CASES = f"""
    SELECT case_id, gold_any_left AS left_any, gold_all_left AS left_all FROM (
        SELECT case_id, gold_any, gold_all,
               (SELECT coalesce(jsonb_agg(gold), '[]') FROM jsonb_array_elements(gold_any) AS gold
                WHERE {_IS_LEFT}) AS gold_any_left,
               (SELECT coalesce(jsonb_agg(gold), '[]') FROM jsonb_array_elements(gold_all) AS gold
                WHERE {_IS_LEFT}) AS gold_all_left
        FROM eval_cases
    ) AS each
    WHERE (gold_any, gold_all) IS DISTINCT FROM (gold_any_left, gold_all_left)
"""
