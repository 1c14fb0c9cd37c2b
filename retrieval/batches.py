"""Pages into a generation, many at a time: cut, embedded, and each written for itself."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Protocol

from sqlalchemy import Connection, text

from retrieval import chunking, dead_letters, token_vectors
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.errors import FootnoteError
from retrieval.generations import Generation
from retrieval.planning import Pending
from retrieval.records import Chunk
from retrieval.rows import ChunkVectors, Item, build_embedded_text
from retrieval.sources.reads import Skipped
from retrieval.tuning import Tuning

# Of about as much text pages are embedded together, so that batches of one length fill up.
GROUP_CHARACTERS = 150_000

Progress = Callable[[int, int], None]  # documents done, of how many


class Write(Protocol):
    """What has the index hold a page."""

    def __call__(
        self, connection: Connection, /, generation: Generation, item: Item, tuning: Tuning
    ) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The generation that documents go to, and what makes of them what it holds."""

    database: Database  # all of it
    embedder: Embedder
    generation: Generation
    tuning: Tuning


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A page that could not be indexed."""

    page: Pending
    reason: str

    @property
    def letter(self) -> Skipped:
        return Skipped(path=self.page.document.path, reason=self.reason)


def index(
    target: Target, pages: Sequence[Pending], write: Write, progress: Progress
) -> list[Failure]:
    """Have each page written in a transaction of its own; those that cannot be.

    Such a one becomes a dead letter, for whatever reason it is, and the others go on.
    """
    failed: list[Failure] = []
    done = 0
    for group in _groups(pages):
        items = []
        for page in group:
            with _surviving(target, page, failed):
                items.append(split(page, target.embedder, target.tuning))
        for item in _embed_all(target, items, failed):
            with _surviving(target, item.page, failed):
                target.database.insist(
                    partial(write, generation=target.generation, item=item, tuning=target.tuning)
                )
        done += len(group)
        progress(done, len(pages))
    return failed


@contextmanager
def _surviving(target: Target, page: Pending, failed: list[Failure]) -> Iterator[None]:
    """Have a failure be noted, unless it is one that a person can do something about."""
    try:
        yield
    except FootnoteError:
        raise
    except Exception as error:
        # With the database away this raises, too, and ends the ingest.
        failure = Failure(page=page, reason=f"cannot be indexed: {type(error).__name__}")
        with target.database.transaction() as connection:
            dead_letters.save(connection, page.source, [failure.letter])
        failed.append(failure)


def _groups(pages: Sequence[Pending]) -> Iterator[list[Pending]]:
    group: list[Pending] = []
    for page in pages:
        group.append(page)
        if sum(len(each.document.text) for each in group) >= GROUP_CHARACTERS:
            yield group
            group = []
    if group:
        yield group


def split(page: Pending, embedder: Embedder, tuning: Tuning) -> Item:
    """A page cut as the embedder reads it, with no vectors yet."""
    sections = chunking.split(
        page.document,
        embedder.token_starts,
        section_tokens=tuning.section_tokens,
        chunk_tokens=tuning.chunk_tokens,
    )
    return Item(page=page, sections=tuple(sections))


def _embed_all(target: Target, items: Sequence[Item], failed: list[Failure]) -> Iterator[Item]:
    try:
        yield from _embed(target, items)
    except Exception:  # one of them is at fault, and is found when each is by itself
        for item in items:
            with _surviving(target, item.page, failed):
                yield from _embed(target, [item])


def _embed(target: Target, items: Sequence[Item]) -> list[Item]:
    """The items with their vectors; what stands in the index already is not embedded again."""
    texts = [item.texts() for item in items]
    vectors = _load_vectors(target, items)
    new = [each for each in dict.fromkeys(chain.from_iterable(texts)) if each not in vectors]
    if new:
        embeddings = target.embedder.embed_documents(new)
        tokens = token_vectors.encode(
            [embedding.token_vectors for embedding in embeddings], target.generation.projection
        )
        own = (embedding.vector for embedding in embeddings)
        vectors |= zip(new, zip(own, tokens, strict=True), strict=True)
    return [
        replace(item, vectors=tuple(vectors[each] for each in own))
        for item, own in zip(items, texts, strict=True)
    ]


def _load_vectors(target: Target, items: Sequence[Item]) -> dict[str, ChunkVectors]:
    """What the generation holds of these pages, by the text that was embedded."""
    with target.database.transaction() as connection:
        rows = connection.execute(
            text("""
                SELECT title, chunks.heading_path, chunks.text, embedding, token_vectors
                FROM documents JOIN sections USING (document_id) JOIN chunks USING (section_id)
                WHERE document_id = ANY(:document_ids)
                AND sections.generation_id = :generation_id
                AND sections.content_hash = documents.content_hash
            """),
            {
                "document_ids": [item.page.document_id for item in items if item.page.document_id],
                "generation_id": target.generation.generation_id,
            },
        )
        chunks = [
            (
                row.title,
                Chunk(text=row.text, heading_path=tuple(row.heading_path)),
                (row.embedding.to_numpy(), row.token_vectors),
            )
            for row in rows
        ]
    return {build_embedded_text(title, chunk): vectors for title, chunk, vectors in chunks}
