"""What Slack refuses in a message or a view, with the numbers of its Block Kit reference."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

POST_TEXT = 40_000
UPDATE_TEXT = 4_000
MESSAGE_BLOCKS = 50
VIEW_BLOCKS = 100
MARKDOWN_TEXT = 12_000  # summed over the markdown blocks of a message

# type of block: most elements
ELEMENTS = {"context": 10, "actions": 25, "context_actions": 5}
# type of element: key, most characters of its text or string
BUTTON = {"text": 75, "value": 2_000, "url": 3_000, "accessibility_label": 75}
KNOWN_BLOCKS = {
    *("section", "header", "divider", "image", "context", "actions", "context_actions"),
    *("markdown", "rich_text", "table", "input", "file", "video"),
}

Json = Mapping[str, Any]


def problems(blocks: Sequence[Json]) -> list[str]:
    """What is wrong with blocks, each as Slack words it, with a pointer; empty when all is well."""
    found = [
        problem for number, block in enumerate(blocks) for problem in _in_block(block, f"/{number}")
    ]
    markdown = "".join(block.get("text", "") for block in blocks if block.get("type") == "markdown")
    found += _too_long(markdown, MARKDOWN_TEXT, "")
    found += [
        f"block_id {block_id} already exists [json-pointer:/blocks]"
        for block_id, count in Counter(b["block_id"] for b in blocks if b.get("block_id")).items()
        if count > 1
    ]
    return [f"[ERROR] {problem}" for problem in found]


def _in_block(block: Json, at: str) -> Iterator[str]:
    kind = block.get("type")
    if kind not in KNOWN_BLOCKS:
        yield f"unsupported type: {kind} [json-pointer:/blocks{at}/type]"
    yield from _too_long(block.get("block_id", ""), 255, f"{at}/block_id")
    if kind == "section":
        if not block.get("text") and not block.get("fields"):
            yield f"missing required field: text [json-pointer:/blocks{at}]"
        if block.get("text"):
            yield from _text(block["text"], 3_000, f"{at}/text")
        yield from _too_many(block.get("fields", []), 10, f"{at}/fields")
        for number, text in enumerate(block.get("fields", [])):
            yield from _text(text, 2_000, f"{at}/fields/{number}")
        if block.get("accessory"):
            yield from _element(block["accessory"], f"{at}/accessory")
    if kind == "header":
        yield from _text(block.get("text", {}), 150, f"{at}/text")
    if kind == "markdown" and not block.get("text"):
        yield f"must be more than 0 characters [json-pointer:/blocks{at}/text]"
    if kind in ELEMENTS:
        elements = block.get("elements", [])
        if not elements:
            yield f"must provide at least 1 item [json-pointer:/blocks{at}/elements]"
        yield from _too_many(elements, ELEMENTS[kind], f"{at}/elements")
        for number, element in enumerate(elements):
            yield from _element(element, f"{at}/elements/{number}")


def _element(element: Json, at: str) -> Iterator[str]:
    kind = element.get("type")
    if kind in ("mrkdwn", "plain_text"):
        yield from _text(element, 3_000, at)
    yield from _too_long(element.get("action_id", ""), 255, f"{at}/action_id")
    if kind == "button":
        yield from _button(element, at)
    if kind == "feedback_buttons":
        for name in ("positive_button", "negative_button"):
            yield from _button(element.get(name, {}), f"{at}/{name}")


def _button(button: Json, at: str) -> Iterator[str]:
    yield from _text(button.get("text", {}), BUTTON["text"], f"{at}/text")
    for key in ("value", "url", "accessibility_label"):
        yield from _too_long(button.get(key, ""), BUTTON[key], f"{at}/{key}")


def _text(text: Any, at_most: int, at: str) -> Iterator[str]:
    if not isinstance(text, Mapping):
        yield f"must be an object [json-pointer:/blocks{at}]"
        return
    if not text.get("text"):
        yield f"must be more than 0 characters [json-pointer:/blocks{at}/text]"
    yield from _too_long(text.get("text", ""), at_most, f"{at}/text")


def _too_long(text: str, at_most: int, at: str) -> Iterator[str]:
    if len(text) > at_most:
        yield f"must be less than {at_most + 1} characters [json-pointer:/blocks{at}]"


def _too_many(items: Sequence[object], at_most: int, at: str) -> Iterator[str]:
    if len(items) > at_most:
        yield f"no more than {at_most} items allowed [json-pointer:/blocks{at}]"
