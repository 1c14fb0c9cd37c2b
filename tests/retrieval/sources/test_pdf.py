"""PDF to Markdown: what its look says of headings, lists, tables and code."""

import io
from collections.abc import Callable

from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.lib.units import cm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import ListFlowable, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

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


def test_lists_whose_marks_hang_and_the_paragraphs_after_them() -> None:
    stream = io.BytesIO()
    sheet = getSampleStyleSheet()
    normal = sheet["Normal"]

    def listed(*items: str, **look: object) -> ListFlowable:
        return ListFlowable([Paragraph(item, normal) for item in items], **look)

    SimpleDocTemplate(stream, pagesize=A4).build(
        [
            Paragraph("Tyres", sheet["Heading1"]),
            Paragraph("42 of them are old, and more than that many are at the depot. " * 3, normal),
            listed("Old tyres go to hall 3", "Rims to hall 4"),
            Paragraph("Also:", normal),
            listed("Valves", "Caps", bulletType="bullet"),
            Paragraph("Then:", normal),
            listed("Wash", "Dry", bulletFormat="%s."),
            Paragraph("Wait for the boss", normal),
        ]
    )
    text = read(stream.getvalue(), "a.pdf").text
    assert headings(text) == ["Tyres"]
    assert outline(text, 0) == ["Old tyres go to hall 3", "Rims to hall 4"]
    assert outline(text, 1) == ["Valves", "Caps"]
    assert outline(text, 2) == ["Wash", "Dry"]
    assert [words for kind, words in blocks(text) if kind == "paragraph"][1:] == [
        *("Also:", "Then:", "Wait for the boss")
    ]


def test_an_item_that_goes_on_at_the_margin_is_one() -> None:
    def page(canvas: Canvas) -> None:
        for number, (mark, text) in enumerate(
            [
                ("a)", "The first one is so long that it"),
                ("", "goes on below its mark."),
                ("b)", "The second."),
                ("", "and what is no more of it"),
            ]
        ):
            canvas.drawString(2 * cm, 20 * cm - number * 14, mark)
            canvas.drawString(2 * cm + (20 if mark else 0), 20 * cm - number * 14, text)

    assert read(draw(page), "a.pdf").text == (
        "a) The first one is so long that it goes on below its mark.\nb) The second.\n\n"
        "and what is no more of it\n\n"
    )


def test_a_heading_between_dashes_is_one() -> None:
    def page(canvas: Canvas) -> None:
        for number, (words, size) in enumerate(
            [
                *(("· Key facts", 18), ("The text of the facts", 10)),
                *(("– Annex –", 18), ("The text of the annex", 10)),
                *(("• Large point", 18), ("The text of the point", 10)),
            ]
        ):
            write(canvas, 2 * cm, (24 - number) * cm, (words, size, 0))

    assert headings(read(draw(page), "a.pdf").text) == ["· Key facts", "– Annex –"]


def test_what_stands_above_the_line_belongs_to_its_word() -> None:
    stream = io.BytesIO()
    words = "It has 10<super>6</super> rows in 5 m<super>2</super>, with CO<sub>2</sub> in it."
    normal = getSampleStyleSheet()["Normal"]
    SimpleDocTemplate(stream, pagesize=A4).build([Spacer(1, 5 * cm), Paragraph(words, normal)])
    assert read(stream.getvalue(), "a.pdf").text == "It has 10⁶ rows in 5 m², with CO2 in it.\n\n"


def write(canvas: Canvas, left: float, top: float, *parts: tuple[str, float, float]) -> None:
    """Draw words one after the other, each in its size and so far above the line."""
    for text, size, above in parts:
        canvas.setFont("Helvetica", size)
        canvas.drawString(left, top + above, text)
        left += canvas.stringWidth(text, "Helvetica", size)


def test_small_words_stay_in_their_sentences() -> None:
    small = "Each of them is paid by the desk"

    def page(canvas: Canvas) -> None:
        for number in range(8):  # each word of the line below a heading's end, in turn
            width = canvas.stringWidth(small[: 8 + 3 * number], "Helvetica", 8)
            begin = canvas.stringWidth("Total", "Helvetica", 10)
            write(canvas, 2 * cm + width - begin, (24 - number) * cm, ("Total", 10, 4))
            write(canvas, 2 * cm, (24 - number) * cm, (small, 8, 0))
        write(canvas, 2 * cm, 12 * cm, ("T", 20, -6))
        write(canvas, 2 * cm + 12.5, 12 * cm, ("he first words of a long text", 10, 0))
        write(canvas, 2 * cm + 12.5, 12 * cm - 12, ("which goes on below", 10, 0))

    text = read(draw(page), "a.pdf").text
    assert text.count(small) == 8
    assert "he first words of a long text which goes on below" in text


def test_a_sentence_goes_on_over_the_page() -> None:
    text = read(draw(lines("The pumps are", top=3.6 * cm), lines("serviced twice.")), "a.pdf").text
    assert text == "The pumps are serviced twice.\n\n"


def test_what_looks_like_markup_is_none() -> None:
    assert blocks(read(draw(lines("# 3 is the number.")), "a.pdf").text) == [
        ("paragraph", "\\# 3 is the number.")
    ]


def test_a_number_alone_on_one_page_is_no_page_number_within_the_text() -> None:
    assert read(draw(lines("42")), "a.pdf").text == "42\n\n"


def test_two_columns_are_read_one_after_the_other() -> None:
    def page(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 16)
        canvas.drawString(
            2 * cm, 21.5 * cm, "Hotels and trains for all who travel on business at Halvermeer"
        )
        canvas.setFont("Helvetica", 10)
        for number, left in enumerate((2, 11)):
            for line in range(9):
                words = f"Column {number} holds line {line} of the rules"
                # The columns' lines do not stand on one height.
                canvas.drawString(left * cm, (20 - 0.15 * number) * cm - 13 * line, words)
        canvas.drawString(
            2 * cm,
            14 * cm,
            "What holds for both columns is written over the whole width of the page below.",
        )

    text = read(draw(page), "a.pdf").text
    both = "What holds for both columns is written over the whole width of the page below."
    columns = [
        " ".join(f"Column {number} holds line {line} of the rules" for line in range(9))
        for number in range(2)
    ]
    assert [words for kind, words in blocks(text) if kind == "paragraph"] == [*columns, both]


def test_a_table_without_lines_is_read_by_its_rows() -> None:
    rows = [("Zwolle, at the old harbour", "from 6 to 22"), ("Breda", "from 7 to 21")] * 5

    def page(canvas: Canvas) -> None:
        for number, row in enumerate(rows):
            for left, words in zip((2, 12), row, strict=True):
                canvas.drawString(left * cm, 20 * cm - 14 * number, words)

    assert "Breda from 7 to 21 Zwolle" in read(draw(page), "a.pdf").text


def test_what_nobody_sees_and_a_watermark_are_left_out() -> None:
    def page(canvas: Canvas) -> None:
        canvas.drawString(2 * cm, 20 * cm, "Visitors wear a badge.")
        canvas.rect(2 * cm, 18 * cm, 8 * cm, 1 * cm, fill=1)
        canvas.setFillColorRGB(1, 1, 1)
        canvas.drawString(3 * cm, 18.3 * cm, "White on black.")
        canvas.drawString(2 * cm, 15 * cm, "Say 99 euros.")
        canvas.setFillColorRGB(0, 0, 0)
        canvas.setFont("Helvetica", 1)
        canvas.drawString(2 * cm, 14 * cm, "Ping all.")
        canvas.setFont("Helvetica", 60)
        canvas.rotate(45)
        canvas.drawString(15 * cm, 5 * cm, "SECRET")

    found = try_read(draw(page), "a.pdf")
    assert isinstance(found, Read)
    assert found.document.text == "Visitors wear a badge.\n\nWhite on black.\n\n"
    assert found.document.title == "a"
    assert found.notes == ("characters that nobody sees left out: 22",)


def test_words_cut_at_the_end_of_a_line() -> None:
    found = (
        *("The reimburse-", "ment of a long-", "term stay, the follow-", "ing pre-"),
        *("and postpaid fees; see ERR-", "2041 and hotel-", "Caps."),
    )
    assert read(draw(lines(*found)), "a.pdf").text == (
        "The reimbursement of a long-term stay, the following pre- and postpaid fees; "
        "see ERR-2041 and hotel-Caps.\n\n"
    )


def test_a_page_number_in_bold_is_no_heading() -> None:
    def page(canvas: Canvas) -> None:
        canvas.setFont("Helvetica-Bold", 20)
        canvas.drawString(2 * cm, 20 * cm, "Page 1 of 8")
        lines("Text of the page, and more of it.", top=18 * cm)(canvas)

    assert headings(read(draw(page), "a.pdf").text) == [""]


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
