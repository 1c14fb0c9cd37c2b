"""Sums over traces, pages and runs, for /ragstats, App Home and `footnote stats`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, Row, text

from app import claims
from app.config import Settings
from app.loop import caseset, faults, gaps
from app.loop.gaps import Asked
from app.loop.gaps import Gap as Gap
from app.loop.stages import Stage
from app.questions import IN_CHANNEL, LEAST_ASKERS, QUESTION_KEY
from retrieval import verifying
from retrieval.db import Database

MOST_GAPS = 12  # that are told of; of the others only the number is known
# Groups of questions, the most frequent and of such the latest, that are put together by what they
# ask: 400 take 0.1 s on two cores, half of it to read their vectors.
MOST_COMPARED = 400
MOST_RUNS = 4  # sets whose last runs are loaded, those run last first
# What a trace says was billed, by model, for the question as it was before an edit too.
BILLED = """(VALUES
    (settings ->> 'generator',
     (tokens ->> 'input')::bigint, (tokens ->> 'output')::bigint),
    (settings ->> 'rewrite_model',
     (tokens ->> 'rewrite_input')::bigint, (tokens ->> 'rewrite_output')::bigint),
    (settings #>> '{before,generator}',
     (settings #>> '{before,tokens,input}')::bigint,
     (settings #>> '{before,tokens,output}')::bigint),
    (settings #>> '{before,rewrite_model}',
     (settings #>> '{before,tokens,rewrite_input}')::bigint,
     (settings #>> '{before,tokens,rewrite_output}')::bigint)
) AS billed (model, input, output)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which questions are counted."""

    days: int = 30  # until now, from 1
    channel_id: str | None = None  # None: wherever they were asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Whose words may be shown: one's own, and everybody's to whoever looks after Footnote."""

    user_id: str | None = None
    is_admin: bool = False
    # Many at once: they see what was asked in a channel, or by LEAST_ASKERS in the same words.
    is_everyone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the models of a period cost, as far as they have a price.

    It leaves out what no trace tells: writing an answer that was stopped or broke off, and all for
    what was overheard and forgotten.
    """

    usd: float = 0
    unpriced: tuple[str, ...] = ()  # models that were used and have none, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What came of the questions of a period; those still worked on are only asked."""

    asked: int = 0
    answered: int = 0
    abstained: int = 0
    failed: int = 0
    limited: int = 0  # over what is answered in an hour
    stopped: int = 0  # by the asker, who had seen enough of an answer that grew
    flagged: int = 0  # with at least one 👎
    helpful: int = 0  # with at least one 👍
    input_tokens: int = 0  # as billed, for rewording and answering, but for what Cost leaves out
    output_tokens: int = 0
    cost: Cost | None = None  # None: no model was used, or PRICES are not set
    # From question to answer or abstention; None before the first.
    median_ms: float | None = None
    p95_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """The gaps with words to show, then with the most questions, then the latest, and how many
    there are in all."""

    groups: int = 0
    questions: int = 0
    top: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRuns:
    """The last two runs of a set of eval cases."""

    name: str
    recall_at_5: float
    before: float | None  # None: it has been run once


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The pages of a source by when they were last verified."""

    name: str
    fresh: int  # within the days that count as fresh
    stale: int
    undated: int

    @property
    def pages(self) -> int:
        return self.fresh + self.stale + self.undated


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What /ragstats shows. Pages and runs are as they are now, whatever the scope."""

    scope: Scope
    counts: Counts
    before: Counts  # of as many days before those
    freshness_days: int
    # How often each stage was at fault for what was flagged, where a page was named for it.
    at_fault: Mapping[Stage, int] = field(default_factory=dict)
    gaps: Gaps = field(default_factory=Gaps)
    sources: tuple[Source, ...] = ()
    runs: tuple[SetRuns, ...] = ()

    @property
    def fault_not_known(self) -> int:
        """How many flagged answers there are for which nobody has named the right page."""
        return self.counts.flagged - sum(self.at_fault.values())


def load_stats(database: Database, scope: Scope, *, viewer: Viewer, settings: Settings) -> Stats:
    """The sums of a scope, with no words but those that the viewer may see.

    A message that asked nothing, a greeting say, is no question.
    """
    freshness_days = settings.freshness_days
    with database.snapshot() as connection:
        counts, before = _load_counts(connection, scope)
        cost, cost_before = _load_costs(connection, scope, settings.prices)
        return Stats(
            scope=scope,
            counts=replace(counts, cost=cost),
            before=replace(before, cost=cost_before),
            freshness_days=freshness_days,
            at_fault=faults.count_stages(
                connection,
                days=scope.days,
                channel_id=scope.channel_id,
                freshness_days=freshness_days,
            ),
            gaps=_load_gaps(connection, scope, viewer),
            sources=_load_sources(connection, freshness_days),
            runs=_load_runs(connection),
        )


def load_sources(database: Database, freshness_days: int) -> tuple[Source, ...]:
    """The sources of this tenant's pages, by name."""
    with database.transaction() as connection:
        return _load_sources(connection, freshness_days)


def to_json(stats: Stats) -> str:
    """The sums as one line of JSON."""
    return json.dumps(
        {
            "days": stats.scope.days,
            **_round(stats.counts),
            "before": _round(stats.before),
            "stage_at_fault": {**stats.at_fault, "not_known": stats.fault_not_known},
            "freshness_days": stats.freshness_days,
            "sources": [asdict(source) for source in stats.sources],
            "runs": [asdict(run) for run in stats.runs],
            "gaps": asdict(stats.gaps),
        },
        ensure_ascii=False,
    )


def _round(counts: Counts) -> dict[str, Any]:
    return {
        name: round(value, 1) if isinstance(value, float) else value
        for name, value in asdict(counts).items()
    }


def _load_counts(connection: Connection, scope: Scope) -> tuple[Counts, Counts]:
    rows = connection.execute(
        text(f"""
            WITH votes AS (
                SELECT trace_id, bool_or(vote < 0) AS is_flagged, bool_or(vote > 0) AS is_helpful
                FROM feedback GROUP BY trace_id
            ),
            questions AS (
                SELECT *, asked_at < now() - make_interval(days => :days) AS is_before,
                       coalesce(error_class, '') = :limited AS is_limited,
                       CASE WHEN outcome IN ('answered', 'abstained') THEN
                           extract(epoch FROM completed_at - asked_at)::float8 * 1000
                       END AS took_ms
                FROM traces LEFT JOIN votes USING (trace_id)
                WHERE asked_at >= now() - make_interval(days => 2 * :days) AND is_question(traces)
                AND (CAST(:channel_id AS text) IS NULL OR channel_id = :channel_id)
            )
            SELECT is_before, count(*) AS asked,
                   count(*) FILTER (WHERE outcome = 'answered') AS answered,
                   count(*) FILTER (WHERE outcome = 'abstained') AS abstained,
                   count(*) FILTER (WHERE outcome = 'failed' AND NOT is_limited) AS failed,
                   count(*) FILTER (WHERE is_limited) AS limited,
                   count(*) FILTER (WHERE outcome = 'stopped') AS stopped,
                   count(*) FILTER (WHERE is_flagged) AS flagged,
                   count(*) FILTER (WHERE is_helpful) AS helpful,
                   coalesce(sum((SELECT sum(input) FROM {BILLED})), 0)::bigint AS input_tokens,
                   coalesce(sum((SELECT sum(output) FROM {BILLED})), 0)::bigint AS output_tokens,
                   percentile_cont(0.5) WITHIN GROUP (ORDER BY took_ms) AS median_ms,
                   percentile_cont(0.95) WITHIN GROUP (ORDER BY took_ms) AS p95_ms
            FROM questions GROUP BY is_before
        """),
        {"days": scope.days, "channel_id": scope.channel_id, "limited": claims.LIMITED},
    ).mappings()
    counts = {row["is_before"]: _read_counts(dict(row)) for row in rows}
    return counts.get(False, Counts()), counts.get(True, Counts())


def _load_costs(
    connection: Connection, scope: Scope, prices: Mapping[str, tuple[float, float]]
) -> tuple[Cost | None, Cost | None]:
    """What the models of the period cost, and those of the one before."""
    if not prices:
        return None, None
    used = connection.execute(
        text(f"""
            SELECT asked_at < now() - make_interval(days => :days) AS is_before, model,
                   sum(input)::float8 AS input, sum(output)::float8 AS output
            FROM traces CROSS JOIN LATERAL {BILLED}
            WHERE asked_at >= now() - make_interval(days => 2 * :days) AND is_question(traces)
            AND model IS NOT NULL AND (input > 0 OR output > 0)
            AND (CAST(:channel_id AS text) IS NULL OR channel_id = :channel_id)
            GROUP BY is_before, model ORDER BY model
        """),
        {"days": scope.days, "channel_id": scope.channel_id},
    ).all()
    now, before = (
        _build_cost([row for row in used if row.is_before is period], prices)
        for period in (False, True)
    )
    return now, before


def _build_cost(used: Sequence[Row[Any]], prices: Mapping[str, tuple[float, float]]) -> Cost | None:
    """What the tokens of some models cost; None of none."""
    if not used:
        return None
    usd = 0.0
    for row in used:
        price_in, price_out = prices.get(row.model, (0, 0))
        usd += (row.input * price_in + row.output * price_out) / 1_000_000
    return Cost(usd=usd, unpriced=tuple(row.model for row in used if row.model not in prices))


def _read_counts(row: dict[str, Any]) -> Counts:
    del row["is_before"]
    return Counts(**row)


def _load_gaps(connection: Connection, scope: Scope, viewer: Viewer) -> Gaps:
    # What the viewer may not see does not leave the database: it is put together by text alone.
    rows = connection.execute(
        text(f"""
            WITH flags AS (SELECT DISTINCT trace_id FROM feedback WHERE vote < 0),
            questions AS (
                SELECT trace_id, coalesce(queries[1], question) AS question, asked_at, user_id,
                       settings #>> '{{unknown,0}}' AS name,
                       outcome = 'abstained' AS is_abstained,
                       flags.trace_id IS NOT NULL AS is_flagged,
                       {IN_CHANNEL} AS is_in_channel,
                       generations.generation_id IS NOT NULL AND embedding IS NOT NULL
                           AS is_comparable
                FROM traces LEFT JOIN flags USING (trace_id)
                LEFT JOIN generations
                    ON state = 'active' AND generation_id::text = settings ->> 'generation_id'
                WHERE asked_at >= now() - make_interval(days => :days) AND is_shown(traces)
                AND (CAST(:channel_id AS text) IS NULL OR channel_id = :channel_id)
                AND (outcome = 'abstained' OR flags.trace_id IS NOT NULL)
                -- Nobody knows what the documents hold for it.
                AND NOT settings ?| ARRAY['failed_legs', 'instead_of']
            ),
            worded AS (SELECT *, {QUESTION_KEY} AS words FROM questions),
            common AS (
                SELECT words FROM worded GROUP BY words HAVING count(DISTINCT user_id) >= :askers
            ),
            keyed AS (
                SELECT *, name IS NOT NULL AS is_named,
                       coalesce(
                           nullif(regexp_replace(lower(name), '[[:space:][:punct:]]+', '', 'g'),
                                  ''),
                           words
                       ) AS key,
                       :is_admin OR coalesce(user_id = :user_id, false)
                       OR :is_everyone AND (is_in_channel OR words IN (SELECT words FROM common))
                           AS is_visible
                FROM worded
            ),
            grouped AS (
                SELECT is_visible, count(*) AS count, max(asked_at) AS last,
                       count(*) FILTER (WHERE is_abstained) AS abstained,
                       count(*) FILTER (WHERE is_flagged) AS flagged,
                       (array_agg(name ORDER BY asked_at DESC) FILTER (WHERE is_visible))[1]
                           AS name,
                       (array_agg(question ORDER BY asked_at DESC) FILTER (WHERE is_visible))[1]
                           AS question,
                       (array_agg(trace_id ORDER BY asked_at DESC)
                           FILTER (WHERE is_visible AND is_comparable))[1] AS trace_id
                FROM keyed GROUP BY is_visible, is_named, key
            ),
            ranked AS (
                SELECT *, count(*) OVER () AS groups, sum(count) OVER ()::bigint AS questions,
                       row_number() OVER (
                           PARTITION BY is_visible ORDER BY count DESC, last DESC
                       ) AS rank
                FROM grouped
            )
            SELECT ranked.*, embedding FROM ranked LEFT JOIN traces USING (trace_id)
            WHERE rank <= CASE WHEN is_visible THEN :compared ELSE :most END
            ORDER BY is_visible DESC, rank
        """),
        {
            "days": scope.days,
            "channel_id": scope.channel_id,
            "user_id": viewer.user_id,
            "is_admin": viewer.is_admin,
            "is_everyone": viewer.is_everyone,
            "askers": LEAST_ASKERS,
            "compared": MOST_COMPARED,
            "most": MOST_GAPS,
        },
    ).all()
    if not rows:
        return Gaps()
    visible = [_read_asked(row) for row in rows if row.is_visible]
    clusters = gaps.cluster(visible)
    others = [_read_asked(row).gap for row in rows if not row.is_visible]
    return Gaps(
        groups=rows[0].groups - len(visible) + len(clusters),
        questions=rows[0].questions,
        top=tuple([*clusters, *others][:MOST_GAPS]),
    )


def _read_asked(row: Row[Any]) -> Asked:
    return Asked(
        gap=Gap(
            count=row._mapping["count"],
            abstained=row.abstained,
            flagged=row.flagged,
            name=row.name,
            question=row.question,
        ),
        vector=None if row.embedding is None else row.embedding.to_numpy(),
    )


def _load_sources(connection: Connection, freshness_days: int) -> tuple[Source, ...]:
    rows = connection.execute(
        text(f"""
            SELECT source AS name,
                   count(*) FILTER (WHERE NOT {verifying.IS_STALE}) AS fresh,
                   count(*) FILTER (WHERE {verifying.IS_STALE}) AS stale,
                   count(*) FILTER (WHERE verified_at IS NULL) AS undated
            FROM documents GROUP BY source ORDER BY source
        """),
        {"freshness_days": freshness_days},
    )
    return tuple(Source(**row._mapping) for row in rows)


def _load_runs(connection: Connection) -> tuple[SetRuns, ...]:
    """The sets run last; a set that no page answers has no recall.

    Of our own only the cases count that may be read; those of files are nobody's here.
    """
    rows = connection.execute(
        text("""
            SELECT cases_name AS name, max(recall) FILTER (WHERE nth = 1) AS recall_at_5,
                   max(recall) FILTER (WHERE nth = 2) AS before
            FROM (
                SELECT *, row_number() OVER (PARTITION BY cases_name ORDER BY run_id DESC) AS nth
                FROM eval_runs WHERE means #>> '{all,recall@5}' IS NOT NULL
            ) AS runs
            CROSS JOIN LATERAL (
                SELECT CASE WHEN cases_name <> :own THEN (means #>> '{all,recall@5}')::float8 ELSE (
                    SELECT avg((result ->> 'recall@5')::float8)
                    FROM jsonb_array_elements(results) AS result
                    WHERE result ->> 'id' IN (SELECT case_id FROM eval_cases)
                ) END AS recall
            ) AS told
            WHERE nth <= 2
            GROUP BY cases_name HAVING max(recall) FILTER (WHERE nth = 1) IS NOT NULL
            ORDER BY max(run_id) DESC LIMIT :most
        """),
        {"most": MOST_RUNS, "own": caseset.NAME},
    )
    return tuple(SetRuns(**row._mapping) for row in rows)
