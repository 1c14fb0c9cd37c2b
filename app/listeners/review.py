"""What reviewers press and fill in."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slack_bolt import Ack, App, BoltContext
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from app import blocks, escalation, feedback, modals, posting
from app.listeners import strangers
from app.listeners.actions import acknowledge
from app.loop import cases, review, review_blocks, review_forms
from app.loop.cases import Case
from app.loop.review import KnownPage, Review
from app.loop.review_messages import Reviews
from app.rights import RightsUnknown
from retrieval.db import Database
from retrieval.errors import FootnoteError
from retrieval.metrics import Gold

if TYPE_CHECKING:  # takes seconds to import, and tests without the model do without
    from retrieval.retrieve import Retriever

log = logging.getLogger(__name__)


def register(
    app: App,
    database: Database,
    reviews: Reviews,
    *,
    experts: Mapping[str, str],
    retriever: "Retriever | None",
    freshness_days: int,
) -> None:
    """Listen to the buttons below a case and to the two forms.

    experts are the channels and user groups to tell of a page that is wrong, by its owner or
    source, or those for any. Without a retriever no passage is proposed.
    """

    def wants_page(body: dict[str, Any], context: BoltContext, client: WebClient) -> None:
        if found := find_open(body, context, client):
            pages = [feedback.load_page(reviews.readers, each.document_id) for each in found.pages]
            view = review_forms.build_page_view(found.case.case_id, next(iter(pages), None))
            posting.open_form(client, body["trigger_id"], view)

    def page_chosen(ack: Ack, body: dict[str, Any]) -> None:
        case_id, document_id = review_forms.parse_page_view(body["view"])
        page = review.load_page(reviews.readers, document_id or 0)
        if page is None:
            ack(response_action="errors", errors={modals.PAGE: review_forms.PAGE_GONE})
            return
        user_id, gold = body["user"]["id"], page.gold
        if not cases.save_gold(database, case_id, user_id, gold=[gold]):
            ack(response_action="errors", errors={modals.PAGE: review_forms.DECIDED})
            reviews.show(case_id)
            return
        ack()
        case = cases.load(reviews.readers, case_id)
        if case is not None and (passages := find_passages(case.question, page)):
            # Unless somebody has decided or chosen otherwise while it was looked for.
            found = [replace(gold, span=passages[0])]
            cases.save_gold(database, case_id, user_id, gold=found, seen=[gold])
        reviews.show(case_id)

    def wants_case(body: dict[str, Any], context: BoltContext, client: WebClient) -> None:
        found = find_open(body, context, client)
        if found is None:
            return
        if retriever is None or not found.pages:
            view = review_forms.build_case_view(found)
            posting.open_form(client, body["trigger_id"], view)
            return
        # A view before the passages, which take longer than Slack waits for it.
        view = review_forms.build_looking_view(found)
        view_id = posting.open_form(client, body["trigger_id"], view)
        passages = {
            page.document_id: find_passages(found.case.question, page)
            for page in found.pages[: review_forms.MOST_PAGES]
        }
        posting.change_form(client, view_id, review_forms.build_case_view(found, passages))

    def case_made(ack: Ack, body: dict[str, Any]) -> None:
        decision = review_forms.parse_case_view(body["view"])
        case = cases.load(reviews.readers, decision.case_id)
        if case is None or case.state != "proposed":
            ack(response_action="errors", errors={review_forms.QUESTION: review_forms.DECIDED})
            reviews.show(decision.case_id)
            return
        gold = review_forms.build_gold(case, decision)
        errors = find_errors(case, decision, gold)
        if not errors and not cases.approve(
            database,
            case.case_id,
            body["user"]["id"],
            gold=gold,
            question=review_forms.find_question(case, decision),
            seen=case.gold,
        ):
            errors = {review_forms.QUESTION: review_forms.CHANGED}
        if errors:
            ack(response_action="errors", errors=errors)
            return
        ack()
        reviews.show(case.case_id)

    def find_errors(
        case: Case, decision: review_forms.Decision, gold: Sequence[Gold]
    ) -> dict[str, str]:
        """What is wrong with a form, by its fields."""
        if review_forms.digest(case.gold) != decision.seen:
            return {review_forms.QUESTION: review_forms.CHANGED}
        if not decision.question:
            return {review_forms.QUESTION: review_forms.EMPTY}
        readers = reviews.readers
        pages = {page.number: page for page in review.load_named(readers, case.gold)}
        return {
            f"{review_forms.SPAN}{number}": review_forms.NOT_IN_PAGE
            for number, (before, now) in enumerate(zip(case.gold, gold, strict=True))
            if now.span
            and now != before
            and not (number in pages and review.holds(readers, pages[number].document_id, now.span))
        }

    def answer_right(body: dict[str, Any], context: BoltContext, client: WebClient) -> None:
        if found := find_open(body, context, client):
            if not cases.dismiss(database, found.case.case_id, body["user"]["id"]):
                tell_privately(body, client, review_blocks.DECIDED)
            reviews.show(found.case.case_id)

    def page_wrong(body: dict[str, Any], context: BoltContext, client: WebClient) -> None:
        found = find_open(body, context, client)
        if found is None:
            return
        if found.page_at_hand is None:
            tell_privately(body, client, review_blocks.NO_PAGE_TO_MARK)
            return
        case_id, page = found.case.case_id, found.page_at_hand
        if cases.mark_page_wrong(database, case_id, body["user"]["id"], page.gold):
            try:
                tell_owner(body, client, found, page)
            except (RightsUnknown, SlackApiError, posting.PostLost) as error:
                log.warning("No owner told: %s", type(error).__name__)
                tell_privately(body, client, review_blocks.OWNER_NOT_TOLD)
        reviews.show(case_id)

    def tell_owner(body: dict[str, Any], client: WebClient, found: Review, page: KnownPage) -> None:
        """Call a page's owners in the thread of the review, or tell them in their channel.

        A channel where not all may read the page is told nothing of it.
        """
        user_id, place = body["user"]["id"], body["container"]
        expert_id = escalation.find_expert_id(experts, page.owner, page.source)
        if expert_id is not None and expert_id.startswith("S"):
            wrong = review_blocks.build_wrong_page(page, user_id, None)
            said = f"<!subteam^{expert_id}> {wrong}"
        elif expert_id is None or not review.load_page(
            reviews.read_in(expert_id), page.document_id
        ):
            named = replace(page, owner=page.owner and reviews.name_owners(page.owner))
            said = review_blocks.build_unknown_owner(named, user_id)
        else:
            wrong = review_blocks.build_wrong_page(page, user_id, reviews.find_link(found.case))
            posting.tell(client, expert_id, blocks.build_notice(wrong))
            said = review_blocks.build_told_owner(page, user_id, expert_id)
        posting.tell(
            client,
            place["channel_id"],
            blocks.build_notice(said),
            thread_ts=place["message_ts"],
        )

    def find_open(body: dict[str, Any], context: BoltContext, client: WebClient) -> Review | None:
        """The case of a button, for whoever may decide about it, as long as nobody has.

        Where somebody has, who presses is told, and its message is brought up to date.
        """
        if strangers.is_stranger(body, context):
            tell_privately(body, client, review_blocks.FOR_COLLEAGUES)
            return None
        case_id, place = body["actions"][0]["value"], body["container"]
        found = review.load_review(reviews.readers, case_id, freshness_days)
        if found is None:
            posting.take_back(client, place["channel_id"], place["message_ts"])
            return None
        if found.case.state != "proposed":
            tell_privately(body, client, review_blocks.DECIDED)
            reviews.show(case_id)
            return None
        return found

    def find_passages(question: str, page: KnownPage) -> list[str]:
        """What of a page may answer, the likeliest first."""
        if retriever is None:
            return []
        from app.loop import spans  # loads PyTorch, which is there by now

        try:
            read = retriever.reading_as(reviews.readers.audiences)
            found = spans.list_spans(read, question, page.document_id)
        except FootnoteError as error:  # the page alone is of use, too
            log.warning("No passage proposed: %s", type(error).__name__)
            return []
        return [each.text for each in found]

    def tell_privately(body: dict[str, Any], client: WebClient, said: str) -> None:
        reader = posting.Reader(
            user_id=body["user"]["id"], channel_id=body["container"]["channel_id"]
        )
        posting.show_privately(client, reader, blocks.build_notice(said))

    app.action(review_blocks.CHOOSE_PAGE, middleware=[acknowledge])(wants_page)
    app.action(review_blocks.MAKE_CASE, middleware=[acknowledge])(wants_case)
    app.action(review_blocks.PAGE_WRONG, middleware=[acknowledge])(page_wrong)
    app.action(review_blocks.ANSWER_RIGHT, middleware=[acknowledge])(answer_right)
    app.view(review_blocks.CHOOSE_PAGE)(page_chosen)
    app.view(review_blocks.MAKE_CASE)(case_made)
