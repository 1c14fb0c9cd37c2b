"""Nightly runs over the sample cases, against stand-ins of Slack and of a tracker."""

from pydantic import SecretStr

from app import posting
from app.config import Settings
from app.evaluating import EvalSet
from app.loop import nightly
from app.loop.nightly_blocks import Night
from retrieval import evaluation
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


def pass_night(
    retriever: Retriever,
    settings: Settings,
    slack: SlackStandIn | None = None,
    eval_set: EvalSet = SET,
) -> Night:
    """Run a set, and report it."""
    client = posting.build_client(slack.bot_token, slack.api_url) if slack else None
    run = nightly.measure(retriever, eval_set, progress=ignore)
    return nightly.report(retriever.database, settings, client, run)
