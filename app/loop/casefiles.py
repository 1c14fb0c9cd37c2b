"""Cases as JSON lines, to be kept elsewhere, edited and brought back."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

from sqlalchemy import Connection, text

from app.loop import cases
from app.loop.cases import Case, Origin
from retrieval import evaluation
from retrieval.db import Database
from retrieval.errors import ConfigError
from retrieval.evaluation import EvalCase
from retrieval.records import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of a file of cases."""

    new: int
    changed: int
    unchanged: int


def export_lines(exported: Iterable[Case]) -> str:
    """The cases as a file that `footnote eval` and import_file read, one a line."""
    return "".join(json.dumps(build_row(case), ensure_ascii=False) + "\n" for case in exported)


def build_row(case: Case) -> dict[str, Any]:
    """A case as one JSON object."""
    return {
        "id": case.case_id,
        "type": case.type,
        "question": case.question,
        "history": _build_history(case.history),
        "gold_any": cases.build_gold(case.gold_any),
        "gold_all": cases.build_gold(case.gold_all),
        "answer": case.answer,
        "origin": case.origin,
        "held_out": case.held_out,
        "reviewer": case.reviewer,
        "created_at": case.created_at.isoformat(),
        "reviewed_at": case.reviewed_at and case.reviewed_at.isoformat(),
    }


def import_file(database: Database, path: Path, importer: str) -> Imported:
    """Have the cases of a file in the set as approved; what is there already stays as it is.

    A case of the same id is replaced by what differs. What the file says of how a case came about
    and which are held out counts as well; where it says nothing of the answer in words, the one
    that is known stays. Raises ConfigError as load_cases does, and then nothing is brought.
    """
    wanted = evaluation.load_cases(path)
    more = _load_more(path)
    with database.transaction() as connection:
        outcomes = [_save(connection, case, more[case.case_id], importer) for case in wanted]
    return Imported(
        new=outcomes.count("new"),
        changed=outcomes.count("changed"),
        unchanged=outcomes.count("unchanged"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _More:
    """What a line says of a case beside what is measured."""

    # None wherever it does not say.
    answer: str | None
    held_out: bool | None
    origin: Origin | None
    reviewer: str | None
    created_at: datetime | None
    reviewed_at: datetime | None


def _load_more(path: Path) -> dict[str, _More]:
    more = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if line.strip():
            row = json.loads(line)
            try:
                more[str(row["id"])] = _parse_more(row)
            except (ValueError, TypeError) as error:
                raise ConfigError(
                    f"{path} line {number}: answer and reviewer are texts, held_out is true or "
                    f"false, origin one of {', '.join(get_args(Origin))}, and created_at and "
                    "reviewed_at are times with their zone."
                ) from error
            if "\\u0000" in line or "\0" in line:
                raise ConfigError(f"{path} line {number} holds a NUL character: take it out.")
    return more


def _parse_more(row: Mapping[str, Any]) -> _More:
    """Raises ValueError or TypeError where something is not what it has to be."""
    answer, reviewer, origin = (row.get(name) for name in ("answer", "reviewer", "origin"))
    held_out = row.get("held_out")
    if not all(each is None or isinstance(each, str) for each in (answer, reviewer)):
        raise TypeError
    if held_out not in (True, False, None) or origin not in (*get_args(Origin), None):
        raise ValueError
    return _More(
        answer=answer,
        held_out=held_out,
        origin=origin,
        reviewer=reviewer,
        created_at=_parse_time(row.get("created_at")),
        reviewed_at=_parse_time(row.get("reviewed_at")),
    )


def _parse_time(written: Any) -> datetime | None:
    time = None if written is None else datetime.fromisoformat(written)
    if time is not None and time.tzinfo is None:
        raise ValueError
    return time


def _save(
    connection: Connection, case: EvalCase, more: _More, importer: str
) -> Literal["new", "changed", "unchanged"]:
    saved = connection.execute(
        text("""
            INSERT INTO eval_cases AS old
                (case_id, tenant_id, state, origin, type, question, history, gold_any, gold_all,
                 answer, reviewer, created_at, reviewed_at)
            VALUES (:case_id, current_setting('footnote.tenant_id'), 'approved',
                    coalesce(:origin, 'import'), :type, :question, CAST(:history AS jsonb),
                    CAST(:gold_any AS jsonb), CAST(:gold_all AS jsonb), coalesce(:answer, ''),
                    coalesce(:reviewer, :importer), coalesce(:created_at, now()),
                    coalesce(:reviewed_at, clock_timestamp()))
            ON CONFLICT (tenant_id, case_id) DO UPDATE
            SET state = excluded.state, origin = coalesce(:origin, old.origin),
                type = excluded.type, question = excluded.question,
                history = excluded.history, gold_any = excluded.gold_any,
                gold_all = excluded.gold_all, answer = coalesce(:answer, old.answer),
                reviewer = excluded.reviewer, created_at = coalesce(:created_at, old.created_at),
                reviewed_at = excluded.reviewed_at, orphaned_at = NULL
            WHERE (old.state, old.type, old.question, old.history, old.gold_any, old.gold_all,
                   old.answer)
                IS DISTINCT FROM
                  (excluded.state, excluded.type, excluded.question, excluded.history,
                   excluded.gold_any, excluded.gold_all, coalesce(:answer, old.answer))
            OR coalesce(old.held_out, false) <> CAST(:held_out AS boolean)
            RETURNING xmax = 0 AS is_new
        """),
        {
            **asdict(more),
            "case_id": case.case_id,
            "type": case.type,
            "question": case.question,
            "history": json.dumps(_build_history(case.turns[:-1])),
            "gold_any": json.dumps(cases.build_gold(case.gold_any)),
            "gold_all": json.dumps(cases.build_gold(case.gold_all)),
            "importer": importer,
        },
    ).one_or_none()
    if saved is None:
        return "unchanged"
    cases.choose_part(connection, case.case_id, held_out=more.held_out)
    return "new" if saved.is_new else "changed"


def _build_history(turns: Sequence[Turn]) -> list[dict[str, str]]:
    return [{"role": turn.speaker, "text": turn.text} for turn in turns]
