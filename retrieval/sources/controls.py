"""A page's controls put into words: tabs, questions that open their answers, boxes to tick."""

import re
from collections.abc import Mapping, Sequence

from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString

from retrieval.sources.furniture import HEADINGS, is_hidden

_PANELS = "[role=tabpanel], .tabbed-block"
_HIDING = re.compile(r"(?:display|opacity|visibility)\s*:[^;]*;?")
_ITEMS = ("li", "td", "th", "dd", "p")  # elsewhere, a box opens and closes a part of the page


def write_out(soup: BeautifulSoup) -> None:
    """Put what a click shows below the words that are clicked on, and say which boxes are ticked.

    What is hidden and has no such words stays hidden.
    """
    targets = {str(element["id"]): element for element in soup.select("[id]")}
    for button in soup.find_all("button"):
        heading = button.find_parent((*HEADINGS, "summary", "dt"))
        if heading and _is_all(heading.find_all("button"), heading):
            _show(_find_controlled(button, targets))
            button.unwrap()
    for names in soup.select("[role=tablist], .tabbed-labels"):
        _name_panels(names, targets)
    for content in soup.select(".expand-control + .expand-content"):  # Confluence
        _show(content)
    for box in soup.select("input[type=checkbox], .checkbox-on, .checkbox-off"):
        if item := box.find_parent(_ITEMS):
            is_ticked = box.has_attr("checked") or "checkbox-on" in box.get_attribute_list("class")
            _tick(box, item, is_ticked=is_ticked)
    for item in soup.select("ul.inline-task-list > li"):  # Confluence
        box = Tag(name="input")
        (item.find("p", recursive=False) or item).insert(0, box)
        _tick(box, item, is_ticked="checked" in item.get_attribute_list("class"))


def _is_all(parts: Sequence[Tag], whole: Tag) -> bool:
    """Whether the parts have all of an element's words."""
    return sum(len(part.get_text(strip=True)) for part in parts) == len(whole.get_text(strip=True))


def _name_panels(names: Tag, targets: Mapping[str, Tag]) -> None:
    """Have each panel begin with the name of its tab, in place of all the names in a row."""
    tabs = names.select("[role=tab]") or names.find_all("label")
    panels = _find_panels(names, tabs, targets)
    if len(panels) != len(tabs) or any(map(is_hidden, (names, *names.parents))):
        return
    for tab, panel in zip(tabs, panels, strict=True):
        if words := tab.get_text(" ", strip=True):
            paragraph, name = Tag(name="p"), Tag(name="strong")
            name.string = words
            paragraph.append(name)
            panel.insert(0, paragraph)
        _show(panel)
    names.decompose()


def _find_panels(names: Tag, tabs: Sequence[Tag], targets: Mapping[str, Tag]) -> list[Tag]:
    """The panels that the tabs name; else those round the names, without panels within them."""
    named = [panel for tab in tabs if (panel := _find_controlled(tab, targets))]
    if len(named) == len(tabs):
        return named
    around = (list(parent.select(_PANELS)) for parent in names.parents)
    found: list[Tag] = next(filter(None, around), [])
    inner = {id(each) for panel in found for each in panel.select(_PANELS)}
    return [panel for panel in found if id(panel) not in inner]


def _find_controlled(control: Tag, targets: Mapping[str, Tag]) -> Tag | None:
    places = map(control.get, ("aria-controls", "data-bs-target", "href"))
    return next((targets.get(str(each).removeprefix("#")) for each in places if each), None)


def _show(panel: Tag | None) -> None:
    if panel is not None:
        del panel["hidden"]
        panel["style"] = _HIDING.sub("", str(panel.get("style") or ""))


def _tick(box: Tag, item: Tag, *, is_ticked: bool) -> None:
    after = box.find_next(string=True)
    if after is not None and item in after.parents:
        words = after.lstrip()
        after.replace_with(*[NavigableString(words)] if words else [])
    if label := box.find_parent("label"):
        label.unwrap()
    box.replace_with(NavigableString("[x] " if is_ticked else "[ ] "))
