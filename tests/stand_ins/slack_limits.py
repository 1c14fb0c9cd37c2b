"""What Slack refuses in a message or a view, with the numbers of its Block Kit reference."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

POST_TEXT = 40_000
UPDATE_TEXT = 4_000
PROMPTS = 4
MESSAGE_BLOCKS = 50
VIEW_BLOCKS = 100
MARKDOWN_TEXT = 12_000  # summed over the markdown blocks of a message

VIEW_TITLE = 24  # also of what submits and closes it
OPTIONS = {"radio_buttons": 10, "static_select": 100, "external_select": 100}

# type of block: most elements
ELEMENTS = {"context": 10, "actions": 25, "context_actions": 5}
# type of element: key, most characters of its text or string
BUTTON = {"text": 75, "value": 2_000, "url": 3_000, "accessibility_label": 75}
CONFIRM = {"title": 100, "text": 300, "confirm": 30, "deny": 30}
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


def view_problems(view: Json) -> list[str]:
    """What is wrong with a modal, as problems."""
    blocks = view.get("blocks") or []
    found = [
        *(
            ["no more than 100 items allowed [json-pointer:/view/blocks]"]
            * (len(blocks) > VIEW_BLOCKS)
        ),
        *_too_long(view.get("private_metadata", ""), 3_000, "/private_metadata"),
        *_too_long(view.get("callback_id", ""), 255, "/callback_id"),
    ]
    for name in ("title", "submit", "close"):
        if name == "title" or name in view:
            found += _text(view.get(name), VIEW_TITLE, f"/{name}", kinds=("plain_text",))
    if "submit" not in view and any(block.get("type") == "input" for block in blocks):
        found.append("missing required field: submit [json-pointer:/view]")
    for number, block in enumerate(blocks):
        if block.get("type") in ("context_actions", "markdown"):
            found.append(f"unsupported type [json-pointer:/view/blocks/{number}/type]")
    return problems(blocks) + [f"[ERROR] {problem}" for problem in found]


def option_problems(options: Sequence[Json]) -> list[str]:
    """What is wrong with the options that an external_select is answered with, as problems."""
    return [f"[ERROR] {problem}" for problem in _options(options, 100, "/options")]


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
        if not isinstance(block.get("expand", False), bool):
            yield f"must be a boolean [json-pointer:/blocks{at}/expand]"
        if block.get("accessory"):
            yield from _element(block["accessory"], f"{at}/accessory")
    if kind == "header":
        yield from _text(block.get("text", {}), 150, f"{at}/text")
    if kind == "input":
        yield from _text(block.get("label"), 2_000, f"{at}/label", kinds=("plain_text",))
        yield from _element(block.get("element", {}), f"{at}/element")
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

    if kind in ("radio_buttons", "static_select") and not element.get("options"):
        yield f"must provide at least 1 item [json-pointer:/blocks{at}/options]"
    if kind in OPTIONS:
        yield from _options(element.get("options", []), OPTIONS[kind], f"{at}/options")
        initial = element.get("initial_option")
        if initial is not None:
            yield from _options([initial], 1, f"{at}/initial_option")
            if kind != "external_select" and initial not in element.get("options", []):
                yield f"initial_option is not among the options [json-pointer:/blocks{at}]"
    if "placeholder" in element:
        yield from _text(element["placeholder"], 150, f"{at}/placeholder", kinds=("plain_text",))
    if kind == "plain_text_input":
        most = element.get("max_length", 3_000)
        if not 0 < most <= 3_000:
            yield f"must be between 1 and 3000 [json-pointer:/blocks{at}/max_length]"
        yield from _too_long(element.get("initial_value", ""), most, f"{at}/initial_value")


def _options(options: Sequence[Json], at_most: int, at: str) -> Iterator[str]:
    yield from _too_many(options, at_most, at)
    for number, option in enumerate(options):
        yield from _text(option.get("text"), 75, f"{at}/{number}/text")
        yield from _too_long(option.get("value", ""), 150, f"{at}/{number}/value")
        if not option.get("value"):
            yield f"missing required field: value [json-pointer:/blocks{at}/{number}]"
        if "description" in option:
            yield from _text(option["description"], 75, f"{at}/{number}/description")


def _button(button: Json, at: str) -> Iterator[str]:
    yield from _text(button.get("text", {}), BUTTON["text"], f"{at}/text")
    for key in ("value", "url", "accessibility_label"):
        yield from _too_long(button.get(key, ""), BUTTON[key], f"{at}/{key}")
    for key, at_most in CONFIRM.items() if "confirm" in button else ():
        yield from _text(button["confirm"].get(key), at_most, f"{at}/confirm/{key}")


def _text(
    text: Any, at_most: int, at: str, kinds: Sequence[str] = ("mrkdwn", "plain_text", None)
) -> Iterator[str]:
    if not isinstance(text, Mapping):
        yield f"must be an object [json-pointer:/blocks{at}]"
        return
    if text.get("type") not in kinds:
        yield f"must be one of {kinds} [json-pointer:/blocks{at}/type]"
    if not text.get("text"):
        yield f"must be more than 0 characters [json-pointer:/blocks{at}/text]"
    yield from _too_long(text.get("text", ""), at_most, f"{at}/text")


def _too_long(text: str, at_most: int, at: str) -> Iterator[str]:
    if len(text) > at_most:
        yield f"must be less than {at_most + 1} characters [json-pointer:/blocks{at}]"


def _too_many(items: Sequence[object], at_most: int, at: str) -> Iterator[str]:
    if len(items) > at_most:
        yield f"no more than {at_most} items allowed [json-pointer:/blocks{at}]"
