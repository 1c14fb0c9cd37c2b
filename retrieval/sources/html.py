"""HTML pages, of Confluence's space export, MediaWiki's or any other site, to Markdown."""

import re
import warnings
from collections.abc import Iterator

from bs4 import BeautifulSoup, Tag, XMLParsedAsHTMLWarning

from retrieval.sources import controls, furniture, html_markdown, page_notes
from retrieval.sources.fields import Fields, normalize, one_line
from retrieval.sources.reads import Page, Unreadable

_UPDATED = (
    *("article:modified_time", "last-modified", "dcterms.modified", "dc.date.modified"),
    *("og:updated_time", "last-updated"),
)
# Confluence's "last modified by Ana on Jan 12, 2026", MediaWiki's "last edited on 3 March 2026".
_EDITED = re.compile(
    r"(?:created|modified|edited|updated)\b.{0,200}?\bon\s+(\w[\w ,]{6,20}\d{4})",
    re.DOTALL | re.IGNORECASE,
)
_MODIFIED = re.compile(r'"dateModified"\s*:\s*"([^"]+)"')
# Elsewhere than in its author's own fields, what a page holds is what somebody wrote there.
_PROPERTIES = (
    "div.plugin-tabmeta-details table, table.infobox.page-properties, header > table.properties"
)
# What search engines are told of an audience; anything else is meant for us, and must be right.
_FOREIGN = re.compile(
    r"(?:(?:all|everyone|general|global|developers|end users)(?:\s*,\s*|\s*$))+", re.IGNORECASE
)


def read(data: bytes) -> Page:
    """A page's text without the site's furniture, and what its head and properties say.

    Raises Unreadable for what is nested too deep to be a page.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)  # XHTML reads well as HTML
        soup = BeautifulSoup(data, "lxml")
    try:
        stated = _read_fields(soup)
        controls.write_out(soup)
        page_notes.place(soup)
        text, notes = html_markdown.build(furniture.find_main(soup))
        return Page(text=text, stated=stated, notes=notes)
    except RecursionError as error:
        raise Unreadable("nested too deep; save it anew in the program that wrote it") from error


def _read_fields(soup: BeautifulSoup) -> Fields:
    properties = dict(_find_properties(soup))
    metas = dict(_find_metas(soup))
    found = {"title": _find_title(soup), "updated": _find_updated(soup, metas)}
    language = one_line(soup.html.get("lang")) if soup.html else None
    # Many a template says English whatever is written into it.
    if language and not language.lower().startswith("en"):
        found["lang"] = language
    return normalize({**found, **metas, **properties})


def _find_metas(soup: BeautifulSoup) -> Iterator[tuple[str, str]]:
    for meta in soup.find_all("meta"):
        name = meta.get("name") or meta.get("property") or meta.get("http-equiv")
        content = str(meta.get("content") or "")
        name = str(name or "").lower()
        is_foreign = name == "audience" and _FOREIGN.fullmatch(content.strip())
        if name and content and name != "title" and not is_foreign:
            yield name, content


def _find_properties(soup: BeautifulSoup) -> Iterator[tuple[str, str]]:
    """The rows of Confluence's page properties, and of Notion's."""
    for table in soup.select(_PROPERTIES):
        for row in table.find_all("tr"):
            cells = row.find_all(["th", "td"])
            if len(cells) == 2:
                yield cells[0].get_text(" ", strip=True), cells[1].get_text(" ", strip=True)


def _find_title(soup: BeautifulSoup) -> str | None:
    heading = soup.select_one("#title-text") or soup.select_one("#firstHeading")
    if heading:
        words = " ".join(heading.get_text().split())
        # Confluence puts the space's name before it.
        return words.split(" : ", 1)[-1] if heading.get("id") == "title-text" else words
    headings = soup.find_all("h1")
    if len(headings) == 1 and isinstance(headings[0], Tag):
        return None  # the text's own
    return " ".join(soup.title.get_text().split()) if soup.title else None


def _find_updated(soup: BeautifulSoup, metas: Fields) -> str | None:
    for name in _UPDATED:
        if name in metas:
            return str(metas[name])
    for element in soup.select(".page-metadata, #footer-info-lastmod, #lastmod"):
        if match := _EDITED.search(element.get_text(" ")):
            return " ".join(match[1].split())
    if stamp := soup.select_one("time[itemprop=dateModified][datetime]"):
        return str(stamp["datetime"])
    scripts = soup.find_all("script", type="application/ld+json")
    matches = (_MODIFIED.search(script.get_text()) for script in scripts)
    return next((match[1] for match in matches if match), None)
