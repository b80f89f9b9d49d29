"""The service under fire: hung and dripping stores, many clients, clients that drip, vanish or send odd requests."""

import contextlib
import http.client
import json
import re
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import waitress.wasyncore
from waitress.channel import HTTPChannel

from seren_corpus_callosum import Callosum
from tests.roster_service import Local
from tests.support import scripts
from tests.support.checks import REPO, problem, strict_json
from tests.support.goodstore import GoodStore
from tests.support.outward import soon
from tests.support.rawstore import RawStore
from tests.support.service import Service
from tests.test_transport_faults import certificate

Services = Callable[..., Service]
RawStores = Callable[..., RawStore]
GoodStores = Callable[..., GoodStore]
HIT = {"hits": [{"id": "1", "value": "x"}]}


def config(
    stores: dict[str, str], *, timeout_s: float = 5.0, suspend_after: int = 0, server: str = "{}", more: str = ""
) -> str:
    entries = ", ".join(f"{{name: {name}, type: seren_loci, url: '{url}'}}" for name, url in stores.items())
    return (
        f"server: {server}\n"
        f"federation: {{per_store_timeout_s: {timeout_s}, suspend_after: {suspend_after}, stores: [{entries}]{more}}}"
    )


@pytest.fixture
def good_urls() -> Iterator[Callable[[int], list[str]]]:
    """Healthy stores in a process of their own, so that their work is not this one's."""
    with contextlib.ExitStack() as stack:

        def started(count: int) -> list[str]:
            command = [sys.executable, "-m", "tests.support.goodstore", "--stores", str(count), "--hits", "5"]
            process = stack.enter_context(
                subprocess.Popen(command, cwd=REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            assert process.stdin and process.stdout
            stack.callback(process.stdin.close)
            return [f"http://127.0.0.1:{int(process.stdout.readline())}" for _ in range(count)]

        yield started


class Client:
    """One client with a connection of its own that is kept."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def search(self, **fields: Any) -> tuple[int, dict[str, Any], http.client.HTTPMessage]:
        return self.post(json.dumps({"query": "x", **fields}))

    def post(self, body: str | Iterable[bytes]) -> tuple[int, dict[str, Any], http.client.HTTPMessage]:
        self._connection.request("POST", "/search", body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        return response.status, strict_json(response.read()), response.headers

    def get(self, path: str) -> int:
        self._connection.request("GET", path)
        response = self._connection.getresponse()
        response.read()
        return response.status

    def local_port(self) -> int:
        port: int = self._connection.sock.getsockname()[1]
        return port

    def close(self) -> None:
        self._connection.close()


def at_once(clients: int, port: int, work: Callable[[Client], None]) -> list[Exception]:
    """Runs `work` in that many threads, each with its own client; returns what they raised."""
    faults: list[Exception] = []

    def one() -> None:
        client = Client(port)
        try:
            work(client)
        except Exception as exc:
            faults.append(exc)
        finally:
            client.close()

    threads = [threading.Thread(target=one) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return faults


def in_process(tmp_path: Path, text: str) -> Callosum:
    file = tmp_path / "scc.yaml"
    file.write_text(text, encoding="utf-8")
    return Callosum.from_config(file)


# Sick stores


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_thousand_searches_on_dripping_stores_keep_the_deadline_and_leave_nothing_behind(
    raw_store: RawStores, tmp_path: Path
) -> None:
    deadline_s = 0.1
    stores = {
        "header": raw_store(scripts.drip_headers(0.03)).url,
        "body": raw_store(scripts.drip_body("close", 0.03)).url,
        "tls": raw_store(scripts.drip_handshake(certificate(), 0.03), scheme="https").url,
    }
    process = psutil.Process()
    ports = {int(url.rpartition(":")[2]) for url in stores.values()}
    took_s: list[float] = []
    threads: list[int] = []
    sockets: list[int] = []

    def outward() -> tuple[int, int]:
        names = [thread.name for thread in threading.enumerate()]
        found = process.net_connections("tcp")
        return (
            sum(1 for name in names if name.startswith("callosum-store")),
            sum(1 for one in found if one.raddr and one.raddr[1] in ports),
        )

    with in_process(tmp_path, config(stores, timeout_s=deadline_s)) as callosum:

        def searcher() -> None:
            for _ in range(250):
                started = time.monotonic()
                packet = callosum.search("x")
                took_s.append(time.monotonic() - started)
                assert [skipped.failure.kind for skipped in packet.skipped] == ["timeout"] * 3

        searchers = [threading.Thread(target=searcher) for _ in range(4)]
        for one in searchers:
            one.start()
        while any(one.is_alive() for one in searchers):
            time.sleep(0.5)
            workers, open_sockets = outward()
            threads.append(workers)
            sockets.append(open_sockets)
        for one in searchers:
            one.join()
        assert len(took_s) == 1000
        assert statistics.median(took_s) <= deadline_s + 0.1
        assert max(took_s) <= deadline_s + 0.5
        # A pool of 16 for each store, and its sockets: a thousand searches that left one each behind would show.
        assert max(threads) <= 3 * 16
        assert max(sockets) <= 3 * 16
        assert soon(lambda: outward()[1] == 0)


def test_one_hung_store_of_nine_costs_three_searches_and_then_next_to_nothing(
    good_urls: Callable[[int], list[str]], raw_store: RawStores, tmp_path: Path
) -> None:
    hung = raw_store(scripts.answer_held(HIT))
    eight = {f"good{number}": url for number, url in enumerate(good_urls(8))}
    deadline_s = 0.3
    with contextlib.ExitStack() as stack:
        without = stack.enter_context(in_process(tmp_path, config(eight)))
        text = config({"hung": hung.url, **eight}, timeout_s=deadline_s, suspend_after=3)
        nine = stack.enter_context(in_process(tmp_path, text))

        def took_s(callosum: Callosum) -> float:
            started = time.monotonic()
            packet = callosum.search("x")
            assert len(packet.stores_searched) >= 8
            return time.monotonic() - started

        took_s(without)
        assert all(deadline_s <= took_s(nine) < deadline_s + 0.3 for _ in range(3))
        # In turns, so that what else the machine does is the same for both.
        pairs = [(took_s(nine), took_s(without)) for _ in range(150)]
        with_hung, alone = (statistics.median(column) for column in zip(*pairs, strict=True))
        assert with_hung <= alone * 1.2 + 0.003, (with_hung, alone)
        (skipped,) = nine.search("x").skipped
        assert (skipped.name, skipped.failure.kind) == ("hung", "suspended")
        assert len(hung.requests) == 3


def test_the_wait_for_a_request_thread_counts_and_one_too_long_is_refused(
    service: Services, raw_store: RawStores
) -> None:
    hung = raw_store(scripts.hang_after_request)
    one = service(config({"hung": hung.url}, timeout_s=1.0, server="{threads: 1}"))
    said: list[tuple[int, float]] = []

    def ask(client: Client) -> None:
        started = time.monotonic()
        status, _, headers = client.search()
        said.append((status, time.monotonic() - started))
        assert status == 200 or headers["Retry-After"]

    assert at_once(5, one.port, ask) == []
    assert {status for status, _ in said} == {200, 503}
    assert max(took_s for _, took_s in said) < 2.5, "the deadline twice, and no more"
    before = len(hung.requests)
    first = threading.Thread(target=at_once, args=(1, one.port, lambda client: client.search(timeout_s=0.6)))
    first.start()
    assert hung.wait_for(lambda store: len(store.requests) == before + 1)
    started = time.monotonic()
    answer = one.request("POST", "/search", json={"query": "x", "timeout_s": 0.3})
    assert "its time ran out before a thread was free" in problem(answer, 503)["detail"]
    assert time.monotonic() - started < 1.5
    first.join()


def test_stores_that_hang_never_suppress_a_healthy_one(
    service: Services, raw_store: RawStores, good_store: GoodStores
) -> None:
    stores = {f"hung{number}": raw_store(scripts.hang_after_request).url for number in range(5)}
    good = good_store("seren_loci", [{"id": "1"}])
    one = service(config({**stores, "good": good.url}, timeout_s=0.5))
    for _ in range(4):
        started = time.monotonic()
        body = one.search("x")
        assert time.monotonic() - started < 1.0
        assert [hit["id"] for hit in body["hits"]] == ["1"]
        assert len(body["skipped"]) == 5
        (row,) = body["stores"][-1:]
        assert row["ms"] < 400


def test_ten_thousand_hits_are_cut_to_what_was_asked(service: Services, good_store: GoodStores) -> None:
    flood = good_store("seren_loci", [])
    flood.cut = False
    flood.reply = lambda asked: {"hits": [{"id": f"f{n}", "value": "x" * 100} for n in range(10_000)]}
    good = good_store("seren_loci", [{"id": f"g{n}"} for n in range(30)])
    one = service(config({"flood": flood.url, "good": good.url}))
    one.search("x")
    before = psutil.Process(one.pid).memory_info().rss
    for _ in range(10):
        body = one.search("x", n_results=10)
    assert [hit["id"] for hit in body["hits"]] == [f"{name}{n}" for n in range(5) for name in "fg"]
    assert [row["returned"] for row in body["stores"]] == [20, 20]
    assert psutil.Process(one.pid).memory_info().rss - before < 40 * 2**20


def test_bombs_and_endless_streams_do_not_grow_the_process(service: Services, raw_store: RawStores) -> None:
    stores = {
        "bomb": raw_store(scripts.gzip_bomb(1)).url,
        "bombs": raw_store(scripts.gzip_bomb(3)).url,
        "stream": raw_store(scripts.endless_stream("close")).url,
    }
    one = service(config(stores))
    one.search("x")
    before = psutil.Process(one.pid).memory_info().rss
    for _ in range(5):
        assert {entry["kind"] for entry in one.search("x")["skipped"]} == {"too_large"}
    assert psutil.Process(one.pid).memory_info().rss - before < 40 * 2**20


# Many clients


def test_health_is_answered_while_every_thread_waits_on_a_hung_store(service: Services, raw_store: RawStores) -> None:
    hung = raw_store(scripts.hang_after_request)
    one = service(config({"hung": hung.url}, timeout_s=0.5))
    statuses: list[int] = []
    ended = threading.Event()

    def search(client: Client) -> None:
        while not ended.is_set():
            status, body, headers = client.search()
            statuses.append(status)
            if status == 503:
                assert headers["Retry-After"] == "1" and body["status"] == 503
                ended.wait(0.2)

    faults: list[Exception] = []
    crowd = threading.Thread(target=lambda: faults.extend(at_once(64, one.port, search)))
    crowd.start()
    try:
        assert hung.wait_for(lambda store: len(store.requests) >= 16)
        took_s = []
        for _ in range(40):
            client = Client(one.port)
            started = time.monotonic()
            assert client.get("/health") == 200
            took_s.append(time.monotonic() - started)
            client.close()
            time.sleep(0.05)
    finally:
        ended.set()
        crowd.join()
    assert faults == []
    assert statistics.median(took_s) <= 0.1, sorted(took_s)
    assert max(took_s) <= 1.0, sorted(took_s)
    assert set(statuses) <= {200, 503}


def test_sixty_four_clients_on_healthy_stores_are_all_served(
    service: Services, good_urls: Callable[[int], list[str]]
) -> None:
    one = service(config({f"s{number}": url for number, url in enumerate(good_urls(3))}))
    statuses: list[int] = []

    def search(client: Client) -> None:
        for _ in range(4):
            status, body, _ = client.search()
            statuses.append(status)
            assert len(body["stores_searched"]) == 3

    assert at_once(64, one.port, search) == []
    assert statuses == [200] * 256


def test_a_roster_that_changes_under_load_costs_no_search(
    service: Services, good_urls: Callable[[int], list[str]]
) -> None:
    first, second = good_urls(2)
    one = service(config({"first": first}))
    ended = threading.Event()
    reasons: set[str] = set()

    def search(client: Client) -> None:
        while not ended.is_set():
            status, body, _ = client.search()
            assert status == 200 and "first" in body["stores_searched"], body
            reasons.update(entry["reason"] for entry in body["skipped"])

    faults: list[Exception] = []
    crowd = threading.Thread(target=lambda: faults.extend(at_once(8, one.port, search)))
    crowd.start()
    try:
        for _ in range(15):
            added = one.request("POST", "/stores", json={"name": "second", "type": "seren_loci", "url": second})
            assert added.status_code == 201, added.text
            assert "second" in one.search("x")["stores_searched"]
            assert one.request("DELETE", "/stores/second").status_code == 200
            assert one.search("x")["stores_searched"] == ["first"]
    finally:
        ended.set()
        crowd.join()
    assert faults == []
    assert reasons <= {"it was removed, or the service is stopping"}
    port = int(second.rpartition(":")[2])
    connections = psutil.Process(one.pid).net_connections
    assert soon(lambda: not [c for c in connections("tcp") if c.raddr and c.raddr[1] == port], 2.0)
    names = one.stderr
    assert "pool is full" not in names and "Traceback" not in names


def test_past_the_bounded_queue_a_search_is_told_to_come_again(service: Services, raw_store: RawStores) -> None:
    hung = raw_store(scripts.answer_held(HIT))
    one = service(config({"hung": hung.url}, timeout_s=20, server="{threads: 1}"))
    said: list[int] = []
    crowd = threading.Thread(
        target=lambda: at_once(10, one.port, lambda client: said.append(client.search()[0]))  # type: ignore[arg-type]
    )
    crowd.start()
    try:
        # One is asked, six wait, and three are told: then the queue is full, and stays so.
        assert soon(lambda: said == [503] * 3, 10.0)
        own = {"X-Request-Id": "r1"}
        response = one.request("POST", "/search", json={"query": "x"}, headers=own)
        document = problem(response, 503)
        assert (response.headers["Retry-After"], response.headers["X-Request-Id"]) == ("1", "r1")
        assert "too many requests" in document["detail"]
        assert one.request("GET", "/stores").status_code == 200
    finally:
        hung.release()
        crowd.join()
    assert sorted(said) == [200] * 7 + [503] * 3


def test_searches_that_wait_for_a_thread_still_end_by_their_own_deadline(
    service: Services, raw_store: RawStores
) -> None:
    hung = raw_store(scripts.hang_after_request)
    one = service(config({"hung": hung.url}, timeout_s=0.5))
    slowest: list[float] = []

    def search(client: Client) -> None:
        started = time.monotonic()
        status, body, _ = client.search()
        slowest.append(time.monotonic() - started)
        assert status == 200 and body["skipped"][0]["kind"] == "timeout"

    assert at_once(16, one.port, search) == []
    assert max(slowest) < 1.5


def test_a_search_may_take_as_long_as_its_deadline_says(service: Services, raw_store: RawStores) -> None:
    """The limit on how long a request may take to come in is none on its answer."""
    hung = raw_store(scripts.hang_after_request)
    one = service(config({"hung": hung.url}, timeout_s=1.5, server="{request_timeout_s: 0.3}"))
    assert one.search("x")["skipped"][0]["kind"] == "timeout"


# Odd clients


def spoken(port: int, data: bytes, within_s: float = 3.0) -> bytes:
    """Everything that the service answers to these bytes until it closes or the time is up."""
    with socket.create_connection(("127.0.0.1", port), within_s) as sock:
        sock.sendall(data)
        heard, deadline = b"", time.monotonic() + within_s
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            while piece := sock.recv(65536):
                heard += piece
                sock.settimeout(max(0.01, deadline - time.monotonic()))
        return heard


HEAD = b"POST /search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
SECOND = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Content-Length: +2\r\n",
        b"Content-Length: -2\r\n",
        b"Content-Length: 2, 3\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    ],
)
def test_a_request_of_two_minds_about_its_length_opens_no_second_one(service: Services, lengths: bytes) -> None:
    one = service("federation: {}")
    heard = spoken(one.port, HEAD + lengths + b"\r\n" + b"0\r\n\r\n" + SECOND, within_s=2.0)
    assert heard.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501", b"HTTP/1.0 400")), heard[:200]
    assert heard.count(b"HTTP/1.") == 1, heard


@pytest.mark.parametrize(
    "request_",
    [
        b"get /health HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/2\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"GET http://[::1/health HTTP/1.1\r\n\r\n",
        HEAD + b"a header without a colon\r\n\r\n",
        HEAD + b"X-Odd: a\x7fb\r\n\r\n",
    ],
)
def test_a_request_that_cannot_be_read_is_400_and_no_fault_of_the_service(service: Services, request_: bytes) -> None:
    one = service("federation: {}")
    assert spoken(one.port, request_).split(b" ", 2)[1] == b"400"
    assert one.stop() == 0
    assert "ERROR" not in one.stderr


def test_an_address_without_a_path_is_its_root(service: Services) -> None:
    one = service("federation: {}")
    heard = spoken(one.port, b"GET http://127.0.0.1 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 200 OK\r\n"), heard
    assert b'"service":"seren-corpus-callosum"' in heard


def test_clients_that_drip_are_dropped_and_hold_nobody_up(service: Services, good_store: GoodStores) -> None:
    good = good_store("seren_loci", [{"id": "1"}])
    one = service(config({"good": good.url}, server="{request_timeout_s: 1.0, connection_limit: 100}"))
    with contextlib.ExitStack() as stack:
        drips = [stack.enter_context(socket.create_connection(("127.0.0.1", one.port), 5)) for _ in range(80)]
        started = time.monotonic()
        for number, sock in enumerate(drips):
            whole = HEAD + b"Content-Length: 50\r\n\r\n{"
            sock.sendall(whole if number % 2 else whole[:30])
        assert [hit["id"] for hit in one.search("x")["hits"]] == ["1"]
        assert time.monotonic() - started < 1.0
        left = list(drips)
        while left and time.monotonic() - started < 6.0:
            for sock in list(left):
                sock.settimeout(0.001)
                try:
                    sock.sendall(b"x")
                    if sock.recv(1024) == b"":
                        left.remove(sock)
                except TimeoutError:
                    pass
                except OSError:
                    left.remove(sock)
        assert left == []
        assert 0.8 < time.monotonic() - started < 5.0
    assert [hit["id"] for hit in one.search("x")["hits"]] == ["1"]


def test_a_client_that_says_nothing_is_dropped_and_one_that_has_asked_is_not(service: Services) -> None:
    one = service(config({}, server="{request_timeout_s: 1.0}"))
    with contextlib.closing(Client(one.port)) as kept:
        assert kept.get("/health") == 200
        used = kept.local_port()
        started = time.monotonic()
        with socket.create_connection(("127.0.0.1", one.port), 10) as sock:
            assert sock.recv(1) == b""
        assert 0.8 < time.monotonic() - started < 5.0
        assert kept.get("/health") == 200
        assert kept.local_port() == used


@pytest.mark.parametrize("is_chunked", [False, True])
def test_one_who_sends_far_too_much_hears_of_it_on_a_connection_that_stays(service: Services, is_chunked: bool) -> None:
    one = service(config({}))
    too_much = " " * (20 * 1024 * 1024)
    with contextlib.closing(Client(one.port)) as client:
        for _ in range(2):
            status, told, headers = client.post(iter([too_much.encode()]) if is_chunked else too_much)
            assert (status, headers["Content-Type"]) == (413, "application/problem+json")
            assert told["detail"] == "the body is over 1024 KiB"
            used = client.local_port()
        assert client.search()[0] == 200
        assert client.local_port() == used


def test_a_client_that_asks_on_and_reads_nothing_holds_no_request_thread(
    service: Services, good_store: GoodStores
) -> None:
    good = good_store("seren_loci", [{"id": str(number), "value": "x" * 15_000} for number in range(200)])
    one = service(config({"good": good.url}, server="{threads: 1}", more=", fetch_multiplier: 1"))
    body = b'{"query": "x", "n_results": 200}'  # 6 MB each: the text stands in the metadata too
    whole = HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    with socket.create_connection(("127.0.0.1", one.port), 5) as sock:
        sock.sendall(whole * 20)
        for _ in range(15):
            answer = one.request("POST", "/search", json={"query": "x", "n_results": 1}, timeout=5)
            assert len(answer.json()["hits"]) == 1
        heard = 0
        while piece := sock.recv(1 << 20):
            heard += len(piece)
        assert heard > 16 * 1024 * 1024, "what was answered arrives before the connection is closed"


def test_the_loop_of_the_server_rests_while_a_request_thread_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sending, many_turns = threading.Event(), threading.Event()
    turns: list[float] = []
    turn, send = waitress.wasyncore.poll2, HTTPChannel.send

    def counted(*args: Any) -> None:
        if sending.is_set():
            turns.append(time.monotonic())
            if len(turns) > 50:
                many_turns.set()
        turn(*args)

    def slow(channel: Any, *args: Any, **kwargs: Any) -> int:
        if not sending.is_set():
            sending.set()
            channel.server.pull_trigger()
            many_turns.wait(0.5)
        return int(send(channel, *args, **kwargs))

    monkeypatch.setattr(waitress.wasyncore, "poll2", counted)
    monkeypatch.setattr(HTTPChannel, "send", slow)
    with Local(tmp_path) as one:
        assert one.request("GET", "/health").status_code == 200
    assert sending.is_set() and not many_turns.is_set(), f"{len(turns)} turns"


def test_clients_that_vanish_leave_no_descriptor_and_no_work(service: Services, good_store: GoodStores) -> None:
    good = good_store("seren_loci", [{"id": "1"}])
    good.delay_s = 0.05
    one = service(config({"good": good.url}))
    one.search("x")
    process = psutil.Process(one.pid)
    before = process.num_fds()
    body = b'{"query": "x"}'
    whole = HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    for number in range(100):
        with socket.create_connection(("127.0.0.1", one.port), 5) as sock:
            sock.sendall(whole if number % 2 else whole[: number % len(whole)])
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # RST
    # Up to 16 connections to the store may be kept.
    assert soon(lambda: process.num_fds() <= before + 2 * 16, 5.0), process.num_fds()
    process.cpu_percent()
    time.sleep(0.5)
    assert process.cpu_percent() < 50
    assert one.healthy()
    assert [hit["id"] for hit in one.search("x")["hits"]] == ["1"]


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-Prefix": '"><script>alert(1)</script>'},
        {"X-Forwarded-Prefix": "//evil.example"},
        {"X-Forwarded-Host": "evil.example"},
        {"Forwarded": 'for=";"'},
        {"Forwarded": 'for="'},
        {"X-Forwarded-Proto": "javascript"},
        {"X-Forwarded-For": "a, b, ,;"},
        {"X-Forwarded-By": "evil.example", "X-Forwarded-Port": "x"},
    ],
)
def test_forged_proxy_headers_change_nothing(service: Services, headers: dict[str, str]) -> None:
    one = service("federation: {}")
    for path in ("/", "/viewer", "/stores", "/nope"):
        answer = one.request("GET", path, headers=headers)
        assert answer.status_code in (200, 403, 404), answer.text
        said = answer.text + str(answer.headers)
        assert "evil.example" not in said and "<script>alert" not in said and "javascript:" not in said


# What it writes


def test_the_log_has_a_line_for_each_request_and_never_a_query_or_a_secret(
    service: Services, good_store: GoodStores, raw_store: RawStores
) -> None:
    good, bad = good_store("seren_loci", [{"id": "1"}]), raw_store(scripts.answer_json({}, 500))
    text = (
        "server: {bearer_token: inb0und-s3cret}\n"
        "federation:\n  stores:\n"
        f"    - {{name: good, type: seren_loci, url: 'http://user:p4ss-w0rd@127.0.0.1:{good.port}'}}\n"
        f"    - {{name: bad, type: seren_loci, url: '{bad.url}', token: outb0und-s3cret}}\n"
    )
    one = service(text, env={"SEREN_SCC_LOG_LEVEL": "debug"})
    bearer = {"Authorization": "Bearer inb0und-s3cret", "X-Request-Id": "r-17"}
    answer = one.request("POST", "/search", json={"query": "my pr1vate question"}, headers=bearer)
    assert (answer.status_code, answer.headers["X-Request-Id"]) == (200, "r-17")
    own = one.request("POST", "/search", json={"query": "my pr1vate question"}).headers["X-Request-Id"]
    one.request("GET", "/stores\n%00/é".replace("\n", "%0A"), headers=bearer)
    assert one.stop() == 0
    said = one.stderr + one.stdout
    assert re.search(r"POST /search 200 [0-9.]+ ms r-17", said), said
    assert re.search(rf"POST /search 401 [0-9.]+ ms {own}", said), said
    assert "store bad gave no answer: http_error: HTTP 500" in said
    for secret in ("pr1vate", "inb0und", "outb0und", "p4ss-w0rd", "Authorization"):
        assert secret not in said


def test_queries_are_logged_only_when_asked_for(service: Services) -> None:
    one = service("federation: {}", env={"SEREN_SCC_LOG_QUERY": "true"})
    one.search("where are the k3ys")
    one.stop()
    assert "k3ys" in one.stderr + one.stdout


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_console_that_cannot_write_it_costs_no_search(
    service: Services, good_store: GoodStores, encoding: str
) -> None:
    good = good_store("seren_loci", [{"id": "1", "value": "é🙂"}])
    dead = "http://127.0.0.1:9"
    text = config({"'日本🙂'": dead, "good": good.url})
    one = service(text, env={"PYTHONIOENCODING": encoding, "SEREN_SCC_LOG_QUERY": "on"})
    body = one.search("日本 🙂")
    assert [hit["content"] for hit in body["hits"]] == ["é🙂"]
    assert [entry["name"] for entry in body["skipped"]] == ["日本🙂"]
    assert one.stop() == 0
    assert "Logging error" not in one.stderr


def test_without_any_output_it_serves(service: Services, tmp_path: Path) -> None:
    """As a service of Windows and under pythonw there is no standard output at all."""
    one = service("federation: {}")
    one.stop()
    closed = f"exec {' '.join(one.command)} >&- 2>&- <&-"
    process = subprocess.Popen(["/bin/sh", "-c", closed], cwd=one.folder, env=one.env)
    try:
        assert soon(one.healthy, 15.0)
        assert one.search("x")["hits"] == []
    finally:
        process.terminate()
        assert process.wait(5) == 0
