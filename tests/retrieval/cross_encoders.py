"""Tiny cross-encoders, their weights set by hand so that they order rightly, saved as real ones."""

import re
from collections.abc import Sequence
from pathlib import Path

import sentence_transformers
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def save(
    folder: Path,
    words: str,
    *,
    activation: nn.Module | None = None,
    window: int = 64,
    slope: float = 20.0,
    labels: int = 1,
    prompt: str = "",
    dtype: torch.dtype = torch.float32,
) -> str:
    """The path of a model whose logit grows with the share of a question's words in the text.

    It knows the given words only; between none and all of them lies about half the slope.
    """
    vocabulary = [*SPECIAL, *dict.fromkeys(re.findall(r"\w+|[^\w\s]", words.lower()))]
    folder.mkdir(parents=True, exist_ok=True)
    plain = folder / "plain"
    tokenizer = BertTokenizerFast(
        vocab={word: number for number, word in enumerate(vocabulary)}, model_max_length=window
    )
    tokenizer.save_pretrained(plain)
    _build(vocabulary, window=window, slope=slope, labels=labels).to(dtype).save_pretrained(plain)
    model = sentence_transformers.CrossEncoder(
        str(plain),
        activation_fn=activation or nn.Identity(),
        prompts={"own": prompt} if prompt else None,
        default_prompt_name="own" if prompt else None,
        model_kwargs={"dtype": dtype},
    )
    model.save_pretrained(str(folder))
    return str(folder)


def _build(
    vocabulary: Sequence[str], *, window: int, slope: float, labels: int
) -> BertForSequenceClassification:
    """BERT of two layers: a word looks for itself in the text, the first token asks the words."""
    size = len(vocabulary) + 4
    question, text, found, first = range(len(vocabulary), size)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=size,
        num_hidden_layers=2,
        num_attention_heads=1,
        intermediate_size=1,
        max_position_embeddings=window,
        num_labels=labels,
        layer_norm_eps=1e6,  # makes of the normalisation a product with 1 / 1,000
    )
    model = BertForSequenceClassification(config)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            weights.fill_(1000 if name.endswith("LayerNorm.weight") else 0)
        embeddings = model.bert.embeddings
        for number in range(len(vocabulary)):
            embeddings.word_embeddings.weight[number, number] = 1
        embeddings.word_embeddings.weight[vocabulary.index("[CLS]"), first] = 1
        embeddings.token_type_embeddings.weight[0, question] = 1
        embeddings.token_type_embeddings.weight[1, text] = 1
        look, ask = (layer.attention for layer in model.bert.encoder.layer)
        # Nearly all of a word's attention goes to the same word: to itself, and where it stands in
        # the text as well, as much to that. An unknown one is like no other.
        for number, word in enumerate(vocabulary):
            target = first if word == "[UNK]" else number
            look.self.query.weight[target, number] = 20 * size**0.5
            look.self.key.weight[target, target] = 1
        look.self.value.weight[found, text] = 1
        # The first token takes the mean over the question.
        ask.self.query.weight[question, first] = 20 * size**0.5
        ask.self.key.weight[question, question] = 1
        ask.self.value.weight[found, found] = 1
        for layer in (look, ask):
            layer.output.dense.weight.copy_(torch.eye(size))
        model.bert.pooler.dense.weight[found, found] = 0.1  # where tanh is a straight line
        model.classifier.weight[:, found] = 20 * slope
    return model
