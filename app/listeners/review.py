"""What reviewers press and fill in."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slack_bolt import Ack, App, BoltContext
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from app import blocks, feedback, modals, posting
from app.listeners import strangers
from app.listeners.actions import acknowledge
from app.loop import cases, review, review_blocks
from app.loop.review import KnownPage, Review
from app.loop.review_messages import Reviews
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
    source. Without a retriever no passage is proposed.
    """

    def wants_page(body: dict[str, Any], context: BoltContext, client: WebClient) -> None:
        if found := find_open(body, context, client):
            page = feedback.load_page(database, found.pages[0].document_id) if found.pages else None
            view = review_blocks.build_page_view(found.case.case_id, page)
            posting.open_form(client, body["trigger_id"], view)

    def page_chosen(ack: Ack, body: dict[str, Any]) -> None:
        case_id, document_id = review_blocks.parse_page_view(body["view"])
        page = next(iter(review.load_pages(database, [document_id or 0])), None)
        if page is None:
            ack(response_action="errors", errors={modals.PAGE: review_blocks.PAGE_GONE})
            return
        case = cases.load(database, case_id)
        is_open = case is not None and case.state == "proposed"
        user_id = body["user"]["id"]
        if is_open:
            cases.save_gold(database, case_id, user_id, gold=[Gold(doc=page.doc)])
        ack()
        if case is not None and is_open and (span := propose(case.question, page)):
            save_span(case_id, user_id, page, span)
        reviews.show(case_id)

    def save_span(case_id: str, user_id: str, page: KnownPage, span: str) -> None:
        """Unless somebody has decided or chosen otherwise while it was looked for."""
        case = cases.load(database, case_id)
        if case and case.state == "proposed" and case.gold == (Gold(doc=page.doc),):
            cases.save_gold(database, case_id, user_id, gold=[Gold(doc=page.doc, span=span)])

    def wants_case(body: dict[str, Any], context: BoltContext, client: WebClient) -> None:
        found = find_open(body, context, client)
        if found is None:
            return
        unknown = [page for page in found.pages if page.span is None] if retriever else []
        # The form before the passages, which take longer than Slack waits for it.
        view = review_blocks.build_case_view(found, is_looking=bool(unknown))
        view_id = posting.open_form(client, body["trigger_id"], view)
        if unknown:
            spans = {page.document_id: propose(found.case.question, page) for page in unknown}
            known = {key: span for key, span in spans.items() if span}
            view = review_blocks.build_case_view(review_blocks.add_spans(found, known))
            posting.change_form(client, view_id, view)

    def case_made(ack: Ack, body: dict[str, Any]) -> None:
        decision = review_blocks.parse_case_view(body["view"])
        case = cases.load(database, decision.case_id)
        if case is None or case.state != "proposed":
            ack()
            reviews.show(decision.case_id)
            return
        pages = review.load_pages(database, decision.document_ids)
        if errors := find_errors(decision, pages):
            ack(response_action="errors", errors=errors)
            return
        gold = [
            Gold(doc=page.doc, span=span or None)
            for page, span in zip(pages, decision.spans, strict=True)
        ]
        user_id = body["user"]["id"]
        cases.save_gold(database, decision.case_id, user_id, gold=gold, question=decision.question)
        cases.approve(database, decision.case_id, user_id)
        ack()
        reviews.show(decision.case_id)

    def find_errors(decision: review_blocks.Decision, pages: list[KnownPage]) -> dict[str, str]:
        """What is wrong with a form, by its fields."""
        if not decision.question:
            return {review_blocks.QUESTION: review_blocks.EMPTY}
        if len(pages) < len(decision.document_ids):
            return {review_blocks.QUESTION: review_blocks.PAGE_GONE}
        return {
            f"{review_blocks.SPAN}{number}": review_blocks.NOT_IN_PAGE
            for number, (page, span) in enumerate(zip(pages, decision.spans, strict=True))
            if span and not review.holds(database, page.document_id, span)
        }

    def answer_right(body: dict[str, Any], context: BoltContext, client: WebClient) -> None:
        if found := find_open(body, context, client):
            cases.dismiss(database, found.case.case_id, body["user"]["id"])
            reviews.show(found.case.case_id)

    def page_wrong(body: dict[str, Any], context: BoltContext, client: WebClient) -> None:
        found = find_open(body, context, client)
        if found is None:
            return
        if found.page_at_hand is None:
            tell_privately(body, client, review_blocks.NO_PAGE_TO_MARK)
            return
        if cases.mark_page_wrong(database, found.case.case_id, body["user"]["id"]):
            try:
                tell_owner(body, client, found, found.page_at_hand)
            except (SlackApiError, posting.PostLost) as error:
                log.warning("No owner told: %s", type(error).__name__)
                tell_privately(body, client, review_blocks.OWNER_NOT_TOLD)
        reviews.show(found.case.case_id)

    def tell_owner(body: dict[str, Any], client: WebClient, found: Review, page: KnownPage) -> None:
        """Call a page's owners in the thread of the review, or tell them in their channel."""
        user_id, place = body["user"]["id"], body["container"]
        expert_id = experts.get(page.owner or "") or experts.get(page.source)
        if expert_id is None:
            said = review_blocks.build_unknown_owner(page, user_id)
        elif expert_id.startswith("S"):
            wrong = review_blocks.build_wrong_page(page, user_id, None)
            said = f"<!subteam^{expert_id}> {wrong}"
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

        Where somebody has, its message is brought up to date.
        """
        if strangers.is_stranger(body, context):
            tell_privately(body, client, review_blocks.FOR_COLLEAGUES)
            return None
        case_id, place = body["actions"][0]["value"], body["container"]
        found = review.load_review(database, case_id, freshness_days)
        if found is None:
            posting.take_back(client, place["channel_id"], place["message_ts"])
            return None
        if found.case.state != "proposed":
            reviews.show(case_id)
            return None
        return found

    def propose(question: str, page: KnownPage) -> str | None:
        if retriever is None:
            return None
        from app.loop import spans  # loads PyTorch, which is there by now

        try:
            span = spans.propose_span(retriever, question, page.document_id)
        except FootnoteError as error:  # the page alone is of use, too
            log.warning("No passage proposed: %s", type(error).__name__)
            return None
        return span.text if span else None

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
