"""The process that converts files: it outlives bad ones, and cannot do what it has no need to."""

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing

import pytest

from retrieval.sources.reads import Unreadable
from retrieval.sources.sandbox import Converter
from tests.retrieval.sources import office_files


@pytest.fixture(scope="module")
def converter() -> Iterator[Converter]:
    with closing(Converter()) as converter:
        yield converter


def test_pages_come_back_with_fields_and_notes(converter: Converter) -> None:
    page = converter.convert(office_files.build_xlsx(), ".xlsx")
    assert page.text.startswith("## Meals\n")
    assert len(page.notes) == 2
    assert str(page.stated["updated"]).startswith("20")
    assert converter.convert(b"<title>T</title><p>Text.", ".html").stated["title"] == "T"


def test_a_bad_file_does_not_stop_the_next(converter: Converter) -> None:
    with pytest.raises(Unreadable, match="broken, or not what its name says"):
        converter.convert(b"nothing", ".docx")
    assert "Pump" in converter.convert(office_files.build_docx(), ".docx").text


def test_what_takes_too_long_is_given_up() -> None:
    with closing(Converter(timeout_s=0)) as converter:
        for _ in range(2):
            with pytest.raises(Unreadable, match="not converted within 0 s; split it"):
                converter.convert(office_files.build_pdf(), ".pdf")


def test_a_process_that_dies_is_told_and_replaced() -> None:
    with closing(Converter()) as converter:
        converter.convert(b"<p>Text.", ".html")
        assert converter.process_id is not None
        os.kill(converter.process_id, 9)
        with pytest.raises(Unreadable, match="has died"):
            converter.convert(b"<p>Text.", ".html")
        assert converter.convert(b"<p>Text.", ".html").text == "Text.\n"


def test_pictures_that_lie_elsewhere_are_not_fetched(converter: Converter) -> None:
    data = io.BytesIO(office_files.build_docx())
    with zipfile.ZipFile(data) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    picture = (
        b'<w:p><w:r><w:drawing><wp:inline xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006'
        b'/wordprocessingDrawing"><a:graphic xmlns:a="http://schemas.openxmlformats.org/drawingml/'
        b'2006/main"><a:graphicData><pic:pic xmlns:pic="http://schemas.openxmlformats.org/drawingml'
        b'/2006/picture"><pic:blipFill><a:blip r:link="rIdX"/></pic:blipFill></pic:pic>'
        b"</a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p></w:body>"
    )
    link = (
        b'<Relationship Id="rIdX" TargetMode="External" Target="file:///etc/passwd" Type="http://'
        b'schemas.openxmlformats.org/officeDocument/2006/relationships/image"/></Relationships>'
    )
    parts["word/document.xml"] = parts["word/document.xml"].replace(b"</w:body>", picture)
    rels = "word/_rels/document.xml.rels"
    parts[rels] = parts[rels].replace(b"</Relationships>", link)
    linked = io.BytesIO()
    with zipfile.ZipFile(linked, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    page = converter.convert(linked.getvalue(), ".docx")
    assert "Pump" in page.text and "root" not in page.text


@pytest.mark.parametrize(
    "attempt",
    [
        "socket.create_connection(('127.0.0.1', 9))",
        "socket.getaddrinfo('wiki.example', 80)",
        "subprocess.run(['true'])",
        "os.system('true')",
        "open('/etc/passwd')",
        "open('notes.txt', 'w')",
    ],
)
def test_no_network_program_or_file_is_reached(attempt: str) -> None:
    code = (
        "import os, socket, subprocess\n"
        "from retrieval.sources import sandbox\n"
        f"sandbox.lock_up()\ntry:\n    {attempt}\n"
        "except PermissionError:\n    print('refused')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == "refused\n", ran.stderr
