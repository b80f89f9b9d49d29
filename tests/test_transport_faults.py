"""A call is ended by its deadline in whatever phase it is, and whatever goes wrong has a kind and echoes nothing."""

import builtins
import http.client
import inspect
import json
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import requests.exceptions
import trustme
import urllib3.exceptions

from seren_corpus_callosum.connections import Call, store_error
from seren_corpus_callosum.errors import KINDS, StoreError
from seren_corpus_callosum.transport import Transport, Trust, decode
from tests.support import scripts
from tests.support.net import unconnectable
from tests.support.outward import client, search, sockets_to, soon, store_at
from tests.support.rawstore import Connection, RawStore

ECHO = "sEcReT-ReplY-bYtes"


def certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


@dataclass
class Sick:
    """A store in one phase; `reached` says when a call is in it."""

    url: str
    reached: Callable[[], bool]
    body: Any = None

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


def raw(script: scripts.Script, *, asked: bool = True, scheme: str | None = None) -> Callable[[ExitStack], Sick]:
    def started(stack: ExitStack) -> Sick:
        store = stack.enter_context(RawStore(script, scheme=scheme))
        return Sick(store.url, lambda: bool(store.requests) if asked else store.connections > 0)

    return started


def full_backlog(stack: ExitStack) -> Sick:
    url = stack.enter_context(unconnectable())
    port = int(url.rpartition(":")[2])
    before = sockets_to(port)
    return Sick(url, lambda: sockets_to(port) > before)


def never_reads(stack: ExitStack) -> Sick:
    sick = raw(scripts.hang_on_accept, asked=False)(stack)
    sick.body = {"query": "x" * 8_000_000}
    return sick


PHASES: dict[str, Callable[[ExitStack], Sick]] = {
    "connecting": full_backlog,
    "TLS handshake, silent": raw(scripts.hang_on_accept, asked=False, scheme="https"),
    "TLS handshake, dripped": lambda stack: raw(
        scripts.drip_handshake(certificate(), 0.01), asked=False, scheme="https"
    )(stack),
    "sending": never_reads,
    "no answer": raw(scripts.hang_after_request),
    "header dripped": raw(scripts.drip_headers(0.01)),
    "100-continue for ever": raw(scripts.endless_100_continue(0.001)),
    "no body": raw(scripts.hang_after_headers),
    "body dripped, content-length": raw(scripts.drip_body("content-length", 0.01)),
    "body dripped, chunked": raw(scripts.drip_body("chunked", 0.01)),
    "body dripped, neither": raw(scripts.drip_body("close", 0.01)),
}
phases = pytest.mark.parametrize("phase", PHASES)


@contextmanager
def in_phase(phase: str) -> Iterator[tuple[Sick, Transport]]:
    with ExitStack() as stack:
        sick = PHASES[phase](stack)
        transport = Transport(store_at(sick.url), connections=2, trust=Trust())
        stack.callback(transport.close)
        yield sick, transport


@phases
def test_an_abort_frees_the_thread_and_closes_the_socket_at_once_in_every_phase(phase: str) -> None:
    with in_phase(phase) as (sick, transport):
        sockets = sockets_to(sick.port)
        call = Call(30.0)
        ended: list[BaseException] = []

        def work() -> None:
            try:
                transport.search(call, sick.body or {"query": "x"}, ())
            except StoreError as exc:
                ended.append(exc)

        worker = threading.Thread(target=work)
        worker.start()
        assert soon(sick.reached, 5.0)
        time.sleep(0.03)  # well into the phase
        started = time.monotonic()
        call.abort()
        worker.join(5.0)
        took_s = time.monotonic() - started
        assert not worker.is_alive()
        assert took_s < 0.25, took_s
        assert [str(exc) for exc in ended] == ["timeout: no answer within 30.0 s"]
        assert soon(lambda: sockets_to(sick.port) == sockets)


@phases
def test_the_answer_keeps_the_deadline_whatever_phase_a_store_is_stuck_in(phase: str) -> None:
    with ExitStack() as stack:
        sick = PHASES[phase](stack)
        before = sockets_to(sick.port)
        one = stack.enter_context(client(threads=1))
        query = "x" if sick.body is None else sick.body["query"]
        for _ in range(2):  # the second finds the one thread free
            timed = search([(store_at(sick.url), one)], timeout_s=0.2, query=query)
            assert timed.only.failure
            assert (timed.only.failure.kind, timed.only.failure.reason) == ("timeout", "no answer within 0.2 s")
            assert 0.15 <= timed.s < 0.6
        assert soon(lambda: sockets_to(sick.port) == before)


def test_a_call_that_is_aborted_before_it_starts_sends_nothing(raw_store: Callable[..., RawStore]) -> None:
    store = raw_store(scripts.answer_json({"hits": []}))
    transport = Transport(store_at(store.url), connections=1, trust=Trust())
    call = Call(5.0)
    call.abort(StoreError("unreachable", "the service is stopping"))
    with pytest.raises(StoreError, match="the service is stopping"):
        transport.search(call, {}, ())
    assert store.requests == []
    transport.close()


def test_a_header_that_the_abort_cut_is_no_answer(raw_store: Callable[..., RawStore]) -> None:
    """Cut after a header without a length, an answer looks whole and empty."""
    store = raw_store(lambda conn: (conn.read_request(), conn.send(b"HTTP/1.1 200 OK\r\n\r\n"), conn.hang()))
    transport = Transport(store_at(store.url), connections=1, trust=Trust())
    call = Call(30.0)
    timer = threading.Timer(0.1, call.abort, (StoreError("unreachable", "the service is stopping"),))
    timer.start()
    with pytest.raises(StoreError, match="the service is stopping"):
        transport.search(call, {}, ())
    timer.join()
    transport.close()


# What the libraries raise


def exception_classes() -> list[type[Exception]]:
    found: dict[type[Exception], None] = {}
    for module in (requests.exceptions, urllib3.exceptions, http.client, json, ssl, socket, builtins):
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if issubclass(cls, Exception) and not issubclass(cls, Warning) and "Group" not in cls.__name__:
                found[cls] = None
    found[zlib.error] = None
    return list(found)


def made(cls: type[Exception]) -> Exception:
    """An instance without its constructor, as bare as a library may ever leave it."""
    if issubclass(cls, UnicodeError) and cls is not UnicodeError:
        args = (ECHO, 0, 1, ECHO) if cls is UnicodeTranslateError else ("utf-8", ECHO, 0, 1, ECHO)
        return cls("utf-8", ECHO.encode(), 0, 1, ECHO) if cls is UnicodeDecodeError else cls(*args)
    return cls.__new__(cls, ECHO)


def given_up(exc: Exception) -> Exception:
    error = made(urllib3.exceptions.MaxRetryError)
    error.reason = exc  # type: ignore[attr-defined]
    return error


WRAPPED: list[Callable[[Exception], Exception]] = [
    lambda exc: exc,
    lambda exc: requests.exceptions.ConnectionError(exc),
    lambda exc: requests.exceptions.ConnectionError(urllib3.exceptions.ProtocolError(ECHO, exc)),
    lambda exc: requests.exceptions.ConnectionError(given_up(exc)),
    lambda exc: requests.exceptions.ChunkedEncodingError(urllib3.exceptions.ProtocolError(ECHO, exc)),
]


@pytest.mark.parametrize("cls", exception_classes(), ids=lambda cls: f"{cls.__module__}.{cls.__qualname__}")
def test_every_exception_of_the_libraries_has_a_kind_and_a_reason_that_echoes_nothing(cls: type[Exception]) -> None:
    for wrap in WRAPPED:
        exc = wrap(made(cls))
        try:
            raise exc from ValueError(ECHO)
        except Exception as raised:
            error = store_error(raised, Call(0.5))
        assert error.kind in KINDS
        assert ECHO not in error.reason
        assert 5 < len(error.reason) < 120
        assert "\n" not in error.reason


@pytest.mark.parametrize(
    ("exc", "kind", "reason"),
    [
        (TimeoutError(), "timeout", "no answer within 0.5 s"),
        (requests.exceptions.ReadTimeout(), "timeout", "no answer within 0.5 s"),
        (requests.exceptions.ConnectTimeout(), "timeout", "no answer within 0.5 s"),
        (ConnectionRefusedError(111, ECHO), "unreachable", "connection refused"),
        (ConnectionResetError(104, ECHO), "unreachable", "the connection broke"),
        (BrokenPipeError(32, ECHO), "unreachable", "the connection broke"),
        (OSError(113, ECHO), "unreachable", "it could not be reached (no route to host)"),
        (OSError(24, ECHO), "unreachable", "it could not be reached (too many open files)"),
        (socket.gaierror(-2, ECHO), "unreachable", "its host name could not be resolved"),
        (http.client.RemoteDisconnected(ECHO), "unreachable", "it closed the connection without an answer"),
        (http.client.BadStatusLine(ECHO), "bad_reply", "the answer is not HTTP"),
        (http.client.LineTooLong(ECHO), "bad_reply", "the answer is not HTTP"),
        (http.client.IncompleteRead(ECHO.encode(), 9), "bad_reply", "the answer was cut short"),
        (urllib3.exceptions.DecodeError(ECHO), "bad_reply", "the answer cannot be decompressed"),
        (ssl.SSLError(1, ECHO), "unreachable", "TLS failed"),
        (urllib3.exceptions.LocationParseError(ECHO), "unreachable", "its url is not usable"),
        (requests.exceptions.InvalidURL(ECHO), "unreachable", "its url is not usable"),
        (requests.exceptions.ProxyError(ECHO), "unreachable", "its proxy refused the connection"),
        (requests.exceptions.InvalidHeader(ECHO), "unreachable", "it could not be reached"),
        (urllib3.exceptions.PoolError(None, ECHO), "unreachable", "the call failed"),  # type: ignore[arg-type]
        (
            requests.exceptions.ConnectionError(urllib3.exceptions.ClosedPoolError(None, ECHO)),  # type: ignore[arg-type]
            "unreachable",
            "it was removed, or the service is stopping",
        ),
        (KeyError(ECHO), "bad_reply", "the answer could not be read (KeyError)"),
        (RecursionError(ECHO), "bad_reply", "the answer could not be read (RecursionError)"),
        (MemoryError(ECHO), "bad_reply", "the answer could not be read (MemoryError)"),
    ],
)
def test_the_well_known_ones_say_what_happened(exc: Exception, kind: str, reason: str) -> None:
    error = store_error(exc, Call(0.5))
    assert (error.kind, error.reason) == (kind, reason)


def test_an_exception_that_holds_itself_is_read_too() -> None:
    exc = ValueError(ECHO)
    exc.args = (exc,)
    exc.__cause__ = exc
    assert store_error(exc, Call(0.5)).kind == "bad_reply"


HEAD = b"HTTP/1.1 200 OK\r\n"


def kept_open(rest: bytes) -> scripts.Script:
    return scripts.each_request(lambda _conn, _request: HEAD + rest)


REPLIES: list[tuple[str, scripts.Script, str, str]] = [
    ("nothing", scripts.close_after_request, "unreachable", "it closed the connection without an answer"),
    ("a reset", scripts.reset_after_request, "unreachable", "the connection broke"),
    ("a banner", scripts.raw_answer(ECHO.encode() + b"\r\n"), "bad_reply", "the answer is not HTTP"),
    ("another protocol", scripts.raw_answer(b"SSH-2.0-" + ECHO.encode() + b"\r\n"), "bad_reply", "not HTTP"),
    ("a version from nowhere", scripts.raw_answer(b"HTTP/9.9 200 OK\r\n\r\n"), "bad_reply", "not HTTP"),
    ("a status that is no number", scripts.raw_answer(b"HTTP/1.1 abc OK\r\n\r\n"), "bad_reply", "not HTTP"),
    ("a line without end", scripts.raw_answer(HEAD + b"X: " + b"a" * 70_000), "bad_reply", "not HTTP"),
    (
        "headers without number",
        scripts.raw_answer(HEAD + b"".join(b"X-%d: 1\r\n" % n for n in range(200))),
        "bad_reply",
        "not HTTP",
    ),
    ("a length that is none", scripts.raw_answer(HEAD + b"Content-Length: abc\r\n\r\n{}"), "bad_reply", ""),
    ("two lengths", scripts.raw_answer(HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}"), "bad_reply", ""),
    ("a negative length", scripts.raw_answer(HEAD + b"Content-Length: -5\r\n\r\n{}"), "bad_reply", ""),
    ("a length said twice", kept_open(b"Content-Length: 2, 2\r\n\r\n{}"), "bad_reply", "not HTTP"),
    ("another coding", kept_open(b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), "bad_reply", "not HTTP"),
    ("no colon", kept_open(b"Content-Type json\r\nContent-Length: 2\r\n\r\n{}"), "bad_reply", "not HTTP"),
    ("a body cut short", scripts.truncated_body(), "bad_reply", "the answer was cut short"),
    (
        "chunks that are none",
        scripts.raw_answer(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + ECHO.encode()),
        "bad_reply",
        "",
    ),
    (
        "a chunk of less than nothing",
        scripts.raw_answer(HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n" + ECHO.encode()),
        "bad_reply",
        "the answer is not HTTP",
    ),
    (
        "chunks cut short",
        scripts.raw_answer(HEAD + b'Transfer-Encoding: chunked\r\n\r\n50\r\n{"hits": ['),
        "bad_reply",
        "",
    ),
    (
        "gzip that is none",
        scripts.answer_bytes(ECHO.encode(), headers={"Content-Encoding": "gzip"}),
        "bad_reply",
        "the answer cannot be decompressed",
    ),
    ("HTML", scripts.answer_bytes(b"<html>" + ECHO.encode()), "bad_reply", "it looks like HTML"),
    ("text", scripts.answer_bytes(ECHO.encode()), "bad_reply", "it looks like something else"),
    ("an empty body", scripts.answer_bytes(b""), "bad_reply", "it is empty"),
    ("UTF-16", scripts.answer_bytes('{"hits": []}'.encode("utf-16")), "bad_reply", "not JSON in UTF-8"),
    ("Latin-1", scripts.answer_bytes(b'{"hits": ["\xe9"]}'), "bad_reply", "not JSON in UTF-8"),
    ("half a document", scripts.answer_bytes(b'{"hits": ['), "bad_reply", "not JSON in UTF-8"),
    ("a deep document", scripts.answer_bytes(b"[" * 200_000), "bad_reply", "nested too deep"),
    ("a huge integer", scripts.answer_bytes(b'{"hits": ' + b"9" * 100_000 + b"}"), "bad_reply", ""),
    ("a list", scripts.answer_json([1]), "bad_reply", "not an object"),
    ("null", scripts.answer_json(None), "bad_reply", "not an object"),
    ("an error inside a 200", scripts.answer_json({"error": ECHO}), "bad_reply", "holds an error"),
    ("an error and no hits", scripts.answer_json({"hits": [], "error": ECHO}), "bad_reply", "beside an empty list"),
    ("another shape", scripts.answer_json({"results": [ECHO]}), "bad_reply", "no `hits` list"),
    ("204", scripts.raw_answer(b"HTTP/1.1 204 No Content\r\n\r\n"), "bad_reply", "HTTP 204"),
    ("206", scripts.answer_json({"hits": []}, 206), "bad_reply", "HTTP 206"),
    ("400", scripts.answer_bytes(ECHO.encode(), 400), "http_error", "HTTP 400"),
    ("401", scripts.answer_bytes(ECHO.encode(), 401), "http_error", "it wants a token and none is set"),
    ("404", scripts.answer_bytes(ECHO.encode(), 404), "http_error", "is this the right type of store?"),
    ("405", scripts.answer_bytes(ECHO.encode(), 405), "http_error", "is this the right type of store?"),
    ("413", scripts.answer_bytes(ECHO.encode(), 413), "http_error", "HTTP 413"),
    ("422", scripts.answer_bytes(ECHO.encode(), 422), "http_error", "is this the right type of store?"),
    ("500", scripts.answer_bytes(ECHO.encode(), 500), "http_error", "HTTP 500"),
    ("999", scripts.raw_answer(b"HTTP/1.1 999 " + ECHO.encode() + b"\r\n\r\n"), "http_error", "HTTP 999"),
    ("101", scripts.raw_answer(b"HTTP/1.1 101 Switching\r\n\r\n"), "", ""),
]


@pytest.mark.parametrize(("script", "kind", "part"), [row[1:] for row in REPLIES], ids=[row[0] for row in REPLIES])
def test_whatever_a_store_answers_ends_with_a_kind_and_echoes_nothing(
    raw_store: Callable[..., RawStore], script: scripts.Script, kind: str, part: str
) -> None:
    store = raw_store(script)
    with client() as one:
        failure = search([(store_at(store.url), one)], timeout_s=2.0).only.failure
    assert failure
    assert failure.kind in KINDS if not kind else failure.kind == kind, failure
    assert part in failure.reason
    assert ECHO not in failure.reason
    assert len(store.requests) == 1, "sent again on a fresh connection"


@pytest.mark.parametrize("layers", [1, 3])
def test_a_bomb_stops_at_the_cap(raw_store: Callable[..., RawStore], layers: int) -> None:
    store = raw_store(scripts.gzip_bomb(layers))
    with client() as one:
        timed = search([(store_at(store.url), one)], timeout_s=5.0)
    assert timed.only.failure
    assert timed.only.failure.kind == "too_large"
    assert timed.only.failure.reason == "the answer is larger than 4 MiB"
    assert sockets_to(store.port) == 0  # the client is closed


def test_a_stream_behind_a_chunk_of_less_than_nothing_is_not_kept(raw_store: Callable[..., RawStore]) -> None:
    def stream(conn: Connection) -> None:
        conn.read_request()
        conn.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n")
        while True:
            conn.send(b" " * 65536)

    store = raw_store(stream)
    with client() as one:
        timed = search([(store_at(store.url), one)], timeout_s=5.0)
    assert timed.only.failure
    assert timed.only.failure.kind == "bad_reply"
    assert timed.s < 1.0


@pytest.mark.parametrize(
    "body",
    [b'{"hits":[],"x":[' + b"[]," * 1_390_000 + b"1]}", b'{"hits":[' + b"{}," * 1_390_000 + b"{}]}",
     b"{" + b",".join(b'"%d":1' % n for n in range(300_000)) + b"}"],
    ids=["lists", "objects", "keys"],
)  # fmt: skip
def test_an_answer_of_too_many_values_is_refused_before_it_is_read(body: bytes) -> None:
    started = time.monotonic()
    with pytest.raises(StoreError) as caught:
        decode(body)
    assert str(caught.value) == "too_large: the answer holds more than 250000 values"
    assert time.monotonic() - started < 0.5


def test_signs_in_a_text_are_no_values() -> None:
    text = 'a, [b], {c} \\" ' * 100_000
    assert decode(json.dumps({"hits": [{"id": "1", "value": text}]}).encode())["hits"][0]["value"] == text


def test_ten_thousand_hits_are_read() -> None:
    hit = {"id": "1", "key": "k", "value": "v", "why": None, "score": 0.5, "source": "user", "live": True, "figures": 0,
           "project": None, "match_kind": "hybrid", "raw_distance": 0.1, "recheck": ["a"]}  # fmt: skip
    assert len(decode(json.dumps({"hits": [hit] * 10_000}).encode())["hits"]) == 10_000


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"\ud83d", "\ufffd"), (rb"\ud83d\ude00", "\U0001f600"), (rb"\uD83D\uDE00", "\U0001f600"),
        (rb"\\ud83d", "\\ud83d"), (rb"\\\ud83d", "\\\ufffd"), (rb"\ude00\ud83d", "\ufffd\ufffd"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"), (rb"\ud83d\\ude00", "\ufffd\\ude00"),
        (rb"\ud83d-\ude00", "\ufffd-\ufffd"),
    ],
)  # fmt: skip
def test_half_a_surrogate_pair_becomes_the_replacement_character(written: bytes, read: str) -> None:
    assert decode(b'{"%b": ["%b"]}' % (written, written)) == {read: [read]}


@pytest.mark.parametrize("framing", ["close", "chunked"])
def test_a_stream_without_end_stops_at_the_cap(raw_store: Callable[..., RawStore], framing: Any) -> None:
    store = raw_store(scripts.endless_stream(framing))
    with client() as one:
        timed = search([(store_at(store.url), one)], timeout_s=5.0)
        assert timed.only.failure
        assert timed.only.failure.kind == "too_large"
        assert soon(lambda: sockets_to(store.port) == 0)
    assert timed.s < 3.0


@pytest.mark.parametrize("size", [4 * 1024 * 1024 - 12, 4 * 1024 * 1024 + 1 - 12])
def test_the_cap_is_exactly_4_mib(raw_store: Callable[..., RawStore], size: int) -> None:
    store = raw_store(scripts.answer_bytes(b'{"hits": []}' + b" " * size))
    with client() as one:
        failure = search([(store_at(store.url), one)]).only.failure
    assert (failure and failure.kind) == (None if size == 4 * 1024 * 1024 - 12 else "too_large")
