"""A healthy store over real sockets (keep-alive, no Nagle), speaking one of the three protocols from a list of hits.

`python -m tests.support.goodstore --type seren_loci --port 0 --stores 2` prints one port a line and serves until
its standard input ends or it is terminated.
"""

import argparse
import contextlib
import json
import select
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

from .net import Gate
from .rawstore import Pem, server_context

JOIN_LIMIT_S = 5.0
MEMORY_CAP = 50

LOCI_HIT: dict[str, Any] = {
    "id": "", "project": "default", "key": "", "value": "", "why": None, "score": 0.5, "match_kind": "lexical",
    "source": "user", "raw_distance": None, "live": True, "superseded_at": None, "why_changed": None, "figures": 0,
    "recheck": None,
}  # fmt: skip
MEMORY_HIT: dict[str, Any] = {
    "tier": "short", "content": "", "topic": None, "score": 0.5, "raw_distance": 1.0, "id": "", "metadata": {},
    "surroundings": None, "matched_via": None,
}  # fmt: skip
CALLOSUM_HIT: dict[str, Any] = {
    "store": "inner", "id": "", "content": "", "score": 0.01, "store_rank": 1, "base_relevance": 0.5,
    "native_score": 0.5, "raw_distance": None, "metadata": {},
}  # fmt: skip
FULL_HIT = {"seren_loci": LOCI_HIT, "seren_memory": MEMORY_HIT, "callosum": CALLOSUM_HIT}


@dataclass(frozen=True, slots=True)
class Received:
    """One request. Header names are lower case, a repeated header is joined with a comma."""

    method: str
    path: str
    headers: dict[str, str]
    json: Any  # None: no body, or no JSON


class GoodStore:
    """Answers `hits`, cut to what was asked; every public attribute may be changed while it runs.

    A hit given as a dict is filled up with the protocol's other fields; anything else goes out as it is. `reply`
    replaces the whole answer. `hold`, an event, holds every answer back until it is set; `delay_s` delays each one.
    """

    def __init__(
        self,
        type: str = "seren_loci",
        hits: Sequence[Any] = (),
        *,
        port: int = 0,
        tls: ssl.SSLContext | tuple[Pem, Pem] | None = None,
    ) -> None:
        self.type = type
        self.hits: Sequence[Any] = hits
        self.port = port
        self.token: str | None = None  # what callers must send as bearer
        self.status = 200
        self.cut = True  # False: sends all hits, whatever was asked
        self.hold: threading.Event | None = None
        self.delay_s = 0.0
        self.reply: Callable[[Any], Any] | None = None
        self.extra: dict[str, Any] = {}  # more top-level fields of the answer: skipped, warnings, error
        self.requests: list[Received] = []
        self.stopping = threading.Event()
        self._context = server_context(*tls) if isinstance(tls, tuple) else tls
        self._changed = threading.Condition()
        self._server: Server | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}"

    @property
    def searches(self) -> list[Received]:
        return [request for request in self.requests if request.path.startswith("/search")]

    def start(self) -> None:
        """Starts, or starts again on the same port."""
        self.stopping.clear()
        self._server = Server(self, self._context)
        self.port = self._server.server_port
        self._server.start()

    def stop(self) -> None:
        """Closes every connection and joins every thread."""
        self.stopping.set()
        if self._server:
            self._server.stop()
            self._server = None

    def wait_for(self, fact: Callable[["GoodStore"], bool], timeout_s: float = 5.0) -> bool:
        """Waits until `fact` holds; looked at anew at every request."""
        with self._changed:
            return self._changed.wait_for(lambda: fact(self), timeout_s)

    def answer(self, request: Received) -> tuple[int, Any]:
        """Status and JSON of the answer to one request; waits as `hold` and `delay_s` say."""
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        if request.method == "GET" and request.path == "/health":
            return 200, {"ok": True}
        while (hold := self.hold) and not hold.wait(0.02) and not self.stopping.is_set():
            pass
        if self.delay_s:
            self.stopping.wait(self.delay_s)
        if self.token is not None and request.headers.get("authorization") != f"Bearer {self.token}":
            return 401, {"detail": "unauthorized"}
        if request.method != "POST" or request.path != "/search":
            return 404, {"detail": "Not Found"}
        asked = request.json
        if not isinstance(asked, dict) or not isinstance(asked.get("query"), str):
            return 422, {"detail": "query: text required"}
        if self.status != 200:
            return self.status, {"detail": "scripted failure"}
        return self._search(asked)

    def _search(self, asked: dict[str, Any]) -> tuple[int, Any]:
        if self.reply:
            return 200, self.reply(asked)
        n_results = asked.get("n_results", 10)
        if self.type == "seren_memory" and not 1 <= n_results <= MEMORY_CAP:
            return 422, {"detail": "n_results: 1..50"}
        hits = [FULL_HIT[self.type] | hit if isinstance(hit, dict) else hit for hit in self.hits]
        hits = hits[:n_results] if self.cut else hits
        query = asked["query"]
        around: dict[str, Any] = {
            "seren_loci": {"query": query, "project": asked.get("project"), "finder": "lexical"},
            "seren_memory": {"query": query, "searched_tiers": ["short", "near", "long"]},
            "callosum": {
                "query": query, "stores_searched": ["inner"], "skipped": [], "warnings": [], "k": 60, "took_ms": 1.0,
                "stores": [{"name": "inner", "weight": 1.0, "ms": 1.0, "returned": len(hits), "floored": 0}],
            },
        }[self.type]  # fmt: skip
        return 200, {**around, "hits": hits, **self.extra}


class Server(ThreadingHTTPServer):
    """The sockets and threads of one GoodStore."""

    daemon_threads = True
    request_queue_size = 256
    timeout = 0

    def __init__(self, store: GoodStore, context: ssl.SSLContext | None) -> None:
        self.store = store
        self._context = context
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._serving: set[threading.Thread] = set()
        super().__init__(("127.0.0.1", store.port), Handler)
        self._stopping = Gate()
        self._acceptor = threading.Thread(target=self._accept, name="goodstore", daemon=True)

    def start(self) -> None:
        self._acceptor.start()

    def stop(self) -> None:
        self._stopping.open()
        self._acceptor.join(JOIN_LIMIT_S)
        self._stopping.close()
        self.server_close()
        with self._lock:
            threads = list(self._serving)
            for sock in self._sockets:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(JOIN_LIMIT_S)
        assert not any(thread.is_alive() for thread in threads), "connections did not end"

    def _accept(self) -> None:
        while self._stopping.socket not in select.select([self.socket, self._stopping.socket], [], [])[0]:
            self.handle_request()

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self._serve, args=(request, client_address), name="goodstore-connection", daemon=True
        )
        with self._lock:
            self._serving.add(thread)
        thread.start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that went away is no fault of the store; anything else is shown."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def _serve(self, request: Any, client_address: Any) -> None:
        watch = request.dup()
        with self._lock:
            self._sockets.add(watch)
        try:
            wrapped = self._context.wrap_socket(request, server_side=True) if self._context else request
            self.process_request_thread(wrapped, client_address)
        except OSError:  # a failed handshake
            request.close()
        finally:
            with self._lock:
                self._sockets.discard(watch)
                self._serving.discard(threading.current_thread())
                watch.close()


class Handler(BaseHTTPRequestHandler):
    """One connection of a GoodStore."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Server
    default_headers: ClassVar[tuple[str, str]] = ("Content-Type", "application/json")

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        body: Any = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        try:
            body = json.loads(body)
        except ValueError:
            body = None
        self._answer(body)

    def _answer(self, body: Any) -> None:
        headers: dict[str, str] = {}
        for name, value in self.headers.items():
            key = name.lower()
            headers[key] = f"{headers[key]},{value}" if key in headers else value
        status, obj = self.server.store.answer(Received(self.command, self.path, headers, body))
        data = json.dumps(obj).encode()
        self.send_response(status)
        self.send_header(*self.default_headers)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        pass


def sample_hits(type: str, count: int, prefix: str = "hit") -> list[dict[str, Any]]:
    """`count` hits of one protocol, best first, with ids prefix-1, prefix-2, ... and relevances that fall evenly."""
    hits = []
    for number in range(1, count + 1):
        relevance = 1 - (number - 1) / count
        hit: dict[str, Any] = {"id": f"{prefix}-{number}"}
        if type == "seren_loci":
            hit |= {"key": f"{prefix}.{number}", "value": f"value {number}", "score": relevance}
        elif type == "seren_memory":
            hit |= {"content": f"{prefix} {number}", "score": relevance, "raw_distance": 1 / relevance - 1}
        else:
            hit |= {"content": f"{prefix} {number}", "store_rank": number, "base_relevance": relevance}
        hits.append(hit)
    return hits


def main() -> None:
    parser = argparse.ArgumentParser(prog="goodstore")
    parser.add_argument("--type", choices=sorted(FULL_HIT), default="seren_loci")
    parser.add_argument("--port", type=int, default=0, help="of the first store; the others get free ones")
    parser.add_argument("--stores", type=int, default=1)
    parser.add_argument("--hits", type=int, default=20)
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        for number in range(args.stores):
            hits = sample_hits(args.type, args.hits, f"s{number + 1}")
            store = stack.enter_context(GoodStore(args.type, hits, port=0 if number else args.port))
            print(store.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
