"""Connections that the deadline of a call can cut off, in every phase: connecting, TLS, sending, header, body."""

import http.client
import os
import socket
import ssl
import threading
import time
from typing import Any

import requests
import urllib3
import urllib3.connection
import urllib3.exceptions

from .errors import StoreError
from .urls import is_forbidden


class Call:
    """One call to one store: its deadline, and the socket to shut down when it is aborted."""

    def __init__(self, limit_s: float, *, started: float | None = None, managed: bool = False) -> None:
        self.limit_s = limit_s
        self.deadline = (time.monotonic() if started is None else started) + limit_s
        self.managed = managed
        self.fresh = False  # wants a connection that was never used
        self.asked = False  # the store was called: not all the time went by before
        self.reused = False  # was sent over a kept-alive connection
        self.answered = False  # a byte of the answer has come
        self.ended_by: StoreError | None = None
        self.done_at: float | None = None  # monotonic; when its answer was read
        self._lock = threading.Lock()
        self._handle: _Handle | None = None

    def left_s(self) -> float:
        return self.deadline - time.monotonic()

    def timed_out(self) -> StoreError:
        return StoreError("timeout", f"no answer within {round(self.limit_s, 3)} s")

    def abort(self, error: StoreError | None = None) -> None:
        """End the call in whatever phase it is; whoever works on it gets `error`, a timeout by default."""
        with self._lock:
            if self.ended_by is None:
                self.ended_by = error or self.timed_out()
            if self._handle is not None:
                self._handle.shut_down()

    def attach(self, handle: "_Handle") -> None:
        with self._lock:
            if self.ended_by is not None:
                raise self.ended_by
            self._handle = handle

    def detach(self) -> None:
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is not None and handle.is_call_s:
            handle.close()

    def takes_over(self, handle: "_Handle") -> bool:
        """Whether the handle is in use here, and from now on closed by `detach`."""
        with self._lock:
            handle.is_call_s = handle is self._handle
            return handle.is_call_s


class _Handle:
    """A second descriptor of a connection's socket: TLS takes the first one over, and a connect hides it."""

    is_call_s = False  # its connection is closed: the call closes it

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock.dup()
        self._lock = threading.Lock()

    def shut_down(self) -> None:
        # Without the lock the number of a descriptor closed meanwhile could already be another socket's.
        with self._lock:
            try:
                self._sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed, or not connected: nobody waits on it

    def close(self) -> None:
        with self._lock:
            self._sock.close()


doing = threading.local()  # .call: what this worker thread is doing, for the connection that urllib3 makes for it


class _Answer(http.client.HTTPResponse):
    def begin(self) -> None:
        if self.fp.peek(1):
            doing.call.answered = True
        super().begin()
        told = "Content-Length" in self.headers or "Transfer-Encoding" in self.headers or self.headers.defects
        # Of an end it cannot tell http.client makes "when the store closes"; one that keeps connections never does.
        if told and self.length is None and not self.chunked:
            raise http.client.HTTPException("the end of the answer cannot be told")

    def _read_next_chunk_size(self) -> int:
        size: int = super()._read_next_chunk_size()  # type: ignore[misc]
        if size < 0:  # http.client would read on until the store stops sending, however much that is
            raise http.client.HTTPException("a chunk of less than nothing")
        return size

    def _read_status(self) -> tuple[str, int, str]:
        version, status, reason = super()._read_status()  # type: ignore[misc]
        # http.client passes over 100 alone, and would take 103 Early Hints for the answer.
        return version, 100 if 101 < status < 200 else status, reason


class _Abortable(urllib3.connection.HTTPConnection):
    """A connection that its call can shut down from another thread, from before it connects."""

    response_class = _Answer
    handle: _Handle | None = None
    call: Call | None = None
    requests_sent = 0
    _held_back: list[bytes] | None = None

    def _new_conn(self) -> socket.socket:
        call: Call = doing.call
        sock, self.handle = _connected(call, self._dns_host, self.port or self.default_port)
        return sock

    def request(self, *args: Any, **kwargs: Any) -> None:
        call: Call = doing.call
        self.call = call
        call.reused = self.requests_sent > 0
        self.requests_sent += 1
        if self.handle is not None:
            call.attach(self.handle)
        held_back: list[bytes] = []
        self._held_back = held_back
        try:
            super().request(*args, **kwargs)
        finally:
            self._held_back = None
        self.send(b"".join(held_back))

    def send(self, data: Any) -> None:
        """Head and body leave in one piece: each piece would wake the store, and hand over the interpreter, again."""
        if self._held_back is None:
            super().send(data)
        else:
            self._held_back.append(data)

    def close(self) -> None:
        super().close()
        self.requests_sent = 0
        handle, self.handle = self.handle, None
        # An answer that ends with its connection is read on after this, and must stay abortable.
        if handle is not None and not (self.call is not None and self.call.takes_over(handle)):
            handle.close()


class _Connection(_Abortable):
    pass


class _TlsConnection(_Abortable, urllib3.connection.HTTPSConnection):
    pass


class _PoolMixin(urllib3.HTTPConnectionPool):
    def _get_conn(self, timeout: float | None = None) -> Any:
        conn = super()._get_conn(timeout)
        if doing.call.fresh:
            conn.close()  # it opens again by itself
        return conn

    def _put_conn(self, conn: Any) -> None:
        # A connection in the pool is anybody's: an abort of the call that had it would cut the next call off.
        if conn is not None and conn.call is not None:
            conn.call.detach()
            if conn.call.ended_by is not None:
                conn.close()
            conn.call = None
        super()._put_conn(conn)


class Pool(_PoolMixin):
    ConnectionCls = _Connection


class TlsPool(_PoolMixin, urllib3.HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


def _connected(call: Call, host: str, port: int) -> tuple[socket.socket, _Handle]:
    """A connected socket and its handle, every address of the host tried in the time that is left."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise StoreError("unreachable", "its host name could not be resolved") from None
    failure = StoreError("unreachable", "its host name has no address")
    resolved = len(found)
    if host.lower() == "localhost":  # a hosts file may name one family, and the store listen on the other
        found += [one for one in _loopback(port) if one not in found]
    for tried, (family, kind, proto, _, address) in enumerate(found):
        if call.managed and is_forbidden(str(address[0])):
            failure = StoreError("unreachable", "its host is a link-local or metadata address, refused to added stores")
            continue
        # A share, not all of it: the first of two addresses may swallow packets while the second answers.
        left_s = call.left_s() / max(resolved - tried, 1)
        if left_s <= 0:
            raise call.timed_out()
        try:
            sock = socket.socket(family, kind, proto)
        except OSError as exc:
            if tried < resolved:
                failure = store_error(exc, call)
            continue
        handle = _Handle(sock)
        try:
            call.attach(handle)
            sock.settimeout(left_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.connect(address)
            sock.settimeout(max(call.left_s(), 0.001))  # all of it, for TLS and sending
        except OSError as exc:
            if tried < resolved:
                failure = store_error(exc, call)
        except StoreError as exc:
            failure = exc
        else:
            return sock, handle
        call.detach()
        handle.close()
        sock.close()
    raise call.ended_by or failure


def _loopback(port: int) -> list[Any]:
    kind = (socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
    return [(socket.AF_INET, *kind, ("127.0.0.1", port)), (socket.AF_INET6, *kind, ("::1", port, 0, 0))]


POOLS = {"http": Pool, "https": TlsPool}


def _chain(exc: BaseException) -> list[BaseException]:
    """An exception and those inside it: requests and urllib3 keep the cause in args or `reason`."""
    found: list[BaseException] = []
    todo = [exc]
    while todo and len(found) < 20:
        one = todo.pop(0)
        found.append(one)
        inner = [*getattr(one, "args", ()), getattr(one, "reason", None), one.__cause__]
        todo += [item for item in inner if isinstance(item, BaseException) and item not in found]
    return found


GONE = "it was removed, or the service is stopping"
_MAP: tuple[tuple[str, str, tuple[type[BaseException], ...]], ...] = (
    ("unreachable", GONE, (urllib3.exceptions.ClosedPoolError,)),
    ("unreachable", "its TLS certificate is not trusted", (ssl.SSLCertVerificationError,)),
    ("unreachable", "TLS failed", (ssl.SSLError, requests.exceptions.SSLError, urllib3.exceptions.SSLError)),
    ("bad_reply", "the answer was cut short", (http.client.IncompleteRead, urllib3.exceptions.IncompleteRead)),
    ("unreachable", "it closed the connection without an answer", (http.client.RemoteDisconnected,)),
    (
        "bad_reply",
        "the answer is not HTTP",
        (http.client.HTTPException, urllib3.exceptions.ResponseError, urllib3.exceptions.InvalidHeader),
    ),
    (
        "bad_reply",
        "the answer cannot be decompressed",
        (requests.exceptions.ContentDecodingError, urllib3.exceptions.DecodeError),
    ),
    (
        "unreachable",
        "its host name could not be resolved",
        (socket.gaierror, urllib3.exceptions.NameResolutionError),
    ),
    (
        "unreachable",
        "its url is not usable",
        (requests.exceptions.InvalidURL, urllib3.exceptions.LocationValueError),
    ),
    ("unreachable", "connection refused", (ConnectionRefusedError,)),
    ("unreachable", "the connection broke", (ConnectionError,)),
    (
        "unreachable",
        "its proxy refused the connection",
        (requests.exceptions.ProxyError, urllib3.exceptions.ProxyError),
    ),
    (
        "bad_reply",
        "the answer is not HTTP",
        (requests.exceptions.ChunkedEncodingError, urllib3.exceptions.ProtocolError),
    ),
    ("unreachable", "it could not be reached", (OSError,)),
    (
        "unreachable",
        "the call failed",
        (requests.exceptions.RequestException, urllib3.exceptions.HTTPError),
    ),
)
UNKNOWN_ISSUER = (2, 18, 19, 20, 21)  # OpenSSL's codes for an authority that is not among the trusted ones
_TIMEOUTS = (TimeoutError, requests.exceptions.Timeout, urllib3.exceptions.TimeoutError)


def store_error(exc: BaseException, call: Call) -> StoreError:
    """Any exception of the libraries below, or of an adapter, as a StoreError whose reason echoes nothing."""
    chain = _chain(exc)
    for one in chain:
        if isinstance(one, StoreError):
            return one
    if any(isinstance(one, _TIMEOUTS) and not isinstance(one, urllib3.exceptions.NewConnectionError) for one in chain):
        return call.timed_out()
    for kind, reason, types in _MAP:
        for one in chain:
            if isinstance(one, types):
                return StoreError(kind, reason + _detail(one))
    return StoreError("bad_reply", f"the answer could not be read ({type(exc).__name__})")


def _detail(exc: BaseException) -> str:
    # OpenSSL's own texts for its own codes; other trust stores tell what the certificate says.
    if isinstance(exc, ssl.SSLCertVerificationError) and 0 < getattr(exc, "verify_code", 0) < 1000:
        hint = "; name its authority in tls.ca_bundle" if exc.verify_code in UNKNOWN_ISSUER else ""
        return f" ({exc.verify_message.rstrip('.')}){hint}"
    if type(exc) is OSError and exc.errno:
        return f" ({os.strerror(exc.errno).lower()})"
    return ""
