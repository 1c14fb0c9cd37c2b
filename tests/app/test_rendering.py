"""What the terminal shows."""

from app.records import Answer, Nearest
from app.rendering import build_answer


def test_the_nearest_page_stands_below_what_says_that_there_is_no_answer() -> None:
    nearest = Nearest(
        path="a.md",
        title="Leave",
        heading_path=("Leave", "Carry-over"),
        url="https://wiki.example/a",
    )
    answer = Answer(text="I found none.", abstained_because="BELOW_FLOOR", nearest=nearest)
    assert build_answer(answer) == (
        "I found none.\n\n"
        "Nearest page, may not answer: Leave › Carry-over\n"
        "    https://wiki.example/a"
    )
