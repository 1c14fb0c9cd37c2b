"""Plain text and MDX: what is no Markdown in them is not taken for it, or is taken out."""

from tests.retrieval.sources.formats import blocks, codes, headings, outline, read


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


def test_text_of_windows_is_read() -> None:
    assert read("Größe\r\nzwei\r\n".encode("utf-16"), "a.txt").text == "Größe\nzwei\n"


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
