"""An embedding model that does not embed the same text twice in one run.

The sample's pages are indexed by many tests, and embedding is most of what they wait for.
"""

from collections.abc import Sequence

from retrieval.embedding import EmbeddedQuery, Embedder, Embedding
from retrieval.tuning import PACKAGED


class RememberingEmbedder(Embedder):
    """Gives what the model gave before for the same text."""

    def __init__(self, name: str = PACKAGED) -> None:
        self._documents: dict[str, Embedding] = {}
        self._queries: dict[str, EmbeddedQuery] = {}
        super().__init__(name)

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        new = [text for text in dict.fromkeys(texts) if text not in self._documents]
        if new:
            self._documents |= zip(new, super().embed_documents(new), strict=True)
        return [self._documents[text] for text in texts]

    def embed_query(self, text: str) -> EmbeddedQuery:
        if text not in self._queries:
            self._queries[text] = super().embed_query(text)
        return self._queries[text]
