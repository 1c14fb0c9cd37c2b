"""Cases as JSON lines, to be kept elsewhere, edited and brought back."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, text

from app.loop import cases
from app.loop.cases import Case
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


def import_file(database: Database, path: Path, reviewer: str) -> Imported:
    """Have the cases of a file in the set as approved; what is there already stays as it is.

    A case of the same id is replaced by what differs. Which are held out is taken from the file
    where it says so. Raises ConfigError as load_cases does, and then nothing is brought.
    """
    wanted = evaluation.load_cases(path)
    more = _load_more(path)
    with database.transaction() as connection:
        outcomes = [_save(connection, case, more[case.case_id], reviewer) for case in wanted]
    return Imported(
        new=outcomes.count("new"),
        changed=outcomes.count("changed"),
        unchanged=outcomes.count("unchanged"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _More:
    """What a line says of a case beside what is measured."""

    answer: str
    held_out: bool | None  # None: it does not say


def _load_more(path: Path) -> dict[str, _More]:
    more = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            row = json.loads(line)
            answer, held_out = row.get("answer") or "", row.get("held_out")
            if not isinstance(answer, str) or held_out not in (True, False, None):
                raise ConfigError(
                    f"{path} line {number}: answer is a text, and held_out true or false."
                )
            if "\\u0000" in line or "\0" in line:
                raise ConfigError(f"{path} line {number} holds a NUL character: take it out.")
            more[str(row["id"])] = _More(answer=answer, held_out=held_out)
    return more


def _save(
    connection: Connection, case: EvalCase, more: _More, reviewer: str
) -> Literal["new", "changed", "unchanged"]:
    saved = connection.execute(
        text("""
            INSERT INTO eval_cases AS old
                (case_id, tenant_id, state, origin, type, question, history, gold_any, gold_all,
                 answer, reviewer, reviewed_at)
            VALUES (:case_id, current_setting('footnote.tenant_id'), 'approved', 'import', :type,
                    :question, CAST(:history AS jsonb), CAST(:gold_any AS jsonb),
                    CAST(:gold_all AS jsonb), :answer, :reviewer, now())
            ON CONFLICT (tenant_id, case_id) DO UPDATE
            SET state = excluded.state, type = excluded.type, question = excluded.question,
                history = excluded.history, gold_any = excluded.gold_any,
                gold_all = excluded.gold_all, answer = excluded.answer,
                reviewer = excluded.reviewer, reviewed_at = excluded.reviewed_at,
                orphaned_at = NULL
            WHERE (old.state, old.type, old.question, old.history, old.gold_any, old.gold_all,
                   old.answer)
                IS DISTINCT FROM
                  (excluded.state, excluded.type, excluded.question, excluded.history,
                   excluded.gold_any, excluded.gold_all, excluded.answer)
            OR old.held_out <> CAST(:held_out AS boolean)
            RETURNING xmax = 0 AS is_new
        """),
        {
            "case_id": case.case_id,
            "type": case.type,
            "question": case.question,
            "history": json.dumps(_build_history(case.turns[:-1])),
            "gold_any": json.dumps(cases.build_gold(case.gold_any)),
            "gold_all": json.dumps(cases.build_gold(case.gold_all)),
            "answer": more.answer,
            "held_out": more.held_out,
            "reviewer": reviewer,
        },
    ).one_or_none()
    if saved is None:
        return "unchanged"
    cases.choose_part(connection, case.case_id, held_out=more.held_out)
    return "new" if saved.is_new else "changed"


def _build_history(turns: Sequence[Turn]) -> list[dict[str, str]]:
    return [{"role": turn.speaker, "text": turn.text} for turn in turns]
