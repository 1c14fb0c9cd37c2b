"""Nothing that a page, a name, a question or a model writes can page people or add a link."""

import random
import re
from collections.abc import Iterator
from datetime import date
from itertools import chain

from markdown_it import MarkdownIt

from app import abstaining, blocks, citations, markdown, mrkdwn
from app.abstaining import Searched
from app.citations import Piece
from app.records import Answer, Citation
from retrieval.records import Query
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
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_SOURCES = {SOURCE, _MARKDOWN.normalizeLink(SOURCE)}
_MENTION = re.compile(
    r"<(?:@[UW][A-Z0-9]+[|>]|#C[A-Z0-9]+[|>]|!(?:channel|everyone|here|subteam)).*"
)
_CALL = re.compile(r"(?<![^\W_])@(?:here|channel|everyone)(?![^\W_]|\.\w)|<[@!#].*")
_URL = re.compile(r"(?:\w+://|(?<![^\W_])www\.)[^\s)<>]+")
_LOOSE = re.compile(r"[<>]|&(?!(?:amp|lt|gt);)")


def build_texts(count: int) -> Iterator[str]:
    generator = random.Random(4)
    for _ in range(count):
        yield "".join(generator.choices(ATOMS, k=generator.randint(1, 9)))


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


def find_streamed_faults(text: str) -> list[str]:
    """What in Markdown Slack could take for more than text, but links to the source.

    Whatever it takes for code: a mention may be one there, too.
    """
    faults = _MENTION.findall(text)
    for token in _MARKDOWN.parse(text):
        for inline in token.children or []:
            if inline.type in ("link_open", "image"):
                url = str(inline.attrs.get("href") or inline.attrs.get("src"))
                faults += [url] * (url not in _SOURCES)
            elif inline.type == "text":
                faults += _CALL.findall(inline.content)
                faults += [url for url in _URL.findall(inline.content) if url not in _SOURCES]
            elif inline.type == "html_inline":
                faults.append(inline.content)
    return faults


def test_no_answer_that_grows_pages_anybody_or_adds_a_link() -> None:
    source = section("It says so.", url=SOURCE)
    for text in build_texts(INPUTS):
        pieces = [Piece(text=text), Piece(text=" So.", cited=((0, "It says so."),))]
        answer = citations.check(pieces, [source])
        assert answer.citations
        assert find_streamed_faults(markdown.build(answer.text)) == [], text


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
    for text in ["`<!here>`", "<@U1>", "[a](https://evil.example)", "@here", "a www.evil.example"]:
        assert find_streamed_faults(text), text
