"""Which new pages are old ones at another place."""

import pytest

from retrieval import moves
from retrieval.records import Document
from retrieval.stored import Stored

WORDS = "You have 28 days of leave a year and they end with March of the next one at the latest ."
EDITED = WORDS.replace("March", "April")
OTHER = "The help desk is open from 8 to 18 and answers the telephone at night too if it burns ."


def stored(path: str, text: str = WORDS, title: str = "Leave") -> Stored:
    return Stored(
        document_id=len(path),
        path=path,
        title=title,
        text=text,
        language="english",
        anchors=None,
        audience=("everyone",),
    )


def page(path: str, text: str = WORDS, title: str = "Leave") -> Document:
    return Document(path=path, title=title, url="", text=text)


def find(gone: list[Stored], new: list[Document]) -> dict[str, str]:
    return {now: was.path for now, was in moves.find(gone, new).items()}


@pytest.mark.parametrize(
    ("gone", "new", "moved"),
    [
        ([stored("a.md")], [page("hr/a.md")], {"hr/a.md": "a.md"}),
        ([stored("a.md")], [page("hr/b.md", title="Time off")], {"hr/b.md": "a.md"}),
        ([stored("a.md")], [page("b.md", OTHER)], {}),
        ([stored("a.md")], [page("b.md"), page("c.md")], {}),  # which of the two?
        (
            [stored("old/a/index.md"), stored("old/b/index.md")],
            [page("new/b/index.md"), page("new/a/index.md")],
            {"new/a/index.md": "old/a/index.md", "new/b/index.md": "old/b/index.md"},
        ),
        ([stored("a.md"), stored("b.md")], [page("c.md")], {}),
        (
            [stored("a.md", title="A"), stored("b.md", title="B")],
            [page("d.md", title="B"), page("c.md", title="A")],
            {"c.md": "a.md", "d.md": "b.md"},
        ),
        ([stored("a.md"), stored("b.md", OTHER)], [page("c.md", OTHER)], {"c.md": "b.md"}),
        ([], [page("b.md")], {}),
        ([stored("a.md")], [], {}),
    ],
)
def test_a_page_is_known_again_by_its_text(
    gone: list[Stored], new: list[Document], moved: dict[str, str]
) -> None:
    assert find(gone, new) == moved


@pytest.mark.parametrize(
    ("new", "moved"),
    [
        (page("hr/b.md", EDITED), True),  # by its title
        (page("hr/a.md", EDITED, title="Time off"), True),  # by the name of its file
        (page("hr/b.md", EDITED, title="Time off"), False),  # by nothing but its words
        (page("hr/a.md", OTHER), False),  # another page of that name and title
    ],
)
def test_a_page_that_was_edited_too_is_known_by_its_title_or_name(
    new: Document, moved: bool
) -> None:
    assert find([stored("a.md")], [new]) == ({new.path: "a.md"} if moved else {})


def test_two_edited_pages_of_one_title_are_told_by_the_names_of_their_files() -> None:
    gone = [stored("a.md"), stored("b.md")]
    new = [page("hr/b.md", EDITED), page("hr/a.md", EDITED)]
    assert find(gone, new) == {"hr/a.md": "a.md", "hr/b.md": "b.md"}


def test_texts_of_few_words_are_compared_too() -> None:
    assert find([stored("a.md", "28 days")], [page("b.md", "30 days")]) == {}
    assert find([stored("a.md", "28 days")], [page("b.md", "28 days")]) == {"b.md": "a.md"}


def test_words_that_no_space_parts_are_compared_too() -> None:
    leave = "年次有給休暇は年間二十八日で、翌年の三月末までに取得してください。"
    edited, other = leave.replace("三月", "四月"), "受付は八時から十八時まで開いています。"
    for text, moved in ((edited, {"hr/b.md": "a.md"}), (other, {})):
        assert find([stored("a.md", leave)], [page("hr/b.md", text)]) == moved
