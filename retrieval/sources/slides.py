"""PPTX to Markdown: each slide under its title, with its points, tables and notes."""

import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pptx
from pptx.enum.shapes import MSO_SHAPE_TYPE, PP_PLACEHOLDER
from pptx.util import Inches

from retrieval.sources import properties, tables
from retrieval.sources.reads import Page
from retrieval.sources.tables import Cell
from retrieval.sources.text import escape, raise_up

SIDE_BY_SIDE = Inches(0.2)  # from one's top to the other's; chosen: nobody places them exactly

_FURNITURE = (PP_PLACEHOLDER.DATE, PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.SLIDE_NUMBER)
_TITLES = (PP_PLACEHOLDER.TITLE, PP_PLACEHOLDER.CENTER_TITLE)
_POINTS = (PP_PLACEHOLDER.BODY, PP_PLACEHOLDER.OBJECT)


def read(data: bytes) -> Page:
    """The slides that are shown, in order; those hidden, and charts, are counted in the notes."""
    stated = dict(properties.read(properties.unpack(data)))
    slides = list(pptx.Presentation(io.BytesIO(data)).slides)
    shown = [slide for slide in slides if slide._element.get("show") not in ("0", "false")]
    titles = [_find_title(slide) for slide in shown]
    if titles and titles[0]:
        stated["title"] = titles[0]
    parts = [
        f"## {title or f'Slide {number}'}\n\n{''.join(_read_slide(slide))}"
        for number, (slide, title) in enumerate(zip(shown, titles, strict=True), 1)
    ]
    charts = sum(shape.has_chart for slide in shown for shape in _flatten(slide.shapes))
    notes = [f"charts left out: {charts}"] if charts else []
    if len(shown) < len(slides):
        notes.append(f"hidden slides left out: {len(slides) - len(shown)}")
    return Page(text="".join(parts), stated=stated, notes=tuple(notes))


def _find_title(slide: Any) -> str:
    title = slide.shapes.title
    return " ".join(title.text_frame.text.split()) if title is not None else ""


def _read_slide(slide: Any) -> Iterator[str]:
    for shape in _sort(_flatten(slide.shapes)):
        kind = shape.placeholder_format.type if shape.is_placeholder else None
        if kind in _FURNITURE or kind in _TITLES:
            continue
        if shape.has_table:
            yield _read_table(shape.table) + "\n"
        elif shape.has_text_frame and shape.text_frame.text.strip():
            yield _read_frame(shape.text_frame, has_points=kind in _POINTS) + "\n"
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.replace("\v", "\n").strip()
        if notes:
            yield f"Notes: {escape(notes)}\n\n"


def _flatten(shapes: Iterable[Any]) -> Iterator[Any]:
    for shape in shapes:
        if shape.shape_type == MSO_SHAPE_TYPE.GROUP:
            yield from _flatten(shape.shapes)
        else:
            yield shape


def _sort(shapes: Iterable[Any]) -> list[Any]:
    """From the top, and of what stands side by side from the left.

    What has its place from the layout comes first, as written.
    """
    rows: list[list[Any]] = []
    for shape in sorted(shapes, key=lambda shape: shape.top or 0):
        if not rows or (shape.top or 0) - (rows[-1][0].top or 0) > SIDE_BY_SIDE:
            rows.append([])
        rows[-1].append(shape)
    return [shape for row in rows for shape in sorted(row, key=lambda shape: shape.left or 0)]


def _read_frame(frame: Any, *, has_points: bool) -> str:
    """The paragraphs: as a nested list where the place is one for points, else as they are."""
    paragraphs = [each for each in frame.paragraphs if each.text.strip()]
    deepest = max(each.level for each in paragraphs)
    if deepest or (has_points and len(paragraphs) > 1):
        return "".join(f"{'  ' * each.level}- {_read_paragraph(each)}\n" for each in paragraphs)
    return "\n".join(f"{_read_paragraph(each)}\n" for each in paragraphs)


def _read_paragraph(paragraph: Any) -> str:
    text = ""
    for run in paragraph.runs:
        address = run.hyperlink.address
        words = raise_up(run.text) if _is_raised(run) else run.text
        text += f"[{words}]({address})" if address and words.strip() else words
    text = text if paragraph.runs else paragraph.text
    return escape(" ".join(text.replace("\v", " ").split()))


def _is_raised(run: Any) -> bool:
    """Whether a run stands above the line, and not on it (0) or below it (-25000)."""
    look = run._r.rPr
    return look is not None and bool(re.match(r"[1-9]", look.get("baseline", "")))


def _read_table(table: Any) -> str:
    rows = []
    for row in table.rows:
        cells = [cell for cell in row.cells if not cell.is_spanned]
        rows.append([_read_cell(cell) for cell in cells])
    return tables.build(tables.spread(rows, head=1))


def _read_cell(cell: Any) -> Cell:
    text = cell.text_frame.text.replace("\v", "\n")
    if not cell.is_merge_origin:
        return Cell(text=text)
    return Cell(text=text, columns=cell.span_width, rows=cell.span_height)
