"""When something comes by itself, as five fields of cron."""

from datetime import UTC, datetime

from cronsim import CronSim, CronSimError


def check(schedule: str) -> str:
    """The schedule as it is; raises ValueError where it is not five fields, or never comes."""
    try:
        if len(schedule.split()) != 5:  # a sixth would be the seconds
            raise CronSimError("not five fields")
        next(CronSim(schedule, datetime.now(UTC)))
    except (CronSimError, StopIteration):
        raise ValueError('has to be five fields of cron, in UTC, as "0 3 * * *"') from None
    return schedule
