"""At which stage a flagged answer went wrong: told by its right page, or likely without one."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, Row, text

from app.abstaining import NEAR_SHARE
from app.records import Abstention
from retrieval.metrics import Gold, Result, hits

# In the order in which they are looked for: not in the corpus; not among the candidates; used, and
# wrong itself; used, and wrongly told; cut by the floor; above it, and another page kept instead:
# of such, what is old loses to what was verified later.
Stage = Literal["missing", "search", "generation", "floor", "stale", "rerank"]

# A relevance is the probability that a section answers: below, it rather does not.
LIKELY = 0.5

_OLDER = "older than ["  # as app.freshness says it of a page beside a later edition


@dataclass(frozen=True, slots=True, kw_only=True)
class Flagged:
    """The trace of an answer that was flagged, with what is known of the right page.

    Of a page of which the passage is known that answers, only the sections that hold it count.
    """

    asked_on: date
    is_indexed: bool  # the right page is in the corpus now
    verified_at: date | None
    relevances: Mapping[int, float]  # of the candidates from the right page, by section_id
    kept: frozenset[int]  # section ids of what was handed over, of whatever page
    floor: float  # 0 where nothing was searched
    is_disputed: bool = False  # the right page itself is said to be what is wrong or outdated


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptoms:
    """What a trace and its voters tell while nobody has named the right page."""

    abstained_because: Abstention | None = None
    relevances: tuple[float, ...] = ()  # of the candidates
    left: tuple[float, ...] = ()  # … and of those that were not kept
    floor: float = 0
    reasons: frozenset[str] = frozenset()  # of the voters
    caveats: tuple[str, ...] = ()  # of the citations, those that have one


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The stage at fault, and by what one sees it."""

    stage: Stage
    why: str  # goes on from "stage: "; holds no words of anybody
    is_known: bool  # or it is the likeliest, as long as nobody has named the right page


def find_stage(flagged: Flagged, *, freshness_days: int) -> Stage:
    """The first stage that the right page did not get through.

    A page counts as stale by its age when it was asked about; without a date it has none. Age alone
    loses it nothing where it was used: that an old page was told right, or wrong, its date does not
    say. Used and said to be wrong or outdated itself, by a voter, a reviewer or the later edition
    cited beside it, it is stale: the generator has told what stands there.
    """
    if not flagged.relevances:
        return "search" if flagged.is_indexed else "missing"
    if flagged.kept & flagged.relevances.keys():
        return "stale" if flagged.is_disputed else "generation"
    if not flagged.kept or max(flagged.relevances.values()) < flagged.floor:
        return "floor"
    oldest = flagged.asked_on - timedelta(days=freshness_days)
    is_stale = flagged.verified_at is not None and flagged.verified_at < oldest
    return "stale" if is_stale else "rerank"


def explain(flagged: Flagged, *, freshness_days: int) -> Fault:
    """The stage at fault with the right page known, and by what one sees it."""
    stage = find_stage(flagged, freshness_days=freshness_days)
    best = max(flagged.relevances.values(), default=0.0)
    measured = f"its best section had relevance {best:.2f} (floor {flagged.floor:.2f})"
    if stage == "stale" and flagged.is_disputed:
        why = "the right page was used, and is itself said to be wrong or outdated"
    else:
        why = {
            "missing": "no page of the index answers this",
            "search": "the right page is in the index, but was not found for this question",
            "generation": "the right page was used, but not told, or told wrongly",
            "floor": f"the right page was found, but not kept: {measured}",
            "stale": f"the right page was last verified {flagged.verified_at}, and newer ones were "
            f"kept instead; {measured}",
            "rerank": f"the right page was found, but others were kept instead; {measured}",
        }[stage]
    return Fault(stage=stage, why=why, is_known=True)


def guess(symptoms: Symptoms) -> Fault:
    """The likeliest stage while the right page is not known, and why it is likely."""
    stage, why = (_guess_abstained if symptoms.abstained_because else _guess_answered)(symptoms)
    return Fault(stage=stage, why=why, is_known=False)


def _guess_abstained(symptoms: Symptoms) -> tuple[Stage, str]:
    best = max(symptoms.relevances, default=0.0)
    measured = f"the best page had relevance {best:.2f} (floor {symptoms.floor:.2f})"
    if symptoms.abstained_because == "UNKNOWN_IDENTIFIER":
        return "missing", "no page mentions a name that is asked about"
    if not symptoms.relevances:
        return "missing", "nothing was found at all"
    if symptoms.abstained_because == "UNSUPPORTED" and best >= LIKELY:
        return "generation", f"nothing was told from what was kept, though {measured}"
    if symptoms.abstained_because == "UNSUPPORTED":
        return "missing", f"what was kept does not answer it; {measured}"
    if best >= NEAR_SHARE * symptoms.floor:
        return "floor", f"nothing passed the floor, but something came near: {measured}"
    return "missing", f"nothing above the floor; {measured}"


def _guess_answered(symptoms: Symptoms) -> tuple[Stage, str]:
    best = max(symptoms.relevances, default=0.0)
    if "outdated" in symptoms.reasons:
        return "stale", "somebody says that the answer is outdated"
    if symptoms.caveats:
        return "stale", f"the answer rests on a page that may no longer hold: {symptoms.caveats[0]}"
    if "not_asked" in symptoms.reasons:
        return "search", "somebody says that something else was asked"
    if "missing" in symptoms.reasons:
        return _guess_incomplete(symptoms)
    if best < LIKELY:
        return "search", f"nothing that was found clearly answers it: relevance {best:.2f} at best"
    return "generation", f"what was kept looks right: relevance {best:.2f} at best"


def _guess_incomplete(symptoms: Symptoms) -> tuple[Stage, str]:
    """Where what is missing from an answer has likely got lost."""
    said = "somebody says that something is missing"
    above = sum(relevance >= symptoms.floor for relevance in symptoms.left)
    best = max(symptoms.left, default=0.0)
    if above:
        return "rerank", f"{said}, and {above} more above the floor were not kept"
    if symptoms.left and best >= NEAR_SHARE * symptoms.floor:
        return "floor", f"{said}, and the next page came near the floor: relevance {best:.2f}"
    return "search", f"{said}, and nothing else that was found comes near"


def find_fault(connection: Connection, trace_id: UUID, *, freshness_days: int) -> Fault | None:
    """The stage at fault for an answer, known or likely; None where its case says it was right."""
    found = _load_flagged(connection, "traces.trace_id = :trace_id", {"trace_id": trace_id})
    if trace_id in found:
        return explain(found[trace_id], freshness_days=freshness_days)
    symptoms = _load_symptoms(connection, trace_id)
    return guess(symptoms) if symptoms else None


def count_stages(
    connection: Connection, *, days: int, channel_id: str | None, freshness_days: int
) -> dict[Stage, int]:
    """How often each stage was at fault for the answers of the last days, of one channel or all;
    none that never was. Only those count of which the right page is known.

    The page that a reviewer chose goes before those that voters named, of which the last counts;
    that no page answers is known, too, once somebody has decided so. A page that was removed since,
    renamed or indexed again, is known among the candidates by its path as it was.
    """
    where = """
        is_flagged AND asked_at >= now() - make_interval(days => :days) AND is_question(traces)
        AND (CAST(:channel_id AS text) IS NULL OR channel_id = :channel_id)
    """
    found = _load_flagged(connection, where, {"days": days, "channel_id": channel_id})
    return dict(Counter(find_stage(each, freshness_days=freshness_days) for each in found.values()))


def _load_flagged(
    connection: Connection, where: str, values: Mapping[str, object]
) -> dict[UUID, Flagged]:
    """Those answers of which the right page is known."""
    rows = connection.execute(
        text(f"""
            WITH votes AS (
                SELECT trace_id, true AS is_flagged,
                       bool_or(reason = 'outdated') IS TRUE AS is_outdated,
                       (array_agg(jsonb_build_object('source', right_source, 'doc', right_path)
                                  ORDER BY voted_at DESC)
                        FILTER (WHERE right_path IS NOT NULL))[1] AS named
                FROM feedback WHERE vote < 0 GROUP BY trace_id
            ),
            judged AS (
                SELECT traces.*, is_outdated IS TRUE AS is_outdated,
                       page_wrong_at IS NOT NULL AS is_page_wrong,
                       CASE WHEN state = 'dismissed' THEN NULL
                            WHEN reviewer IS NOT NULL AND gold_any || gold_all <> '[]'
                                THEN gold_any || gold_all
                            WHEN state = 'approved' THEN '[]'
                            WHEN named IS NOT NULL THEN jsonb_build_array(named)
                            WHEN page_wrong_at IS NOT NULL AND citations <> '[]' THEN
                                jsonb_build_array(
                                    jsonb_build_object('doc', citations -> 0 -> 'path'))
                       END AS pages
                FROM traces
                LEFT JOIN votes USING (trace_id)
                LEFT JOIN case_traces USING (trace_id)
                LEFT JOIN eval_cases USING (case_id)
                WHERE {where}
            )
            SELECT trace_id, asked_at::date AS asked_on, kept, page.doc, page.span, document_id,
                   verified_at, coalesce((settings ->> 'floor')::float8, 0) AS floor,
                   is_page_wrong OR EXISTS (
                       SELECT FROM jsonb_array_elements(citations) AS cited
                       WHERE cited ->> 'path' = page.doc
                       AND (is_outdated OR strpos(cited ->> 'caveat', :older) > 0)
                   ) AS is_disputed,
                   (SELECT coalesce(jsonb_object_agg(
                        found ->> 'section_id',
                        coalesce((found ->> 'relevance')::float8, 0)), '{{}}')
                    FROM jsonb_array_elements(candidates) AS found
                    WHERE (found ->> 'document_id')::bigint = documents.document_id
                    OR (found ->> 'doc' = page.doc AND NOT EXISTS (
                        SELECT FROM documents AS others
                        WHERE others.document_id = (found ->> 'document_id')::bigint
                    ))) AS relevances
            FROM judged
            LEFT JOIN LATERAL jsonb_to_recordset(pages) AS page (source text, doc text, span text)
                ON true
            LEFT JOIN documents ON path = doc AND documents.source = coalesce(page.source,
                                                                              documents.source)
            WHERE pages IS NOT NULL
        """),
        {**values, "older": _OLDER},
    ).all()
    texts = _load_sections(connection, {row.document_id for row in rows if row.span})
    by_trace: defaultdict[UUID, list[Row[Any]]] = defaultdict(list)
    for row in rows:
        by_trace[row.trace_id].append(row)
    return {trace_id: _build_flagged(pages, texts) for trace_id, pages in by_trace.items()}


def _build_flagged(pages: Sequence[Row[Any]], texts: Mapping[int, Mapping[int, str]]) -> Flagged:
    """What the trace tells of its right pages, of several as if they were one."""
    first, *_ = pages
    dates = [row.verified_at for row in pages]
    relevances: dict[int, float] = {}
    for row in pages:
        found = {int(key): value for key, value in row.relevances.items()}
        relevances |= _narrow(found, row, texts.get(row.document_id, {}))
    return Flagged(
        asked_on=first.asked_on,
        is_indexed=any(row.document_id is not None for row in pages),
        verified_at=None if None in dates else max(dates),
        relevances=relevances,
        kept=frozenset(first.kept),
        floor=first.floor,
        is_disputed=any(row.is_disputed for row in pages),
    )


def _narrow(
    found: Mapping[int, float], page: Row[Any], texts: Mapping[int, str]
) -> Mapping[int, float]:
    """Those of a page's candidates that hold the passage which answers.

    All of them where no section holds it, or where some are gone, as the page was indexed again.
    """
    if not page.span or not found.keys() <= texts.keys():
        return found
    gold = Gold(doc=page.doc, span=page.span)
    holding = {
        section_id
        for section_id, section in texts.items()
        if hits(Result(doc=page.doc, text=section), gold)
    }
    return {key: found[key] for key in found.keys() & holding} if holding else found


def _load_sections(
    connection: Connection, document_ids: Iterable[int | None]
) -> dict[int, dict[int, str]]:
    """The sections of some pages as they are now: text by section_id, by document_id."""
    rows = connection.execute(
        text("""
            SELECT document_id, section_id, sections.text
            FROM sections JOIN generations USING (generation_id)
            WHERE state = 'active' AND document_id = ANY(:document_ids)
        """),
        {"document_ids": [each for each in document_ids if each is not None]},
    )
    texts: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for row in rows:
        texts[row.document_id][row.section_id] = row.text
    return dict(texts)


def _load_symptoms(connection: Connection, trace_id: UUID) -> Symptoms | None:
    """None for an answer that was decided to be right, and where there is none."""
    row = connection.execute(
        text("""
            SELECT abstained_because, coalesce((settings ->> 'floor')::float8, 0) AS floor,
                   ARRAY(SELECT coalesce((found ->> 'relevance')::float8, 0)
                         FROM jsonb_array_elements(candidates) AS found) AS relevances,
                   ARRAY(SELECT coalesce((found ->> 'relevance')::float8, 0)
                         FROM jsonb_array_elements(candidates) AS found
                         WHERE (found ->> 'section_id')::bigint <> ALL(kept)) AS not_kept,
                   ARRAY(SELECT reason FROM feedback
                         WHERE feedback.trace_id = traces.trace_id AND vote < 0
                         AND reason IS NOT NULL) AS reasons,
                   ARRAY(SELECT cited ->> 'caveat' FROM jsonb_array_elements(citations) AS cited
                         WHERE cited ->> 'caveat' IS NOT NULL) AS caveats
            FROM traces
            LEFT JOIN case_traces USING (trace_id) LEFT JOIN eval_cases USING (case_id)
            WHERE traces.trace_id = :trace_id AND state IS DISTINCT FROM 'dismissed'
        """),
        {"trace_id": trace_id},
    ).one_or_none()
    if row is None:
        return None
    return Symptoms(
        abstained_because=row.abstained_because,
        relevances=tuple(row.relevances),
        left=tuple(row.not_kept),
        floor=row.floor,
        reasons=frozenset(row.reasons),
        caveats=tuple(row.caveats),
    )
