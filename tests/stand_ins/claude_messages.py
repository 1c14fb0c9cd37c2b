"""Claude's side of the Messages API: what it refuses, and how it answers; pure."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from anthropic.types.message_create_params import MessageCreateParamsBase

Json = dict[str, Any]
PARAMETERS = {*MessageCreateParamsBase.__annotations__, "stream"}


class Cite(NamedTuple):
    """Blocks of one search result. Claude quotes them word for word; cited_text makes it lie."""

    search_result_index: int  # from 0, over all search results of the request
    start_block: int
    end_block: int  # exclusive
    cited_text: str | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """One text block of a reply."""

    text: str
    cites: Sequence[tuple[int, int, int] | Cite] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    parts: Sequence[Text]
    stop_reason: str = "end_turn"


class Invalid(Exception):
    """Claude answers 400 invalid_request_error with this message."""


def obedient(body: Mapping[str, Any]) -> list[Text]:
    """The first block of the first search result, quoted and cited; JSON where that is asked."""
    if schema := _schema(body):
        return [Text(json.dumps(_conforming(schema)))]
    found = search_results(body)
    if not found:
        return [Text("There is nothing to cite.")]
    if not _citing(found[0]):
        return [Text(found[0]["content"][0]["text"])]
    return [Text("It says: "), Text(found[0]["content"][0]["text"], cites=[(0, 0, 1)])]


def parse_reply(canned: Mapping[str, Any]) -> Reply:
    """A Reply from JSON: {"parts": [{"text": …, "cites": [[0, 0, 1]]}], "stop_reason": …}."""
    parts = [
        Text(part["text"], cites=[Cite(*cite) for cite in part.get("cites", [])])
        for part in canned["parts"]
    ]
    return Reply(parts=parts, stop_reason=canned.get("stop_reason", "end_turn"))


def search_results(body: Mapping[str, Any]) -> list[Json]:
    """The search results of a request in the order of their indexes, tool results included."""
    found = []
    for block in _blocks(body):
        nested = block.get("content") if block.get("type") == "tool_result" else [block]
        found += [inner for inner in nested or [] if inner["type"] == "search_result"]
    return found


def check_request(body: Mapping[str, Any]) -> None:
    """Raise Invalid for a request that Claude would refuse, or one that is not ours to send.

    Stricter than Claude in two ways: turns must alternate, which Claude would join, and the last
    one must be the user's, where older models continue a started answer.
    """
    for name in ("model", "max_tokens", "messages"):
        if not body.get(name):
            raise Invalid(f"{name}: Field required")
    for name in body.keys() - PARAMETERS:
        raise Invalid(f"{name}: Extra inputs are not permitted")
    roles = [message.get("role") for message in body["messages"]]
    if roles != [("user", "assistant")[number % 2] for number in range(len(roles))]:
        raise Invalid('messages: roles must alternate between "user" and "assistant"')
    if roles[-1] != "user":
        raise Invalid("The conversation must end with a user message.")
    for number, message in enumerate(body["messages"]):
        _check_content(message.get("content"), f"messages.{number}.content")
    if body.get("system") is not None:
        _check_content(body["system"], "system")
    citing = {_citing(result) for result in search_results(body)}
    if len(citing) == 2:
        raise Invalid("citations must be enabled for all search results or for none")
    if True in citing and _schema(body):
        raise Invalid("output_config.format: citations and structured outputs do not go together")
    _check_schema(_schema(body), "output_config.format.schema")
    if (body.get("thinking") or {}).get("type") == "enabled":
        raise Invalid('"thinking.type.enabled" is not supported for this model.')


def build_message(body: Mapping[str, Any], reply: Reply, message_id: str) -> Json:
    """The answer as one Message. Tokens are a quarter of the characters, rounded up.

    Raises Invalid for a reply that Claude could not give to this request.
    """
    blocks = [_build_block(part, search_results(body)) for part in reply.parts]
    read = sum(len(block.get("text", "")) for block in _blocks(body))
    read += sum(len(b["text"]) for result in search_results(body) for b in result["content"])
    written = sum(len(block["text"]) for block in blocks)
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": blocks,
        "stop_reason": reply.stop_reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": math.ceil(read / 4),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": math.ceil(written / 4),
        },
    }


def build_events(
    message: Json, *, piece_characters: int, citations_first: bool
) -> Iterator[tuple[str, Json]]:
    """The same Message as the events of a stream: name, data."""
    usage = message["usage"]
    opening: Json = {"content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield _event("message_start", message={**message, **opening})
    for index, block in enumerate(message["content"]):
        yield _event("content_block_start", index=index, content_block=_emptied(block))
        if index == 0:
            yield _event("ping")
        citations = [
            {"type": "citations_delta", "citation": citation}
            for citation in block.get("citations", [])
        ]
        texts = [
            {"type": "text_delta", "text": block["text"][start : start + piece_characters]}
            for start in range(0, len(block["text"]), piece_characters)
        ]
        for delta in [*citations, *texts] if citations_first else [*texts, *citations]:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ending = {key: message[key] for key in ("stop_reason", "stop_sequence")}
    yield _event("message_delta", delta=ending, usage={"output_tokens": usage["output_tokens"]})
    yield _event("message_stop")


def _event(name: str, **data: object) -> tuple[str, Json]:
    return name, {"type": name, **data}


def _emptied(block: Json) -> Json:
    return {**block, "text": "", **({"citations": []} if "citations" in block else {})}


def _build_block(part: Text, found: Sequence[Json]) -> Json:
    if not part.cites:
        return {"type": "text", "text": part.text}
    citations = [_build_citation(Cite(*cite), found) for cite in part.cites]
    return {"citations": citations, "type": "text", "text": part.text}


def _build_citation(cite: Cite, found: Sequence[Json]) -> Json:
    result = found[cite.search_result_index] if cite.search_result_index < len(found) else {}
    quoted = result.get("content", [])[cite.start_block : cite.end_block]
    if cite.cited_text is None and (not quoted or not _citing(result)):
        raise Invalid(f"stand-in: the scripted {cite} is not among the cited blocks of the request")
    text = "".join(block["text"] for block in quoted)
    return {
        "type": "search_result_location",
        "cited_text": text if cite.cited_text is None else cite.cited_text,
        "source": result.get("source", ""),
        "title": result.get("title"),
        "search_result_index": cite.search_result_index,
        "start_block_index": cite.start_block,
        "end_block_index": cite.end_block,
    }


def _schema(body: Mapping[str, Any]) -> Json:
    """The JSON schema of the answer; empty where none is asked for."""
    schema: Json = ((body.get("output_config") or {}).get("format") or {}).get("schema") or {}
    return schema


def _check_schema(schema: Json, at: str) -> None:
    """What structured outputs do not take, as their documentation lists it."""
    for name in schema.keys() & {"minimum", "maximum", "minLength", "maxLength", "maxItems"}:
        raise Invalid(f"{at}: For '{schema['type']}' type, property '{name}' is not supported")
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            raise Invalid(f"{at}: For 'object' type, 'additionalProperties' must be set to false")
        for name, inner in schema["properties"].items():
            _check_schema(inner, f"{at}.{name}")
    if schema.get("type") == "array":
        _check_schema(schema["items"], f"{at}.items")


def _conforming(schema: Json) -> Any:
    """A value that the schema allows."""
    if schema["type"] == "object":
        return {name: _conforming(inner) for name, inner in schema["properties"].items()}
    return [_conforming(schema["items"])] * 2 if schema["type"] == "array" else "stand-in"


def _citing(result: Mapping[str, Any]) -> bool:
    return bool((result.get("citations") or {}).get("enabled"))


def _blocks(body: Mapping[str, Any]) -> Iterator[Json]:
    for message in [{"content": body.get("system") or []}, *body["messages"]]:
        content = message["content"]
        yield from [{"type": "text", "text": content}] if isinstance(content, str) else content


def _check_content(content: Any, at: str) -> None:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or not content:
        raise Invalid(f"{at}: all messages must have non-empty content")
    for number, block in enumerate(content):
        _check_block(block, f"{at}.{number}")


def _check_block(block: Json, at: str) -> None:
    kind = block.get("type")
    if kind == "text":
        if not str(block.get("text", "")).strip():
            raise Invalid(f"{at}.text: text content blocks must contain non-whitespace text")
    elif kind == "search_result":
        _check_search_result(block, at)
    elif kind == "tool_result":
        _check_content(block.get("content"), f"{at}.content")
    elif kind != "tool_use":
        raise Invalid(f"{at}: Input tag {kind!r} is not one that the stand-in knows")


def _check_search_result(block: Json, at: str) -> None:
    for name in ("source", "title"):
        if not isinstance(block.get(name), str) or not block[name]:
            raise Invalid(f"{at}.{name}: Field required")
    for name in block.keys() - {"type", "source", "title", "content", "citations", "cache_control"}:
        raise Invalid(f"{at}.{name}: Extra inputs are not permitted")
    content = block.get("content")
    if not isinstance(content, list) or any(inner.get("type") != "text" for inner in content):
        raise Invalid(f"{at}.content: a search result holds a list of text blocks")
    _check_content(content, f"{at}.content")
