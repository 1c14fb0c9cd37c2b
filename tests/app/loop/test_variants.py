"""What other settings would change."""

import json
from contextlib import closing
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from app.config import Settings
from app.evaluating import EvalSet
from app.figures import build_what_if, build_what_if_json
from app.generate.quoted import Quoter
from app.loop import variants
from app.loop.variants import INDEXED, RANGES, Variant
from app.reword import Rewriter
from app.searching import search
from retrieval.errors import ConfigError
from retrieval.evaluation import EvalCase
from retrieval.metrics import Gold
from retrieval.records import Turn
from retrieval.tuning import DEFAULT, Tuning
from tests.app.conversations import build_turns
from tests.stand_ins.claude import ClaudeStandIn, Text

if TYPE_CHECKING:
    from retrieval.retrieve import Retriever


def case(case_id: str, question: str, *gold: Gold) -> EvalCase:
    turns = (Turn(speaker="user", text=question),)
    return EvalCase(case_id=case_id, type="t", turns=turns, gold_any=gold, gold_all=())


ERR_2041 = case(
    "c1",
    "what does err 2041 mean?",
    Gold(doc="reference/error-codes.md", span="Pin the previous template"),
)
AIDA = case("c2", "who wrote the opera Aida?")
SET = EvalSet(name="set/dev", cases=(ERR_2041, AIDA))


def test_a_variant_has_its_settings_in_their_types() -> None:
    one, other = variants.parse(["rrf_k=20", " keep=4 , floor=0.1"], DEFAULT)
    assert one == Variant(changes={"rrf_k": 20})
    assert other.changes == {"keep": 4, "floor": 0.1}
    assert (one.name, other.name) == ("rrf_k=20", "keep=4,floor=0.1")
    assert isinstance(one.changes["rrf_k"], int)
    assert variants.parse(["exact_below=1000000"], DEFAULT)[0].name == "exact_below=1000000"
    assert variants.parse(["depth=90,b=1e-1"], DEFAULT)[0].changes == {"depth": 90, "b": 0.1}
    (whole,) = variants.parse(["late_weight=3"], DEFAULT)
    assert isinstance(whole.changes["late_weight"], float)
    assert variants.parse([], DEFAULT) == []


def test_every_setting_can_be_tried_or_is_refused() -> None:
    assert {field.name for field in fields(Tuning)} == {*RANGES, *INDEXED}
    for name, (kind, low, high) in RANGES.items():
        value = getattr(DEFAULT, name)
        assert value is None or (type(value) is kind and low <= value <= high)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rrf=20", "rrf is no setting; there are k1, b, depth, rrf_k, "),
        ("", "a blank is no setting"),
        ("keep=4,", "a blank is no setting"),
        ("keep", "keep takes a whole number, not ''"),
        ("keep=4.5", "keep takes a whole number, not '4.5'"),
        ("keep_ratio=little", "keep_ratio takes a number, not 'little'"),
        ("keep=0", "keep goes from 1 to 100"),
        ("floor=1.1", "floor goes from 0 to 1"),
        ("floor=nan", "floor goes from 0 to 1"),
        ("late_weight=inf", "late_weight goes from 0 to 100"),
        ("keep=3,keep=4", "keep is there twice in keep=3,keep=4"),
        ("rrf_k=2_0", "rrf_k takes a whole number, not '2_0'"),
        ("rrf_k=\u0662\u0660", "rrf_k takes a whole number, not '\u0662\u0660'"),  # 20 in Arabic
        ("keep_ratio=0.\uff11", "keep_ratio takes a number, not '0.\uff11'"),
        ("keep=4,rrf_k=60", "rrf_k is 60 already"),
        ("late_weight=2", "late_weight is 2 already"),
        ("depth=200", "ef_search is at least depth"),
        *((f"{name}=3", f"{name} is built into the index: change it in") for name in INDEXED),
    ],
)
def test_what_cannot_be_tried_is_told(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        variants.parse([text], DEFAULT)
    assert told in str(error.value)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"rrf is no setting.*; keep takes.*; k1 goes") as error:
        variants.parse(["rrf=20,keep=x", "b=0.5", "k1=-1"], DEFAULT)
    assert "b goes" not in str(error.value)
    with pytest.raises(ConfigError, match=r"tried: keep=4 , b=0.5 is there twice\."):
        variants.parse(["b=0.5,keep=4", "keep=3", "keep=4 , b=0.5"], DEFAULT)
    assert len(variants.parse(["depth=200,ef_search=200"], DEFAULT)) == 1


def test_each_variant_is_paired_with_what_is_used_now(retriever: "Retriever") -> None:
    tried = [Variant(changes=each) for each in ({"floor": 1.0}, {"floor": 0.0}, {"keep": 5})]
    done: list[tuple[int, int]] = []
    found = variants.measure(retriever, SET, tried, progress=lambda *each: done.append(each))
    assert done == [(1, 2), (2, 2)]
    assert found.means["all"]["recall@5"] == found.means["all"]["refused"] == 1
    none, every, same = (
        {each.metric: each for each in variant.differences} for variant in found.tried
    )
    assert (none["recall@5"].before, none["recall@5"].after) == (1, 0)
    assert [each.case_id for each in none["answered"].lost] == ["c1"]
    assert none["recall@30"].lost == none["refused"].lost == ()
    assert [each.case_id for each in every["refused"].lost] == ["c2"]
    assert every["recall@5"].lost == ()
    assert not any(each.won or each.lost for each in same.values())
    assert all(each.interval == (0, 0) for each in same.values())


def test_settings_are_tried_where_they_work(retriever: "Retriever") -> None:
    turns = ERR_2041.turns
    now = search(retriever, turns, None).retrieval
    changed = replace(retriever, tuning=replace(DEFAULT, rrf_k=1, candidates=7))
    other = search(changed, turns, None).retrieval
    assert now.settings["rrf_k"] == 60 and len(now.candidates) > 7
    assert other.settings["rrf_k"] == 1 and len(other.candidates) == 7
    assert max(each.rrf_score for each in now.candidates) < 0.1  # 4.5 / 61 at most
    assert max(each.rrf_score for each in other.candidates) > 1  # of 4.5 / 2


def test_what_is_tried_is_no_run_of_the_set(retriever: "Retriever") -> None:
    variants.measure(
        retriever, SET, variants.parse(["keep=1"], DEFAULT), progress=lambda done, total: None
    )
    with retriever.database.transaction() as connection:
        for table in ("eval_runs", "traces"):
            assert connection.execute(text(f"SELECT count(*) FROM {table}")).scalar() == 0


def test_a_model_is_asked_once_for_the_wordings_of_a_question(
    retriever: "Retriever", stand_in: ClaudeStandIn
) -> None:
    settings = Settings(
        anthropic_api_key=SecretStr(stand_in.api_key),
        anthropic_base_url=stand_in.base_url,
        rewrite_timeout_ms=30_000,
    )
    wordings = {
        "standalone": "where do I get a new handheld scanner?",
        "queries": ["new handheld scanner"],
    }
    stand_in.reply([Text(json.dumps(wordings))])
    follow_up = EvalCase(
        case_id="c1",
        type="t",
        turns=tuple(build_turns("what is a zapper?", "I don't know.", "and where do I get one?")),
        gold_any=(Gold(doc="reference/handheld-scanners.md", span=None),),
        gold_all=(),
    )
    with closing(Rewriter(settings)) as rewriter:
        found = variants.measure(
            retriever,
            EvalSet(name="set/dev", cases=(follow_up,)),
            [Variant(changes={"keep": 5}), Variant(changes={"exact_below": 60_000})],
            progress=lambda done, total: None,
            rewriter=rewriter,
        )
    assert len(stand_in.requests()) == 1
    assert found.means["all"]["doc@5"] == 1  # by the model's wordings alone
    assert not any(each.won or each.lost for tried in found.tried for each in tried.differences)


def test_with_a_generator_each_case_is_answered_with_every_variant(
    retriever: "Retriever",
) -> None:
    found = variants.measure(
        retriever,
        SET,
        [Variant(changes={"floor": 1.0})],
        progress=lambda done, total: None,
        generator=Quoter(retriever.embedder),
    )
    assert found.means["all"]["quoted"] == 1
    (quoted,) = (each for each in found.tried[0].differences if each.metric == "quoted")
    assert (quoted.case_count, quoted.before, quoted.after) == (1, 1, 0)


def test_what_was_tried_is_told_with_its_intervals(retriever: "Retriever") -> None:
    tried = variants.parse(["floor=1", "rrf_k=20,keep=4"], DEFAULT)
    found = variants.measure(retriever, SET, tried, progress=lambda done, total: None)
    first, *rest = build_what_if(found).split("\n\n")
    assert first.startswith("set/dev: as it is\n")
    assert [each.splitlines()[0] for each in rest] == [
        "floor=1, beside that",
        "rrf_k=20,keep=4, beside that",
    ]
    assert "recall@5          1    1.000  0.000  -1.000  [-1.000, -1.000]     0    1" in rest[0]
    assert "recall@1200t " in rest[0] and "refused " in rest[0]
    lost = f"recall@5 lost:\n  c1           1.00 → 0.00  {ERR_2041.question}\n"
    assert lost in rest[0] and "lost:" not in rest[1]
    one, other = build_what_if_json(found)
    assert (one["cases"], one["variant"]) == ("set/dev", {"floor": 1.0})
    assert other["variant"] == {"rrf_k": 20, "keep": 4}
    assert one["metrics"]["recall@5"] == {
        "cases": 1,
        "before": 1.0,
        "after": 0.0,
        "interval": [-1.0, -1.0],
        "won": [],
        "lost": [{"id": "c1", "question": ERR_2041.question, "before": 1.0, "after": 0.0}],
    }
