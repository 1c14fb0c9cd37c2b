"""Markdown files to documents: what they say of themselves, and what is wrong with them."""

import os
from datetime import UTC, date, datetime
from pathlib import Path
from time import perf_counter

import pytest

from retrieval.errors import ConfigError
from retrieval.records import Document
from retrieval.sources import reading
from retrieval.sources.folder import find_files
from retrieval.sources.markdown import plain_heading, plain_text
from retrieval.sources.reads import Facts, Read, Skipped
from tests.folders import read_folder


def parse(text: str | bytes, path: str = "a/my-page.md") -> Read | Skipped:
    data = text.encode() if isinstance(text, str) else text
    return reading.read(data, Facts(path=path, url="https://wiki.example/a"))


def read(text: str | bytes, path: str = "a/my-page.md") -> Document:
    found = parse(text, path)
    assert isinstance(found, Read)
    return found.document


def notes(text: str | bytes) -> tuple[str, ...]:
    found = parse(text)
    assert isinstance(found, Read)
    return found.notes


def reason(text: str | bytes) -> str:
    found = parse(text)
    assert isinstance(found, Skipped)
    return found.reason


def front(*lines: str) -> Document:
    return read("---\n" + "\n".join(lines) + "\n---\n# Page\n\nText.\n")


def test_front_matter_is_taken_off_the_text() -> None:
    document = read("---\ntitle: The plan\nowner: ana\n---\n\n# Plan\n\nGo.\n")
    assert (document.title, document.owner) == ("The plan", "ana")
    assert document.text == "\n# Plan\n\nGo.\n"


@pytest.mark.parametrize(
    "text", ["---\n---\n# A\n", "---\n\n---\n# A\n", "---\n# note\n---\n# A\n"]
)
def test_empty_front_matter_is_taken_off_too(text: str) -> None:
    assert read(text).text == "# A\n"
    assert notes(text) == ()


def test_a_rule_in_the_text_is_no_front_matter() -> None:
    text = "# A\n\n---\ntitle: no\n---\n"
    assert read(text).text == text


@pytest.mark.parametrize(
    "yaml",
    [
        "title: [",
        "title: a: b",
        "- a\n- b",
        "just words",
        "when: 2026-02-31",
        "\tx: 1",
        "date: !!timestamp foo",
        "draft: !!bool maybe",
        'n: !!int ""',
        "[\n" * 1_500,
    ],
)
def test_broken_front_matter_is_kept_and_told(yaml: str) -> None:
    text = f"---\n{yaml}\n---\n# A\n"
    assert read(text).text == text
    assert notes(text) == ("front matter is not valid YAML; its fields are not used",)


def test_a_page_of_nothing_but_front_matter_is_kept() -> None:
    text = "---\ntitle: Redirect to the new handbook\n---\n"
    assert (read(text).title, read(text).text) == ("Redirect to the new handbook", text)


def test_bom_newlines_and_nul_are_cleaned() -> None:
    document = read("\ufeff---\r\ntitle: T\r\n---\r\none\r\ntwo\rthree\r\n".encode())
    assert (document.title, document.text) == ("T", "one\ntwo\nthree\n")
    assert read("one a\0b\0").text == "one ab"
    assert notes("one a\0b\0") == ("2 NUL bytes dropped",)


def test_all_else_is_kept_as_it_was_written() -> None:
    text = "# A  \n\n\tcode\u00a0here — “quoted” \u200b\n```\n  x\t= 1  \n```\n"
    assert read(text).text == text


def test_what_is_not_utf_8_is_skipped() -> None:
    assert reason("Größe".encode("latin-1")) == "not UTF-8 at byte 2; save it as UTF-8"
    assert reason("Text".encode("utf-16")[:-1]).startswith("not UTF-16 at byte ")


@pytest.mark.parametrize("text", ["", " \n\t\n", "---\n---\n", "***\n", "\ufeff"])
def test_what_has_no_words_is_skipped(text: str) -> None:
    assert reason(text) == "empty: it has no words"


def test_a_log_of_three_megabytes_is_skipped() -> None:
    assert reason("x" * 3_000_000) == "of 3.0 MB, more than 2 MB; split it"


def test_a_word_of_three_thousand_characters_is_told() -> None:
    assert notes("The key is " + "x" * 3_000) == (
        "a word of 3,000 characters is kept but cannot be searched for",
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-08-14", date(2026, 8, 14)),
        ("'2026-08-14'", date(2026, 8, 14)),
        ("2026-08-14T10:00:00Z", date(2026, 8, 14)),
        ("2026-08-14T23:30:00-02:00", date(2026, 8, 15)),  # in UTC
        ("'2026-08-14 10:00'", date(2026, 8, 14)),
        ("last summer", None),
        ("'2026-02-31'", None),
        ("12", None),
        ("[2026-08-14]", None),
        ("", None),
    ],
)
def test_dates_are_read_where_they_are_dates(value: str, expected: date | None) -> None:
    assert front(f"last_verified: {value}").verified_at == expected


def test_a_time_without_a_zone_is_utc() -> None:
    assert front("updated: 2026-08-14 10:00:00").updated_at == datetime(2026, 8, 14, 10, tzinfo=UTC)
    assert front("date: 2026-08-14").updated_at == datetime(2026, 8, 14, tzinfo=UTC)


def test_dates_at_the_end_of_time_do_no_harm() -> None:
    assert front("updated: '0001-01-01T00:00:00+02:00'").text
    assert front("updated: '9999-12-31T23:00:00-05:00'").text


@pytest.mark.parametrize(
    "key", ["last_verified", "verified_at", "verified", "last_reviewed_on", "last_reviewed"]
)
def test_a_page_is_verified_under_several_names(key: str) -> None:
    assert front(f"{key}: 2026-08-14").verified_at == date(2026, 8, 14)


def test_the_first_date_that_is_one_counts() -> None:
    fields = ("last_verified: soon", "last_reviewed: 2026-08-14")
    assert front(*fields).verified_at == date(2026, 8, 14)


@pytest.mark.parametrize(
    ("line", "owner"),
    [
        ("owner: ana@acme.example", "ana@acme.example"),
        ("owners: [ana, ben]", "ana, ben"),
        ("owner_slack: '#platform'", "#platform"),
        ("team: 7", "7"),
        ("owner: >\n  the\n  platform team", "the platform team"),
        ("owner: {name: ana}", None),
        ("owners: []", None),
        ("owner:", None),
        ("tags: [a]", None),
    ],
)
def test_owners_are_one_line(line: str, owner: str | None) -> None:
    assert front(line).owner == owner


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: 'The *Plan*'\n---\n# Other\n", "The *Plan*"),
        ("---\ntitle: 404\n---\n# Other\n", "404"),
        ("## Part\n\n# The `x` [plan](u) {#id}\n", "The x plan"),
        ("Plan\n====\n", "Plan"),
        ("```\n# not this\n```\n", "my page"),
        ("#\n\ntext\n", "my page"),
        ("text\n", "my page"),
    ],
)
def test_titles(text: str, title: str) -> None:
    assert read(text).title == title


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("You have 28 days of leave a year, and may take them over.\n", "english"),
        ("Urlaubsanträge stellen Sie spätestens zwei Wochen vorher.\n", "german"),
        ("---\nlang: fr\n---\nUrlaubsanträge stellen Sie zwei Wochen vorher.\n", "french"),
        ("---\nlanguage: python\n---\nYou have 28 days of leave a year.\n", "english"),
        ("---\nlanguage: [de, en]\n---\nShort.\n", "german"),
        ("Les employés déposent leurs notes de frais.\n\n```\n" + "while not\n" * 50, "french"),
        ("Ok.\n", "english"),
    ],
)
def test_the_language_is_the_one_stated_or_that_of_the_prose(text: str, language: str) -> None:
    assert read(text).language == language


def test_the_hash_says_whether_anything_changed() -> None:
    base = front("owner: ana").content_hash
    assert front("owner: ana").content_hash == base
    others = [front("owner: ben"), front("owner: ana", "last_verified: 2026-08-14")]
    others += [front("owner: ana", "title: T"), read("---\nowner: ana\n---\n# Page\n\nTexts.\n")]
    assert base not in {document.content_hash for document in others}
    assert len(base) == 64


@pytest.mark.parametrize(
    ("markdown", "words"),
    [
        ("**Bold** and `code_like` and _it_", "Bold and code_like and it"),
        ("[text](https://x.example/a_(b)) ![alt](i.png)", "text alt"),
        ("[text][ref]", "text"),
        ("<p align='x'>Hi<br>there</p> <!-- gone -->", "Hi there"),
        ("set <maxConnections>50</maxConnections>", "set <maxConnections>50</maxConnections>"),
        ("if a<b the <timeout> is used", "if a<b the <timeout> is used"),
        ("<https://wiki.example/p> by <ana@acme.example>", "by <ana@acme.example>"),
        ('<Card title="T" href="/x">Text</Card>', "Text</Card>"),
        ("# Title\n----\ntext", "Title\n\ntext"),
        ("| a | b |\n| --- | --- |", "| a | b | \n |"),
        ("items[1] and snake_case_name", "items[1] and snake_case_name"),
    ],
)
def test_plain_text_has_the_words(markdown: str, words: str) -> None:
    assert plain_text(markdown) == words


def test_plain_text_of_brackets_and_tags_takes_linear_time() -> None:
    for text in ("[" * 50_000, "<a" * 50_000, "<!--" * 20_000, "*_" * 50_000, "|" * 50_000):
        plain_text(text)


def test_a_plain_heading_is_one_line_without_its_anchor() -> None:
    assert plain_heading("The `E-1` *code*\n {#the-code}") == "The E-1 code"


def write(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("# Page\n")


def names(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in find_files(folder)]


def test_files_of_every_format_are_found_sorted(tmp_path: Path) -> None:
    write(tmp_path, "b.md", "a/z.MD", "a/b/c.markdown", "a/x.txt", "a/md", "a/y.py", "c.PDF")
    write(tmp_path, "d.html", "d.mdx", "e.docx", "e.pptx", "e.xlsx", "f.csv", "~$e.docx", "._e.pdf")
    assert names(tmp_path) == [
        *("a/b/c.markdown", "a/x.txt", "a/z.MD", "b.md", "c.PDF", "d.html", "d.mdx"),
        *("e.docx", "e.pptx", "e.xlsx"),
    ]


def test_names_with_odd_characters_are_names(tmp_path: Path) -> None:
    odd = ["#1 {plan}.md", "a%20b.html", "new\nline.txt", "o'neil & co [x].md", "日本 🚀.md"]
    for name in odd:
        (tmp_path / name).write_text("<p>Text.</p>")
    reads = list(read_folder(tmp_path, base_url="https://wiki.example/{stem}"))
    assert [read.document.path for read in reads if isinstance(read, Read)] == odd
    assert {read.document.url for read in reads if isinstance(read, Read)} == {
        "https://wiki.example/%231%20%7Bplan%7D",
        "https://wiki.example/a%2520b",
        "https://wiki.example/new%0Aline",
        "https://wiki.example/o%27neil%20%26%20co%20%5Bx%5D",
        "https://wiki.example/%E6%97%A5%E6%9C%AC%20%F0%9F%9A%80",
    }


def test_hidden_and_linked_folders_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "docs/a.md", "docs/.git/b.md", "docs/.obsidian/x/c.md", "other/d.md")
    (tmp_path / "docs" / "linked").symlink_to(tmp_path / "other")
    (tmp_path / "docs" / "loop").symlink_to(tmp_path / "docs")
    assert names(tmp_path / "docs") == ["a.md"]


@pytest.mark.parametrize("kind", ["missing", "file.md"])
def test_what_is_no_folder_is_told(tmp_path: Path, kind: str) -> None:
    write(tmp_path, "file.md")
    with pytest.raises(ConfigError, match="is not a folder"):
        find_files(tmp_path / kind)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_a_folder_that_cannot_be_listed_is_told(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "closed/b.md")
    (tmp_path / "closed").chmod(0)
    try:
        with pytest.raises(ConfigError, match="closed cannot be listed: Permission denied"):
            find_files(tmp_path)
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_a_file_that_cannot_be_read_is_skipped_and_the_rest_goes_on(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "c.md")
    (tmp_path / "b.md").symlink_to(tmp_path / "gone.md")
    first, second, third = read_folder(tmp_path)
    assert isinstance(first, Read) and isinstance(third, Read)
    assert second == Skipped(path="b.md", reason="cannot be read: No such file or directory")


def test_what_is_not_a_file_of_the_folder_is_skipped_and_the_rest_goes_on(tmp_path: Path) -> None:
    write(tmp_path, "docs/z.md", "elsewhere/secrets.md")
    docs = tmp_path / "docs"
    (docs / "linked.md").symlink_to(tmp_path / "elsewhere" / "secrets.md")
    os.mkfifo(docs / "pipe.md")
    (docs / os.fsdecode(b"caf\xe9.md")).write_text("# A page\n")
    *refused, last = read_folder(docs, base_url="https://wiki.example")
    assert isinstance(last, Read) and last.document.path == "z.md"
    assert refused == [
        Skipped(path="caf?.md", reason="its name is not UTF-8; rename it"),
        Skipped(
            path="linked.md",
            reason="a link to a file outside the folder; put the file itself there",
        ),
        Skipped(path="pipe.md", reason="not a regular file"),
    ]


def test_a_field_that_cannot_be_shown_is_left_out_or_mended() -> None:
    assert front(r'title: "half \ud83d of it"').title == "half ? of it"
    assert front("owner: 0x" + "f" * 5_000).owner is None


def test_plain_text_takes_linear_time() -> None:
    started = perf_counter()
    plain_text(" " * 400_000 + "x")
    assert perf_counter() - started < 2  # it took over ten minutes


def test_urls_start_with_the_base_url(tmp_path: Path) -> None:
    write(tmp_path, "how to/50% off?.md")
    (found,) = read_folder(tmp_path, base_url="https://wiki.example/docs/")
    assert isinstance(found, Read)
    assert found.document.url == "https://wiki.example/docs/how%20to/50%25%20off%3F.md"
    assert found.document.path == "how to/50% off?.md"
    (local,) = read_folder(tmp_path)
    assert isinstance(local, Read) and local.document.url.startswith("file:///")
