"""Promises of the log: one line a request, failures with their kind, no query unless asked for, never a secret."""

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.goodstore import GoodStore
from tests.support.rawstore import RawStore
from tests.support.scripts import raw_answer
from tests.support.service import Service

QUERY = "where did the heron go"
SECRETS = ("tok-of-service", "tok-of-store", "pass-of-url", "tok-of-added", "pass-of-added", "tok-of-stranger")
REQUEST = re.compile(r"^[-\d]+ [\d:,]+ INFO \S+: (\S+) (\S+) (\d{3}) (\d+\.\d) ms (\S+)$")
BEARER = {"Authorization": "Bearer tok-of-service"}


def requests_in(service: Service) -> list[tuple[str, str, str, str]]:
    """Method, path, status and request id of each line of a request but the waiting for /health."""
    lines = [match.groups() for line in service.stderr.splitlines() if (match := REQUEST.match(line))]
    return [(method, path, status, id) for method, path, status, _, id in lines if path != "/health"]


@pytest.fixture
def busy(service: Callable[..., Service], good_store: Callable[..., GoodStore],
         raw_store: Callable[..., RawStore]) -> Callable[..., Service]:  # fmt: skip
    """A service that has done everything that could write a secret or a query, with the log level given."""

    def run(level: str, **env: str) -> Service:
        good, other = good_store("seren_loci"), good_store("seren_memory")
        garbled = raw_store(raw_answer(b"HTTP/1.1 200 OK\r\ntok-of-stranger\r\n\r\n{tok-of-stranger"))
        one = service(
            "server: {bearer_token: tok-of-service}\nfederation:\n  per_store_timeout_s: 2\n  stores:\n"
            f"    - {{name: good, type: seren_loci, url: '{good.url}', token: tok-of-store}}\n"
            f"    - {{name: basic, type: seren_memory, url: '{other.url.replace('://', '://u:pass-of-url@')}'}}\n"
            "    - {name: dead, type: seren_loci, url: 'http://u:pass-of-url@127.0.0.1:9', token: tok-of-store}\n"
            f"    - {{name: garbled, type: seren_loci, url: '{garbled.url}'}}\n"
            "    - {name: bad, type: seren_loci, url: 'http://u:pass-of-url@a..b/', token: [tok-of-store]}\n",
            env={"SEREN_SCC_LOG_LEVEL": level, **env},
        )
        one.request("POST", "/search", json={"query": QUERY}, headers=BEARER | {"X-Request-Id": "first-1"})
        one.request("POST", "/search", json={"query": QUERY, "n_results": 0}, headers=BEARER)
        one.request("POST", "/search", json={"query": QUERY}, headers={"Authorization": "Bearer tok-of-stranger"})
        one.request("POST", "/search", data=f'{{"query": "{QUERY}'.encode(), headers=BEARER)
        added = {"name": "added", "type": "seren_loci", "url": "http://u:pass-of-added@127.0.0.1:9",
                 "token": "tok-of-added"}  # fmt: skip
        assert one.request("POST", "/stores", json=added, headers=BEARER).status_code == 201
        one.request("POST", "/stores?check=only", json=added | {"name": "x"}, headers=BEARER)
        one.request("POST", "/stores", json=added | {"name": "a/b", "token": ["tok-of-added"]}, headers=BEARER)
        one.request("GET", "/stores", headers=BEARER)
        one.request("DELETE", "/stores/added", headers=BEARER)
        one.request("GET", "/nope", headers=BEARER)
        assert one.stop() == 0
        return one

    return run


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_no_secret_and_no_query_is_logged_at_any_level(busy: Callable[..., Service], level: str) -> None:
    one = busy(level)
    said = one.stdout + one.stderr
    assert [secret for secret in SECRETS if secret in said] == []
    assert not re.search("heron", said)


def test_each_request_is_one_line_with_method_path_status_ms_and_request_id(busy: Callable[..., Service]) -> None:
    one = busy("info")
    assert [line[:3] for line in requests_in(one)] == [
        ("POST", "/search", "200"), ("POST", "/search", "422"), ("POST", "/search", "401"), ("POST", "/search", "415"),
        ("POST", "/stores", "201"), ("POST", "/stores", "200"), ("POST", "/stores", "422"), ("GET", "/stores", "200"),
        ("DELETE", "/stores/added", "200"), ("GET", "/nope", "404"),
    ]  # fmt: skip
    ids = [line[3] for line in requests_in(one)]
    assert ids[0] == "first-1"
    assert len(set(ids)) == len(ids)


def test_each_failure_of_a_store_is_a_line_with_its_kind(busy: Callable[..., Service]) -> None:
    said = busy("warning").stderr
    assert "store dead gave no answer: unreachable: connection refused" in said
    assert re.search(r"WARNING \S+: store garbled gave no answer: bad_reply: ", said)
    assert not REQUEST.search(said)


def test_the_log_of_a_start_tells_each_store_and_why_it_is_skipped(busy: Callable[..., Service]) -> None:
    said = busy("info").stderr
    assert "store good (seren_loci): active" in said
    assert "store bad (seren_loci): skipped: url: expected a URL with a valid host and port" in said


def test_the_query_is_logged_where_that_is_wanted(busy: Callable[..., Service]) -> None:
    one = busy("info", SEREN_SCC_LOG_QUERY="yes")
    assert one.stderr.count("where did the heron go") == 1
    assert [secret for secret in SECRETS if secret in one.stdout + one.stderr] == []


def raw(service: Service, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as sock:
        sock.sendall(data)
        return b"".join(iter(lambda: sock.recv(65536), b""))


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_no_request_can_forge_a_line_or_steer_a_terminal(service: Callable[..., Service], encoding: str) -> None:
    one = service(None, env={"PYTHONIOENCODING": encoding, "SEREN_SCC_LOG_QUERY": "1"})
    close = b"Host: localhost\r\nConnection: close\r\n"
    raw(one, b"GET /%0AINFO%20forged%1B[31m%C2%9B/%E6%97%A5 HTTP/1.1\r\n" + close + b"\r\n")
    raw(one, b"B\x1b[31mREW /x HTTP/1.1\r\n" + close + b"\r\n")
    body = '{"query": "\\u001b[31m\\nforged 日本"}'.encode()
    raw(one, b"POST /search HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
        + close + b"\r\n" + body)  # fmt: skip
    assert one.stop() == 0
    said = one.stderr
    assert "Logging error" not in said
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", said.replace("\r\n", "\n"))
    assert [line for line in said.splitlines() if not re.match(r"\d{4}-\d\d-\d\d ", line)] == []
    assert ("GET", "404") in [(method, status) for method, _, status, _ in requests_in(one)]


def test_no_type_of_a_store_can_forge_a_line(service: Callable[..., Service]) -> None:
    one = service('federation: {stores: [{name: a, type: "x\\nforged", url: "http://h"}]}\n')
    assert not any(line.startswith("forged") for line in one.stderr.splitlines())
    assert "store a (x forged): skipped: " in one.stderr


def test_an_open_service_on_the_network_is_warned_about_loudly(service: Callable[..., Service]) -> None:
    one = service(None, env={"SEREN_SCC_HOST": "0.0.0.0"})
    assert "OPEN SERVICE: no token is set and 0.0.0.0 is not loopback" in one.stderr
    closed = service(None, env={"SEREN_SCC_HOST": "0.0.0.0", "SEREN_SCC_BEARER_TOKEN": "tok-of-service"})
    assert "OPEN SERVICE" not in closed.stderr
    assert "OPEN SERVICE" not in service(None).stderr


def test_warnings_of_the_configuration_are_logged(service: Callable[..., Service], tmp_path: Path) -> None:
    one = service("federation: {hops: 2}\n")
    assert "seren-corpus-callosum.yaml:1: federation.hops: unknown key (known: " in one.stderr
