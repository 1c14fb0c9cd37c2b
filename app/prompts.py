"""What is offered to be asked: questions that colleagues have asked, and that were answered."""

from collections.abc import Mapping

from sqlalchemy import text

from app import fillers, mrkdwn
from app.questions import IN_CHANNEL, LEAST_ASKERS, QUESTION_KEY
from retrieval.db import Database

MOST = 4  # that Slack shows
DAYS = 90  # until now, in which they were asked; this and what follows is chosen
LEAST_PUBLIC_ASKERS = 2  # of LEAST_ASKERS, in channels
QUESTION_LENGTH = 200
TITLE_LENGTH = 60

WHAT_CAN_YOU_DO = {"title": "What can you do?", "message": "What can you do?"}  # small talk


def load(database: Database) -> list[Mapping[str, str]]:
    """Up to MOST questions as titles and messages, the most asked first; without any, one for us.

    None of them got a 👎, and each stands on its own: it was searched for as it was typed.

    All see them, so none may tell of a delicate matter: what few have asked, or what was asked
    directly alone, is nobody else's business. They are worded as in a channel. A private one cannot
    be told from others by its id, so it takes one asker more than those two.
    """
    with database.transaction() as connection:
        questions = connection.execute(
            text(f"""
                WITH questions AS (
                    SELECT question, user_id, asked_at, {QUESTION_KEY} AS key,
                           {IN_CHANNEL} AS is_in_channel,
                           EXISTS (
                               SELECT FROM feedback
                               WHERE feedback.trace_id = traces.trace_id AND vote < 0
                           ) AS is_flagged
                    FROM traces
                    WHERE surface = 'slack' AND outcome = 'answered' AND is_shown(traces)
                    AND asked_at >= now() - make_interval(days => :days)
                    AND length(question) <= :longest AND position(queries[1] IN question) > 0
                )
                SELECT (array_agg(question ORDER BY asked_at DESC) FILTER (WHERE is_in_channel))[1]
                FROM questions
                GROUP BY key
                HAVING count(DISTINCT user_id) >= :askers AND NOT bool_or(is_flagged)
                AND count(DISTINCT user_id) FILTER (WHERE is_in_channel) >= :public_askers
                ORDER BY count(*) DESC, max(asked_at) DESC LIMIT :most
            """),
            {
                "days": DAYS,
                "longest": QUESTION_LENGTH,
                "askers": LEAST_ASKERS,
                "public_askers": LEAST_PUBLIC_ASKERS,
                "most": MOST,
            },
        ).scalars()
        offered = dict.fromkeys(fillers.cut_topic(each) or each for each in questions)
    return [
        {"title": mrkdwn.flatten(question, TITLE_LENGTH), "message": question}
        for question in offered
    ] or [WHAT_CAN_YOU_DO]
