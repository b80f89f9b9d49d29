"""Who may do what, over real HTTP: every route by every kind of caller, on services with each kind of setting."""

import http.client
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .roster_service import Local
from .support.checks import CODE, MARKUP, strict_json

Headers = Sequence[tuple[str, str]]
TOKEN = "s3cr3t-\u00e9"
SENT = TOKEN.encode().decode("latin-1")  # its UTF-8 bytes, as http.client writes header text
JSON = ("Content-Type", "application/json")


class Route(NamedTuple):
    """One route, its kind, a body for it, and the status of a caller who may."""

    method: str
    path: str
    kind: str
    body: Any
    status: int


ROUTES = (
    Route("GET", "/", "public", None, 200),
    Route("GET", "/viewer", "public", None, 200),
    Route("GET", "/health", "health", None, 200),
    Route("GET", "/.well-known/oauth-protected-resource", "public", None, 404),
    Route("POST", "/search", "read", {"query": "x"}, 200),
    Route("GET", "/stores", "read", None, 200),
    Route("GET", "/stores/nobody", "read", None, 404),
    Route("GET", "/stores/snapshots", "read", None, 404),
    Route("GET", "/nothing", "read", None, 404),
    Route("PUT", "/stores", "read", None, 405),
    Route("POST", "/stores", "change", {"name": "new"}, 422),
    Route("POST", "/stores?check=only", "change", {"name": "new"}, 422),
    Route("PATCH", "/stores/nobody", "change", {"weight": 1}, 404),
    Route("DELETE", "/stores/nobody", "change", None, 404),
)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


def ask(service: Local, route: Route, headers: Headers, *, host: str | None = "127.0.0.1") -> Answer:
    """One request with exactly these headers, beside Host and the body's length and type."""
    connection = http.client.HTTPConnection("127.0.0.1", service.server.port, timeout=10)
    try:
        connection.putrequest(route.method, route.path, skip_host=True, skip_accept_encoding=True)
        if host is not None:
            connection.putheader("Host", host)
        body = b"" if route.body is None else json.dumps(route.body).encode()
        names = [name for name, _ in headers]
        if body:
            connection.putheader("Content-Length", str(len(body)))
            headers = [*headers, *([JSON] if "Content-Type" not in names else [])]
        for name, value in headers:
            connection.putheader(name, value.encode("latin-1"))
        connection.endheaders(body)
        response = connection.getresponse()
        text = response.read().decode()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, text)
    finally:
        connection.close()


def sound(answer: Answer) -> None:
    """What holds of every answer: no CORS header, no secret; an error is a problem document."""
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert "s3cr3t" not in answer.text + str(answer.headers)
    assert answer.headers["x-request-id"]
    if answer.status >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert strict_json(answer.text)["status"] == answer.status
        assert not MARKUP.search(answer.text) and not CODE.search(answer.text)
    if answer.status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"


def every_route(service: Local, headers: Headers, refused: dict[str, int], *, host: str | None = "127.0.0.1") -> None:
    """Each route answers as to a caller who may, unless its kind is in `refused`."""
    for route in ROUTES:
        answer = ask(service, route, headers, host=host)
        sound(answer)
        expected = refused.get(route.kind, route.status)
        assert answer.status == expected, (route, headers, host, answer.text)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Local]:
    with Local(tmp_path, "server: {allowed_hosts: [portal.example, 'mem.example:8443']}") as service:
        yield service


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Local]:
    with Local(tmp_path, f"server: {{bearer_token: '{TOKEN}'}}") as service:
        yield service


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[Local]:
    with Local(tmp_path, "server: {trusted_proxy: 127.0.0.1}") as service:
        yield service


ALL_BUT_PUBLIC = {"read": 401, "change": 401}


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Authorization", "Bearer wrong")],
        [("Authorization", SENT)],
        [("Authorization", f"Basic {SENT}")],
        [("Authorization", f"Bearer  {SENT}")],
        [("Authorization", f"Bearer\t{SENT}")],
        [("Authorization", f"Bearer {SENT}x")],
        [("Authorization", f"Bearer {SENT[:-1]}")],
        [("Authorization", f"Bearer {SENT} {SENT}")],
        [("Authorization", "Bearer s3cr3t-\u00e9")],  # latin-1, not UTF-8
        [("Authorization", "Bearer \u00ff\u00fe")],
        [("Authorization", f"Bearer {SENT}"), ("Authorization", f"Bearer {SENT}")],
        [("Authorization", f"Bearer {SENT}"), ("Authorization", "Bearer wrong")],
        [("X-Authorization", f"Bearer {SENT}")],
        [("Cookie", f"token={SENT}")],
    ],
)
def test_with_a_token_all_but_the_public_routes_are_401_without_it(guarded: Local, headers: Headers) -> None:
    every_route(guarded, headers, ALL_BUT_PUBLIC)


@pytest.mark.parametrize("host", ["127.0.0.1", "evil.example", "evil.example:7423", "evil..example", None])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_with_the_token_every_route_and_any_host_works(guarded: Local, scheme: str, host: str | None) -> None:
    if host is None:  # HTTP/1.1 without Host
        host = ""
    every_route(guarded, [("Authorization", f"{scheme} {SENT}")], {}, host=host)


def test_401_comes_before_anything_else_is_said(guarded: Local) -> None:
    headers = [("Content-Type", "text/plain"), ("Origin", "http://evil.example"), ("Sec-Fetch-Site", "cross-site")]
    every_route(guarded, headers, ALL_BUT_PUBLIC, host="evil.example")
    large = Route("POST", "/stores", "change", {"name": "x" * 1_500_000}, 413)
    assert ask(guarded, large, []).status == 401
    assert ask(guarded, large, [("Authorization", f"Bearer {SENT}")]).status == 413


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST", "127.0.0.1", "[::1]", "localhost:7423", "127.0.0.1:1", "[::1]:7423", "192.168.1.20:7423",
     "[fd12::1]", "nas", "nas:7423", "nas.local", "callosum.home.arpa", "a.internal", "portal.example",
     "portal.example:9", "PORTAL.example", "mem.example:8443"],
)  # fmt: skip
def test_an_open_service_answers_to_names_of_the_house(opened: Local, host: str) -> None:
    every_route(opened, [], {}, host=host)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:7423", "localhost.evil.example", "127.0.0.1.evil.example", "a.portal.example",
     "mem.example", "mem.example:7423", "127.0.0.1@evil.example", "a b", "", None, "2130706433", "0x7f.1",
     "127.0.0.1, evil.example", "localhost evil.example", "localhost..", ".local", "x" * 64 + ".local"],
)  # fmt: skip
def test_an_open_service_refuses_every_other_host_on_all_but_health(opened: Local, host: str | None) -> None:
    every_route(opened, [], {"public": 403, "read": 403, "change": 403}, host=host)


def test_a_forwarded_host_changes_nothing(opened: Local) -> None:
    forwarded = [("X-Forwarded-Host", "localhost"), ("Forwarded", "host=localhost")]
    every_route(opened, forwarded, {"public": 403, "read": 403, "change": 403}, host="evil.example")


@pytest.mark.parametrize(
    "header",
    [("X-Forwarded-For", "127.0.0.1"), ("X-Forwarded-For", ""), ("x-forwarded-proto", "https"),
     ("X-Forwarded-Host", "x"),
     ("X-Forwarded-Anything", "x"), ("Forwarded", "for=127.0.0.1"), ("X-Real-IP", "127.0.0.1"), ("Via", "1.1 nginx"),
     ("Via", "1.1 callosum-a, 1.1 squid")],
)  # fmt: skip
def test_on_an_open_service_whoever_came_through_a_proxy_may_read_only(opened: Local, header: tuple[str, str]) -> None:
    every_route(opened, [header], {"change": 403})
    answer = ask(opened, ROUTES[-1], [header])
    assert "server.bearer_token" in answer.text and "server.allow_open_lan" in answer.text


def test_another_callosum_is_no_proxy(opened: Local) -> None:
    every_route(opened, [("Via", "1.1 callosum-a, 1.1 callosum-b")], {})


def test_a_header_with_an_underscore_is_no_header(opened: Local) -> None:
    every_route(opened, [("X_Forwarded_For", "10.0.0.1")], {})


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ([("X-Forwarded-For", "127.0.0.1")], {}),
        ([("X-Forwarded-For", "::1")], {}),
        ([("X-Forwarded-For", "192.168.1.20")], {"change": 403}),
        ([("X-Forwarded-For", "127.0.0.1, 192.168.1.20")], {"change": 403}),
        ([("X-Forwarded-For", "192.168.1.20, 127.0.0.1")], {"change": 403}),  # a tunnel before the proxy
        ([("X-Forwarded-For", "127.0.0.1"), ("X-Forwarded-For", "10.0.0.9")], {"change": 403}),
        ([("X-Forwarded-For", "localhost")], {"change": 403}),
        ([("X-Forwarded-For", "")], {"change": 403}),
        ([], {"change": 403}),
    ],
)
def test_behind_the_trusted_proxy_the_client_is_who_it_says(
    proxied: Local, headers: Headers, refused: dict[str, int]
) -> None:
    every_route(proxied, headers, refused)


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ([], True),
        ([("Origin", "http://127.0.0.1:7423")], True),
        ([("Origin", "http://127.0.0.1:7424")], False),
        ([("Origin", "http://evil.example")], False),
        ([("Origin", "http://127.0.0.1.evil.example:7423")], False),
        ([("Origin", "null")], False),
        ([("Origin", "")], False),
        ([("Sec-Fetch-Site", "same-origin")], True),
        ([("Sec-Fetch-Site", "none")], True),
        ([("Sec-Fetch-Site", "same-site")], False),
        ([("Sec-Fetch-Site", "cross-site")], False),
        ([("Sec-Fetch-Site", "")], False),
        ([("Sec-Fetch-Site", "same-origin"), ("Origin", "http://evil.example")], True),
        ([("Sec-Fetch-Site", "cross-site"), ("Origin", "http://127.0.0.1:7423")], False),
    ],
)
def test_a_page_of_another_origin_changes_nothing(opened: Local, headers: Headers, passes: bool) -> None:
    every_route(opened, headers, {} if passes else {"change": 403}, host="127.0.0.1:7423")


@pytest.mark.parametrize("headers", [[("Origin", "http://evil.example")], [("Origin", "null")]])
def test_not_even_with_the_token(guarded: Local, headers: Headers) -> None:
    every_route(guarded, [*headers, ("Authorization", f"Bearer {SENT}")], {"change": 403})


@pytest.mark.parametrize(
    ("content_type", "passes"),
    [
        ("application/json", True),
        ("application/json; charset=utf-8", True),
        ("APPLICATION/JSON", True),
        ("text/plain", False),
        ("application/x-www-form-urlencoded", False),
        ("multipart/form-data; boundary=x", False),
        ("application/jsonp", False),
        ("text/plain; application/json", False),
        ("", False),
    ],
)
def test_a_body_is_json_or_415(opened: Local, content_type: str, passes: bool) -> None:
    for route in ROUTES:
        answer = ask(opened, route, [("Content-Type", content_type)])
        sound(answer)
        assert answer.status == (route.status if passes or route.body is None else 415), (route, answer.text)


def test_open_lan_opens_changes_and_neither_hosts_nor_origins(tmp_path: Path) -> None:
    with Local(tmp_path, "server: {allow_open_lan: true}") as service:
        every_route(service, [("X-Forwarded-For", "192.168.1.20")], {})
        every_route(service, [], {"public": 403, "read": 403, "change": 403}, host="evil.example")
        every_route(service, [("Origin", "http://evil.example")], {"change": 403})


def test_what_a_service_says_of_itself_to_anybody(opened: Local, tmp_path: Path) -> None:
    about = json.loads(ask(opened, ROUTES[0], []).text)
    assert set(about) == {"service", "version", "stores", "auth", "mcp", "skipped"} and about["auth"] == "open"
    folder = tmp_path / "guarded"
    folder.mkdir()
    with Local(folder, "server: {bearer_token: s3cr3t}") as service:
        about = json.loads(ask(service, ROUTES[0], []).text)
    assert set(about) == {"service", "version", "stores", "auth", "mcp"} and about["auth"] == "bearer"
