"""Calls to stores for the tests of transport and fan: real sockets under them, no service around them."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import psutil

from seren_corpus_callosum.fan import Ask, Fan, StoreClient
from seren_corpus_callosum.hits import StoreReply
from seren_corpus_callosum.stores import Store, adapter_for
from seren_corpus_callosum.transport import Trust


def store_at(url: str, name: str = "sick", type: str = "seren_loci", **fields: Any) -> Store:
    """A usable store with its adapter's default options."""
    adapter = adapter_for(type)
    assert adapter
    options = {key: option.default for key, option in adapter.options.items()}
    return replace(Store(name=name, type=type, adapter=adapter, url=url, options=options), **fields)


@contextmanager
def client(threads: int = 4, trust: Trust | None = None) -> Iterator[StoreClient]:
    one = StoreClient(threads=threads, trust=trust or Trust())
    try:
        yield one
    finally:
        one.close()


@dataclass(frozen=True)
class Timed:
    """Replies and how long all of them took."""

    replies: list[StoreReply]
    s: float

    @property
    def only(self) -> StoreReply:
        assert len(self.replies) == 1
        return self.replies[0]


def search(
    members: Sequence[tuple[Store, StoreClient]],
    *,
    fan: Fan | None = None,
    timeout_s: float = 5.0,
    limit_s: float | None = None,
    suspend_after: int = 0,
    query: str = "where are the keys?",
    wanted: int = 20,
) -> Timed:
    started = time.monotonic()
    ask = Ask(query, wanted, ("1.1 callosum-test",), limit_s)
    replies = (fan or Fan()).ask(members, ask, timeout_s=timeout_s, suspend_after=suspend_after)
    return Timed(replies, time.monotonic() - started)


def sockets_to(port: int) -> int:
    """How many sockets of this process, in whatever state, have that peer."""
    found = psutil.Process().net_connections("tcp")
    return sum(1 for one in found if one.raddr and one.raddr[1] == port)


def open_files() -> int:
    process = psutil.Process()
    return int(process.num_fds() if hasattr(process, "num_fds") else process.num_handles())


def soon(fact: Callable[[], bool], within_s: float = 1.0) -> bool:
    """Whether it becomes true in time; for facts of the kernel, which tells nobody when they change."""
    deadline = time.monotonic() + within_s
    while not fact():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True
