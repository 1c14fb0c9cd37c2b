"""Office files of Halvermeer, as the programs that people use write them."""

import io
from datetime import datetime
from typing import Any

import docx
import openpyxl
import pptx
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from pptx.util import Inches
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle, getSampleStyleSheet
from reportlab.lib.units import cm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    Frame,
    PageBreak,
    PageTemplate,
    Paragraph,
    Preformatted,
    Table,
    TableStyle,
)

MODIFIED = datetime(2026, 3, 4, 9, 30)


def build_docx() -> bytes:
    """Headings, nested lists, a table with odd cells, code, a link, a header and a footer."""
    document = docx.Document()
    document.core_properties.title = "Pump maintenance"
    document.core_properties.author = "Word"
    document.core_properties.modified = MODIFIED
    section = document.sections[0]
    section.header.paragraphs[0].text = "Halvermeer internal"
    section.footer.paragraphs[0].text = "Page 1 of 9"
    document.add_heading("Pump maintenance", level=1)
    document.add_paragraph("The pumps of line 3 are serviced every quarter.")
    document.add_heading("Before you start", level=2)
    for text, style in (
        ("Lock the breaker", "List Number"),
        ("Breaker B-12 is in room 4", "List Bullet 2"),
        ("Hang the red tag", "List Bullet 2"),
        ("Drain the housing", "List Number"),
    ):
        document.add_paragraph(text, style=style)
    document.add_heading("Intervals", level=2)
    table = document.add_table(rows=4, cols=3)
    rows = (
        ("Pump", "Interval", "Oil"),
        ("P-101", "90 days", "ISO 46"),
        ("P-102", "90 days\nor 500 hours", "ISO 46"),
        ("Spare pumps", "", "none"),
    )
    for row, values in zip(table.rows, rows, strict=True):
        for cell, value in zip(row.cells, values, strict=True):
            cell.text = value
    table.cell(3, 0).merge(table.cell(3, 1))
    document.add_paragraph("Oil is ordered by the store.")
    document.add_heading("Reset the controller", level=3)
    for line in ("# reset the unit", "pumpctl reset --unit 3", "pumpctl status"):
        run = document.add_paragraph().add_run(line)
        run.font.name = "Courier New"
    paragraph = document.add_paragraph("See the ")
    _add_link(paragraph, "oil list", "https://wiki.halvermeer.example/oil")
    paragraph.add_run(" for more.")
    return save(document)


def _add_link(paragraph: Any, text: str, url: str) -> None:
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"
    link = OxmlElement("w:hyperlink")
    link.set(qn("r:id"), paragraph.part.relate_to(url, kind, is_external=True))
    run = OxmlElement("w:r")
    words = OxmlElement("w:t")
    words.text = text
    run.append(words)
    link.append(run)
    paragraph._p.append(link)


def build_pptx() -> bytes:
    """Three slides: a title, nested points with a note and a link, and a table."""
    presentation = pptx.Presentation()
    presentation.core_properties.title = "Onboarding week"
    presentation.core_properties.modified = MODIFIED
    opening = presentation.slides.add_slide(presentation.slide_layouts[0])
    opening.shapes.title.text = "Onboarding week"
    opening.placeholders[1].text = "For everyone who starts at Halvermeer"
    points = presentation.slides.add_slide(presentation.slide_layouts[1])
    points.shapes.title.text = "Day one"
    frame = points.placeholders[1].text_frame
    frame.text = "Collect the badge"
    for text, level in (
        ("Desk 2, ground floor", 1),
        ("Bring a passport", 1),
        ("Meet the mentor", 0),
    ):
        paragraph = frame.add_paragraph()
        paragraph.text, paragraph.level = text, level
    run = frame.add_paragraph().add_run()
    run.text = "Map of the site"
    run.hyperlink.address = "https://wiki.halvermeer.example/map"
    points.notes_slide.notes_text_frame.text = "Badges take twenty minutes to print."
    figures = presentation.slides.add_slide(presentation.slide_layouts[5])
    figures.shapes.title.text = "Who to ask"
    shape = figures.shapes.add_table(3, 2, Inches(1), Inches(2), Inches(6), Inches(2))
    for row, values in enumerate((("Topic", "Desk"), ("Laptop", "IT\nroom 12"), ("Pay", "HR"))):
        for column, value in enumerate(values):
            shape.table.cell(row, column).text = value
    return save(presentation)


def build_xlsx() -> bytes:
    """A sheet with merged and two-line cells, an empty one, one with a date and a hidden one."""
    book = openpyxl.Workbook()
    book.properties.modified = MODIFIED
    book.properties.title = "Travel allowances"
    sheet = book.active
    assert sheet is not None
    sheet.title = "Meals"
    for row in (
        ("Country", "Daily rate", None),
        (None, "Full day", "Half day"),
        ("Spain", 53.34, 26.67),
        ("Norway\n(mainland)", 72, 36),
        ("Chile | Peru", "=40+1", 20),
    ):
        sheet.append(row)
    sheet.merge_cells("B1:C1")
    sheet.merge_cells("A1:A2")
    book.create_sheet("Empty")
    cars = book.create_sheet("Cars")
    cars.append(("Since", "Rate per km"))
    cars.append((datetime(2026, 1, 1), 0.38))
    hidden = book.create_sheet("Old rates")
    hidden.append(("Country", "Rate"))
    hidden.append(("Spain", 48))
    hidden.sheet_state = "hidden"
    return save(book)


def save(document: Any) -> bytes:
    """The bytes of the file that it becomes."""
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def build_pdf(*, password: str | None = None) -> bytes:
    """Headings by size, a ruled table, lists, code, a hyphenated word, and a header and footer."""
    stream = io.BytesIO()
    sheet = getSampleStyleSheet()
    body = ParagraphStyle("body", sheet["BodyText"], fontSize=10, leading=13)
    document = BaseDocTemplate(
        stream, pagesize=A4, title="Travel policy 2026", encrypt=password or None
    )
    frame = Frame(2 * cm, 2.5 * cm, 17 * cm, 24 * cm)
    document.addPageTemplates(PageTemplate(frames=[frame], onPage=_draw_furniture))
    table = Table(
        [
            ["City", "Hotel cap", "Meals"],
            ["Lisbon", Paragraph("140 EUR<br/>160 in August", body), "53 EUR"],
            ["Oslo", "190 EUR", "72 EUR"],
        ],
        style=TableStyle([("GRID", (0, 0), (-1, -1), 0.5, "black")]),
    )
    items = ("Book through the portal.", "Send the receipt within 30 days.")
    document.build(
        [
            Paragraph("Travel policy 2026", sheet["Title"]),
            Paragraph("Who books what", sheet["Heading2"]),
            Paragraph(
                "Every trip is booked through the portal, since its rates are the best.", body
            ),
            *(Paragraph(f"• {item}", body) for item in items),
            Paragraph("Caps", sheet["Heading2"]),
            table,
            Paragraph("Caps hold for a night with breakfast.", body),
            PageBreak(),
            Paragraph("Approval", sheet["Heading2"]),
            Paragraph(
                "Trips of more than five days need the written con-<br/>sent of the lead.", body
            ),
            Paragraph('The form is <a href="https://wiki.halvermeer.example/trip">here</a>.', body),
            PageBreak(),
            Paragraph("Export", sheet["Heading2"]),
            Preformatted("# all trips of a year\ntripctl export --year 2026", sheet["Code"]),
        ]
    )
    return stream.getvalue()


def _draw_furniture(canvas: Canvas, _document: BaseDocTemplate) -> None:
    canvas.setFont("Helvetica", 8)
    canvas.drawString(2 * cm, 28.5 * cm, "Halvermeer travel desk")
    canvas.drawString(2 * cm, 1 * cm, f"Page {canvas.getPageNumber()} of 3")
