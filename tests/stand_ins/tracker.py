"""Trackers, played on localhost for the real HTTP client: GitHub's issues, and a webhook."""

import json
import re
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from .local_http import HttpAnswer, HttpRequest, LocalHttp, json_answer
from .recording import Recording

Json = dict[str, Any]
ISSUES = re.compile(
    r"/(repos/(?P<repository>[^/]+/[^/]+)|repositories/7)/issues(?:/(?P<number>\d+))?(?P<rest>/.*)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong with one request: a status, or with status 0 no answer at all."""

    status: int
    after_storing: bool  # the request takes effect, only its answer goes wrong

    def answer(self) -> HttpAnswer:
        if self.status == 0:
            return HttpAnswer(body=None)
        return json_answer({"message": "stand-in"}, status=self.status)


@dataclass(slots=True, kw_only=True)
class Issue:
    """An issue of the repository."""

    number: int
    title: str
    body: str
    state: str = "open"
    comments: list[str] = field(default_factory=list)


class TrackerStandIn:
    """GitHub with one repository, and a webhook, while its with-block runs.

    Requests for another path, without the token or the headers that GitHub asks for are refused as
    GitHub does.
    """

    repository = "acme/wiki"
    token = "ghp_stand-in"

    def __init__(self) -> None:
        self.issues: list[Issue] = []  # of GitHub, oldest first
        self.events: Recording[Json] = Recording()  # that the webhook received
        self.requests: Recording[HttpRequest] = Recording()
        self.moved_to: str | None = None  # a URL to which calls of the repository are sent on
        self._faults: deque[Fault] = deque()
        self._http = LocalHttp(self._answer)
        self._running = ExitStack()

    def __enter__(self) -> Self:
        self._running.enter_context(self._http)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._running.close()

    @property
    def github_url(self) -> str:
        """The base URL of GitHub's API."""
        return f"{self._http.url}/api/v3"

    @property
    def webhook_url(self) -> str:
        return f"{self._http.url}/hooks/secret-7"

    def fail_next(self, *, status: int = 0, after_storing: bool = False, times: int = 1) -> None:
        """Answer the next requests with a status, or hang up."""
        self._faults.extend([Fault(status=status, after_storing=after_storing)] * times)

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        self.requests.add(request)
        fault = self._faults.popleft() if self._faults else None
        if fault and not fault.after_storing:
            return fault.answer()
        answer = self._take(request)
        return fault.answer() if fault else answer

    def _take(self, request: HttpRequest) -> HttpAnswer:
        fields = json.loads(request.body) if request.body else {}
        if self.moved_to and f"/repos/{self.repository}/" in request.path:
            to = request.path.partition("/issues")[2]
            return json_answer(
                {"message": "Moved Permanently"},
                status=301,
                headers={"Location": f"{self.moved_to}/issues{to}"},
            )
        if request.path == "/hooks/secret-7":
            self.events.add(fields)
            return HttpAnswer(status=204, body=b"")
        place = ISSUES.fullmatch(request.path.removeprefix("/api/v3"))
        if place is None or place["repository"] not in (None, self.repository):
            return json_answer({"message": "Not Found"}, status=404)
        if "user-agent" not in request.headers:
            return json_answer({"message": "User-Agent required"}, status=403)
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return json_answer({"message": "Bad credentials"}, status=401)
        return self._take_issue(request, place, fields)

    def _take_issue(
        self, request: HttpRequest, place: re.Match[str], fields: Mapping[str, Any]
    ) -> HttpAnswer:
        if place["number"] is None:
            if request.method == "GET":
                shown = json.dumps([self._show(each) for each in reversed(self.issues)])
                return HttpAnswer(body=shown.encode())
            issue = Issue(
                number=len(self.issues) + 1, title=fields["title"], body=fields.get("body", "")
            )
            self.issues.append(issue)
            return json_answer(self._show(issue), status=201)
        found = [each for each in self.issues if each.number == int(place["number"])]
        if not found:
            return json_answer({"message": "Not Found"}, status=404)
        (issue,) = found
        if place["rest"] == "/comments":
            issue.comments.append(fields["body"])
            return json_answer({"id": len(issue.comments)}, status=201)
        issue.state = fields["state"]
        return json_answer(self._show(issue))

    def _show(self, issue: Issue) -> Json:
        return {
            "number": issue.number,
            "title": issue.title,
            "body": issue.body,
            "state": issue.state,
            "html_url": f"https://github.example/{self.repository}/issues/{issue.number}",
        }
