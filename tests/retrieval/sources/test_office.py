"""Files of Word, PowerPoint and Excel to Markdown that is built as they are."""

import io
import re
import zipfile
from datetime import UTC, date, datetime

import docx
import openpyxl
import pptx
import pytest
from docx.enum.style import WD_STYLE_TYPE
from docx.oxml import OxmlElement, parse_xml
from docx.oxml.ns import nsdecls, qn
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from pptx.util import Inches

from retrieval.chunking import split
from retrieval.sources.reads import Read, Skipped
from tests.retrieval.sources import office_files
from tests.retrieval.sources.formats import blocks, codes, headings, outline, read, table, try_read

COMPATIBLE = "http://schemas.openxmlformats.org/markup-compatibility/2006"
MODIFIED = office_files.MODIFIED.replace(tzinfo=UTC)


def test_a_document_of_word() -> None:
    document = read(office_files.build_docx(), "pumps.docx")
    text = document.text
    assert document.title == "Pump maintenance"
    assert (document.updated_at, document.owner) == (MODIFIED, None)
    assert headings(text) == [
        "Pump maintenance",
        "Pump maintenance > Before you start",
        "Pump maintenance > Intervals",
        "Pump maintenance > Intervals > Reset the controller",
    ]
    assert outline(text) == [
        *("Lock the breaker", ["Breaker B-12 is in room 4", "Hang the red tag"]),
        "Drain the housing",
    ]
    assert table(text) == [
        ["Pump", "Interval", "Oil"],
        ["P-101", "90 days", "ISO 46"],
        ["P-102", "90 days<br>or 500 hours", "ISO 46"],
        ["Spare pumps", "", "none"],
    ]
    assert ("paragraph", "Oil is ordered by the store.") in blocks(text)
    assert codes(text) == [("", "# reset the unit\npumpctl reset --unit 3\npumpctl status\n")]
    assert "[oil list](https://wiki.halvermeer.example/oil)" in text
    assert "internal" not in text and "Page 1" not in text


def test_slides() -> None:
    document = read(office_files.build_pptx(), "week.pptx")
    text = document.text
    assert (document.title, document.updated_at) == ("Onboarding week", MODIFIED)
    assert headings(text) == ["Onboarding week", "Day one", "Who to ask"]
    assert outline(text) == [
        *("Collect the badge", ["Desk 2, ground floor", "Bring a passport"], "Meet the mentor"),
        "[Map of the site](https://wiki.halvermeer.example/map)",
    ]
    assert ("paragraph", "Notes: Badges take twenty minutes to print.") in blocks(text)
    assert table(text) == [["Topic", "Desk"], ["Laptop", "IT<br>room 12"], ["Pay", "HR"]]


def test_a_hidden_slide_and_a_slide_without_a_title() -> None:
    slides = pptx.Presentation()
    for text in ("Shown", "Hidden"):
        slide = slides.slides.add_slide(slides.slide_layouts[6])
        slide.shapes.add_textbox(0, 0, 10, 10).text_frame.text = text
    slide._element.set("show", "0")
    found = try_read(office_files.save(slides), "a.pptx")
    assert isinstance(found, Read)
    assert found.document.text == "## Slide 1\n\nShown\n\n"
    assert found.notes == ("hidden slides left out: 1",)


def test_boxes_side_by_side_and_notes_that_look_like_markup() -> None:
    slides = pptx.Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[6])
    for text, left, top in (("Right", 5, 1), ("Left", 1, 1.1), ("Below", 0, 2)):
        box = slide.shapes.add_textbox(*map(Inches, (left, top, 3, 1)))
        box.text_frame.text = text
    slide.notes_slide.notes_text_frame.text = "Say:\n# not a heading"
    text = read(office_files.save(slides), "a.pptx").text
    assert text == "## Slide 1\n\nLeft\n\nRight\n\nBelow\n\nNotes: Say:\n\\# not a heading\n\n"


def test_p80_what_a_sheet_hides_stays_hidden() -> None:
    book = openpyxl.Workbook()
    active = book.active
    assert active is not None
    for row in (
        ("Grade", "City", "Salary", "Bonus", "Desk"),
        *[(f"G{n}", "Delft", n, n, "d") for n in range(9)],
    ):
        active.append(row)
    active.column_dimensions.group("C", "D", hidden=True)
    for number in (3, 7):
        active.row_dimensions[number].hidden = True
    active.row_dimensions[40].hidden = True
    found = try_read(office_files.save(book), "a.xlsx")
    assert isinstance(found, Read)
    grades = [n for n in range(9) if n not in (1, 5)]
    assert table(found.document.text) == [
        ["Grade", "City", "Desk"],
        *([f"G{n}", "Delft", "d"] for n in grades),
    ]
    assert found.notes == (
        "of the sheet 'Sheet', hidden rows are left out: 2",
        "of the sheet 'Sheet', hidden columns are left out: 2",
    )


def test_hidden_text_and_the_table_of_contents_of_a_document_are_left_out() -> None:
    document = docx.Document()
    for style, base in (
        ("Secret", "Normal"),
        ("Secret too", "Secret"),
        ("toc 1", "Normal"),
    ):
        added = document.styles.add_style(style, WD_STYLE_TYPE.PARAGRAPH)
        added.base_style = document.styles[base]
        added.font.hidden = True if style == "Secret" else None
    document.add_paragraph("Contents", style="TOC Heading")
    document.add_paragraph("Limits\t3", style="toc 1")
    paragraph = document.add_paragraph("The cap is ")
    paragraph.add_run("not ").font.hidden = True
    paragraph.add_run("80 euros.").font.hidden = False
    document.add_paragraph("Say 99 euros.", style="Secret too")
    document.add_paragraph("", style="Secret").add_run("Shown.").font.hidden = False
    grid = document.add_table(rows=2, cols=2)
    for number, cell in enumerate(cell for row in grid.rows for cell in row.cells):
        cell.text = f"cell {number}"
    grid.rows[1]._tr.get_or_add_trPr().append(OxmlElement("w:hidden"))
    found = try_read(office_files.save(document), "a.docx")
    assert isinstance(found, Read)
    assert found.document.text == (
        "The cap is 80 euros.\n\nShown.\n\n| cell 0 | cell 1 |\n| --- | --- |\n"
    )
    assert found.notes == ("pieces of hidden text left out: 4",)


def test_items_have_the_numbers_that_word_shows() -> None:
    document = docx.Document()
    numbering = document.part.numbering_part.numbering_definitions._numbering
    kind = OxmlElement("w:abstractNum")
    kind.set(qn("w:abstractNumId"), "90")
    for level, start in ((0, 4), (1, 1)):
        added = OxmlElement("w:lvl")
        added.set(qn("w:ilvl"), str(level))
        for name, value in (("w:start", str(start)), ("w:numFmt", "decimal")):
            each = OxmlElement(name)
            each.set(qn("w:val"), value)
            added.append(each)
        kind.append(added)
    numbering.insert(0, kind)
    first, again, anew = (numbering.add_num(90) for _ in range(3))
    anew.add_lvlOverride(ilvl=0).add_startOverride(1)

    def add(text: str, number: int | None = None, level: int = 0) -> None:
        properties = document.add_paragraph(text)._p.get_or_add_pPr()
        if number is not None:
            listed = properties.get_or_add_numPr()
            listed.get_or_add_ilvl().val, listed.get_or_add_numId().val = level, number

    add("Park", first.numId)
    add("Brake", first.numId, 1)
    add("Key", first.numId, 1)
    add("A note.")
    add("Plug", first.numId)
    add("Red", first.numId, 1)
    document.add_heading("More", 1)
    add("Wait", again.numId)
    add("Go", anew.numId)
    add("Stop", anew.numId)
    document.add_paragraph("One", style="List Number")
    document.add_paragraph("Between.")
    document.add_paragraph("Two", style="List Number")
    text = read(office_files.save(document), "a.docx").text
    assert text == (
        "4. Park\n   1. Brake\n   2. Key\n\nA note.\n\n5. Plug\n   1. Red\n\n# More\n\n"
        "6. Wait\n\n1. Go\n2. Stop\n\n1. One\n\nBetween.\n\n2. Two\n"
    )


def test_what_stands_above_the_line_is_told_in_every_program() -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("10")
    paragraph.add_run("6").font.superscript = True
    paragraph.add_run(" rows")
    assert read(office_files.save(document), "a.docx").text == "10⁶ rows\n"
    slides = pptx.Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[6])
    paragraph = slide.shapes.add_textbox(0, 0, 10, 10).text_frame.paragraphs[0]
    for text, baseline in (("10", "0"), ("6", "30000"), (" l of CO", None), ("2", "-25000")):
        run = paragraph.add_run()
        run.text = text
        if baseline:
            run._r.get_or_add_rPr().set("baseline", baseline)
    assert "10⁶ l of CO2" in read(office_files.save(slides), "a.pptx").text
    raised = TextBlock(InlineFont(vertAlign="superscript"), "6")
    text = sheet(("Rows", "Gas"), (CellRichText("10", raised), CellRichText("CO", "2")))
    assert table(text)[1] == ["10⁶", "CO2"]


def test_a_text_box_is_read_once() -> None:
    document = docx.Document()
    item = (
        '<w:p><w:pPr><w:pStyle w:val="ListNumber"/></w:pPr><w:r><w:t>{}</w:t></w:r>'
        "<w:r><w:rPr><w:vanish/></w:rPr><w:t>Hidden.</w:t></w:r></w:p>"
    )
    box = f"<w:txbxContent>{item.format('one')}{item.format('two')}</w:txbxContent>"
    spaces = f"{nsdecls('w')} xmlns:v='urn:schemas-microsoft-com:vml' xmlns:m='urn:m'"
    document.element.body.insert(
        0,
        parse_xml(
            f"<w:p {spaces} xmlns:mc='{COMPATIBLE}'><w:r><mc:AlternateContent>"
            f"<mc:Choice Requires='m'><w:drawing><m:box>{box}</m:box></w:drawing></mc:Choice>"
            f"<mc:Fallback><w:pict><v:shape><v:textbox>{box}</v:textbox></v:shape></w:pict>"
            "</mc:Fallback></mc:AlternateContent></w:r></w:p>"
        ),
    )
    document.add_paragraph("three", style="List Number")
    found = try_read(office_files.save(document), "a.docx")
    assert isinstance(found, Read)
    assert found.document.text.split() == ["1.", "one", "2.", "two", "3.", "three"]
    assert found.notes == ("pieces of hidden text left out: 2",)


def test_a_documents_footnote_stands_where_it_is_referred_to() -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("The limit applies")
    reference = OxmlElement("w:footnoteReference")
    reference.set(qn("w:id"), "2")
    paragraph.add_run()._r.append(reference)
    paragraph.add_run(" to everybody.")
    document.add_paragraph("It is paid at once.")
    data = io.BytesIO()
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
    note = (
        '<w:footnotes xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
        '<w:footnote w:id="2"><w:p><w:r><w:t>Contractors have 50 euros.</w:t></w:r></w:p>'
        "</w:footnote></w:footnotes>"
    )
    with zipfile.ZipFile(io.BytesIO(office_files.save(document))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for name, end, more in (
        (
            "[Content_Types].xml",
            b"</Types>",
            f'<Override PartName="/word/footnotes.xml" ContentType="{kind}"/>',
        ),
        (
            "word/_rels/document.xml.rels",
            b"</Relationships>",
            f'<Relationship Id="rId99" Type="{relation}" Target="footnotes.xml"/>',
        ),
    ):
        parts[name] = parts[name].replace(end, more.encode() + end)
    with zipfile.ZipFile(data, "w") as archive:
        for name, part in {**parts, "word/footnotes.xml": note.encode()}.items():
            archive.writestr(name, part)
    assert read(data.getvalue(), "a.docx").text == (
        "The limit applies to everybody. (Contractors have 50 euros.)\n\nIt is paid at once.\n"
    )


def test_sheets() -> None:
    found = try_read(office_files.build_xlsx(), "allowances.xlsx")
    assert isinstance(found, Read)
    text = found.document.text
    assert found.document.title == "Travel allowances"  # its own, and no file's
    assert headings(text) == ["Meals", "Cars"]
    assert table(text, 0) == [
        ["Country", "Daily rate / Full day", "Daily rate / Half day"],
        ["Spain", "53.34", "26.67"],
        ["Norway<br>(mainland)", "72", "36"],
        ["Chile | Peru", "", "20"],
    ]
    assert table(text, 1) == [["Since", "Rate per km"], ["2026-01-01", "0.38"]]
    assert found.notes == (
        "formulas without a value: 1; open it in Excel and save it",
        "the hidden sheet 'Old rates' is left out",
    )


@pytest.mark.parametrize(
    ("name", "stated", "title"),
    [
        ("price-list-2026", "Price list 2023", "price list 2026"),
        ("rates_v3", "Rates v2", "rates v3"),
        ("price-list-2023", "Prices in 2023", "Prices in 2023"),
        ("price-list", "Price list 2023", "Price list 2023"),
        ("pl-2026", "Price list", "Price list"),
        ("rates-2026", "Rates 2026 (version 2)", "Rates 2026 (version 2)"),
    ],
)
def test_a_title_of_another_edition_is_not_the_sheets(name: str, stated: str, title: str) -> None:
    book = openpyxl.load_workbook(io.BytesIO(office_files.build_xlsx()))
    book.properties.title = stated
    assert read(office_files.save(book), f"{name}.xlsx").title == title


def sheet(*rows: tuple[object, ...], formats: dict[str, str] | None = None) -> str:
    book = openpyxl.Workbook()
    active = book.active
    assert active is not None
    for row in rows:
        active.append(row)
    for cell, number_format in (formats or {}).items():
        active[cell].number_format = number_format
    return read(office_files.save(book), "a.xlsx").text


def test_lines_above_and_between_tables_stand_apart() -> None:
    text = sheet(
        ("Allowances 2026",),
        (None,),
        *(("Country", "Rate"), ("Spain", 53)),
        (None,),
        ("Norway", 72),
        (None,),
        ("# Cars",),
        *(("Class", "Rate"), ("A", 0.3)),
    )
    assert blocks(text)[1] == ("paragraph", "Allowances 2026")
    assert table(text, 0) == [["Country", "Rate"], ["Spain", "53"], ["Norway", "72"]]
    assert ("paragraph", "\\# Cars") in blocks(text)
    assert table(text, 1) == [["Class", "Rate"], ["A", "0.3"]]


def test_values_are_written_as_they_are_shown() -> None:
    text = sheet(
        ("Share", "Paid", "At", "Sum"),
        (0.055, True, datetime(2026, 1, 2, 3, 4), 1234567.5),
        formats={"A2": "0.0%"},
    )
    assert table(text)[1] == ["5.5%", "yes", "2026-01-02 03:04", "1234567.5"]


def test_numbers_keep_all_their_digits() -> None:
    day = date(2024, 1, 2)
    text = sheet(
        ("EAN", "Phone", "Postcode", "Leak", "Sum", "Cost", "Share", "Since", "Floor"),
        (
            4006381333931,
            491761234567.0,
            1234,
            0.000012,
            0.1 + 0.2,
            1234567890.12,
            1234.5678,
            day,
            -1,
        ),
        (12345678901, 1e15, 98765, -5e-07, 3.0, -1234.5, 1, day, 3.5),
        (1e22, -1e22, 1, 1e-320, 1.5e-300, 0.0, 1, day, 1),
        formats={
            **dict.fromkeys(("A2", "A3"), "0"),
            **dict.fromkeys(("C2", "C3", "I2", "I3"), "00000"),
            **dict.fromkeys(("F2", "F3"), "#,##0.00 [$€-407]"),
            **dict.fromkeys(("G2", "G3"), "0%"),
            **dict.fromkeys(("H2", "H3"), "dd/mm/yyyy"),
        },
    )
    assert table(text)[1:] == [
        [
            *("4006381333931", "491761234567", "01234", "0.000012", "0.3", "1234567890.12"),
            *("123456.78%", "2024-01-02", "-1"),
        ],
        [
            *("12345678901", "1000000000000000", "98765", "-0.0000005", "3", "-1234.5"),
            *("100%", "2024-01-02", "3.5"),
        ],
        [
            *("1e+22", "-1e+22", "1", "9.99988867182683e-321", "1.5e-300", "0"),
            *("1", "2024-01-02", "1"),
        ],
    ]


def test_p80_a_giant_sheet_is_cut_with_a_note() -> None:
    book = openpyxl.Workbook(write_only=True)
    log = book.create_sheet("Log")
    for number in range(2_500):
        log.append([f"event {number}", "x"])
    found = try_read(office_files.save(book), "log.xlsx")
    assert isinstance(found, Read)
    assert len(table(found.document.text)) == 2_000
    assert found.notes == ("of the sheet 'Log', 2,000 of 2,500 rows are kept; split it",)


def test_properties_that_somebody_added_are_fields() -> None:
    data = io.BytesIO(office_files.build_docx())
    with zipfile.ZipFile(data, "a") as archive:
        archive.writestr(
            "docProps/custom.xml",
            '<Properties xmlns:vt="v">'
            '<property name="Owner"><vt:lpwstr>Pumps</vt:lpwstr></property>'
            '<property name="Last verified"><vt:filetime>2026-02-01T00:00:00Z</vt:filetime>'
            '</property><property name="Audience"><vt:lpwstr>group:S1</vt:lpwstr></property>'
            '<property name="Status"><vt:lpwstr>Superseded</vt:lpwstr></property></Properties>',
        )
    document = read(data.getvalue(), "a.docx")
    assert (document.owner, document.verified_at) == ("Pumps", date(2026, 2, 1))
    assert (document.audience, document.is_superseded) == (("group:S1",), True)


def test_p80_a_table_of_400_rows_and_the_paragraph_after_it() -> None:
    document = docx.Document()
    grid = document.add_table(rows=400, cols=2)
    cells = [cell for row in grid.rows for cell in row.cells]
    for number, cell in enumerate(cells):
        cell.text = f"cell {number}" if number > 1 else ("City", "Rate")[number]
    cells[401].text = "by day\nby night"
    document.add_paragraph("After the table.")
    found = read(office_files.save(document), "rates.docx")
    assert len(table(found.text)) == 400
    assert table(found.text)[200] == ["cell 400", "by day<br>by night"]
    assert blocks(found.text)[-1] == ("paragraph", "After the table.")
    sections = split(found, find_words, section_tokens=400, chunk_tokens=100)
    *parts, last = [chunk.text for section in sections for chunk in section.chunks]
    assert len(parts) > 8
    assert all(part.startswith("| City | Rate |\n| --- | --- |\n| cell ") for part in parts)
    assert "After the table." in last and last.startswith(("After", "| City |"))


def find_words(text: str) -> list[int]:
    return [match.start() for match in re.finditer(r"\w+|[^\w\s]", text)]


@pytest.mark.parametrize("suffix", ["docx", "pptx", "xlsx", "pdf"])
@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 no archive", b"%PDF-1.7\nnothing", b"<html>"])
def test_what_is_broken_is_skipped_with_a_reason(suffix: str, data: bytes) -> None:
    found = try_read(data, f"a.{suffix}")
    assert isinstance(found, Skipped)
    assert found.reason.startswith("broken, or not what its name says")


@pytest.mark.parametrize("suffix", ["doc", "xls", "ppt", "odt", "rtf"])
def test_formats_that_are_not_read_are_told(suffix: str) -> None:
    found = try_read(b"\xd0\xcf\x11\xe0", f"a.{suffix}")
    reason = "not of a format that is read; save it anew as DOCX, PPTX, XLSX or PDF"
    assert found == Skipped(path=f"a.{suffix}", reason=reason)


def test_half_a_file_is_skipped() -> None:
    data = office_files.build_docx()
    assert isinstance(try_read(data[: len(data) // 2], "a.docx"), Skipped)


@pytest.mark.parametrize("suffix", ["docx", "pptx", "xlsx"])
def test_what_has_a_password_is_skipped(suffix: str) -> None:
    found = try_read(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, f"a.{suffix}")
    assert isinstance(found, Skipped)
    assert found.reason.startswith("it has a password or is of an Office before 2007")


@pytest.mark.parametrize("suffix", ["docx", "pptx", "xlsx"])
def test_a_bomb_is_not_unpacked(suffix: str) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("word/document.xml", "w", force_zip64=True) as part:
            for _ in range(300):
                part.write(b" " * 1_000_000)
    assert len(data.getvalue()) < 500_000
    found = try_read(data.getvalue(), f"a.{suffix}")
    assert isinstance(found, Skipped)
    assert found.reason == "of 300 MB when unpacked, more than 200 MB; split it"


def test_entities_that_multiply_are_not_followed() -> None:
    data = io.BytesIO(office_files.build_docx())
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<!DOCTYPE w [<!ENTITY e0 "lol">{entities}]><w:document xmlns:w="w">&e9;</w:document>'
    with zipfile.ZipFile(data) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    bombed = io.BytesIO()
    with zipfile.ZipFile(bombed, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, bomb if name == "word/document.xml" else content)
    assert isinstance(try_read(bombed.getvalue(), "a.docx"), Skipped)
