"""Since when a page counts as verified: by its own word, and by what is said in Footnote."""

from datetime import UTC, date, datetime, timedelta

AHEAD = timedelta(days=1)  # where a page was dated, it may be tomorrow already
TODAY = "CAST(now() AT TIME ZONE 'UTC' AS date)"
# In SQL, of a row of documents: whether it was verified too long ago.
IS_STALE = f"verified_at < {TODAY} - coalesce(freshness_days, :freshness_days)"


def is_to_come(day: date) -> bool:
    """Whether a day that a page states has come nowhere yet, and counts as none."""
    return day > datetime.now(UTC).date() + AHEAD


def build_sql(stated: str, confirmed: str) -> str:
    """In SQL, the day since which a page counts as verified, of that which it states itself."""
    return f"greatest(CASE WHEN {stated} <= {TODAY} + {AHEAD.days} THEN {stated} END, {confirmed})"
