"""The review of cases in a terminal, one after the other."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import click

from app import feedback
from app.feedback import Page
from app.loop import case_texts, cases, review, spans
from app.loop.review import Review
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
                click.echo(f"\n{number} of {len(case_ids)}: {case_id}\n")
                outcomes[self._decide(case_id)] += 1
        except click.Abort:  # q, the end of the input, or Ctrl-C
            click.echo()
        return outcomes

    def _decide(self, case_id: str) -> Outcome:
        found = review.load_review(self._database, case_id, self._freshness_days)
        if found is None or found.case.state != "proposed":
            return _pass_over()
        gold, page = self._propose(found), self._load_page(found)
        click.echo(case_texts.build_review(found, gold))
        while True:
            key = _ask(f"\n{MENU}").lower()
            if key == "q":
                raise click.Abort
            if key == "s":
                return "skipped"
            if key in ("n", "r") or (key == "a" and gold):
                return self._save(case_id, key, gold)
            if key == "a":
                click.echo("No page is named. p chooses one, n says that none answers.")
            elif key == "w":
                click.echo(self._mark_page_wrong(found))
            elif key in ("o", "p"):
                page = self._choose_page() or page if key == "p" else page
                gold = self._choose_passage(found, page) if page else gold
                found = review.load_review(self._database, case_id, self._freshness_days) or found
                click.echo(case_texts.build_outcome(found, gold))

    def _propose(self, found: Review) -> tuple[Gold, ...]:
        """The gold of a case, with the best passage of each page of which none is known."""
        pages = {page.doc: page.document_id for page in found.pages}
        return tuple(
            Gold(doc=gold.doc, span=gold.span or self._find_span(found, pages.get(gold.doc)))
            for gold in found.case.gold
        )

    def _find_span(self, found: Review, document_id: int | None) -> str | None:
        if document_id is None:  # the page is not in the index any more
            return None
        span = spans.propose_span(self._retriever, found.case.question, document_id)
        return span.text if span else None

    def _load_page(self, found: Review) -> Page | None:
        if not found.pages:
            return None
        return feedback.load_page(self._database, found.pages[0].document_id)

    def _save(self, case_id: str, key: str, gold: Sequence[Gold]) -> Outcome:
        """What was decided by a key, unless somebody else was faster."""
        case = cases.load(self._database, case_id)
        if case is None or case.state != "proposed":
            return _pass_over()
        if key == "r":
            cases.dismiss(self._database, case_id, self._name)
            return "dismissed"
        shown = () if key == "n" else gold
        cases.save_gold(self._database, case_id, self._name, gold=shown)
        cases.approve(self._database, case_id, self._name)
        return "approved"

    def _choose_page(self) -> Page | None:
        """A page by part of its title; None where none is chosen."""
        typed = _ask("Words of its title")
        pages = feedback.find_pages(self._database, typed)[:MOST_PAGES] if typed else []
        if not pages:
            click.echo("There is no such page.")
            return None
        for number, page in enumerate(pages, 1):
            click.echo(case_texts.build_choice(number, f"{page.title} – {page.path}"))
        chosen = _pick("Which one", len(pages))
        return None if chosen is None else pages[chosen]

    def _choose_passage(self, found: Review, page: Page) -> tuple[Gold, ...]:
        """What of a page answers, kept on the case from then on; no number: all of the page."""
        passages = spans.list_spans(self._retriever, found.case.question, page.document_id)
        for number, each in enumerate(passages, 1):
            click.echo(case_texts.build_choice(number, each.text))
        chosen = _pick("Which passage answers; nothing for the page as a whole", len(passages))
        span = None if chosen is None else passages[chosen].text
        gold = (Gold(doc=page.path, span=span),)
        cases.save_gold(self._database, found.case.case_id, self._name, gold=gold)
        return gold

    def _mark_page_wrong(self, found: Review) -> str:
        page = found.page_at_hand
        if page is None:
            return "Which page that is, is not known. Choose it with p first."
        cases.mark_page_wrong(self._database, found.case.case_id, self._name)
        return case_texts.build_wrong_page(page)


def _pass_over() -> Outcome:
    click.echo("This was decided meanwhile, or taken back.")
    return "skipped"


def _ask(question: str) -> str:
    typed: str = click.prompt(question, default="", show_default=False)
    return typed.strip()


def _pick(question: str, count: int) -> int | None:
    """The index of the one whose number is typed; None where no such number is."""
    typed = _ask(question)
    number = int(typed) if typed.isdecimal() else 0
    return number - 1 if 0 < number <= count else None
