"""What is not as it was of index, settings and code."""

from dataclasses import replace

import pytest

from app.loop import index_changes
from app.loop.index import Index
from app.loop.index_changes import Cause
from tests.app import eval_runs

INDEX = eval_runs.INDEX
SWAPPED = (0.96, 0.28)  # 0.6 * 0.96 + 0.8 * 0.28 = 0.80


def find(
    now: Index, before: Index | None = INDEX, *, settings: dict[str, object] | None = None
) -> list[tuple[str, str]]:
    """Kinds and words of what changed between two runs."""
    run = replace(eval_runs.run(), index=now, commit=None, settings=settings or {"floor": 0.1})
    good = replace(eval_runs.stored({}, settings={"floor": 0.1}), index=before)
    return [(cause.kind, cause.told) for cause in index_changes.find(good, run)]


def test_of_an_index_as_it_was_nothing_is_told() -> None:
    assert find(INDEX) == []


@pytest.mark.parametrize(
    ("now", "kind", "told"),
    [
        (
            replace(INDEX, embedder="bge", probe=SWAPPED, model_probe=SWAPPED, generation_id=4),
            "embedder",
            "The embedding model is `bge`, it was `minilm`.",
        ),
        (
            replace(INDEX, probe=SWAPPED, model_probe=SWAPPED, generation_id=4),
            "embedder",
            "The embedding model `minilm` changed under the same name (probe similarity 0.80).",
        ),
        (
            replace(INDEX, model_probe=SWAPPED, failure="It does not fit."),
            "unsearchable",
            "The embedding model `minilm` changed under the same name (probe similarity 0.80), and "
            "the index is still the old one's: nothing is found until it is built anew.",
        ),
        (
            replace(INDEX, model="/srv/bge", model_probe=SWAPPED, failure="It does not fit."),
            "unsearchable",
            "The index is of the embedding model `minilm`, and `bge` is set: nothing is found by "
            "it.",
        ),
        (
            replace(INDEX, failure="No @model /srv/models/ours. Run `footnote ingest`."),
            "unsearchable",
            "Nothing was found: `No @model ours. Run 'footnote ingest'.`.",
        ),
        (
            replace(INDEX, chunker="c1/90", sections=600, chunks=940, generation_id=4),
            "chunker",
            "The chunker is `c1/90`, it was `c1/900`: there is a chunk for every 112 characters, "
            "there was one for every 500.",  # 105,000 / 940 and / 210
        ),
        (
            replace(INDEX, sections=600, chunks=940, generation_id=4),
            "chunker",
            "There is a chunk for every 112 characters, there was one for every 500: the chunker "
            "cuts otherwise, under the same name.",
        ),
        (
            replace(INDEX, documents=36, characters=106_000, chunks=100),
            "chunker",
            "There is a chunk for every 1060 characters, there was one for every 500: the chunker "
            "cuts otherwise, under the same name.",
        ),
        (replace(INDEX, generation_id=4), "generation", "The index was built anew."),
        (
            replace(INDEX, documents=37, kinds={".html": 2, ".md": 35}),
            "document kinds",
            "There are documents of a new kind: `.html` (2).",
        ),
    ],
)
def test_what_changed_of_the_index_is_told_once(now: Index, kind: str, told: str) -> None:
    assert find(now) == [(kind, told)]


@pytest.mark.parametrize(
    "now",
    [
        replace(INDEX, chunks=300),  # 105,000 / 300 = 350, 500 / 350 = 1.43
        replace(INDEX, documents=350, chunks=2_100, characters=1_050_000),
        replace(INDEX, documents=0, chunks=0, characters=0, kinds={}),
    ],
)
def test_other_pages_are_no_other_chunker(now: Index) -> None:
    assert find(now) == []


def test_a_model_that_is_a_folder_is_told_without_its_place() -> None:
    index = replace(INDEX, embedder="/srv/models/ours")
    ((_, told),) = find(replace(index, probe=SWAPPED, model_probe=SWAPPED), index)
    assert "`ours`" in told and "srv" not in told


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("/home/ann/models/rr2", "rr2"),
        ("/home/ann lee/models/rr2", "rr2"),
        ("/home/ann/models/", "models/"),
        ("~/models/rr2", "rr2"),
        ("No model at '/home/ann lee/rr2' (file:///srv/q).", "No model at 'rr2' (file:q)."),
        ('No "/srv/a/rr2" here', 'No "rr2" here'),
        ("acme/rr2", "acme/rr2"),  # the name of a model, not a place
    ],
)
def test_of_a_path_only_the_last_part_is_told(place: str, shown: str) -> None:
    ((_, told),) = find(replace(INDEX, failure=place))
    assert told == f"Nothing was found: `{shown}`."
    ((_, told),) = find(INDEX, settings={"floor": place})
    assert told == f"Settings changed: `floor` is `{shown}`, it was `0.1`."


def test_settings_and_code_that_changed_are_told() -> None:
    run = replace(eval_runs.run(settings={"floor": 0.2, "keep": 5, "rewriting": 1}), index=INDEX)
    good = eval_runs.stored({}, settings={"floor": 0.1, "chunker": "told as such"})
    settings, code = index_changes.find(good, run)
    assert settings.told == (
        "Settings changed: `floor` is `0.2`, it was `0.1`; `keep` is `5`, it was not set."
    )
    assert (settings.strength, code.strength) == ("strong", "none")
    assert code.told == "The code is at `0123456789abcdef`, it was at `unknown`."


def test_a_run_in_which_nothing_was_searched_has_no_settings_to_compare() -> None:
    failed = replace(INDEX, failure="It does not fit.")
    assert [kind for kind, _ in find(failed, settings={"other": 1})] == ["unsearchable"]


def test_of_a_good_run_before_there_were_notes_of_the_index_nothing_is_told() -> None:
    assert find(INDEX, None) == []


def test_names_are_code_and_neither_call_nor_link() -> None:
    assert index_changes.code("a`b\n@here #1") == "`a'b @here #1`"
    assert index_changes.code("\n") == "`(empty)`"
    assert index_changes.list_code([str(n) for n in range(10)]).endswith("`7` and 2 more")
    assert Cause(kind="code", told="x").explaining(frozenset({"c"})).explains == {"c"}
