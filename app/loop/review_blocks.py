"""Cases as reviewers see them in Slack, and what the owners of pages are told; pure."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from app import blocks, modals, mrkdwn
from app.blocks import Block, Message
from app.loop.cases import Case, State
from app.loop.review import Flag, Found, KnownPage, Review

# The action_ids of the buttons.
CHOOSE_PAGE, MAKE_CASE = "review_page", "review_case"
PAGE_WRONG, ANSWER_RIGHT = "review_page_wrong", "review_right"

# Each part of the message as long as this at most, escaped, so that all of them fit one message.
QUOTED_QUESTION, QUOTED_NOTE, QUOTED_SPAN, QUOTED_REPLY = 500, 150, 250, 200
ANSWER_LENGTH, FLAGS_LENGTH, FOUND_LENGTH, PAGES_LENGTH = 1_200, 1_500, 1_200, 1_800
LINK_LENGTH = 500  # a page with a longer address is named without it
PLACE_LENGTH, OWNER_LENGTH = 100, 60

NO_PAGE = "No page is named as the right one. Made a case like this, it says that none answers."
FOR_COLLEAGUES = "Only people of the company that runs me decide about cases."
NO_PAGE_TO_MARK = "I don't know which page that is. Please choose the right page first."
OWNER_NOT_TOLD = "The page is marked, but I could not tell anybody of it. Please tell its owner."
DECIDED = "Somebody has decided about this meanwhile."

_USER_ID = re.compile(r"[UW][A-Z0-9]+")
_ALIKE: Mapping[State, str] = {
    "proposed": "Nearly the same is to be reviewed, too",
    "approved": "Nearly the same is a case already",
    "dismissed": "Nearly the same was put aside",
}


def build_message(review: Review, workspace_url: str | None) -> Message:
    """A case with all that helps to decide and, as long as it is proposed, the ways to."""
    head = _build_head(review, workspace_url)
    parts = [
        mrkdwn.build_section(head),
        *_build_flags(review.flags),
        *_build_answers(review),
        *_build_found(review.found),
        *_build_fault(review),
        *_build_pages(review),
        *_build_small_print(review),
    ]
    end = (
        _build_buttons(review)
        if review.case.state == "proposed"
        else mrkdwn.build_context(_build_decision(review.case))
    )
    return Message(text=head, blocks=(*parts, end))


def build_wrong_page(page: KnownPage, user_id: str, url: str | None) -> str:
    """What those who own a page are told; url leads to the review, where they can follow it."""
    more = f" See {mrkdwn.link(url, 'the review')}." if url else ""
    return (
        f"<@{user_id}> says that a page is wrong or outdated: {build_page_link(page)}. "
        f"An answer was made from it. Please put it right.{more}"
    )


def build_told_owner(page: KnownPage, user_id: str, channel_id: str) -> str:
    """What stands in the thread of a review when the owners of a page were told elsewhere."""
    return (
        f"<@{user_id}> says that a page is wrong or outdated: {build_page_link(page)}. "
        f"I told <#{channel_id}>."
    )


def build_unknown_owner(page: KnownPage, user_id: str) -> str:
    """What stands in the thread of a review where there is no way to tell a page's owner."""
    owner = (
        f"Its owner is {mrkdwn.quote(page.owner, OWNER_LENGTH)}: please tell them."
        if page.owner
        else "It names no owner."
    )
    return f"<@{user_id}> says that a page is wrong or outdated: {build_page_link(page)}. {owner}"


def build_no_page(case: Case) -> str:
    """What stands where the right page would, as none is known."""
    if case.state == "approved":
        return "No page answers this."
    if case.gold:
        gone = mrkdwn.quote(case.gold[0].doc, PLACE_LENGTH)
        return f"The page that was named, {gone}, is not in the index now."
    return NO_PAGE


def build_page_link(page: KnownPage) -> str:
    """A page by its title, leading to it."""
    return _build_link(page.url, page.title or page.doc)


def _build_head(review: Review, workspace_url: str | None) -> str:
    case = review.case
    if case.origin == "reply" and not review.flags:
        said = "*A question was answered by hand*"
    else:
        people = len({flag.user_id for flag in review.flags})
        said = "*An answer was flagged*"
        said += f" by {people} people" if people > 1 else ""
    if (asked := review.asked) and not asked.channel_id.startswith("D"):
        said += f" in <#{asked.channel_id}>"
        if workspace_url:
            url = blocks.build_permalink(
                workspace_url, asked.channel_id, asked.message_ts, asked.thread_ts
            )
            said += f" ({mrkdwn.link(url, 'see the thread')})"
    return f"{said}\n> {mrkdwn.quote(case.question, QUOTED_QUESTION)}"


def _build_flags(flags: Sequence[Flag]) -> Iterator[Block]:
    """A line a person, also where they have flagged several answers to the question."""
    counts = Counter(flag.user_id for flag in flags)
    latest = {flag.user_id: flag for flag in flags}
    if latest:
        lines = [_build_flag(flag, counts[flag.user_id]) for flag in latest.values()]
        yield mrkdwn.build_section(_clip(lines, FLAGS_LENGTH))


def _build_flag(flag: Flag, count: int) -> str:
    line = f"👎 <@{flag.user_id}>" + (f", {count} times" if count > 1 else "")
    if flag.reason:
        line += f": {modals.REASONS[flag.reason]}"
    if flag.note:
        line += f" – “{mrkdwn.quote(flag.note, QUOTED_NOTE)}”"
    if flag.page:
        line += f" – names {mrkdwn.quote(flag.page, PLACE_LENGTH)}"
    return line


def _build_answers(review: Review) -> Iterator[Block]:
    if review.case.answer:
        said = f"*Answered by hand:* {mrkdwn.quote(review.case.answer, QUOTED_REPLY)}"
        yield mrkdwn.build_section(said)
    if review.answer:
        first, *more = mrkdwn.build_parts(review.answer, urls=(), limit=ANSWER_LENGTH) or [""]
        if first:
            yield mrkdwn.build_context(
                "*I found no answer:*" if review.is_abstained else "*I answered:*"
            )
            yield mrkdwn.build_folding(f"{first}\n…" if more else first)


def _build_found(found: Sequence[Found]) -> Iterator[Block]:
    if found:
        lines = [
            f"• {_build_link(each.url, each.place)} · relevance {each.relevance:.2f}"
            for each in found
        ]
        title = "*Made from:*" if found[0].is_kept else "*Nearest, not used:*"
        yield mrkdwn.build_context(f"{title}\n{_clip(lines, FOUND_LENGTH)}")


def _build_fault(review: Review) -> Iterator[Block]:
    if fault := review.fault:
        opening = "*At fault:*" if fault.is_known else "*At fault:* not known yet, likely"
        yield mrkdwn.build_section(f"{opening} *{fault.stage}* – {mrkdwn.escape(fault.why)}")


def _build_pages(review: Review) -> Iterator[Block]:
    lines = []
    for page in review.pages:
        line = f"*Right page:* {build_page_link(page)}"
        if page.span:
            line += f"\n> {mrkdwn.quote(page.span, QUOTED_SPAN)}"
        lines.append(line)
    if not lines and review.case.state != "dismissed":
        lines = [build_no_page(review.case)]
    if lines:
        yield mrkdwn.build_section(_clip(lines, PAGES_LENGTH))


def _build_small_print(review: Review) -> Iterator[Block]:
    if marked := review.case.page_wrong:
        who = _name_person(review.case.page_wrong_by or "")
        page = review.page_wrong
        named = build_page_link(page) if page else mrkdwn.quote(marked.doc, PLACE_LENGTH)
        yield mrkdwn.build_context(f"{who} says that a page is wrong: {named}")
    if review.alike:
        question = mrkdwn.quote(review.alike.question, QUOTED_NOTE)
        yield mrkdwn.build_context(f"{_ALIKE[review.alike.state]}: “{question}”")


def _build_decision(case: Case) -> str:
    """Who decided what."""
    who = _name_person(case.reviewer or "")
    if case.state == "approved":
        return f"{who} has made it a case"
    is_reply = case.origin == "reply"
    return f"{who} says that {'this is no case' if is_reply else 'the answer was right'}"


def _name_person(name: str) -> str:
    """Somebody who said or decided something; at a terminal they have no Slack user."""
    return f"<@{name}>" if _USER_ID.fullmatch(name) else mrkdwn.quote(name, OWNER_LENGTH)


def _build_buttons(review: Review) -> Block:
    case = review.case
    buttons = [(CHOOSE_PAGE, "Right page…"), (MAKE_CASE, "Make it a case")]
    if review.page_at_hand and review.page_at_hand != review.page_wrong:
        buttons.append((PAGE_WRONG, "Page is wrong"))
    aside = "Not a case" if case.origin == "reply" else "Answer was right"
    buttons.append((ANSWER_RIGHT, aside))
    return {
        "type": "actions",
        "elements": [
            {
                "type": "button",
                "action_id": action_id,
                "text": {"type": "plain_text", "text": words},
                "value": case.case_id,
            }
            for action_id, words in buttons
        ],
    }


def _build_link(url: str, place: str) -> str:
    """A link, or the name alone where it leads nowhere or is too long to be shown beside others."""
    return mrkdwn.link_or_quote(url, place, PLACE_LENGTH, most=LINK_LENGTH)


def _clip(lines: Iterable[str], limit: int) -> str:
    """As many lines as fit, and how many more there are."""
    shown: list[str] = []
    left = 0
    for line in lines:
        if left or len("\n".join([*shown, line])) > limit:
            left += 1
        else:
            shown.append(line)
    return "\n".join([*shown, f"… and {left} more"] if left else shown)
