"""What tools/call costs more than POST /search: both against one running service, in turns, on kept-alive connections.

`python bench/mcp.py [CALLS]` prints the medians and ends with 1 if the difference is over 4 ms.
"""

import http.client
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT_MS = 4.0
REPO = Path(__file__).resolve().parents[1]
MESSAGE = {"name": "search", "arguments": {"query": "violet", "n_results": 10}}
REQUESTS = {
    "/search": {"query": "violet", "n_results": 10},
    "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": MESSAGE},
}


def timed_ms(connection: http.client.HTTPConnection, path: str) -> float:
    body = json.dumps(REQUESTS[path])
    begun = time.perf_counter()
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    told = json.loads(response.read())
    ms = (time.perf_counter() - begun) * 1000
    hits = told["hits"] if path == "/search" else told["result"]["structuredContent"]["hits"]
    if response.status != 200 or len(hits) != 10:
        raise SystemExit(f"{path}: {response.status} with {len(hits)} hits")
    return ms


def answering(port: int, process: "subprocess.Popen[str]") -> http.client.HTTPConnection:
    """A connection to the service once it answers."""
    deadline = time.monotonic() + 30
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("GET", "/health")
            connection.getresponse().read()
            return connection
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the service did not start") from None
            time.sleep(0.05)


def main(calls: int) -> int:
    sys.path.insert(0, str(REPO))
    from tests.support.net import free_port

    with tempfile.TemporaryDirectory() as folder:
        stores = subprocess.Popen(
            [sys.executable, "-m", "tests.support.goodstore", "--type", "seren_loci", "--stores", "2"],
            cwd=REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert stores.stdin and stores.stdout
        select.select([stores.stdout], [], [], 30)
        ports = [int(stores.stdout.readline()) for _ in range(2)]
        entries = [{"name": f"store-{at}", "type": "seren_loci", "url": f"http://127.0.0.1:{at}"} for at in ports]
        config = Path(folder) / "c.yaml"
        config.write_text(json.dumps({"federation": {"stores": entries}}))
        port = free_port()
        env = {**os.environ, "SEREN_SCC_HOST": "127.0.0.1", "SEREN_SCC_PORT": str(port), "SEREN_SCC_LOG_LEVEL": "error"}
        service = subprocess.Popen(
            [sys.executable, "-m", "seren_corpus_callosum", "-c", str(config)], cwd=REPO, env=env, text=True
        )
        try:
            connection = answering(port, service)
            for path in REQUESTS:
                for _ in range(20):
                    timed_ms(connection, path)
            taken_ms: dict[str, list[float]] = {path: [] for path in REQUESTS}
            for _ in range(calls):
                for path in REQUESTS:
                    taken_ms[path].append(timed_ms(connection, path))
            connection.close()
        finally:
            service.terminate()
            service.wait(10)
            stores.stdin.close()
            stores.wait(10)
    medians_ms = {path: statistics.median(values) for path, values in taken_ms.items()}
    more_ms = medians_ms["/mcp"] - medians_ms["/search"]
    print(f"median of {calls}: POST /search {medians_ms['/search']:.2f} ms, tools/call {medians_ms['/mcp']:.2f} ms")
    print(f"tools/call costs {more_ms:.2f} ms more (at most {LIMIT_MS:g})")
    return int(more_ms > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300))
