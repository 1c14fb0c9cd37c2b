"""Cases as text and JSON for the terminal; pure."""

from collections.abc import Iterator, Sequence
from textwrap import indent
from typing import Any

from app.loop import casefiles, cases
from app.loop.cases import Case
from app.loop.caseset import Alike
from app.loop.review import Flag, KnownPage, Review
from app.modals import REASONS
from retrieval.metrics import Gold

QUESTION_LENGTH = 70  # of a case in a list
ANSWER_LENGTH = 1_500  # of an answer that is reviewed
SPAN_LENGTH = 600


def build_line(case: Case) -> str:
    """A case in a list."""
    orphan = ", orphaned" if case.orphaned_at else ""
    part = ", held out" if case.state == "approved" and case.held_out else ""
    return (
        f"{flatten(case.case_id)}  {case.state}{part}{orphan}\n"
        f"    {_cut(flatten(case.question), QUESTION_LENGTH)}"
        f" – {', '.join(dict.fromkeys(plain(gold.doc) for gold in case.gold)) or 'no page'}"
    )


def build_case(review: Review) -> str:
    """All of a case."""
    case = review.case
    if case.state == "proposed":
        return f"{flatten(case.case_id)}  proposed\n\n{build_review(review, case.gold)}"
    return "\n".join(_build_decided(case))


def build_json(case: Case) -> dict[str, Any]:
    """All of a case, as a line of an export has it and with where it stands."""
    return {
        **casefiles.build_row(case),
        "state": case.state,
        "orphaned_at": case.orphaned_at and case.orphaned_at.isoformat(),
        "page_wrong_by": case.page_wrong_by,
        "page_wrong": next(iter(cases.build_gold(filter(None, [case.page_wrong]))), None),
        "trace_ids": list(map(str, case.trace_ids)),
    }


def build_review(review: Review, gold: Sequence[Gold]) -> str:
    """All that helps to decide about a case; gold is what answers it as far as is known by now."""
    parts = [
        f"> {plain(review.case.question)}",
        *map(_build_flag, review.flags),
        *_build_answer(review),
        build_outcome(review, gold),
    ]
    return "\n".join(parts)


def build_outcome(review: Review, gold: Sequence[Gold]) -> str:
    """What was at fault, and what answers."""
    return "\n".join(["", *_build_fault(review), build_gold(gold)])


def build_gold(gold: Sequence[Gold]) -> str:
    """What answers, page by page."""
    return "\n".join(map(_build_gold, gold)) or "Right page: nobody has named one."


def build_alike(pair: Alike) -> str:
    """Two cases that may be one."""
    parts = pair.first.held_out != pair.second.held_out
    apart = "  (one of them is held out)" if parts else ""
    return "\n".join(
        [
            f"{pair.similarity:.2f}{apart}",
            *(
                f"    {flatten(each.case_id)}  {flatten(each.question)}"
                for each in (pair.first, pair.second)
            ),
        ]
    )


def build_choice(number: int, text: str) -> str:
    """One of several that are offered by number."""
    return f"{number:>3}  {indent(_cut(plain(text).strip(), SPAN_LENGTH), ' ' * 5).lstrip()}"


def build_wrong_page(page: KnownPage) -> str:
    """That a page was marked as wrong, and who is to put it right."""
    owner = f"Its owner is {plain(page.owner)}" if page.owner else "It names no owner"
    return f"Marked: {plain(page.title)} – {plain(page.doc)}. {owner}: please tell them."


def plain(text: str) -> str:
    """What people and pages say without what a terminal would obey."""
    return "".join(each for each in text if each == "\n" or each.isprintable())


def flatten(text: str) -> str:
    """As plain, in one line."""
    return plain(" ".join(text.split()))


def _build_decided(case: Case) -> Iterator[str]:
    by = f" by {plain(case.reviewer)}" if case.reviewer else ""
    on = f" on {case.reviewed_at:%Y-%m-%d}" if case.reviewed_at else ""
    part = ", held out" if case.state == "approved" and case.held_out else ""
    yield f"{flatten(case.case_id)}  {case.state}{by}{on}{part}\n"
    yield from (f"{turn.speaker}: {plain(turn.text)}" for turn in case.history)
    yield f"> {plain(case.question)}"
    if case.answer:
        yield f"\nAnswer:\n{_quote(case.answer, ANSWER_LENGTH)}"
    if case.gold:
        yield "\n" + build_gold(case.gold)
    elif case.state == "approved":
        yield "\nNo page answers."
    if len(case.gold_all) > 1:
        yield "All of these pages are needed."
    if case.page_wrong_by and case.page_wrong:
        page = plain(case.page_wrong.doc)
        yield f"{plain(case.page_wrong_by)} says that the page is wrong: {page}"
    if case.orphaned_at:
        yield f"What answers stands on no page since {case.orphaned_at:%Y-%m-%d}."


def _build_flag(flag: Flag) -> str:
    said = ": " + REASONS[flag.reason] if flag.reason else ""
    note = f" – “{flatten(flag.note)}”" if flag.note else ""
    page = f" – names {flatten(flag.page)}" if flag.page else ""
    return f"👎 {flag.user_id}{said}{note}{page}"


def _build_answer(review: Review) -> Iterator[str]:
    if review.case.answer:
        yield f"\nAnswered by hand:\n{_quote(review.case.answer, ANSWER_LENGTH)}"
    if review.answer:
        yield f"\nAnswered:\n{_quote(review.answer, ANSWER_LENGTH)}"
    if review.kept:
        yield "\nMade from:"
        yield from (f"    {each.relevance or 0:.2f}  {plain(each.place)}" for each in review.kept)


def _build_fault(review: Review) -> Iterator[str]:
    if fault := review.fault:
        opening = "At fault:" if fault.is_known else "At fault: not known yet, likely"
        yield f"{opening} {fault.stage} – {plain(fault.why)}"


def _build_gold(gold: Gold) -> str:
    span = f"\n{_quote(gold.span, SPAN_LENGTH)}" if gold.span else " (as a whole)"
    return f"Right page: {plain(gold.doc)}{span}"


def _quote(text: str, limit: int) -> str:
    return indent(_cut(plain(text).strip(), limit), "    ")


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
