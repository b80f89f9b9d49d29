"""Sockets for the support: gates that a select waits for, free ports, an address that never connects."""

import contextlib
import select
import socket
import threading
from collections.abc import Iterable, Iterator
from secrets import randbelow


class Gate:
    """An event that a select can wait for together with sockets."""

    def __init__(self) -> None:
        self.socket, self._outer = socket.socketpair()
        self._lock = threading.Lock()
        self.is_open = False

    def open(self) -> None:
        with self._lock:
            if not self.is_open:
                self.is_open = True
                self._outer.send(b"!")

    def shut(self) -> None:
        with self._lock:
            if self.is_open:
                self.is_open = False
                self.socket.recv(1)

    def close(self) -> None:
        self.socket.close()
        self._outer.close()


def peer_gone(sock: socket.socket, gates: Iterable[Gate], wait_s: float | None) -> bool:
    """Waits until the peer closed, a gate opened or the time is up; reads nothing of what the peer sent."""
    if hasattr(select, "POLLRDHUP"):
        poll = select.poll()
        poll.register(sock, select.POLLRDHUP)
        for gate in gates:
            poll.register(gate.socket, select.POLLIN)
        events = poll.poll(None if wait_s is None else wait_s * 1000)
        return any(fd == sock.fileno() for fd, _ in events)
    # Without POLLRDHUP unread bytes hide the end of the stream, so it is looked for in short turns.
    turn_s = 0.02 if wait_s is None else min(0.02, wait_s)
    if select.select([gate.socket for gate in gates], [], [], turn_s)[0] or not select.select([sock], [], [], 0)[0]:
        return False
    try:
        return sock.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


@contextlib.contextmanager
def unconnectable() -> Iterator[str]:
    """A URL whose connects hang: a listener that accepts nobody and whose queue is full. Linux only."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        while True:
            filler = stack.enter_context(socket.socket())
            filler.settimeout(0.1)
            try:
                filler.connect(listener.getsockname())
            except TimeoutError:
                break
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def free_port() -> int:
    """A loopback port outside of the range from which the system picks ports for clients and for port 0."""
    while True:
        port = 20_000 + randbelow(10_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
