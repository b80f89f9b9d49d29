"""Threads and deadlines: asks every store at once and gives back replies in configured order, each by its deadline."""

import logging
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from .connections import GONE, Call, store_error
from .errors import StoreError
from .health import Admission, Health
from .hits import Failure, StoreReply
from .stores import Mapped, Store, sound
from .transport import Transport, Trust, decode

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ask:
    """What one search asks of every store."""

    query: str
    wanted: int  # hits from each store, before its own cap
    via: tuple[str, ...] = ()
    limit_s: float | None = None  # the caller's deadline, where it is shorter than a store's


class StoreClient:
    """The threads, the connections and the health of one address; outlives changes of a store's knobs.

    Threads and connections are made at the first call of each process, so a fork before it finds nothing to break.
    """

    def __init__(self, *, threads: int, trust: Trust) -> None:
        self.health = Health()
        self._threads = threads
        self._trust = trust
        self._lock = threading.Lock()
        self._owner: int | None = None  # the process that the threads and connections belong to
        self._pool: ThreadPoolExecutor | None = None
        self._transport: Transport | None = None
        self.closed = False

    def submit(self, store: Store, ask: Ask, call: Call) -> "Future[Mapped]":
        """Begin a call; raises StoreError, and RuntimeError where no thread is to be had."""
        pool, transport = self._ready(store)
        return pool.submit(_ask_store, transport, store, ask, call)

    def _ready(self, store: Store) -> tuple[ThreadPoolExecutor, Transport]:
        if self._owner != os.getpid() or self._pool is None or self._transport is None:
            with self._lock:
                if self.closed:
                    raise StoreError("unreachable", GONE)
                if self._owner != os.getpid() or self._pool is None or self._transport is None:
                    try:
                        self._transport = Transport(store, connections=self._threads, trust=self._trust)
                    except Exception as exc:  # noqa: BLE001 - an address that only requests refuses
                        raise store_error(exc, Call(0.0)) from None
                    self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="callosum-store")
                    self._owner = os.getpid()
        return self._pool, self._transport

    def close(self) -> None:
        with self._lock:
            self.closed = True
            if self._pool is not None and self._owner == os.getpid():
                self._pool.shutdown(wait=False)
            if self._transport is not None:
                self._transport.close()


def _ask_store(transport: Transport, store: Store, ask: Ask, call: Call) -> Mapped:
    try:
        asked = store.asked_for(ask.wanted)
        body = store.adapter.body(ask.query, asked, store.options, call.left_s())
        call.asked = True
        # Cut before mapping: sixty thousand hits fit into a reply, and mapping them holds up every other store.
        return sound(Mapped(*store.adapter.read(decode(transport.search(call, body, ask.via)), asked)))
    except Exception as exc:  # noqa: BLE001 - an adapter may be anybody's: what it raises costs its own store only
        error = store_error(exc, call)
        # The frames of both hold the answer, megabytes perhaps, until the garbage collector comes by.
        error.__traceback__ = error.__context__ = None
    finally:
        call.done_at = time.monotonic()
    raise error


@dataclass(slots=True)
class _Job:
    store: Store
    client: StoreClient
    call: Call
    full: bool  # the deadline is the store's own, not one that the caller shortened
    future: "Future[Mapped] | None" = None
    error: StoreError | None = None


class Fan:
    """Asks many stores at once. `members` are stores with their clients, in configured order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: set[Call] = set()
        self._stopped: StoreError | None = None

    def ask(
        self,
        members: Sequence[tuple[Store, StoreClient]],
        ask: Ask,
        *,
        timeout_s: float,
        suspend_after: int,
        started: float | None = None,
    ) -> list[StoreReply]:
        """One reply for each member, in order; `timeout_s` is the deadline of stores that have none of their own."""
        started = time.monotonic() if started is None else started
        replies: dict[str, StoreReply] = {}
        jobs: list[_Job] = []
        try:
            for store, client in members:
                own_s = store.timeout_s or timeout_s
                admission = client.health.admit(suspend_after, own_s)
                if admission is Admission.ASK:
                    limit_s = own_s if ask.limit_s is None else min(own_s, ask.limit_s)
                    call = Call(limit_s, started=started, managed=store.managed)
                    jobs.append(self._begun(_Job(store, client, call, limit_s == own_s), ask))
                    continue
                replies[store.name] = StoreReply(store.name, 0, failure=client.health.why_left_out())
                if admission is Admission.TRY:
                    call = Call(own_s, managed=store.managed)
                    self._try(_Job(store, client, call, True), replace(ask, limit_s=None))
            self._wait(jobs)
            for job in jobs:
                replies[job.store.name] = self._ended(job, ask, started, suspend_after)
        finally:
            for job in jobs:
                if job.future is not None and not job.future.done():
                    job.call.abort()
                    job.future.cancel()
            with self._lock:
                self._calls.difference_update(job.call for job in jobs)
        return [replies[store.name] for store, _ in members]

    def stop(self) -> None:
        """Abort every call in flight and all to come."""
        with self._lock:
            self._stopped = StoreError("unreachable", "the service is stopping")
            calls = list(self._calls)
        for call in calls:
            call.abort(self._stopped)

    def _begun(self, job: _Job, ask: Ask) -> _Job:
        with self._lock:
            job.error = self._stopped
            self._calls.add(job.call)
        if job.error is None:
            try:
                job.future = job.client.submit(job.store, ask, job.call)
            except StoreError as exc:
                job.error = exc
            except RuntimeError:  # the pool was shut down meanwhile, or no thread is to be had
                reason = GONE if job.client.closed else "no thread could be started for it"
                job.error = StoreError("unreachable", reason)
                job.call.abort(job.error)  # the pool may have queued it all the same
        return job

    def _wait(self, jobs: Sequence[_Job]) -> None:
        """Wait until every call is done or aborted, each at its own deadline."""
        waiting = {job.future: job.call for job in jobs if job.future is not None}
        while waiting:
            left_s = min(call.left_s() for call in waiting.values())
            # One wait for all: woken for each reply, this thread would fight the workers for the interpreter.
            wait(waiting, timeout=max(0.0, left_s))
            for future in [future for future in waiting if future.done()]:
                del waiting[future]
            for future in [future for future, call in waiting.items() if call.left_s() <= 0]:
                waiting.pop(future).abort()
                future.cancel()

    @staticmethod
    def _outcome(job: _Job) -> Mapped | StoreError:
        if job.future is None or not job.future.done() or job.future.cancelled():
            return job.error or job.call.ended_by or job.call.timed_out()
        error = job.future.exception()
        return error if isinstance(error, StoreError) else job.future.result()

    def _ended(self, job: _Job, ask: Ask, started: float, suspend_after: int) -> StoreReply:
        store, failure, mapped = job.store, None, self._outcome(job)
        if isinstance(mapped, StoreError):
            failure, mapped = _failed(store, mapped), Mapped((), ())
        ms = ((job.call.done_at or time.monotonic()) - started) * 1000
        late = failure is not None and failure.kind == "timeout"
        timed_out = None if late and not (job.full and job.call.asked) else late
        job.client.health.count(ms, failure, timed_out=timed_out, suspend_after=suspend_after)
        asked = store.asked_for(ask.wanted)
        return StoreReply(store.name, asked, ms, failure=failure, **mapped._asdict())

    def _try(self, job: _Job, ask: Ask) -> None:
        """One call that nobody waits for: a timer ends it at its deadline, its hits are dropped."""
        started = time.monotonic()
        once = threading.Lock()

        def ended(error: StoreError | None) -> None:
            if once.acquire(blocking=False):
                # Not logged: here is no request, and a host's log filter that wants one would leave the trial open.
                failure = None if error is None else Failure(error.kind, error.reason)
                ms = (time.monotonic() - started) * 1000
                job.client.health.tried(ms, failure, timed_out=error is not None and error.kind == "timeout")
                with self._lock:
                    self._calls.discard(job.call)

        def late() -> None:
            job.call.abort()
            ended(job.call.timed_out())

        def done(future: "Future[Mapped]") -> None:
            timer.cancel()
            error = None if future.cancelled() else future.exception()
            ended(error if isinstance(error, StoreError) else None)

        timer = threading.Timer(job.call.left_s(), late)
        timer.daemon = True
        self._begun(job, ask)
        if job.future is None:
            ended(job.error)
            return
        try:
            timer.start()
        except RuntimeError:  # no thread to be had: a trial that nobody ends would leave the store out for ever
            late()
        job.future.add_done_callback(done)


def _failed(store: Store, error: StoreError) -> Failure:
    log.warning("store %s gave no answer: %s: %s", store.name, error.kind, error.reason)
    return Failure(error.kind, error.reason)
