"""`footnote cases`, as it is typed."""

import getpass
import io
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import text

from app import feedback
from app.cli import main
from app.feedback import Complaint
from app.loop import cases, proposing
from app.loop.cases import Case
from retrieval.db import Database
from retrieval.metrics import Gold
from tests.app import questions
from tests.conftest import SAMPLE

QUESTION = "what does err 2041 mean?"
PAGE = "reference/error-codes.md"
ROW = (
    "| `ERR_2041` | – | Label template needs a font that the printer lacks"
    " | Pin the previous template on the spooler |"
)


def footnote(url: str, *arguments: str, typed: str = "") -> Result:
    environment = {"DATABASE_URL": url, "TENANT_ID": "acme"}
    return CliRunner().invoke(main, ["cases", *arguments], input=typed, env=environment)


def succeed(url: str, *arguments: str, typed: str = "") -> str:
    result = footnote(url, *arguments, typed=typed)
    assert result.exit_code == 0, result.output
    return result.stdout


def flag(database: Database, question: str = QUESTION, *, page: str | None = None) -> str:
    """A flagged answer, and the page that its voter names; the case's id."""
    trace_id = questions.ask(database, question=question)
    feedback.vote(database, trace_id, "U1", -1)
    if page:
        complaint = Complaint(reason="wrong", document_id=find_page(database, page), note="no 404")
        feedback.save_complaint(database, trace_id, "U1", complaint)
    return find(database, trace_id).case_id


def find(database: Database, trace_id: UUID) -> Case:
    case = cases.find(database, trace_id)
    assert case is not None
    return case


def load(database: Database, case_id: str) -> Case:
    case = cases.load(database, case_id)
    assert case is not None
    return case


def find_page(database: Database, path: str) -> int:
    with database.transaction() as connection:
        document_id: int = connection.execute(
            text("SELECT document_id FROM documents WHERE path = :path"), {"path": path}
        ).scalar_one()
    return document_id


def review(url: str, *typed: str) -> str:
    """What a review shows when these lines are typed and then the input ends."""
    return succeed(url, "review", typed="".join(f"{line}\n" for line in typed))


# Lists


def test_cases_are_listed_and_decided_by_their_ids(database: Database, database_url: str) -> None:
    questions.add_page(database, "wiki", "a.md")
    first, second = flag(database, "how\nlong?", page="a.md"), flag(database, "how far?")
    assert succeed(database_url, "list") == (
        f"{first}  proposed\n    how long? – a.md\n{second}  proposed\n    how far? – no page\n"
    )
    assert succeed(database_url, "approve", first, second).splitlines() == [
        f"{first}  approved",
        f"{second}  approved",
    ]
    assert succeed(database_url, "dismiss", second) == f"{second}  dismissed\n"
    assert succeed(database_url, "dismiss", second) == f"{second}  was dismissed before\n"
    assert succeed(database_url, "approve", second) == f"{second}  approved\n"
    assert succeed(database_url, "dismiss", second) == f"{second}  dismissed\n"
    listed = [
        json.loads(line)
        for line in succeed(database_url, "list", "--state", "approved", "--json").splitlines()
    ]
    assert [(row["id"], row["state"], row["reviewer"]) for row in listed] == [
        (first, "approved", getpass.getuser())
    ]
    assert succeed(database_url, "list", "--state", "proposed") == "no case\n"


def test_an_unknown_case_is_told_before_anything_is_decided(
    database: Database, database_url: str
) -> None:
    case_id = flag(database)
    for command in (["approve", case_id], ["dismiss", case_id], ["show"]):
        result = footnote(database_url, *command, "flag-none")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith("Error: There is no case 'flag-none'.")
    assert load(database, case_id).state == "proposed"


def test_one_case_is_shown_with_what_helps_to_decide_and_then_with_what_was_decided(
    database: Database, database_url: str
) -> None:
    questions.add_page(database, "wiki", "a.md")
    case_id = flag(database, "how long?", page="a.md")
    shown = succeed(database_url, "show", case_id)
    assert shown.startswith(f"{case_id}  proposed\n\n> how long?\n👎 U1: ")
    assert "“no 404”" in shown
    assert "At fault: search – the right page" in shown
    assert shown.endswith("Right page: a.md (as a whole)\n")
    cases.approve(database, case_id, "ann")
    shown = succeed(database_url, "show", case_id)
    assert shown.startswith(f"{case_id}  approved by ann on ")
    assert json.loads(succeed(database_url, "show", case_id, "--json"))["gold_any"] == [
        {"doc": "a.md", "source": "wiki"}
    ]


def test_what_a_terminal_would_obey_is_left_out(database: Database, database_url: str) -> None:
    case_id = flag(database, "\x1b]0;title\x07how long?")
    for command in (["list"], ["show", case_id]):
        shown = succeed(database_url, *command)
        assert "\x1b" not in shown and "\x07" not in shown and "how long?" in shown


def test_so_it_is_of_the_ids_that_a_file_brings(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    path = tmp_path / "cases.jsonl"
    row = {"id": "a\x1b]0;title\x07\nb", "type": "t", "question": "how long?"}
    path.write_text(json.dumps(row), encoding="utf-8")
    succeed(database_url, "import", str(path))
    shown = [
        succeed(database_url, *command)
        for command in (["list"], ["show", row["id"]], ["dismiss", row["id"]])
    ]
    assert not any("\x1b" in each or "\x07" in each for each in shown)
    assert all(each.startswith("a]0;title b  ") for each in shown)


# Review


def test_a_review_shows_the_passage_before_it_is_approved(
    indexed: Database, indexed_url: str
) -> None:
    case_id = flag(indexed, page=PAGE)
    shown = review(indexed_url, "a")
    assert shown.index(f"> {QUESTION}") < shown.index(f"Right page: {PAGE}\n    {ROW}")
    assert shown.endswith("1 approved, 0 dismissed, 0 left\n")
    case = load(indexed, case_id)
    assert (case.state, case.gold) == ("approved", (Gold(doc=PAGE, span=ROW, source="wiki"),))
    assert case.reviewer == getpass.getuser()
    assert review(indexed_url) == "nothing to review\n"


def test_another_page_and_another_passage_are_chosen_by_number(
    indexed: Database, indexed_url: str
) -> None:
    case_id = flag(indexed)
    choices = ("p", "no such title", "p", "ERROR co", "1", "2", "o", "1")
    shown = review(indexed_url, "a", *choices, "a")
    assert "No page is named." in shown and "There is no such page." in shown
    assert f"  1  Error codes – {PAGE}\n" in shown and f"  1  {ROW}\n" in shown
    assert "At fault: missing" in shown  # known from then on: it was added since
    assert load(indexed, case_id).gold == (Gold(doc=PAGE, span=ROW, source="wiki"),)


def test_a_number_that_is_none_of_those_shown_is_asked_for_again(
    indexed: Database, indexed_url: str
) -> None:
    case_id = flag(indexed)
    shown = review(indexed_url, "p", "error codes", "7", "1", "22", "x", "1", "a")
    assert all(f"{typed} is none of these numbers." in shown for typed in ("7", "22", "x"))
    assert load(indexed, case_id).gold == (Gold(doc=PAGE, span=ROW, source="wiki"),)


def test_without_a_page_no_passage_is_asked_for(indexed: Database, indexed_url: str) -> None:
    case_id = flag(indexed, page=PAGE)
    before = load(indexed, case_id)
    shown = review(indexed_url, "p", "no such title", "p", "error codes", "", "p", "", "s")
    assert "There is no such page." in shown and "Which passage" not in shown
    assert load(indexed, case_id) == before
    other = flag(indexed, "how long?")
    shown = review(indexed_url, "s", "o", "s")
    assert "No page is named." in shown and "Which passage" not in shown
    assert load(indexed, other).gold == ()


def test_another_passage_leaves_the_other_pages_of_a_case(
    indexed: Database, indexed_url: str
) -> None:
    case_id = flag(indexed)
    whole = [Gold(doc=PAGE), Gold(doc="onboarding/request-access.md")]
    with indexed.transaction() as connection:
        connection.execute(
            text("UPDATE eval_cases SET gold_all = CAST(:gold AS jsonb), reviewer = 'U5'"),
            {"gold": json.dumps(cases.build_gold(whole))},
        )
    review(indexed_url, "o", "1", "a")
    case = load(indexed, case_id)
    assert (case.state, case.gold_any) == ("approved", ())
    assert case.gold_all[0] == Gold(doc=PAGE, span=ROW, source="wiki")
    assert case.gold_all[1].doc == whole[1].doc and case.gold_all[1].span  # as it was shown


def test_what_others_have_changed_meanwhile_is_not_overwritten(
    indexed: Database, indexed_url: str
) -> None:
    case_id = flag(indexed, page=PAGE)
    chosen = [Gold(doc=PAGE, span="another", source="wiki")]

    class Typed(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:  # once something is asked
            cases.save_gold(indexed, case_id, "U5", gold=chosen)
            return super().read1(size)

    environment = {"DATABASE_URL": indexed_url, "TENANT_ID": "acme"}
    for typed in ("a\n", "o\n1\n"):
        feedback.take_back(indexed, load(indexed, case_id).trace_ids[0], "U1", -1)
        case_id = flag(indexed, page=PAGE)
        shown = CliRunner().invoke(
            main, ["cases", "review"], input=Typed(typed.encode()), env=environment
        )
        assert "This was decided meanwhile, changed, or taken back." in shown.stdout
        case = load(indexed, case_id)
        assert (case.state, case.gold, case.reviewer) == ("proposed", tuple(chosen), "U5")


def test_a_page_may_answer_as_a_whole_and_none_may(indexed: Database, indexed_url: str) -> None:
    whole, none = flag(indexed), flag(indexed, "where is the pool?", page=PAGE)
    review(indexed_url, "p", "error codes", "1", "", "a", "n")
    assert load(indexed, whole).gold == (Gold(doc=PAGE, source="wiki"),)
    assert (load(indexed, none).gold, load(indexed, none).state) == ((), "approved")


def test_an_answer_may_be_right_and_a_page_wrong(indexed: Database, indexed_url: str) -> None:
    right, wrong = flag(indexed, "how long?"), flag(indexed, page=PAGE)
    shown = review(indexed_url, "w", "r", "w", "s")
    assert "Which page that is, is not known." in shown
    assert f"Marked: Error codes – {PAGE}. Its owner is platform@halvermeer.example" in shown
    assert shown.endswith("0 approved, 1 dismissed, 1 left\n")
    assert load(indexed, right).state == "dismissed"
    case = load(indexed, wrong)
    assert (case.state, case.page_wrong_by) == ("proposed", getpass.getuser())
    assert case.page_wrong == Gold(doc=PAGE, source="wiki")
    shown = json.loads(succeed(indexed_url, "show", wrong, "--json"))
    assert shown["page_wrong"] == {"doc": PAGE, "source": "wiki"}
    cases.approve(indexed, wrong, "ann")
    assert f"says that the page is wrong: {PAGE}\n" in succeed(indexed_url, "show", wrong)


@pytest.mark.parametrize("end", [["q"], []])
def test_what_was_decided_before_the_end_counts(
    indexed: Database, indexed_url: str, end: list[str]
) -> None:
    first, second = flag(indexed, "how long?"), flag(indexed, "how far?")
    shown = review(indexed_url, "n", *end)
    assert shown.endswith("1 approved, 0 dismissed, 1 left\n")
    assert [load(indexed, each).state for each in (first, second)] == ["approved", "proposed"]


@pytest.mark.parametrize("key", ["a", "n", "r"])
def test_what_was_taken_back_while_it_was_looked_at_is_passed_over(
    indexed: Database, indexed_url: str, key: str
) -> None:
    case_id = flag(indexed, page=PAGE)
    (trace_id,) = load(indexed, case_id).trace_ids

    class Typed(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:  # once something is asked
            feedback.take_back(indexed, trace_id, "U1", -1)
            return super().read1(size)

    environment = {"DATABASE_URL": indexed_url, "TENANT_ID": "acme"}
    typed = Typed(f"{key}\n".encode())
    shown = CliRunner().invoke(main, ["cases", "review"], input=typed, env=environment).stdout
    assert "This was decided meanwhile, changed, or taken back." in shown
    assert shown.endswith("0 approved, 0 dismissed, 0 left\n")
    assert cases.load(indexed, case_id) is None


def test_a_page_that_is_gone_does_not_stop_a_review(indexed: Database, indexed_url: str) -> None:
    case_id = flag(indexed, page=PAGE)
    with indexed.transaction() as connection:
        connection.execute(text("DELETE FROM documents WHERE path = :path"), {"path": PAGE})
    assert f"Right page: {PAGE} (as a whole)" in review(indexed_url, "s")
    assert load(indexed, case_id).state == "proposed"


# Files


def test_the_set_goes_to_a_file_and_comes_back(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    sample, path = str(SAMPLE / "cases.jsonl"), tmp_path / "out.jsonl"
    assert succeed(database_url, "import", sample) == "40 new, 0 changed, 0 unchanged\n"
    flag(database)  # which nobody has approved
    assert succeed(database_url, "export", str(path)) == f"40 cases written to {path}\n"
    assert succeed(database_url, "export") == path.read_text("utf-8")
    rows: list[dict[str, Any]] = list(map(json.loads, path.read_text("utf-8").splitlines()))
    assert {row["reviewer"] for row in rows} == {getpass.getuser()}
    assert succeed(database_url, "import", str(path)) == "0 new, 0 changed, 40 unchanged\n"


def test_a_file_that_cannot_be_read_or_written_is_told_in_one_line(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    flag(database)
    for command in ("import", "export"):
        result = footnote(database_url, command, str(tmp_path / "no" / "file"))
        assert result.exit_code == 1
        (line,) = result.stderr.splitlines()
        assert line.startswith("Error: ") and "file cannot be" in line


def test_questions_that_are_alike_are_told_with_their_cases(
    database: Database, database_url: str, embedder: object
) -> None:
    proposing.propose_reply(database, _reply("1", "How long may a job wait?"))
    assert succeed(database_url, "alike") == "no two are alike\n"
    second = flag(database, "how long may a job wait for")
    assert f"    reply-1  How long may a job wait?\n    {second}  how long" in succeed(
        database_url, "alike"
    )
    row = json.loads(succeed(database_url, "alike", "--json"))
    assert row["cases"] == ["reply-1", second] and cases.ALIKE <= row["similarity"] < 1


def _reply(reply_id: str, question: str) -> cases.Reply:
    return cases.Reply(
        reply_id=reply_id,
        question=question,
        answer="Two hours.",
        document_id=None,
        user_id="U9",
        trace_id=None,
    )
