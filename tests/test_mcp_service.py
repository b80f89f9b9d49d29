"""/mcp of the running service, and the tool over stdio: what takes real sockets, processes and time."""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from werkzeug.serving import make_server

from seren_corpus_callosum import Callosum, create_blueprint
from tests.support.goodstore import GoodStore, sample_hits
from tests.support.service import Service, run_command, service_environment

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
CALL = {
    "jsonrpc": "2.0",
    "id": 3,
    "method": "tools/call",
    "params": {"name": "search", "arguments": {"query": "violet"}},
}


@pytest.fixture
def config(good_store: Callable[..., GoodStore]) -> str:
    store = good_store("seren_loci", sample_hits("seren_loci", 3, "fact"))
    return f"federation: {{stores: [{{name: facts, type: seren_loci, url: '{store.url}'}}]}}\n"


def post(port: int, path: str, message: Any, *, chunked: bool = False) -> tuple[int, bytes]:
    """One POST that follows no redirect, with a length or in chunks."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    data = json.dumps(message).encode()
    body: Any = iter([data[:10], data[10:]]) if chunked else data
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"}, encode_chunked=chunked)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def ids(body: bytes) -> list[str]:
    return [hit["id"] for hit in json.loads(body)["result"]["structuredContent"]["hits"]]


class Portal:
    """Another Flask application under another server, in this process, with the blueprint under a prefix."""

    def __init__(self, config: Path) -> None:
        self.callosum = Callosum.from_config(config)
        app = Flask("portal")
        app.register_blueprint(create_blueprint(self.callosum), url_prefix="/memory")

        def mounted(environ: dict[str, Any], start_response: Any) -> Any:
            if environ["PATH_INFO"].startswith("/portal/"):
                environ.update(SCRIPT_NAME="/portal", PATH_INFO=environ["PATH_INFO"].removeprefix("/portal"))
            return app(environ, start_response)

        self.server = make_server("127.0.0.1", 0, mounted, threaded=True)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> "Portal":
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)
        self.callosum.close(grace_s=0)


# Redirects (B73)


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_both_paths_answer_without_a_redirect(
    service: Callable[..., Service], config: str, tmp_path: Path, chunked: bool
) -> None:
    running = service(config)
    for path in ("/mcp", "/mcp/"):
        status, body = post(running.port, path, CALL, chunked=chunked)
        assert (status, ids(body)) == (200, ["fact-1", "fact-2", "fact-3"]), path
    (tmp_path / "c.yaml").write_text(config)
    with Portal(tmp_path / "c.yaml") as portal:
        for path in ("/memory/mcp", "/memory/mcp/", "/portal/memory/mcp", "/portal/memory/mcp/"):
            status, body = post(portal.port, path, CALL, chunked=chunked)
            assert (status, ids(body)) == (200, ["fact-1", "fact-2", "fact-3"]), path


# GET on the endpoint (B74)


def test_fifty_waiting_gets_are_refused_at_once_and_hold_no_thread(
    service: Callable[..., Service], config: str
) -> None:
    running = service(config)
    post(running.port, "/mcp", LIST)
    connections = [http.client.HTTPConnection("127.0.0.1", running.port, timeout=10) for _ in range(50)]
    begun = time.monotonic()
    try:
        for connection in connections:
            connection.request("GET", "/mcp", headers={"Accept": "text/event-stream"})
        status, body = post(running.port, "/mcp", CALL)
        assert (status, ids(body)) == (200, ["fact-1", "fact-2", "fact-3"])
        for connection in connections:
            response = connection.getresponse()
            assert (response.status, response.headers["Allow"]) == (405, "POST")
            response.read()
        assert time.monotonic() - begun < 5
    finally:
        for connection in connections:
            connection.close()


# Nothing lives on between calls (B83)


def one_session(port: int, path: str) -> None:
    status, body = post(port, path, INITIALIZE)
    assert (status, json.loads(body)["result"]["protocolVersion"]) == (200, "2025-06-18")
    status, body = post(port, path, LIST)
    assert (status, len(json.loads(body)["result"]["tools"])) == (200, 1)
    status, body = post(port, path, CALL)
    assert (status, ids(body)) == (200, ["fact-1", "fact-2", "fact-3"])


def fifty_and_ten(port: int, path: str) -> None:
    wrong = {**CALL, "params": {"name": "search", "arguments": {}}}
    with ThreadPoolExecutor(10) as pool:
        assert list(pool.map(lambda _: one_session(port, path), range(10))) == [None] * 10  # the first calls, at once
    status, body = post(port, path, wrong)
    assert (status, json.loads(body)["result"]["isError"]) == (200, True)
    for _ in range(50):
        one_session(port, path)


def test_fifty_sessions_in_a_row_and_ten_at_once_all_succeed(service: Callable[..., Service], config: str) -> None:
    running = service(config)
    fifty_and_ten(running.port, "/mcp")
    assert "rror" not in running.stderr


def test_the_same_holds_in_another_application_under_another_server(config: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(config)
    with Portal(tmp_path / "c.yaml") as portal:
        fifty_and_ten(portal.port, "/memory/mcp")


def test_the_sdk_writes_no_line_for_each_call_into_the_log(service: Callable[..., Service], config: str) -> None:
    running = service(config)
    one_session(running.port, "/mcp")
    lines = running.stderr.splitlines()
    assert sum(" POST /mcp 200 " in line for line in lines) == 3
    assert not [line for line in lines if " mcp." in line]


# Over stdio


def spoken(*messages: Any) -> str:
    return "".join((message if isinstance(message, str) else json.dumps(message)) + "\n" for message in messages)


def test_what_is_piped_in_is_answered_and_then_the_command_ends(config: str, tmp_path: Path) -> None:
    (tmp_path / "seren-corpus-callosum.yaml").write_text(config)
    ran = run_command(
        tmp_path, "mcp", stdin=spoken(INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/initialized"}, LIST, CALL)
    )
    assert ran.returncode == 0, ran.stderr
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2, 3]
    assert ids(json.dumps(answers[2]).encode()) == ["fact-1", "fact-2", "fact-3"]
    assert "Traceback" not in ran.stderr


def test_only_messages_go_to_standard_output(tmp_path: Path) -> None:
    config = "federation: {stores: [{name: gone, type: seren_loci, url: 'http://127.0.0.1:1'}]}\nnonsense: 1\n"
    (tmp_path / "seren-corpus-callosum.yaml").write_text(config)
    ran = run_command(
        tmp_path, "mcp", stdin=spoken(INITIALIZE, "{broken", "", CALL), env={"SEREN_SCC_LOG_LEVEL": "debug"}
    )
    answers = {answer["id"]: answer for answer in map(json.loads, ran.stdout.splitlines())}
    assert answers[3]["result"]["isError"] is True
    assert "gone (unreachable: " in answers[3]["result"]["content"][0]["text"]
    assert "nonsense" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_line_that_is_no_message_is_answered_as_over_http(tmp_path: Path) -> None:
    deep = '{"jsonrpc": "2.0", "id": 9, "method": "ping", "params": %s}' % ('{"a":' * 300 + "1" + "}" * 300)
    broken = ["{broken", "[]", [LIST], {"jsonrpc": "2.0", "id": 2}, {"jsonrpc": "2.0", "id": None, "method": "ping"}]
    ran = run_command(tmp_path, "mcp", stdin=spoken(INITIALIZE, *broken, deep, LIST))
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [one["error"]["code"] for one in answers if one["id"] is None] == [-32700, -32600, -32600, -32600]
    assert [one["id"] for one in answers if "error" in one and one["id"]] == [2, 9]
    assert {one["id"] for one in answers if "result" in one} == {1, 2}


def test_lines_with_a_byte_order_mark_or_half_a_surrogate_pair_are_read(config: str, tmp_path: Path) -> None:
    (tmp_path / "seren-corpus-callosum.yaml").write_text(config)
    call = json.dumps(CALL).replace("violet", "violet \\ud83d")
    ran = run_command(tmp_path, "mcp", stdin="\ufeff" + spoken(INITIALIZE, call).replace("\n", "\r\n"))
    answers = {answer["id"]: answer for answer in map(json.loads, ran.stdout.splitlines())}
    assert answers.keys() == {1, 3}
    assert not answers[3]["result"]["isError"]


def test_an_odd_version_gets_the_newest_handshake_version_over_stdio_too(tmp_path: Path) -> None:
    asked = [{**INITIALIZE, "params": {"protocolVersion": version}} for version in ("9999-01-01", 123, None)]
    ran = run_command(tmp_path, "mcp", stdin=spoken(*asked))
    told = [json.loads(line)["result"]["protocolVersion"] for line in ran.stdout.splitlines()]
    assert told == ["2025-11-25", "2025-11-25", "2025-11-25"]


def test_a_client_that_is_gone_ends_the_command_without_a_traceback(
    tmp_path: Path, good_store: Callable[..., GoodStore]
) -> None:
    store = good_store("seren_loci", sample_hits("seren_loci", 3, "fact"))
    store.hold = threading.Event()
    (tmp_path / "c.yaml").write_text(
        f"federation: {{stores: [{{name: facts, type: seren_loci, url: '{store.url}', timeout_s: 60}}]}}"
    )
    command = subprocess.Popen(
        [sys.executable, "-m", "seren_corpus_callosum", "-c", str(tmp_path / "c.yaml"), "mcp"],
        cwd=tmp_path, env=service_environment(tmp_path),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
    )  # fmt: skip
    with command:
        assert command.stdin and command.stdout and command.stderr
        command.stdin.write(spoken(INITIALIZE, CALL))
        command.stdin.flush()
        assert json.loads(command.stdout.readline())["id"] == 1
        command.stdout.close()
        command.stdin.close()
        store.hold.set()
        told = command.stderr.read()
    assert command.returncode == 0
    assert "the client is gone" in told
    assert "Traceback" not in told


def test_a_cancelled_call_holds_nothing_up(tmp_path: Path, good_store: Callable[..., GoodStore]) -> None:
    hung = good_store("seren_loci")
    hung.delay_s = 60.0
    config = f"federation: {{stores: [{{name: hung, type: seren_loci, url: '{hung.url}', timeout_s: 60}}]}}\n"
    (tmp_path / "seren-corpus-callosum.yaml").write_text(config)
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}
    odd = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [3]}}
    ran = run_command(tmp_path, "mcp", stdin=spoken(INITIALIZE, CALL, LIST, odd, cancelled), timeout_s=20)
    assert ran.returncode == 0, ran.stderr
    assert {1, 2} <= {json.loads(line)["id"] for line in ran.stdout.splitlines()}
    assert "Traceback" not in ran.stderr


def test_a_configuration_with_faults_ends_the_command_with_78(tmp_path: Path) -> None:
    (tmp_path / "seren-corpus-callosum.yaml").write_text("server: {port: no}\n")
    ran = run_command(tmp_path, "mcp")
    assert (ran.returncode, ran.stdout) == (78, "")
    assert "port" in ran.stderr


def test_without_the_extra_the_command_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['mcp'] = None\n")
    environment = service_environment(tmp_path)
    environment["PYTHONPATH"] += f"{os.pathsep}{tmp_path}"
    ran = subprocess.run(
        [sys.executable, "-m", "seren_corpus_callosum", "mcp"],
        cwd=tmp_path, env=environment, input="", capture_output=True, encoding="utf-8", timeout=30, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "pip install 'seren-corpus-callosum[mcp]'" in ran.stderr
