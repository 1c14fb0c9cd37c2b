"""Regressions planted in a copy of the sample: each opens one ticket that names its cause.

The pages of three folders on which cases rest are enough, and index in seconds.
"""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from sqlalchemy import text

from app import eval_runs
from app.config import Settings
from app.evaluating import EvalSet
from app.loop import nightly
from retrieval import indexing, relevance
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.rerank import LateInteraction
from retrieval.retrieve import Retriever
from retrieval.tuning import DEFAULT, Tuning
from tests.app import eval_runs as runs
from tests.app.nights import CASES, know_cases, on_github, pass_night
from tests.conftest import SAMPLE, Server, copied
from tests.folders import read_folder
from tests.remembering import RememberingEmbedder
from tests.stand_ins.tracker import TrackerStandIn

FOLDERS = ("policies", "reference", "runbooks")
SET = EvalSet(
    name="cases",
    cases=tuple(
        case
        for case in CASES
        if case.answers
        and all(gold.doc.startswith(FOLDERS) for answer in case.answers for gold in answer)
    ),
)
PAGES = {gold.doc for case in SET.cases for answer in case.answers for gold in answer}
WIKI, CUT = "footnote_regressions", "footnote_regressions_cut"
SHREDS = replace(DEFAULT, section_tokens=60, chunk_tokens=60)
SPLIT = "runbooks/peak-season-handbook.md"  # several cases rest on it
TITLE = "Peak season handbook"


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages on which the cases rest; never written to."""
    root = tmp_path_factory.mktemp("docs")
    for page in PAGES:
        (root / page).parent.mkdir(exist_ok=True)
        shutil.copy(SAMPLE / "docs" / page, root / page)
    return root


def ingest(database: Database, embedder: Embedder, docs: Path, tuning: Tuning = DEFAULT) -> None:
    reads = read_folder(docs, base_url="https://wiki.halvermeer.example")
    indexing.ingest(database, embedder, reads, source="wiki", tuning=tuning, prune=True)


def open_retriever(database: Database, embedder: Embedder, tuning: Tuning = DEFAULT) -> Retriever:
    return Retriever(
        database=database, embedder=embedder, reranker=LateInteraction(), tuning=tuning
    )


def adopt(retriever: Retriever, packaged: Retriever) -> None:
    """Let a retriever go by the packaged relevance model, whatever that was fitted on."""
    model = relevance.load_packaged(packaged.basis)
    assert model
    with retriever.database.transaction() as connection:
        relevance.save(connection, replace(model, basis=retriever.basis))


@pytest.fixture(scope="module")
def wiki(server: Server, sample_template: str, embedder: Embedder, docs: Path) -> str:
    """The name of a database with these pages and a good run over them, never written to."""
    server.execute(f"CREATE DATABASE {WIKI} TEMPLATE {sample_template}")
    database = Database(server.url(WIKI), tenant_id="acme")
    ingest(database, embedder, docs)
    night = pass_night(open_retriever(database, embedder), Settings(), eval_set=SET)
    assert len(SET.cases) > 20 and night.run.means["all"]["recall@5"] > 0.8
    database.close()
    return WIKI


@pytest.fixture(scope="module")
def cut(server: Server, wiki: str, embedder: Embedder, docs: Path) -> str:
    """The same, but cut to shreds since the good run."""
    server.execute(f"CREATE DATABASE {CUT} TEMPLATE {wiki}")
    database = Database(server.url(CUT), tenant_id="acme")
    # Without a relevance model that fits, it would not be searched.
    adopt(open_retriever(database, embedder, SHREDS), open_retriever(database, embedder))
    ingest(database, embedder, docs, SHREDS)
    database.close()
    return CUT


@pytest.fixture
def database(server: Server, wiki: str) -> Iterator[Database]:
    with copied(server, wiki) as url:
        database = Database(url, tenant_id="acme")
        yield database
        database.close()


@pytest.fixture
def cut_database(server: Server, cut: str) -> Iterator[Database]:
    with copied(server, cut) as url:
        database = Database(url, tenant_id="acme")
        yield database
        database.close()


@pytest.fixture
def tracker() -> Iterator[TrackerStandIn]:
    with TrackerStandIn() as stand_in:
        yield stand_in


def find_cause(tracker: TrackerStandIn) -> str:
    """What the one ticket names first."""
    (issue,) = tracker.issues
    assert issue.title.startswith("recall@5 fell from 0.")
    assert issue.state == "open" and issue.comments == []
    _, _, told = issue.body.partition("## Likeliest cause\n\n")
    return told.partition(" Explains ")[0]


def pass_two_bad_nights(retriever: Retriever, settings: Settings) -> None:
    night = pass_night(retriever, settings, eval_set=SET)
    assert night.news and night.news.event == "opened"
    again = eval_runs.save(retriever.database, night.run)  # the next one, which goes the same
    night = nightly.report(retriever.database, settings, None, again)
    assert night.news and night.news.event == "open"


def assert_recovers(retriever: Retriever, settings: Settings, tracker: TrackerStandIn) -> None:
    night = pass_night(retriever, settings, eval_set=SET)
    (issue,) = tracker.issues
    (comment,) = issue.comments
    assert issue.state == "closed"
    assert comment.startswith(f"Run {night.run.run_id} of ") and "the drop no more" in comment


def tell_chunker(worse: Retriever, good: Retriever) -> str:
    return f"The chunker is `{worse.basis.chunker}`, it was `{good.basis.chunker}`: there is a "


def test_a_worse_chunker(
    cut_database: Database, embedder: Embedder, docs: Path, tracker: TrackerStandIn
) -> None:
    good = open_retriever(cut_database, embedder)
    worse = open_retriever(cut_database, embedder, SHREDS)
    pass_two_bad_nights(worse, on_github(tracker))
    assert find_cause(tracker).startswith(tell_chunker(worse, good))
    ingest(cut_database, embedder, docs)
    assert_recovers(good, on_github(tracker), tracker)


def test_a_worse_chunker_while_every_page_was_edited(
    cut_database: Database, embedder: Embedder, docs: Path, tmp_path: Path, tracker: TrackerStandIn
) -> None:
    shutil.copytree(docs, tmp_path / "docs")
    for page in PAGES:
        with (tmp_path / "docs" / page).open("a", encoding="utf-8") as file:
            file.write("\n\nReviewed in November.\n")
    ingest(cut_database, embedder, tmp_path / "docs", SHREDS)
    good = open_retriever(cut_database, embedder)
    worse = open_retriever(cut_database, embedder, SHREDS)
    pass_two_bad_nights(worse, on_github(tracker))
    assert find_cause(tracker).startswith(tell_chunker(worse, good))
    _, _, besides = tracker.issues[0].body.partition("## What else changed")
    assert f"Other pages: {len(PAGES)} changed." in besides


def test_a_worse_chunker_under_the_same_name(
    cut_database: Database, embedder: Embedder, tracker: TrackerStandIn
) -> None:
    retriever = open_retriever(cut_database, embedder)
    with cut_database.transaction() as connection:
        connection.execute(
            text("UPDATE generations SET chunker = :chunker WHERE state = 'active'"),
            {"chunker": retriever.basis.chunker},
        )
    pass_two_bad_nights(retriever, on_github(tracker))
    told = find_cause(tracker)
    assert told.startswith("There is a chunk for every ")
    assert told.endswith(": the chunker cuts otherwise, under the same name.")


@pytest.fixture(scope="module")
def swapped(
    embedder: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Embedder, Embedder]:
    """A model of a name, and another one that took its place under the same."""
    folder = tmp_path_factory.mktemp("models") / "ours"
    embedder.model.save_pretrained(str(folder))
    first = RememberingEmbedder(str(folder))
    weights = load_file(folder / "model.safetensors")
    chance = torch.Generator().manual_seed(0)
    noisy = {
        name: each + each.std() * torch.randn(each.shape, generator=chance)
        if each.is_floating_point() and each.dim() == 2
        else each
        for name, each in weights.items()
    }
    save_file(noisy, folder / "model.safetensors", metadata={"format": "pt"})
    return first, RememberingEmbedder(str(folder))


@pytest.mark.parametrize("is_indexed_again", [False, True])
def test_an_embedder_swapped_under_the_same_name(
    is_indexed_again: bool,
    database: Database,
    embedder: Embedder,
    swapped: tuple[Embedder, Embedder],
    docs: Path,
    tracker: TrackerStandIn,
) -> None:
    before, after = (open_retriever(database, each) for each in swapped)
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE generations SET embedder = :name"), {"name": before.embedder.name}
        )
    adopt(before, open_retriever(database, embedder))
    settings = on_github(tracker)
    assert pass_night(before, settings, eval_set=SET).news is None
    if is_indexed_again:
        ingest(database, after.embedder, docs)
    pass_two_bad_nights(after, settings)
    similarity = float(before.embedder.probe @ after.embedder.probe)
    assert find_cause(tracker).startswith(
        "The embedding model `ours` changed under the same name (probe similarity "
        f"{similarity:.2f})"
    )
    if not is_indexed_again:
        assert_recovers(before, settings, tracker)


def test_a_runbook_split_into_pages_of_one_title(
    database: Database, embedder: Embedder, docs: Path, tmp_path: Path, tracker: TrackerStandIn
) -> None:
    shutil.copytree(docs, tmp_path / "docs")
    runbook = tmp_path / "docs" / SPLIT
    _, *parts = runbook.read_text("utf-8").split("\n## ")
    third = -(-len(parts) // 3)
    for number in range(3):
        body = "\n## ".join(["", *parts[third * number : third * (number + 1)]])
        path = runbook.with_name(f"peak-season-{number + 1}.md")
        path.write_text(f"# {TITLE}\n{body}\n", encoding="utf-8")
    runbook.unlink()
    ingest(database, embedder, tmp_path / "docs")
    retriever = open_retriever(database, embedder)
    pass_two_bad_nights(retriever, on_github(tracker))
    assert find_cause(tracker) == (
        f"3 pages have the title `{TITLE}`: `runbooks/peak-season-1.md`, "
        f"`runbooks/peak-season-2.md`, `runbooks/peak-season-3.md`; `{SPLIT}` is gone."
    )


def test_a_folder_that_was_removed(
    database: Database, embedder: Embedder, docs: Path, tmp_path: Path, tracker: TrackerStandIn
) -> None:
    shutil.copytree(docs, tmp_path / "docs")
    shutil.rmtree(tmp_path / "docs" / "policies")
    count = len(list((docs / "policies").iterdir()))
    ingest(database, embedder, tmp_path / "docs")
    retriever = open_retriever(database, embedder)
    pass_two_bad_nights(retriever, on_github(tracker))
    assert find_cause(tracker) == (
        f"{count} pages below `policies/` were removed; none is left there."
    )


def test_a_wobble_of_one_point_opens_no_ticket(database: Database, tracker: TrackerStandIn) -> None:
    for lost in (0, 1, 0):
        results = [
            runs.result(
                runs.case(f"c{number}"),
                [runs.OTHER if number < lost else runs.FOUND],
            )
            for number in range(100)
        ]
        know_cases(database, [each.case.case_id for each in results])
        run = eval_runs.save(database, runs.run(*results, name="wobbling"))
        night = nightly.report(database, on_github(tracker), None, run)
        assert night.alarm is None and night.news is None
    assert tracker.issues == []
