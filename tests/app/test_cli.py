"""The commands, as they are typed."""

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import text

from app.cli import main
from retrieval import audiences
from retrieval.db import Database
from tests.app.questions import ask
from tests.conftest import SAMPLE
from tests.stand_ins.slack import SlackStandIn

ERR_2041 = "what does err 2041 mean?"
CANDIDATE = {
    *("doc", "heading_path", "text", "dense_rank", "lexical_rank", "identifier_rank"),
    *("rrf_score", "relevance"),
}
FOUND = {"question", "queries", "candidates", "kept", "stage_ms", "trace_id"}
CASE = {
    "id": "c1",
    "type": "identifier",
    "question": ERR_2041,
    "history": [],
    "gold_any": [{"doc": "reference/error-codes.md", "span": "Pin the previous template"}],
    "gold_all": [],
    "answer": "Pin it.",
}
UNANSWERABLE = {**CASE, "id": "c2", "type": "unanswerable", "question": "?", "gold_any": []}


def footnote(url: str, *arguments: str, typed: str = "", **environment: str) -> Result:
    environment = {"DATABASE_URL": url, "TENANT_ID": "acme", **environment}
    return CliRunner().invoke(main, arguments, input=typed, env=environment)


def succeed(url: str, *arguments: str, **more: str) -> str:
    result = footnote(url, *arguments, **more)
    assert result.exit_code == 0, result.output
    return result.stdout


def load(url: str, *arguments: str, **more: str) -> Any:
    return json.loads(succeed(url, *arguments, **more))


def fail(url: str, *arguments: str, **more: str) -> str:
    """The one line that tells a person what to do."""
    result = footnote(url, *arguments, **more)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)  # nothing else came through
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    return line


def write_cases(folder: Path, *cases: dict[str, Any]) -> str:
    path = folder / "cases.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return str(path)


@pytest.mark.parametrize("command", [[], *([name] for name in main.commands)])
def test_every_command_has_help(command: list[str]) -> None:
    result = CliRunner().invoke(main, [*command, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.stdout
    if not command:
        assert {"migrate", "ingest", "ask", "chat", "retrieve", "eval", "calibrate"} <= set(
            result.stdout.split()
        )
        assert {"stats", "serve", "doctor"} <= set(result.stdout.split())


@pytest.mark.parametrize("command", list(main.commands))
def test_an_unknown_option_is_refused_with_status_2(command: str) -> None:
    result = CliRunner().invoke(main, [command, "--frobnicate"])
    assert result.exit_code == 2
    assert "No such option" in result.stderr and result.stdout == ""


def test_an_unknown_command_is_refused_with_status_2() -> None:
    assert CliRunner().invoke(main, ["frobnicate"]).exit_code == 2


def test_the_installed_command_shows_no_traceback_and_loads_no_model_to_fail() -> None:
    script = (
        "import sys\n"
        "from app.cli import main\n"
        "try:\n    main(['stats'])\n"
        "finally:\n    assert 'torch' not in sys.modules\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={"DATABASE_URL": "mysql://localhost/x"},
        cwd=SAMPLE.parents[1],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert result.stderr == "Error: DATABASE_URL must name a PostgreSQL database: postgresql://…\n"


def test_migrate_creates_the_schema_once(empty_url: str) -> None:
    assert succeed(empty_url, "migrate").startswith("Schema 0")
    assert succeed(empty_url, "migrate").startswith("The schema is at 0")


@pytest.mark.parametrize("arguments", [["stats"], ["ask", "q"], ["retrieve", "q"], ["chat"]])
def test_without_a_schema_migrate_is_named(empty_url: str, arguments: list[str]) -> None:
    assert "Run `footnote migrate`." in fail(empty_url, *arguments)


def test_a_wrong_database_is_told_without_its_password() -> None:
    line = fail("postgresql://bot:s3cret@127.0.0.1:1/footnote", "stats")
    assert "127.0.0.1:1/footnote cannot be reached" in line
    assert "s3cret" not in line


def test_every_malformed_setting_is_named_without_its_value(database_url: str) -> None:
    line = fail(database_url, "stats", ANSWER_TIMEOUT_S="soon", LOG_LEVEL="loud")
    assert "ANSWER_TIMEOUT_S: " in line and "LOG_LEVEL: " in line
    assert "soon" not in line and "LOUD" not in line


def test_serve_names_the_missing_tokens(database_url: str) -> None:
    assert "Set SLACK_BOT_TOKEN and SLACK_APP_TOKEN" in fail(database_url, "serve")


@pytest.mark.model
def test_ingest_sums_up_what_it_did(database_url: str, tmp_path: Path) -> None:
    docs = tmp_path / "handbook"
    docs.mkdir()
    (docs / "leave.md").write_text("# Leave\n\n28 days.\n")
    (docs / "vpn.md").write_text("---\ntitle: [\n---\n# VPN\n\nUse it.\n")
    (docs / "empty.md").write_text("")
    first = succeed(database_url, "ingest", str(docs), "--base-url", "https://wiki.example")
    assert first.splitlines() == [
        "2 new, 0 changed, 0 unchanged, 0 removed, 1 skipped",
        "skipped empty.md: empty: it has no words",
        "cleaned vpn.md: front matter is not valid YAML; its fields are not used",
    ]
    (docs / "leave.md").write_text("# Leave\n\n30 days.\n")
    (docs / "vpn.md").unlink()
    second = succeed(database_url, "ingest", str(docs), "--base-url", "https://wiki.example")
    assert second.splitlines()[0] == "0 new, 1 changed, 0 unchanged, 0 removed, 1 skipped"
    assert "--prune removes them" in second and "\n  vpn.md" in second
    third = succeed(
        database_url, "ingest", str(docs), "--base-url", "https://wiki.example", "--prune"
    )
    assert "0 new, 0 changed, 1 unchanged, 1 removed, 1 skipped" in third
    assert "removed vpn.md" in third


@pytest.mark.model
def test_ingest_can_be_for_another_tenant_and_source(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "leave.md").write_text("# Leave\n\n28 days of leave.\n")
    succeed(database_url, "ingest", str(tmp_path), "--tenant", "other", "--source", "hr")
    assert load(database_url, "retrieve", "leave days", "--json")["candidates"] == []
    found = load(database_url, "retrieve", "leave days", "--json", TENANT_ID="other")
    assert [each["doc"] for each in found["candidates"]] == ["leave.md"]


def test_ingest_of_no_folder_is_told(database_url: str, tmp_path: Path) -> None:
    assert "is not a folder" in fail(database_url, "ingest", str(tmp_path / "missing"))


def test_ask_prints_the_answer_with_its_sources(indexed_url: str) -> None:
    answer = succeed(indexed_url, "ask", ERR_2041)
    said, _, sources = answer.rpartition("\n\n")
    assert "ERR_2041" in said and "[1]" in said
    heading, url = sources.splitlines()[:2]
    assert heading.startswith("[1] ") and " · verified 2026-" in heading
    assert url.startswith("    https://wiki.halvermeer.example/")


def test_ask_json_is_as_designed(indexed_url: str) -> None:
    asked = load(indexed_url, "ask", ERR_2041, "--json")
    assert set(asked) == FOUND | {"answer", "abstained_because", "citations", "nearest"}
    assert (asked["question"], asked["queries"]) == (ERR_2041, [ERR_2041])
    assert asked["abstained_because"] is None
    for citation in asked["citations"]:
        assert set(citation) == {
            *("marker", "doc", "title", "heading_path", "url", "cited_text", "verified_at"),
        }
        (source,) = [each for each in asked["kept"] if citation["cited_text"] in each["text"]][:1]
        assert source["doc"] == citation["doc"]
        assert f"[{citation['marker']}]" in asked["answer"]
    assert all(set(each) == CANDIDATE for each in (*asked["candidates"], *asked["kept"]))
    assert set(asked["stage_ms"]) >= {"embed", "dense", "lexical", "identifier", "fuse", "rerank"}
    assert len(asked["trace_id"]) == 36


def test_ask_marks_a_source_that_was_verified_too_long_ago(indexed_url: str) -> None:
    assert "⚠️ last verified 2026-" in succeed(indexed_url, "ask", ERR_2041, FRESHNESS_DAYS="1")


def test_ask_tells_who_forgets_the_quotes(database_url: str) -> None:
    result = footnote(database_url, "ask", "how", "much", "leave?")
    assert (result.exit_code, result.stdout) == (2, "")
    told = 'Error: Put a question in quotes: footnote ask "how much leave?"'
    assert result.stderr.splitlines()[-1] == told


def test_ask_answers_several_questions(indexed_url: str) -> None:
    text = succeed(indexed_url, "ask", ERR_2041, "who wrote the opera Aida?")
    assert text.startswith(f"> {ERR_2041}\n\n")
    assert "\n\n\n> who wrote the opera Aida?\n\nI couldn't find this in" in text
    lines = succeed(indexed_url, "ask", ERR_2041, "who wrote the opera Aida?", "--json")
    first, second = map(json.loads, lines.splitlines())
    assert (first["abstained_because"], second["abstained_because"]) == (None, "BELOW_FLOOR")
    assert (second["citations"], second["kept"]) == ([], [])


@pytest.mark.model
def test_p45_ask_without_documents_has_no_answer(database_url: str) -> None:
    asked = load(database_url, "ask", "What is our PTO carry-over limit?", "--json")
    assert asked["abstained_because"] == "NO_CANDIDATES"
    assert asked["answer"] == "There are no pages that I may use here, so I can't answer this."


def test_chat_takes_a_follow_up(indexed_url: str) -> None:
    typed = "what do I get per day for being on call?\nand sundays?\n\n"
    said = succeed(indexed_url, "chat", typed=typed)
    assert said.count("> ") >= 2
    stats = load(indexed_url, "stats", "--json")
    assert stats["asked"] == 2
    assert "oncall-guide.md" in said.rpartition("> ")[0].split("\n\n\n")[-1]


def test_chat_ends_with_its_input(indexed_url: str) -> None:
    assert succeed(indexed_url, "chat", typed="").strip() == ">"


def test_retrieve_json_is_that_of_ask_without_the_answer(indexed_url: str) -> None:
    found = load(indexed_url, "retrieve", ERR_2041, "--json")
    assert set(found) == FOUND
    assert all(set(each) == CANDIDATE for each in (*found["candidates"], *found["kept"]))
    whole = [(each["doc"], each["text"]) for each in found["candidates"]]
    for kept in found["kept"]:  # what bears on the question, in whole blocks
        blocks = [block.strip("\n… ") for block in kept["text"].split("\n\n…\n\n")]
        assert any(
            doc == kept["doc"] and all(block in text for block in blocks) for doc, text in whole
        )


def test_retrieve_shows_every_stage(indexed_url: str) -> None:
    heading, *lines, times = succeed(indexed_url, "retrieve", ERR_2041).splitlines()
    assert heading.split() == ["relevance", "rrf", "dense", "lexical", "ident.", "late", "section"]
    assert sum(line.startswith("* ") for line in lines) in range(1, 6)
    assert times.startswith("milliseconds: embed ")


def test_eval_measures_and_dumps(indexed_url: str, tmp_path: Path) -> None:
    cases, dump = write_cases(tmp_path, CASE, UNANSWERABLE), tmp_path / "dump.jsonl"
    run = load(indexed_url, "eval", cases, "--json", "--dump", str(dump))
    assert set(run) == {"cases", "run_id", "settings", "means", "lost"}
    assert run["cases"] == f"{tmp_path.name}/cases"
    assert run["means"]["all"]["recall@5"] == 1
    assert run["means"]["all"]["cases"] == 2
    assert set(run["means"]["unanswerable"]) == {"cases", "refused"}
    rows = [json.loads(line) for line in dump.read_text(encoding="utf-8").splitlines()]
    assert [row["id"] for row in rows] == ["c1", "c2"]
    for row in rows:
        assert set(row) == {"id", "candidates", "kept"}
        for each in (*row["candidates"], *row["kept"]):
            assert set(each) == {"doc", "text"}


def test_eval_compares_with_a_run_before_and_writes_a_page(
    indexed_url: str, tmp_path: Path
) -> None:
    cases, page = write_cases(tmp_path, CASE), tmp_path / "page.html"
    (tmp_path / "more").mkdir()
    more = write_cases(tmp_path / "more", UNANSWERABLE)
    first = load(indexed_url, "eval", cases, "--json")
    compared = ("--compare", str(first["run_id"]), "--report", str(page))
    text = succeed(indexed_url, "eval", cases, more, *compared)
    one, other = text.split("more/cases: ")
    lines = one.splitlines()
    assert lines[0] == f"{first['cases']}: run {first['run_id'] + 1}"
    assert [line.split()[0] for line in lines[1:4]] == ["cases", "all", "identifier"]
    assert f"against run {first['run_id']} of " in one and "over the 1 cases" in one
    assert other.startswith(f"run {first['run_id'] + 2}\n")
    assert "against" not in other
    html = page.read_text(encoding="utf-8")
    assert f"Against run {first['run_id']}" in html and ERR_2041 not in html  # nothing failed
    assert "There is no run 99" in fail(indexed_url, "eval", cases, "--compare", "99")


def test_eval_tries_settings_and_saves_nothing(indexed_url: str, tmp_path: Path) -> None:
    cases = write_cases(tmp_path, CASE, UNANSWERABLE)
    name = f"{tmp_path.name}/cases"
    tried = ("--set", "floor=1", "--set", "rrf_k=20,keep=4")
    first, one, other = succeed(indexed_url, "eval", cases, *tried).split("\n\n")
    assert first.startswith(f"{name}: as it is\n")
    assert one.startswith("floor=1, beside that\n") and "-1.000, -1.000" in one
    assert other.startswith("rrf_k=20,keep=4, beside that\n")
    lines = succeed(indexed_url, "eval", cases, *tried, "--json").splitlines()
    assert [json.loads(line)["variant"] for line in lines] == [
        {"floor": 1.0},
        {"rrf_k": 20, "keep": 4},
    ]
    assert "There is no run of" in fail(indexed_url, "eval", cases, "--compare", "last")
    assert json.loads(lines[0])["cases"] == name


def test_settings_are_tried_on_approved_cases_that_are_not_held_out(indexed_url: str) -> None:
    gone = {"doc": "gone.md", "span": "nobody knows"}
    approve(indexed_url, [CASE, {**CASE, "id": "c3", "gold_any": [gone]}])
    approve(indexed_url, [UNANSWERABLE], held_out=True)
    line = load(indexed_url, "eval", "--cases", "--set", "keep=4", "--json")
    assert line["metrics"]["recall@5"]["cases"] == 2 and "refused" not in line["metrics"]
    opened = Database(indexed_url, tenant_id="acme")
    with opened.transaction() as connection:
        written = text(
            "SELECT count(orphaned_at), (SELECT count(*) FROM eval_runs) FROM eval_cases"
        )
        assert tuple(connection.execute(written).one()) == (0, 0)
    opened.close()


def test_eval_tells_settings_that_cannot_be_tried_before_anything_runs(
    database_url: str, tmp_path: Path
) -> None:
    cases = write_cases(tmp_path, CASE)
    line = fail(database_url, "eval", cases, "--set", "rrf=1,keep=x", "--set", "chunk_tokens=9")
    assert "rrf is no setting" in line and "keep takes a whole number" in line
    assert "chunk_tokens is built into the index" in line
    dump = str(tmp_path / "dump.jsonl")
    assert footnote(database_url, "eval", cases, "--set", "keep=4", "--dump", dump).exit_code == 2


def test_ablation_is_a_table_or_a_line_a_stage(indexed_url: str, tmp_path: Path) -> None:
    cases = write_cases(tmp_path, CASE, UNANSWERABLE)
    heading, _, *rows = succeed(indexed_url, "ablation", cases).splitlines()
    assert heading == "| stage | recall@5 | recall@30 | MRR | ms |"
    assert rows[0].startswith("| tutorial: windows of 512 tokens, dense | ")
    (tmp_path / "cases.rewrites.jsonl").write_text('{"id": "c1", "queries": ["label font"]}\n')
    lines = succeed(indexed_url, "ablation", cases, "--skip-tutorial", "--json").splitlines()
    stages = [json.loads(line) for line in lines]
    assert stages[0]["stage"].startswith("structure: ")
    assert stages[-1]["stage"].startswith("+ rewriting")
    assert all(
        set(each) == {*("stage", "recall@5", "recall@30", "mrr@5", "median_ms")} for each in stages
    )


def test_eval_tells_what_cannot_be_read_or_written(indexed_url: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text(json.dumps(CASE) + "\n{}\n")
    assert "line 2 is not a case" in fail(indexed_url, "eval", str(broken))
    assert "cannot be read" in fail(indexed_url, "eval", str(tmp_path / "missing.jsonl"))
    nowhere = str(tmp_path / "no" / "dump.jsonl")
    assert "cannot be written" in fail(
        indexed_url, "eval", write_cases(tmp_path, CASE), "--dump", nowhere
    )


def test_calibrate_tells_what_it_lacks(indexed_url: str, database_url: str, tmp_path: Path) -> None:
    cases = write_cases(tmp_path, CASE, UNANSWERABLE)
    assert "too few to fit on" in fail(indexed_url, "calibrate", cases)
    assert "Nothing is indexed" in fail(database_url, "calibrate", cases)


def test_calibrate_fits_a_floor_to_the_cases_given(indexed_url: str, tmp_path: Path) -> None:
    lines = (SAMPLE / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    cases = write_cases(tmp_path, *map(json.loads, lines[::3]))
    out, name = tmp_path / "relevance.json", f"{tmp_path.name}/cases"
    table = succeed(indexed_url, "calibrate", cases, "--out", str(out))
    assert "12 cases that the documents answer; cases that they do not: 2 unanswerable" in table
    assert "\nin use now: fitted " in table and "  chosen" in table
    stays = "proposed: nothing; the fitted one is not better beyond noise than what is in use"
    assert f"\n{stays}\n" in table
    assert json.loads(out.read_text(encoding="utf-8"))["cases"] == [name]
    applied = succeed(indexed_url, "calibrate", cases, "--apply")
    assert applied == f"{table}not applied\n"  # twelve cases do not beat what comes along
    assert f"{name}; floor" not in succeed(indexed_url, "doctor")
    assert "There is nothing to undo" in fail(indexed_url, "calibrate", "--revert")
    nowhere = str(tmp_path / "no" / "relevance.json")
    assert "cannot be written" in fail(indexed_url, "calibrate", cases, "--out", nowhere)
    assert succeed(indexed_url, "calibrate", cases, cases) == table


def test_a_better_calibration_is_applied_and_undone(indexed_url: str, tmp_path: Path) -> None:
    lines = (SAMPLE / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    cases = write_cases(tmp_path, *map(json.loads, lines[::3]))
    out, name = tmp_path / "relevance.json", f"{tmp_path.name}/cases"
    spoil(indexed_url)
    table = succeed(indexed_url, "calibrate", cases, "--out", str(out))
    assert "in use now: fitted 2026-01-01 on other; floor 0.90000\n" in table
    assert "\nproposed: the fitted one, which is better\n" in table
    assert f"{name}; floor" not in succeed(indexed_url, "doctor")  # proposed, not used
    applied = succeed(indexed_url, "calibrate", cases, "--apply")
    assert applied == f"{table}applied; `footnote calibrate --revert` undoes it\n"
    assert f"{name}; floor" in succeed(indexed_url, "doctor")
    again = succeed(indexed_url, "calibrate", cases, "--apply")
    assert "what is in use was fitted on some of these cases, so they can't measure it" in again
    assert again.endswith("not applied\n")
    fewer = write_cases(tmp_path, *map(json.loads, lines[:-3:3]))
    again = succeed(indexed_url, "calibrate", fewer, "--apply")
    assert "proposed: nothing; what is in use was fitted on some of these cases, and " in again
    assert again.endswith("not applied\n")
    assert succeed(indexed_url, "calibrate", "--revert") == (
        "In use now: fitted 2026-01-01 on other; floor 0.90000\n"
    )
    assert "In use now: fitted " in succeed(indexed_url, "calibrate", "--revert")
    assert "There is nothing to undo" in fail(indexed_url, "calibrate", "--revert")


def test_without_files_calibrate_fits_on_approved_cases_and_checks_by_those_held_out(
    indexed_url: str,
) -> None:
    assert "No case is approved yet" in fail(indexed_url, "calibrate")
    rows = [json.loads(line) for line in (SAMPLE / "cases.jsonl").read_text("utf-8").splitlines()]
    approve(indexed_url, rows[1::3])
    approve(indexed_url, rows[2::3], held_out=True)
    spoil(indexed_url, floor=0.0)
    answerable = sum(bool(row["gold_any"] or row["gold_all"]) for row in rows[1::3])
    held_out = sum(bool(row["gold_any"] or row["gold_all"]) for row in rows[2::3])
    table = succeed(indexed_url, "calibrate", "--apply")
    assert table.startswith(f"{answerable} cases that the documents answer;")
    *_, told = table.split("cases held out:\n")
    (recall,) = (line.split() for line in told.splitlines() if line.startswith("recall@5 "))
    assert recall[1] == str(held_out) and float(recall[3]) > float(recall[2])
    assert table.endswith("applied; `footnote calibrate --revert` undoes it\n")
    assert " on cases; floor" in succeed(indexed_url, "doctor").replace("\n", " ")


def approve(url: str, rows: Sequence[dict[str, Any]], *, held_out: bool = False) -> None:
    """Have these cases approved."""
    opened = Database(url, tenant_id="acme")
    with opened.transaction() as connection:
        connection.execute(
            text("""
                INSERT INTO eval_cases (tenant_id, case_id, state, type, question, gold_any,
                                        gold_all, held_out)
                SELECT 'acme', "row" ->> 'id', 'approved', "row" ->> 'type', "row" ->> 'question',
                       "row" -> 'gold_any', "row" -> 'gold_all', :held_out
                FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS "row"
            """),
            {"rows": json.dumps(rows), "held_out": held_out},
        )
    opened.close()


def spoil(url: str, *, floor: float = 0.9) -> None:
    """Have a relevance model in use that puts the worst first."""
    model = json.loads((files("retrieval") / "relevance.json").read_text("utf-8"))
    weights = {feature: -weight for feature, weight in model["weights"].items()}
    spoilt = {**model, "weights": weights, "floor": floor, "cases": ["other"]}
    opened = Database(url, tenant_id="acme")
    with opened.transaction() as connection:
        connection.execute(
            text("""
                INSERT INTO calibrations (tenant_id, reranker, embedder, chunker, model)
                SELECT 'acme', basis ->> 'reranker', basis ->> 'embedder', basis ->> 'chunker',
                       model || '{"fitted_on": "2026-01-01"}'
                FROM CAST(:model AS jsonb) AS model, jsonb_extract_path(model, 'basis') AS basis
            """),
            {"model": json.dumps(spoilt)},
        )
    opened.close()


def test_revert_goes_with_nothing_else(database_url: str) -> None:
    for other in ("--apply", "cases.jsonl"):
        assert footnote(database_url, "calibrate", "--revert", other).exit_code == 2


def test_stats_json_has_the_sums(database_url: str) -> None:
    counts = ["asked", "answered", "abstained", "failed", "limited", "stopped", "flagged"]
    tokens = ["input_tokens", "output_tokens"]
    nothing = {
        **dict.fromkeys([*counts, "helpful", *tokens], 0),
        **dict.fromkeys(["cost", "median_ms", "p95_ms"]),
    }
    assert load(database_url, "stats", "--json", "--days", "7", FRESHNESS_DAYS="90") == {
        "days": 7,
        **nothing,
        "before": nothing,
        "stage_at_fault": {"not_known": 0},
        "freshness_days": 90,
        "sources": [],
        "runs": [],
        "gaps": {"groups": 0, "questions": 0, "top": []},
    }
    assert footnote(database_url, "stats", "--days", "0").exit_code == 2


def test_stats_words_what_was_asked(database_url: str) -> None:
    opened = Database(database_url, tenant_id="acme")
    ask(opened, "abstained", question="<!here> how\x1b[2Jlong?", user_id="U2")
    opened.close()
    text = succeed(database_url, "stats", TENANT_ID="acme")
    assert text.startswith("In the last 30 days\nAsked: 1\n")
    assert "\n1 × <!here> how[2Jlong? · not answered\n" in text


@pytest.mark.model
def test_doctor_finds_what_is_missing(database_url: str, empty_url: str) -> None:
    result = footnote(database_url, "doctor")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == (
        "error Nothing is indexed. Run `footnote ingest` on a folder of documents."
    )
    result = footnote(empty_url, "doctor", "--json")
    assert result.exit_code == 1
    *_, last = json.loads(result.stdout)["findings"]
    assert last["level"] == "error" and "Run `footnote migrate`." in last["text"]


def test_doctor_is_content_with_the_sample(indexed_url: str) -> None:
    findings = load(indexed_url, "doctor", "--json", REPORT_CHANNEL="C1")["findings"]
    assert all(set(finding) == {"level", "text"} for finding in findings)
    assert {finding["level"] for finding in findings} == {"ok", "note"}
    texts = " ".join(finding["text"] for finding in findings)
    assert "35 documents of tenant acme" in texts
    assert "ANTHROPIC_API_KEY is not set" in texts
    assert "EVAL_SCHEDULE is not: nothing is reported" in texts
    assert "Row-level security is on for every table" in texts
    assert "All indexes of the database are valid" in texts
    assert "Jobs: 0 waiting, 0 at work; 0 workers." in texts
    assert "SLACK_BOT_TOKEN and SLACK_APP_TOKEN" in texts


def test_a_terminal_reads_everything_unless_an_audience_is_named(
    indexed_url: str, indexed: Database
) -> None:
    with indexed.unrestricted.transaction() as connection:
        page = connection.execute(
            text("SELECT document_id FROM documents WHERE path = 'reference/error-codes.md'")
        ).scalar_one()
        audiences.assign(connection, ("group:S1",), [page])
    for named, is_found in (
        ((), True),
        (("--audience", "everyone"), False),
        (("--audience", "everyone", "--audience", "group:S1"), True),
    ):
        found = load(indexed_url, "retrieve", ERR_2041, "--json", *named)
        docs = [candidate["doc"] for candidate in found["candidates"]]
        assert ("reference/error-codes.md" in docs) == is_found
    assert "'finance' is no audience" in fail(indexed_url, "ask", "?", "--audience", "finance")


@pytest.mark.model
def test_doctor_asks_slack_before_it_looks_at_the_database(
    empty_url: str, slack: SlackStandIn
) -> None:
    tokens = {"SLACK_BOT_TOKEN": slack.bot_token, "SLACK_APP_TOKEN": "xapp-of-nobody"}
    told = footnote(empty_url, "doctor", SLACK_API_URL=slack.api_url, **tokens).stdout
    assert "ok    Slack takes SLACK_BOT_TOKEN, for Stand-in.\n" in told
    assert "error Slack does not take SLACK_APP_TOKEN: invalid_auth. See that Socket Mode" in told
    assert "Run `footnote migrate`." in told and slack.bot_token not in told


@pytest.mark.model
def test_doctor_waits_for_no_table_that_somebody_holds(database: Database) -> None:
    url = database.engine.url.render_as_string(hide_password=False)
    with database.engine.begin() as connection:
        connection.execute(text("LOCK TABLE traces"))
        told = footnote(url, "doctor").stdout
    assert "error Somebody has locked a table for over 3 s" in told
    assert "can be written to" in told
