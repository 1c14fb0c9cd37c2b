"""Where tickets are opened: GitHub issues, or whatever listens behind a webhook."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

import httpx2

from app.config import Settings
from retrieval.errors import ConfigError, FootnoteError

GITHUB = "github:"  # TICKETS begins so where it names a repository
TIMEOUT_S = 10  # for each step of a call; chosen
RECENT = 100  # issues among which one is looked for; GitHub's most on a page
# The issue was deleted; or its repository was archived, which GitHub words as a lack of permission.
GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE, HTTPStatus.FORBIDDEN)
# A repository that was renamed or given to another owner: ask again there, by the same method.
MOVED = (
    HTTPStatus.MOVED_PERMANENTLY,
    HTTPStatus.TEMPORARY_REDIRECT,
    HTTPStatus.PERMANENT_REDIRECT,
)
MOST_MOVES = 3  # that are followed in one call; chosen
NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class TicketRefused(FootnoteError):
    """The tracker did not take it, or was not reached; trying again later helps."""


class TicketGone(TicketRefused):
    """The tracker has the ticket no more, or takes nothing more for it."""


class TicketLost(FootnoteError):
    """Nobody knows whether the tracker took it: it may stand there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What is told to the tracker of one ticket."""

    ticket_id: int
    mark: str  # the same in every try, and in no other ticket
    tenant_id: str
    cases_name: str  # of the set
    title: str
    body: str  # Markdown


class Tracker(Protocol):
    """What takes tickets. All methods but find raise TicketRefused and TicketLost."""

    def open(self, note: Note) -> str:
        """Open a ticket; where it stands."""
        ...

    def find(self, note: Note) -> str | None:
        """Where a ticket stands of which nobody knows whether it was opened; raises as open."""
        ...

    def comment(self, reference: str, note: Note) -> None:
        """Say more of a ticket, open or not; raises TicketGone where nothing more can be said."""
        ...

    def close(self, reference: str, note: Note) -> None:
        """Say why a ticket is closed, and close it, open or not; raises as comment."""
        ...


def build(settings: Settings) -> Tracker | None:
    """The tracker that is set, None where none is; raises ConfigError when its token is not."""
    if settings.tickets is None:
        return None
    if not settings.tickets.startswith(GITHUB):
        return Webhook(settings.tickets)
    if settings.github_token is None:
        raise ConfigError(
            "TICKETS names a GitHub repository: set GITHUB_TOKEN to a token that may write its "
            "issues, or unset TICKETS."
        )
    return GitHub(
        settings.tickets.removeprefix(GITHUB),
        token=settings.github_token.get_secret_value(),
        api_url=settings.github_api_url,
    )


class GitHub:
    """Issues of a repository; a reference is an issue's address on the web."""

    def __init__(self, repository: str, *, token: str, api_url: str) -> None:
        self._issues = f"/repos/{repository}/issues"
        self._api_url = api_url.rstrip("/")
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "footnote",  # GitHub refuses who does not name themselves
        }

    def open(self, note: Note) -> str:
        body = f"{note.body}\n\n<!-- {note.mark} -->"
        issue = self._call("POST", self._issues, {"title": note.title, "body": body})
        return _read_address(issue)

    def find(self, note: Note) -> str | None:
        path = f"{self._issues}?state=all&sort=created&direction=desc&per_page={RECENT}"
        issues = self._call("GET", path)
        marked = (issue for issue in issues if note.mark in (issue.get("body") or ""))
        return next(map(_read_address, marked), None)

    def comment(self, reference: str, note: Note) -> None:
        self._write_to(reference, "POST", "/comments", {"body": note.body})

    def close(self, reference: str, note: Note) -> None:
        # Where the second fails, both are tried again.
        self.comment(reference, note)
        self._write_to(reference, "PATCH", "", {"state": "closed", "state_reason": "completed"})

    def _write_to(self, reference: str, method: str, below: str, fields: Mapping[str, Any]) -> None:
        # Of whatever repository it was opened in, should TICKETS name another one by now.
        place = re.search(r"/([^/]+/[^/]+)/issues/(\d+)$", reference)
        if place is None:  # opened by a webhook, which is no longer set
            return
        self._call(method, f"/repos/{place[1]}/issues/{place[2]}{below}", fields)

    def _call(self, method: str, path: str, fields: Mapping[str, Any] | None = None) -> Any:
        url = f"{self._api_url}{path}"
        for _ in range(1 + MOST_MOVES):
            with _reaching():
                answer = httpx2.request(
                    method, url, headers=self._headers, json=fields, timeout=TIMEOUT_S
                )
            to = urljoin(url, answer.headers.get("location", ""))
            if answer.status_code not in MOVED or to == url or not _is_same_host(url, to):
                break
            url = to
        return _read(answer)


class Webhook:
    """An address to which each event is sent; a reference is the ticket's own number.

    Who receives tells tickets apart by ticket_id: an opening whose answer got lost is sent again.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def open(self, note: Note) -> str:
        self._send("opened", note)
        return str(note.ticket_id)

    def find(self, note: Note) -> str | None:
        return None  # nobody can be asked

    def comment(self, reference: str, note: Note) -> None:
        self._send("commented", note)

    def close(self, reference: str, note: Note) -> None:
        self._send("closed", note)

    def _send(self, event: str, note: Note) -> None:
        told = {
            "event": event,
            "tenant": note.tenant_id,
            "set": note.cases_name,
            "ticket_id": note.ticket_id,
            "title": note.title,
            "body": note.body,
        }
        with _reaching():
            answer = httpx2.post(self._url, json=told, timeout=TIMEOUT_S)
        _check(answer)


@contextmanager
def _reaching() -> Iterator[None]:
    """Turn what goes wrong on the way into whether it can have arrived; no address is told."""
    try:
        yield
    except NEVER_SENT as error:
        raise TicketRefused(type(error).__name__) from error
    except httpx2.HTTPError as error:
        raise TicketLost(type(error).__name__) from error


def _is_same_host(url: str, other: str) -> bool:
    """Whether the other may see the token, too."""
    return urlsplit(url)[:2] == urlsplit(other)[:2]


def _read(answer: httpx2.Response) -> Any:
    _check(answer)
    try:
        return answer.json()
    except ValueError as error:
        raise TicketLost("The answer is no JSON.") from error


def _check(answer: httpx2.Response) -> None:
    """Raise what an answer means; of one from 500 on a gateway may have lost the real one."""
    status = f"status {answer.status_code}"
    if answer.status_code in GONE:
        raise TicketGone(status)
    if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise TicketLost(status)
    if not answer.is_success:
        raise TicketRefused(status)


def _read_address(issue: Mapping[str, Any]) -> str:
    address = issue.get("html_url")
    if not address:
        raise TicketLost("The answer names no issue.")
    return str(address)
