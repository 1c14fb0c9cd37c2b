"""The frozen records that pass between the stages of the app."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal
from uuid import UUID

from retrieval.records import Turn as Turn

# Why there is no answer: the search found nothing, nothing good enough, nothing that mentions what
# the question names, or what was generated does not rest on what was found.
Abstention = Literal["NO_CANDIDATES", "BELOW_FLOOR", "UNKNOWN_IDENTIFIER", "UNSUPPORTED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Successor:
    """A page that replaces another one, as whoever asks may read it."""

    document_id: int
    path: str
    title: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """One footnote of an answer; all that the answer takes from one section."""

    marker: int  # the n of [n] in Answer.text, from 1, in order of first use
    section_id: int
    path: str
    title: str
    heading_path: tuple[str, ...]
    url: str
    cited_text: str  # occurs word for word in the section; of several, the first
    owner: str | None
    updated_at: datetime | None
    verified_at: date | None
    document_id: int | None = None
    freshness_days: int | None = None  # how long the page counts as verified; None: the setting's
    is_superseded: bool = False  # the page says that it no longer holds
    superseded_by: str | None = None  # what it names in its place
    successor: Successor | None = None  # the page that this is, where the asker may read it
    is_stale: bool = False  # it was verified too long ago
    is_due: bool = False  # it is stale, and nothing else is against it: it may be confirmed
    caveat: str | None = None  # why it may no longer hold, in words, with its date if it has one
    # Older pages that it replaces, and an edition to come, with their dates.
    differs_from: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Title › heading, as people name a place; the title alone where they are one."""
        return _name_place(self.title, self.heading_path)

    @property
    def dated(self) -> str | None:
        """When it was last verified, else updated, in words; None when the page does not say."""
        if self.verified_at:
            return f"verified {self.verified_at:%Y-%m-%d}"
        return f"updated {self.updated_at:%Y-%m-%d}" if self.updated_at else None

    @property
    def age(self) -> str | None:
        """The same as a source list shows it, with a warning where it may no longer hold."""
        return f"⚠️ {self.caveat}" if self.caveat else self.dated

    @property
    def relations(self) -> tuple[str, ...]:
        """What replaces the page, and what it was preferred to; with the words of their authors."""
        return tuple(filter(None, (self.replaced, *self.differences)))

    @property
    def replaced(self) -> str | None:
        """What replaces the page, in words."""
        return f"replaced by {self.superseded_by}" if self.superseded_by else None

    @property
    def differences(self) -> tuple[str, ...]:
        """What the page was preferred to, in words."""
        return tuple(f"rather than {page}, which differs" for page in self.differs_from)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """What came nearest to answering a question that is not answered; no citation."""

    path: str
    title: str
    heading_path: tuple[str, ...]
    url: str
    caveat: str | None = None  # as of a citation

    @property
    def place(self) -> str:
        """Title › heading, as of a citation."""
        return _name_place(self.title, self.heading_path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is shown: Markdown with markers [1], [2] …, or the words with which we abstain."""

    text: str
    text_for_others: str | None = None  # kept in its place: it tells of what the asker may read
    citations: tuple[Citation, ...] = ()  # by marker, without gaps
    abstained_because: Abstention | None = None
    is_sure: bool = True  # or it says that it may not answer
    nearest: Nearest | None = None  # only when abstained, and then shown beside the text
    tokens: Mapping[str, int] = field(default_factory=dict)  # input and output, as billed


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Who asked what and where; in a terminal the Slack ids are None."""

    question: str
    surface: Literal["slack", "terminal"] = "terminal"
    team_id: str | None = None
    channel_id: str | None = None
    message_ts: str | None = None
    thread_ts: str | None = None
    user_id: str | None = None
    user_team_id: str | None = None  # the workspace that the asker belongs to, where Slack says
    is_unasked: bool = False  # nobody has called us: only an answer may be seen of it
    is_external: bool = False  # Slack says that people of another company are there


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnQuestion:
    """What somebody asked in Slack, for their own eyes."""

    question: str
    asked_at: datetime  # aware
    outcome: str  # as in traces, or "limited" where it was one too many
    channel_id: str
    thread_ts: str
    answer_ts: str | None  # of the first message that carries the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAnswer:
    """An earlier question of a thread with its answer, as our own traces have it."""

    trace_id: UUID
    question: str
    answer: str


def _name_place(title: str, heading_path: tuple[str, ...]) -> str:
    *_, heading = ("", *heading_path)
    return title if heading in ("", title) else f"{title} › {heading}"
