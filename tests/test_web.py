"""Promises of the HTTP face: routes, methods, bodies, one shape of errors, request ids. Guard and roster: elsewhere."""

import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from seren_corpus_callosum import Callosum, create_app, create_blueprint
from seren_corpus_callosum.config import Config
from seren_corpus_callosum.errors import Invalid
from seren_corpus_callosum.settings import Server
from seren_corpus_callosum.tokens import Token
from tests.support.checks import problem, strict_json
from tests.support.goodstore import GoodStore, sample_hits

MIB = 1024 * 1024
JSON = "application/json"


@pytest.fixture
def callosum(tmp_path: Path) -> Iterator[Callosum]:
    with Callosum(Config(overlay=tmp_path / "runtime-stores.json", instance_id="t"), environ={}) as one:
        yield one


@pytest.fixture(params=["standalone", "embedded", "under a script name"])
def client(request: pytest.FixtureRequest, callosum: Callosum) -> Any:
    """A client whose paths are below the prefix of the callosum, in each way that it can be served."""
    if request.param == "embedded":
        host = Flask("host")
        host.config["MAX_CONTENT_LENGTH"] = 10
        host.register_blueprint(create_blueprint(callosum), url_prefix="/memory")
        return Below(host, "/memory")
    app = create_app(callosum)
    return Below(app, "", {"SCRIPT_NAME": "/outer"} if request.param == "under a script name" else {})


def client_of(callosum: Callosum) -> Any:
    return create_app(callosum).test_client()


class Below(FlaskClient):
    def __init__(self, app: Flask, prefix: str, environ: dict[str, str] | None = None) -> None:
        super().__init__(app, app.response_class)
        self.prefix = prefix
        self.environ_base.update(environ or {})

    def open(self, path: str, **kwargs: Any) -> Any:  # type: ignore[override]
        return super().open(self.prefix + path, **kwargs)


# Paths and methods

ROUTES = {
    "/": ("GET", "HEAD"),
    "/health": ("GET", "HEAD"),
    "/viewer": ("GET", "HEAD"),
    "/search": ("POST",),
    "/stores": ("GET", "HEAD", "POST"),
    "/stores/facts": ("DELETE", "GET", "HEAD", "PATCH"),
    "/stores/%E6%97%A5%E6%9C%AC": ("DELETE", "GET", "HEAD", "PATCH"),
}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW", "PROPFIND", "search")


@pytest.mark.parametrize("path", ROUTES)
def test_a_method_that_a_path_does_not_have_is_405_with_those_that_it_has(client: Any, path: str) -> None:
    for method in METHODS:
        if method in ROUTES[path]:
            continue
        answer = client.open(path, method=method)
        assert answer.status_code == 405, method
        assert answer.headers["Allow"] == ", ".join(ROUTES[path])
        assert answer.headers["Content-Type"] == "application/problem+json"
        if method != "HEAD":
            problem(answer, 405)


UNKNOWN = [
    "/nope", "/search/", "/stores/", "/health/", "/viewer/", "/Search", "/SEARCH", "/search;x", "/search%00",
    "/search%2F", "/%2Fsearch", "/stores/a/b", "/stores/a%2Fb", "/stores//a", "/stores/a/", "/stores/a//", "//health",
    "///", "//", "/.well-known/oauth-protected-resource", "/.well-known/openid-configuration", "/favicon.ico",
    "/static/x.css", "/configure", "/stores/snapshot", "/stores/snapshots", "/stores/snapshot/",
    "/stores/snapshots/x", "/stores/../search", "/%FF", "/日本", "/<script>alert(1)</script>", "/a%0D%0AX: y",
]  # fmt: skip


@pytest.mark.parametrize("path", UNKNOWN)
def test_an_unknown_path_is_404_in_every_method(client: Any, path: str) -> None:
    if path.startswith(("//", "/%2F")) and not client.prefix:
        path = "/x" + path  # servers take several slashes before the first name for one
    for method in ("GET", "POST", "PUT", "OPTIONS", "BREW", "PATCH", "DELETE")[: 5 if "snapshot" in path else 7]:
        document = problem(client.open(path, method=method), 404)
        assert "alert" not in document["detail"]
    assert client.open(path, method="HEAD").status_code == 404


def test_snapshots_are_never_kept(client: Any) -> None:
    for method, path in (("POST", "/stores/snapshot"), ("GET", "/stores/snapshots")):
        assert (
            problem(client.open(path, method=method), 404)["detail"]
            == "a callosum keeps no snapshots: it holds no data"
        )
    assert "snapshots" not in client.get("/stores").json


@pytest.mark.parametrize("path", ["/", "/health", "/stores", "/viewer"])
def test_head_is_get_without_the_body(client: Any, path: str) -> None:
    got, head = client.get(path), client.head(path)
    assert (head.status_code, head.data) == (200, b"")
    assert head.headers["Content-Type"] == got.headers["Content-Type"]


@pytest.mark.parametrize("path", ["", "/", "/health", "/search", "/nope"])
def test_a_websocket_is_refused_in_our_own_words(client: Any, path: str) -> None:
    if not (path or client.prefix):
        path = "/"  # servers give an empty path its slash
    answer = client.get(path, headers={"Connection": "Upgrade", "Upgrade": "websocket"})
    assert problem(answer, 400)["detail"] == "no websocket is served here: leave out the Upgrade header"


@pytest.mark.parametrize("path", ["/%73earch", "/sear%63h"])
def test_a_percent_encoded_path_is_the_path(client: Any, path: str) -> None:
    assert client.post(path, json={"query": "x"}).status_code == 200


@pytest.mark.parametrize("path", ["/search?x=1", "/search?query=y&n_results=0", "/search?%ff=%00"])
def test_a_query_string_changes_nothing(client: Any, path: str) -> None:
    assert client.post(path, json={"query": "x"}).json["query"] == "x"


def test_no_answer_is_kept_by_caches_or_lets_other_origins_read(client: Any) -> None:
    for path in ("/", "/health", "/stores", "/viewer", "/nope"):
        headers = client.get(path, headers={"Origin": "http://evil.test"}).headers
        assert headers["Cache-Control"] == "no-store"
        assert not [name for name, _ in headers if name.lower().startswith("access-control-")]
        assert "Set-Cookie" not in headers


def test_an_empty_root_is_told_by_get(client: Any) -> None:
    body = strict_json(client.get("/").data)
    assert {key: body[key] for key in ("service", "stores", "auth", "skipped")} == {
        "service": "seren-corpus-callosum", "stores": [], "auth": "open", "skipped": [],
    }  # fmt: skip
    assert client.get("/health").json["ok"] is True


# Bodies


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"", "the body is not JSON: Expecting value in line 1, column 1"),
        (b" \n", "the body is not JSON: Expecting value in line 2, column 1"),
        (b'{"query": "x"', "the body is not JSON: Expecting ',' delimiter in line 1, column 14"),
        (b'{"query": "x"} {}', "the body is not JSON: Extra data in line 1, column 16"),
        (b"{'query': 'x'}",
         "the body is not JSON: Expecting property name enclosed in double quotes in line 1, column 2"),
        (b"query=x", "the body is not JSON: Expecting value in line 1, column 1"),
        (b'{"query": "x", "n_results": NaN}', "the body is not JSON: NaN is no JSON number"),
        (b'{"query": "x", "timeout_s": Infinity}', "the body is not JSON: Infinity is no JSON number"),
        (b'{"query": "x", "other": -Infinity}', "the body is not JSON: -Infinity is no JSON number"),
        (b'{"query": "a\nb"}', "the body is not JSON: Invalid control character at in line 1, column 13"),
        ('{"query": "x"}'.encode("utf-16"), "the body is not JSON in UTF-8, or is nested too deep"),
        ('{"query": "é"}'.encode("latin-1"), "the body is not JSON in UTF-8, or is nested too deep"),
        (b'{"query": "\xed\xa0\x80"}', "the body is not JSON in UTF-8, or is nested too deep"),
        (b"[" * 100_000, "the body is not JSON in UTF-8, or is nested too deep"),
        (b'{"a":' * 100_000, "the body is not JSON in UTF-8, or is nested too deep"),
        (b"\x1f\x8b\x08\x00", "the body is not JSON in UTF-8, or is nested too deep"),
    ],
    ids=range(16),
)  # fmt: skip
def test_a_body_that_is_no_json_is_400(client: Any, body: bytes, detail: str) -> None:
    assert problem(client.post("/search", data=body, content_type=JSON), 400)["detail"] == detail


@pytest.mark.parametrize("key", ["n_results", "timeout_s"])
def test_a_number_with_more_digits_than_python_reads_is_a_fault_of_its_field(client: Any, key: str) -> None:
    huge = "9" * 5000
    refused = client.post("/search", data=f'{{"query": "x", "{key}": {huge}}}', content_type=JSON)
    assert list(problem(refused, 422)["errors"]) == [key]
    assert client.post("/search", data=f'{{"query": "x", "z": {huge}}}', content_type=JSON).status_code == 200


def test_a_body_in_another_coding_is_415(client: Any) -> None:
    sent = {"data": b'{"query": "x"}', "content_type": JSON}
    refused = client.post("/search", **sent, headers={"Content-Encoding": "gzip"})
    assert problem(refused, 415)["detail"] == "send the body as it is, without Content-Encoding"
    assert client.post("/search", **sent, headers={"Content-Encoding": "identity"}).status_code == 200


@pytest.mark.parametrize(
    ("body", "found"),
    [("[]", "a list"), ("null", "nothing"), ('"x"', "text 'x'"), ("5", "the number 5"), ("true", "true"),
     ('[{"query":"x"}]', "a list")],
)  # fmt: skip
@pytest.mark.parametrize("route", [("POST", "/search"), ("POST", "/stores"), ("PATCH", "/stores/x")], ids=str)
def test_a_body_that_is_no_object_is_422(callosum: Callosum, route: tuple[str, str], body: str, found: str) -> None:
    client = client_of(callosum)
    answer = client.open(route[1], method=route[0], data=body, content_type=JSON)
    assert problem(answer, 422)["errors"] == {"body": [f"expected a JSON object, found {found}"]}


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "APPLICATION/JSON", "application/json; charset=utf-8", "application/json;charset=latin-1",
     "application/json ; charset=UTF-8"],
)  # fmt: skip
def test_json_is_taken_with_any_charset_and_read_as_utf_8(client: Any, content_type: str) -> None:
    answer = client.post("/search", data='{"query":"é🙂"}'.encode(), content_type=content_type)
    assert answer.json["query"] == "é🙂"
    assert "é🙂".encode() in answer.data


@pytest.mark.parametrize(
    "content_type",
    [None, "", "text/plain", "text/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
     "application/problem+json", "application/jsonx", "application/json, text/plain", "json", "*/*"],
)  # fmt: skip
@pytest.mark.parametrize("route", [("POST", "/search"), ("POST", "/stores"), ("PATCH", "/stores/x")], ids=str)
def test_any_other_content_type_is_415(callosum: Callosum, route: tuple[str, str], content_type: str | None) -> None:
    client = client_of(callosum)
    answer = client.open(route[1], method=route[0], data=b'{"query":"x"}', content_type=content_type)
    problem(answer, 415)


@pytest.mark.parametrize("body", [b'\xef\xbb\xbf{"query":"x"}', b'\n\t {"query":"x"}\r\n', b'{"query":"\\u0078"}'])
def test_marks_and_space_around_json_are_nothing(client: Any, body: bytes) -> None:
    assert client.post("/search", data=body, content_type=JSON).json["query"] == "x"


@pytest.mark.parametrize(("size", "status"), [(MIB - 1, 200), (MIB, 200), (MIB + 1, 413), (2 * MIB, 413)])
def test_a_body_of_one_mebibyte_is_taken_and_one_byte_more_is_413(client: Any, size: int, status: int) -> None:
    body = b'{"query":"x","other":"' + b"y" * (size - 24) + b'"}'
    assert len(body) == size
    answer = client.post("/search", data=body, content_type=JSON)
    if status == 413:
        assert problem(answer, 413)["detail"] == "the body is over 1024 KiB"
    assert answer.status_code == status


def test_a_body_is_measured_in_every_route_that_takes_one(callosum: Callosum) -> None:
    client = client_of(callosum)
    for method, path in (("POST", "/search"), ("POST", "/stores"), ("PATCH", "/stores/x")):
        problem(client.open(path, method=method, data=b"x" * (MIB + 1), content_type=JSON), 413)


# Requests of a search


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        ({}, {"query": ["missing: expected text of 1..16384 characters that is not blank"]}),
        ({"query": None}, {"query": ["expected text of 1..16384 characters that is not blank, found nothing"]}),
        ({"query": 5}, {"query": ["expected text of 1..16384 characters that is not blank, found the number 5"]}),
        ({"query": ["x"]}, {"query": ["expected text of 1..16384 characters that is not blank, found a list"]}),
        ({"query": "x", "n_results": 0}, {"n_results": ["expected a whole number 1..200, found the number 0"]}),
        ({"query": "x", "n_results": 201}, {"n_results": ["expected a whole number 1..200, found the number 201"]}),
        ({"query": "x", "n_results": -1}, {"n_results": ["expected a whole number 1..200, found the number -1"]}),
        ({"query": "x", "n_results": 1.0}, {"n_results": ["expected a whole number 1..200, found the number 1.0"]}),
        ({"query": "x", "n_results": "5"}, {"n_results": ["expected a whole number 1..200, found text '5'"]}),
        ({"query": "x", "n_results": True}, {"n_results": ["expected a whole number 1..200, found true"]}),
        ({"query": "x", "n_results": []}, {"n_results": ["expected a whole number 1..200, found a list"]}),
        ({"query": "x", "timeout_s": 0}, {"timeout_s": ["expected a number 0.05..120, found the number 0"]}),
        ({"query": "x", "timeout_s": 121}, {"timeout_s": ["expected a number 0.05..120, found the number 121"]}),
        ({"query": "x", "timeout_s": "1"}, {"timeout_s": ["expected a number 0.05..120, found text '1'"]}),
        ({"query": "x", "timeout_s": False}, {"timeout_s": ["expected a number 0.05..120, found false"]}),
        ({"query": "", "n_results": "a", "timeout_s": {}},
         {"query": ["expected text of 1..16384 characters that is not blank, found text ''"],
          "n_results": ["expected a whole number 1..200, found text 'a'"],
          "timeout_s": ["expected a number 0.05..120, found a mapping"]}),
    ],
    ids=range(16),
)  # fmt: skip
def test_each_faulty_field_is_named_with_what_was_expected(
    callosum: Callosum, fields: dict[str, Any], errors: dict[str, list[str]]
) -> None:
    assert problem(client_of(callosum).post("/search", json=fields), 422)["errors"] == errors


def test_a_number_that_is_too_large_for_any_field_is_422(callosum: Callosum) -> None:
    answer = client_of(callosum).post(
        "/search", data=b'{"query":"x","timeout_s":1e999}', content_type=JSON
    )  # fmt: skip
    problem(answer, 422)


def test_null_is_the_default_and_unknown_fields_are_ignored(client: Any) -> None:
    body = {"query": " x ", "n_results": None, "timeout_s": None, "top_k": 5, "k": 1, "": {}, "store": ["s"]}
    answer = client.post("/search", json=body)
    assert (answer.status_code, answer.json["query"], answer.json["k"]) == (200, " x ", 60)


@pytest.mark.parametrize(
    "query", ["", " ", "\t\n", "\u00a0", "\u200b", "\u3000", "x" * 16385, "\ud800", "a\udfff"], ids=ascii
)
def test_no_store_is_asked_a_query_that_no_search_takes(
    good_store: Callable[..., GoodStore], callosum: Callosum, query: str
) -> None:
    store = good_store("seren_loci")
    callosum.add_store({"name": "s", "type": "seren_loci", "url": store.url})
    answer = client_of(callosum).post("/search", data=json.dumps({"query": query}), content_type=JSON)
    assert set(problem(answer, 422)["errors"]) == {"query"}
    assert store.searches == []


@pytest.mark.parametrize(
    "query", ["x" * 16384, "日本 🙂", "'; DROP TABLE x; --", "a\u0000b", "\x1b[31m", "<b>&amp;"], ids=ascii
)
def test_a_query_reaches_the_stores_unchanged(
    good_store: Callable[..., GoodStore], callosum: Callosum, query: str
) -> None:
    store = good_store("seren_loci")
    callosum.add_store({"name": "s", "type": "seren_loci", "url": store.url})
    answer = client_of(callosum).post("/search", json={"query": query})
    assert answer.json["query"] == query
    assert [received.json["query"] for received in store.searches] == [query]


def test_the_body_of_a_search_has_every_field(good_store: Callable[..., GoodStore], callosum: Callosum) -> None:
    store = good_store("seren_loci", sample_hits("seren_loci", 2))
    callosum.add_store({"name": "facts", "type": "seren_loci", "url": store.url, "weight": 2})
    callosum.add_store({"name": "dead", "type": "seren_loci", "url": "http://127.0.0.1:9"})
    body = strict_json(client_of(callosum).post("/search", json={"query": "x", "n_results": 1}).data)
    assert set(body) == {"query", "hits", "stores_searched", "skipped", "warnings", "k", "stores", "took_ms"}
    (hit,) = body["hits"]
    assert set(hit) == {"store", "id", "content", "score", "store_rank", "base_relevance", "native_score",
                        "raw_distance", "metadata"}  # fmt: skip
    assert (hit["score"], hit["store_rank"], hit["base_relevance"]) == (0.03278688524590164, 1, 1.0)
    assert body["stores_searched"] == ["facts"]
    assert body["skipped"] == [{"name": "dead", "kind": "unreachable", "reason": "connection refused"}]
    assert [set(row) for row in body["stores"]] == [{"name", "weight", "ms", "returned", "floored"}] * 2
    assert (body["stores"][0]["weight"], body["stores"][0]["returned"], body["stores"][0]["floored"]) == (2.0, 2, 0)


def test_all_stores_failing_is_200_without_hits(callosum: Callosum) -> None:
    for name in ("a", "b"):
        callosum.add_store({"name": name, "type": "callosum", "url": "http://127.0.0.1:9"})
    answer = client_of(callosum).post("/search", json={"query": "x"})
    assert (answer.status_code, answer.json["hits"], answer.json["stores_searched"]) == (200, [], [])
    assert [entry["name"] for entry in answer.json["skipped"]] == ["a", "b"]


# Request ids


@pytest.mark.parametrize("sent", ["a", "x" * 64, "!~#-_.:/", "6f1c-42"])
@pytest.mark.parametrize("path", ["/health", "/nope", "/search", "/stores"])
def test_the_callers_request_id_comes_back(client: Any, path: str, sent: str) -> None:
    assert client.get(path, headers={"X-Request-Id": sent}).headers["X-Request-Id"] == sent


@pytest.mark.parametrize("sent", [None, "", " ", "a b", "x" * 65, "é", "a\tb", "日本"], ids=ascii)
def test_any_other_request_id_is_replaced(callosum: Callosum, sent: str | None) -> None:
    client = client_of(callosum)
    environ = {} if sent is None else {"HTTP_X_REQUEST_ID": sent.encode().decode("latin-1")}
    first, second = (client.get("/health", environ_overrides=environ).headers["X-Request-Id"] for _ in range(2))
    assert first != second
    assert all(len(one) == 32 and one.isalnum() for one in (first, second))


# Faults of ours


class Broken(Callosum):
    def search(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(self.config.instance_id)

    def roster(self) -> Any:
        raise RuntimeError(self.config.instance_id)

    snapshot = roster


@pytest.mark.parametrize(("method", "path"), [("POST", "/search"), ("GET", "/stores"), ("GET", "/")])
def test_a_fault_of_ours_is_a_plain_500_and_whole_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str, path: str
) -> None:
    with Broken(Config(overlay=tmp_path / "o.json", instance_id="hunter2"), environ={}) as callosum:
        app = create_app(callosum)
        with caplog.at_level(logging.DEBUG):
            answer = app.test_client().open(path, method=method, json={"query": "x"} if method == "POST" else None)
    document = problem(answer, 500, secrets=["hunter2"])
    assert answer.headers["X-Request-Id"] in document["detail"]
    (record,) = (record for record in caplog.records if record.levelno == logging.ERROR)
    assert "RuntimeError" in record.getMessage()
    assert "test_web.py" in record.getMessage()
    assert "hunter2" not in caplog.text


def test_in_process_the_text_of_a_problem_names_each_field(callosum: Callosum) -> None:
    with pytest.raises(Invalid) as caught:
        callosum.search(" ", 0)
    assert str(caught.value) == (
        "query: expected text of 1..16384 characters that is not blank; n_results: expected a whole number 1..200"
    )


def test_health_tells_the_time_in_utc(callosum: Callosum) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    told = client_of(callosum).get("/health").json["ts"]
    assert told.endswith("Z") and before <= datetime.fromisoformat(told) <= datetime.now(UTC)


def test_while_shutting_down_a_search_is_503_with_a_time_to_come_back(callosum: Callosum) -> None:
    client = client_of(callosum)
    callosum.drain()
    answer = client.post("/search", json={"query": "x"})
    assert problem(answer, 503)["detail"] == "the service is shutting down; ask again in a moment"
    assert answer.headers["Retry-After"] == "1"
    assert client.get("/health").status_code == 200


def test_with_a_token_401_comes_before_anything_else_is_said(tmp_path: Path) -> None:
    config = Config(overlay=tmp_path / "o.json", instance_id="t", token=Token("hunter2", "inline"), server=Server())
    with Callosum(config, environ={}) as callosum:
        client = client_of(callosum)
        for method, path in (("GET", "/nope"), ("GET", "/search"), ("POST", "/search"), ("PUT", "/stores"),
                             ("POST", "/stores/snapshot"), ("OPTIONS", "/search"), ("BREW", "/stores/x"),
                             ("GET", "/x//y"), ("GET", "/stores//x")):  # fmt: skip
            problem(client.open(path, method=method, base_url="http://localhost", data=b"<"), 401, secrets=["hunter2"])
        for path in ("/", "/health", "/viewer"):
            assert client.get(path).status_code == 200
        problem(client.get("/.well-known/x"), 404)
        assert "skipped" not in client.get("/").json
