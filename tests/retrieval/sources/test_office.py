"""Files of Word, PowerPoint and Excel to Markdown that is built as they are."""

import io
import re
import zipfile
from datetime import UTC, date, datetime

import docx
import openpyxl
import pptx
import pytest

from retrieval.chunking import split
from retrieval.sources.reads import Read, Skipped
from tests.retrieval.sources import office_files
from tests.retrieval.sources.formats import blocks, codes, headings, outline, read, table, try_read

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


def test_sheets() -> None:
    found = try_read(office_files.build_xlsx(), "allowances.xlsx")
    assert isinstance(found, Read)
    text = found.document.text
    assert found.document.title == "allowances"
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
    document.add_paragraph("After the table.")
    found = read(office_files.save(document), "rates.docx")
    assert len(table(found.text)) == 400
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
