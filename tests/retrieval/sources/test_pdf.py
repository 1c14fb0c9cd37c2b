"""PDF to Markdown: what its look says of headings, lists, tables and code."""

import io
from collections.abc import Callable

from reportlab.lib.pagesizes import A4
from reportlab.lib.units import cm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import SimpleDocTemplate, Table, TableStyle

from retrieval.sources import pdf
from retrieval.sources.reads import Read, Skipped
from tests.retrieval.sources import office_files
from tests.retrieval.sources.formats import blocks, codes, headings, outline, read, table, try_read


def draw(*pages: Callable[[Canvas], None]) -> bytes:
    stream = io.BytesIO()
    canvas = Canvas(stream, pagesize=A4)
    for page in pages:
        page(canvas)
        canvas.showPage()
    canvas.save()
    return stream.getvalue()


def lines(*texts: str, left: float = 2 * cm, top: float = 20 * cm) -> Callable[[Canvas], None]:
    def page(canvas: Canvas) -> None:
        for number, text in enumerate(texts):
            canvas.drawString(left, top - number * 14, text)

    return page


def test_a_policy() -> None:
    document = read(office_files.build_pdf(), "travel.pdf")
    text = document.text
    assert document.title == "Travel policy 2026"
    assert headings(text) == [
        "Travel policy 2026 > Who books what",
        "Travel policy 2026 > Caps",
        "Travel policy 2026 > Approval",
        "Travel policy 2026 > Export",
    ]
    assert outline(text) == ["Book through the portal.", "Send the receipt within 30 days."]
    assert table(text) == [
        ["City", "Hotel cap", "Meals"],
        ["Lisbon", "140 EUR<br>160 in August", "53 EUR"],
        ["Oslo", "190 EUR", "72 EUR"],
    ]
    assert ("paragraph", "Caps hold for a night with breakfast.") in blocks(text)
    assert "need the written consent of the lead." in text
    assert "The form is [here](https://wiki.halvermeer.example/trip)." in text
    assert codes(text) == [("", "# all trips of a year\ntripctl export --year 2026\n")]
    assert "travel desk" not in text and "of 3" not in text


def test_a_table_that_goes_on_over_the_page_is_one() -> None:
    stream = io.BytesIO()
    rows = [["City", "Cap"], *([f"City {number}", str(number)] for number in range(60))]
    grid = TableStyle([("GRID", (0, 0), (-1, -1), 0.5, "black")])
    SimpleDocTemplate(stream, pagesize=A4).build([Table(rows, style=grid, repeatRows=1)])
    assert table(read(stream.getvalue(), "a.pdf").text) == rows


def test_items_below_items_and_lines_that_go_on() -> None:
    def page(canvas: Canvas) -> None:
        for number, (indent, text) in enumerate(
            [
                (0, "1. Lock the breaker, which is"),
                (0.6, "in room 4"),
                (0.6, "• hang the red tag"),
                (0, "2. Drain the housing"),
            ]
        ):
            canvas.drawString((2 + indent) * cm, 20 * cm - number * 14, text)

    text = read(draw(page), "a.pdf").text
    assert outline(text) == [
        *("Lock the breaker, which is in room 4", ["hang the red tag"], "Drain the housing")
    ]


def test_a_sentence_goes_on_over_the_page() -> None:
    text = read(draw(lines("The pumps are", top=3.6 * cm), lines("serviced twice.")), "a.pdf").text
    assert text == "The pumps are serviced twice.\n\n"


def test_what_looks_like_markup_is_none() -> None:
    assert blocks(read(draw(lines("# 3 is the number.")), "a.pdf").text) == [
        ("paragraph", "\\# 3 is the number.")
    ]


def test_a_number_alone_on_one_page_is_no_page_number_within_the_text() -> None:
    assert read(draw(lines("42")), "a.pdf").text == "42\n\n"


def test_a_password_is_told() -> None:
    found = try_read(office_files.build_pdf(password="rose"), "a.pdf")
    assert found == Skipped(path="a.pdf", reason="it has a password; save it anew without one")


def test_a_scan_is_told() -> None:
    def page(canvas: Canvas) -> None:
        canvas.rect(2 * cm, 2 * cm, 4 * cm, 4 * cm, fill=1)

    found = try_read(draw(page), "scan.pdf")
    assert isinstance(found, Skipped)
    assert found.reason.startswith("no text in it, only pictures")


def test_more_pages_than_are_read_are_told() -> None:
    pages = [lines(f"Page {number}") for number in range(pdf.MAX_PAGES + 1)]
    found = try_read(draw(*pages), "a.pdf")
    assert isinstance(found, Read)
    assert found.notes == (f"{pdf.MAX_PAGES} of {pdf.MAX_PAGES + 1} pages are kept; split it",)
