"""Files that are not text to Markdown, by their suffix; libraries are loaded when needed."""

from functools import cache
from importlib.metadata import version

from retrieval.sources.reads import Page, Unreadable

HTML = (".html", ".htm", ".xhtml")
OFFICE = (".docx", ".pptx", ".xlsx", ".pdf")
UNREAD = (".doc", ".ppt", ".xls", ".odt", ".odp", ".ods", ".rtf")  # told, or nobody would miss them
_LIBRARIES = {
    **dict.fromkeys(HTML, ("beautifulsoup4", "lxml", "markdownify")),
    ".docx": ("beautifulsoup4", "lxml", "mammoth", "markdownify"),
    ".pptx": ("python-pptx",),
    ".xlsx": ("openpyxl",),
    ".pdf": ("pdfminer.six", "pdfplumber"),
}


@cache
def find_versions(suffix: str) -> tuple[str, ...]:
    """Of the libraries that read such a file: another one may read it otherwise."""
    return tuple(version(library) for library in _LIBRARIES.get(suffix, ()))


def convert(data: bytes, suffix: str) -> Page:
    """The file's text as Markdown. Raises Unreadable for whatever is wrong with it."""
    try:
        return _convert(data, suffix)
    except Unreadable:
        raise
    # Those who wrote the file and its reader agree on what is broken in ever new ways.
    except Exception as error:
        raise Unreadable(
            f"broken, or not what its name says ({type(error).__name__}); save it anew in the "
            "program that wrote it"
        ) from error


def _convert(data: bytes, suffix: str) -> Page:
    if suffix in UNREAD:
        raise Unreadable("not of a format that is read; save it anew as DOCX, PPTX, XLSX or PDF")
    if suffix in HTML:
        from retrieval.sources import html

        return html.read(data)
    if suffix == ".docx":
        from retrieval.sources import word

        return word.read(data)
    if suffix == ".pptx":
        from retrieval.sources import slides

        return slides.read(data)
    if suffix == ".xlsx":
        from retrieval.sources import sheets

        return sheets.read(data)
    from retrieval.sources import pdf

    return pdf.read(data)
