"""HTTP: what Slack sends, whether Footnote is well, and what Prometheus reads."""

import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from slack_bolt import BoltRequest, BoltResponse
from slack_bolt.adapter.starlette.handler import to_bolt_request, to_starlette_response
from slack_bolt.oauth import OAuthFlow
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.health import Health, Report
from app.metrics import Metrics
from retrieval.errors import ConfigError

EVENTS_PATH = "/slack/events"
MAX_BODY = 4_000_000  # bytes; a button comes with its whole message, URL-encoded
GRACE_S = 3  # Slack waits no longer for an answer

# On what it cannot compare with a signature, Bolt 1.30 does not refuse but fail, and failures are
# told in the channel that the request names, whoever sent it.
SIGNING = {"x-slack-request-timestamp": r"[0-9]{1,12}", "x-slack-signature": r"v0=[0-9a-f]{64}"}

log = logging.getLogger(__name__)


class Bolt(Protocol):
    """What answers Slack: the app of one workspace, or those of many."""

    def dispatch(self, req: BoltRequest) -> BoltResponse: ...


def build_web(
    health: Health,
    metrics: Metrics,
    *,
    bolt: Bolt | None = None,
    oauth: OAuthFlow | None = None,
) -> Starlette:
    """/healthz and /metrics and, with bolt, /slack/events; with oauth, the pages to install it.

    /healthz and /healthz/ready are for whoever sends requests here, /healthz/live for whoever
    starts the process anew: 200 or 503, with how each part is.
    """

    def show_ready(request: Request) -> Response:
        report = health.look()
        return _show_report(report, is_well=report.is_ready)

    def show_live(request: Request) -> Response:
        report = health.look()
        return _show_report(report, is_well=report.is_live)

    def show_metrics(request: Request) -> Response:
        shown = generate_latest(metrics.registry)
        return Response(shown, headers={"Content-Type": CONTENT_TYPE_LATEST})

    routes = [
        Route("/healthz", show_ready),
        Route("/healthz/ready", show_ready),
        Route("/healthz/live", show_live),
        Route("/metrics", show_metrics),
    ]
    if bolt is not None:
        routes.append(Route(EVENTS_PATH, _build_endpoint(bolt), methods=["POST"]))
    if oauth is not None:
        routes.append(Route(oauth.install_path, _build_page(oauth.handle_installation)))
        routes.append(Route(oauth.redirect_uri_path, _build_page(oauth.handle_callback)))
    return Starlette(routes=routes)


@contextmanager
def listening(web: Starlette, host: str, port: int) -> Iterator[int]:
    """Serve while the block runs, and finish what is begun; gives the port, a free one for 0.

    Raises ConfigError when the address is not to be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigError(
            f"Footnote cannot listen on {host}, port {port}: {error.strerror}. "
            "Set HOST and PORT to an address that is free."
        ) from error
    server = uvicorn.Server(
        uvicorn.Config(
            web,
            log_config=None,  # ours
            access_log=False,  # probes come every few seconds
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
    )
    # On a thread of its own it leaves the signals alone.
    thread = threading.Thread(target=server.run, args=([listener],), name="web")
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def _build_page(
    handle: Callable[[BoltRequest], BoltResponse],
) -> Callable[[Request], Response]:
    def show(request: Request) -> Response:
        return to_starlette_response(handle(to_bolt_request(request, b"")))

    return show


def _build_endpoint(bolt: Bolt) -> Callable[[Request], object]:
    async def receive(request: Request) -> Response:
        for name, form in SIGNING.items():
            if not all(re.fullmatch(form, each) for each in request.headers.getlist(name)):
                return _refuse()
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_BODY:
                return Response(status_code=413)
        try:
            bolt_request = to_bolt_request(request, bytes(body))
        except Exception:  # Bolt parses before it verifies; Slack sends nothing it cannot parse
            return Response(status_code=400)
        # Bolt's own adapters dispatch on the event loop: while one listener takes its time to
        # acknowledge, nothing else would be received.
        response = await run_in_threadpool(bolt.dispatch, bolt_request)
        return _refuse() if response.status == 401 else to_starlette_response(response)

    return receive


def _refuse() -> Response:
    log.warning("Refused a request: not of the last 5 minutes and signed by SLACK_SIGNING_SECRET")
    return Response(status_code=401)


def _show_report(report: Report, *, is_well: bool) -> Response:
    shown = {
        "live": report.is_live,
        "ready": report.is_ready,
        "reasons": report.reasons,
        "parts": {
            name: {"ok": check.is_ok, "text": check.text} for name, check in report.checks.items()
        },
    }
    return JSONResponse(shown, status_code=200 if is_well else 503)
