"""Plain text and MDX: what is no Markdown in them is not taken for it, or is taken out."""

import pytest

from retrieval.sources.reads import Read, Skipped
from tests.retrieval.sources.formats import blocks, codes, headings, outline, read, try_read


def test_plain_text_keeps_its_paragraphs() -> None:
    text = "Notes\n\n# one\nsecond line\n\n> two\n"
    document = read(text, "notes/pump-room.txt")
    assert document.title == "pump room"
    assert blocks(document.text) == [
        ("paragraph", "Notes"),
        ("paragraph", "\\# one\nsecond line"),
        ("paragraph", "\\> two"),
    ]


def test_plain_text_that_begins_as_markdown_is_markdown() -> None:
    assert headings(read("# Pumps\n\n## Oil\n\nISO 46.\n", "a.txt").text) == ["Pumps > Oil"]


@pytest.mark.parametrize("path", ["a.txt", "a.md"])
def test_text_of_windows_is_read(path: str) -> None:
    assert read("Größe\r\nzwei\r\n".encode("utf-16"), path).text == "Größe\nzwei\n"


@pytest.mark.parametrize(
    ("text", "encoding", "reason"),
    [
        ("Größe, sagt man\n", "utf-16-le", "not text, or UTF-16 without its mark"),
        ("Das Café hat zu.\n", "cp1252", "not UTF-8 at byte 7, it looks like Windows-1252"),
        ("Кафе закрыто.\n", "cp1251", "not UTF-8 at byte 0"),
    ],
)
def test_what_is_not_in_utf_8_is_told_with_what_it_looks_like(
    text: str, encoding: str, reason: str
) -> None:
    found = try_read(text.encode(encoding), "a.md")
    assert found == Skipped(path="a.md", reason=f"{reason}; save it as UTF-8")


def test_plain_text_of_an_older_windows_is_read_with_a_note() -> None:
    found = try_read("Das Café öffnet um 9 – immer.\n".encode("cp1252"), "a.txt")
    assert isinstance(found, Read)
    assert found.document.text == "Das Café öffnet um 9 – immer.\n"
    assert found.notes == ("not UTF-8, read as Windows-1252; save it as UTF-8",)
    assert isinstance(try_read("Кафе закрыто.\n".encode("cp1251"), "a.txt"), Skipped)


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("Parking v2.1 final.txt", "Parking v2.1 final"),
        ("how-to.de.md", "how to"),
        ("how_to.md", "how to"),
    ],
)
def test_a_title_is_the_name_of_the_file_where_there_is_no_other(path: str, title: str) -> None:
    assert read("Some words.\n", path).title == title


MDX = """---
title: Install
owner: Tools
---
import Tabs from '@theme/Tabs'
import {
  Card,
} from './card'

export const version = "2.1"

# Install

{/* nobody reads this */}
<Tabs groupId="os" values={[{label: 'Linux', value: 'l'}]}>
  <TabItem value="linux" label="Linux">

    Run this:

    ```bash
    # import is no statement here
    import fs from 'fs'
    <Tabs>
    ```

  </TabItem>
  <TabItem value="mac">
    - one
      - two
  </TabItem>
</Tabs>

Use <Badge>new</Badge> releases of `<Card>` and
<Card title="Not &amp; shown" href={`/x/${y}`} /> importing is easy.

import is a word here.
"""


def test_mdx_loses_what_is_program_and_keeps_what_is_text() -> None:
    document = read(MDX, "docs/install.mdx")
    text = document.text
    assert (document.title, document.owner) == ("Install", "Tools")
    assert headings(text) == ["Install"]
    assert "**Linux**" in text
    assert ("paragraph", "Run this:") in blocks(text)
    assert codes(text) == [("bash", "# import is no statement here\nimport fs from 'fs'\n<Tabs>\n")]
    assert outline(text) == ["one", ["two"]]
    assert "Use new releases of `<Card>` and\nimporting is easy." in text
    assert "import is a word here." in text
    for program in ("theme", "version", "nobody", "<TabItem", "groupId", "href", "export"):
        assert program not in text


def test_markdown_is_not_taken_for_mdx() -> None:
    assert read(MDX, "docs/install.md").text.startswith("import Tabs")
