"""Sources brought up to date: what is done anew, what is known again, what is removed and when."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError

from retrieval import source_states, sync
from retrieval.db import Database
from retrieval.embedding import Embedder, Embedding
from retrieval.errors import Busy, ConfigError
from retrieval.indexing import Summary
from retrieval.rerank import LateInteraction
from retrieval.source_states import SourceState
from retrieval.sources.catalog import PageRule, Source
from retrieval.sync import Syncer, name_source
from retrieval.tuning import DEFAULT
from tests.conftest import Server
from tests.repositories import Repository
from tests.retrieval.pages import ask, build_retriever, find_index, ingest, page

ROOT = Path(__file__).parents[2]
LEAVE = "# Leave\n\nYou have 28 days of leave a year, and they end with March of the next one.\n"
VPN = "# VPN\n\nSet `VPN_MTU` to 1380 when pages load slowly, and try it again after that.\n"
DESK = "# Help desk\n\nThe help desk is open from 8 to 18, and at night by telephone only.\n"
ROTA = "# Rota\n\nWho is on call hands over on Mondays at 10, by a call of a quarter of an hour.\n"
PAGES = {"leave.md": LEAVE, "vpn.md": VPN, "desk.md": DESK, "rota.md": ROTA}


class Counting:
    """The embedder, which notes what it was given."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.texts: list[str] = []
        self.before: Callable[[], object] = lambda: None  # called before the first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        call, self.before = self.before, lambda: None
        call()
        self.texts += texts
        return self._embedder.embed_documents(texts)


class Wiki:
    """A folder, and the index that follows it."""

    def __init__(self, database: Database, embedder: Embedder, root: Path) -> None:
        self.database = database
        self.embedder = Counting(embedder)
        self.docs = root / "wiki"
        self.source = Source(name="wiki", path=self.docs, base_url="https://wiki.example")
        self.syncer = Syncer(
            database=database,
            embedder=self.embedder,  # type: ignore[arg-type]
            reranker=LateInteraction(),
            tuning=DEFAULT,
            checkouts=root / "checkouts",
        )
        self.write(**PAGES)

    def write(self, **pages: str) -> None:
        """Write pages by their path; all others stay."""
        for path, body in pages.items():
            (self.docs / path).parent.mkdir(parents=True, exist_ok=True)
            (self.docs / path).write_text(body)

    def remove(self, *paths: str) -> None:
        for path in paths:
            (self.docs / path).unlink()

    def move(self, path: str, to: str) -> None:
        (self.docs / to).parent.mkdir(parents=True, exist_ok=True)
        (self.docs / path).rename(self.docs / to)

    def sync(self, *, prune: bool = False, **more: Any) -> Summary:
        """Bring it up to date; embedder.texts is what was embedded on the way."""
        self.embedder.texts.clear()
        return sync.sync(self.syncer, replace(self.source, **more), prune=prune)

    def find(self, statement: str) -> list[tuple[Any, ...]]:
        with self.database.unrestricted.transaction() as connection:
            return [tuple(row) for row in connection.execute(text(statement))]

    def find_paths(self) -> list[str]:
        return [path for (path,) in self.find("SELECT path FROM documents ORDER BY path")]

    def find_ids(self) -> dict[str, int]:
        return dict(self.find("SELECT path, document_id FROM documents"))  # type: ignore[arg-type]

    def find_letters(self) -> list[tuple[Any, ...]]:
        return self.find("SELECT path, reason, attempts FROM dead_letters ORDER BY path")

    def age_letters(self, hours: int) -> None:
        """Have hours pass since files could not be read."""
        with self.database.unrestricted.transaction() as connection:
            connection.execute(
                text("UPDATE dead_letters SET last_at = last_at - make_interval(hours => :hours)"),
                {"hours": hours},
            )

    def age_misses(self) -> None:
        """Have hours pass since pages were missed."""
        with self.database.unrestricted.transaction() as connection:
            connection.execute(
                text("UPDATE documents SET missed_at = missed_at - interval '3 hours'")
            )


@pytest.fixture
def wiki(database: Database, embedder: Embedder, tmp_path: Path) -> Wiki:
    return Wiki(database, embedder, tmp_path)


def search(database: Database, embedder: Embedder, question: str, *audiences: str) -> set[str]:
    """The paths of what somebody may find."""
    reader = database.reading_as(audiences) if audiences else database
    found = build_retriever(reader, embedder).search(ask(question))
    return {candidate.section.path for candidate in found}


def test_only_what_changed_is_embedded(wiki: Wiki) -> None:
    assert wiki.sync().new == 4
    again = wiki.sync()
    assert (again.new, again.changed, again.unchanged, wiki.embedder.texts) == (0, 0, 4, [])
    wiki.write(**{"leave.md": LEAVE.replace("28", "30")})
    assert wiki.sync().changed == 1
    (embedded,) = wiki.embedder.texts
    assert "30 days" in embedded


def test_of_a_page_that_was_edited_only_the_chunks_that_changed_are_embedded(
    wiki: Wiki, embedder: Embedder
) -> None:
    long = "# Manual\n\n" + "\n\n".join(
        f"## Part {n}\n\n" + f"The lamp L-{n:03} burns on floor {n}. " * 12 for n in range(12)
    )
    wiki.write(**{"manual.md": long})
    wiki.sync()
    wiki.write(**{"manual.md": long.replace("L-005 burns", "L-005 is out")})
    wiki.sync()
    assert 1 <= len(wiki.embedder.texts) <= 2
    assert all("L-005" in each for each in wiki.embedder.texts)
    assert "manual.md" in search(wiki.database, embedder, "which lamp is out?")


@pytest.mark.parametrize(
    ("more", "column", "value"),
    [
        ({"base_url": "https://docs.example"}, "url", "https://docs.example/leave.md"),
        ({"owner": "people@acme.example"}, "owner", "people@acme.example"),
        ({"freshness_days": 30}, "freshness_days", 30),
    ],
)
def test_what_is_not_indexed_is_changed_without_embedding(
    wiki: Wiki, more: dict[str, Any], column: str, value: object
) -> None:
    wiki.sync()
    sections = wiki.find("SELECT section_id FROM sections ORDER BY 1")
    summary = wiki.sync(**more)
    assert (summary.changed, summary.unchanged, wiki.embedder.texts) == (4, 0, [])
    query = f"SELECT {column} FROM documents WHERE path = 'leave.md'"
    assert wiki.find(query) == [(value,)]
    assert wiki.find("SELECT section_id FROM sections ORDER BY 1") == sections
    assert wiki.sync(**more).unchanged == 4


@pytest.mark.parametrize(
    ("front_matter", "column", "value"),
    [
        ("last_verified: 2026-02-01", "verified_at::text", "2026-02-01"),
        ("updated_at: 2026-02-01", "updated_at::date::text", "2026-02-01"),
        ("status: deprecated", "is_superseded", True),
    ],
)
def test_what_a_page_says_of_itself_is_changed_without_embedding(
    wiki: Wiki, front_matter: str, column: str, value: object
) -> None:
    wiki.sync()
    wiki.write(**{"leave.md": f"---\n{front_matter}\n---\n{LEAVE}"})
    assert wiki.sync().changed == 1
    assert wiki.embedder.texts == []
    assert wiki.find(f"SELECT {column} FROM documents WHERE path = 'leave.md'") == [(value,)]
    hashes = "SELECT count(*) FROM sections JOIN documents USING (document_id, content_hash)"
    assert wiki.find(hashes) == [(4,)]  # nothing is lacking


def test_a_confirmation_outlives_another_date(wiki: Wiki) -> None:
    wiki.sync()
    with wiki.database.transaction() as connection:
        connection.execute(
            text("UPDATE documents SET confirmed_on = '2026-06-01', verified_at = '2026-06-01'")
        )
    wiki.write(**{"leave.md": f"---\nlast_verified: 2026-02-01\n---\n{LEAVE}"})
    wiki.sync()
    query = "SELECT verified_at::text FROM documents WHERE path = 'leave.md'"
    assert wiki.find(query) == [("2026-06-01",)]


def test_another_audience_embeds_nothing_and_holds_for_all_that_is_searched(
    wiki: Wiki, embedder: Embedder
) -> None:
    wiki.sync()
    wiki.write(**{"vpn.md": f"---\naudience: channel:C1\n---\n{VPN}"})
    wiki.sync()
    assert wiki.embedder.texts == []
    assert "vpn.md" not in search(wiki.database, embedder, "VPN_MTU slow pages")
    assert "vpn.md" in search(wiki.database, embedder, "VPN_MTU slow pages", "channel:C1")
    wiki.write(**{"vpn.md": VPN})
    wiki.sync()
    assert wiki.embedder.texts == []
    assert "vpn.md" in search(wiki.database, embedder, "VPN_MTU slow pages")


@pytest.mark.parametrize(
    ("before", "now", "readers"),
    [
        ("everyone", "channel:C1", {"channel:C1"}),  # not everyone any more
        ("channel:C1", "everyone", {"channel:C1"}),  # the old text is for them alone
        ("channel:C1, channel:C2", "channel:C2, channel:C3", {"channel:C2"}),
        ("channel:C1", "channel:C2", set()),
    ],
)
def test_rights_come_before_embedding(
    wiki: Wiki, embedder: Embedder, before: str, now: str, readers: set[str]
) -> None:
    """While the new text is embedded, the old one is for who may read both."""
    wiki.write(**{"vpn.md": f"---\naudience: {before}\n---\n{VPN}"})
    wiki.sync()
    everybody = ("everyone", "channel:C1", "channel:C2", "channel:C3")
    meanwhile: set[str] = set()

    def look() -> None:
        for reader in everybody:
            if "vpn.md" in search(wiki.database, embedder, "VPN_MTU slow pages", reader):
                meanwhile.add(reader)

    wiki.write(**{"vpn.md": f"---\naudience: {now}\n---\n{VPN.replace('1380', '1400')}"})
    wiki.embedder.before = look
    wiki.sync()
    assert meanwhile == readers
    for reader in everybody:
        found = search(wiki.database, embedder, "VPN_MTU slow pages", reader)
        assert ("vpn.md" in found) == (reader in now)


@pytest.mark.parametrize("away", [False, True])
def test_the_rules_of_a_source_hold_before_it_is_read(
    wiki: Wiki, embedder: Embedder, away: bool
) -> None:
    wiki.sync()
    narrowed = {"pages": (PageRule(pattern="vpn.md", audience=("channel:C1",)),)}
    if away:
        wiki.docs.rename(wiki.docs.with_name("away"))
        with pytest.raises(ConfigError):
            wiki.sync(**narrowed)
    else:
        (wiki.docs / "vpn.md").write_bytes(b"\xff")
        assert [each.path for each in wiki.sync(**narrowed).skipped] == ["vpn.md"]
    assert "vpn.md" not in search(wiki.database, embedder, "VPN_MTU slow pages")
    assert "leave.md" in search(wiki.database, embedder, "days of leave")
    if away:
        wiki.docs.with_name("away").rename(wiki.docs)
    wiki.write(**{"vpn.md": VPN})
    wiki.sync()  # the rule was a mistake
    assert wiki.embedder.texts == []
    assert "vpn.md" in search(wiki.database, embedder, "VPN_MTU slow pages")


def test_a_page_moved_to_where_fewer_may_read_it_is_theirs_at_once(
    wiki: Wiki, embedder: Embedder
) -> None:
    wiki.sync()
    meanwhile: list[set[str]] = []
    wiki.move("vpn.md", "secret/vpn.md")
    wiki.write(**{"secret/vpn.md": f"---\naudience: channel:C1\n---\n{VPN}"})
    wiki.write(**{"new.md": "# New\n\nSomething that has to be embedded.\n"})
    wiki.embedder.before = lambda: meanwhile.append(
        search(wiki.database, embedder, "VPN_MTU slow pages")
    )
    assert wiki.sync().moved == (("vpn.md", "secret/vpn.md"),)
    (found,) = meanwhile
    assert found and not found & {"vpn.md", "secret/vpn.md"}
    assert "secret/vpn.md" in search(wiki.database, embedder, "VPN_MTU", "channel:C1")


def test_a_page_that_was_moved_keeps_its_identity(
    wiki: Wiki, database_url: str, embedder: Embedder, tmp_path: Path
) -> None:
    wiki.sync()
    before = wiki.find_ids()
    with wiki.database.transaction() as connection:
        connection.execute(text("UPDATE documents SET confirmed_on = '2026-06-01'"))
    wiki.move("vpn.md", "network/tunnel.md")
    summary = wiki.sync()
    assert (summary.new, summary.changed, summary.gone) == (0, 1, ())
    assert summary.moved == (("vpn.md", "network/tunnel.md"),)
    assert wiki.embedder.texts == []  # title and words are the same
    assert wiki.find_ids() == {**without(before, "vpn.md"), "network/tunnel.md": before["vpn.md"]}
    ((url, confirmed_on),) = wiki.find(
        "SELECT url, confirmed_on::text FROM documents WHERE path = 'network/tunnel.md'"
    )
    assert (url, confirmed_on) == ("https://wiki.example/network/tunnel.md", "2026-06-01")
    with closing(Database(database_url, tenant_id="other")) as other:
        fresh = Wiki(other, embedder, tmp_path / "fresh")
        shutil.rmtree(fresh.docs)
        shutil.copytree(wiki.docs, fresh.docs)
        fresh.sync()
        assert find_index(wiki.database) == find_index(other)


def without(ids: dict[str, int], path: str) -> dict[str, int]:
    return {each: document_id for each, document_id in ids.items() if each != path}


def test_a_page_that_was_moved_and_edited_keeps_its_identity(wiki: Wiki) -> None:
    wiki.sync()
    before = wiki.find_ids()
    wiki.move("vpn.md", "network/vpn.md")
    wiki.write(**{"network/vpn.md": VPN.replace("1380", "1400")})
    assert wiki.sync().moved == (("vpn.md", "network/vpn.md"),)
    assert wiki.find_ids()["network/vpn.md"] == before["vpn.md"]


def test_all_pages_of_a_folder_can_be_moved_at_once(wiki: Wiki) -> None:
    wiki.sync()
    before = wiki.find_ids()
    for path in PAGES:
        wiki.move(path, f"handbook/{path}")
    summary = wiki.sync()
    assert (len(summary.moved), summary.gone, summary.doubt) == (4, (), None)
    assert wiki.find_ids() == {f"handbook/{path}": before[path] for path in PAGES}


def test_a_move_is_noted_as_gone_and_come(wiki: Wiki) -> None:
    wiki.sync()
    wiki.move("vpn.md", "network/vpn.md")
    wiki.write(**{"network/vpn.md": VPN.replace("1380", "1400")})
    wiki.sync()
    changes = wiki.find("""
        SELECT kind, path, text_hash = (SELECT text_hash FROM page_changes WHERE kind = 'removed')
        FROM page_changes ORDER BY change_id OFFSET 4
    """)
    assert changes == [
        ("removed", "vpn.md", True),
        ("added", "network/vpn.md", True),
        ("changed", "network/vpn.md", False),
    ]


def test_what_is_gone_twice_running_is_removed(wiki: Wiki) -> None:
    wiki.sync()
    wiki.remove("vpn.md")
    first = wiki.sync()
    assert (first.gone, first.removed) == (("vpn.md",), ())
    wiki.age_misses()
    second = wiki.sync()
    assert (second.gone, second.removed) == ((), ("vpn.md",))
    assert wiki.find_paths() == ["desk.md", "leave.md", "rota.md"]


def test_what_is_gone_for_a_moment_is_not_removed_however_often_it_is_looked_for(
    wiki: Wiki,
) -> None:
    wiki.sync()
    wiki.remove("vpn.md")
    assert [wiki.sync().removed for _ in range(3)] == [()] * 3
    assert wiki.find("SELECT max(missed_count) FROM documents") == [(3,)]


def test_what_comes_back_is_missed_anew(wiki: Wiki) -> None:
    wiki.sync()
    wiki.remove("vpn.md")
    wiki.sync()
    wiki.age_misses()
    wiki.write(**{"vpn.md": VPN})
    assert wiki.sync().unchanged == 4
    assert wiki.find("SELECT count(*) FROM documents WHERE missed_count > 0") == [(0,)]
    wiki.remove("vpn.md")
    assert wiki.sync().removed == ()


def test_prune_removes_at_once(wiki: Wiki) -> None:
    wiki.sync()
    wiki.remove("vpn.md", "desk.md", "rota.md")
    assert wiki.sync(prune=True).removed == ("desk.md", "rota.md", "vpn.md")
    assert wiki.find_paths() == ["leave.md"]


@pytest.mark.parametrize("away", ["folder", "files", "most files", "part"])
def test_a_source_that_is_away_for_an_hour_loses_nothing(wiki: Wiki, away: str) -> None:
    for number in range(6):
        wiki.write(**{f"part/{number}.md": f"# {number}\n\nPage {number} of the part.\n"})
    wiki.sync()
    ids = wiki.find_ids()
    safe = wiki.docs.with_name("safe")
    shutil.copytree(wiki.docs, safe)
    shutil.rmtree(wiki.docs)
    if away != "folder":
        wiki.docs.mkdir()  # a mount point without its mount
    if away == "most files":
        shutil.copytree(safe, wiki.docs, ignore=shutil.ignore_patterns("part"), dirs_exist_ok=True)
    for _ in range(3):
        if away == "folder":
            with pytest.raises(ConfigError, match="is not a folder"):
                wiki.sync()
        else:
            summary = wiki.sync()
            assert summary.removed == () and summary.doubt
            assert ("--prune" in summary.doubt) == (away == "most files")
        wiki.age_misses()
        with wiki.database.transaction() as connection:
            (state,) = source_states.load(connection)
        assert state.error
    shutil.rmtree(wiki.docs, ignore_errors=True)
    shutil.copytree(safe, wiki.docs)
    assert wiki.sync().unchanged == 10
    assert wiki.embedder.texts == []
    assert wiki.find_ids() == ids
    with wiki.database.transaction() as connection:
        (state,) = source_states.load(connection)
    assert state.error is None


def test_the_last_page_goes_when_it_is_said_and_those_of_a_whole_folder_do_not(wiki: Wiki) -> None:
    wiki.sync()
    wiki.remove("vpn.md", "desk.md", "rota.md")
    wiki.sync(prune=True)
    wiki.remove("leave.md")
    summary = wiki.sync()
    assert summary.removed == () and summary.doubt and "with --prune" in summary.doubt
    assert wiki.sync(prune=True).removed == ("leave.md",)
    wiki.write(**PAGES)
    wiki.sync()
    wiki.remove(*PAGES)
    with pytest.raises(ConfigError, match=r"take it out of SOURCES, and run `footnote sync wiki"):
        wiki.sync(prune=True)
    assert wiki.find_paths() == sorted(PAGES)


def test_a_source_is_removed_with_all_that_it_has(
    wiki: Wiki, embedder: Embedder, tmp_path: Path
) -> None:
    wiki.write(**{"broken.md": ""})
    wiki.sync()
    other = replace(wiki.source, name="other")
    sync.sync(wiki.syncer, other)
    assert sync.remove(wiki.database, tmp_path, "wiki") == 4
    assert sync.remove(wiki.database, tmp_path, "wiki") is None
    assert wiki.find("SELECT source FROM documents GROUP BY 1") == [("other",)]
    assert wiki.find("SELECT source FROM dead_letters") == [("other",)]
    assert wiki.find("SELECT section_count FROM generations") == [(4,)]
    assert "leave.md" in search(wiki.database, embedder, "days of leave")


def test_a_source_that_is_renamed_is_not_open_under_its_old_name(
    wiki: Wiki, embedder: Embedder
) -> None:
    wiki.sync()
    secret = PageRule(pattern="vpn.md", audience=("channel:C2",))
    new = replace(wiki.source, name="hr", audience=("channel:C1",), pages=(secret,))
    other = Source(name="other", path=wiki.docs.with_name("other"))
    assert sync.narrow_renamed(wiki.database, [wiki.source, other]) == {}
    assert sync.narrow_renamed(wiki.database, [other, new]) == {"wiki": new}
    assert search(wiki.database, embedder, "days of leave") == set()
    found = search(wiki.database, embedder, "days of leave", "everyone", "channel:C1")
    assert found == {"leave.md", "desk.md", "rota.md"}
    wiki.sync()  # it was a mistake
    assert "vpn.md" in search(wiki.database, embedder, "VPN_MTU slow pages")


def test_a_page_that_somebody_empties_is_gone(wiki: Wiki) -> None:
    wiki.sync()
    wiki.write(**{"vpn.md": "\n"})
    first = wiki.sync()
    assert [each.path for each in first.skipped] == ["vpn.md"]
    assert (first.gone, first.removed) == (("vpn.md",), ())
    wiki.age_misses()
    assert wiki.sync().removed == ("vpn.md",)
    assert wiki.sync().gone == ()


@pytest.mark.parametrize(
    "front_matter",
    ["audience: chanel:C1", "audience:", "audience: channel:C1\ntitle: a: b", "Audience = C1"],
)
def test_a_page_whose_readers_are_misspelt_is_for_nobody_until_that_is_mended(
    wiki: Wiki, embedder: Embedder, front_matter: str
) -> None:
    wiki.sync()
    wiki.write(**{"vpn.md": f"---\n{front_matter}\n---\n{VPN}"})
    for _ in range(2):
        assert [each.path for each in wiki.sync().skipped] == ["vpn.md"]
    for reader in ("everyone", "public", "channel:C1"):
        assert "vpn.md" not in search(wiki.database, embedder, "VPN_MTU slow pages", reader)
    assert "vpn.md" in wiki.find_paths()
    wiki.write(**{"vpn.md": f"---\naudience: channel:C1\n---\n{VPN}"})
    wiki.sync()
    assert wiki.embedder.texts == []
    for reader in ("everyone", "channel:C1"):
        found = search(wiki.database, embedder, "VPN_MTU slow pages", reader)
        assert ("vpn.md" in found) == (reader == "channel:C1")


def test_a_folder_by_itself_opens_no_page_to_more_people(wiki: Wiki, embedder: Embedder) -> None:
    wiki.sync(audience=("channel:C1",))
    wiki.write(**{"new.md": "# New\n\nThe new one is secret, too.\n"})
    folder = Source(name="wiki", path=wiki.docs)
    with pytest.raises(
        ConfigError, match=r"desk\.md of source 'wiki' is for channel:C1, .*--source"
    ):
        sync.ingest(wiki.syncer, folder)
    assert wiki.find_paths() == sorted(PAGES)
    assert search(wiki.database, embedder, "days of leave") == set()
    other = replace(folder, name="other")
    wiki.write(**{"vpn.md": f"---\naudience: channel:C1\n---\n{VPN}"})
    sync.ingest(wiki.syncer, other)
    wiki.write(**{"vpn.md": f"---\naudience: chanel:C1\n---\n{VPN}"})
    sync.ingest(wiki.syncer, other)
    wiki.write(**{"vpn.md": VPN})  # it was for nobody, and says now for whom it is
    assert sync.ingest(wiki.syncer, other).changed == 1
    assert "vpn.md" in search(wiki.database, embedder, "VPN_MTU slow pages")


def test_a_link_that_leads_to_itself_keeps_no_page_from_being_read(wiki: Wiki) -> None:
    wiki.write()
    (wiki.docs / "loop.md").symlink_to(wiki.docs / "loop.md")
    summary = wiki.sync()
    (skipped,) = summary.skipped
    assert (skipped.path, summary.new) == ("loop.md", 4) and "leads back" in skipped.reason


@pytest.mark.parametrize("over", [False, True])
def test_what_was_confirmed_is_a_text_and_not_a_name(wiki: Wiki, over: bool) -> None:
    wiki.sync()
    with wiki.database.transaction() as connection:
        connection.execute(
            text("UPDATE documents SET confirmed_on = '2026-06-01' WHERE path = 'leave.md'")
        )
    wiki.write(**{"vpn.md": LEAVE})
    if over:
        wiki.remove("leave.md")
    else:
        wiki.write(**{"leave.md": VPN})
    wiki.sync()
    query = "SELECT path FROM documents WHERE confirmed_on IS NOT NULL ORDER BY path"
    confirmed = [path for (path,) in wiki.find(query)]
    assert confirmed == (["leave.md", "vpn.md"] if over else ["vpn.md"])
    dated = wiki.find("SELECT verified_at::text FROM documents WHERE path = 'vpn.md'")
    assert dated == [("2026-06-01",)]


def test_a_skipped_file_keeps_its_page_and_is_told_until_it_is_read(wiki: Wiki) -> None:
    wiki.sync()
    (wiki.docs / "vpn.md").write_bytes(b"# VPN \xff\x81\n")
    for hours, attempts in ((0, 1), (0, 1), (25, 2)):  # it is tried again when it changes, or daily
        wiki.age_letters(hours)
        summary = wiki.sync()
        assert [each.path for each in summary.skipped] == ["vpn.md"]
        assert (summary.gone, summary.unchanged) == ((), 3)
        reason = "not UTF-8 at byte 6; save it as UTF-8"
        assert wiki.find_letters() == [("vpn.md", reason, attempts)]
    (wiki.docs / "vpn.md").write_bytes(b"\x81")
    wiki.sync()
    assert wiki.find_letters() == [("vpn.md", reason.replace("6", "0"), 3)]
    assert wiki.find_paths() == sorted(PAGES)
    wiki.write(**{"vpn.md": VPN})
    assert wiki.sync().unchanged == 4
    assert wiki.find_letters() == []


def test_a_letter_leaves_with_its_file(wiki: Wiki) -> None:
    wiki.write(**{"empty.md": ""})
    wiki.sync()
    assert wiki.find_letters() == [("empty.md", "empty: it has no words", 1)]
    wiki.remove("empty.md")
    wiki.sync()
    assert wiki.find_letters() == []


def test_a_folders_own_name_stands_for_one_folder(database: Database, tmp_path: Path) -> None:
    wiki, handbook = tmp_path / "wiki" / "docs", tmp_path / "handbook" / "docs"
    assert name_source(database, wiki, None) == "docs"
    assert name_source(database, wiki, None) == "docs"
    with pytest.raises(ConfigError, match="--source"):
        name_source(database, handbook, None)
    assert name_source(database, handbook, "handbook") == "handbook"
    assert name_source(database, handbook, "docs") == "docs"  # said aloud: it has moved
    with pytest.raises(ConfigError, match="--source"):
        name_source(database, wiki, None)


def test_a_folder_that_is_named_from_where_one_is_keeps_its_name(
    wiki: Wiki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert name_source(wiki.database, Path("wiki"), None) == "wiki"
        sync.ingest(wiki.syncer, Source(name="wiki", path=Path("wiki")))


class Choking:
    """The embedder, which cannot take one text."""

    def __init__(self, embedder: Embedder, on: str) -> None:
        self._embedder = embedder
        self._on = on

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        if any(self._on in each for each in texts):
            raise RuntimeError(f"cannot take {self._on}")
        return self._embedder.embed_documents(texts)


def test_a_page_that_cannot_be_indexed_keeps_no_other_from_it(
    wiki: Wiki, embedder: Embedder, database: Database
) -> None:
    wiki.sync()
    wiki.write(
        **{"vpn.md": VPN.replace("1380", "1400"), "leave.md": LEAVE.replace("28", "30")},
        **{"new.md": "# New\n\nThe lamp is 1400 metres away.\n"},
    )
    choking = replace(wiki.syncer, embedder=Choking(embedder, "1400"))  # type: ignore[arg-type]
    summary = sync.sync(choking, wiki.source)
    assert (summary.new, summary.changed, summary.unchanged) == (0, 1, 2)
    assert sorted(each.path for each in summary.skipped) == ["new.md", "vpn.md"]
    reason = "cannot be indexed: RuntimeError"  # and nothing of what it says
    assert wiki.find_letters() == [("new.md", reason, 1), ("vpn.md", reason, 1)]
    texts = {path: body for path, body in wiki.find("SELECT path, text FROM documents")}
    assert "1380" in texts["vpn.md"] and "30 days" in texts["leave.md"] and "new.md" not in texts
    assert wiki.sync().new == 1
    assert wiki.find_letters() == []


def test_a_first_page_that_cannot_be_embedded_keeps_no_other_from_it(
    wiki: Wiki, embedder: Embedder
) -> None:
    choking = replace(wiki.syncer, embedder=Choking(embedder, "1380"))  # type: ignore[arg-type]
    summary = sync.sync(choking, wiki.source)
    assert (summary.new, summary.state) == (3, "active")
    assert [each.path for each in summary.skipped] == ["vpn.md"]


def test_a_page_that_the_database_does_not_take_is_one_of_them(
    wiki: Wiki, embedder: Embedder
) -> None:
    """No index of PostgreSQL has room for a path that long, which cannot be compressed."""
    long = "".join(sha256(str(number).encode()).hexdigest() for number in range(200))
    text = "# Page\n\nFar down.\n"
    summary = ingest(wiki.database, embedder, page(long, text), page("near.md", text))
    assert (summary.new, [each.path for each in summary.skipped]) == (1, [long])
    assert wiki.find_paths() == ["near.md"]
    assert [path for path, *_ in wiki.find_letters()] == [long]


def test_a_database_that_is_away_makes_no_dead_letters(wiki: Wiki) -> None:
    wiki.sync()
    wiki.write(**{"vpn.md": VPN.replace("1380", "1400")})

    @event.listens_for(wiki.database.engine, "before_cursor_execute")
    def cut_off(connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if "INSERT INTO documents" in statement or "INSERT INTO dead_letters" in statement:
            connection.connection.dbapi_connection.close()

    with pytest.raises(OperationalError):
        wiki.sync()
    event.remove(wiki.database.engine, "before_cursor_execute", cut_off)
    assert wiki.find_letters() == []
    assert wiki.sync().changed == 1


def test_how_a_source_was_read_is_noted(wiki: Wiki, caplog: pytest.LogCaptureFixture) -> None:
    def find_state() -> SourceState:
        with wiki.database.transaction() as connection:
            (state,) = source_states.load(connection)
        return state

    wiki.sync()
    done = find_state()
    assert done.root == str(wiki.docs) and done.error is None
    assert done.started_at and done.completed_at and done.started_at < done.completed_at
    wiki.docs.rename(wiki.docs.with_name("away"))
    with pytest.raises(ConfigError):
        wiki.sync()
    failed = find_state()
    assert failed.error and "is not a folder" in failed.error
    assert failed.completed_at == done.completed_at

    wiki.docs.with_name("away").rename(wiki.docs)
    wiki.write(**{"new.md": "# New\n\nSomething new.\n"})
    wiki.embedder.before = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        sync.sync(replace(wiki.syncer, database=wiki.database), wiki.source, progress=fail)
    assert find_state().error == "It failed with ZeroDivisionError."
    (record,) = caplog.records
    assert "Source wiki: ZeroDivisionError in " in record.getMessage()
    assert "test_sync.py, line " in record.getMessage() and "a page" not in record.getMessage()


def fail(done: int, total: int) -> None:
    raise ZeroDivisionError("a page")


def test_of_two_syncs_at_once_one_says_that_the_other_works(wiki: Wiki) -> None:
    told: list[str] = []

    def again() -> None:
        with pytest.raises(Busy, match="Another ingest of source 'wiki' is running") as raised:
            sync.sync(wiki.syncer, wiki.source)
        told.append(str(raised.value))

    wiki.embedder.before = again
    assert wiki.sync().new == 4
    assert len(told) == 1
    with wiki.database.transaction() as connection:
        (state,) = source_states.load(connection)
    assert state.error is None
    assert wiki.find_paths() == sorted(PAGES)


def test_a_sync_that_lost_its_lock_ends_and_says_so(wiki: Wiki, server: Server) -> None:
    """Another may be at it by then, and their pages would be counted twice as gone."""
    wiki.sync()
    wiki.write(**{"vpn.md": VPN.replace("1380", "1400")})
    wiki.remove("desk.md")
    wiki.embedder.before = lambda: server.execute(f"""
        SELECT pg_terminate_backend(pid)
        FROM pg_locks JOIN pg_database ON pg_locks.database = pg_database.oid
        WHERE locktype = 'advisory' AND datname = '{wiki.database.engine.url.database}'
    """)
    with pytest.raises(ConfigError, match="was cut"):
        wiki.sync()
    assert wiki.find("SELECT max(missed_count) FROM documents") == [(0,)]
    assert wiki.sync().gone == ("desk.md",)


def test_two_sources_at_once_are_fine(wiki: Wiki, embedder: Embedder, tmp_path: Path) -> None:
    other = Wiki(wiki.database, embedder, tmp_path / "other")
    other.source = replace(other.source, name="other")
    wiki.embedder.before = lambda: other.sync()
    assert wiki.sync().new == 4
    assert wiki.find("SELECT source, count(*) FROM documents GROUP BY 1 ORDER BY 1") == [
        ("other", 4),
        ("wiki", 4),
    ]
    assert wiki.find("SELECT state, section_count FROM generations") == [("active", 8)]


KILLED = """
import os, signal, sys
from pathlib import Path
from retrieval import sync
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.rerank import LateInteraction
from retrieval.sources.catalog import PageRule, Source
from retrieval.tuning import DEFAULT

url, root = sys.argv[1], Path(sys.argv[2])

class Killed(Embedder):
    def embed_documents(self, texts):
        if any("1400" in each for each in texts):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().embed_documents(texts)

syncer = sync.Syncer(
    database=Database(url, tenant_id="acme"), embedder=Killed(), reranker=LateInteraction(),
    tuning=DEFAULT, checkouts=root / "checkouts",
)
sync.sync(syncer, Source(name="wiki", path=root / "wiki", base_url="https://wiki.example"))
"""


def test_p82_killed_while_it_embeds_and_run_again_it_is_complete(
    wiki: Wiki, database_url: str, embedder: Embedder, tmp_path: Path
) -> None:
    wiki.sync()
    before = wiki.find_ids()
    wiki.write(**{"vpn.md": VPN.replace("1380", "1400"), "new.md": "# New\n\nA new page.\n"})
    wiki.move("desk.md", "help/desk.md")
    wiki.write(**{"rota.md": f"---\naudience: channel:C1\n---\n{ROTA}"})
    command = [sys.executable, "-c", KILLED, database_url, str(tmp_path)]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert wiki.find_paths() == sorted(PAGES)  # each old or new, none lost or twice
    assert search(wiki.database, embedder, "VPN_MTU") >= {"vpn.md"}
    assert "rota.md" not in search(wiki.database, embedder, "Rota who is on call")
    summary = wiki.sync()
    assert (summary.new, summary.changed, summary.moved) == (
        1,
        2,
        (("desk.md", "help/desk.md"),),
    )
    after = wiki.find_ids()
    assert after["help/desk.md"] == before["desk.md"] and after["vpn.md"] == before["vpn.md"]
    assert sorted(after) == ["help/desk.md", "leave.md", "new.md", "rota.md", "vpn.md"]
    assert wiki.find("SELECT count(*) FROM sections") == [(5,)]


def test_a_repository_is_checked_out_and_followed(wiki: Wiki, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "origin")
    (repository.root / "docs").mkdir()
    (repository.root / "docs" / "leave.md").write_text(LEAVE)
    first = repository.commit(readme="# Code\n\nNot a page.\n")
    source = Source(name="code", git=f"file://bot:s3cret@localhost{repository.root}", folder="docs")
    assert sync.sync(wiki.syncer, source).new == 1
    assert wiki.find("SELECT source, path FROM documents") == [("code", "leave.md")]
    ((root, revision),) = wiki.find("SELECT root, revision FROM sources")
    assert (root, revision) == (f"localhost{repository.root}//docs", first)
    (repository.root / "docs" / "leave.md").write_text(LEAVE.replace("28", "30"))
    second = repository.commit()
    assert sync.sync(wiki.syncer, source).changed == 1
    assert wiki.find("SELECT revision FROM sources") == [(second,)]
    repository.root.rename(tmp_path / "away")
    for _ in range(2):
        with pytest.raises(ConfigError, match="cannot be read") as raised:
            sync.sync(wiki.syncer, source)
        assert "s3cret" not in str(raised.value)
    assert wiki.find_paths() == ["leave.md"]
    assert sync.remove(wiki.database, wiki.syncer.checkouts, "code") == 1
    assert list(wiki.syncer.checkouts.iterdir()) == []


def test_what_a_repository_only_points_at_is_told(wiki: Wiki, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "origin")
    (repository.root / "docs").mkdir()
    (repository.root / "docs" / "vpn.md").write_text(VPN)
    first = repository.commit()
    source = Source(name="code", git=str(repository.root), folder="docs")
    sync.sync(wiki.syncer, source)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    (repository.root / "docs" / "vpn.md").write_text(pointer)
    for place in ("docs/inner", "outer"):
        (repository.root / place).mkdir()
        repository.git("update-index", "--add", "--cacheinfo", f"160000,{first},{place}")
    repository.commit()
    told = {each.path: each.reason for each in sync.sync(wiki.syncer, source).skipped}
    assert sorted(told) == ["inner", "vpn.md"]
    assert "submodule" in told["inner"] and "git-lfs" in told["vpn.md"]
    # Of a submodule nothing can be done: doctor does not tell of it for ever.
    assert wiki.find("SELECT path FROM dead_letters") == [("vpn.md",)]
    assert wiki.find("SELECT text FROM documents") == [(VPN,)]


@pytest.mark.parametrize("folder", ["..", "docs/../..", "out", "dox"])
def test_a_folder_that_is_not_in_the_repository_is_refused(
    wiki: Wiki, tmp_path: Path, folder: str
) -> None:
    repository = Repository(tmp_path / "origin")
    (repository.root / "out").symlink_to(tmp_path)
    repository.commit(leave=LEAVE)
    source = Source(name="code", git=f"file://{repository.root}", folder=folder)
    wanted = f"{repository.root} has no folder '{folder}' on its default branch; name one"
    with pytest.raises(ConfigError, match=re.escape(wanted)):
        sync.sync(wiki.syncer, source)
