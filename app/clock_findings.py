"""What `footnote doctor` says of this machine's clock, beside another one."""

from app import findings
from app.counting import count
from app.findings import Finding

# Slack's Date has whole seconds, and its answer may take some, so less than the first is nothing.
NOTED_S, WRONG_S = 5, 60  # chosen; requests of Slack that seem 300 s old are refused


def examine(whose: str, ahead_s: float) -> Finding:
    """How far this machine's clock is ahead of somebody's, or behind where that is negative."""
    difference = abs(ahead_s)
    if difference < NOTED_S:
        return findings.ok(f"This machine's clock agrees with {whose}'s.")
    side = "ahead of" if ahead_s > 0 else "behind"
    text = (
        f"This machine's clock is {count(round(difference), 'second')} {side} {whose}'s. Have both "
        "set over the network, as by chrony or systemd-timesyncd: requests of Slack that seem 5 "
        "minutes old are refused, and waiting times are told wrongly."
    )
    return findings.error(text) if difference > WRONG_S else findings.note(text)
