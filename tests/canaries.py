"""Pages of many tenants for many audiences, each with a word of its own that gives it away."""

import json
import random
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sqlalchemy import Connection, text

from retrieval import audiences, generations, identifiers
from retrieval.db import Database
from retrieval.generations import Generation

DIMENSION = 8
NOT_THEIRS = "canary999x999"  # for what is another tenant's, where ids alone are shown
_CANARY = re.compile(r"canary\d+x\d+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A page, and who may read it."""

    canary: str  # stands in its title, path, text and identifiers, and in all that is made of it
    audience: tuple[str, ...]

    @property
    def path(self) -> str:
        return f"{self.canary}.md"


def plan(tenant: int, names: int, per_audience: int) -> list[Planted]:
    """The pages of a tenant: some public, some everyone's, the others for so many audiences."""
    sets: list[tuple[str, ...]] = [("public",), ("everyone",)]
    for number in range(names):
        kind, prefix = (("group", "S"), ("channel", "C"), ("user", "U"))[number % 3]
        own = f"{kind}:{prefix}{tenant}N{number}"
        # Every other one is shared with another name, so that readers have pages in common.
        sets.append(audiences.parse([own, *([f"user:U{tenant}N0"] if number % 2 else [])]))
    pages = [each for each in sets for _ in range(per_audience)]
    return [
        Planted(canary=f"canary{tenant}x{number}", audience=each)
        for number, each in enumerate(pages)
    ]


def find_canaries(shown: object) -> set[str]:
    """The words in whatever is shown."""
    return {found.lower() for found in _CANARY.findall(repr(shown))}


class Tenant:
    """One tenant's pages in the index, with what was asked about each."""

    def __init__(self, database: Database, pages: Sequence[Planted], *, asked: bool = True) -> None:
        self.database = database
        self.pages = pages
        self._by_section: dict[int, str] = {}
        self.document_ids: dict[str, int] = {}
        with database.unrestricted.transaction() as connection:
            self._plant(connection)
            _compare(connection)
            if asked:
                _ask(connection)
            found = generations.load(connection, "active")
            assert found is not None
            self.generation: Generation = found
            generations.refresh_counts(connection, found)

    def readable(self, readers: Collection[str]) -> set[str]:
        """The words that these readers may see."""
        return {page.canary for page in self.pages if set(page.audience) & set(readers)}

    def name_sections(self, section_ids: Iterable[int]) -> set[str]:
        """The words of sections."""
        return {self._by_section.get(section_id, NOT_THEIRS) for section_id in section_ids}

    def name_pages(self, document_ids: Iterable[int]) -> set[str]:
        """The words of pages."""
        by_id = {document_id: canary for canary, document_id in self.document_ids.items()}
        return {by_id.get(document_id, NOT_THEIRS) for document_id in document_ids}

    @property
    def section_ids(self) -> list[int]:
        return list(self._by_section)

    @cached_property
    def names(self) -> list[str]:
        """All that a reader may have beside everyone and public."""
        known = {name for page in self.pages for name in page.audience}
        return sorted(known - {"everyone", "public"})

    def draw_readers(self, rng: random.Random) -> tuple[str, ...]:
        """Some reader or place: a stranger, a guest, everybody, or who has some names as well."""
        basis = ("public",) if rng.random() < 0.2 else ("everyone", "public")
        return (*basis, *rng.sample(self.names, rng.choice([0, 0, 1, 1, 2, 4])))

    def _plant(self, connection: Connection) -> None:
        ids = {
            audience: audiences.load_id(connection, audience)
            for audience in {page.audience for page in self.pages}
        }
        rng = np.random.default_rng(7)
        vectors = rng.normal(size=(len(self.pages), DIMENSION))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        rows = [
            {
                "canary": page.canary,
                "audience_id": ids[page.audience],
                "vector": json.dumps([round(float(value), 4) for value in vector]),
                "words": 50 + 7 * (int(page.canary.rpartition("x")[2]) % 5),
                "identifiers": sorted(identifiers.extract(f"{page.canary.upper()} SHARED-77")),
            }
            for page, vector in zip(self.pages, vectors, strict=True)
        ]
        connection.execute(
            text("""
                INSERT INTO generations (tenant_id, state, chunker, embedder, dimension, probe,
                                         projection, token_dimension)
                VALUES (current_setting('footnote.tenant_id'), 'active', 'c', 'e', :dimension,
                        :probe, :projection, 1)
            """),
            {
                "dimension": DIMENSION,
                "probe": [1.0] * DIMENSION,
                "projection": np.ones((1, DIMENSION), dtype=np.float32).tobytes(),
            },
        )
        planted = connection.execute(
            text("""
                WITH planted AS (
                    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS row(
                        canary text, audience_id integer, vector text, words real,
                        identifiers text[])
                ), written AS (
                    INSERT INTO documents (tenant_id, audience_id, source, path, title, url, text,
                                           content_hash, owner, verified_at)
                    SELECT current_setting('footnote.tenant_id'), audience_id, 'src-' || canary,
                           canary || '.md', 'Title ' || canary, 'https://wiki.example/' || canary,
                           'Text of ' || canary || ' common', 'h', 'owner-' || canary, '2020-01-01'
                    FROM planted
                    RETURNING *
                ), cut AS (
                    INSERT INTO sections (tenant_id, audience_id, generation_id, document_id,
                                          content_hash, language, ordinal, heading_path, text,
                                          span_start, span_end, token_count, word_count)
                    SELECT written.tenant_id, written.audience_id, generation_id, document_id, 'h',
                           'english', 0, ARRAY[title], text, 0, length(text), 9, words
                    FROM written JOIN planted ON path = canary || '.md', generations
                    RETURNING *
                ), named AS (
                    SELECT cut.*, planted.canary, vector, identifiers
                    FROM cut JOIN written USING (document_id)
                    JOIN planted ON written.path = planted.canary || '.md'
                ), embedded AS (
                    INSERT INTO chunks (tenant_id, audience_id, generation_id, section_id, ordinal,
                                        heading_path, text, embedding, token_vectors)
                    SELECT tenant_id, audience_id, generation_id, section_id, 0, heading_path, text,
                           CAST(vector AS halfvec), ''
                    FROM named
                ), posted AS (
                    INSERT INTO lexical_postings (tenant_id, audience_id, generation_id, section_id,
                                                  term, frequency)
                    SELECT tenant_id, audience_id, generation_id, section_id, term, 1
                    FROM named CROSS JOIN LATERAL unnest(ARRAY[canary, 'common']) AS term
                ), known AS (
                    INSERT INTO identifier_postings (tenant_id, audience_id, generation_id,
                                                     section_id, identifier)
                    SELECT tenant_id, audience_id, generation_id, section_id, identifier
                    FROM named CROSS JOIN LATERAL unnest(identifiers) AS identifier
                )
                SELECT section_id, document_id, canary FROM named
            """),
            {"rows": json.dumps(rows)},
        ).all()
        self._by_section = {row.section_id: row.canary for row in planted}
        self.document_ids = {row.canary: row.document_id for row in planted}


def _compare(connection: Connection) -> None:
    """Of each page: that it says nearly the same as the next ones."""
    for statement in (
        """
        INSERT INTO copies (tenant_id, document_id, other_id, similarity, has_one_title)
        SELECT tenant_id, page.document_id, other.document_id, 0.9, true
        FROM documents AS page JOIN documents AS other USING (tenant_id)
        WHERE other.document_id BETWEEN page.document_id + 1 AND page.document_id + 4
        """,
        """
        INSERT INTO signatures (tenant_id, document_id, content_hash, bands)
        SELECT tenant_id, document_id, content_hash, '{1}' FROM documents
        """,
    ):
        connection.execute(text(statement))


def _ask(connection: Connection) -> None:
    """Of each page: asked and answered by three people, and once in vain, flagged, passed on and a
    case. What was found best each time and not kept is a page of another audience, which an answer
    may be read without."""
    connection.execute(
        text("""
            INSERT INTO traces (tenant_id, surface, team_id, channel_id, message_ts, thread_ts,
                                user_id, question, queries, outcome, answer, answer_ts, candidates,
                                kept, citations, settings, abstained_because, completed_at)
            SELECT documents.tenant_id, 'slack', 'T1', 'C1', document_id || '.' || asker,
                   document_id::text, 'U' || asker, asked, ARRAY[asked],
                   CASE WHEN asker < 4 THEN 'answered' ELSE 'abstained' END, 'It is ' || title,
                   ARRAY['9' || document_id || '.' || asker], jsonb_build_array(other.found,
                       jsonb_build_object('section_id', section_id, 'document_id', document_id,
                                          'doc', path, 'relevance', 0.4)),
                   CASE WHEN asker < 4 THEN ARRAY[section_id] ELSE '{}' END,
                   CASE WHEN asker < 4 THEN jsonb_build_array(jsonb_build_object(
                       'marker', 1, 'section_id', section_id, 'document_id', document_id,
                       'path', path, 'title', title, 'url', url, 'cited_text', text)) ELSE '[]' END,
                   CASE WHEN asker < 4 THEN '{}' ELSE jsonb_build_object(
                       'nearest', jsonb_build_object('path', path, 'title', title)) END,
                   CASE WHEN asker = 4 THEN 'BELOW_FLOOR' END, now()
            FROM documents JOIN (SELECT document_id, section_id FROM sections) AS own
                USING (document_id)
            CROSS JOIN generate_series(1, 4) AS asker
            CROSS JOIN LATERAL (
                SELECT jsonb_build_object('section_id', others.section_id, 'document_id',
                                          document_id, 'doc', path, 'relevance', 0.5) AS found
                FROM documents AS page JOIN sections AS others USING (document_id)
                WHERE page.audience_id <> documents.audience_id
                ORDER BY document_id < documents.document_id, document_id LIMIT 1
            ) AS other
            CROSS JOIN LATERAL (SELECT CASE WHEN asker < 4 THEN 'what is ' ELSE 'where is ' END
                                       || title AS asked) AS worded
        """)
    )
    connection.execute(
        text("""
            INSERT INTO feedback (trace_id, tenant_id, user_id, vote, reason, right_source,
                                  right_path, note)
            SELECT trace_id, traces.tenant_id, 'U4', -1, 'wrong', source, path, title
            FROM traces JOIN documents ON document_id = ANY(document_ids)
            WHERE outcome = 'abstained'
        """)
    )
    connection.execute(
        text("""
            INSERT INTO eval_cases (case_id, tenant_id, state, origin, type, question, gold_any)
            SELECT 'flag-' || right_path, tenant_id, 'proposed', 'flag', 'flagged', note,
                   jsonb_build_array(jsonb_build_object('doc', right_path, 'source', right_source))
            FROM feedback
        """)
    )
    connection.execute(
        text("""
            INSERT INTO case_traces (trace_id, tenant_id, case_id)
            SELECT trace_id, tenant_id, 'flag-' || right_path FROM feedback
        """)
    )
    connection.execute(
        text("""
            INSERT INTO escalations (trace_id, tenant_id, channel_id, asked_by, question)
            SELECT trace_id, tenant_id, 'C2', user_id, note FROM feedback
        """)
    )
