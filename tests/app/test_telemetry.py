"""What OpenTelemetry is sent of a question, by a process of its own, as one takes one provider."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.stand_ins.claude import ClaudeStandIn
from tests.stand_ins.local_http import HttpAnswer, HttpRequest, LocalHttp

QUESTION = "how many zanzibar days of leave can I carry over?"
ROOT = Path(__file__).parents[2]
SECRETS = ("zanzibar", "carry", "leave", "xoxb-1-secret")

ANSWER = f"""
from datetime import UTC, datetime, timedelta
from app import claims, parts, telemetry
from app.answering import Kept
from app.config import load_settings
from app.database import open_database
from app.records import Arrival, Turn
from retrieval.timing import span

settings = load_settings()
database = open_database(settings)
trace_id = claims.claim(database, Arrival(question={QUESTION!r}))
print(trace_id)
turns = [Turn(speaker="user", text="hello"), Turn(speaker="user", text={QUESTION!r})]
waiting_since = datetime.now(UTC) - timedelta(seconds=90)
with telemetry.recording(settings):
    answerer = parts.build_answerer(settings, database)
    with telemetry.question(
        trace_id, tenant_id="acme", attempt=2, waiting_since=waiting_since
    ) as root:
        answerer.answer(turns, Kept(database=database, trace_id=trace_id))
        try:
            with span("post"):
                raise ValueError("xoxb-1-secret")
        except ValueError:
            pass
        telemetry.tell(root, "answered")
"""


class Receiver:
    """What takes spans over OTLP/HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[bytes] = []

    def take(self, request: HttpRequest) -> HttpAnswer:
        assert (request.method, request.path) == ("POST", "/v1/traces")
        self.requests.append(request.body)
        return HttpAnswer(body=b"")

    def spans(self) -> list[Span]:
        return [
            span
            for body in self.requests
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@contextmanager
def receiving() -> Iterator[Receiver]:
    def answer(request: HttpRequest) -> HttpAnswer:
        return receiver.take(request)

    with LocalHttp(answer) as server:
        receiver = Receiver(server.url)
        yield receiver


def answer(url: str, claude: ClaudeStandIn, receiver: Receiver) -> UUID:
    """The trace of a question that a process answers."""
    environment = {
        "DATABASE_URL": url,
        "TENANT_ID": "acme",
        "ANTHROPIC_API_KEY": claude.api_key,
        "ANTHROPIC_BASE_URL": claude.base_url,
        "REWRITE_TIMEOUT_MS": "60000",
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
    }
    result = subprocess.run(
        [sys.executable, "-c", ANSWER],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return UUID(result.stdout.strip())


def find(spans: list[Span], name: str) -> Span:
    """The first one of a name."""
    return min(
        (each for each in spans if each.name == name), key=lambda each: each.start_time_unix_nano
    )


def read_attributes(span: Span) -> dict[str, str | int]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


@pytest.mark.model
def test_a_question_is_one_trace_of_its_steps_without_a_text(
    indexed_url: str, stand_in: ClaudeStandIn
) -> None:
    with receiving() as receiver:
        trace_id = answer(indexed_url, stand_in, receiver)
    spans = receiver.spans()
    assert {UUID(bytes=each.trace_id) for each in spans} == {trace_id}
    root = find(spans, "question")
    assert [each.name for each in spans if not each.parent_span_id] == ["question"]
    assert read_attributes(root) == {
        "footnote.trace_id": str(trace_id),
        "footnote.tenant_id": "acme",
        "footnote.attempt": 2,
        "footnote.outcome": "answered",
    }
    children = {each.name for each in spans if each.parent_span_id == root.span_id}
    steps = {"queue", "rewrite", "search", "wait", "fuse", "late", "rerank", "names", "keep"}
    assert children == {*steps, "generate", "post"}
    legs = {each.name for each in spans if each.parent_span_id == find(spans, "search").span_id}
    assert legs == {"embed", "dense", "lexical", "identifier"}

    waited = find(spans, "queue")
    assert waited.start_time_unix_nano == root.start_time_unix_nano
    assert 90 <= (waited.end_time_unix_nano - waited.start_time_unix_nano) / 1e9 < 100
    for each in spans:
        assert root.start_time_unix_nano <= each.start_time_unix_nano <= each.end_time_unix_nano
        assert each.end_time_unix_nano <= root.end_time_unix_nano
    assert find(spans, "dense").start_time_unix_nano > waited.end_time_unix_nano

    failed = find(spans, "post")
    assert failed.status.code == Status.STATUS_CODE_ERROR
    assert read_attributes(failed) == {"error.type": "ValueError"}
    for body in receiver.requests:
        for secret in SECRETS:
            assert secret.encode() not in body


def test_without_an_address_nothing_is_loaded() -> None:
    script = (
        "import sys\n"
        "from app import telemetry\n"
        "from app.config import Settings\n"
        "with telemetry.recording(Settings()):\n"
        "    assert 'opentelemetry.sdk' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)
