"""The process that converts files: it outlives bad ones, and cannot do what it has no need to."""

import ctypes
import io
import os
import select
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

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


REFUSED = """
socket.create_connection(('127.0.0.1', 9))
socket.getaddrinfo('wiki.example', 80)
subprocess.run(['true'])
os.system('true')
os.fork()
os.kill(os.getppid(), 0)
open('/etc/passwd')
open('notes.txt', 'w')
open(os.__file__, 'a')
os.listdir('/etc')
os.scandir('/etc')
os.remove('victim')
os.rename('victim', 'gone')
os.link('victim', 'twin')
os.symlink('/etc/passwd', 'link')
os.mkdir('folder')
os.rmdir('folder')
os.chmod('victim', 0)
ctypes.CDLL(None)
lxml.etree.parse('/etc/passwd')
lxml.etree.parse(f'/proc/{os.getppid()}/environ', lxml.etree.HTMLParser())
"""


def run(code: str, folder: Path) -> list[str]:
    (folder / "victim").touch()
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False
    )
    assert os.listdir(folder) == ["victim"]
    return ran.stdout.splitlines() or [ran.stderr]


def test_no_network_program_process_or_file_is_reached(tmp_path: Path) -> None:
    attempts = REFUSED.split("\n")[1:-1]
    code = (
        "import ctypes, os, socket, subprocess, lxml.etree\n"
        "from retrieval.sources import sandbox\n"
        f"sandbox.lock_up()\nfor attempt in {attempts!r}:\n"
        "    try:\n        eval(attempt)\n        print('done', attempt)\n"
        "    except OSError:\n        print('refused', attempt)\n"
    )
    assert run(code, tmp_path) == [f"refused {attempt}" for attempt in attempts]


CALLS = """
open(b'/etc/passwd', 0)
open(b'/proc/PARENT/environ', 0)
open(b'new', 65, 0o600)
unlink(b'victim')
rename(b'victim', b'gone')
mkdir(b'folder', 0o700)
symlink(b'/etc', b'link')
truncate(b'victim', 0)
chmod(b'victim', 0)
socket(1, 1, 0)
socket(2, 1, 0)
kill(PARENT, 0)
fork()
execl(b'/bin/true', b'true', None)
ptrace(16, PARENT, None, None)
"""


def has_landlock() -> bool:
    return sys.platform == "linux" and bool(ctypes.CDLL(None).syscall(444, None, 0, 1) > 0)


@pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock")
def test_code_in_c_is_held_by_the_kernel(tmp_path: Path) -> None:
    calls = CALLS.replace("PARENT", str(os.getpid())).split("\n")[1:-1]
    code = (
        "import ctypes, os, sys\n"
        "from retrieval.sources import confinement\n"
        "c = ctypes.CDLL(None)\n"
        "confinement.confine(['/usr/lib', '/lib', *filter(None, sys.path)])\n"
        f"for call in {calls!r}:\n    print(eval('c.' + call), call)\n"
        "print(c.open(os.__file__.encode(), 0) > 2, 'own')\n"
    )
    assert run(code, tmp_path) == [*(f"-1 {call}" for call in calls), "True own"]


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells a process of its parent's end"
)
def test_it_ends_with_its_parent_whatever_it_is_at() -> None:
    code = (
        "from retrieval.sources.sandbox import Converter\n"
        "converter = Converter()\nconverter.convert(b'<p>Text.', '.html')\n"
        "print(converter.process_id, flush=True)\ninput()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        signal.pidfd_send_signal(child, signal.SIGSTOP)  # as deaf as in the midst of a file
        parent.kill()
    ended, _, _ = select.select([child], [], [], 20)
    os.close(child)
    assert ended
