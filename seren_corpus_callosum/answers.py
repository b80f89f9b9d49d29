"""One request and one answer as Flask has them: headers, body, request id; JSON out, and the one shape of errors."""

import re
import time
import uuid
from collections.abc import Mapping
from typing import Any

from flask import Flask, Request, Response, request

from . import guard, settings, wire
from .errors import Problem, Unavailable
from .hits import Json

BODY_LIMIT_BYTES = 1024 * 1024
CAME_AT = "seren_corpus_callosum.came_at"  # in the WSGI environment: monotonic seconds, set by our own server


class App(Flask):
    """An application that finds a route whatever the Host: Flask has a page of HTML for one that is no name."""

    def create_url_adapter(self, request: Request | None) -> Any:
        if request is None:
            return super().create_url_adapter(None)
        return self.url_map.bind_to_environ({**request.environ, "HTTP_HOST": "localhost"}, subdomain="")


def asked(has_body: bool | None) -> guard.Ask:
    """What the guard wants to know of the request."""
    environ = request.environ
    headers = sent_headers()
    if has_body is None:
        has_body = environ.get("CONTENT_LENGTH", "0") not in ("", "0") or "transfer-encoding" in headers
    scheme = environ.get("wsgi.url_scheme", "http")
    return guard.Ask(environ.get("REMOTE_ADDR"), request.method, headers, has_body, scheme)


def sent_headers() -> dict[str, str]:
    """The request's headers as WSGI tells them: werkzeug's view may have been decoded or stripped already."""
    environ = request.environ
    headers = {key[5:].replace("_", "-").lower(): value for key, value in environ.items() if key.startswith("HTTP_")}
    headers["content-type"] = environ.get("CONTENT_TYPE", "")
    return headers


def request_id(sent: str) -> str:
    """The caller's own id for the request, or a new one."""
    return sent if re.fullmatch(r"[!-~]{1,64}", sent) else uuid.uuid4().hex


def left_s(limit_s: float) -> float:
    """What is left of a caller's deadline after the wait for a thread, if our own server told; Unavailable: nothing."""
    now = time.monotonic()
    came_at: float = request.environ.get(CAME_AT, now)
    left = limit_s - (now - came_at)
    if left <= 0:
        raise Unavailable("its time ran out before a thread was free; ask again in a moment")
    return max(settings.SECONDS.low, left)


def json_body() -> Json:
    """The request's body as JSON; Problem for one that is too large or no JSON."""
    return wire.decode(raw_body())


def raw_body() -> bytes:
    """The request's body as it is; Problem for one that is too large."""
    # On the request, not in the configuration: MAX_CONTENT_LENGTH is the host's.
    request.max_content_length = BODY_LIMIT_BYTES
    return request.get_data(cache=False)


def answer(body: Mapping[str, Json], status: int = 200) -> Response:
    return Response(wire.encode(body), status, mimetype="application/json", headers={"Cache-Control": "no-store"})


def problem_response(problem: Problem) -> Response:
    """The one error answer."""
    response = Response(wire.encode(wire.problem_body(problem)), problem.status, problem.headers)
    response.mimetype = "application/problem+json"
    response.headers["Cache-Control"] = "no-store"
    return response
