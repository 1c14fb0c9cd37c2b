"""A nightly run from the set to the posted report."""

import json
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, NoReturn

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from app import eval_runs as kept
from app import posting
from app.config import Settings
from app.eval_runs import Run
from app.evaluating import EvalSet
from app.loop import casefiles, caseset, nightly
from retrieval import audiences
from retrieval.db import Database
from retrieval.errors import ConfigError
from retrieval.evaluation import CaseResult, EvalCase
from retrieval.retrieve import Retriever
from retrieval.tuning import DEFAULT
from tests.app import eval_runs
from tests.app.nights import (
    CASES,
    REPORT_CHANNEL,
    ignore,
    know_cases,
    on_github,
    pass_night,
    restrict_case,
)
from tests.conftest import SAMPLE
from tests.stand_ins.slack import SlackStandIn
from tests.stand_ins.tracker import TrackerStandIn

FEW = EvalSet(name="cases", cases=CASES[:12])
REPORTING = Settings(report_channel=REPORT_CHANNEL)


@pytest.fixture
def tracker() -> Iterator[TrackerStandIn]:
    with TrackerStandIn() as stand_in:
        yield stand_in


def read(message: dict[str, object]) -> str:
    blocks = message["blocks"]
    assert isinstance(blocks, list)
    return "\n\n".join(
        (block["elements"][0] if block["type"] == "context" else block["text"])["text"]
        for block in blocks
    )


def import_cases(database: Database, folder: Path, cases: Sequence[EvalCase]) -> None:
    """Approve these of the sample cases."""
    wanted = {case.case_id for case in cases}
    lines = (SAMPLE / "cases.jsonl").read_text("utf-8").splitlines()
    path = folder / "cases.jsonl"
    chosen = [line for line in lines if json.loads(line)["id"] in wanted]
    path.write_text("\n".join(chosen), encoding="utf-8")
    casefiles.import_file(database, path, "U9")


FOUND = eval_runs.result(eval_runs.case("c1"))


def save(database: Database, *results: CaseResult) -> Run:
    """A run of these cases, which there are."""
    know_cases(database, [each.case.case_id for each in results])
    return kept.save(database, eval_runs.run(*results, name="cases"))


def hold_out(database: Database, *case_ids: str) -> None:
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE eval_cases SET held_out = case_id = ANY(:ids)"), {"ids": list(case_ids)}
        )


def test_the_approved_cases_are_run_and_reported_with_a_picture(
    retriever: Retriever, slack: SlackStandIn, tmp_path: Path
) -> None:
    database = retriever.database
    import_cases(database, tmp_path, CASES[:6])
    hold_out(database, "s-001", "s-002")
    client = posting.build_client(slack.bot_token, slack.api_url)
    nightly.run(retriever, REPORTING, client, progress=ignore)
    (stored,) = kept.load_reported(database, "cases", limit=9)
    assert len(stored.cases) == 6
    report, *_ = slack.messages(REPORT_CHANNEL)
    assert "6 approved cases" in read(report) and "*held out " in read(report)
    assert [each["title"] for each in report["files"]] == ["recall.png"]
    (announced,) = slack.calls("files.getUploadURLExternal")
    assert announced.params["alt_txt"].startswith("recall@5 of one run, ")
    (sent,) = slack.calls("upload_url")
    assert sent.params["content"].startswith(b"\x89PNG")


def test_p47_cases_of_pages_that_not_everyone_may_read_are_measured_and_not_reported(
    retriever: Retriever, slack: SlackStandIn, tmp_path: Path
) -> None:
    database = retriever.database
    import_cases(database, tmp_path, CASES[:6])
    doc = next(gold.doc for case in CASES[:6] for answer in case.answers for gold in answer)
    with database.unrestricted.transaction() as connection:
        restricted = connection.execute(
            text("SELECT document_id FROM documents WHERE path = :doc"), {"doc": doc}
        ).scalar_one()
        audiences.assign(connection, ("group:S1",), [restricted])
    left = [each for each in CASES[:6] if doc not in str(each.answers)]
    assert 0 < len(left) < 6
    client = posting.build_client(slack.bot_token, slack.api_url)
    nightly.run(retriever, REPORTING, client, progress=ignore)
    (stored,) = kept.load_reported(database, "cases", limit=9)
    assert len(stored.cases) == 6
    report, *_ = slack.messages(REPORT_CHANNEL)
    assert f"{len(left)} approved cases" in read(report) and doc not in read(report)


def test_p47_a_case_that_is_gone_when_its_run_is_told_of_is_left_out(database: Database) -> None:
    lost = eval_runs.result(eval_runs.case("c2"), [eval_runs.OTHER])
    run = save(database, FOUND, lost)
    restrict_case(database, "c2")
    with database.unrestricted.transaction() as connection:
        connection.execute(text("DELETE FROM eval_cases WHERE case_id = 'c2'"))
    assert nightly.report(database, REPORTING, None, run).run.results == (FOUND,)


def test_nothing_is_reported_where_another_company_reads(
    database: Database, slack: SlackStandIn
) -> None:
    slack.workspace.channels[REPORT_CHANNEL] = {"is_ext_shared": True}
    run = save(database, FOUND)
    client = posting.build_client(slack.bot_token, slack.api_url)
    with pytest.raises(nightly.ReportRefused, match="another company read in C7: set another"):
        nightly.report(database, REPORTING, client, run)
    slack.fail_next("conversations.info")
    with pytest.raises(nightly.ReportRefused, match="does not say who reads in C7"):
        nightly.conclude(database, REPORTING, client, run)
    assert slack.messages(REPORT_CHANNEL) == []


def test_a_folder_that_is_renamed_while_the_cases_run_is_no_drop(
    retriever: Retriever, tracker: TrackerStandIn, tmp_path: Path
) -> None:
    database, settings = retriever.database, on_github(tracker)
    import_cases(database, tmp_path, [case for case in CASES if case.answers][:14])
    night = pass_night(retriever, settings, eval_set=caseset.load_set(database))
    assert night.recall and night.recall.value > 0.6

    def rename(done: int, total: int) -> None:
        with database.transaction() as connection:
            connection.execute(
                text("""
                    UPDATE documents SET path = 'moved/' || path
                    WHERE NOT starts_with(path, 'moved/')
                """)
            )

    run = nightly.measure(retriever, caseset.load_set(database), progress=rename)
    again = nightly.report(database, settings, None, run)
    assert again.recall and again.recall.value == night.recall.value
    assert again.alarm is None and tracker.issues == []
    golds = [gold for result in run.results for answer in result.case.answers for gold in answer]
    assert any(gold.doc.startswith("moved/") for gold in golds)


def test_a_model_that_refuses_is_no_index_that_cannot_be_searched(retriever: Retriever) -> None:
    class Refused:
        settings: ClassVar[dict[str, object]] = {}

        def generate(self, *_: object) -> NoReturn:
            raise ConfigError("Claude does not take the key.")

    with pytest.raises(ConfigError, match="does not take the key"):
        nightly.measure(retriever, FEW, progress=ignore, generator=Refused())
    assert kept.load_last(retriever.database, "cases") is None


def test_of_cases_that_nothing_answers_there_is_nothing_to_draw(
    database: Database, slack: SlackStandIn
) -> None:
    case = eval_runs.result(eval_runs.case("c1", kind="unanswerable"))
    run = save(database, case)
    client = posting.build_client(slack.bot_token, slack.api_url)
    nightly.report(database, REPORTING, client, run)
    (report,) = slack.messages(REPORT_CHANNEL)
    assert "there is no recall@5 to measure" in read(report) and "files" not in report


def test_without_an_approved_case_nothing_is_run(
    retriever: Retriever, slack: SlackStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="app.loop")
    client = posting.build_client(slack.bot_token, slack.api_url)
    nightly.run(retriever, Settings(), client, progress=ignore)
    assert "No case is approved: nothing was run" in caplog.text
    assert kept.load_last(retriever.database, "cases") is None


def find_posted(slack: SlackStandIn) -> list[str]:
    """How the messages in the report's channel begin, sorted."""
    texts = [message["text"] for message in slack.messages(REPORT_CHANNEL)]
    return sorted(re.sub(r"^\d+ |(: | \d{4}-)[\s\S]*", "", text) for text in texts)


def test_the_digest_is_posted_once_a_week(
    retriever: Retriever, slack: SlackStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    client = posting.build_client(slack.bot_token, slack.api_url)
    slack.fail_next("chat.postMessage", body={"ok": False, "error": "is_archived"})
    for _ in range(3):  # refused, posted, not due
        nightly.run(retriever, REPORTING, client, progress=ignore)
    assert find_posted(slack) == ["The week to"]
    assert "No digest in C7: is_archived" in caplog.text


def test_a_digest_that_may_stand_there_is_not_posted_again(
    retriever: Retriever, slack: SlackStandIn
) -> None:
    client = posting.build_client(slack.bot_token, slack.api_url)
    slack.fail_next("chat.postMessage", drop_connection=True, after_storing=True)
    nightly.run(retriever, REPORTING, client, progress=ignore)
    with retriever.database.transaction() as connection:  # as if it were much later
        connection.execute(text("UPDATE scheduled_runs SET started_at = '2026-01-01'"))
    nightly.run(retriever, REPORTING, client, progress=ignore)
    assert find_posted(slack) == ["The week to"]


def test_a_run_keeps_what_the_index_was_and_how_each_case_went(retriever: Retriever) -> None:
    run = nightly.measure(retriever, FEW, progress=ignore)
    stored = kept.load_run(retriever.database, run.run_id)
    assert stored and stored.index == run.index
    index = run.index
    assert (index.documents, index.kinds, index.failure) == (35, {".md": 35}, None)
    assert index.sections > 35 and index.chunks > index.sections
    assert index.embedder == retriever.embedder.name and index.chunker == retriever.basis.chunker
    assert index.probe == index.model_probe and len(index.probe) == 384
    for result in run.results:
        case = stored.cases[result.case.case_id]
        assert case.type == result.case.type
        assert [
            (each.fused_rank, each.rank, each.relevance, each.fault) for each in case.trails
        ] == [(each.fused_rank, each.rank, each.relevance, each.fault) for each in result.trails]
        assert case.values == result.values
    assert any(trail.fault for case in stored.cases.values() for trail in case.trails)


def test_an_index_that_does_not_fit_is_a_run_in_which_nothing_was_found(
    retriever: Retriever, slack: SlackStandIn, tracker: TrackerStandIn
) -> None:
    settings = on_github(tracker)
    pass_night(retriever, settings, eval_set=FEW)
    other = replace(retriever, tuning=replace(DEFAULT, section_tokens=90))
    night = pass_night(other, settings, slack, eval_set=FEW)
    assert night.recall and night.recall.value == 0
    assert night.run.index.failure and "chunker" in night.run.index.failure
    (report,) = slack.messages(REPORT_CHANNEL)
    assert "*Nothing could be searched*, so nothing was found: The index does not" in read(report)
    (issue,) = tracker.issues
    assert "## Likeliest cause\n\nNothing was found: `The index does not fit: chunker" in issue.body


def test_the_tracker_is_told_of_a_drop_and_the_channel_of_the_ticket(
    retriever: Retriever, slack: SlackStandIn, tracker: TrackerStandIn
) -> None:
    settings = on_github(tracker)
    pass_night(retriever, settings, eval_set=FEW)
    with retriever.database.transaction() as connection:
        connection.execute(text("DELETE FROM documents"))
    pass_night(retriever, settings, slack, eval_set=FEW)
    (report,) = slack.messages(REPORT_CHANNEL)
    told = read(report)
    assert "*Fallen beyond noise* since run 1" in told
    assert f"Ticket opened <https://github.example/{tracker.repository}/issues/1|#1>." in told
    assert "in no document of the index" in told


@pytest.mark.parametrize(
    ("method", "fault", "reason"),
    [
        (
            "files.getUploadURLExternal",
            {"body": {"ok": False, "error": "missing_scope", "needed": "files:write"}},
            "the app lacks the scope files:write",
        ),
        ("files.getUploadURLExternal", {"drop_connection": True}, "RemoteDisconnected"),
        ("upload_url", {"status": 500}, "HTTPStatusError"),
        ("files.completeUploadExternal", {"body": {"ok": False, "error": "nope"}}, "nope"),
    ],
)
def test_without_a_picture_the_report_says_why(
    database: Database, slack: SlackStandIn, method: str, fault: dict[str, object], reason: str
) -> None:
    run = save(database, FOUND)
    slack.fail_next(method, **fault)  # type: ignore[arg-type]
    client = posting.build_client(slack.bot_token, slack.api_url)
    nightly.report(database, REPORTING, client, run)
    (report,) = slack.messages(REPORT_CHANNEL)
    assert read(report).endswith(f"There is no picture, as Slack did not take it: {reason}.")
    assert "files" not in report


@pytest.mark.parametrize("fault", [{"drop_connection": True}, {"status": 500}])
def test_a_report_that_may_stand_there_is_not_posted_again(
    database: Database, slack: SlackStandIn, fault: dict[str, object]
) -> None:
    run = save(database, FOUND)
    slack.fail_next("files.completeUploadExternal", after_storing=True, **fault)  # type: ignore[arg-type]
    client = posting.build_client(slack.bot_token, slack.api_url)
    with pytest.raises(posting.PostLost):
        nightly.report(database, REPORTING, client, run)
    assert len(slack.messages(REPORT_CHANNEL)) == 1


def test_a_channel_that_takes_no_report_is_told(database: Database, slack: SlackStandIn) -> None:
    run = save(database, FOUND)
    slack.workspace.channels[REPORT_CHANNEL] = {"is_member": False}
    client = posting.build_client(slack.bot_token, slack.api_url)
    with pytest.raises(nightly.ReportRefused, match="for C7: not_in_channel"):
        nightly.report(database, REPORTING, client, run)


def test_the_picture_is_of_the_last_runs_with_the_part_that_is_held_out(
    database: Database,
) -> None:
    found = eval_runs.result(eval_runs.case("c1"))
    lost = eval_runs.result(eval_runs.case("c2"), [eval_runs.OTHER])
    know_cases(database, ["c1", "c2"])
    for number in range(nightly.CHARTED + 2):
        started_at = eval_runs.STARTED + timedelta(days=number)
        run = replace(eval_runs.run(found, lost, name="cases"), started_at=started_at)
        run = kept.save(database, run)
        kept.mark_reported(database, run)
    kept.mark_reported(database, kept.save(database, eval_runs.run(found, name="others")))
    by_hand = kept.save(database, eval_runs.run(found, name="cases"))
    assert nightly.load_points(database, by_hand, frozenset())[-1].started_at == run.started_at
    points = nightly.load_points(database, run, frozenset({"c1"}))
    assert len(points) == nightly.CHARTED
    assert points[-1].started_at == run.started_at
    assert {(point.recall, point.held_out) for point in points} == {(0.5, 1.0)}
    restrict_case(database, "c2")  # of which the picture tells nothing from then on
    points = nightly.load_points(database, run, frozenset({"c1"}))
    assert {(point.recall, point.held_out) for point in points} == {(1.0, 1.0)}


def test_who_is_to_be_told_is_known_before_anything_is_run(slack: SlackStandIn) -> None:
    with pytest.raises(ConfigError, match="Set REPORT_CHANNEL, TICKETS or both"):
        nightly.find_client(Settings())
    with pytest.raises(ConfigError, match="set GITHUB_TOKEN"):
        nightly.find_client(Settings(tickets="github:acme/wiki"))
    with pytest.raises(ConfigError, match="set SLACK_BOT_TOKEN too"):
        nightly.find_client(REPORTING)
    assert nightly.find_client(Settings(tickets="https://hooks.example/1")) is None
    token = SecretStr(slack.bot_token)
    assert nightly.find_client(REPORTING.model_copy(update={"slack_bot_token": token}))
