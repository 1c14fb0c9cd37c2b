"""Nightly runs over the sample cases, against stand-ins of Slack and of a tracker."""

from collections.abc import Iterable

from pydantic import SecretStr
from sqlalchemy import text

from app import posting
from app.config import Settings
from app.evaluating import EvalSet
from app.loop import nightly
from app.loop.nightly_blocks import Night
from retrieval import audiences, evaluation
from retrieval.db import Database
from retrieval.retrieve import Retriever
from tests.conftest import SAMPLE
from tests.stand_ins.slack import SlackStandIn
from tests.stand_ins.tracker import TrackerStandIn

CASES = tuple(evaluation.load_cases(SAMPLE / "cases.jsonl"))
SET = EvalSet(name="cases", cases=CASES)
REPORT_CHANNEL = "C7"


def ignore(done: int, total: int) -> None:
    """No progress to show."""


def on_github(tracker: TrackerStandIn) -> Settings:
    return Settings(
        report_channel=REPORT_CHANNEL,
        tickets=f"github:{tracker.repository}",
        github_token=SecretStr(tracker.token),
        github_api_url=tracker.github_url,
    )


def know_cases(database: Database, case_ids: Iterable[str]) -> None:
    """Have there be cases of these ids, as others are told of none."""
    with database.transaction() as connection:
        connection.execute(
            text("""
                INSERT INTO eval_cases (case_id, tenant_id, state, origin, type, question)
                SELECT unnest(CAST(:case_ids AS text[])), :tenant_id, 'dismissed', 'import', '', ''
                ON CONFLICT DO NOTHING
            """),
            {"case_ids": list(case_ids), "tenant_id": database.tenant_id},
        )


def restrict_case(database: Database, case_id: str) -> None:
    """Have a case be for others than everyone."""
    with database.unrestricted.transaction() as connection:
        connection.execute(
            text("UPDATE eval_cases SET audience_ids = :audience_ids WHERE case_id = :case_id"),
            {
                "audience_ids": [audiences.load_id(connection, ("group:S1",))],
                "case_id": case_id,
            },
        )


def pass_night(
    retriever: Retriever,
    settings: Settings,
    slack: SlackStandIn | None = None,
    eval_set: EvalSet = SET,
) -> Night:
    """Run a set, and report it."""
    client = posting.build_client(slack.bot_token, slack.api_url) if slack else None
    know_cases(retriever.database, [case.case_id for case in eval_set.cases])
    run = nightly.measure(retriever, eval_set, progress=ignore)
    return nightly.report(retriever.database, settings, client, run)
