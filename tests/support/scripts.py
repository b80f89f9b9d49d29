"""Ready-made scripts for RawStore: each is one way in which a store misbehaves (or, answer_*, does not)."""

import gzip
import itertools
import json
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Literal

from .rawstore import Connection, Request, Script

EMPTY: dict[str, Any] = {"hits": []}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
BOMB_BYTES = 50_000_000
Headers = Mapping[str, str] | Iterable[tuple[str, str]]


def head(status: int = 200, headers: Headers = ()) -> bytes:
    """Status line and header block as bytes; nothing is added to what is given."""
    phrase = HTTPStatus(status).phrase if status in HTTPStatus.__members__.values() else "Odd"
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in pairs)]
    return "\r\n".join([*lines, "", ""]).encode("utf-8")


def whole(body: bytes, status: int = 200, headers: Headers | None = None) -> bytes:
    """A complete answer; `headers` replace the JSON content type, Content-Length is always right."""
    given = {"Content-Type": "application/json"} if headers is None else headers
    pairs = list(given.items() if isinstance(given, Mapping) else given)
    return head(status, [*pairs, ("Content-Length", str(len(body)))]) + body


def each_request(answer: Callable[[Connection, Request], bytes]) -> Script:
    """Answers request after request on one connection, as a healthy server with keep-alive does."""

    def script(conn: Connection) -> None:
        while True:
            conn.send(answer(conn, conn.read_request()))

    return script


def answer_bytes(body: bytes, status: int = 200, headers: Headers | None = None) -> Script:
    return each_request(lambda conn, request: whole(body, status, headers))


def answer_json(obj: Any, status: int = 200) -> Script:
    """`obj` is the value, or a function of the request. NaN and Infinity go out as Python writes them."""
    return each_request(lambda conn, request: json_answer(obj(request) if callable(obj) else obj, status))


def answer_held(obj: Any = EMPTY) -> Script:
    """Answers, but only once the store is released."""

    def answer(conn: Connection, request: Request) -> bytes:
        conn.hang()
        return json_answer(obj)

    return each_request(answer)


def json_answer(obj: Any, status: int = 200) -> bytes:
    return whole(json.dumps(obj).encode(), status)


def hang_on_accept(conn: Connection) -> None:
    """Reads nothing: also a TLS handshake that is never answered (scheme="https", no tls)."""
    conn.hang()


def hang_after_request(conn: Connection) -> None:
    conn.read_request()
    conn.hang()


def hang_after_headers(conn: Connection) -> None:
    conn.read_request()
    conn.send(head(200, {"Content-Type": "application/json", "Content-Length": "100"}))
    conn.hang()


def drip_headers(every_s: float = 0.05) -> Script:
    """A header block that never ends, one byte at a time."""

    def script(conn: Connection) -> None:
        conn.read_request()
        conn.drip(b"HTTP/1.1 200 OK\r\n", every_s)
        conn.drip(_bytes_of(f"X-Pad-{n}: {'x' * 20}\r\n" for n in itertools.count()), every_s)

    return script


def drip_body(
    framing: Literal["content-length", "chunked", "close"] = "content-length",
    every_s: float = 0.05,
    obj: Any = EMPTY,
) -> Script:
    """A right answer whose body comes one byte at a time; with `close` the end of the stream ends it.

    When released, the rest comes at once. The text is padded so that it lasts for 2000 drips.
    """

    def script(conn: Connection) -> None:
        conn.read_request()
        body = json.dumps(obj).encode().ljust(2000)
        length = {"content-length": [("Content-Length", str(len(body)))], "chunked": [("Transfer-Encoding", "chunked")]}
        conn.send(head(200, [("Content-Type", "application/json"), *length.get(framing, [])]))
        if framing == "chunked":
            body = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
        conn.drip(body, every_s)

    return script


def drip_handshake(context: ssl.SSLContext, every_s: float = 0.05) -> Script:
    """The right bytes of a TLS handshake, one at a time; use it with scheme="https" and no tls."""

    def script(conn: Connection) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=True)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                conn.drip(outgoing.read(), every_s)
                incoming.write(conn.receive())
        conn.drip(outgoing.read(), every_s)
        conn.hang()

    return script


def endless_100_continue(every_s: float = 0.01) -> Script:
    def script(conn: Connection) -> None:
        conn.read_request()
        conn.drip(itertools.repeat(CONTINUE), every_s)

    return script


def redirect_to(url: str, status: int = 302, body: bytes = b"", headers: Headers = ()) -> Script:
    """`url` may be a path: then it leads back to the store itself, for ever."""
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    return answer_bytes(body, status, [("Location", url), *pairs])


def gzip_bomb(layers: int = 1) -> Script:
    """Valid JSON of 50 MB in about 50 kB of gzip; more layers are smaller still, each named in Content-Encoding."""
    body = b'{"hits": [' + b" " * BOMB_BYTES + b"]}"
    for _ in range(layers):
        body = gzip.compress(body, compresslevel=6 if len(body) > BOMB_BYTES else 9, mtime=0)
    return answer_bytes(
        body, headers={"Content-Type": "application/json", "Content-Encoding": ", ".join(["gzip"] * layers)}
    )


def endless_stream(framing: Literal["chunked", "close"] = "close", piece: bytes = b" " * 65536) -> Script:
    """Sends as fast as it is read, without end."""

    def script(conn: Connection) -> None:
        conn.read_request()
        chunked = framing == "chunked"
        conn.send(head(200, [("Content-Type", "application/json"), *[("Transfer-Encoding", "chunked")] * chunked]))
        conn.drip(itertools.repeat(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece), 0)

    return script


def close_after_answer(obj: Any = EMPTY, after_s: float = 0.0) -> Script:
    """A right answer that promises keep-alive; then the connection is closed."""

    def script(conn: Connection) -> None:
        conn.read_request()
        conn.send(json_answer(obj))
        conn.pause(after_s)

    return script


def close_on_second_request(obj: Any = EMPTY, *, reset: bool = False) -> Script:
    """Answers the first request of a connection and drops the connection at its second."""

    def script(conn: Connection) -> None:
        conn.read_request()
        conn.send(json_answer(obj))
        conn.read_request()
        if reset:
            conn.reset()

    return script


def close_after_request(conn: Connection) -> None:
    conn.read_request()


def reset_after_request(conn: Connection) -> None:
    conn.read_request()
    conn.reset()


def reset_on_accept(conn: Connection) -> None:
    conn.reset()


def raw_answer(data: bytes) -> Script:
    """Exactly these bytes after a request, then the end of the stream: garbage, odd status lines, half headers."""

    def script(conn: Connection) -> None:
        conn.read_request()
        conn.send(data)

    return script


def truncated_body(body: bytes = b'{"hits": [', missing_bytes: int = 100) -> Script:
    """Content-Length promises more than comes before the connection is closed."""
    length = str(len(body) + missing_bytes)
    return raw_answer(head(200, {"Content-Type": "application/json", "Content-Length": length}) + body)


def _bytes_of(lines: Iterable[str]) -> Iterator[bytes]:
    for line in lines:
        for byte in line.encode():
            yield bytes([byte])
