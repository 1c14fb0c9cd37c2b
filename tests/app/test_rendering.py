"""What the terminal shows."""

from datetime import date

from app.records import Answer, Citation, Nearest
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


def test_a_source_that_may_no_longer_hold_is_marked_in_the_terminal() -> None:
    citation = Citation(
        marker=1,
        section_id=1,
        path="a.md",
        title="Leave",
        heading_path=(),
        url="https://wiki.example/a",
        cited_text="Five days.",
        owner="hr@corp.example",
        updated_at=None,
        verified_at=date(2023, 2, 1),
        caveat="last verified 2023-02-01, 3 years ago",
    )
    assert build_answer(Answer(text="Five days. [1]", citations=(citation,))) == (
        "Five days. [1]\n\n"
        "[1] Leave · ⚠️ last verified 2023-02-01, 3 years ago · hr@corp.example\n"
        "    https://wiki.example/a"
    )
