"""The HTTP face: create_blueprint for a portal, create_app for a service of its own. Owns nothing of its host's."""

import logging
import socket
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from itertools import product
from typing import Any, NamedTuple
from urllib.parse import quote

from flask import Blueprint, Flask, Response, current_app, request
from flask.blueprints import BlueprintSetupState
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge
from werkzeug.routing import BaseConverter, Map, PathConverter, Rule

from . import answers, guard, wire
from .answers import BODY_LIMIT_BYTES, answer, json_body, problem_response, raw_body, sent_headers
from .binding import Unbound
from .errors import (
    BadRequest,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotFound,
    Problem,
    TooLarge,
)
from .guard import Action
from .hits import Json
from .page import Bridge
from .service import Callosum
from .stores import adapter_types
from .tool import NO_MCP, has_mcp

log = logging.getLogger(__name__)

MCP_PATHS = ("/mcp", "/mcp/")
Authorize = Callable[[str], Any]
View = Callable[..., Response]


class Route(NamedTuple):
    """One row of the table of routes: a path below the prefix, its methods, what it does to the guard, its view."""

    path: str
    method: str
    action: Action
    view: View


def create_blueprint(callosum: Callosum, *, name: str = "callosum", authorize: Authorize | None = None) -> Blueprint:
    """A blueprint that serves `callosum` under any prefix of any Flask application.

    `authorize("read" | "change")` lets the host decide: true, false (403) or a response, also by `abort`; it covers
    every route but /health, and a right bearer passes without it. With neither token nor
    `authorize` the blueprint is read-only.
    """
    return _blueprint(callosum, name, authorize, guest=True)


def create_app(callosum: Callosum) -> Flask:
    """A WSGI application of its own around one callosum."""
    app = answers.App("seren_corpus_callosum", static_folder=None, template_folder=None)
    app.register_blueprint(_blueprint(callosum, "callosum", None, guest=False))
    return app


def _blueprint(callosum: Callosum, name: str, authorize: Authorize | None, *, guest: bool) -> Blueprint:
    blueprint = Blueprint(name, __name__)
    face = _Face(callosum, authorize, guest=guest)
    guarded: dict[str, View] = {}
    for route in face.routes:
        endpoint = route.view.__name__
        view = guarded.setdefault(endpoint, face.guarded(route.action, route.view))
        blueprint.add_url_rule(
            route.path,
            endpoint,
            view,
            methods=[route.method],
            provide_automatic_options=False,
            strict_slashes=True,
            merge_slashes=False,
        )

    @blueprint.record
    def catch_the_rest(state: BlueprintSetupState) -> None:
        # A rule without methods takes them all; add_url_rule cannot make one, and with GET alone a POST to an
        # unknown path would be answered by the host's 405 page.
        endpoint = f"{state.name_prefix}.{state.name}.rest".lstrip(".")
        prefix = (state.url_prefix or "").rstrip("/")
        paths = filter(None, (f"{prefix}/<path:rest>", f"{prefix}/", prefix))
        shape: dict[str, Any] = {"endpoint": endpoint, "merge_slashes": False, "subdomain": state.subdomain}
        for path, websocket in product(paths, (False, True)):
            state.app.url_map.add(_RestRule(path, strict_slashes=True, websocket=websocket, **shape))
        state.app.view_functions[endpoint] = face.rest

    return blueprint


class _AnyPath(PathConverter):
    regex = r"[\s\S]*?"  # a dot would leave a line break in a path to the host's 404 page
    part_isolating = False


class _RestRule(Rule):
    """A rule whose variable takes any path: werkzeug's own takes none that begins with a slash."""

    def get_converter(self, variable_name: str, converter_name: str, args: Any, kwargs: Any) -> BaseConverter:
        if variable_name != "rest":  # the prefix may have variables of its own
            return super().get_converter(variable_name, converter_name, args, kwargs)
        return _AnyPath(self.map)


class _Face:
    """The views of one callosum, and the one wrapper around them all: guard, problems, request id, log line."""

    def __init__(self, callosum: Callosum, authorize: Authorize | None, *, guest: bool) -> None:
        self.callosum = callosum
        self.authorize = authorize
        server = callosum.config.server
        self.rules = guard.Rules(
            token=callosum.config.token,
            allow_open_lan=server.allow_open_lan,
            allowed_hosts=server.allowed_hosts,
            trusted_proxy=server.trusted_proxy,
            own_names=own_names(),
            guest=guest,
        )
        self.log_query = callosum.config.log_query
        self.bridge = Bridge(server.frame_ancestors)
        self.routes = (
            Route("/", "GET", Action.PUBLIC, self.about),
            Route("/health", "GET", Action.HEALTH, self.health),
            Route("/viewer", "GET", Action.PUBLIC, self.viewer),
            Route("/search", "POST", Action.READ, self.search),
            Route("/stores", "GET", Action.READ, self.stores),
            Route("/stores", "POST", Action.CHANGE, self.add_store),
            Route("/stores/<name>", "GET", Action.READ, self.store),
            Route("/stores/<name>", "PATCH", Action.CHANGE, self.change_store),
            Route("/stores/<name>", "DELETE", Action.CHANGE, self.remove_store),
            *([Route(path, "POST", Action.MCP, self.mcp) for path in MCP_PATHS] if has_mcp() else []),
        )
        self.known = Map(
            [Rule(route.path, methods=[route.method], endpoint=route.method) for route in self.routes],
            merge_slashes=False,
        ).bind("callosum")

    # Views

    def about(self) -> Response:
        roster = self.callosum.roster()
        body: dict[str, Json] = {
            "service": "seren-corpus-callosum",
            "version": package_version(),
            "stores": [row.entry.name for row in roster if row.status == "active"],
            "auth": "bearer" if self.rules.token else "open",
            "mcp": has_mcp(),
        }
        if self.rules.token is None:
            unusable = [row.entry for row in roster if isinstance(row.entry, Unbound) and not row.entry.duplicate]
            body["skipped"] = [{"name": entry.name, "reason": entry.reason} for entry in unusable]
        return answer(body)

    def health(self) -> Response:
        return answer({"ok": True, "ts": wire.iso(datetime.now(UTC))})

    def viewer(self) -> Response:
        api = request.base_url.removesuffix("viewer") + "search"
        page = self.bridge.render(api, hosted=self.authorize is not None)
        return Response(page.html, mimetype="text/html", headers=dict(page.headers))

    def search(self) -> Response:
        wanted = wire.search_request(json_body())
        if self.log_query:
            log.info("query %r", wanted["query"])
        if wanted["timeout_s"] is not None:
            wanted["timeout_s"] = answers.left_s(wanted["timeout_s"])
        packet = self.callosum.search(**wanted, via=wire.hops(request.headers.get("Via", "")))
        return answer(wire.packet_body(packet))

    def stores(self) -> Response:
        snapshot = self.callosum.snapshot()
        roster, federation = snapshot.rows(), snapshot.federation
        body: dict[str, Json] = {
            "stores": [wire.store_body(row) for row in roster],
            "active": sum(row.status == "active" for row in roster),
            "types": list(adapter_types()),
            "k": federation.k,
            "n_results": federation.n_results,
            "fetch_multiplier": federation.fetch_multiplier,
            "per_store_timeout_s": federation.per_store_timeout_s,
        }
        if snapshot.damage:
            body["damage"] = snapshot.damage
        return answer(body)

    def store(self, name: str) -> Response:
        _no_snapshots(name)
        return answer(wire.store_body(self.callosum.row(name)))

    def add_store(self) -> Response:
        check = request.args.get("check", "")
        if check not in ("", "true", "only", "false"):
            raise Invalid("the request has faults", errors={"check": ["expected true or only"]})
        entry = wire.mapping(json_body())
        if check in ("true", "only"):
            result = self.callosum.check(entry)
            if check == "only":
                return answer(wire.check_body(result))
            if not result.ok:
                raise Invalid(f"the store was not added: {result.reason}", errors={"url": [str(result.reason)]})
        row = self.callosum.add_store(entry)
        return answer(wire.store_body(row), 201)

    def change_store(self, name: str) -> Response:
        _no_snapshots(name)
        return answer(wire.store_body(self.callosum.change_store(name, wire.mapping(json_body()))))

    def remove_store(self, name: str) -> Response:
        _no_snapshots(name)
        return answer({"removed": self.callosum.remove_store(name)})

    def mcp(self) -> Response:
        from . import mcp  # loads the SDK, which need not be there: at the top it would be half a second of any start

        via = wire.hops(request.headers.get("Via", ""))
        told = mcp.exchange(self.callosum, raw_body(), sent_headers(), via=via)
        response = Response(told.body, told.status)
        del response.headers["Content-Type"]  # an empty 202 has none, and Flask would call it HTML
        response.headers.extend({"Cache-Control": "no-store", **told.headers})
        return response

    # Around every view

    def rest(self, rest: str = "", **_prefix: Any) -> Response:
        """Whatever no route serves, in any method: 404, or 405 with the methods that the path does have."""
        websocket = request.url_rule is not None and request.url_rule.websocket
        if not rest and not websocket and request.method in ("GET", "HEAD"):  # the prefix without its slash
            return self.guarded(Action.PUBLIC, self.about)()
        allowed = [] if rest.startswith("/") else sorted(self.known.allowed_methods("/" + rest))
        action = Action.WELL_KNOWN if rest.startswith(".well-known/") else Action.READ

        def view() -> Response:
            if websocket:
                raise BadRequest("no websocket is served here: leave out the Upgrade header")
            _no_snapshots(rest.removeprefix("stores/"))
            if allowed:
                raise MethodNotAllowed(f"{request.method} is not served here", allowed)
            if f"/{rest}" in MCP_PATHS:
                raise NotFound(NO_MCP)
            raise NotFound("there is nothing at this path; GET / tells what this service is")

        return self.guarded(action, view, has_body=False)()

    def guarded(self, action: Action, view: View, *, has_body: bool | None = None) -> View:
        def serve(**values: Any) -> Response:
            arguments = {"name": values["name"]} if "name" in values else {}  # the rest are variables of the prefix
            started = time.monotonic()
            request_id = answers.request_id(request.headers.get("X-Request-Id", ""))
            ask = answers.asked(has_body)
            try:
                response = self._refused(ask, action) or view(**arguments)
            except Problem as exc:
                response = problem_response(exc)
            except RequestEntityTooLarge:
                response = problem_response(TooLarge(f"the body is over {BODY_LIMIT_BYTES // 1024} KiB"))
            except HTTPException as exc:
                response = problem_response(BadRequest(f"the request could not be read ({exc.name})"))
            except Exception as exc:  # noqa: BLE001 - a fault of ours: told as a plain 500 here, whole in the log
                where = traceback.extract_tb(exc.__traceback__)
                log.error("request %s failed: %s\n%s", request_id, type(exc).__name__, "".join(where.format()))
                response = problem_response(Problem(f"this service failed; its log has more under {request_id}"))
            response.headers["X-Request-Id"] = request_id
            ms = (time.monotonic() - started) * 1000
            method, path = (quote(text, safe="/") for text in (request.method, request.path))
            log.info("%s %s %s %.1f ms %s", method, path, response.status_code, ms, request_id)
            return response

        return serve

    def _refused(self, ask: guard.Ask, action: Action) -> Response | None:
        """The answer to a caller who may not do this, or None. Raises Problem."""
        host_allows = False
        if self.authorize is not None and action is not Action.HEALTH and not guard.has_right_bearer(ask, self.rules):
            refusal = _host_refusal(self.authorize, "change" if action is Action.CHANGE else "read")
            if refusal is not None:
                return refusal
            host_allows = True
        problem = guard.refuse(ask, action, self.rules, host_allows=host_allows)
        if problem is not None:
            raise problem
        return None


def _host_refusal(authorize: Authorize, action: str) -> Response | None:
    """The host's answer to a caller whom it does not allow this, or None."""
    try:
        verdict = authorize(action)
    except HTTPException as exc:
        # abort() in the host's function: its own error pages answer, as on its other routes.
        verdict = current_app.handle_user_exception(exc)
    if verdict is None or (isinstance(verdict, int) and verdict in (0, 1)):
        if not verdict:
            raise Forbidden("the portal that this service is part of does not let you do this")
        return None
    # Taking all else for an answer fails closed: a (text, 401) or a redirect of another class is true to Python.
    return current_app.make_response(verdict)


def _no_snapshots(name: str) -> None:
    if name in ("snapshot", "snapshots"):
        raise NotFound("a callosum keeps no snapshots: it holds no data")


@cache
def package_version() -> str:
    return version("seren-corpus-callosum")


@cache
def own_names() -> tuple[str, ...]:
    name = socket.gethostname()
    return tuple(dict.fromkeys([name, name.partition(".")[0]]))
