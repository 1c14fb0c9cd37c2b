"""Characters that nobody sees."""

from app import hidden, rendering
from app.records import Answer
from tests.test_posted_text import cite


def test_what_a_terminal_or_a_reader_would_be_misled_by_is_removed() -> None:
    assert (
        hidden.remove("a\u3164\u115f\u1160\uffa0\u2800\u034f\ufe00\U000e0101\ufe0f\u200d\u200f")
        == "a"
    )
    assert hidden.remove("👍" + "\ufe0f\ufe01\U000e0141\ufe0f\ufe0f") == "👍\ufe0f"
    assert hidden.remove("🏴\U000e0041\U000e0042\U000e007f") == "🏴"
    assert (
        hidden.remove("a\x1b[31mb\x07\x9b2J\u202ec\u2066d\u200b\ufeff\U000e0041e") == "a[31mb2Jcde"
    )


def test_what_is_seen_or_joins_what_is_seen_stays() -> None:
    for shown in (
        "a\tb\nc",
        "10\u00a0km",
        "می\u200cروم",
        "👩\u200d💻",
        "日本語",
        "naïve",
        "❤\ufe0f 1\ufe0f\u20e3",
    ):
        assert hidden.remove(shown) == shown
    for shown in (
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "🏳\ufe0f\u200d🌈",
    ):
        assert hidden.remove(shown) == shown
    for shown in ("(HR)\u200f، 25 يومًا", "ימים\u200e.", "क्\u200dष"):
        assert hidden.remove(shown) == shown


def test_an_answer_in_the_terminal_holds_no_control_sequence() -> None:
    odd = cite(1, title="Le\x1b[2Jave", url="https://wiki.example/\x1b]8;;x", owner="H\x07R")
    shown = rendering.build_answer(Answer(text="5 days\x1b[31m [1]", citations=(odd,)))
    assert all(each == "\n" or each.isprintable() for each in shown)
    assert "5 days[31m [1]" in shown
