"""Candidates to the logits of a sentence-transformers CrossEncoder, which reads each anew."""

import hashlib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import sentence_transformers
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from sqlalchemy import Connection
from transformers.utils import logging as transformers_logging

from retrieval.embedding import BATCH_SIZE
from retrieval.errors import ConfigError
from retrieval.late_interaction import Asked, Interaction
from retrieval.records import Candidate, StoredSection
from retrieval.rerank import Features

# Tokens of a pair. Many models end at 512; those that read more take in a whole section with its
# headings and a question, and what attention costs grows with the square.
MAX_TOKENS = 1024
# A window's first and last word may be cut, and then make other tokens than they did in the text.
SPARE_TOKENS = 8
OVERLAP = 1 / 4  # of a window, so that a sentence cut by one is whole in the next


class CrossEncoder:
    """A loaded cross-encoder; safe to use from several threads."""

    ranking = ("logit",)
    certainty = ()

    def __init__(self, model: str) -> None:
        """Load a model by hub name or folder, in single precision: half has ties at the top.

        Raises ConfigError when the model is not there or does not score pairs.
        """
        # It draws its own bar on stderr for a load of under a second.
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            self._model = sentence_transformers.CrossEncoder(
                model, model_kwargs={"dtype": torch.float32}
            )
        except (OSError, ValueError, ImportError, RuntimeError, SafetensorError) as error:
            raise ConfigError(
                f"The reranker {model!r} cannot be loaded. Give a folder that holds a "
                "cross-encoder, or a hub name with network access, in RERANK_MODEL; or leave it "
                "unset."
            ) from error
        _refuse_other_models(self._model, model)
        # One changed in place scores otherwise: no floor fitted before holds for it.
        self.name = f"{model}@{_checksum(self._model)}"
        # predict() switches padding and truncation of its tokenizer on, which are not for texts
        # that are cut here.
        self._tokenizer = deepcopy(self._model.tokenizer)
        prompt = self._model.prompts.get(self._model.default_prompt_name or "")
        around = self._model.preprocess([("", "")], prompt=prompt)["input_ids"].shape[-1]
        window = min(self._model.max_seq_length or MAX_TOKENS, MAX_TOKENS)
        self._room = window - around - SPARE_TOKENS  # tokens for question, headings and text

    def measure(
        self,
        connection: Connection,
        asked: Asked,
        candidates: Sequence[Candidate],
        interactions: Mapping[int, Interaction],
    ) -> Features:
        """The logit of every candidate."""
        sections = [candidate.section for candidate in candidates]
        return self.score(asked.query.text, sections).reshape(-1, 1)

    def score(self, question: str, sections: Sequence[StoredSection]) -> NDArray[np.float64]:
        """The logit of each section, that of its best window; shape (sections,).

        No activation is applied, whatever the model's configuration says: a sigmoid would leave
        the good ones equal.
        """
        if not sections:
            return np.zeros(0)
        # Of a question longer than that too little would be left for the text.
        question = self._cut(question, self._room * 3 // 4)
        room = self._room - len(self._spans(question))
        windows = [self._windows(section, room) for section in sections]
        logits = self._model.predict(
            [(question, window) for own in windows for window in own],
            batch_size=BATCH_SIZE,
            activation_fn=torch.nn.Identity(),
            show_progress_bar=False,
        )
        starts = np.cumsum([0, *map(len, windows[:-1])])
        best: NDArray[np.float64] = np.maximum.reduceat(logits.astype(np.float64), starts)
        return best

    def _windows(self, section: StoredSection, room: int) -> list[str]:
        """The section in pieces that fit, each under title and headings."""
        headings = " > ".join(dict.fromkeys((section.title, *section.heading_path)))
        head = self._cut(headings, room // 4) + "\n"
        spans = self._spans(section.text)
        size = room - len(self._spans(head))
        if len(spans) <= size:
            return [head + section.text]
        step = size - int(size * OVERLAP)
        starts = [*range(0, len(spans) - size, step), len(spans) - size]
        return [
            head + section.text[spans[start][0] : spans[start + size - 1][1]] for start in starts
        ]

    def _cut(self, text: str, tokens: int) -> str:
        """As much of the text as makes so many tokens."""
        spans = self._spans(text)
        return text if len(spans) <= tokens else text[: spans[tokens - 1][1]]

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Where each token stands in the text, half-open."""
        encoded: Any = self._tokenizer(
            text,
            add_special_tokens=False,
            return_offsets_mapping=True,
            truncation=False,
            verbose=False,
        )
        spans: list[tuple[int, int]] = encoded["offset_mapping"]
        return spans


def _refuse_other_models(model: sentence_transformers.CrossEncoder, name: str) -> None:
    """Raise ConfigError unless the model gives one trained score to a pair."""
    transformer = model.transformers_model
    trained = (transformer.config.architectures or []) if transformer else []
    if type(transformer).__name__ not in trained:
        # The library would put a layer of random weights on top, without which it scores nothing.
        raise ConfigError(
            f"{name!r} is no cross-encoder but {', '.join(trained) or 'another model'}: it gives "
            "no score to a pair of texts. Name another in RERANK_MODEL."
        )
    if model.num_labels != 1:
        raise ConfigError(
            f"{name!r} gives a pair {model.num_labels} scores, and a reranker one. Name another in "
            "RERANK_MODEL."
        )
    if not getattr(model.tokenizer, "is_fast", False):
        raise ConfigError(
            f"The tokenizer of {name!r} gives no offsets; name another in RERANK_MODEL."
        )


def _checksum(model: torch.nn.Module) -> str:
    """Of all weights, the first 12 hexadecimal digits."""
    digest = hashlib.sha256()
    for name, weights in model.state_dict().items():
        digest.update(name.encode())
        digest.update(weights.cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()[:12]
