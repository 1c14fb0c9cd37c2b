"""The lexical leg is as good as BM25 by itself is."""

import pytest

from retrieval import evaluation
from retrieval.db import Database
from tests.conftest import SAMPLE
from tests.peers.bm25s_parity import compare


def test_on_the_sample_the_lexical_leg_is_near_bm25s(indexed: Database) -> None:
    measured = compare(indexed, evaluation.load_cases(SAMPLE / "cases.jsonl"))
    for name, value in measured["bm25s"].items():
        assert 0.5 < value
        assert measured["lexical"][name] == pytest.approx(value, abs=0.05), name
