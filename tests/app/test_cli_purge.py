"""What `footnote purge` deletes, and what stays."""

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import text

from app import escalation, feedback, traces
from app.cli import main
from app.escalation import Expert
from app.feedback import Complaint
from app.loop import cases, proposing
from app.records import Answer, Nearest, Successor
from retrieval.db import Database
from retrieval.embedding import Embedder
from tests.app import questions
from tests.app.loop import flags
from tests.retrieval.pages import ingest, page
from tests.stand_ins.slack import SlackStandIn
from tests.test_posted_text import cite


def run(database: Database, *arguments: str, answer: str | None = None, **more: str) -> Result:
    environment = {
        "DATABASE_URL": database.engine.url.render_as_string(hide_password=False),
        "TENANT_ID": database.tenant_id,
        **more,
    }
    return CliRunner().invoke(main, ["purge", *arguments], env=environment, input=answer)


def purge(database: Database, *arguments: str, **more: str) -> list[str]:
    result = run(database, *arguments, "--yes", **more)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def dump(database: Database) -> str:
    """All that the tables hold, but for what says that a page was purged."""
    with database.engine.connect() as connection:  # as who owns them, whatever their policies
        tables = connection.execute(
            text("""
                SELECT table_name FROM information_schema.tables
                WHERE table_schema = 'public' AND table_name <> 'purged_pages'
            """)
        ).scalars()
        rows = [
            row
            for table in tables.all()
            for row in connection.execute(text(f"SELECT * FROM {table}"))
        ]
    assert rows
    return "\n".join(map(str, rows))


def execute(database: Database, statement: str, **values: Any) -> Any:
    with database.unrestricted.transaction() as connection:
        return connection.execute(text(statement), values)


def pass_on(database: Database, trace_id: UUID, asked_by: str, resolved_by: str | None) -> None:
    escalation.claim(database, trace_id, Expert(channel_id="C9"), asked_by)
    execute(
        database,
        "UPDATE escalations SET ts = '1767225700.000001' WHERE trace_id = :trace_id",
        trace_id=trace_id,
    )
    if resolved_by:
        escalation.resolve(database, trace_id, resolved_by)


@pytest.fixture
def asked(database: Database) -> Database:
    """What UMINE asked and said among others, each with words of their own."""
    mine = questions.ask(database, question="is Nemo my secret leave?", user_id="UMINE")
    execute(
        database,
        "UPDATE traces SET answer = 'Yes, Nemo.', answer_ts = '{1767225601.000001}'"
        " WHERE trace_id = :trace_id",
        trace_id=mine,
    )
    flags.flag(database, mine, "U2")
    pass_on(database, mine, "U2", "U3")
    theirs = questions.ask(database, question="how long is leave?", user_id="U2")
    flags.flag(database, theirs, "U3")
    feedback.vote(database, theirs, "UMINE", -1)
    feedback.save_complaint(
        database, theirs, "UMINE", Complaint(reason="wrong", note="Nemo said that")
    )
    pass_on(database, theirs, "UMINE", "UMINE")
    for number, joined in enumerate((None, theirs)):
        proposing.propose_reply(
            database,
            replace(
                flags.reply(f"C1-{number}", "who pays?", "Nemo pays.", trace_id=joined),
                user_id="UMINE",
            ),
        )
    edited = questions.ask(database, question="how much?", user_id="U2")
    feedback.vote(database, edited, "UMINE", -1)
    feedback.save_complaint(database, edited, "UMINE", Complaint(reason="wrong", note="Nemo again"))
    questions.reopen(database, edited, "how many?")
    approved = flags.ask_flagged(database, question="who approves?")
    assert cases.approve(database, approved.case_id, "UMINE")
    questions.add_page(database, "wiki", "a.md")
    execute(database, "UPDATE documents SET confirmed_by = 'UMINE'")
    _ask_after(database, mine)
    execute(
        database,
        "UPDATE eval_cases SET review_channel_id = 'CREVIEW', review_ts = CASE question"
        " WHEN 'how long is leave?' THEN '7.1' WHEN 'who approves?' THEN '7.2' ELSE '7.3' END"
        " WHERE question <> 'who pays?'",
    )
    unchanged = flags.ask_flagged(database, question="which form?")
    execute(
        database,
        "UPDATE eval_cases SET review_channel_id = 'CREVIEW', review_ts = '7.9'"
        " WHERE case_id = :case_id",
        case_id=unchanged.case_id,
    )
    with database.engine.begin() as connection:
        connection.execute(
            text("""
                INSERT INTO slack_installations
                    (client_id, app_id, team_id, user_id, user_token, bot_token)
                VALUES ('1.2', 'A1', :tenant_id, 'UMINE', 'xoxp-Nemo', 'xoxb-1'),
                       ('1.2', 'A1', 'TOTHER', 'U3', 'xoxp-3', 'xoxb-3')
            """),
            {"tenant_id": database.tenant_id},
        )
    return database


def _ask_after(database: Database, trace_id: UUID) -> None:
    """Another asks on in the thread, which is worded with what was asked before, and flagged."""
    later = questions.ask(database, question="and when?", user_id="U2")
    execute(
        database,
        """
        UPDATE traces SET thread_ts = '1',
               message_ts = CASE WHEN trace_id = :later THEN '2' ELSE '1' END,
               queries = CASE WHEN trace_id = :later THEN '{when does Nemo pay out?,Nemo}'
                              ELSE queries END,
               outcome = CASE WHEN trace_id = :later THEN 'abstained' ELSE outcome END,
               answer = CASE WHEN trace_id = :later
                             THEN 'I searched for “when does Nemo pay out?”.' ELSE answer END,
               answer_ts = CASE WHEN trace_id = :later THEN '{1767225602.000001}' ELSE answer_ts END
        WHERE trace_id IN (:trace_id, :later)
        """,
        trace_id=trace_id,
        later=later,
    )
    flags.flag(database, later, "U3")
    execute(
        database,
        """
        UPDATE eval_cases SET history = jsonb_build_array(
            jsonb_build_object('role', 'user', 'text', 'is Nemo my secret leave?'),
            jsonb_build_object('role', 'assistant', 'text', 'It is.'))
        WHERE question = 'when does Nemo pay out?'
        """,
    )


def test_all_of_a_person_goes_and_what_others_asked_stays(asked: Database) -> None:
    lines = purge(asked, "--user", "UMINE")
    assert lines == [
        "words in what others asked: 3",
        "questions: 1",
        "votes: 2",
        "answers by hand: 2",
        "names: 5",
        "messages of ours in Slack: 7, which stay, as SLACK_BOT_TOKEN is not set",
        "Deleted.",
    ]
    left = dump(asked)
    assert "UMINE" not in left and "Nemo" not in left
    for words in ("how long is leave?", "how many?", "who approves?", "U3", "It is.", "xoxb-1"):
        assert words in left
    assert "it had words of somebody whose words were purged" in left
    states = {(case.question, case.state) for case in cases.list_cases(asked)}
    assert states == {
        ("how long is leave?", "proposed"),
        ("who approves?", "approved"),
        ("and when?", "proposed"),
        ("which form?", "proposed"),
    }
    assert purge(asked, "--user", "UMINE") == ["nothing to delete"]


def test_nothing_is_deleted_without_a_yes(asked: Database) -> None:
    before = dump(asked)
    result = run(asked, "--user", "UMINE", answer="n\n")
    assert result.exit_code == 1 and "Delete for good? [y/N]" in result.stdout
    assert dump(asked) == before
    assert run(asked, "--user", "UMINE", answer="y\n").exit_code == 0
    assert "UMINE" not in dump(asked)


def test_a_case_that_another_has_asked_too_stays(database: Database) -> None:
    for user in ("UMINE", "U2"):
        trace_id = questions.ask(database, question="how long?", user_id=user)
        flags.flag(database, trace_id, "U3")
    purge(database, "--user", "UMINE")
    (case,) = cases.list_cases(database)
    assert case.question == "how long?"


def test_messages_in_slack_are_deleted_where_there_is_a_token(
    asked: Database, slack: SlackStandIn
) -> None:
    lines = purge(
        asked, "--user", "UMINE", SLACK_BOT_TOKEN=slack.bot_token, SLACK_API_URL=slack.api_url
    )
    assert "messages of ours in Slack: 7" in lines
    deleted = [(call.params["channel"], call.params["ts"]) for call in slack.calls("chat.delete")]
    assert deleted[:3] == [
        ("C1", "1767225601.000001"),
        ("C1", "1767225602.000001"),
        ("C9", "1767225700.000001"),
    ]
    # Of the reviewers' messages those that have words or the name: other cases' stay.
    assert {ts for channel, ts in deleted[3:] if channel == "CREVIEW"} == {"7.1", "7.2", "7.3"}
    with asked.unrestricted.transaction() as connection:
        left = connection.execute(
            text("SELECT review_ts FROM eval_cases WHERE review_ts IS NOT NULL")
        )
        assert left.scalars().all() == ["7.9"]


def test_of_many_workspaces_the_messages_of_the_one_are_deleted_by_its_own_token(
    asked: Database, slack: SlackStandIn
) -> None:
    many = {"SLACK_CLIENT_ID": "1.2", "SLACK_API_URL": slack.api_url}
    result = run(asked, "--user", "UMINE", answer="n\n", **many)
    assert f"which stay, as {asked.tenant_id} has not installed the app" in result.stdout
    with asked.engine.begin() as connection:
        connection.execute(
            text("""
                INSERT INTO slack_bots (client_id, app_id, team_id, bot_token)
                VALUES ('1.2', 'A1', 'TOTHER', 'xoxb-3'), ('1.2', 'A1', :tenant_id, :token)
            """),
            {"tenant_id": asked.tenant_id, "token": slack.bot_token},
        )
    purge(asked, "--user", "UMINE", **many)
    assert len(slack.calls("chat.delete")) == 7


SALARIES = "# Salaries\n\nThe Zanzibar bonus is nine thousand euros a year.\n"
OF_SALARIES = {("wiki", "salaries.md"), ("other", "pay.md")}
LEAVE = "# Leave\n\nThirty days of leave are given to everybody.\n"


@pytest.fixture
def told(database: Database, embedder: Embedder) -> Database:
    """Answers, a case and a vote that have words of two pages; another source has such a path."""
    ingest(database, embedder, page("salaries.md", SALARIES), page("leave.md", LEAVE))
    others = (page("salaries.md", LEAVE.replace("Leave", "Other")), page("pay.md", SALARIES))
    ingest(database, embedder, *others, source="other")
    with database.transaction() as connection:
        rows = connection.execute(
            text("""
                SELECT source, path, section_id, document_id
                FROM sections JOIN documents USING (document_id)
            """)
        ).all()
    for row in rows:
        trace_id = questions.ask(database, question=f"what says {row.source}/{row.path}?")
        cited = cite(row.section_id)
        words = "Zanzibar is 9,000." if (row.source, row.path) in OF_SALARIES else "30."
        answer = Answer(text=f"{words} [1]", citations=(cited,))
        execute(
            database,
            "UPDATE traces SET candidates = CAST(:candidates AS jsonb) WHERE trace_id = :trace_id",
            trace_id=trace_id,
            candidates=json.dumps(
                [{"section_id": row.section_id, "document_id": row.document_id, "doc": row.path}]
            ),
        )
        traces.save_answer(database, trace_id, answer, settings={}, stage_ms={})
        traces.save_answer_ts(database, trace_id, ["1767225601.000001"])
        flags.flag(database, trace_id, "U3", page=row.document_id)
    execute(database, "UPDATE eval_cases SET review_channel_id = 'CREVIEW', review_ts = '7.1'")
    return database


def test_a_page_goes_with_all_words_of_it_and_the_other_of_its_path_stays(told: Database) -> None:
    result = run(told, "--page", "salaries.md", "--yes")
    assert result.exit_code == 1
    assert "Several sources have a page 'salaries.md': other, wiki." in result.output
    lines = purge(told, "--page", "salaries.md", "--source", "wiki")
    assert lines == [
        "answers: 2",
        "cases: 2",
        "pages named by voters: 2",
        "pages: 2",
        "messages of ours in Slack: 4, which stay, as SLACK_BOT_TOKEN is not set",
        "Deleted.",
    ]
    left = dump(told)
    assert "Zanzibar" not in left and "zanzibar" not in left and "Salaries" not in left
    assert "This answer is gone: a page that it rested on was purged." in left
    assert {case.question for case in cases.list_cases(told)} == {
        "what says wiki/leave.md?",
        "what says other/salaries.md?",
    }
    assert left.count("30. [1]") == 2


def test_an_answer_that_names_a_page_as_what_replaces_another_loses_its_words(
    database: Database,
) -> None:
    old, new = (questions.add_page(database, "wiki", path) for path in ("old.md", "new.md"))
    successor = Successor(document_id=new, path="new.md", title="Nemo 2026", url="https://x/Nemo")
    cited = replace(cite(1), document_id=old, superseded_by="Nemo 2026", successor=successor)
    told = "In its place it names Nemo 2026. 30 [1]"
    for question in ("how long?", "how many?"):
        trace_id = questions.ask(database, question=question)
        answer = Answer(text=told, citations=(cited,))
        traces.save_answer(database, trace_id, answer, settings={}, stage_ms={})
        traces.save_answer_ts(database, trace_id, ["1767225601.000001"])
    questions.reopen(database, trace_id, "how much?")
    lines = purge(database, "--page", "new.md")
    assert lines[0] == "answers: 2" and "messages of ours in Slack: 1, " in "\n".join(lines)
    assert "Nemo" not in dump(database)


def test_a_purged_page_stays_out_until_it_is_let_in_again(
    told: Database, embedder: Embedder
) -> None:
    purge(told, "--page", "salaries.md", "--source", "wiki")
    pages = (page("salaries.md", SALARIES), page("copy.md", SALARIES), page("leave.md", LEAVE))
    summary = ingest(told, embedder, *pages)
    assert {skipped.path for skipped in summary.skipped} == {"salaries.md", "copy.md"}
    assert all("purged on 2" in skipped.reason for skipped in summary.skipped)
    assert "zanzibar" not in dump(told).lower().replace("--page path", "")
    result = run(told, "--page", "salaries.md", "--source", "wiki", "--readmit")
    assert result.stdout == "The page comes in again when its source is next read.\n"
    assert {each.path for each in ingest(told, embedder, *pages).skipped} == set()
    result = run(told, "--page", "salaries.md", "--source", "wiki", "--readmit")
    assert result.exit_code == 1 and "was not purged" in result.output


def test_a_nearest_page_and_an_edited_answer_are_forgotten_too(
    told: Database,
) -> None:
    nearest = Nearest(
        path="salaries.md", title="Zanzibar", heading_path=(), url="https://w.example"
    )
    with told.transaction() as connection:
        trace_id, other_id = connection.execute(
            text("SELECT trace_id FROM traces WHERE question LIKE '%wiki/%' ORDER BY question DESC")
        ).scalars()
    traces.save_answer(
        told,
        trace_id,
        Answer(text="I found nothing.", abstained_because="UNSUPPORTED", nearest=nearest),
        settings={},
        stage_ms={},
    )
    before = {"answer": "Zanzibar!", "citations": [{"path": "salaries.md", "title": "Zanzibar"}]}
    execute(
        told,
        "UPDATE traces SET settings = CAST(:before AS jsonb) WHERE trace_id = :trace_id",
        trace_id=other_id,
        before=json.dumps({"before": before}),
    )
    purge(told, "--page", "salaries.md", "--source", "wiki")
    assert "Zanzibar" not in dump(told)


def test_what_an_answer_names_as_different_goes_and_a_page_of_the_same_path_stays(
    told: Database, slack: SlackStandIn
) -> None:
    rows = {
        (row.source, row.path): row
        for row in execute(told, "SELECT * FROM sections JOIN documents USING (document_id)")
    }
    leave, other = rows["wiki", "leave.md"], rows["other", "salaries.md"]
    trace_ids = dict(execute(told, "SELECT question, trace_id FROM traces").all())
    differing = replace(cite(leave.section_id), differs_from=("Zanzibar of 2024",))
    traces.save_answer(
        told,
        trace_ids["what says wiki/leave.md?"],
        Answer(text="30. [1]", citations=(differing,)),
        settings={},
        stage_ms={},
    )
    before = {
        "answer": "Thirty it was.",
        "citations": [{"path": "salaries.md", "section_id": other.section_id}],
    }
    for statement in (
        "UPDATE traces SET document_ids = document_ids || CAST(:document_id AS bigint)"
        " WHERE question = 'what says wiki/leave.md?'",
        "UPDATE traces SET settings = CAST(:before AS jsonb)"
        " WHERE question = 'what says other/salaries.md?'",
        "UPDATE eval_cases SET gold_any = gold_any || CAST(:gold AS jsonb),"
        " history = CAST(:history AS jsonb) WHERE question = 'what says wiki/leave.md?'",
    ):
        execute(
            told,
            statement,
            document_id=rows["wiki", "salaries.md"].document_id,
            before=json.dumps({"before": before}),
            gold=json.dumps([{"doc": "salaries.md", "source": "wiki"}]),
            history=json.dumps(
                [
                    {"role": "user", "text": "and the bonus?"},
                    {"role": "assistant", "text": "The Zanzibar bonus is 9,000."},
                ]
            ),
        )
    purge(
        told,
        *("--page", "salaries.md", "--source", "wiki"),
        SLACK_BOT_TOKEN=slack.bot_token,
        SLACK_API_URL=slack.api_url,
    )
    left = dump(told)
    assert "Zanzibar" not in left and "and the bonus?" in left and "Thirty it was." in left
    deleted = [call.params["channel"] for call in slack.calls("chat.delete")]
    assert sorted(deleted) == ["C1"] * 3 + ["CREVIEW"] * 3


def test_a_page_that_is_gone_already_is_purged_from_what_was_said(
    told: Database, embedder: Embedder
) -> None:
    execute(told, "DELETE FROM documents WHERE source = 'wiki' AND path = 'salaries.md'")
    assert "Zanzibar" in dump(told)
    assert "answers: 2" in purge(told, "--page", "salaries.md", "--source", "wiki")
    assert "Zanzibar" not in dump(told)


def test_what_nobody_has_is_said_in_one_line(database: Database) -> None:
    for arguments, words in (
        (("--page", "nothing.md"), "There is no page 'nothing.md', and there was none."),
        (("--expired",), "RETENTION_DAYS is not set: everything is kept."),
        ((), "Give --user, --page or --expired, one of the three."),
        (("--user", "@bob"), "--user takes a Slack user id such as U012ABCDEF"),
        (("--user", "U1", "--source", "wiki"), "--source and --readmit go with --page."),
    ):
        result = run(database, *arguments)
        assert result.exit_code in (1, 2) and words in result.output
    assert purge(database, "--user", "U404") == ["nothing to delete"]


def test_what_is_older_than_is_kept_goes_and_approved_cases_stay_without_who_asked(
    database: Database,
) -> None:
    kept = flags.ask_flagged(database, question="who approves?")
    assert cases.approve(database, kept.case_id, "U5")
    flags.ask_flagged(database, question="how long?")
    questions.ask(database, question="yesterday?")
    questions.add_page(database, "wiki", "old.md", added_days_ago=50)
    for statement in (
        "UPDATE traces SET asked_at = asked_at - interval '40 days' WHERE question <> 'yesterday?'",
        "UPDATE eval_cases SET created_at = created_at - interval '40 days',"
        " reviewed_at = reviewed_at - interval '40 days'",
    ):
        execute(database, statement)
    lines = purge(database, "--expired", RETENTION_DAYS="30")
    assert lines == ["questions: 2", "cases: 1", "notes on pages: 1", "Deleted."]
    (case,) = cases.list_cases(database)
    assert (case.question, case.state) == ("who approves?", "approved")
    left = dump(database)
    assert "yesterday?" in left and "how long?" not in left
    for table in ("case_traces", "feedback", "page_changes"):
        assert execute(database, f"SELECT count(*) FROM {table}").scalar() == 0
