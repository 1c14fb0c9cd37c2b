"""The message to the reviewers about each case: posted once, kept up to date, taken back."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from sqlalchemy.exc import SQLAlchemyError

from app import blocks, confirming, posting, traces
from app.blocks import Message
from app.loop import cases, review_blocks
from app.loop.cases import Case
from app.loop.review import Review, load_review
from app.rights import Rights, RightsUnknown
from app.workspace import Workspace
from retrieval.db import Database

MISSED_DAYS = 30  # for which what never arrived is still shown to the reviewers; chosen
MOST_CHANGES = 3  # in a row, where others decide meanwhile; the next change shows the rest; chosen

log = logging.getLogger(__name__)


class Reviews:
    """What stands in the channel of the reviewers; without a channel, nothing does.

    Whatever Slack refuses is logged: who votes or decides is not to blame, and the next change to
    the case tries again.
    """

    def __init__(
        self,
        client: WebClient,
        database: Database,
        workspace: Workspace,
        rights: Rights,
        *,
        channel_id: str | None,
        freshness_days: int,
    ) -> None:
        self._client = client
        self._database = database
        self._workspace = workspace
        self._rights = rights
        self._channel_id = channel_id
        self._freshness_days = freshness_days

    @property
    def is_on(self) -> bool:
        """Whether there is a channel in which people review."""
        return self._channel_id is not None

    @property
    def readers(self) -> Database:
        """The database as all who review may read it; raises RightsUnknown."""
        if self._channel_id is None:
            return self._database
        return self.read_in(self._channel_id)

    def reads(self, trace_id: UUID) -> bool:
        """Whether people review the answer of a trace; not where fewer may read it than review."""
        try:
            return self.is_on and traces.are_readable(self.readers, [trace_id])
        except RightsUnknown:
            return False

    def name_owners(self, owner: str) -> str:
        """The owners of a page as people call them."""
        return confirming.name_owners(owner, self._rights)

    def read_in(self, place_id: str) -> Database:
        """The database as all may read it who read a channel, or a person; raises RightsUnknown."""
        return self._database.reading_as(self._rights.find_for_place(place_id))

    @contextmanager
    def following(self, trace_id: UUID | None) -> Iterator[None]:
        """Have the reviewers see what the block changes about an answer, if it is one."""
        if not self.is_on or trace_id is None:
            yield
            return
        before = cases.find(self._database, trace_id)
        yield
        try:
            after = cases.find(self._database, trace_id)
            if before is not None:
                self.refresh(before)
            if after is not None and (before is None or after.case_id != before.case_id):
                self.show(after.case_id)
        except SQLAlchemyError:  # what was changed is changed, and told
            log.exception("The reviewers do not see what became of answer %s", trace_id)

    def refresh(self, before: Case) -> None:
        """Have the message of a case show what has become of it, or take it back with the case."""
        if cases.load(self._database.unrestricted, before.case_id) is None:
            self._take_back(before)
        else:
            self.show(before.case_id)

    def show(self, case_id: str) -> None:
        """Have the message of a case show it as it is now.

        One that is proposed gets a message, once, and one in the set that is flagged.
        """
        if self._channel_id is None:
            return
        try:
            review = load_review(self.readers, case_id, self._freshness_days)
            if review is None:
                self._hide(case_id)
                return
            if review.case.review_ts is not None and self._keep_up(review.case):
                return
            if _is_news(review) and cases.claim_review(self._database, case_id, self._channel_id):
                self._post(case_id, self._channel_id)
        except (RightsUnknown, SlackClientError, *posting.CONNECTION_FAULTS) as error:
            log.warning("Case %s is not up to date in Slack: %s", case_id, type(error).__name__)

    def show_missed(self) -> None:
        """Show the proposed cases of the last MISSED_DAYS that have no message.

        There was no channel then, say, or the process died before it had told of them.
        """
        try:
            for case_id in cases.list_missed(self._database, MISSED_DAYS) if self.is_on else []:
                self.show(case_id)
        except SQLAlchemyError:  # the next start tries again
            log.exception("The reviewers may miss cases")

    def find_link(self, case: Case) -> str | None:
        """Where the message of a case stands."""
        url = self._workspace.find_url()
        if url is None or case.review_channel_id is None or case.review_ts is None:
            return None
        return blocks.build_permalink(url, case.review_channel_id, case.review_ts, case.review_ts)

    def _post(self, case_id: str, channel_id: str) -> None:
        message = self._build(case_id)
        if message is None:  # taken back meanwhile
            return
        try:
            ts = posting.tell(self._client, channel_id, message)
        except (SlackApiError, posting.PostLost) as error:
            if posting.has_surely_posted_nothing(error):
                cases.release_review(self._database, case_id)
            response = error.response if isinstance(error, SlackApiError) else {}
            reason = response.get("error", type(error.__cause__).__name__)
            log.warning("Case %s is not posted in %s: %s", case_id, channel_id, reason)
            return
        is_kept = cases.save_review_ts(self._database, case_id, ts)
        case = cases.load(self._database.unrestricted, case_id) if is_kept else None
        if case is None:  # whoever has deleted it may not have known of the message yet
            posting.take_back(self._client, channel_id, ts)
        else:
            self._keep_up(case, message)

    def _hide(self, case_id: str) -> None:
        """Take back the message of a case that the reviewers may not read any more."""
        case = cases.load(self._database.unrestricted, case_id)
        if case is not None and case.review_ts is not None:
            self._take_back(case)
            cases.forget_review(self._database, case_id, case.review_ts)

    def _keep_up(self, case: Case, shown: Message | None = None) -> bool:
        """Change the message until it shows the case as it is: others may decide meanwhile.

        False where somebody has deleted it; then the case has none.
        """
        for _ in range(MOST_CHANGES):
            message = self._build(case.case_id)
            if message is None:
                self._take_back(case)
            if message is None or message == shown:
                break
            try:
                channel_id, ts = str(case.review_channel_id), str(case.review_ts)
                posting.change(self._client, channel_id, ts, message)
            except SlackApiError as error:
                if error.response.get("error") != "message_not_found":
                    raise
                cases.forget_review(self._database, case.case_id, ts)
                return False
            shown = message
        return True

    def _build(self, case_id: str) -> Message | None:
        review = load_review(self.readers, case_id, self._freshness_days)
        if review is None:
            return None
        return review_blocks.build_message(review, self._workspace.find_url())

    def _take_back(self, case: Case) -> None:
        if case.review_channel_id is not None and case.review_ts is not None:
            posting.take_back(self._client, case.review_channel_id, case.review_ts)


def _is_news(review: Review) -> bool:
    """Whether a case that the reviewers have no message of is one that they have to see."""
    is_flagged_again = review.case.state == "approved" and bool(review.flags)
    return review.case.state == "proposed" or is_flagged_again
