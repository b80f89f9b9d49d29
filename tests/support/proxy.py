"""An outbound proxy as a script for RawStore: CONNECT for https, whole URLs for http."""

import select
import socket
from urllib.parse import urlsplit

from .rawstore import Connection, Gone, Script

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
DENIED = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"


def proxy(authorization: str | None = None) -> Script:
    """Passes on what it is asked to; `authorization` is what callers must send as Proxy-Authorization."""

    def script(conn: Connection) -> None:
        while True:
            request = conn.read_request()
            if authorization is not None and request.headers.get("proxy-authorization") != authorization:
                conn.send(DENIED)
                return
            if request.method == "CONNECT":
                host, _, port = request.path.rpartition(":")
                with socket.create_connection((host, int(port)), 5) as upstream:
                    conn.send(ESTABLISHED)
                    _pump(conn, upstream)
                return
            parts = urlsplit(request.path)
            with socket.create_connection((parts.hostname, parts.port or 80), 5) as upstream:
                lines = [f"{request.method} {parts.path} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close"]
                kept = {
                    k: v
                    for k, v in request.headers.items()
                    if not k.startswith("proxy-") and k not in ("host", "connection")
                }
                lines += [f"{name}: {value}" for name, value in kept.items()]
                upstream.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + request.body)
                while data := upstream.recv(65536):
                    conn.send(data)
            return

    return script


def _pump(conn: Connection, upstream: socket.socket) -> None:
    stop = conn.store.stopping.socket
    while True:
        ready = select.select([conn.sock, upstream, stop], [], [])[0]
        if stop in ready:
            raise Gone
        for source, target in ((conn.sock, upstream), (upstream, conn.sock)):
            if source in ready:
                data = source.recv(65536)
                if not data:
                    return
                target.sendall(data)
