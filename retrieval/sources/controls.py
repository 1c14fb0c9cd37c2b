"""A page's controls put into words: tabs, questions that open their answers, boxes to tick."""

import re
from collections.abc import Iterator, Mapping, Sequence

from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString

from retrieval.sources.furniture import HEADINGS, is_hidden

_HIDING = re.compile(r"(?:display|opacity|visibility)\s*:[^;]*;?")
_ITEMS = ("li", "td", "th", "dd")  # elsewhere, a box opens and closes a part of the page
_TOGGLE = re.compile(r"toggle|collaps|visually-hidden|sr-only")


def write_out(soup: BeautifulSoup) -> None:
    """Put what a click shows below the words that are clicked on, and say which boxes are ticked.

    What is hidden and has no such words stays hidden.
    """
    targets = {str(element["id"]): element for element in soup.select("[id]")}
    for heading in soup.find_all([*HEADINGS, "summary", "dt"]):
        buttons = heading.find_all("button")
        if _is_all(buttons, heading):
            for button in buttons:
                _show(_find_controlled(button, targets))
                button.unwrap()
    for names, tabs, panels in [_find_tabs(names, targets) for names in soup.find_all(_is_row)]:
        _name_panels(names, tabs, panels)
    for content in soup.select(".expand-control + .expand-content"):  # Confluence
        _show(content)
    for box in soup.select("input[type=checkbox], .checkbox-on, .checkbox-off"):
        if not _is_toggle(box) and (item := box.find_parent(_ITEMS)):
            is_ticked = box.has_attr("checked") or "checkbox-on" in _find_classes(box)
            _tick(box, item, is_ticked=is_ticked)
    for item in soup.select("ul.inline-task-list > li"):  # Confluence
        box = Tag(name="input")
        (item.find("p", recursive=False) or item).insert(0, box)
        _tick(box, item, is_ticked="checked" in _find_classes(item))


def _is_all(parts: Sequence[Tag], whole: Tag) -> bool:
    """Whether the parts have all of an element's words."""
    return sum(len(part.get_text(strip=True)) for part in parts) == len(whole.get_text(strip=True))


def _find_tabs(names: Tag, targets: Mapping[str, Tag]) -> tuple[Tag, list[Tag], list[Tag]]:
    """The names in a row, each of them, and their panels."""
    tabs = list(names.select("[role=tab]") or names.find_all("label"))
    return names, tabs, _find_panels(names, tabs, targets)


def _name_panels(names: Tag, tabs: Sequence[Tag], panels: Sequence[Tag]) -> None:
    """Have each panel begin with the name of its tab, in place of all the names in a row.

    What has the panels in it, as an accordion has below each name, stays as it is.
    """
    is_round = any(each is names for panel in panels for each in panel.parents)
    if is_round:
        del names["role"]
    if len(panels) != len(tabs) or any(map(is_hidden, (names, *names.parents))):
        return
    for tab, panel in zip(tabs, panels, strict=True):
        words = tab.get_text(" ", strip=True)
        if words and not is_round:
            paragraph, name = Tag(name="p"), Tag(name="strong")
            name.string = words
            paragraph.append(name)
            panel.insert(0, paragraph)
        _show(panel)
    if not is_round:
        names.decompose()


def _find_panels(names: Tag, tabs: Sequence[Tag], targets: Mapping[str, Tag]) -> list[Tag]:
    """The panels that the tabs name; else those among the names, or that follow them."""
    named = [panel for tab in tabs if (panel := _find_controlled(tab, targets))]
    if len(named) == len(tabs):
        return named
    return names.find_all(_is_panel) or list(_find_following(names))


def _find_following(names: Tag) -> Iterator[Tag]:
    """The panels that follow next, side by side, before any other names."""
    around = names.find_parent(_is_panel)
    first: Tag | None = None
    for element in names.next_elements:
        if not isinstance(element, Tag) or not (_is_panel(element) or _is_row(element)):
            continue
        if first is not None and element.parent is not first.parent:
            if any(each.parent is first.parent for each in element.parents if _is_panel(each)):
                continue  # within one of them
            return
        if _is_row(element) or element.find_parent(_is_panel) is not around:
            return
        first = first or element
        yield element


def _is_row(element: Tag) -> bool:
    """Whether it has the names of tabs in a row."""
    return element.get("role") == "tablist" or "tabbed-labels" in _find_classes(element)


def _is_panel(element: Tag) -> bool:
    return element.get("role") == "tabpanel" or "tabbed-block" in _find_classes(element)


def _find_classes(element: Tag) -> list[str]:
    return [str(name) for name in element.get_attribute_list("class")]


def _find_controlled(control: Tag, targets: Mapping[str, Tag]) -> Tag | None:
    places = map(control.get, ("aria-controls", "data-bs-target", "href"))
    return next((targets.get(str(each).removeprefix("#")) for each in places if each), None)


def _show(panel: Tag | None) -> None:
    if panel is not None:
        del panel["hidden"]
        panel["style"] = _HIDING.sub("", str(panel.get("style") or ""))


def _is_toggle(box: Tag) -> bool:
    """Whether a box opens and closes what is below it, and says nothing."""
    if is_hidden(box) or any(map(_TOGGLE.search, _find_classes(box))):
        return True
    label = box.find_next_sibling()
    if label is None or label.name != "label" or str(label.get("for")) != box.get("id"):
        return False
    return label.find_next_sibling(["ul", "ol"]) is not None


def _tick(box: Tag, item: Tag, *, is_ticked: bool) -> None:
    after = box.find_next(string=True)
    if after is not None and item in after.parents:
        words = after.lstrip()
        after.replace_with(*[NavigableString(words)] if words else [])
    if label := box.find_parent("label"):
        label.unwrap()
    box.replace_with(NavigableString("[x] " if is_ticked else "[ ] "))
