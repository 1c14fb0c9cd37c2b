"""The review of cases in a terminal, one after the other."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import click

from app import feedback
from app.loop import case_texts, cases, review, spans
from app.loop.cases import Case
from app.loop.review import KnownPage, Review
from retrieval.db import Database
from retrieval.metrics import Gold
from retrieval.retrieve import Retriever

Outcome = Literal["approved", "dismissed", "skipped"]

MOST_PAGES = 9  # that are offered of those whose titles hold what was typed; chosen
KEYS = {
    "a": "approve",
    "o": "other passage…",
    "p": "other page…",
    "n": "no page answers",
    "w": "page is wrong",
    "r": "answer was right",
    "s": "skip",
    "q": "quit",
}
MENU = "  ".join(f"[{key}] {what}" for key, what in KEYS.items())


class Reviewer:
    """A person at a terminal who decides about cases; each decision counts at once."""

    def __init__(
        self, database: Database, retriever: Retriever, *, name: str, freshness_days: int
    ) -> None:
        self._database, self._retriever = database, retriever
        self._name, self._freshness_days = name, freshness_days

    def review(self, case_ids: Sequence[str]) -> Counter[Outcome]:
        """What came of the cases until the last, or until the reviewer ends it."""
        outcomes: Counter[Outcome] = Counter()
        try:
            for number, case_id in enumerate(case_ids, 1):
                click.echo(f"\n{number} of {len(case_ids)}: {case_texts.flatten(case_id)}\n")
                outcomes[self._decide(case_id)] += 1
        except click.Abort:  # q, the end of the input, or Ctrl-C
            click.echo()
        return outcomes

    def _decide(self, case_id: str) -> Outcome:
        found = review.load_review(self._database, case_id, self._freshness_days)
        if found is None or found.case.state != "proposed":
            return _pass_over()
        gold = self._propose(found)
        click.echo(case_texts.build_review(found, gold))
        while True:
            key = _ask(f"\n{MENU}").lower()
            if key == "q":
                raise click.Abort
            if key == "s":
                return "skipped"
            if key in ("n", "r") or (key == "a" and gold):
                return self._save(found.case, key, gold)
            if key == "a" or (key == "o" and not found.pages):
                click.echo("No page is named. p chooses one, n says that none answers.")
            elif key == "w":
                click.echo(self._mark_page_wrong(found))
            elif key in ("o", "p"):
                page = found.pages[0] if key == "o" else self._choose_page()
                if page is None:
                    continue
                gold = self._choose_passage(found, page, gold)
                if not cases.save_gold(
                    self._database, case_id, self._name, gold=gold, seen=found.case.gold
                ):
                    return _pass_over()
                found = review.load_review(self._database, case_id, self._freshness_days) or found
                click.echo(case_texts.build_outcome(found, gold))

    def _propose(self, found: Review) -> tuple[Gold, ...]:
        """The gold of a case, with the best passage of each page of which none is known."""
        pages = {page.number: page.document_id for page in found.pages}
        return tuple(
            replace(gold, span=gold.span or self._find_span(found, pages.get(number)))
            for number, gold in enumerate(found.case.gold)
        )

    def _find_span(self, found: Review, document_id: int | None) -> str | None:
        if document_id is None:  # the page is not in the index any more
            return None
        span = spans.propose_span(self._retriever, found.case.question, document_id)
        return span.text if span else None

    def _save(self, case: Case, key: str, gold: Sequence[Gold]) -> Outcome:
        """What was decided by a key, unless somebody else was faster, or has changed the gold."""
        if key == "r":
            is_saved = cases.dismiss(self._database, case.case_id, self._name)
        else:
            shown = () if key == "n" else gold
            is_saved = cases.approve(
                self._database, case.case_id, self._name, gold=shown, seen=case.gold
            )
        if not is_saved:
            return _pass_over()
        return "dismissed" if key == "r" else "approved"

    def _choose_page(self) -> KnownPage | None:
        """A page by part of its title; None where none is chosen."""
        typed = _ask("Words of its title")
        pages = feedback.find_pages(self._database, typed)[:MOST_PAGES] if typed else []
        if not pages:
            click.echo("There is no such page.")
            return None
        for number, page in enumerate(pages, 1):
            click.echo(case_texts.build_choice(number, f"{page.title} – {page.path}"))
        chosen = _pick("Which one; nothing for none", len(pages))
        if chosen is None:
            return None
        return review.load_page(self._database, pages[chosen].document_id)

    def _choose_passage(
        self, found: Review, page: KnownPage, gold: tuple[Gold, ...]
    ) -> tuple[Gold, ...]:
        """The gold with a passage of a page, or without a number all of the page.

        It takes the place of what was named of the page, or of everything if nothing was.
        """
        passages = spans.list_spans(self._retriever, found.case.question, page.document_id)
        for number, each in enumerate(passages, 1):
            click.echo(case_texts.build_choice(number, each.text))
        chosen = _pick("Which passage answers; nothing for the page as a whole", len(passages))
        new = replace(page.gold, span=None if chosen is None else passages[chosen].text)
        if page.number is None:
            return (new,)
        return (*gold[: page.number], new, *gold[page.number + 1 :])

    def _mark_page_wrong(self, found: Review) -> str:
        page = found.page_at_hand
        if page is None:
            return "Which page that is, is not known. Choose it with p first."
        cases.mark_page_wrong(self._database, found.case.case_id, self._name, page.gold)
        return case_texts.build_wrong_page(page)


def _pass_over() -> Outcome:
    click.echo("This was decided meanwhile, changed, or taken back.")
    return "skipped"


def _ask(question: str) -> str:
    typed: str = click.prompt(question, default="", show_default=False)
    return typed.strip()


def _pick(question: str, count: int) -> int | None:
    """The index of the one whose number is typed; None where nothing is."""
    while typed := _ask(question):
        if typed.isdecimal() and 0 < int(typed) <= count:
            return int(typed) - 1
        click.echo(f"{typed} is none of these numbers.")
    return None
