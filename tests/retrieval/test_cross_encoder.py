"""Reranking by a cross-encoder: a tiny one, loaded by the class that loads any other."""

import json
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn

from app.cli import main
from retrieval import relevance
from retrieval.cross_encoder import CrossEncoder
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.errors import ConfigError
from retrieval.records import StoredSection
from retrieval.relevance import RelevanceModel
from retrieval.retrieve import Retriever
from retrieval.tuning import CROSS_ENCODED
from tests.retrieval import cross_encoders
from tests.retrieval.candidates import candidate
from tests.retrieval.pages import ask, ingest, page

pytestmark = pytest.mark.model

PLACES = "harbour station airport museum library stadium castle market bridge tower garden school"
WORDS = f"when does the gate at open close lamp {PLACES}"
QUESTION = "when does the harbour gate open?"
FILLER = "and so on " * 60  # 180 tokens that no model here knows


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return cross_encoders.save(tmp_path_factory.mktemp("models"), WORDS)


@pytest.fixture(scope="session")
def reranker(folder: str) -> CrossEncoder:
    return CrossEncoder(folder)


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., CrossEncoder]:
    """A cross-encoder of its own."""
    return lambda **fields: CrossEncoder(cross_encoders.save(tmp_path, WORDS, **fields))


def section(
    text: str, *, title: str = "Page", heading_path: Sequence[str] = ("Page",)
) -> StoredSection:
    return replace(candidate(title=title, text=text).section, heading_path=tuple(heading_path))


BETTER_AND_BETTER = [
    section(text)
    for text in (
        "nothing of it",
        "the lamp",
        "the gate",
        "the harbour gate",
        "the harbour gate does open",
        "when the harbour gate does open",
    )
]


def test_what_answers_scores_higher_in_batches_as_alone(reranker: CrossEncoder) -> None:
    sections = BETTER_AND_BETTER * 5  # more than a batch, of several lengths
    together = reranker.score(QUESTION, sections)
    assert together.shape == (30,)
    alone = [float(reranker.score(QUESTION, [each])[0]) for each in sections]
    assert together == pytest.approx(alone, abs=1e-4)
    assert (np.diff(together[:6]) > 0.1).all()


def test_no_sections_have_no_score(reranker: CrossEncoder) -> None:
    assert reranker.score(QUESTION, []).shape == (0,)


@pytest.mark.parametrize("question", ["", "?!", "🦩", "what is it"])
def test_a_question_of_unknown_words_is_scored_too(reranker: CrossEncoder, question: str) -> None:
    assert np.isfinite(reranker.score(question, BETTER_AND_BETTER)).all()


def test_a_model_with_a_sigmoid_has_the_scale_of_one_without(
    reranker: CrossEncoder, load: Callable[..., CrossEncoder]
) -> None:
    found = load(activation=nn.Sigmoid())
    assert found.score(QUESTION, BETTER_AND_BETTER) == pytest.approx(
        reranker.score(QUESTION, BETTER_AND_BETTER), abs=1e-5
    )


def test_the_good_ones_differ_where_a_sigmoid_is_1(load: Callable[..., CrossEncoder]) -> None:
    scores = load(activation=nn.Sigmoid(), slope=20_000.0).score(QUESTION, BETTER_AND_BETTER[2:])
    scores -= scores.min() - 100
    assert len(set(torch.sigmoid(torch.tensor(scores, dtype=torch.float32)).tolist())) == 1
    assert (np.diff(scores) > 0).all()


def test_weights_in_half_precision_are_run_in_single(load: Callable[..., CrossEncoder]) -> None:
    scores = torch.tensor(load(dtype=torch.bfloat16).score(QUESTION, BETTER_AND_BETTER))
    assert (scores != scores.bfloat16()).any()
    assert (torch.diff(scores) > 0).all()


@pytest.mark.parametrize(
    "text",
    [
        f"The harbour gate does open at dawn. {FILLER}",
        f"{FILLER} The harbour gate does open at dawn. {FILLER}",
        f"{FILLER} The harbour gate does open at dawn.",
        # Wherever a window starts or ends, another holds the sentence whole.
        *(f"{'so ' * n} The harbour gate does open at dawn. {FILLER}" for n in range(20, 60, 3)),
    ],
)
def test_the_answer_counts_wherever_it_stands_in_a_long_section(
    reranker: CrossEncoder, text: str
) -> None:
    short, long, none = reranker.score(
        QUESTION, [section("The harbour gate does open at dawn."), section(text), section(FILLER)]
    )
    assert long == pytest.approx(short, abs=0.1)
    assert long > none + 1


def test_title_and_headings_stand_before_each_window(reranker: CrossEncoder) -> None:
    long = f"{FILLER} does open {FILLER}"
    named, headed, neither = reranker.score(
        QUESTION,
        [
            section(long, title="Harbour gate", heading_path=("Harbour gate",)),
            section(long, heading_path=("Page", "The harbour gate")),
            section(long),
        ],
    )
    assert min(named, headed) > neither + 1


def test_headings_longer_than_the_window_leave_room_for_the_text(reranker: CrossEncoder) -> None:
    with_headings = section("the harbour gate does open", heading_path=("so on " * 200,))
    found, none = reranker.score(QUESTION, [with_headings, section(FILLER)])
    assert found > none + 1


def test_a_long_question_is_read_whole(reranker: CrossEncoder) -> None:
    question = "so " * 34 + "harbour"  # of the 64 tokens that the model takes
    found, none = reranker.score(question, [section(f"{FILLER} harbour"), section("castle")])
    assert found > none + 0.1


def test_a_question_longer_than_the_window_is_cut(reranker: CrossEncoder) -> None:
    question = QUESTION + " so on" * 500
    found, none = reranker.score(question, [section(f"{FILLER} harbour gate"), section("castle")])
    assert found > none + 0.1


def test_a_prompt_of_the_model_takes_its_place_in_the_window(
    load: Callable[..., CrossEncoder],
) -> None:
    prompted = load(prompt="judge whether it answers: " * 4)
    end, none = prompted.score(QUESTION, [section(f"{FILLER} harbour gate"), section(FILLER)])
    assert end > none + 0.1


def test_several_threads_get_what_one_gets(reranker: CrossEncoder) -> None:
    questions = [f"when does the {place} gate open?" for place in PLACES.split()] * 3
    sections = [section(f"{FILLER} the {place} gate") for place in PLACES.split()[:4]]
    expected = [reranker.score(question, sections) for question in questions]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda question: reranker.score(question, sections), questions))
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, abs=1e-4)


def test_the_name_tells_a_model_changed_in_place(tmp_path: Path) -> None:
    first, again, other = (
        CrossEncoder(cross_encoders.save(tmp_path / "m", WORDS, slope=slope)).name
        for slope in (20.0, 20.0, 21.0)
    )
    assert first == again != other
    assert first.startswith(f"{tmp_path / 'm'}@")


@pytest.mark.parametrize("broken", ["typo/none", "missing", "empty", "no weights", "half a file"])
def test_a_model_that_is_not_there_is_an_error_that_names_the_setting(
    folder: str, tmp_path: Path, broken: str
) -> None:
    model = tmp_path / "model"
    if broken in ("no weights", "half a file"):
        shutil.copytree(folder, model)
        weights = model / "model.safetensors"
        if broken == "no weights":
            weights.unlink()
        else:
            weights.write_bytes(weights.read_bytes()[:1000])
    elif broken == "empty":
        model.mkdir()
    name = broken if "/" in broken else str(model)
    with pytest.raises(ConfigError, match=f"The reranker '{name}' cannot be loaded.*RERANK_MODEL"):
        CrossEncoder(name)


def test_an_embedding_model_is_refused(tmp_path: Path, embedder: Embedder) -> None:
    # The library would load it, and score by a layer of random weights.
    embedder.model.save_pretrained(str(tmp_path))
    with pytest.raises(ConfigError, match=r"is no cross-encoder but BertModel.*RERANK_MODEL"):
        CrossEncoder(str(tmp_path))


def test_a_model_with_several_scores_is_refused(load: Callable[..., CrossEncoder]) -> None:
    with pytest.raises(ConfigError, match=r"gives a pair 3 scores.*RERANK_MODEL"):
        load(labels=3)


def ingest_gates(database: Database, embedder: Embedder) -> None:
    """A page for each place, which says when its gate opens."""
    ingest(
        database,
        embedder,
        *(
            page(f"{place}.md", f"# {place.title()}\n\nThe gate does open at {hour}:30.\n")
            for hour, place in enumerate(PLACES.split(), 6)
        ),
    )


def build_model(retriever: Retriever, *, floor: float) -> RelevanceModel:
    return RelevanceModel(
        basis=retriever.basis,
        weights={"logit": 1.0},
        certainty={"score": 1.0},
        intercept=15.0,
        floor=floor,
        cases=("own/cases",),
        fitted_on="2026-11-30",
    )


def test_a_search_is_ordered_and_cut_by_the_cross_encoder(
    database: Database, embedder: Embedder, reranker: CrossEncoder
) -> None:
    ingest_gates(database, embedder)
    retriever = Retriever(
        database=database, embedder=embedder, reranker=reranker, tuning=CROSS_ENCODED
    )
    with pytest.raises(ConfigError, match=r"@.* has no floor for an index by all-MiniLM-L6-v2"):
        retriever.retrieve(ask(QUESTION))
    with database.transaction() as connection:
        relevance.save(connection, build_model(retriever, floor=0.1))
    retriever.check()
    found = retriever.retrieve(ask(QUESTION))
    assert found.candidates[0].section.path == "harbour.md"
    relevances = [each.relevance or 0 for each in found.candidates]
    assert relevances == sorted(relevances, reverse=True)
    assert all(each.chunk_ids for each in found.candidates)
    assert found.kept[0].section.path == "harbour.md"
    assert found.settings["reranker"] == reranker.name
    with database.transaction() as connection:
        relevance.save(connection, build_model(retriever, floor=1.0))
    assert retriever.retrieve(ask(QUESTION)).kept == ()


def test_no_more_than_the_best_30_by_fusion_are_read(
    retriever: Retriever, reranker: CrossEncoder
) -> None:
    cross_encoded = replace(retriever, reranker=reranker, tuning=CROSS_ENCODED)
    measured = cross_encoded.measure(ask(QUESTION))
    (features,) = measured.features
    assert features.shape == (30, 1)
    scores = reranker.score(QUESTION, [each.section for each in measured.candidates])
    assert features[:, 0] == pytest.approx(scores, abs=1e-4)


def footnote(url: str, folder: str, *arguments: str) -> Result:
    environment = {"DATABASE_URL": url, "TENANT_ID": "acme", "RERANK_MODEL": folder}
    return CliRunner().invoke(main, arguments, env=environment)


def succeed(url: str, folder: str, *arguments: str) -> str:
    result = footnote(url, folder, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def write_cases(path: Path) -> str:
    answerable: list[dict[str, Any]] = [
        {
            "id": place,
            "type": "gate",
            "question": f"when does the {place} gate open?",
            "gold_any": [{"doc": f"{place}.md", "span": f"The gate does open at {hour}:30."}],
        }
        for hour, place in enumerate(PLACES.split(), 6)
    ]
    unanswerable = [
        {"id": question, "type": "general", "question": question}
        for question in ("who wrote Aida?", "what is a flamingo?")
    ]
    path.write_text("".join(json.dumps(case) + "\n" for case in (*answerable, *unanswerable)))
    return str(path)


def test_the_whole_path_with_a_cross_encoder_by_setting(
    database: Database, database_url: str, embedder: Embedder, folder: str, tmp_path: Path
) -> None:
    ingest_gates(database, embedder)
    for command in ("ask", "retrieve"):
        result = footnote(database_url, folder, command, QUESTION)
        assert result.exit_code == 1
        assert f"The reranker {folder}@" in result.stderr
        assert "Run `footnote calibrate CASES --apply`" in result.stderr
    doctor = footnote(database_url, folder, "doctor")
    assert doctor.exit_code == 1 and "has no floor" in doctor.stdout
    cases = write_cases(tmp_path / "gates.jsonl")
    table = succeed(database_url, folder, "calibrate", cases)
    assert "12 cases that the documents answer; cases that they do not: 2 general" in table
    assert "in use now: nothing that fits" in table
    assert footnote(database_url, folder, "ask", QUESTION).exit_code == 1  # it was only proposed
    assert "applied; " in succeed(database_url, folder, "calibrate", cases, "--apply")
    answer = json.loads(succeed(database_url, folder, "ask", QUESTION, "--json"))
    assert answer["citations"][0]["doc"] == "harbour.md" and "6:30" in answer["answer"]
    assert 0 < answer["candidates"][0]["relevance"] < 1
    other = json.loads(succeed(database_url, folder, "ask", "who wrote Aida?", "--json"))
    assert other["abstained_because"] == "BELOW_FLOOR"
    doctor = footnote(database_url, folder, "doctor")
    assert f"{tmp_path.name}/gates; floor" in doctor.stdout.replace("\n", " ")
    undone = succeed(database_url, folder, "calibrate", "--revert")
    assert undone.startswith("In use now: nothing. Run `footnote calibrate CASES --apply`")
    assert footnote(database_url, folder, "ask", QUESTION).exit_code == 1


def test_a_mistyped_setting_stops_every_command_at_its_start(database_url: str) -> None:
    for command in (["ask", "q"], ["retrieve", "q"], ["doctor"], ["chat"]):
        result = footnote(database_url, "typo/none", *command)
        assert result.exit_code == 1
        assert "RERANK_MODEL" in result.output
