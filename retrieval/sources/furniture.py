"""Which part of an HTML page is its text, and what of that is only the site's furniture."""

import re

from bs4 import BeautifulSoup, Comment, Tag

from retrieval.sources.reads import Unreadable

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")

# Where known programs put the text; the first that a page has counts.
_MAINS = (
    "#main-content.wiki-content",  # Confluence
    "#mw-content-text .mw-parser-output",  # MediaWiki
    "#mw-content-text",
    "#bodyContent",
    "[role=main] article",
    "main article",
    "[role=main]",
    "main",
    "article",
)
_GONE = (
    *("script", "style", "noscript", "template", "nav", "form", "button", "input", "select"),
    *("textarea", "svg", "canvas", "iframe", "object", "embed", "audio", "video"),
    *("dialog", "footer", "map", "link", "meta", "title"),
)
_ROLES = (
    *("navigation", "banner", "contentinfo", "search", "complementary", "menu", "menubar"),
    *("dialog", "alertdialog", "tablist", "toolbar"),
)
# By class, whole names or their parts between hyphens; by id, too, outside what is marked as main.
_NAMES = re.compile(
    r"(?:.*[-_])?(?:nav|navbar|navigation|navbox|sidenav|sidebar|breadcrumbs?|toc|toctree|tocify"
    r"|cookies?|consent|gdpr|skiplinks?|skip-link|skip-to-content|pagination|pager|prev-next"
    r"|headerlink|hash-link|anchor-link|anchorjs-link|edit-link|edit-page|edit-this-page|editsection"
    r"|noprint|printfooter|catlinks|jump-link|social|share|sharing|related-pages|back-to-top"
    r"|was-this-helpful|page-feedback|announcement-bar|site-header|site-footer|page-footer"
    r"|page-metadata|md-source-file|search-form|searchbox|comments?-section|rbtoc\d*)(?:[-_](?:container|wrapper"
    r"|banner|bar|box|list|links?|menu|macro|section|mobile|desktop|inner|outer|content|area))*",
    re.IGNORECASE,
)
_IDS = ("toc", "catlinks", "sitesub", "contentsub", "jump-to-nav", "attachments", "comments")
_CONTENTS = re.compile(r"(?:table of )?contents|on this page|in this (?:article|page)|inhalt", re.I)
_HIDDEN = re.compile(r"display\s*:\s*none|font-size\s*:\s*0")
# What has all of a page in it has it appear once the page is loaded.
_FADED = re.compile(r"visibility\s*:\s*hidden|opacity\s*:\s*0(?!\.)")
_KEPT = re.compile(r"h[1-6]|t[drh]|table|tbody|thead|body|html|main|article|section|pre|code")


def find_main(soup: BeautifulSoup) -> Tag:
    """The element that holds the page's text, without furniture; all else is left alone.

    Raises Unreadable where the text is there, but hidden.
    """
    found = next((element for each in _MAINS if (element := _find(soup, each))), None)
    main = found or soup.body or soup
    _carry_ids(main)
    most = len(main.get_text()) / 2
    was_hidden = False
    for comment in main.find_all(string=lambda text: isinstance(text, Comment)):
        comment.extract()
    for element in list(main.find_all(True)):
        if element.parent is None or not _is_furniture(element, marked=found is not None):
            continue
        # A page with its text in "content-with-sidebar" has it there all the same.
        is_gone = element.name in _GONE
        if is_gone or _stays_hidden(element) or len(element.get_text()) <= most:
            was_hidden |= is_hidden(element) and not is_gone and bool(element.get_text(strip=True))
            element.decompose()
    if was_hidden and not main.get_text(strip=True):
        raise Unreadable("all of its text is hidden, until a script of the site shows it")
    for listing in list(main.find_all(["ul", "ol"])):
        if listing.parent is not None and _is_contents(listing):
            _drop_contents(listing)
    for heading in main.find_all(HEADINGS):
        following = heading.find_next_sibling()
        is_empty = following is None or re.fullmatch(r"h[1-6]|section", following.name)
        if is_empty and _CONTENTS.fullmatch(heading.get_text(" ", strip=True)):
            heading.decompose()  # of a table of contents that has gone
    return main


def _carry_ids(main: Tag) -> None:
    """Have each heading itself hold the id that the site put on something within or round it."""
    for heading in main.find_all(HEADINGS):
        if heading.get("id"):
            continue
        within = heading.select_one("[id], a[name]")
        parent = heading.parent
        if within:
            heading["id"] = str(within.get("id") or within["name"])
        elif parent and parent.get("id") and _is_section(parent) and _is_first(heading):
            heading["id"] = str(parent["id"])


def _is_section(element: Tag) -> bool:
    """Whether it is what Sphinx, or docutils before 0.17, puts round a heading and its text."""
    return element.name == "section" or "section" in element.get_attribute_list("class")


def _is_first(heading: Tag) -> bool:
    before = heading.find_previous_siblings()
    return not any(element.get_text(strip=True) for element in before)


def _find(soup: BeautifulSoup, selector: str) -> Tag | None:
    """The one element of a kind; of several, as in a page of news, none is the page's text."""
    found = [each for each in soup.select(selector) if each.get_text(strip=True)]
    return found[0] if len(found) == 1 else None


def _is_furniture(element: Tag, *, marked: bool) -> bool:
    if element.name in _GONE or element.get("role") in _ROLES:
        return True
    if element.name == "header" and (not marked or not element.find(["h1", "h2"])):
        return not element.find("h1")
    if is_hidden(element):
        return True
    if element.name == "aside" and (not marked or _is_of_links(element)):
        return True
    if element.get("aria-hidden") == "true" and element.name in ("a", "span", "div", "i"):
        return True
    if _KEPT.fullmatch(element.name):
        return False
    identifier = str(element.get("id") or "")
    names = [str(name) for name in element.get_attribute_list("class") if name]
    # Confluence's two-right-sidebar and the like, and what docutils puts beside a text.
    if "columnLayout" in names or element.find(class_="sidebar-title", recursive=False):
        return False
    if identifier.lower() in _IDS or any(map(_NAMES.fullmatch, names)):
        return True
    return not marked and bool(_NAMES.fullmatch(identifier))


def _is_of_links(element: Tag) -> bool:
    """Whether an element leads elsewhere: most of its words are links."""
    words, linked = (
        sum(len(each.get_text(strip=True)) for each in elements)
        for elements in ([element], element.find_all("a"))
    )
    return 2 * linked >= words


def is_hidden(element: Tag) -> bool:
    """Whether readers do not see it: then it is not for them, and nobody knows who wrote it."""
    return _stays_hidden(element) or bool(_FADED.search(str(element.get("style") or "")))


def _stays_hidden(element: Tag) -> bool:
    return element.has_attr("hidden") or bool(_HIDDEN.search(str(element.get("style") or "")))


def _is_contents(listing: Tag) -> bool:
    """Whether a list is a table of contents: each item a link to a place on the same page."""
    items = listing.find_all("li")
    links = [item.find("a") for item in items]
    return len(items) > 2 and all(
        isinstance(link, Tag)
        and str(link.get("href") or "").startswith("#")
        and item.get_text(strip=True).startswith(link.get_text(strip=True))
        for item, link in zip(items, links, strict=True)
    )


def _drop_contents(listing: Tag) -> None:
    before = listing.find_previous_sibling()
    if isinstance(before, Tag) and _CONTENTS.fullmatch(
        before.get_text(" ", strip=True).rstrip(":")
    ):
        before.decompose()
    listing.decompose()
