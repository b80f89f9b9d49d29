"""A store that is sick on purpose: raw TCP, a thread a connection, each running a script.

scripts.py has ready-made scripts.
"""

import contextlib
import json
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from .net import Gate, peer_gone

Script = Callable[["Connection"], None]
Pem = str | Path
JOIN_LIMIT_S = 5.0


class Gone(Exception):
    """The peer closed the connection, or the store is stopping: a script ends here."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came in. Header names are lower case; a repeated header is joined with a comma."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    raw: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """One accepted connection, as its script handles it. `number` counts from 1."""

    def __init__(self, store: "RawStore", sock: socket.socket, number: int) -> None:
        self.store = store
        self.number = number
        self.sock = sock
        # ssl takes the descriptor over: only this copy can be watched and shut down from another thread.
        self._watch = sock.dup()
        self._pending = b""

    def start_tls(self, context: ssl.SSLContext) -> None:
        self.sock = context.wrap_socket(self.sock, server_side=True)

    def read_request(self) -> Request:
        """Reads one whole request, its body too, and files it in the store's list."""
        head = self._read_until(b"\r\n\r\n")
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            key, value = name.strip().lower(), value.strip()
            headers[key] = f"{headers[key]},{value}" if key in headers else value
        raw = head
        if "chunked" in headers.get("transfer-encoding", ""):
            body = b""
            while size := int(line_ := self._read_until(b"\r\n"), 16):
                chunk = self._read_exactly(size + 2)
                body, raw = body + chunk[:-2], raw + line_ + chunk
            raw += line_ + self._read_until(b"\r\n")
        else:
            body = self._read_exactly(int(headers.get("content-length", "0")))
            raw += body
        request = Request(method, path, headers, body, raw)
        self.store.file_request(request)
        return request

    def receive(self) -> bytes:
        """Some bytes as they come; raises Gone at the end of the stream."""
        data, self._pending = self._pending, b""
        if not data:
            data = self.sock.recv(65536)
        if not data:
            raise Gone
        return data

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def drip(self, data: bytes | Iterable[bytes], every_s: float) -> None:
        """Sends one byte (or one piece) at a time. When released, the rest of `data` given as bytes goes at once."""
        if not isinstance(data, bytes):
            for piece in data:
                self.send(piece)
                if self.pause(every_s):
                    return
            return
        for at in range(len(data)):
            if self.pause(every_s):
                self.send(data[at:])
                return
            self.send(data[at : at + 1])

    def hang(self) -> None:
        """Reads nothing, sends nothing, until the store is released; raises Gone when the peer closes."""
        self._wait(None)

    def pause(self, seconds: float) -> bool:
        """Waits at most that long; true when released. Raises Gone when the peer closes."""
        return self._wait(seconds)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._watch.close()
        with contextlib.suppress(OSError):
            self.sock.close()

    def reset(self) -> None:
        """Closes with RST in place of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def shut(self) -> None:
        """Wakes the script out of any call on this connection; for the store's own thread."""
        with contextlib.suppress(OSError):
            self._watch.shutdown(socket.SHUT_RDWR)

    def _read_until(self, mark: bytes) -> bytes:
        data = b""
        while mark not in data:
            data += self.receive()
        end = data.index(mark) + len(mark)
        self._pending = data[end:]
        return data[:end]

    def _read_exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.receive()
        data, self._pending = data[:size], data[size:] + self._pending
        return data

    def _wait(self, seconds: float | None) -> bool:
        stopping, released = self.store.stopping, self.store.released
        deadline = None if seconds is None else time.monotonic() + seconds
        while not (stopping.is_open or released.is_open):
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            if peer_gone(self._watch, (stopping, released), left):
                raise Gone
        if stopping.is_open:
            raise Gone
        return True


class RawStore:
    """Runs `script` on every connection, on a free loopback port. A script that fails fails the test at stop().

    `tls` (a context, or certificate and key files) makes the handshake before the script runs; with `scheme="https"`
    and no `tls` the script holds a connection on which no handshake took place. `script` may be replaced while running.
    """

    def __init__(
        self,
        script: Script,
        *,
        tls: ssl.SSLContext | tuple[Pem, Pem] | None = None,
        scheme: str | None = None,
        port: int = 0,
    ) -> None:
        self.script = script
        self.scheme = scheme or ("https" if tls else "http")
        self.port = port
        self.connections = 0
        self.requests: list[Request] = []
        self.released = Gate()
        self.stopping = Gate()
        self._context = server_context(*tls) if isinstance(tls, tuple) else tls
        self._changed = threading.Condition()
        self._open: set[Connection] = set()
        self._threads: list[threading.Thread] = []
        self._faults: list[Exception] = []

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=256)
        self.port = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name="rawstore", daemon=True)
        self._acceptor.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        with self._changed:
            return len(self._open)

    def release(self) -> None:
        """Ends every hang, pause and drip, present and to come, until hold()."""
        self.released.open()

    def hold(self) -> None:
        self.released.shut()

    def wait_for(self, fact: Callable[["RawStore"], bool], timeout_s: float = 5.0) -> bool:
        """Waits until `fact` holds; looked at anew at every connection, request and end of a connection."""
        with self._changed:
            return self._changed.wait_for(lambda: fact(self), timeout_s)

    def file_request(self, request: Request) -> None:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()

    def stop(self) -> None:
        """Ends all connections and threads; may be called twice."""
        if self.stopping.is_open:
            return
        self.stopping.open()
        self._acceptor.join(JOIN_LIMIT_S)
        self._listener.close()
        with self._changed:
            for connection in self._open:
                connection.shut()
        for thread in self._threads:
            thread.join(JOIN_LIMIT_S)
        alive = [thread.name for thread in self._threads if thread.is_alive()]
        if not alive:
            self.released.close()
            self.stopping.close()
        assert not alive, f"scripts did not end: {alive}"
        if self._faults:
            raise self._faults[0]

    def _accept(self) -> None:
        while True:
            readable = select.select([self._listener, self.stopping.socket], [], [])[0]
            if self.stopping.socket in readable:
                return
            sock = self._listener.accept()[0]
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._changed:
                self.connections += 1
                connection = Connection(self, sock, self.connections)
                self._open.add(connection)
                self._changed.notify_all()
            name = f"rawstore-{connection.number}"
            thread = threading.Thread(target=self._serve, args=(connection,), name=name, daemon=True)
            self._threads = [t for t in self._threads if t.is_alive()]
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: Connection) -> None:
        try:
            if self._context:
                connection.start_tls(self._context)
            self.script(connection)
        except (Gone, OSError):  # the peer went away, or the handshake failed: what the tests are about
            pass
        except Exception as fault:  # shown by stop(), in the test's own thread
            self._faults.append(fault)
        finally:
            with self._changed:
                self._open.discard(connection)
                connection.close()
                self._changed.notify_all()


def server_context(certificate: Pem, key: Pem) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
