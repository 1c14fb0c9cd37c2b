"""The frozen records that pass between the stages of retrieval."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal, get_args

Anchors = Literal["github", "mkdocs", "explicit"]
Leg = Literal["dense", "lexical", "identifier", "late"]
LEGS: tuple[Leg, ...] = get_args(Leg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A source page, as it was written."""

    path: str  # below the ingested folder, with forward slashes; names the document in a source
    title: str
    url: str
    text: str  # newlines are \n, no NUL, front matter taken off
    owner: str | None = None
    updated_at: datetime | None = None  # aware, UTC; only from the page itself
    verified_at: date | None = None  # when it says that somebody last said it is still true
    language: str = "english"  # a text search configuration of PostgreSQL's
    audience: tuple[str, ...] = ("everyone",)  # who may read it, as audiences.parse has it
    freshness_days: int | None = None  # how long it counts as verified; None: the setting's
    is_superseded: bool = False  # it says that it no longer holds
    superseded_by: str | None = None  # what it names in its place: a title, path or address
    # How the site names its headings in addresses; None: it has no such names.
    anchors: Anchors | None = None
    secret_kinds: tuple[str, ...] = ()  # of what was masked in it, as masking names them
    content_hash: str = ""  # sha256 of all of the above, in hexadecimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The piece of a section that is embedded and searched; a section ranks by its best one."""

    text: str  # fits the embedder's window with the heading path put before it
    heading_path: tuple[str, ...]  # of its own heading, outermost first


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The part of a document that is read by the model and cited: whole headings, joined."""

    heading_path: tuple[str, ...]  # shared by all that it holds, outermost first
    text: str
    span: tuple[int, int]  # half-open: document.text[span[0]:span[1]]; a cut table's head is extra
    token_count: int  # under the embedding model's tokenizer
    chunks: tuple[Chunk, ...]
    # The offset in text from which on each heading's anchor counts, without #; None: it has none.
    # The first, from 0, is that of the heading that the section begins with or below.
    anchors: tuple[tuple[int, str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one side said in a conversation, as plain text."""

    speaker: Literal["user", "bot"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is searched for."""

    text: str  # worded to stand on its own
    question: str  # the last turn, as typed
    variants: tuple[str, ...] = ()  # the same in other words, searched for as well
    readings: tuple[str, ...] = ()  # reranked against, the best one counts; empty: text alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A section returned by one search leg, by its best chunk where the leg has chunks."""

    section_id: int
    leg: Leg
    rank: int  # from 1
    score: float  # cosine similarity in [-1, 1], or the leg's own; never compared across legs
    chunk_id: int | None = None
    wording: int = 0  # of the query that found it: 0 its text, from 1 its variants


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSection:
    """A section as it stands in the index, with what its document says of itself."""

    section_id: int
    document_id: int
    path: str
    title: str
    heading_path: tuple[str, ...]
    text: str
    url: str  # points at the heading that it begins with or below, where the site can
    owner: str | None
    updated_at: datetime | None
    verified_at: date | None
    freshness_days: int | None = None  # as of the Document, like the next two
    is_superseded: bool = False
    superseded_by: str | None = None
    source: str = ""
    urls: tuple[tuple[int, str], ...] = ()  # from which offset in text on which one is nearer

    def find_url(self, place: int) -> str:
        """The address of the heading under which an offset in the text stands."""
        return next((url for start, url in reversed(self.urls) if start <= place), self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """A section that was a candidate, and is not kept, since another page holds in its place."""

    section: StoredSection
    document_id: int  # of the other page


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A section in the running, with the evidence so far."""

    section: StoredSection
    hits: tuple[Hit, ...]  # at most one a leg and wording
    rrf_score: float  # orders the candidates of one query; means nothing across queries
    chunk_ids: tuple[int, ...] = ()  # of the section
    relevance: float | None = (
        None  # calibrated, in (0, 1); the only score the floor is compared with
    )

    def hit(self, leg: Leg) -> Hit | None:
        """The best hit of one leg, or None where that leg did not find the section."""
        hits = (hit for hit in self.hits if hit.leg == leg)
        return min(hits, key=lambda hit: hit.rank, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """What one query found and what of it is good enough to answer from."""

    query: Query
    candidates: tuple[Candidate, ...]  # all that were reranked, best first
    kept: tuple[Candidate, ...]  # at most Tuning.keep; empty when nothing passed the floor
    passed_over: tuple[PassedOver, ...] = ()  # the most relevant first
    # Names, as typed, that the question hinges on and no document mentions; then nothing is kept.
    unknown: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    stage_ms: Mapping[str, float] = field(default_factory=dict)
    # The query's text as the index's embedder has it, of unit length; empty without an index.
    vector: tuple[float, ...] = ()
