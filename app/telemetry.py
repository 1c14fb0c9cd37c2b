"""OpenTelemetry: each question as one trace of the steps of the work on it, without any text."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span

from app.config import Settings

FLUSH_S = 5  # at the stop; of the 25 s that it may take, most are for answers. Chosen

# Whose trace begins: OpenTelemetry gives it our number, so that each is found by the other.
_beginning: ContextVar[UUID | None] = ContextVar("beginning", default=None)
_tracer = trace.get_tracer("footnote")


@contextmanager
def recording(settings: Settings) -> Iterator[None]:
    """Send what is traced while the block runs to OTEL_EXPORTER_OTLP_ENDPOINT, if that is set.

    What is not sent yet is sent at the end, for FLUSH_S at most. Once a process: OpenTelemetry
    takes no second provider.
    """
    endpoint = settings.otel_exporter_otlp_endpoint
    if endpoint is None:
        yield
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    class OurIds(RandomIdGenerator):
        def generate_trace_id(self) -> int:
            trace_id = _beginning.get()
            return trace_id.int if trace_id else super().generate_trace_id()

    instance = f"{socket.gethostname()}/{os.getpid()}"  # as in the logs
    provider = TracerProvider(
        # A sampler by ratio takes the id for random, and of our UUIDs some bits never change.
        sampler=ALWAYS_ON,
        resource=Resource.create({"service.name": "footnote", "service.instance.id": instance}),
        shutdown_on_exit=False,
        id_generator=OurIds(),
    )
    exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        # By itself it waits for 10 s and more where nobody receives.
        flushing = threading.Thread(target=provider.shutdown, name="telemetry", daemon=True)
        flushing.start()
        flushing.join(FLUSH_S)


@contextmanager
def question(
    trace_id: UUID, *, tenant_id: str, attempt: int, waiting_since: datetime
) -> Iterator[Span]:
    """Show the block as one attempt at a question, begun with its wait; the root of its trace.

    Whoever knows the outcome adds it by `tell`.
    """
    now = time.time_ns()
    # By the database's clock, which may be ahead of ours.
    since = min(now, int(waiting_since.timestamp() * 1_000_000_000))
    beginning = _beginning.set(trace_id)
    try:
        root = _tracer.start_span(
            "question",
            context=Context(),
            start_time=since,
            attributes={
                "footnote.trace_id": str(trace_id),
                "footnote.tenant_id": tenant_id,
                "footnote.attempt": attempt,
            },
        )
    finally:
        _beginning.reset(beginning)
    with trace.use_span(
        root, end_on_exit=True, record_exception=False, set_status_on_exception=False
    ):
        _tracer.start_span("queue", start_time=since).end(now)
        yield root


def tell(root: Span, outcome: str | None) -> None:
    """Add what came of a question to its root; None: nothing yet, another attempt follows."""
    root.set_attribute("footnote.outcome", outcome or "pending")
