"""waitress with lanes: what may wait on a store queues apart from what never does, so /health is always answered.

Only the standalone server has lanes; inside a host's server the host's threads are all there is.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import waitress.server
import waitress.wasyncore
from waitress.buffers import OverflowableBuffer
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.task import Task, ThreadedTaskDispatcher

from . import answers, wire
from .errors import Unavailable
from .service import Callosum
from .web import create_app

log = logging.getLogger(__name__)

QUICK_THREADS = 4
QUEUE_PER_THREAD = 6  # searches that may wait for each request thread; past that they are told to come again
BODY_READ_BYTES = 64 * 1024 * 1024  # past it waitress hangs up; below it whoever sends too much hears why
CHANGE_WAIT_S = 4.0  # of a change for a thread: then the overlay's lock is held, and the change would wait for it too
CHANNEL_TIMEOUT_S = 120  # of an idle connection
GRACE_S = 2.0  # that searches in flight may take at shutdown
FLUSH_S = 0.5  # that their answers may take to leave

_lane = threading.local()  # .came_at: when the request came in, monotonic; .late: it is to be refused


class Lanes(ThreadedTaskDispatcher):
    """waitress's task dispatcher: /health waits for nothing, GET hardly, changes of the roster for the overlay's lock,
    the rest for a store; none holds another up."""

    def __init__(self, threads: int, wait_limit_s: float) -> None:
        super().__init__()
        self.quick = _lane_of(QUICK_THREADS)
        self.health = _lane_of(1)
        self.slow = _lane_of(threads)
        self.changes = _lane_of(threads)
        self.slow_room = threads * QUEUE_PER_THREAD
        self.wait_limit_s = wait_limit_s

    def add_task(self, channel: Any) -> None:
        requested = channel.requests[0]
        if requested.error:  # one that could not be read has no path
            self.quick.add_task(channel)
        elif requested.path == "/health":
            self.health.add_task(channel)
        elif requested.command in ("GET", "HEAD", "OPTIONS"):
            self.quick.add_task(channel)
        elif requested.path.startswith("/stores"):
            self.changes.add_task(_Queued(channel, CHANGE_WAIT_S))
        elif len(self.slow.queue) < self.slow_room:
            self.slow.add_task(_Queued(channel, self.wait_limit_s))
        else:
            self.quick.add_task(_Queued(channel, 0.0))

    def set_thread_count(self, count: int) -> None:
        """waitress's own setting has no say here."""

    def shutdown(self, cancel_pending: bool = True, timeout: int = 5) -> bool:
        ended = [lane.shutdown(cancel_pending, timeout) for lane in (self.health, self.quick, self.changes, self.slow)]
        return all(ended)


def _lane_of(threads: int) -> ThreadedTaskDispatcher:
    lane = ThreadedTaskDispatcher()
    lane.queue_logger = logging.getLogger("waitress.queue.quiet")
    lane.queue_logger.disabled = True
    lane.set_thread_count(threads)
    return lane


class _Queued(Task):
    """A request that knows how long it waited for a thread; one that waited for over `limit_s` is refused."""

    def __init__(self, channel: Any, limit_s: float) -> None:
        super().__init__(channel, channel.requests[0])
        self._came_at = time.monotonic()
        self._limit_s = limit_s

    def service(self) -> None:
        _lane.came_at = self._came_at
        _lane.late = time.monotonic() - self._came_at >= self._limit_s
        try:
            self.channel.service()
        finally:
            _lane.late, _lane.came_at = False, None

    def cancel(self) -> None:
        self.channel.cancel()


def refusing_late(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """The application, but 503 for a request that its lane had no room for, or no thread in time."""
    problem = Unavailable("too many requests are waiting already; ask again in a moment")
    body = wire.encode(wire.problem_body(problem))
    headers = [("Content-Type", "application/problem+json"), ("Content-Length", str(len(body)))]
    headers += list(problem.headers.items())

    def wrapped(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ[answers.CAME_AT] = getattr(_lane, "came_at", None) or time.monotonic()
        if getattr(_lane, "late", False):
            request_id = answers.request_id(environ.get("HTTP_X_REQUEST_ID", ""))
            start_response("503 Service Unavailable", [*headers, ("X-Request-Id", request_id)])
            log.info("%s refused with 503: too many are waiting %s", environ["REQUEST_METHOD"], request_id)
            return [body]
        return app(environ, start_response)

    return wrapped


class _Body(OverflowableBuffer):
    """The body of a request; of one that the application will refuse for its size the rest is not kept."""

    def append(self, s: bytes) -> None:
        if len(self) <= answers.BODY_LIMIT_BYTES:
            super().append(s)


class _Parser(HTTPRequestParser):
    path: str

    def parse_header(self, header_plus: bytes) -> None:
        try:
            super().parse_header(header_plus)
        except ValueError:  # of urlsplit, which waitress lets through
            raise ParsingError("the address in the request line cannot be read") from None
        self.path = self.path or "/"  # of `GET http://host`: werkzeug would answer with a redirect in HTML
        # Two lengths let a proxy in front and this server disagree on where the next request begins.
        if self.chunked and "CONTENT_LENGTH" in self.headers:
            raise ParsingError("Content-Length and Transfer-Encoding in one request")
        if self.body_rcv is not None:
            self.body_rcv.buf = _Body(self.adj.inbuf_overflow)


class _Channel(HTTPChannel):
    """A connection that is dropped when its first request, or a later one that has begun, takes too long to come in,
    or when answers pile up unread.

    waitress's own limit restarts at every byte, so a client that drips would hold its place for ever.
    """

    parser_class = _Parser
    request_timeout_s = 30.0
    requests_lock: threading.Lock

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.begun: float | None = time.monotonic()  # when the request that is coming in began; None: none is

    def received(self, data: bytes) -> bool:
        taken: bool = super().received(data)
        if self.request is None:
            self.begun = None
        elif self.begun is None:
            self.begun = time.monotonic()
        return taken

    def readable(self) -> bool:
        if self.begun is not None and time.monotonic() - self.begun > self.request_timeout_s and not self.requests:
            self.will_close = True
        can: bool = super().readable()
        return can

    def writable(self) -> bool:
        # A socket takes data at any moment: while a request thread sends, waitress's loop would spin on its lock, and
        # take the interpreter from that very thread. The loop is woken when the request ends.
        if self.total_outbufs_len and self.requests and not (self.will_close or self.close_when_flushed):
            free: bool = self.outbuf_lock.acquire(blocking=False)
            if free:
                self.outbuf_lock.release()
            return free
        return bool(super().writable())

    def _flush_outbufs_below_high_watermark(self) -> None:
        # waitress waits here for the client to read: one that asks on and reads nothing would hold a request thread.
        if self.total_outbufs_len > self.adj.outbuf_high_watermark:
            with self.requests_lock:
                for unread in self.requests[1:]:
                    unread.close()
                self.requests = self.requests[:1]
                self.close_when_flushed = True


class Server:
    """One listening service; making it binds the port and may raise OSError."""

    def __init__(self, callosum: Callosum) -> None:
        self._callosum = callosum
        settings = callosum.config.server
        self._lanes = Lanes(settings.threads, callosum.config.federation.per_store_timeout_s)
        self._map: dict[int, Any] = {}
        self._running = False
        try:
            self._server = waitress.server.create_server(
                refusing_late(create_app(callosum)),
                map=self._map,
                _dispatcher=self._lanes,
                listen=f"[{settings.host}]:{settings.port}"
                if ":" in settings.host
                else f"{settings.host}:{settings.port}",
                connection_limit=settings.connection_limit,
                channel_timeout=CHANNEL_TIMEOUT_S,
                cleanup_interval=1,
                asyncore_use_poll=True,
                max_request_body_size=BODY_READ_BYTES,
                clear_untrusted_proxy_headers=False,
                ident=None,
            )
        except BaseException:
            self._lanes.shutdown(timeout=1)
            raise
        channel_class = type("Channel", (_Channel,), {"request_timeout_s": settings.request_timeout_s})
        for one in self._map.values():
            if isinstance(one, waitress.server.BaseWSGIServer):
                one.channel_class = channel_class

    @property
    def port(self) -> int:
        """The port it listens on, also where the configuration says 0."""
        return int(next(one.effective_port for one in self._map.values() if hasattr(one, "effective_port")))

    def run(self) -> None:
        """Serve; ends with the process, see `serve_until_signalled`, or with `close`."""
        self._running = True
        self._server.run()

    def finish(self) -> None:
        """Refuse new searches, let those in flight end for GRACE_S, abort the rest, send what there is to send."""
        self._callosum.close(grace_s=GRACE_S)
        deadline = time.monotonic() + FLUSH_S
        while time.monotonic() < deadline and self._has_answers_to_send():
            time.sleep(0.01)

    def _has_answers_to_send(self) -> bool:
        channels = [one for one in list(self._map.values()) if isinstance(one, HTTPChannel)]
        return any(one.requests or one.total_outbufs_len for one in channels)

    def close(self) -> None:
        """End everything; for a server that runs in a thread of a larger program."""
        self.finish()
        self._lanes.shutdown(timeout=1)
        if self._running:
            # In the loop's own thread: a descriptor closed under it may be another's by the time that it reads there.
            first: Any = next(one for one in self._map.values() if isinstance(one, waitress.server.BaseWSGIServer))
            first.trigger.pull_trigger(self._close_all)
        else:
            self._close_all()

    def _close_all(self) -> None:
        waitress.wasyncore.close_all(self._map)


def serve_until_signalled(server: Server, *, last: Callable[[], object] = lambda: None) -> NoReturn:
    """Serve until SIGTERM or Ctrl+C, then finish, call `last` and leave the process; a second signal leaves at once."""

    def leave() -> None:
        server.finish()
        last()
        # Where nobody reads the log, a thread that writes to it holds its lock for ever.
        flushing = threading.Thread(target=logging.shutdown, daemon=True)
        flushing.start()
        flushing.join(FLUSH_S)
        # Interpreter exit joins worker threads, and one that is in the resolver cannot be interrupted.
        os._exit(0)

    def on_signal(number: int, frame: object) -> None:
        # The second may come while this runs for the first: only what is taken in one step tells them apart.
        if not first.acquire(blocking=False):
            os._exit(0)
        ending.start()
        log.info("signal %d: shutting down", number)

    first = threading.Lock()
    ending = threading.Thread(target=leave, name="ending", daemon=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    server.run()
    ending.join()
    raise SystemExit(0)
