"""What is posted of a run over the set."""

from dataclasses import replace
from typing import Any

from app.blocks import Message
from app.eval_runs import Run
from app.loop import drops, nightly_blocks
from app.loop.drops import Drop
from app.loop.index_changes import Cause
from app.loop.nightly_blocks import Figure, Night, PageLink
from app.loop.tickets import Alarm, News
from tests.app import eval_runs
from tests.stand_ins import slack_limits

BEFORE = eval_runs.stored({f"c{number}": {"recall@5": 1.0} for number in range(20)})
PAGES = {"leave.md": PageLink(title="Leave", url="https://wiki.example/leave")}


def run(*lost: str, question: str = "how much leave?", cases: int = 20) -> Run:
    results = [
        eval_runs.result(
            eval_runs.case(f"c{number}", question),
            [eval_runs.OTHER if f"c{number}" in lost else eval_runs.FOUND],
            trails=(eval_runs.trail("floor" if f"c{number}" in lost else None),),
        )
        for number in range(cases)
    ]
    return eval_runs.run(*results, name="cases")


def night(measured: Run, **more: Any) -> Night:
    return Night(
        **{
            "run": measured,
            "before": BEFORE,
            "recall": Figure(
                cases=20, value=0.9, difference=drops.compare(BEFORE, measured.results)
            ),
            "held_out": None,
            "pages": PAGES,
            "alarm": None,
            "news": None,
            "orphaned": 0,
            "proposed": 0,
            "took_s": 41.2,
            **more,
        }
    )


def read(message: Message) -> str:
    assert slack_limits.problems(message.blocks) == []
    holders = [
        block["elements"][0] if block["type"] == "context" else block["text"]
        for block in message.blocks
    ]
    assert all(holder["verbatim"] for holder in holders)
    return "\n\n".join(holder["text"] for holder in holders)


def test_a_quiet_night_is_two_lines() -> None:
    assert read(nightly_blocks.build_message(night(run()))) == (
        "*Run 7*: 20 approved cases, 41 s\n*recall@5 0.90* over 20 cases (unchanged against run 6)"
    )


def test_the_first_run_has_nothing_to_be_compared_with() -> None:
    first = night(run(), before=None, recall=Figure(cases=20, value=0.9, difference=None))
    assert read(nightly_blocks.build_message(first)).endswith("*recall@5 0.90* over 20 cases")


def test_cases_lost_are_told_with_their_page_and_where_they_were_lost() -> None:
    told = read(nightly_blocks.build_message(night(run("c3"))))
    assert "*recall@5 0.90* over 20 cases (−5.0 points against run 6, within noise)" in told
    assert told.endswith(
        "*1 case lost*\n• how much leave? → <https://wiki.example/leave|Leave>: cut by the floor"
    )


def test_what_is_beyond_noise_is_not_told_as_noise() -> None:
    measured = run(*(f"c{number}" for number in range(10)))
    fallen = Figure(cases=20, value=0.5, difference=drops.compare(BEFORE, measured.results))
    told = read(nightly_blocks.build_message(night(measured, recall=fallen)))
    assert "over 20 cases (−50.0 points against run 6)" in told


def test_cases_won_are_told_with_their_page() -> None:
    before = eval_runs.stored({"c0": {"recall@5": 0.0}})
    measured = run()
    won = Figure(cases=20, value=1.0, difference=drops.compare(before, measured.results))
    told = read(nightly_blocks.build_message(night(measured, before=before, recall=won)))
    assert (
        "over 20 cases (+100.0 points on the 1 that run 6 has too, too few cases to tell)" in told
    )
    assert told.endswith("*1 case won*\n• how much leave? → <https://wiki.example/leave|Leave>")


def test_a_page_that_is_gone_is_named_by_its_path() -> None:
    told = read(nightly_blocks.build_message(night(run("c3"), pages={})))
    assert "→ leave.md: cut by the floor" in told


def test_nobody_is_called_and_nothing_linked_by_a_question_or_a_title() -> None:
    hostile = "<!channel> *bold* <https://evil.example|here>"
    pages = {"leave.md": PageLink(title="<!here> | x", url="javascript:alert(1)")}
    told = read(nightly_blocks.build_message(night(run("c3", question=hostile), pages=pages)))
    assert "<" not in told.replace("&lt;", "")


def test_many_lost_cases_fit_one_message() -> None:
    lost = [f"c{number}" for number in range(600)]
    measured = run(*lost, question="why " * 100, cases=600)
    before = eval_runs.stored({case_id: {"recall@5": 1.0} for case_id in lost})
    figure = Figure(cases=600, value=0.0, difference=drops.compare(before, measured.results))
    pages = {"leave.md": PageLink(title="L" * 500, url="https://wiki.example/" + "x" * 1_400)}
    message = nightly_blocks.build_message(night(measured, recall=figure, pages=pages))
    told = read(message)
    assert "*600 cases lost*" in told and "and 598 more" in told
    assert len(told) < 10_000


ALARM = Alarm(
    drop=Drop(
        good=replace(BEFORE, run_id=3),
        difference=replace(
            drops.compare(BEFORE, run("c1", "c2", "c3", "c4").results),  # type: ignore[type-var]
        ),
    ),
    causes=(
        Cause(kind="removed", told="`a<b.md` was removed.", explains=frozenset({"c1"})),
        Cause(kind="code", told="The code is at `abc`."),
    ),
)


def test_a_drop_is_told_with_its_likeliest_cause_and_its_ticket() -> None:
    news = News(event="opened", reference="https://github.example/acme/wiki/issues/12")
    told = read(nightly_blocks.build_message(night(run(), alarm=ALARM, news=news)))
    assert (
        "*Fallen beyond noise* since run 3 of 30 Nov: 1.00 → 0.80 over 20 cases, 4 lost.\n"
        "Likeliest cause: `a&lt;b.md` was removed.\n"
        "Ticket opened <https://github.example/acme/wiki/issues/12|#12>."
    ) in told


def test_a_drop_without_a_cause_or_a_tracker_says_so() -> None:
    alarm = replace(ALARM, causes=ALARM.causes[1:])
    told = read(nightly_blocks.build_message(night(run(), alarm=alarm)))
    assert "Likeliest cause: nothing that I know of changed." in told
    failed = News(event="failed", reference=None)
    told = read(nightly_blocks.build_message(night(run(), news=failed)))
    assert "The tracker did not take it; the next run tries again." in told


def test_what_is_the_same_on_the_cases_in_common_is_said_of_those() -> None:
    before = eval_runs.stored({f"c{number}": {"recall@5": 1.0} for number in range(15)})
    figure = Figure(cases=20, value=1.0, difference=drops.compare(before, run().results))
    told = read(nightly_blocks.build_message(night(run(), before=before, recall=figure)))
    assert told.endswith("over 20 cases (unchanged on the 15 that run 6 has too)")


def test_a_long_cause_fits_a_block_though_all_of_it_is_escaped() -> None:
    cause = Cause(kind="settings", told="&" * 9_000, explains=frozenset({"c1"}))
    news = News(event="open", reference="https://github.example/" + "x" * 1_000 + "/issues/12")
    alarm = replace(ALARM, causes=(cause,))
    told = read(nightly_blocks.build_message(night(run(), alarm=alarm, news=news)))
    assert "&amp;…" in told and "Ticket is open" in told


def test_a_ticket_that_is_given_up_is_told() -> None:
    news = News(event="given up", reference="https://github.example/acme/wiki/issues/12")
    told = read(nightly_blocks.build_message(night(run(), news=news)))
    assert "takes nothing more for the ticket; the next drop opens another <https://" in told


def test_without_a_case_that_a_page_answers_there_is_nothing_to_measure() -> None:
    told = read(nightly_blocks.build_message(night(run(), recall=None)))
    assert "No case has a page that answers it: there is no recall@5 to measure." in told


def test_what_waits_for_people_and_why_nothing_was_found_is_told() -> None:
    measured = replace(run(), index=replace(eval_runs.INDEX, failure="It <does> not fit."))
    held_out = Figure(cases=5, value=0.8, difference=None)
    message = nightly_blocks.build_message(
        night(measured, orphaned=2, proposed=1, held_out=held_out)
    )
    told = read(nightly_blocks.add_note(message, "No picture <here>."))
    assert "*Nothing could be searched*, so nothing was found: It &lt;does&gt; not fit." in told
    assert "*held out 0.80* over 5 cases" in told
    assert "2 approved cases orphaned: what answers them stands on no page any more" in told
    assert "1 proposed case to be reviewed." in told
    assert told.endswith("No picture &lt;here&gt;.")
