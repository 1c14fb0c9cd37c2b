"""Markdown as Slack shows it: readable, and safe whatever it says."""

import pytest

from app import mrkdwn

SOURCE = "https://wiki.example/leave"


def shown(markdown: str) -> str:
    return "\n\n".join(mrkdwn.build_parts(markdown, urls=[SOURCE], limit=3_000))


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("It takes **30 s** [1].", "It takes *30 s* [1]."),
        ("*really* ~~not~~ `x_y`", "_really_ ~not~ `x_y`"),
        ("# Steps **now**", "*Steps now*"),
        ("**30**s, pre*fix*, **a**(b)", "30s, prefix, *a*(b)"),  # Slack would show the marks
        ("- a\n- b\n  1. c\n  2. d", "• a\n• b\n    1. c\n    2. d"),
        ("3. c\n4. d\n\n   more", "3. c\n4. d\n    more"),
        ("- \n- b", "•\n• b"),
        ("> one\n>\n> two", "> one\n\n> two"),
        ("one\ntwo  \nthree", "one two\nthree"),
        ("a\n\n---\n\nb", "a\n\nb"),
        ("![the plan](https://x.example/a.png)", "the plan"),
        ("```sh\necho $A > b\n```", "```\necho $A &gt; b\n```"),
        ("1. run\n   ```\n   a\n     b\n   ```\n2. wait", "1. run\n```\na\n  b\n```\n2. wait"),
        ("`` a`b ``", "a`b"),
        ("PAYMENTS_WEBHOOK_SECRET = 2 * 3 * 4", "PAYMENTS_WEBHOOK_SECRET = 2 * 3 * 4"),
    ],
)
def test_markdown_becomes_mrkdwn(markdown: str, expected: str) -> None:
    assert shown(markdown) == expected


def test_markers_are_shown_and_code_is_not_touched() -> None:
    text = "Take `items[1]`, not items[2] [1][2].\n\n```\narr[2]\n```\n\n[1]: https://evil.example"
    assert shown(text) == (
        "Take `items[1]`, not items[2] [1][2].\n\n```\narr[2]\n```\n\n[1]: https://evil.example"
    )


def test_a_marker_made_a_link_is_a_marker_again() -> None:
    assert shown("Five days [1](https://wiki.example/leave).") == "Five days [1]."


def test_p29_an_address_stays_whole_and_can_be_clicked() -> None:
    address = "payroll-help@corp.example"
    assert shown(f"Write to {address}.") == f"Write to <mailto:{address}|{address}>."
    assert shown(f"Write to <{address}>.") == f"Write to <mailto:{address}|{address}>."
    assert shown(f"Write to `{address}`.") == f"Write to `{address}`."
    assert shown("ssh git@host") == "ssh git@host"
    assert shown(f"```\n{address}\n```") == f"```\n{address}\n```"


def test_an_address_behind_a_label_is_shown_without_what_else_the_link_would_send() -> None:
    linked = "<mailto:hr@corp.example|hr@corp.example>"
    assert shown("[HR](mailto:hr@corp.example?body=secret)") == f"HR ({linked})"
    assert shown("[hr@corp.example](mailto:hr@corp.example)") == linked
    assert shown("[HR](mailto:everybody)") == "HR"


def test_p31_html_becomes_line_breaks_and_text() -> None:
    assert shown("line1<br>line2<br/>line3") == "line1\nline2\nline3"
    assert shown('<div class="a">\n\n<b>x</b> y\n\n</div>') == "x y"
    assert shown("restart <service> on <host-1>") == "restart &lt;service&gt; on &lt;host-1&gt;"


def test_only_links_to_sources_can_be_followed() -> None:
    text = (
        "[ours](https://wiki.example/leave) [evil](https://evil.example/?q=secret) "
        "https://evil.example [mail](mailto:x@evil.example) <https://evil.example/a>"
    )
    assert shown(text) == (
        "<https://wiki.example/leave|ours> evil https://evil.example "
        "mail (<mailto:x@evil.example|x@evil.example>) https://evil.example/a"
    )


def test_p32_a_table_is_aligned_and_may_have_empty_cells() -> None:
    table = "| Code | Step | Who |\n|---|---|---|\n| **E1** | | `ops` |\n| E<2 | a<br>b | all [1] |"
    assert shown(table) == (
        "```\nCode  Step  Who\n────  ────  ───────\nE1          ops\nE&lt;2   a b   all [1]\n```"
    )


def test_a_wide_table_becomes_a_list() -> None:
    meaning = "the queue stands still " * 4
    table = f"| Code | Meaning | Who |\n|---|---|---|\n| E1 | {meaning} | ops |\n| E2 | | all |"
    assert shown(table) == (
        f"• *E1*\n    Meaning: {meaning.strip()}\n    Who: ops\n• *E2*\n    Who: all"
    )


def test_an_address_in_a_wide_table_can_be_clicked() -> None:
    table = f"| Team | What for | Mail |\n|---|---|---|\n| HR | {'leave ' * 20} | hr@corp.example |"
    assert shown(table).endswith("Mail: <mailto:hr@corp.example|hr@corp.example>")


@pytest.mark.parametrize("text", ["[" * 20_000, "<" * 20_000, "a." * 10_000 + "@", "`a" * 9_999])
def test_text_that_looks_like_markup_throughout_is_cut_and_kept(text: str) -> None:
    parts = mrkdwn.build_parts(text, urls=[], limit=3_000)
    assert max(map(len, parts)) <= 3_000
    assert "".join(parts).replace("&lt;", "<") == text


def test_text_is_cut_between_paragraphs_then_lines_then_words() -> None:
    def cut(markdown: str) -> list[str]:
        return mrkdwn.build_parts(markdown, urls=[SOURCE], limit=60)

    assert cut("word word\n\n" + "x" * 55) == ["word word", "x" * 55]
    assert cut("a b  \n" + "word " * 12) == ["a b", "word " * 11 + "word"]
    assert cut("x" * 50 + " `code of many words`") == ["x" * 50, "`code of many words`"]
    assert cut("x" * 50 + f" [a label]({SOURCE})") == ["x" * 50, f"<{SOURCE}|a label>"]
    assert cut("x" * 58 + "<b") == ["x" * 58, "&lt;b"]
    assert cut("```\n" + "line\n" * 12 + "```") == [
        "```\n" + "\n".join(["line"] * number) + "\n```" for number in (10, 2)
    ]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("how  long\nis it?", "how long is it?"),
        ("<!channel> & <@U1>", "&lt;!channel&gt; &amp; &lt;@U1&gt;"),
        ("what is ERR_2041?", "what is ERR_2041?"),
        ("is this *urgent*?", "`is this *urgent*?`"),
        ("`a` <b>", "`'a' &lt;b&gt;`"),
        ("a\u202eb\u200bc", "abc"),
        ("x" * 11, "x" * 9 + "…"),
        ("*" * 11, "`*********…`"),
    ],
)
def test_words_of_somebody_are_shown_as_they_are_on_one_line(text: str, quoted: str) -> None:
    assert mrkdwn.quote(text, 10 if len(text) == 11 else 40) == quoted


def test_lines_share_a_text_as_far_as_it_goes() -> None:
    assert mrkdwn.join_lines(["ab", "c", "def", "g"], 4) == ["ab\nc", "def", "g"]
    assert mrkdwn.join_lines([], 4) == []
