"""DOCX to Markdown: by its styles to HTML, and from there as any page."""

import io
from typing import Any

import mammoth
from bs4 import BeautifulSoup

from retrieval.sources import fonts, html_markdown, page_notes, properties, word_parts
from retrieval.sources.reads import Page

# Word's built-in styles have these names in every language. Nested lists whose numbering does not
# say that they are nested say so by the name of their style; headers and footers are not read.
STYLES = "\n".join(
    [
        "p[style-name='Title'] => h1:fresh",
        "p[style-name='Subtitle'] => p:fresh",
        *(
            f"p[style-name='{name}'] => pre.code:separator('\\n')"
            for name in (
                "HTML Preformatted",
                "Source Code",
                "Code",
                "Code Block",
                "macro",
                "Listing",
            )
        ),
        "r[style-name='HTML Code'] => code",
        "r[style-name='Verbatim Char'] => code",
        *(
            f"p[style-name='List {name} {level}'] => "
            f"{'ul|ol > li > ' * (level - 1)}{tag} > li:fresh"
            for name, tag in (("Bullet", "ul"), ("Number", "ol"))
            for level in (2, 3, 4, 5)
        ),
    ]
)


def read(data: bytes) -> Page:
    """The text with its headings, lists, tables, code, links and notes; pictures are left out."""
    archive = properties.unpack(data)
    cleaned = word_parts.clean(archive)
    result = mammoth.convert_to_html(
        io.BytesIO(cleaned.data),
        style_map=STYLES,
        include_embedded_style_map=False,
        convert_image=mammoth.images.img_element(lambda image: {"src": ""}),
        transform_document=mammoth.transforms.paragraph(_find_code),
        external_file_access=False,
    )
    soup = BeautifulSoup(result.value, "lxml")
    for bookmark in soup.select("a[id]:not([href])"):
        item = bookmark.find_parent("li")
        if item and str(bookmark["id"]).startswith(word_parts.NUMBER):
            item["value"] = str(bookmark["id"]).removeprefix(word_parts.NUMBER)
        bookmark.unwrap()
    page_notes.place(soup)
    text, notes = html_markdown.build(soup.body) if soup.body else ("", ())
    for count, what in (
        (cleaned.equation_count, "equations"),
        (cleaned.hidden_count, "pieces of hidden text"),
    ):
        if count:
            notes += (f"{what} left out: {count:,}",)
    return Page(text=text, stated=properties.read(archive), notes=notes)


def _find_code(paragraph: Any) -> Any:
    """The paragraph, in the style of code where all of it is in a font of one width."""
    runs = [run for run in paragraph.children if getattr(run, "children", None)]
    names = [getattr(run, "font", None) or "" for run in runs]
    if runs and paragraph.style_id is None and all(map(fonts.is_monospaced, names)):
        return paragraph.copy(style_id="Code", style_name="Code")
    return paragraph
