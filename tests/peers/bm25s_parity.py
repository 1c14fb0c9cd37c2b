"""The lexical leg beside bm25s, over the sections of the live index: `make parity`.

bm25s is asked at its defaults, with its own tokenizer and stop words and an English stemmer, over
the same words: title, headings and text of each section.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import bm25s
import click
import Stemmer
from sqlalchemy import Connection, text

from app.config import load_settings
from app.database import open_database
from app.rewrite import rewrite
from retrieval import evaluation, generations, metrics, search
from retrieval.db import Database
from retrieval.errors import ConfigError
from retrieval.evaluation import EvalCase
from retrieval.metrics import Result
from retrieval.tuning import DEFAULT

CUTOFFS = (3, 5, 30)

Rank = Callable[[str], list[int]]  # a question to section ids, best first


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """A section as both rank it."""

    section_id: int
    path: str
    text: str
    searched: str  # what bm25s indexes


def compare(database: Database, cases: Sequence[EvalCase]) -> Mapping[str, Mapping[str, float]]:
    """recall@3, @5 and @30 and MRR@5 of both, over the cases that have an answer.

    Raises ConfigError when nothing is indexed.
    """
    with database.transaction() as connection:
        generation = generations.load(connection, "active")
        if generation is None:
            raise ConfigError("Nothing is indexed. Run `footnote ingest` first.")
        sections = _load_sections(connection, generation.generation_id)
        by_id = {section.section_id: section for section in sections}

        def lexical(question: str) -> list[int]:
            hits = search.lexical(connection, question, generation, DEFAULT)
            return [hit.section_id for hit in hits]

        return {
            "lexical": _measure(lexical, by_id, cases),
            "bm25s": _measure(_build_bm25s(sections), by_id, cases),
        }


def _load_sections(connection: Connection, generation_id: int) -> list[Indexed]:
    rows = connection.execute(
        text("""
            SELECT section_id, path, title, heading_path, sections.text
            FROM sections JOIN documents USING (document_id)
            WHERE generation_id = :generation_id ORDER BY section_id
        """),
        {"generation_id": generation_id},
    )
    return [
        Indexed(
            section_id=row.section_id,
            path=row.path,
            text=row.text,
            searched="\n".join((row.title, *row.heading_path, row.text)),
        )
        for row in rows
    ]


def _build_bm25s(sections: Sequence[Indexed]) -> Rank:
    stemmer = Stemmer.Stemmer("english")

    def tokenize(texts: list[str]) -> bm25s.tokenization.Tokenized:
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)

    index = bm25s.BM25()
    index.index(tokenize([section.searched for section in sections]), show_progress=False)

    def rank(question: str) -> list[int]:
        found, scores = index.retrieve(
            tokenize([question]), k=min(DEFAULT.depth, len(sections)), show_progress=False
        )
        ranked = zip(found[0], scores[0], strict=True)
        return [sections[index].section_id for index, score in ranked if score > 0]

    return rank


def _measure(
    rank: Rank, sections: Mapping[int, Indexed], cases: Sequence[EvalCase]
) -> Mapping[str, float]:
    values: dict[str, list[float]] = {}
    for case in cases:
        gold = [*case.gold_any, *case.gold_all]
        if not gold:
            continue
        found = [sections[section_id] for section_id in rank(rewrite(case.turns).text)]
        results = [Result(doc=section.path, text=section.text) for section in found]
        for cutoff in CUTOFFS:
            recall = metrics.recall(results[:cutoff], case.gold_any, case.gold_all)
            values.setdefault(f"recall@{cutoff}", []).append(recall)
        relevant = [any(metrics.hits(each, one) for one in gold) for each in results[:5]]
        values.setdefault("mrr@5", []).append(metrics.reciprocal_rank(relevant))
    return {name: sum(each) / len(each) for name, each in values.items()}


@click.command()
@click.argument("cases", type=click.Path(path_type=Path))
def main(cases: Path) -> None:
    """Print what the lexical leg and bm25s find of CASES in the index that is set."""
    database = open_database(load_settings())
    measured = compare(database, evaluation.load_cases(cases))
    database.close()
    names = list(measured["lexical"])
    click.echo(f"{'':8}" + "".join(f"{name:>11}" for name in names))
    for peer, values in measured.items():
        click.echo(f"{peer:8}" + "".join(f"{values[name]:11.3f}" for name in names))


if __name__ == "__main__":
    main()
