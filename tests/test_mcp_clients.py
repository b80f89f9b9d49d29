"""Other people's MCP clients against the real service: the official SDKs, fastmcp, the inspector."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.checks import REPO, require
from tests.support.goodstore import GoodStore, sample_hits
from tests.support.net import free_port
from tests.support.process import ServerProcess, clean_environment
from tests.support.service import Service, service_environment

REAL = Path(os.environ.get("SEREN_TEST_REAL_STORES") or REPO / ".real")
NODE = REAL / "mcp_node"
DRIVERS = Path(__file__).parent / "mcp_clients"
TOKEN = "a-token"
HUNG_S = 2.0  # that the store which hangs may take
Stores = tuple[GoodStore, GoodStore]
CLIENTS = ("sdk1", "sdk2", "sdk2-handshake", "sdk2-newest", "fastmcp", "typescript")

pytestmark = pytest.mark.slow

PORTAL = """
import sys
from flask import Flask
from waitress import serve
from seren_corpus_callosum import Callosum, create_blueprint

app = Flask("portal")
app.register_blueprint(create_blueprint(Callosum.from_config(sys.argv[1])), url_prefix="/memory")
app.add_url_rule("/health", view_func=lambda: "up")

def mounted(environ, start_response):
    path = environ["PATH_INFO"]
    if path.startswith("/portal/"):
        environ.update(SCRIPT_NAME="/portal", PATH_INFO=path.removeprefix("/portal"))
    return app(environ, start_response)

serve(mounted, host="127.0.0.1", port=int(sys.argv[2]), threads=16)
"""


def command(client: str) -> list[str]:
    """The command that drives `client`, without the address; skips where the client is not installed."""
    if client == "typescript":
        require((NODE / "node_modules/@modelcontextprotocol/sdk").exists(), "the TypeScript SDK (.ci/mcp_clients.sh)")
        return ["node", str(DRIVERS / "driver.cjs"), str(NODE)]
    python = {"sdk1": REAL / "mcp1/bin/python", "fastmcp": REAL / "fastmcp/bin/python"}.get(client)
    require(python is None or python.exists(), f"{client} (.ci/mcp_clients.sh)")
    return [str(python or sys.executable), str(DRIVERS / "driver.py"), client]


class Driven:
    """One client process that is told what to do, line by line."""

    def __init__(self, argv: list[str], folder: Path) -> None:
        self.stderr = folder / "client.err"
        with self.stderr.open("wb") as err:
            self.process = subprocess.Popen(
                argv,
                cwd=folder,
                env=clean_environment(folder / "home"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                encoding="utf-8",
            )

    def ask(self, timeout_s: float = 30.0, **what: Any) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], timeout_s)
        line = self.process.stdout.readline() if ready else ""
        assert line, f"no answer to {what}:\n{self.stderr.read_text()}"
        return json.loads(line)

    def tools(self) -> list[str]:
        names: list[str] = self.ask(do="list")
        return names

    def search(self, times: int = 1) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = self.ask(do="call", query="violet", times=times)
        return results

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[Callable[..., Driven]]:
    with ExitStack() as stack:

        def start(argv: list[str], url: str, token: str = "") -> Driven:
            one = Driven([*argv, url, *([token] if token else [])], tmp_path)
            stack.callback(one.close)
            return one

        yield start


@pytest.fixture
def two_stores(good_store: Callable[..., GoodStore]) -> tuple[GoodStore, GoodStore]:
    return (
        good_store("seren_loci", sample_hits("seren_loci", 3, "fact")),
        good_store("seren_memory", sample_hits("seren_memory", 3, "episode")),
    )


def configured(two_stores: Stores, token: str = "") -> str:
    facts, episodic = two_stores
    return json.dumps(
        {
            "server": {"bearer_token": token},
            "federation": {
                "per_store_timeout_s": 10.0,
                "stores": [
                    {"name": "facts", "type": "seren_loci", "url": facts.url},
                    {"name": "episodic", "type": "seren_memory", "url": episodic.url, "timeout_s": HUNG_S},
                ],
            },
        }
    )


def ids(result: dict[str, Any]) -> list[str]:
    assert not result["error"], result
    return [hit["id"] for hit in result["structured"]["hits"]]


MERGED = ["fact-1", "episode-1", "fact-2", "episode-2", "fact-3", "episode-3"]


def everything_works(client: Driven, server: ServerProcess, episodic: GoodStore) -> None:
    """Lists, calls, calls after a kill and a restart with what it knows, 10 at once, with one store hung."""
    assert client.tools() == ["search"]
    assert ids(client.search()[0]) == MERGED
    server.kill()
    server.start()
    assert ids(client.search()[0]) == MERGED
    assert client.tools() == ["search"]
    assert [ids(result) for result in client.search(times=10)] == [MERGED] * 10
    episodic.delay_s = 30.0
    result = client.search()[0]
    assert ids(result) == ["fact-1", "fact-2", "fact-3"]
    assert [(row["name"], row["kind"]) for row in result["structured"]["skipped"]] == [("episodic", "timeout")]
    assert "Not searched: episodic (timeout: " in result["text"]


Drive = Callable[..., Driven]


@pytest.fixture
def portal(tmp_path: Path, two_stores: Stores) -> Iterator[Callable[[str], ServerProcess]]:
    """Starts another Flask application that a blueprint was mounted into."""
    with ExitStack() as stack:

        def start(token: str) -> ServerProcess:
            (tmp_path / "c.yaml").write_text(configured(two_stores, token), encoding="utf-8")
            port = free_port()
            argv = [sys.executable, "-c", PORTAL, str(tmp_path / "c.yaml"), str(port)]
            return stack.enter_context(ServerProcess(argv, tmp_path, port, service_environment(tmp_path)))

        yield start


@pytest.mark.parametrize("name", CLIENTS)
def test_every_client_works_standalone_before_and_after_a_restart(
    name: str, service: Callable[..., Service], driven: Drive, two_stores: Stores
) -> None:
    argv = command(name)
    running = service(configured(two_stores, TOKEN))
    everything_works(driven(argv, f"{running.url}/mcp", TOKEN), running, two_stores[1])


@pytest.mark.parametrize("name", CLIENTS)
def test_every_client_works_embedded_before_and_after_a_restart(
    name: str, portal: Callable[[str], ServerProcess], driven: Drive, two_stores: Stores
) -> None:
    argv = command(name)
    server = portal(TOKEN)
    everything_works(driven(argv, f"{server.url}/portal/memory/mcp", TOKEN), server, two_stores[1])
    assert "Traceback" not in server.stderr


@pytest.mark.parametrize("name", ["sdk2", "typescript"])
def test_clients_work_without_a_token_too(
    name: str,
    service: Callable[..., Service],
    portal: Callable[[str], ServerProcess],
    driven: Drive,
    two_stores: Stores,
) -> None:
    argv = command(name)
    running = service(configured(two_stores))
    assert ids(driven(argv, f"{running.url}/mcp/").search()[0]) == MERGED
    server = portal("")
    assert ids(driven(argv, f"{server.url}/memory/mcp").search()[0]) == MERGED


def inspected(*arguments: str, folder: Path) -> dict[str, Any]:
    cli = NODE / "node_modules/@modelcontextprotocol/inspector/cli/build/cli.js"
    require(cli.exists(), "the MCP inspector (.ci/mcp_clients.sh)")
    ran = subprocess.run(
        ["node", str(cli), "--cli", *arguments],
        cwd=folder,
        env=clean_environment(folder / "home"),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr + ran.stdout
    told: dict[str, Any] = json.loads(ran.stdout[ran.stdout.index("{") :])
    return told


def test_the_inspector_lists_and_calls_the_tool(
    service: Callable[..., Service], two_stores: Stores, tmp_path: Path
) -> None:
    running = service(configured(two_stores, TOKEN))
    there = [f"{running.url}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {TOKEN}"]
    listed = inspected(*there, "--method", "tools/list", folder=tmp_path)
    assert [tool["name"] for tool in listed["tools"]] == ["search"]
    asked = ["--method", "tools/call", "--tool-name", "search", "--tool-arg", "query=violet"]
    called = inspected(*there, *asked, folder=tmp_path)
    assert [hit["id"] for hit in called["structuredContent"]["hits"]] == MERGED


def test_a_client_of_the_current_sdk_works_over_stdio(two_stores: Stores, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(configured(two_stores), encoding="utf-8")
    script = """
import asyncio, json, sys
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    arguments = ["-m", "seren_corpus_callosum", "-c", sys.argv[1], "mcp"]
    command = stdio_client(StdioServerParameters(command=sys.executable, args=arguments))
    async with Client(command, mode=sys.argv[2]) as client:
        results = await asyncio.gather(*(client.call_tool("search", {"query": "violet"}) for _ in range(10)))
        print(json.dumps([[hit["id"] for hit in result.structured_content["hits"]] for result in results]))

asyncio.run(main())
"""
    for mode in ("legacy", "auto", "2026-07-28"):
        ran = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "c.yaml"), mode],
            cwd=tmp_path,
            env=service_environment(tmp_path),
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout) == [MERGED] * 10
        assert "Traceback" not in ran.stderr


def test_a_hung_store_holds_a_call_for_its_deadline_only(
    service: Callable[..., Service], driven: Drive, two_stores: Stores
) -> None:
    running = service(configured(two_stores))
    client = driven(command("sdk2"), f"{running.url}/mcp")
    client.search()
    two_stores[1].delay_s = 30.0
    begun = time.monotonic()
    assert len(client.search(times=10)) == 10
    assert time.monotonic() - begun < HUNG_S + 2.0
