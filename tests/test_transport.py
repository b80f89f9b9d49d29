"""What goes out to a store and how its connections are kept, retried, proxied and trusted."""

import base64
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
import urllib3

from seren_corpus_callosum import connections
from seren_corpus_callosum.connections import Call
from seren_corpus_callosum.errors import StoreError
from seren_corpus_callosum.fan import Ask, Fan
from seren_corpus_callosum.hits import Failure, StoreReply
from seren_corpus_callosum.stores import SerenLoci
from seren_corpus_callosum.tokens import Token
from seren_corpus_callosum.transport import Transport, Trust, decode
from tests.support import scripts
from tests.support.goodstore import GoodStore
from tests.support.net import free_port
from tests.support.outward import client, search, sockets_to, soon, store_at
from tests.support.proxy import proxy
from tests.support.rawstore import Connection, RawStore

RawStores = Callable[..., RawStore]
GoodStores = Callable[..., GoodStore]
HIT = {"hits": [{"id": "1", "key": "keys", "value": "on the hook"}]}


def ids(reply: StoreReply) -> list[str]:
    assert reply.failure is None, reply.failure
    return [hit.id for hit in reply.hits]


def once(url: str, *, trust: Trust | None = None, timeout_s: float = 5.0, **fields: Any) -> StoreReply:
    with client(trust=trust) as one:
        return search([(store_at(url, **fields), one)], timeout_s=timeout_s).only


def failed(url: str, **fields: Any) -> Failure:
    failure = once(url, **fields).failure
    assert failure
    return failure


# What is sent


def test_a_search_is_sent_as_the_protocol_says(raw_store: RawStores) -> None:
    store = raw_store(scripts.answer_json(HIT))
    assert ids(once(store.url, token=Token("s3cret", "inline"))) == ["1"]
    (request,) = store.requests
    assert (request.method, request.path) == ("POST", "/search")
    assert request.headers == {
        "host": f"127.0.0.1:{store.port}",
        "user-agent": "seren-corpus-callosum",
        "accept": "application/json",
        "accept-encoding": "gzip, deflate",
        "content-type": "application/json",
        "content-length": str(len(request.body)),
        "authorization": "Bearer s3cret",
        "via": "1.1 callosum-test",
    }
    assert request.json()["query"] == "where are the keys?"


@pytest.mark.parametrize(("token", "sent"), [("tök", "Bearer tök"), ("a€b", "Bearer a€b"), ("a=b==", "Bearer a=b==")])
def test_a_token_goes_out_as_its_utf8_bytes(raw_store: RawStores, token: str, sent: str) -> None:
    store = raw_store(scripts.answer_json(HIT))
    assert ids(once(store.url, token=Token(token, "inline"))) == ["1"]
    assert store.requests[0].headers["authorization"].encode("latin-1").decode() == sent


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, None),
        ({"token": Token("t", "inline")}, "Bearer t"),
        ({"credentials": ("user", "pässword")}, "Basic dXNlcjpww6Rzc3dvcmQ="),
        ({"token": Token("t", "inline"), "credentials": ("user", "password")}, "Bearer t"),
    ],
)
def test_a_netrc_never_replaces_or_adds_a_credential(
    raw_store: RawStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], sent: str | None
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login evil password evil\ndefault login evil password evil\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    store = raw_store(scripts.answer_json(HIT))
    assert ids(once(store.url, **fields)) == ["1"]
    assert store.requests[0].headers.get("authorization") == sent


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_proxy_variables_do_not_hijack_a_store(
    raw_store: RawStores, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    store = raw_store(scripts.answer_json(HIT))
    assert ids(once(f"http://{host}:{store.port}")) == ["1"]


def test_no_cookie_is_sent_back(raw_store: RawStores) -> None:
    body = json.dumps(HIT).encode()
    store = raw_store(scripts.answer_bytes(body, headers={"Set-Cookie": "session=1; Path=/"}))
    with client() as one:
        for _ in range(2):
            search([(store_at(store.url), one)])
    assert [request.headers.get("cookie") for request in store.requests] == [None, None]


def test_a_long_query_arrives_unchanged(raw_store: RawStores) -> None:
    store = raw_store(scripts.answer_json(HIT))
    query = "é🙂\n\"'\\" * 2340
    with client() as one:
        search([(store_at(store.url), one)], query=query)
    assert store.requests[0].json()["query"] == query


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_no_redirect_is_followed(raw_store: RawStores, status: int) -> None:
    other = raw_store(scripts.answer_json(HIT))
    for target in (other.url + "/search", "/search", "http://169.254.169.254/latest"):
        store = raw_store(scripts.redirect_to(target, status))
        failure = failed(store.url, token=Token("t", "inline"))
        assert failure.kind == "redirect"
        assert failure.reason == f"HTTP {status}: a redirect is not followed; set url to where it leads"
        assert len(store.requests) == 1
    assert other.connections == 0


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; charset=ISO-8859-1",
        "application/json; charset=bogus",
        "text/plain",
        "text/html; charset=latin-1",
        None,
    ],
)
def test_text_is_utf8_whatever_the_header_says(raw_store: RawStores, content_type: str | None) -> None:
    body = '\ufeff{"hits": [{"id": "1", "value": "é🙂"}]}'.encode()
    store = raw_store(scripts.answer_bytes(body, headers={"Content-Type": content_type} if content_type else {}))
    assert [hit.content for hit in once(store.url).hits] == ["é🙂"]


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": NaN, "b": Infinity, "c": -Infinity, "d": 1e999, "e": -1e999}', dict.fromkeys("abcde")),
        (b'{"a": 9007199254740993, "b": 215250709085334181}', {"a": 9007199254740993, "b": 215250709085334181}),
        (b'["\\ud83d\\ude00", "\\ud83d"]', ["😀", "\ufffd"]),
        (b"1.0", 1.0),
    ],
)
def test_numbers_that_no_json_has_are_null_and_whole_numbers_keep_every_digit(body: bytes, value: Any) -> None:
    assert decode(body) == value


# Connections


def test_twenty_searches_share_one_connection(raw_store: RawStores) -> None:
    store = raw_store(scripts.answer_json(HIT))
    with client() as one:
        for _ in range(20):
            assert ids(search([(store_at(store.url), one)]).only) == ["1"]
    assert (store.connections, len(store.requests)) == (1, 20)


def test_chunked_and_compressed_answers_keep_the_connection_too(raw_store: RawStores) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n" + b'{"hits": []}' + b"\r\n0\r\n\r\n"
    store = raw_store(scripts.each_request(lambda conn, request: chunked))
    with client() as one:
        for _ in range(5):
            assert ids(search([(store_at(store.url), one)]).only) == []
    assert store.connections == 1


@pytest.mark.parametrize("status", [100, 102, 103])
def test_what_a_store_says_before_its_answer_is_passed_over(raw_store: RawStores, status: int) -> None:
    interim = scripts.head(status, {"Link": "</style.css>"}) * 2
    store = raw_store(scripts.each_request(lambda conn, request: interim + scripts.json_answer(HIT)))
    with client() as one:
        for _ in range(2):
            assert ids(search([(store_at(store.url), one)]).only) == ["1"]
    assert store.connections == 1


def test_a_closed_client_leaves_no_socket(raw_store: RawStores) -> None:
    store = raw_store(scripts.answer_json(HIT))
    with client() as one:
        search([(store_at(store.url), one)])
        assert sockets_to(store.port) == 1
    assert sockets_to(store.port) == 0


def test_an_idle_connection_that_the_store_closed_costs_nothing_in_fifty_rounds(raw_store: RawStores) -> None:
    store = raw_store(scripts.close_after_answer(HIT))
    with client() as one:
        for round in range(50):
            assert ids(search([(store_at(store.url), one)]).only) == ["1"], round
            if round % 2:  # with and without time for the close to arrive
                assert store.wait_for(lambda store: store.open_connections == 0)
    assert len(store.requests) == 50


@pytest.mark.parametrize("reset", [False, True])
def test_a_close_just_when_the_second_request_arrives_is_sent_again_once(raw_store: RawStores, reset: bool) -> None:
    store = raw_store(scripts.close_on_second_request(HIT, reset=reset))
    with client() as one:
        for round in range(10):
            assert ids(search([(store_at(store.url), one)]).only) == ["1"], round
    # Every search but the first met a dying connection: its request was seen twice, never more.
    assert len(store.requests) == 19
    assert store.connections == 10


def dies_at_once(conn: Connection) -> None:
    """Good for one answer a connection; the connections after the first give none."""
    conn.read_request()
    if conn.number == 1:
        conn.send(scripts.json_answer(HIT))
        conn.read_request()


def test_the_second_try_is_the_last(raw_store: RawStores) -> None:
    store = raw_store(dies_at_once)
    with client() as one:
        assert ids(search([(store_at(store.url), one)]).only) == ["1"]
        failure = search([(store_at(store.url), one)]).only.failure
        assert failure and failure.kind == "unreachable"
        assert failure.reason == "it closed the connection without an answer"
        assert len(store.requests) == 3
        # The connection object has sent before; its new socket has not.
        failure = search([(store_at(store.url), one)]).only.failure
        assert failure and failure.kind == "unreachable"
        assert len(store.requests) == 4, "sent again though the connection was fresh"


def test_a_fresh_connection_that_dies_is_not_tried_again_even_where_an_idle_one_was_dropped(
    raw_store: RawStores,
) -> None:
    def script(conn: Connection) -> None:
        conn.read_request()
        if conn.number == 1:
            conn.send(scripts.json_answer(HIT))

    store = raw_store(script)
    with client() as one:
        assert ids(search([(store_at(store.url), one)]).only) == ["1"]
        assert store.wait_for(lambda store: store.open_connections == 0)
        assert search([(store_at(store.url), one)]).only.failure
    assert len(store.requests) == 2


@pytest.mark.parametrize("first_byte", [b"H", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"])
def test_nothing_is_sent_again_after_a_byte_of_the_answer(raw_store: RawStores, first_byte: bytes) -> None:
    def script(conn: Connection) -> None:
        conn.read_request()
        conn.send(scripts.json_answer(HIT))
        conn.read_request()
        conn.send(first_byte)

    store = raw_store(script)
    with client() as one:
        assert ids(search([(store_at(store.url), one)]).only) == ["1"]
        failure = search([(store_at(store.url), one)]).only.failure
    assert failure and failure.kind == "bad_reply"
    assert len(store.requests) == 2


def test_a_call_has_its_own_time_on_a_connection_that_a_hurried_one_left(raw_store: RawStores) -> None:
    """A socket keeps the time of the call before: sending a large query must not be held to that."""

    def script(conn: Connection) -> None:
        conn.send(scripts.json_answer(HIT)) if conn.read_request() else None
        conn.pause(0.4)  # reads nothing meanwhile
        conn.read_request()
        conn.send(scripts.json_answer(HIT))

    store = raw_store(script)
    with client() as one:
        assert ids(search([(store_at(store.url), one)], timeout_s=0.2).only) == ["1"]
        assert ids(search([(store_at(store.url), one)], timeout_s=10.0, query="x" * 8_000_000).only) == ["1"]
    assert store.connections == 1


def test_an_answer_right_at_the_deadline_never_cuts_the_next_call_off(raw_store: RawStores) -> None:
    """The abort of one call races with the return of its connection to the pool, hundreds of times."""
    number = 0

    def answer(conn: Connection, request: Any) -> bytes:
        nonlocal number
        number += 1
        if request.json()["query"] == "race":
            conn.pause(0.02 + (number % 20 - 12) * 0.0004)
        return scripts.json_answer({"hits": [{"id": request.json()["query"], "value": "x"}]})

    store = raw_store(scripts.each_request(answer))
    late = 0
    with client(threads=2) as one:
        for _ in range(150):
            reply = search([(store_at(store.url), one)], timeout_s=0.02, query="race").only
            assert reply.failure is None or reply.failure.kind == "timeout", reply.failure
            late += reply.failure is not None
            assert ids(search([(store_at(store.url), one)], timeout_s=5.0, query="next").only) == ["next"]
    assert 0 < late < 150, "it never raced"
    assert soon(lambda: sockets_to(store.port) == 0)


@pytest.mark.parametrize(("moment", "opened"), [("before", 2), ("after", 1)])
def test_an_abort_while_the_connection_goes_back_to_the_pool_never_meets_the_next_call(
    raw_store: RawStores, monkeypatch: pytest.MonkeyPatch, moment: str, opened: int
) -> None:
    """Before: the connection is closed and not kept. After: it is somebody else's and not touched."""
    put, pooled = urllib3.HTTPConnectionPool._put_conn, connections.Pool._put_conn

    def then_aborted(pool: Any, conn: Any) -> None:
        put(pool, conn)
        connections.doing.call.abort()

    def after_abort(pool: Any, conn: Any) -> None:
        connections.doing.call.abort()
        pooled(pool, conn)

    store = raw_store(scripts.answer_json(HIT))
    transport = Transport(store_at(store.url), connections=1, trust=Trust())
    with monkeypatch.context() as patch:
        if moment == "after":
            patch.setattr(urllib3.HTTPConnectionPool, "_put_conn", then_aborted)
        else:
            patch.setattr(connections.Pool, "_put_conn", after_abort)
        with pytest.raises(StoreError, match="no answer within"):
            transport.search(Call(5.0), {}, ())
    assert soon(lambda: sockets_to(store.port) == (moment == "after"))
    transport.search(Call(5.0), {}, ())
    assert store.connections == opened
    transport.close()


def test_an_aborted_answer_is_never_seen_by_another_search(raw_store: RawStores) -> None:
    late = threading.Event()

    def answer(conn: Connection, request: Any) -> bytes:
        query = request.json()["query"]
        if query == "late":
            late.wait(5)
        return scripts.json_answer({"hits": [{"id": query, "value": "x"}]})

    store = raw_store(scripts.each_request(answer))
    with client(threads=1) as one:
        failure = search([(store_at(store.url), one)], timeout_s=0.1, query="late").only.failure
        assert failure and failure.kind == "timeout"
        late.set()
        for number in range(20):
            assert ids(search([(store_at(store.url), one)], query=f"q{number}").only) == [f"q{number}"]


def test_forty_parallel_searches_over_twelve_stores_flood_no_log_and_leave_few_sockets(
    good_store: GoodStores, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    stores = [good_store("seren_loci", [{"id": "1"}]) for _ in range(12)]
    before = threading.active_count()
    fan = Fan()
    clients = [client(threads=4) for _ in stores]
    members = [(store_at(s.url, name=f"s{i}"), clients[i].__enter__()) for i, s in enumerate(stores)]
    failures: list[Failure] = []

    def searcher() -> None:
        for _ in range(3):
            found = search(members, fan=fan, timeout_s=20.0)
            failures.extend(reply.failure for reply in found.replies if reply.failure)

    threads = [threading.Thread(target=searcher) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert all(sockets_to(store.port) <= 4 for store in stores)
    assert threading.active_count() - before <= 12 * 4 * 2  # workers here, connections of the stores there
    for one in clients:
        one.__exit__(None, None, None)
    assert all(sockets_to(store.port) == 0 for store in stores)
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


# Addresses


def two_addresses(first: tuple[str, int], second: tuple[str, int]) -> Callable[..., Any]:
    def found(host: str, port: int, **kwargs: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in (first, second)]

    return found


def test_localhost_is_reached_where_only_ipv4_listens(raw_store: RawStores) -> None:
    assert ids(once(f"http://localhost:{raw_store(scripts.answer_json(HIT)).port}")) == ["1"]


def only_ipv4(host: str, port: int, **kwargs: Any) -> Any:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]


def test_localhost_is_reached_where_only_ipv6_listens_though_the_hosts_file_names_ipv4_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")

    def serve() -> None:
        with listener.accept()[0] as peer:
            peer.recv(65536)
            peer.sendall(scripts.json_answer(HIT))

    monkeypatch.setattr(socket, "getaddrinfo", only_ipv4)
    with listener:
        thread = threading.Thread(target=serve)
        thread.start()
        assert ids(once(f"http://LOCALHOST:{listener.getsockname()[1]}")) == ["1"]
        thread.join()


def test_where_nothing_listens_on_localhost_the_resolved_address_is_what_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", only_ipv4)
    assert failed(f"http://localhost:{free_port()}").reason == "connection refused"


@pytest.mark.parametrize("url", ["http://a..b/", "http://" + "a" * 64 + ".example/", "http://no-such-host.invalid/"])
def test_a_host_that_cannot_be_resolved_is_unreachable(url: str) -> None:
    assert failed(url).kind == "unreachable"


def test_the_second_address_has_its_share_when_the_first_swallows_packets(
    raw_store: RawStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support.net import unconnectable

    store = raw_store(scripts.answer_json(HIT))
    with unconnectable() as url:
        dead = ("127.0.0.1", int(url.rpartition(":")[2]))
        monkeypatch.setattr(connections.socket, "getaddrinfo", two_addresses(dead, ("127.0.0.1", store.port)))
        started = time.monotonic()
        assert ids(once("http://store.example", timeout_s=1.0)) == ["1"]
        assert 0.4 < time.monotonic() - started < 0.9


def test_the_whole_time_is_there_for_the_answer_of_the_first_of_two_addresses(
    raw_store: RawStores, monkeypatch: pytest.MonkeyPatch, authority: trustme.CA, tmp_path: Path
) -> None:
    """A connect has half of it; the TLS handshake after it must not."""
    context = served_by(authority, "store.example")

    def slow(conn: Connection) -> None:
        conn.pause(0.7)
        conn.start_tls(context)
        conn.read_request()
        conn.send(scripts.json_answer(HIT))

    store = raw_store(slow, scheme="https")
    here = ("127.0.0.1", store.port)
    monkeypatch.setattr(connections.socket, "getaddrinfo", two_addresses(here, here))
    assert ids(once("https://store.example", timeout_s=1.2, trust=trusting(authority, tmp_path))) == ["1"]


def test_a_refused_first_address_does_not_hide_the_second(
    raw_store: RawStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = raw_store(scripts.answer_json(HIT))
    refused = ("127.0.0.1", free_port())
    monkeypatch.setattr(connections.socket, "getaddrinfo", two_addresses(refused, ("127.0.0.1", store.port)))
    assert ids(once("http://store.example")) == ["1"]


@pytest.mark.parametrize("address", ["169.254.169.254", "100.100.100.200", "::ffff:169.254.169.254"])
def test_an_added_store_whose_name_leads_to_a_metadata_service_is_never_connected_to(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(connections.socket, "getaddrinfo", two_addresses((address, 80), (address, 80)))
    failure = failed("http://store.example", managed=True)
    assert (failure.kind, failure.reason) == (
        "unreachable",
        "its host is a link-local or metadata address, refused to added stores",
    )


def test_a_refused_connection_says_so() -> None:
    failure = failed(f"http://127.0.0.1:{free_port()}")
    assert (failure.kind, failure.reason) == ("unreachable", "connection refused")


def test_a_resolver_that_hangs_keeps_no_answer_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()

    def hung(*args: Any, **kwargs: Any) -> Any:
        free.wait(10)
        raise socket.gaierror(-3, "Temporary failure")

    monkeypatch.setattr(connections.socket, "getaddrinfo", hung)
    with client() as one:
        timed = search([(store_at("http://store.example"), one)], timeout_s=0.2)
        assert timed.only.failure and timed.only.failure.kind == "timeout"
        assert timed.s < 0.6
        free.set()


# TLS


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def served_by(authority: trustme.CA, host: str = "127.0.0.1") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(host).configure_cert(context)
    return context


def trusting(authority: trustme.CA, folder: Path) -> Trust:
    bundle = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    return Trust(ca_bundle=str(bundle))


def test_a_store_behind_a_private_authority_answers_and_its_connection_is_kept(
    raw_store: RawStores, authority: trustme.CA, tmp_path: Path
) -> None:
    store = raw_store(scripts.answer_json(HIT), tls=served_by(authority))
    with client(trust=trusting(authority, tmp_path)) as one:
        for _ in range(5):
            assert ids(search([(store_at(store.url), one)]).only) == ["1"]
    assert store.connections == 1


UNKNOWN = (
    "its TLS certificate is not trusted (unable to get local issuer certificate); name its authority in tls.ca_bundle"
)


@pytest.mark.parametrize(
    ("issued_to", "trusted", "reason"),
    [
        ("127.0.0.1", "another", UNKNOWN),
        ("127.0.0.1", "default", UNKNOWN),
        (
            "other.example",
            "own",
            "its TLS certificate is not trusted (IP address mismatch, certificate is not valid for '127.0.0.1')",
        ),
    ],
)
def test_a_certificate_that_is_not_right_is_refused_and_nothing_is_sent(
    raw_store: RawStores, authority: trustme.CA, tmp_path: Path, issued_to: str, trusted: str, reason: str
) -> None:
    trust = {"own": authority, "another": trustme.CA()}.get(trusted)
    store = raw_store(scripts.answer_json(HIT), tls=served_by(authority, issued_to))
    failure = failed(store.url, trust=trusting(trust, tmp_path) if trust else Trust(), token=Token("t", "inline"))
    assert (failure.kind, failure.reason) == ("unreachable", reason)
    assert store.requests == []


def test_the_requests_variables_do_not_change_what_is_trusted(
    raw_store: RawStores, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting(authority, tmp_path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    store = raw_store(scripts.answer_json(HIT), tls=served_by(authority))
    assert failed(store.url).kind == "unreachable"


def test_the_system_store_is_trusted_when_asked_to(
    raw_store: RawStores, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting(authority, tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    store = raw_store(scripts.answer_json(HIT), tls=served_by(authority))
    assert ids(once(store.url, trust=Trust(trust_system_store=True))) == ["1"]


def test_a_bundle_counts_beside_the_system_store(raw_store: RawStores, authority: trustme.CA, tmp_path: Path) -> None:
    trusting(authority, tmp_path)
    store = raw_store(scripts.answer_json(HIT), tls=served_by(authority))
    trust = Trust(trust_system_store=True, ca_bundle=str(tmp_path / "ca.pem"))
    assert ids(once(store.url, trust=trust)) == ["1"]


def test_an_https_url_of_a_plain_store_says_that_tls_failed(raw_store: RawStores) -> None:
    store = raw_store(lambda conn: (conn.receive(), conn.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")))
    failure = failed(f"https://127.0.0.1:{store.port}")
    assert (failure.kind, failure.reason) == ("unreachable", "TLS failed")


def test_a_plain_url_of_an_https_store_is_unreachable(raw_store: RawStores, authority: trustme.CA) -> None:
    store = raw_store(scripts.answer_json(HIT), tls=served_by(authority))
    assert failed(f"http://127.0.0.1:{store.port}").kind in ("unreachable", "bad_reply")


# Proxies


def test_a_proxys_password_goes_out_in_utf_8(raw_store: RawStores) -> None:
    between = raw_store(scripts.answer_json(HIT))
    port = between.url.rpartition(":")[2]
    assert ids(once("http://store.example:1", proxy=f"http://%E2%82%AC:%C3%A9%3A@127.0.0.1:{port}")) == ["1"]
    sent = between.requests[0].headers["proxy-authorization"]
    assert base64.b64decode(sent.removeprefix("Basic ")).decode() == "€:é:"


def test_a_proxy_that_wants_a_password_is_told_from_the_store(raw_store: RawStores) -> None:
    between = raw_store(scripts.answer_json({}, 407))
    failure = failed("http://store.example:1", proxy=between.url)
    assert (failure.kind, failure.reason) == ("unreachable", "its proxy wants a user and password (HTTP 407)")


def test_a_plain_store_is_reached_through_its_proxy(raw_store: RawStores, good_store: GoodStores) -> None:
    store = good_store("seren_loci", [{"id": "1"}])
    between = raw_store(proxy())
    assert ids(once(store.url, proxy=between.url)) == ["1"]
    assert [(r.method, r.path) for r in between.requests] == [("POST", store.url + "/search")]


def test_an_https_store_is_reached_through_a_tunnel_that_sees_no_token(
    raw_store: RawStores, authority: trustme.CA, tmp_path: Path
) -> None:
    store = raw_store(scripts.answer_json(HIT), tls=served_by(authority))
    between = raw_store(proxy())
    with client(trust=trusting(authority, tmp_path)) as one:
        for _ in range(3):
            found = search([(store_at(store.url, proxy=between.url, token=Token("t0ken", "inline")), one)])
            assert ids(found.only) == ["1"]
    assert [(r.method, r.path) for r in between.requests] == [("CONNECT", f"127.0.0.1:{store.port}")]
    assert b"t0ken" not in between.requests[0].raw
    assert store.connections == 1


def test_the_proxy_gets_its_credentials_and_nobody_else_sees_them(
    raw_store: RawStores, authority: trustme.CA, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    store = raw_store(scripts.answer_json(HIT), tls=served_by(authority))
    between = raw_store(proxy("Basic bWU6aHVzaA=="))  # me:hush
    trust = trusting(authority, tmp_path)
    for password, kind in (("hush", None), ("wrong", "unreachable")):
        reply = once(store.url, proxy=f"http://me:{password}@127.0.0.1:{between.port}", trust=trust)
        assert (reply.failure and reply.failure.kind) == kind
        assert password not in repr(reply) + caplog.text
    assert reply.failure and reply.failure.reason == "its proxy refused the connection"
    assert "proxy-authorization" not in store.requests[0].headers


def test_a_dead_proxy_is_unreachable_at_once() -> None:
    failure = failed("https://store.example", proxy=f"http://127.0.0.1:{free_port()}")
    assert failure.kind == "unreachable"


@pytest.mark.parametrize(
    "script", [scripts.hang_on_accept, scripts.hang_after_request, scripts.drip_headers(0.01)], ids=lambda s: s.__name__
)
def test_a_proxy_that_hangs_misses_the_deadline_and_leaves_no_socket(
    raw_store: RawStores, script: scripts.Script
) -> None:
    between = raw_store(script)
    with client(threads=1) as one:
        store = store_at("https://127.0.0.1:9", proxy=between.url)
        timed = search([(store, one)], timeout_s=0.2)
        assert timed.only.failure and timed.only.failure.kind == "timeout"
        assert timed.s < 0.6
        assert soon(lambda: sockets_to(between.port) == 0)


# The seam


def test_a_query_that_is_no_unicode_costs_one_store_only(raw_store: RawStores) -> None:
    store = raw_store(scripts.answer_json(HIT))
    with client() as one:
        reply = Fan().ask([(store_at(store.url), one)], Ask("\ud800", 3), timeout_s=1.0, suspend_after=0)[0]
    assert reply.failure is None or reply.failure.kind == "bad_reply"


class Odd(SerenLoci):
    def body(self, *args: Any) -> Any:
        return {"query": float("nan")}


def test_the_body_of_an_adapter_that_is_no_json_is_a_failure_of_its_store(raw_store: RawStores) -> None:
    store = raw_store(scripts.answer_json(HIT))
    with client() as one:
        failure = search([(replace(store_at(store.url), adapter=Odd()), one)]).only.failure
    assert failure and failure.kind == "bad_reply"
    assert store.connections == 0
