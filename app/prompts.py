"""What is offered to be asked: questions that colleagues have asked, and that were answered."""

from collections.abc import Mapping

from sqlalchemy import text

from app import mrkdwn
from app.stats import QUESTION_KEY
from retrieval.db import Database

MOST = 4  # that Slack shows
DAYS = 90  # until now, in which they were asked; this and what follows is chosen
# What one person alone has asked is nobody else's business.
LEAST_ASKERS = 2
QUESTION_LENGTH = 200
TITLE_LENGTH = 60

WHAT_CAN_YOU_DO = {"title": "What can you do?", "message": "What can you do?"}  # small talk


def load(database: Database) -> list[Mapping[str, str]]:
    """Up to MOST questions as titles and messages, the most asked first; without any, one for us.

    None of them got a 👎, and each stands on its own: it was searched for as it was typed.
    """
    with database.transaction() as connection:
        questions = connection.execute(
            text(f"""
                WITH questions AS (
                    SELECT question, user_id, asked_at, {QUESTION_KEY} AS key,
                           EXISTS (
                               SELECT FROM feedback
                               WHERE feedback.trace_id = traces.trace_id AND vote < 0
                           ) AS is_flagged
                    FROM traces
                    WHERE surface = 'slack' AND outcome = 'answered' AND is_shown(traces)
                    AND asked_at >= now() - make_interval(days => :days)
                    AND length(question) <= :longest AND position(queries[1] IN question) > 0
                )
                SELECT (array_agg(question ORDER BY asked_at DESC))[1] FROM questions
                GROUP BY key
                HAVING count(DISTINCT user_id) >= :askers AND NOT bool_or(is_flagged)
                ORDER BY count(*) DESC, max(asked_at) DESC LIMIT :most
            """),
            {"days": DAYS, "longest": QUESTION_LENGTH, "askers": LEAST_ASKERS, "most": MOST},
        ).scalars()
        return [
            {"title": mrkdwn.flatten(question, TITLE_LENGTH), "message": question}
            for question in questions
        ] or [WHAT_CAN_YOU_DO]
