"""Cases out to a file and back."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.loop import casefiles, cases, proposing
from app.loop.casefiles import Imported
from retrieval.db import Database
from retrieval.errors import ConfigError
from retrieval.evaluation import load_cases
from retrieval.metrics import Gold
from retrieval.records import Turn
from tests.app import questions
from tests.app.loop.flags import ask_flagged, delete, load, reply
from tests.conftest import SAMPLE

ROW = {
    "id": "c1",
    "type": "table",
    "question": "how long?",
    "history": [{"role": "assistant", "text": "hello"}],
    "gold_any": [{"doc": "a.md", "span": "two hours"}, {"doc": "b.md"}],
    "gold_all": [],
    "answer": "Two hours.",
}


def write(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "cases.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_file_comes_back_as_it_went_out(database: Database, tmp_path: Path) -> None:
    sample = SAMPLE / "cases.jsonl"
    assert casefiles.import_file(database, sample, "ann") == Imported(
        new=40, changed=0, unchanged=0
    )
    path = tmp_path / "out.jsonl"
    path.write_text(casefiles.export_lines(cases.list_cases(database)), encoding="utf-8")
    out, given = (
        {row["id"]: row for row in map(json.loads, each.read_text("utf-8").splitlines())}
        for each in (path, sample)
    )
    assert {key: {name: row[name] for name in given[key]} for key, row in out.items()} == given
    assert sorted(map(str, load_cases(path))) == sorted(map(str, load_cases(sample)))
    assert casefiles.import_file(database, path, "ben") == Imported(new=0, changed=0, unchanged=40)
    assert {case.reviewer for case in cases.list_cases(database)} == {"ann"}
    assert 0 < sum(row["held_out"] for row in out.values()) < 20


def test_how_a_case_came_about_comes_back_with_it(database: Database, tmp_path: Path) -> None:
    page = questions.add_page(database, "handbook", "a.md")
    case = ask_flagged(database, "how\u2028long\x85is it?", page=page)
    proposing.propose_reply(database, reply(question=case.question, answer="2\u2029h"))
    cases.approve(database, case.case_id, "U7")
    approved = load(database, case.case_id)
    path = tmp_path / "out.jsonl"
    path.write_text(casefiles.export_lines([approved]), encoding="utf-8")
    delete(database, case.trace_ids[0])
    assert cases.list_cases(database) == []
    assert casefiles.import_file(database, path, "ann").new == 1
    assert load(database, case.case_id) == replace(approved, trace_ids=())
    assert approved.gold == (Gold(doc="a.md", source="handbook"),)


def test_what_a_file_does_not_say_stays(database: Database, tmp_path: Path) -> None:
    said = {"origin": "reply", "reviewer": "U7", "created_at": "2026-01-02T03:04:05+01:00"}
    casefiles.import_file(database, write(tmp_path, ROW | said), "ann")
    changed = {**ROW, "question": "how far?"}
    del changed["answer"]
    assert casefiles.import_file(database, write(tmp_path, changed), "ben").changed == 1
    case = load(database, "c1")
    assert (case.question, case.answer, case.reviewer) == ("how far?", "Two hours.", "ben")
    assert (case.origin, case.created_at) == ("reply", datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC))
    assert casefiles.import_file(database, write(tmp_path, changed), "cid").unchanged == 1
    casefiles.import_file(database, write(tmp_path, changed | {"answer": ""}), "cid")
    assert load(database, "c1").answer == ""


def test_what_is_brought_is_approved(database: Database, tmp_path: Path) -> None:
    casefiles.import_file(database, write(tmp_path, ROW), "ann")
    (case,) = cases.list_cases(database)
    assert (case.state, case.origin, case.reviewer) == ("approved", "import", "ann")
    assert case.history == (Turn(speaker="bot", text="hello"),)
    assert case.gold_any == (Gold(doc="a.md", span="two hours"), Gold(doc="b.md"))
    assert (case.answer, case.reviewed_at is not None) == ("Two hours.", True)


def test_a_case_of_the_same_id_is_replaced_where_it_differs(
    database: Database, tmp_path: Path
) -> None:
    path = write(tmp_path, ROW, {**ROW, "id": "c2"})
    casefiles.import_file(database, path, "ann")
    cases.overrule(database, "c2", "ann", "dismissed")
    changed = {**ROW, "gold_any": [{"doc": "c.md"}]}
    path = write(tmp_path, changed, {**ROW, "id": "c2"}, {**ROW, "id": "c3"})
    assert casefiles.import_file(database, path, "ben") == Imported(new=1, changed=2, unchanged=0)
    case = cases.load(database, "c1")
    assert case and (case.gold_any, case.reviewer) == ((Gold(doc="c.md"),), "ben")
    assert {each.state for each in cases.list_cases(database)} == {"approved"}


def test_which_are_held_out_is_taken_from_a_file_that_says_so(
    database: Database, tmp_path: Path
) -> None:
    rows = [{**ROW, "id": f"c{n}", "held_out": n % 2 == 0} for n in range(4)]
    casefiles.import_file(database, write(tmp_path, *rows), "ann")
    assert [case.held_out for case in cases.list_cases(database)] == [True, False, True, False]
    path = write(tmp_path, {**rows[0], "held_out": False}, rows[1])
    assert casefiles.import_file(database, path, "ben") == Imported(new=0, changed=1, unchanged=1)
    assert [case.held_out for case in cases.list_cases(database)] == [False, False, True, False]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"question": " "}, "line 2: the question is blank"),
        ({"answer": 3}, "line 2: answer and reviewer are texts"),
        ({"reviewer": ["ann"]}, "line 2: answer and reviewer are texts"),
        ({"held_out": "yes"}, "held_out is true or false"),
        ({"origin": "flagged"}, "origin one of flag, reply, import"),
        ({"created_at": "2026-01-02T03:04:05"}, "are times with their zone"),
        ({"reviewed_at": "yesterday"}, "are times with their zone"),
        ({"reviewed_at": 5}, "are times with their zone"),
        ({"answer": "a\0b"}, "line 2 holds a NUL"),
        ({"id": "c1"}, "line 2 has the id of a case before it"),
        ({"gold_any": [{"span": "x"}]}, "line 2 is not a case"),
    ],
)
def test_a_file_with_something_wrong_brings_nothing(
    database: Database, tmp_path: Path, wrong: dict[str, Any], why: str
) -> None:
    path = write(tmp_path, ROW, {**ROW, "id": "c2", **wrong})
    with pytest.raises(ConfigError, match=why):
        casefiles.import_file(database, path, "ann")
    assert cases.list_cases(database) == []
