"""How long each step of a question takes: in its trace and, where it is on, in OpenTelemetry."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from opentelemetry import trace
from opentelemetry.trace import Span, StatusCode

_tracer = trace.get_tracer("footnote")  # does nothing until `app.telemetry` says where to


@contextmanager
def span(name: str) -> Iterator[Span]:
    """Show the block as one step below the one around it; of an error its class, never its text."""
    with _tracer.start_as_current_span(
        name, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield current
        except BaseException as error:
            current.set_status(StatusCode.ERROR)
            current.set_attribute("error.type", type(error).__qualname__)
            raise


class Clock:
    """Milliseconds of each stage that it was asked to time, all its turns together."""

    def __init__(self) -> None:
        self.stage_ms: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time the block under a name, and show it as a step."""
        start = perf_counter()
        try:
            with span(name):
                yield
        finally:
            elapsed = (perf_counter() - start) * 1000
            self.stage_ms[name] = round(self.stage_ms.get(name, 0) + elapsed, 1)
