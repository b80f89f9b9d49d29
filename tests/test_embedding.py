"""The blueprint as a guest: it serves under any prefix, asks the host whom to let in, and leaves the host as it was."""

import importlib.util
import logging
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import flask
import pytest
import werkzeug.utils
import werkzeug.wrappers
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

from examples.portal import create_portal
from seren_corpus_callosum import Callosum, create_blueprint, health
from tests.support.checks import problem, require

BEARER = {"Authorization": "Bearer right"}
NEW = {"name": "new", "type": "seren_loci", "url": "http://127.0.0.1:1"}


@pytest.fixture
def callosum(tmp_path, good_store):
    """Makes callosums over one healthy store each, which answers `content`; ended with the test."""
    made = []

    def make(content="larch", server="{}", name="facts"):
        store = good_store("seren_loci", [{"id": "1", "key": "", "value": content}])
        folder = tmp_path / f"callosum-{len(made) + 1}"
        folder.mkdir()
        file = folder / "c.yaml"
        entry = f"{{name: {name}, type: seren_loci, url: '{store.url}'}}"
        file.write_text(f"server: {server}\nfederation: {{stores: [{entry}]}}\n", encoding="utf-8")
        made.append(Callosum.from_config(file, environ={}))
        return made[-1]

    yield make
    for one in made:
        one.close(grace_s=0)


def app_with(*blueprints, **prefixes):
    app = flask.Flask("host")
    app.secret_key = "of the host"
    for blueprint in blueprints:
        app.register_blueprint(blueprint, url_prefix=prefixes.get(blueprint.name, f"/{blueprint.name}"))
    return app


def contents(client, prefix, **kwargs):
    answer = client.post(f"{prefix}/search", json={"query": "x"}, **kwargs)
    assert answer.status_code == 200, answer.text
    return [hit["content"] for hit in answer.json["hits"]]


# Where it can be


@pytest.mark.parametrize("is_pulled", [True, False])
def test_a_prefix_may_have_variables(callosum, is_pulled):
    blueprint = create_blueprint(callosum(), name="var")
    if is_pulled:

        @blueprint.url_value_preprocessor
        def pull(endpoint, values):
            values.pop("tenant")

    app = flask.Flask("host")
    app.register_blueprint(blueprint, url_prefix="/t/<tenant>")
    client = app.test_client()
    assert contents(client, "/t/nora") == ["larch"]
    for path in ("/health", "/viewer", "/stores", "/stores/facts", "", "/"):
        assert client.get(f"/t/nora{path}").status_code == 200, path
    problem(client.get("/t/nora/nope"), 404)
    problem(client.get("/t/nora/search"), 405)


@pytest.mark.parametrize("prefix", ["/memory", "/a/b/c", "/mémoire", "/with space", "/Memory/"])
def test_it_serves_under_any_prefix(prefix, callosum):
    app = app_with(create_blueprint(callosum()), callosum=prefix)
    client = app.test_client()
    below = prefix.rstrip("/")
    assert contents(client, below) == ["larch"]
    assert client.get(f"{below}/health").json["ok"] is True
    assert client.get(f"{below}/").json["stores"] == ["facts"]
    assert client.get(below).json["stores"] == ["facts"]
    assert client.get(f"{below}/viewer").mimetype == "text/html"
    problem(client.get(f"{below}/nope"), 404)
    assert problem(client.get(f"{below}/search"), 405) and client.get(f"{below}/search").headers["Allow"] == "POST"
    problem(client.post(f"{below}/"), 405)


def test_it_serves_at_the_root_of_an_application(callosum):
    app = flask.Flask("host")
    app.register_blueprint(create_blueprint(callosum()))
    client = app.test_client()
    assert contents(client, "") == ["larch"]
    problem(client.post("/nope"), 404)


def test_two_callosums_in_one_application_do_not_meet(callosum):
    left, right = callosum("left", server="{bearer_token: l}"), callosum("right", server="{bearer_token: r}")
    app = app_with(create_blueprint(left, name="left"), create_blueprint(right, name="right"))
    client = app.test_client()
    assert contents(client, "/left", headers={"Authorization": "Bearer l"}) == ["left"]
    assert contents(client, "/right", headers={"Authorization": "Bearer r"}) == ["right"]
    problem(client.get("/left/stores", headers={"Authorization": "Bearer r"}), 401)
    added = client.post("/left/stores", json=NEW, headers={"Authorization": "Bearer l"})
    assert added.status_code == 201
    assert [
        row["name"] for row in client.get("/right/stores", headers={"Authorization": "Bearer r"}).json["stores"]
    ] == ["facts"]


def test_one_callosum_may_stand_in_two_places_for_two_audiences(callosum):
    one = callosum()
    app = app_with(
        create_blueprint(one, name="staff", authorize=lambda action: True),
        create_blueprint(one, name="guests", authorize=lambda action: action == "read"),
    )
    client = app.test_client()
    assert client.post("/staff/stores", json=NEW).status_code == 201
    problem(client.delete("/guests/stores/new"), 403)
    assert [row["name"] for row in client.get("/guests/stores").json["stores"]] == ["facts", "new"]


def test_two_of_one_name_are_refused_by_flask_with_the_name(callosum):
    app = app_with(create_blueprint(callosum()))
    with pytest.raises(ValueError, match="callosum"):
        app.register_blueprint(create_blueprint(callosum()), url_prefix="/other")


def test_one_blueprint_registered_under_two_names_serves_both(callosum):
    blueprint = create_blueprint(callosum())
    app = flask.Flask("host")
    app.register_blueprint(blueprint, url_prefix="/one")
    app.register_blueprint(blueprint, url_prefix="/two", name="again")
    client = app.test_client()
    for prefix in ("/one", "/two"):
        assert contents(client, prefix) == ["larch"]
        problem(client.put(f"{prefix}/search"), 405)


def test_it_can_be_nested_in_a_blueprint_of_the_host(callosum):
    outer = flask.Blueprint("outer", "host", url_prefix="/outer")
    middle = flask.Blueprint("middle", "host", url_prefix="/middle")
    middle.register_blueprint(create_blueprint(callosum()), url_prefix="/memory")
    outer.register_blueprint(middle)
    app = flask.Flask("host")
    app.register_blueprint(outer)
    client = app.test_client()
    assert contents(client, "/outer/middle/memory") == ["larch"]
    problem(client.get("/outer/middle/memory/nope"), 404)
    problem(client.delete("/outer/middle/memory/search"), 405)
    assert client.get("/outer/middle/nope").mimetype == "text/html"
    with app.test_request_context():
        assert flask.url_for("outer.middle.callosum.viewer") == "/outer/middle/memory/viewer"


def test_it_serves_under_a_script_name(callosum):
    app = app_with(create_blueprint(callosum()))
    client = Client(DispatcherMiddleware(flask.Flask("front"), {"/portal": app}))
    answer = client.post("/portal/callosum/search", json={"query": "x"})
    assert [hit["content"] for hit in answer.json["hits"]] == ["larch"]
    assert client.get("/portal/callosum/viewer").status_code == 200
    problem(client.get("/portal/callosum/nope"), 404)


def test_it_serves_one_subdomain(callosum):
    app = flask.Flask("host", subdomain_matching=True)
    app.config["SERVER_NAME"] = "portal.example"
    app.register_blueprint(create_blueprint(callosum()), subdomain="memory")
    client = app.test_client()
    base = "http://memory.portal.example"
    assert client.post("/search", json={"query": "x"}, base_url=base).json["stores_searched"] == ["facts"]
    problem(client.get("/nope", base_url=base), 404)
    assert client.get("/nope", base_url="http://portal.example").mimetype == "text/html"


def test_the_host_links_to_the_page_by_name(callosum):
    app = app_with(create_blueprint(callosum(), name="memory"))
    with app.test_request_context():
        assert flask.url_for("memory.viewer") == "/memory/viewer"
        assert flask.url_for("memory.search") == "/memory/search"


def test_the_page_names_no_path_from_the_root(callosum):
    app = app_with(create_blueprint(callosum()))
    page = app.test_client().get("/callosum/viewer").text
    assert re.findall(r"""(?:href|src|action)=["']/""", page) == []
    assert re.findall(r"""fetch\(["'`]/""", page) == []


# What it leaves alone (B20, B31, B37)


@pytest.fixture
def host(callosum, tmp_path):
    """A host with its own templates, static files, error pages, hooks, session and a blueprint called viewer."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "viewer.html").write_text("host's viewer {{ motto }}")
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "styles.css").write_text("host's styles")
    app = flask.Flask("host", root_path=str(tmp_path))
    app.secret_key = "of the host"
    app.config["MAX_CONTENT_LENGTH"] = 64
    app.context_processor(lambda: {"motto": "of the host"})
    app.register_error_handler(404, lambda error: ("host's 404", 404))
    app.register_error_handler(405, lambda error: ("host's 405", 405))
    app.register_error_handler(Exception, lambda error: ("host's 500", 500))
    app.add_url_rule("/viewer", "viewer", lambda: flask.render_template("viewer.html"))
    app.add_url_rule("/search", "search", lambda: "host's search")
    app.add_url_rule("/callosum/of-the-host", "inside", lambda: "host's page below our prefix")
    viewer = flask.Blueprint("viewer", "host")
    viewer.add_url_rule("/", "page", lambda: "host's blueprint")
    app.register_blueprint(viewer, url_prefix="/other")
    app.register_blueprint(create_blueprint(callosum()), url_prefix="/callosum")
    return app


def test_the_hosts_pages_are_its_own(host):
    client = host.test_client()
    assert client.get("/viewer").text == "host's viewer of the host"
    assert client.get("/search").text == "host's search"
    with client.get("/static/styles.css") as static:
        assert static.text == "host's styles"
    assert client.get("/other/").text == "host's blueprint"
    assert client.get("/callosum/of-the-host").text == "host's page below our prefix"
    assert client.get("/nope").text == "host's 404"
    assert client.post("/search").text == "host's 405"


def test_our_page_and_our_errors_are_ours(host):
    client = host.test_client()
    assert "host's" not in client.get("/callosum/viewer").text
    problem(client.get("/callosum/nope"), 404)
    problem(client.put("/callosum/search"), 405)
    problem(client.post("/callosum/search", json={"query": ""}), 422)
    problem(client.post("/callosum/search", data=b"{", content_type="application/json"), 400)


def test_a_small_body_limit_of_the_hosts_is_not_ours_and_ours_is_not_the_hosts(host):
    host.add_url_rule("/upload", "upload", lambda: str(len(flask.request.get_data())), methods=["POST"])
    client = host.test_client()
    query = "x" * 1000
    assert client.post("/callosum/search", json={"query": query}).json["query"] == query
    assert client.post("/upload", data=b"x" * 1000).text == "host's 500"
    problem(client.post("/callosum/search", json={"query": "x" * 1100000}), 413)


def test_nothing_of_the_application_is_changed_but_rules_and_views(callosum):
    app, bare = flask.Flask("host"), flask.Flask("host")
    app.register_blueprint(create_blueprint(callosum()), url_prefix="/callosum")
    for hooks in ("before_request_funcs", "after_request_funcs", "teardown_request_funcs", "error_handler_spec",
                  "template_context_processors", "url_value_preprocessors", "url_default_functions"):  # fmt: skip
        assert {key: value for key, value in getattr(app, hooks).items() if key != "callosum" and value} == {
            key: value for key, value in getattr(bare, hooks).items() if value
        }, hooks
    for owned in ("extensions", "config", "teardown_appcontext_funcs", "shell_context_processors"):
        assert getattr(app, owned) == getattr(bare, owned), owned
    assert app.jinja_env.globals.keys() == bare.jinja_env.globals.keys()
    assert type(app.json) is type(bare.json)
    logger = logging.getLogger("seren_corpus_callosum")
    assert (logger.handlers, logger.level, logger.propagate) == ([], logging.NOTSET, True)


def test_hooks_g_and_the_session_of_the_host_are_around_our_routes(callosum):
    app = app_with(create_blueprint(callosum()))
    seen = []

    @app.before_request
    def before():
        flask.g.user = "nora"
        flask.request.get_json(silent=True)  # a host that reads the body first
        flask.session["visits"] = flask.session.get("visits", 0) + 1

    @app.after_request
    def after(response):
        seen.append((flask.g.user, flask.request.endpoint, response.status_code))
        return response

    client = app.test_client()
    assert contents(client, "/callosum") == ["larch"]
    assert client.get("/callosum/nope").status_code == 404
    assert seen == [("nora", "callosum.search", 200), ("nora", "callosum.rest", 404)]
    with client.session_transaction() as session:
        assert dict(session) == {"visits": 2}


def test_without_a_host_that_uses_it_no_cookie_is_set(callosum):
    answer = app_with(create_blueprint(callosum())).test_client().post("/callosum/search", json={"query": "x"})
    assert "Set-Cookie" not in answer.headers


def test_a_log_filter_that_reads_the_request_meets_no_thread_without_one(callosum, good_store, caplog, monkeypatch):
    one = callosum()
    sick = good_store("seren_loci")
    sick.status = 500
    one.add_store({"name": "sick", "type": "seren_loci", "url": sick.url})
    app = app_with(create_blueprint(one))
    seen = []

    class WithRequest(logging.Filter):
        def filter(self, record):
            seen.append((flask.request.headers["X-Number"], flask.g.number, threading.current_thread().name))
            return True

    @app.before_request
    def number():
        flask.g.number = flask.request.headers["X-Number"]

    def search(turn):
        client = app.test_client()
        return client.post("/callosum/search", json={"query": str(turn)}, headers={"X-Number": str(turn)})

    logger = logging.getLogger("seren_corpus_callosum")
    monkeypatch.setattr(caplog.handler, "filters", [WithRequest()])  # every test has the same handler
    caplog.set_level(logging.DEBUG, logger.name)
    with ThreadPoolExecutor(20, thread_name_prefix="host") as pool:
        answers = list(pool.map(search, range(20)))
    assert [answer.status_code for answer in answers] == [200] * 20
    assert [answer.json["query"] for answer in answers] == [str(turn) for turn in range(20)]
    assert {own for own, _, _ in seen} == {str(turn) for turn in range(20)}
    assert [row for row in seen if row[0] != row[1] or not row[2].startswith("host")] == []
    for fault in ("outside of request context", "different Context", "wrong app context"):
        assert fault not in caplog.text


def test_such_a_filter_does_not_keep_a_suspended_store_out_for_ever(callosum, good_store, caplog, monkeypatch):
    monkeypatch.setattr(health, "FIRST_PAUSE_S", 0.05)
    one, sick = callosum(), good_store("seren_loci")
    one.add_store({"name": "sick", "type": "seren_loci", "url": sick.url, "timeout_s": 0.2})
    client = app_with(create_blueprint(one)).test_client()

    class WithRequest(logging.Filter):
        def filter(self, record):
            return flask.request.path != ""

    def sick_is_asked():
        return "sick" in client.post("/callosum/search", json={"query": "x"}).json["stores_searched"]

    with caplog.filtering(WithRequest()):
        sick.hold = threading.Event()
        for _ in range(3):
            assert not sick_is_asked()
        asked_before = len(sick.searches)
        sick.status = 500  # what the trial meets: any end but a timeout ends the suspension
        sick.hold.set()
        deadline = time.monotonic() + 5
        while len(sick.searches) == asked_before:
            assert not sick_is_asked()
            assert time.monotonic() < deadline
        sick.status = 200
        while not sick_is_asked():
            assert time.monotonic() < deadline


def test_a_search_of_the_hosts_own_needs_no_request(callosum):
    assert [ranked.hit.content for ranked in callosum("pine").search("x").hits] == ["pine"]


FORGED = {
    "X-Forwarded-Prefix": '"><script>',
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Proto": "javascript",
    "Forwarded": 'for=";";host=evil.example',
    "X-Script-Name": "//evil.example",
}


def test_forged_proxy_headers_reach_neither_the_page_nor_a_location(callosum):
    client = app_with(create_blueprint(callosum())).test_client()
    plain, forged = client.get("/callosum/viewer"), client.get("/callosum/viewer", headers=FORGED)
    assert forged.status_code == 200
    assert "evil.example" not in forged.text
    assert without_nonces(forged.text) == without_nonces(plain.text)
    for path in ("/callosum", "/callosum/mcp/", "/callosum/stores/", "/callosum//search"):
        answer = client.get(path, headers=FORGED)
        assert answer.status_code in (200, 404, 405)
        assert "Location" not in answer.headers
        assert "evil.example" not in answer.text


def without_nonces(page):
    return re.sub(r'nonce="[^"]*"', "", page)


@pytest.mark.parametrize("path", ["/outer/memory/mcp", "/outer/memory/mcp/"])
def test_the_search_tool_is_below_the_prefix_too(path, callosum):
    require(importlib.util.find_spec("mcp"), "mcp")
    outer = flask.Blueprint("outer", "host", url_prefix="/outer")
    outer.register_blueprint(create_blueprint(callosum(server="{bearer_token: right}")), url_prefix="/memory")
    app = flask.Flask("host")
    app.register_blueprint(outer)
    call = {"name": "search", "arguments": {"query": "x"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    client = app.test_client()
    problem(client.post(path, json=message), 401)
    answer = client.post(path, json=message, headers=BEARER)
    assert answer.status_code == 200, answer.text
    assert answer.json["result"]["structuredContent"]["hits"][0]["content"] == "larch"


# Whom it lets in


@pytest.mark.parametrize("server", ["{}", "{allow_open_lan: true}"])
def test_with_neither_token_nor_authorize_it_is_read_only(server, callosum):
    client = app_with(create_blueprint(callosum(server=server))).test_client()
    assert contents(client, "/callosum") == ["larch"]
    assert client.get("/callosum/stores").status_code == 200
    for answer in (
        client.post("/callosum/stores", json=NEW),
        client.patch("/callosum/stores/facts", json={"weight": 2}),
        client.delete("/callosum/stores/facts"),
    ):
        assert "authorize" in problem(answer, 403)["detail"]


def test_it_has_no_host_rule_of_its_own(callosum):
    client = app_with(create_blueprint(callosum())).test_client()
    assert contents(client, "/callosum", headers={"Host": "portal.example"}) == ["larch"]


def test_with_a_token_a_bearer_may_change_and_nobody_else_may_read(callosum):
    client = app_with(create_blueprint(callosum(server="{bearer_token: right}"))).test_client()
    problem(client.get("/callosum/stores"), 401)
    assert client.post("/callosum/stores", json=NEW, headers=BEARER).status_code == 201
    assert client.get("/callosum/viewer").status_code == 200


ROUTES = [
    ("GET", "/", "read"),
    ("GET", "", "read"),
    ("GET", "/viewer", "read"),
    ("POST", "/search", "read"),
    ("GET", "/stores", "read"),
    ("GET", "/stores/facts", "read"),
    ("POST", "/stores", "change"),
    ("PATCH", "/stores/facts", "change"),
    ("DELETE", "/stores/facts", "change"),
    ("POST", "/mcp", "read"),
    ("GET", "/mcp", "read"),
    ("GET", "/nope", "read"),
    ("PUT", "/search", "read"),
    ("OPTIONS", "/stores", "read"),
    ("HEAD", "/viewer", "read"),
    ("GET", "/.well-known/oauth-protected-resource", "read"),
]


@pytest.mark.parametrize(("method", "path", "action"), ROUTES)
@pytest.mark.parametrize("server", ["{}", "{bearer_token: right}"])
def test_authorize_is_asked_on_every_route_but_health(method, path, action, server, callosum):
    asked = []
    blueprint = create_blueprint(callosum(server=server), authorize=lambda what: asked.append(what))
    client = app_with(blueprint).test_client()
    answer = client.open(f"/callosum{path}", method=method)
    assert (asked, answer.status_code) == ([action], 403)


def test_health_is_not_asked_about(callosum):
    blueprint = create_blueprint(callosum(), authorize=lambda what: pytest.fail("asked"))
    assert app_with(blueprint).test_client().get("/callosum/health").json["ok"] is True


@pytest.mark.parametrize(("verdict", "status"), [(True, 200), (False, 403), (None, 403), (0, 403), (1, 200)])
def test_true_lets_in_and_false_is_403(verdict, status, callosum):
    blueprint = create_blueprint(callosum(), authorize=lambda what: verdict)
    assert app_with(blueprint).test_client().get("/callosum/stores").status_code == status


def anything_but_true():
    return [
        (lambda: flask.redirect("/login"), 302),
        (lambda: werkzeug.utils.redirect("/login"), 302),
        (lambda: werkzeug.wrappers.Response("no", 401), 401),
        (lambda: flask.Response("teapot", 418), 418),
        (lambda: ("no", 401), 401),
        (lambda: {"error": "no"}, 200),  # the host's own JSON, not ours
        (lambda: flask.abort(401), 401),
        (lambda: flask.abort(flask.redirect("/login")), 302),
        (lambda: object(), 500),
        (lambda: 403, 500),
        (lambda: 401, 500),
        (lambda: 2, 500),
        (lambda: 1 / 0, 500),
    ]


@pytest.mark.parametrize(("answer", "status"), anything_but_true())
def test_any_other_answer_goes_to_the_caller_and_lets_nobody_in(answer, status, callosum):
    one = callosum()
    blueprint = create_blueprint(one, authorize=lambda what: answer())
    client = app_with(blueprint).test_client()
    given = client.post("/callosum/stores", json=NEW)
    assert given.status_code == status
    assert "facts" not in client.get("/callosum/stores").text
    assert [row.entry.name for row in one.roster()] == ["facts"]


def test_what_the_host_aborts_with_is_shown_as_the_host_shows_it(callosum):
    app = app_with(create_blueprint(callosum(), authorize=lambda what: flask.abort(401)))
    app.register_error_handler(401, lambda error: ("the host's sign-in page", 401))
    assert app.test_client().get("/callosum/viewer").text == "the host's sign-in page"


def test_a_right_bearer_passes_without_authorize_being_asked(callosum):
    asked = []
    one = callosum(server="{bearer_token: right}")
    client = app_with(create_blueprint(one, authorize=lambda what: asked.append(what))).test_client()
    assert contents(client, "/callosum", headers=BEARER) == ["larch"]
    assert client.post("/callosum/stores", json=NEW, headers=BEARER).status_code == 201
    assert asked == []
    problem(client.get("/callosum/stores", headers={"Authorization": "Bearer wrong"}), 403)
    assert asked == ["read"]


def test_what_the_host_allows_needs_no_token(callosum):
    one = callosum(server="{bearer_token: right}")
    client = app_with(create_blueprint(one, authorize=lambda what: True)).test_client()
    assert client.post("/callosum/stores", json=NEW).status_code == 201


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}])
def test_a_foreign_page_changes_nothing_with_the_hosts_session(headers, callosum):
    client = app_with(create_blueprint(callosum(), authorize=lambda what: True)).test_client()
    problem(client.post("/callosum/stores", json=NEW, headers=headers), 403)


def test_authorize_reads_the_hosts_session(callosum):
    app = app_with(create_blueprint(callosum(), authorize=lambda what: flask.session.get("user") == "nora"))
    app.add_url_rule("/login", "login", lambda: flask.session.update(user="nora") or "in")
    client = app.test_client()
    problem(client.get("/callosum/viewer"), 403)
    client.get("/login")
    assert client.get("/callosum/viewer").status_code == 200


# The example


@pytest.fixture
def portal(callosum):
    one = callosum(server="{bearer_token: of-a-model}")
    return create_portal(one, {"reader": "r-secret", "editor": "e-secret"}).test_client()


def test_the_portal_sends_strangers_to_its_login_and_tells_programs_403(portal):
    page = portal.get("/memory/viewer", headers={"Accept": "text/html"})
    assert (page.status_code, page.headers["Location"]) == (302, "/")
    problem(portal.post("/memory/search", json={"query": "x"}), 403)
    assert portal.get("/memory/health").status_code == 200


def test_a_reader_of_the_portal_searches_and_changes_nothing(portal):
    portal.post("/sign-in", data={"password": "r-secret"})
    assert 'href="/memory/viewer"' in portal.get("/").text
    assert contents(portal, "/memory") == ["larch"]
    problem(portal.post("/memory/stores", json=NEW), 403)


def test_an_editor_of_the_portal_adds_and_removes_stores_until_signed_out(portal):
    portal.post("/sign-in", data={"password": "e-secret"})
    assert portal.post("/memory/stores", json=NEW).status_code == 201
    assert portal.delete("/memory/stores/new").json == {"removed": "new"}
    portal.post("/sign-out")
    problem(portal.post("/memory/stores", json=NEW), 403)


def test_a_wrong_password_signs_nobody_in(portal):
    portal.post("/sign-in", data={"password": "wrong"})
    problem(portal.get("/memory/stores"), 403)


def test_a_model_passes_the_portal_with_the_bearer(portal):
    assert contents(portal, "/memory", headers={"Authorization": "Bearer of-a-model"}) == ["larch"]


def test_the_portals_own_404_is_its_own(portal):
    assert portal.get("/nope").text == "<h1>The portal has no such page</h1>"
    problem(portal.get("/memory/nope", headers={"Authorization": "Bearer of-a-model"}), 404)
