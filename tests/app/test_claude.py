"""When Claude is left alone, and when it is tried again."""

import pytest

from app.claude import MOST_FAILURES, REST_S, Away, Breaker
from retrieval.errors import GenerationError


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def fail(breaker: Breaker, error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        with breaker.trying():
            raise error


def assert_refused(breaker: Breaker) -> None:
    with pytest.raises(Away, match="is left alone"):
        with breaker.trying():
            raise AssertionError("it was called")


def succeed(breaker: Breaker) -> None:
    with breaker.trying():
        pass


def test_after_a_few_failures_in_a_row_nobody_waits_any_more() -> None:
    breaker = Breaker(Clock())
    for _ in range(MOST_FAILURES):
        fail(breaker, Away("out of reach"))
    assert_refused(breaker)


def test_a_success_between_begins_the_count_anew() -> None:
    breaker = Breaker(Clock())
    for _ in range(MOST_FAILURES):
        fail(breaker, Away("out of reach"))
        succeed(breaker)


def test_one_question_tries_whether_claude_is_back() -> None:
    clock = Clock()
    breaker = Breaker(clock)
    for _ in range(MOST_FAILURES):
        fail(breaker, Away("out of reach"))
    clock.now = REST_S
    with breaker.trying():
        assert_refused(breaker)  # whoever comes meanwhile
    succeed(breaker)
    succeed(breaker)


def test_a_try_in_vain_is_followed_by_another_rest() -> None:
    clock = Clock()
    breaker = Breaker(clock)
    for _ in range(MOST_FAILURES):
        fail(breaker, Away("out of reach"))
    clock.now = REST_S
    fail(breaker, Away("still out of reach"))
    clock.now = 2 * REST_S - 1
    assert_refused(breaker)
    clock.now = 2 * REST_S
    succeed(breaker)


@pytest.mark.parametrize("error", [GenerationError("refusal"), RuntimeError("of whoever is shown")])
def test_what_is_not_claudes_absence_is_no_failure_of_it(error: Exception) -> None:
    breaker = Breaker(Clock())
    for _ in range(MOST_FAILURES + 1):
        fail(breaker, error)
    succeed(breaker)
