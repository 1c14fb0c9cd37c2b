"""How long steps take."""

import pytest

from retrieval.timing import Clock


def test_a_stage_that_fails_is_timed_too() -> None:
    clock = Clock()
    with pytest.raises(ZeroDivisionError), clock.stage("rerank"):
        _ = 1 / 0
    assert list(clock.stage_ms) == ["rerank"]
