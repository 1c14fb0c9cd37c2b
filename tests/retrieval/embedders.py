"""Another embedding model: the packaged one, looked at in a mirror."""

from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer

from retrieval.embedding import Embedder


def save_mirrored(folder: Path, embedder: Embedder) -> str:
    """The folder of a model whose vectors have every other sign turned round.

    Among themselves they are as near as the packaged model's, so all that is fitted for that holds;
    to one of its vectors they are as near as to any, so mixing the two finds nothing.
    """
    embedder.model.save_pretrained(str(folder))
    model = SentenceTransformer(str(folder))
    last = model[0].auto_model.encoder.layer[-1].output.LayerNorm
    signs = torch.ones(embedder.dimension)
    signs[::2] = -1
    with torch.no_grad():
        last.weight.mul_(signs)
        last.bias.mul_(signs)
    model.save_pretrained(str(folder))
    return str(folder)
