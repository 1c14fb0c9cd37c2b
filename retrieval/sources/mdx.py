"""MDX to Markdown: imports, exports and the tags of components go, the text within them stays."""

import re
from dataclasses import replace

from retrieval.sources import markdown
from retrieval.sources.reads import Page

_FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<mark>```+|~~~+).*?(?:^[ \t]*(?P=mark)[`~]*[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_CODE = re.compile(r"`[^`\n]+`")
_KEPT = re.compile(r"(?P<indent>^[ \t]*)?\0(?P<number>\d+)\0", re.MULTILINE)
# A statement ends at an empty line, as in MDX.
_STATEMENT = re.compile(
    r"^(?:import\s+(?:['\"{*]|\w+\s*,\s*\{|\w.*\bfrom\s*['\"])|export\s+(?:const|let|var|default|function|class|\{|\*))"
    r".*(?:\n[ \t]*\S.*)*\n?",
    re.MULTILINE,
)
_COMMENT = re.compile(r"\{\s*/\*.*?\*/\s*\}", re.DOTALL)
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})"
_ATTRIBUTE = rf"(?:[A-Za-z_][\w:.-]*(?:\s*=\s*{_VALUE})?|\{{\.\.\.[^{{}}]*\}})"
_TAG = re.compile(rf"</?(?:[A-Z][\w.]*(?:\s+{_ATTRIBUTE})*\s*/?)?>")
_LABEL = re.compile(rf"\b(?:title|label|summary)\s*=\s*({_VALUE})")


def read(text: str) -> Page:
    """The file's Markdown. What a component's title or label says stays, in bold."""
    page = markdown.read(text)
    kept: list[str] = []
    indents: list[int] = []  # of what is kept, in the file

    def keep(match: re.Match[str]) -> str:
        kept.append(match[0].lstrip(" \t"))
        indent = match[0][: len(match[0]) - len(kept[-1])]
        indents.append(len(indent))
        return f"{indent}\0{len(kept) - 1}\0"

    def put_back(match: re.Match[str]) -> str:
        number = int(match["number"])
        less = indents[number] - len(match["indent"] or "")
        return (match["indent"] or "") + re.sub(rf"\n[ \t]{{0,{max(less, 0)}}}", "\n", kept[number])

    body = _CODE.sub(keep, _FENCE.sub(keep, page.text))
    body = _COMMENT.sub("", _STATEMENT.sub("", body))
    body = re.sub(r"\n{3,}", "\n\n", _take_out_tags(body))
    return replace(page, text=_KEPT.sub(put_back, body))


def _take_out_tags(text: str) -> str:
    """The text without tags; what was indented within them begins its lines, or it were code."""
    lines = []
    depths: list[int] = []  # of each tag that is open, by how much its content is indented
    for line in _TAG.sub(lambda match: match[0].replace("\n", " "), text).split("\n"):
        tags = _TAG.findall(line)
        if not tags:
            indent = len(line) - len(line.lstrip())
            if depths and line.strip():
                depths[-1] = indent if depths[-1] < 0 else min(depths[-1], indent)
            lines.append(line[max(depths[-1], 0) :] if depths else line)
            continue
        # A label stands for itself where its tag does; within a sentence it would break it up.
        words = _TAG.sub("", line).strip()
        lines.append(words or _TAG.sub(_read_label, line).strip())
        for tag in tags:
            if tag.startswith("</"):
                depths = depths[:-1]
            elif not tag.endswith("/>"):
                depths.append(-1)
    return "\n".join(lines)


def _read_label(match: re.Match[str]) -> str:
    label = _LABEL.search(match[0])
    words = label[1][1:-1].strip("\"'` ") if label else ""
    return f"\n**{words}**\n" if words and "{" not in words else ""
