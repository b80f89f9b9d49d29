"""Two sample stores for `demo`: loopback servers that speak the wire formats of seren_loci and seren_memory.

Standard library only; nothing of the package but the sample memories may be imported here.
"""

import json
import re
import socket
import socketserver
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from .sample_memories import RefusedError, Search, episode_search, fact_search

SAMPLE_QUERY = "why larch for the planking"

MAX_BODY_BYTES = 1 << 20


class StoreServer(ThreadingHTTPServer):
    """One sample store on a free loopback port; closing it ends its connections and joins its threads."""

    request_queue_size = 64
    daemon_threads = True

    def __init__(self, search: Search) -> None:
        self.search = search
        self.guard = threading.Lock()
        self.connections: set[socket.socket] = set()
        self.threads: list[threading.Thread] = []
        super().__init__(("127.0.0.1", 0), StoreHandler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def server_bind(self) -> None:
        # HTTPServer's own server_bind looks its host name up, which can hang where names do not resolve.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def start(self) -> None:
        accepting = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        accepting.start()
        self.accepting = accepting

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
        with self.guard:
            for connection in self.connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # the client was quicker
                    pass
        for thread in [self.accepting, *self.threads]:
            thread.join()

    def process_request(self, request: Any, client_address: Any) -> None:
        serving = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        with self.guard:
            self.connections.add(request)
            self.threads = [thread for thread in self.threads if thread.is_alive()]
            self.threads.append(serving)
            serving.start()

    def shutdown_request(self, request: Any) -> None:
        with self.guard:
            self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that left is no news
            super().handle_error(request, client_address)


class StoreHandler(BaseHTTPRequestHandler):
    """POST /search and GET /health; everything else is a 4xx JSON answer."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave in one packet
    server: StoreServer

    def do_GET(self) -> None:
        self.answer("GET")

    def do_POST(self) -> None:
        self.answer("POST")

    def answer(self, method: str) -> None:
        try:
            body = self.read_body()
            allowed = {"/health": "GET", "/search": "POST"}.get(self.path.partition("?")[0])
            if allowed is None:
                raise RefusedError(404, "Not Found")
            if allowed != method:
                raise RefusedError(405, "Method Not Allowed")
            if method == "GET":
                self.reply(200, {"ok": True, "ts": time.time()})
            else:
                self.reply(200, self.server.search(parsed(body)))
        except RefusedError as refused:
            self.reply(refused.status, {"detail": refused.detail})

    def read_body(self) -> bytes:
        length = self.headers.get("Content-Length", "0" if self.command == "GET" else "")
        fault = None
        if not re.fullmatch(r"[0-9]{1,15}", length) or "Transfer-Encoding" in self.headers:
            fault = RefusedError(411, "Content-Length is required")
        elif int(length) > MAX_BODY_BYTES:
            fault = RefusedError(413, f"The body is over {MAX_BODY_BYTES} bytes")
        if fault:
            self.close_connection = True  # what follows would be read as the next request
            raise fault
        return self.rfile.read(int(length))

    def reply(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
        self.wfile.flush()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what http.server itself refuses: an unknown method, a broken request line, overlong headers."""
        status = 405 if code == HTTPStatus.NOT_IMPLEMENTED else code
        self.close_connection = True
        self.reply(status, {"detail": HTTPStatus(status).phrase})

    def log_message(self, format: str, *args: Any) -> None:
        """Stay quiet."""


def parsed(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RefusedError(422, [{"loc": ["body"], "msg": "JSON decode error", "type": "json_invalid"}]) from error
    if not isinstance(value, dict):
        raise RefusedError(422, [{"loc": ["body"], "msg": "Input should be an object", "type": "dict_type"}])
    return value


class SampleStores:
    """Both sample stores, as a context manager or by start() and stop()."""

    def __init__(self) -> None:
        self._servers: list[StoreServer] = []

    def start(self) -> Self:
        if not self._servers:
            self._servers = [StoreServer(fact_search()), StoreServer(episode_search())]
            for server in self._servers:
                server.start()
        return self

    def stop(self) -> None:
        while self._servers:
            self._servers.pop().stop()

    @property
    def loci_url(self) -> str:
        return self._servers[0].url

    @property
    def memory_url(self) -> str:
        return self._servers[1].url

    def store_entries(self) -> list[dict[str, Any]]:
        """Return the two entries of `federation.stores` that fan these stores."""
        return [
            {"name": "facts", "type": "seren_loci", "url": self.loci_url},
            {"name": "episodic", "type": "seren_memory", "url": self.memory_url},
        ]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()
