"""The support keeps its own promises: what it says about stores, services and answers is true."""

import contextlib
import gzip
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
import trustme

from tests.support import scripts
from tests.support.checks import REPO, problem, require, strict_json
from tests.support.goodstore import GoodStore, sample_hits
from tests.support.net import free_port, unconnectable
from tests.support.process import ServerProcess, clean_environment
from tests.support.rawstore import Connection, RawStore, Script
from tests.support.realstores import RealStore
from tests.support.service import Service, run_command

QUERY = {"query": "hull", "n_results": 3}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, ssl.SSLContext]:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    issued.private_key_pem.write_to_path(str(folder / "key.pem"))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return folder / "cert.pem", folder / "key.pem", context


@contextlib.contextmanager
def asked(port: int, *, timeout_s: float = 0.2, context: ssl.SSLContext | None = None) -> Iterator[socket.socket]:
    """A plain client that has sent one POST /search."""
    body = json.dumps(QUERY).encode()
    with contextlib.ExitStack() as stack:
        sock: socket.socket = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout_s))
        if context:
            sock = stack.enter_context(context.wrap_socket(sock, server_hostname="127.0.0.1"))
        sock.sendall(b"POST /search HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        yield sock


def everything(sock: socket.socket) -> bytes:
    """What arrives until the end of the stream, or within the time that the socket's timeout allows in all."""
    data, deadline = b"", time.monotonic() + (sock.gettimeout() or 0)
    with contextlib.suppress(TimeoutError):
        while (left_s := deadline - time.monotonic()) > 0:
            sock.settimeout(left_s)
            if not (piece := sock.recv(65536)):
                break
            data += piece
    return data


@pytest.mark.parametrize(
    ("script", "beginning"),
    [
        (scripts.hang_on_accept, b""),
        (scripts.hang_after_request, b""),
        (
            scripts.hang_after_headers,
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n",
        ),
        (scripts.answer_held(), b""),
        (scripts.drip_headers(0.01), b"HTTP/1.1"),
        (scripts.drip_body("content-length", 0.01), b"HTTP/1.1 200 OK\r\n"),
        (scripts.drip_body("chunked", 0.01), b"HTTP/1.1 200 OK\r\n"),
        (scripts.drip_body("close", 0.01), b"HTTP/1.1 200 OK\r\n"),
        (scripts.endless_100_continue(), b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
def test_a_slow_store_is_still_not_done_when_the_caller_gives_up(script: Script, beginning: bytes) -> None:
    with RawStore(script) as store, asked(store.port) as sock:
        got = everything(sock)
        assert got.startswith(beginning) and len(got) < 1000
        assert store.open_connections == 1
        sock.close()
        assert store.wait_for(lambda s: s.open_connections == 0)


@pytest.mark.parametrize("framing", ["content-length", "chunked", "close"])
def test_a_dripped_answer_is_whole_once_it_is_released(framing: str) -> None:
    with RawStore(scripts.drip_body(framing, 0.01, {"hits": [1]})) as store:  # type: ignore[arg-type]
        threading.Timer(0.05, store.release).start()
        assert requests.post(store.url + "/search", json=QUERY, timeout=5).json() == {"hits": [1]}


def test_held_answers_go_out_when_they_are_released() -> None:
    with RawStore(scripts.answer_held({"hits": []})) as store, asked(store.port, timeout_s=5) as sock:
        assert store.wait_for(lambda s: len(s.requests) == 1)
        store.release()
        assert sock.recv(65536).endswith(b'{"hits": []}')


def test_a_stopped_store_frees_its_callers_and_its_port() -> None:
    store = RawStore(scripts.hang_after_request)
    with store, asked(store.port, timeout_s=5) as sock:
        assert store.wait_for(lambda s: len(s.requests) == 1)
        store.stop()
        assert sock.recv(1) == b""
    with RawStore(scripts.answer_json({}), port=store.port) as again:
        assert again.port == store.port


def test_a_store_keeps_the_requests_it_got_byte_for_byte() -> None:
    with RawStore(scripts.answer_json(lambda request: {"got": request.json()})) as store, requests.Session() as session:
        for _ in range(2):
            answer = session.post(store.url + "/search?a=b", json=QUERY, headers={"X-A": "é".encode()}, timeout=5)
            assert answer.json() == {"got": QUERY}
        session.post(store.url + "/chunked", data=iter([b'{"query":', b'"x"}']), timeout=5)
        first, _, chunked = store.requests
        assert (store.connections, len(store.requests)) == (1, 3)
    assert (first.method, first.path, first.headers["content-type"]) == ("POST", "/search?a=b", "application/json")
    assert first.raw.startswith(b"POST /search?a=b HTTP/1.1\r\n") and first.raw.endswith(b"\r\n\r\n" + first.body)
    assert chunked.body == b'{"query":"x"}'
    assert chunked.raw.endswith(b'\r\n\r\n9\r\n{"query":\r\n4\r\n"x"}\r\n0\r\n\r\n')


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (scripts.reset_on_accept, ConnectionResetError),
        (scripts.reset_after_request, ConnectionResetError),
        (scripts.close_after_request, http.client.RemoteDisconnected),
        (scripts.raw_answer(b"\x00\xff garbage\r\n\r\n"), http.client.BadStatusLine),
        (scripts.truncated_body(), http.client.IncompleteRead),
    ],
)
def test_a_broken_answer_breaks_as_it_says(script: Script, error: type[Exception]) -> None:
    with RawStore(script) as store:
        connection = http.client.HTTPConnection("127.0.0.1", store.port, timeout=5)
        with contextlib.closing(connection), pytest.raises(error):
            connection.request("POST", "/search", b"{}")
            connection.getresponse().read()


@pytest.mark.parametrize("script", [scripts.close_after_answer(), scripts.close_on_second_request()])
def test_a_kept_alive_connection_dies_without_a_warning(script: Script) -> None:
    with RawStore(script) as store, asked(store.port, timeout_s=5) as sock:
        assert b"close" not in sock.recv(65536).lower()
        with contextlib.suppress(OSError):
            sock.sendall(b"POST /search HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(65536) == b""
        assert store.connections == 1


def test_a_redirect_leads_where_it_says() -> None:
    with RawStore(scripts.redirect_to("/search", 307)) as store:
        answer = requests.post(store.url + "/search", json=QUERY, timeout=5, allow_redirects=False)
    assert (answer.status_code, answer.headers["Location"]) == (307, "/search")


@pytest.mark.parametrize(("layers", "encoding", "most_bytes"), [(1, "gzip", 60_000), (3, "gzip, gzip, gzip", 1_000)])
def test_a_bomb_is_small_on_the_wire_and_50_mb_inside(layers: int, encoding: str, most_bytes: int) -> None:
    with RawStore(scripts.gzip_bomb(layers)) as store:
        connection = http.client.HTTPConnection("127.0.0.1", store.port, timeout=5)
        with contextlib.closing(connection):
            connection.request("POST", "/search", b"{}")
            response = connection.getresponse()
            body = response.read()
    assert (response.headers["Content-Encoding"], len(body) < most_bytes) == (encoding, True)
    for _ in range(layers):
        body = gzip.decompress(body)
    assert len(body) == 50_000_012


@pytest.mark.parametrize("framing", ["close", "chunked"])
def test_an_endless_stream_goes_on_until_the_caller_leaves(framing: str) -> None:
    with RawStore(scripts.endless_stream(framing)) as store, asked(store.port, timeout_s=5) as sock:  # type: ignore[arg-type]
        got = 0
        while got < 5_000_000:
            got += len(sock.recv(1 << 20))
        sock.close()
        assert store.wait_for(lambda s: s.open_connections == 0)


def test_a_store_answers_over_tls(certificate: tuple[Path, Path, ssl.SSLContext]) -> None:
    cert, key, context = certificate
    with (
        RawStore(scripts.answer_json({"hits": []}), tls=(cert, key)) as store,
        asked(store.port, timeout_s=5, context=context) as sock,
    ):
        assert store.url.startswith("https://127.0.0.1:")
        assert sock.recv(65536).endswith(b'{"hits": []}')


@pytest.mark.parametrize("dripped", [False, True])
def test_a_tls_handshake_can_hang_and_drip(certificate: tuple[Path, Path, ssl.SSLContext], dripped: bool) -> None:
    cert, key, context = certificate
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(cert, key)
    script = scripts.drip_handshake(serving, 0.02) if dripped else scripts.hang_on_accept
    with RawStore(script, scheme="https") as store:
        with pytest.raises(TimeoutError), asked(store.port, timeout_s=0.1, context=context):
            pass
        assert store.wait_for(lambda s: s.open_connections == 0)


def test_a_dripped_tls_handshake_is_a_right_one(certificate: tuple[Path, Path, ssl.SSLContext]) -> None:
    cert, key, context = certificate
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(cert, key)
    with RawStore(scripts.drip_handshake(serving, 5), scheme="https") as store:
        store.release()
        with asked(store.port, timeout_s=5, context=context) as sock:
            assert isinstance(sock, ssl.SSLSocket) and sock.version() == "TLSv1.3"


def test_a_script_that_fails_fails_its_test() -> None:
    def script(conn: Connection) -> None:
        conn.read_request()
        raise ValueError("the script is wrong")

    store = RawStore(script).__enter__()
    with asked(store.port, timeout_s=5) as sock:
        everything(sock)
    with pytest.raises(ValueError, match="the script is wrong"):
        store.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="a full queue refuses elsewhere")
def test_an_unconnectable_address_does_not_connect() -> None:
    with unconnectable() as url, pytest.raises(requests.ConnectTimeout):
        requests.get(url, timeout=0.2)


LOCI_ANSWER = {
    "query": "hull", "project": None, "finder": "lexical",
    "hits": [{
        "id": "a", "project": "default", "key": "hull.colour", "value": "green", "why": None, "score": 1.0,
        "match_kind": "lexical", "source": "user", "raw_distance": None, "live": True, "superseded_at": None,
        "why_changed": None, "figures": 0, "recheck": None,
    }],
}  # fmt: skip
MEMORY_ANSWER = {
    "query": "hull", "searched_tiers": ["short", "near", "long"],
    "hits": [{
        "tier": "near", "content": "green paint", "topic": None, "score": 0.5, "raw_distance": 1.0, "id": "b",
        "metadata": {}, "surroundings": None, "matched_via": None,
    }],
}  # fmt: skip


@pytest.mark.parametrize(
    ("type", "hit", "answer"),
    [
        ("seren_loci", {"id": "a", "key": "hull.colour", "value": "green", "score": 1.0}, LOCI_ANSWER),
        ("seren_memory", {"id": "b", "tier": "near", "content": "green paint"}, MEMORY_ANSWER),
    ],
)
def test_a_healthy_store_speaks_its_protocol(
    good_store: Callable[..., GoodStore], type: str, hit: dict[str, object], answer: object
) -> None:
    store = good_store(type, [hit])
    got = requests.post(store.url + "/search", json=QUERY, headers={"Authorization": "Bearer s3"}, timeout=5)
    assert got.json() == answer
    assert (store.searches[0].json, store.searches[0].headers["authorization"]) == (QUERY, "Bearer s3")


def test_a_healthy_callosum_names_its_inner_stores(good_store: Callable[..., GoodStore]) -> None:
    body = requests.post(good_store("callosum", [{"id": "c"}]).url + "/search", json=QUERY, timeout=5).json()
    assert (body["stores_searched"], body["skipped"], [hit["id"] for hit in body["hits"]]) == (["inner"], [], ["c"])


@pytest.mark.parametrize(("cut", "ids"), [(True, ["h-1", "h-2", "h-3"]), (False, ["h-1", "h-2", "h-3", "h-4", "h-5"])])
def test_a_healthy_store_cuts_unless_told_otherwise(
    good_store: Callable[..., GoodStore], cut: bool, ids: list[str]
) -> None:
    store = good_store("seren_memory", sample_hits("seren_memory", 5, "h"))
    store.cut = cut
    hits = requests.post(store.url + "/search", json=QUERY, timeout=5).json()["hits"]
    assert [hit["id"] for hit in hits] == ids


def test_a_healthy_store_can_be_changed_held_and_stopped_while_it_runs(good_store: Callable[..., GoodStore]) -> None:
    store = good_store("seren_memory")
    with requests.Session() as session:
        assert session.get(store.url + "/health", timeout=5).json() == {"ok": True}
        assert session.post(store.url + "/search", json={**QUERY, "n_results": 51}, timeout=5).status_code == 422
        store.status = 500
        assert session.post(store.url + "/search", json=QUERY, timeout=5).status_code == 500
        store.status, store.token = 200, "right"
        assert session.post(store.url + "/search", json=QUERY, timeout=5).status_code == 401
        store.token, store.reply = None, lambda asked: {"error": asked["query"]}
        assert session.post(store.url + "/search", json=QUERY, timeout=5).json() == {"error": "hull"}
        store.hold = threading.Event()
        with pytest.raises(requests.ReadTimeout):
            session.post(store.url + "/search", json=QUERY, timeout=0.1)
        store.stop()
        with pytest.raises(requests.ConnectionError):
            session.post(store.url + "/search", json=QUERY, timeout=5)
        store.hold = None
        store.start()
        assert session.post(store.url + "/search", json=QUERY, timeout=5).status_code == 200


def test_healthy_stores_run_in_a_process_of_their_own() -> None:
    command = [sys.executable, "-m", "tests.support.goodstore", "--type", "callosum", "--stores", "2", "--hits", "1"]
    with subprocess.Popen(command, cwd=REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdin
        for name in ("s1-1", "s2-1"):
            url = f"http://127.0.0.1:{int(process.stdout.readline())}/search"
            assert requests.post(url, json=QUERY, timeout=5).json()["hits"][0]["id"] == name
        process.stdin.close()
        assert process.wait(5) == 0


SERVER = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(os.environ.get("http_proxy", "none").encode())
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_a_server_process_is_awaited_stopped_and_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    port = free_port()
    command = [sys.executable, "-c", SERVER, str(port)]
    with ServerProcess(command, tmp_path, port, clean_environment(tmp_path / "home")) as server:
        assert requests.Session().get(server.url, timeout=5, proxies={"http": ""}).text == "none"
        assert (server.stop(), server.running, server.healthy()) == (-signal.SIGTERM, False, False)
        server.start()
        assert "GET /health" in server.stderr
        server.kill()
        assert not server.running


def test_a_server_that_dies_says_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such key: sotres')"]
    server = ServerProcess(command, tmp_path, 1, clean_environment(tmp_path / "home"))
    with pytest.raises(AssertionError, match="status 1 before it was ready:\nno such key: sotres"):
        server.start()


def test_the_service_starts_as_a_user_would_start_it(
    service: Callable[..., Service], good_store: Callable[..., GoodStore]
) -> None:
    store = good_store("seren_loci", [{"id": "a", "key": "hull.colour", "value": "green"}])
    store_url = store.url
    one = service(f"federation: {{stores: [{{name: facts, type: seren_loci, url: '{store_url}'}}]}}")
    assert [hit["id"] for hit in one.search("hull", n_results=3)["hits"]] == ["a"]
    assert store.searches[0].json["query"] == "hull"
    assert one.request("GET", "/health").json()["ok"] is True
    assert (one.stop(), one.running) == (0, False)
    one.start()
    assert problem(one.request("GET", "/nowhere"), 404)
    one.kill()


def test_a_service_that_refuses_to_start_says_why(service: Callable[..., Service]) -> None:
    with pytest.raises(AssertionError, match=r"(?s)status 78 before it was ready:.*prot"):
        service("server: {prot: 7423}")


def test_commands_run_to_their_end(tmp_path: Path) -> None:
    assert "Usage" in run_command(tmp_path, "--help").stdout


@pytest.mark.parametrize("variable", ["SEREN_SCC_PORT", "HTTPS_PROXY", "no_proxy", "NETRC"])
def test_nothing_of_the_developers_own_reaches_a_test(variable: str) -> None:
    assert variable not in os.environ


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_a_missing_part_is_skipped_at_home_and_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    require("there", "a thing")
    with pytest.raises(outcome, match="a thing is missing"):
        require(None, "a thing")


@pytest.mark.parametrize("text", ["NaN", '{"a": Infinity}', "[-Infinity]", '{"a": 1, "a": 2}'])
def test_json_that_is_not_strict_is_refused(text: str) -> None:
    with pytest.raises(AssertionError):
        strict_json(text)


def answer(status: int = 404, content_type: str = "application/problem+json", **changes: object) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    response.headers.update({"Content-Type": content_type, "X-Request-Id": "r1"})
    document = {"type": "about:blank", "title": "Not Found", "status": 404, "detail": "no store named 'x'", **changes}
    response._content = json.dumps(document).encode()
    return response


def test_a_right_problem_passes() -> None:
    assert problem(answer(), 404)["detail"] == "no store named 'x'"


@pytest.mark.parametrize(
    "wrong",
    [
        answer(status=500),
        answer(content_type="text/html"),
        answer(content_type="application/json"),
        answer(status=405),
        answer(detail=""),
        answer(detail=None),
        answer(detail="<h1>Not Found</h1>"),
        answer(detail="Traceback (most recent call last)"),
        answer(detail=f"cannot read {REPO}/x.yaml"),
        answer(detail="token hunter2 is wrong"),
        answer(errors={"name": []}),
        answer(stack="x"),
        answer(status=404, detail=float("nan")),
    ],
)
def test_a_wrong_problem_does_not_pass(wrong: requests.Response) -> None:
    with pytest.raises((AssertionError, KeyError)):
        problem(wrong, 404 if wrong.status_code != 405 else 405, secrets=["hunter2"])


PYTEST_OF_ITS_OWN = """
import threading
def test_leaves_a_thread(request):
    stop = threading.Event()
    request.session.stop_thread = stop
    threading.Thread(target=stop.wait, args=(30,), name="worker_7", daemon=True).start()
"""


def test_a_thread_left_behind_fails_the_test_that_left_it(tmp_path: Path) -> None:
    (tmp_path / "test_leak.py").write_text(PYTEST_OF_ITS_OWN, encoding="utf-8")
    (tmp_path / "conftest.py").write_text("from tests.conftest import no_thread_left\n", encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", str(tmp_path)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPO)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "threads left behind: ['worker_7']" in run.stdout
    assert run.returncode == 1


def test_real_facts_are_found_and_survive_a_restart(real_loci: RealStore) -> None:
    assert real_loci.search("hull.colour")[0]["value"] == "sea green with a white strake"
    with real_loci.stopped():
        assert not real_loci.healthy()
    assert real_loci.search("hull.colour")[0]["match_kind"] == "exact"


def test_real_episodes_are_found_by_meaning(real_memory: RealStore) -> None:
    hits = real_memory.search("waiting out a storm on an island", 3)
    assert "Sheltered three days from a gale" in hits[0]["content"]
    assert {"tier", "content", "topic", "score", "raw_distance", "id", "metadata"} <= set(hits[0])
    assert time.time() - hits[0]["metadata"]["ts"] < 3600
