"""The index is built anew by another model while questions are asked."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle, islice
from threading import Event

from sqlalchemy import text

from app.answering import Answerer, Asked, ask
from app.generate.generator import Write
from app.records import Answer, Turn
from retrieval import generations, switching
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.models import Models
from retrieval.records import Candidate, Query
from retrieval.retrieve import Retriever
from retrieval.tuning import DEFAULT
from tests.app.bot import find_rows
from tests.conftest import SAMPLE
from tests.retrieval.pages import build_retriever, fit, ingest, page
from tests.stand_ins.recording import Recording

LEAST = 500  # questions
THREADS = 4
QUICK = replace(DEFAULT, depth=30, interacted=20, candidates=10)
NEW_PAGE = page("lamps.md", "# Lamps\n\nThe lamp L-17 is on the third floor.\n")


def load_questions(count: int) -> list[str]:
    lines = (SAMPLE / "cases.jsonl").read_text().splitlines()
    return [str(json.loads(line)["question"]) for line in islice(lines, count)]


class Pointing:
    """Names the pages that hold the answer, best first; answers need no reading here."""

    settings: Mapping[str, object] = {"generator": "pointing"}

    def generate(
        self, turns: Sequence[Turn], query: Query, kept: Sequence[Candidate], write: Write
    ) -> Answer:
        return Answer(text="\n".join(each.section.path for each in kept))


def find_generation(asked: Asked) -> object:
    return asked.retrieval.settings["generation_id"]


def test_p69_the_embedder_is_changed_while_500_questions_are_asked(
    indexed: Database, retriever: Retriever, embedder: Embedder, mirrored: Embedder
) -> None:
    fit(build_retriever(indexed, mirrored))
    models = Models(lambda generation, tuning: mirrored)
    retriever = replace(retriever, models=models, tuning=QUICK)
    answerer = Answerer(retriever=retriever, generator=Pointing())
    questions = load_questions(12)
    before = {each: ask(answerer, [Turn(speaker="user", text=each)]) for each in questions}
    assert sum(asked.answer.abstained_because is None for asked in before.values()) > 9
    (old,) = {find_generation(asked) for asked in before.values()}
    answered: Recording[Asked] = Recording()
    is_over = Event()

    def go_on(number: int) -> None:
        for question in islice(cycle(questions), number, None):
            if is_over.is_set():
                return
            answered.add(ask(answerer, [Turn(speaker="user", text=question)]))

    with ThreadPoolExecutor(THREADS) as pool:
        asking = [pool.submit(go_on, 3 * number) for number in range(THREADS)]
        try:
            answered.wait_for(lambda each: find_generation(each) == old, count=50, timeout_s=60)
            assert ingest(indexed, mirrored, NEW_PAGE, source="notes").state == "active"
            answered.wait_for(lambda each: find_generation(each) != old, count=50, timeout_s=60)
            kept = switching.drop(indexed)
            answered.wait_for(count=LEAST, timeout_s=120)
        finally:
            is_over.set()
        for each in asking:
            each.result()
    assert (kept.generation_id, kept.state) == (old, "kept")
    with indexed.transaction() as connection:
        (new,) = generations.load_all(connection)
        rows = connection.execute(
            text("""
                SELECT settings ->> 'embedder' AS embedder, outcome, count(*)
                FROM traces GROUP BY 1, 2 ORDER BY min(asked_at)
            """)
        ).all()
    for asked in answered.having():
        first = before[asked.question].answer
        assert asked.answer.abstained_because == first.abstained_because
        # What is as relevant may change places.
        assert asked.answer.text.split("\n")[0] in first.text or first.abstained_because
    assert {find_generation(each) for each in answered.having()} == {old, new.generation_id}
    told = dict.fromkeys(row.embedder for row in rows)
    assert list(told) == [embedder.name, mirrored.name]
    assert {row.outcome for row in rows} <= {"answered", "abstained"}
    assert find_rows(indexed, "traces")[-1].settings["generation_id"] == new.generation_id
