"""Callosum, the in-process API: one frozen snapshot, read once by each search and replaced whole by each change."""

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from . import settings
from .binding import Unbound, bind, nearest
from .config import Config, load
from .errors import BadRequest, Duplicate, Invalid, NotFound, SettingError, Unavailable
from .fan import Ask, Fan, StoreClient
from .health import Tally
from .hits import Json, Packet, StoreReply
from .kinds import Kind
from .overlay import Overlay
from .roster import (
    CHANGED_FIELDS,
    Addition,
    Bindings,
    canonical,
    change,
    checked_changes,
    forget_tokens,
    remove,
    unknown,
)
from .snapshot import Row, Snapshot, looped, packet
from .stores import Store
from .transport import Trust

log = logging.getLogger(__name__)

ADDED_FIELDS = ("name", "type", "url", *CHANGED_FIELDS, "token", "options")
POINTERS = ("token_env", "token_keyring")
HOPS_LIMIT = 4  # callosums that a query may have passed
LOCK_TIMEOUT_S = 4.5  # a held lock is answered within 5 s
CHECK_QUERY = "what do you know about me?"


@dataclass(frozen=True, slots=True)
class Check:
    """What one live query to one store showed. `ok`: it answered, and as its type says."""

    name: str
    ok: bool
    ms: float
    hits: int
    looks_like: str | None
    reason: str | None


class Callosum:
    """One query to every store at once, one ranked list back; stores may be added and removed while it runs."""

    def __init__(self, config: Config, *, environ: Mapping[str, str] | None = None) -> None:
        self.config = config
        self._hop = f"1.1 callosum-{config.instance_id}"  # in the Via header of what it sends
        self._environ = os.environ if environ is None else environ
        self._trust = Trust(trust_system_store=config.tls.trust_system_store, ca_bundle=config.tls.ca_bundle)
        self._fan = Fan()
        self._overlay = Overlay(config.overlay, lock_timeout_s=LOCK_TIMEOUT_S)
        self._lock = threading.Lock()  # one change of the snapshot at a time
        self._bindings = Bindings(self._environ)
        self._closing = False
        self._idle = threading.Condition()
        self._running = 0
        self._snapshot = Snapshot(config.federation, (), {})
        self._rebuild()

    @classmethod
    def from_config(cls, path: str | Path | None = None, *, environ: Mapping[str, str] | None = None) -> "Callosum":
        """From a YAML file and the environment; raises ConfigError with every fault."""
        return cls(load(path, environ), environ=environ)

    def __enter__(self) -> "Callosum":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(grace_s=0)

    # Searching

    def search(
        self, query: str, n_results: int | None = None, *, timeout_s: float | None = None, via: Sequence[str] = ()
    ) -> Packet:
        """Ask every enabled store and merge what they answer.

        `timeout_s` shortens every store's deadline; `via` holds the callosums that the query came through. Raises
        Invalid for what no search takes, Unavailable while shutting down. Stores that fail are named in `skipped`.
        """
        started = time.monotonic()
        wanted = checked_search(query, n_results, timeout_s)
        with self._one_search():
            snapshot = self._current()
            n_results = snapshot.federation.n_results if wanted is None else wanted
            if self._hop in via or len(via) >= HOPS_LIMIT:
                return looped(snapshot, query)
            ask = Ask(query, n_results * snapshot.federation.fetch_multiplier, (*via, self._hop), timeout_s)
            members = [(store, snapshot.clients[store.name]) for store in snapshot.stores if store.enabled]
            replies = self._fan.ask(
                members,
                ask,
                timeout_s=snapshot.federation.per_store_timeout_s,
                suspend_after=snapshot.federation.suspend_after,
                started=started,
            )
            return packet(snapshot, query, n_results, replies, started)

    @contextmanager
    def _one_search(self) -> Iterator[None]:
        with self._idle:
            if self._closing:
                raise Unavailable("the service is shutting down; ask again in a moment")
            self._running += 1
        try:
            yield
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

    # The roster

    def snapshot(self) -> Snapshot:
        """Settings and stores as they are now, in one piece."""
        return self._current()

    def roster(self) -> tuple[Row, ...]:
        """Every entry in configured order, usable or not."""
        return self._current().rows()

    def row(self, name: str) -> Row:
        """One line of the roster; of two with one name the one that is in use. Raises NotFound."""
        return self._current().row(canonical(name))

    @property
    def damage(self) -> str | None:
        """What is wrong with the overlay, or None."""
        return self._current().damage

    def check(self, entry: Mapping[str, Json], *, pointers: bool = False) -> Check:
        """Ask a candidate store one live query, without adding it; raises Invalid or BadRequest for the entry."""
        store = self._candidate(entry, pointers)
        client = StoreClient(threads=1, trust=self._trust)
        try:
            return self._checked([(store, client)])[0]
        finally:
            client.close()

    def check_all(self) -> tuple[Check, ...]:
        """Ask every enabled store one live query, suspended ones too; unusable entries count as failed."""
        snapshot = self._current()
        members = [(store, snapshot.clients[store.name]) for store in snapshot.stores if store.enabled]
        answered = {check.name: check for check in self._checked(members)}
        checks = []
        for entry in snapshot.entries:
            if isinstance(entry, Store) and entry.enabled:
                checks.append(answered[entry.name])
            elif isinstance(entry, Unbound) and entry.is_missed:
                checks.append(Check(entry.name, False, 0.0, 0, None, f"unbound: {entry.reason}"))
        return tuple(checks)

    def _checked(self, members: Sequence[tuple[Store, StoreClient]]) -> list[Check]:
        timeout_s = self._snapshot.federation.per_store_timeout_s
        ask = Ask(CHECK_QUERY, 3, (self._hop,))
        replies = self._fan.ask(members, ask, timeout_s=timeout_s, suspend_after=0)
        return [_check(store, reply) for (store, _), reply in zip(members, replies, strict=True)]

    def add_store(self, entry: Mapping[str, Json], *, pointers: bool = False) -> Row:
        """Add a managed store to the overlay and to the very next search.

        Its token goes to the OS keychain where one works, else into the overlay. `pointers` allows token_env and
        token_keyring. Raises Invalid, BadRequest (unknown type), Duplicate, NotSaved: then nothing has changed.
        """
        store = self._candidate(entry, pointers)
        if any(entry.name == store.name for entry in self.config.stores):
            raise Duplicate(f"the name {store.name!r} is taken by a store of {self.config.file_name}; choose another")
        addition = Addition(entry, store.name, self.config.instance_id)
        try:
            self._overlay.change(addition.edit)
        except Exception:
            addition.undo()
            raise
        self._rebuild()
        try:
            return self.row(store.name)
        except NotFound:  # another process has removed it already; it was added all the same
            return Row(store, Tally())

    def change_store(self, name: str, changes: Mapping[str, Json]) -> Row:
        """Set weight, floor, enabled or timeout_s of a managed store; None resets one to its default.

        Raises Invalid, NotFound, BadRequest (a base store), NotSaved: then nothing has changed.
        """
        name, values = canonical(name), checked_changes(changes)
        self._refuse_base(name, "change", hidden_too=True)
        self._overlay.change(lambda entries: change(entries, name, values))
        self._rebuild()
        return self.row(name)

    def remove_store(self, name: str) -> str:
        """Remove a managed store, its keychain entry with it, and return its name.

        Raises NotFound, BadRequest (a base store), NotSaved: then nothing has changed.
        """
        name = canonical(name)
        self._refuse_base(name, "remove")
        self._overlay.change(lambda entries: remove(entries, name), saved=lambda gone: forget_tokens(gone, name))
        self._rebuild()
        return name

    def _candidate(self, entry: Mapping[str, Json], pointers: bool) -> Store:
        known = (*ADDED_FIELDS, *POINTERS) if pointers else ADDED_FIELDS
        errors = {str(key): [f"unknown field{nearest(key, known)}"] for key in entry if key not in known}
        try:
            store = bind({key: entry[key] for key in known if key in entry}, self._environ, managed=True, strict=True)
        except (Invalid, BadRequest) as exc:
            raise type(exc)(exc.detail, errors=errors | exc.errors) from None
        if errors:
            raise Invalid("the store has fields that are not taken here", errors=errors)
        return store

    def _refuse_base(self, name: str, verb: str, *, hidden_too: bool = False) -> None:
        """Raise what a change of this name is answered with before the overlay is locked: NotFound, BadRequest."""
        named = [entry for entry in self._current().entries if entry.name == name]
        if not named:
            raise unknown(name)
        if not named[0].managed and (hidden_too or not any(entry.managed for entry in named)):
            where = f"the entry {name!r} under federation.stores in {self.config.file_name}"
            raise BadRequest(f"this store is declared in the config file; {verb} {where} and restart")

    # The snapshot

    def _current(self) -> Snapshot:
        # While another thread builds what it has read, the file looks unchanged and the snapshot is still the old one.
        if self._overlay.changed() or self._lock.locked():
            self._rebuild(only_if_changed=True)
        return self._snapshot

    def _rebuild(self, *, only_if_changed: bool = False) -> None:
        with self._lock:
            if only_if_changed and not self._overlay.changed():
                return
            before = self._snapshot
            roster = self._overlay.read()
            hidden = f"hidden by the store of this name in {self.config.file_name}"
            taken = {entry.name: hidden for entry in self.config.stores}
            entries = (*self.config.stores, *self._bindings.all(roster.entries, taken))
            clients = {entry.name: self._client(entry, before) for entry in entries if isinstance(entry, Store)}
            self._snapshot = Snapshot(before.federation, entries, clients, roster.damage)
        if roster.damage and roster.damage != before.damage:
            log.error("%s", roster.damage)
        kept = set(map(id, clients.values()))
        for client in before.clients.values():
            if id(client) not in kept:
                client.close()

    def _client(self, store: Store, before: Snapshot) -> StoreClient:
        """The client of the same address where there is one: its connections and its tally go on."""
        known = next((entry for entry in before.stores if entry.name == store.name), None)
        if known is not None and _connection(known) == _connection(store):
            return before.clients[store.name]
        return StoreClient(threads=self.config.server.threads, trust=self._trust)

    # The end

    def drain(self) -> None:
        """Refuse new searches from now on."""
        with self._idle:
            self._closing = True

    def close(self, *, grace_s: float = 2.0) -> None:
        """Refuse new searches, let those in flight finish for `grace_s`, then abort them and let go of every thread."""
        self.drain()
        with self._idle:
            self._idle.wait_for(lambda: self._running == 0, timeout=grace_s)
        self._fan.stop()
        for client in self._snapshot.clients.values():
            client.close()


def _connection(store: Store) -> tuple[Any, ...]:
    token = store.token.value if store.token else None
    return store.type, store.search_url, token, store.credentials, store.proxy, store.managed


def checked_search(query: Json, n_results: Json, timeout_s: Json = None) -> int | None:
    """`n_results` as a number, if it is given. Raises Invalid for what no search takes."""
    given = {"query": query, "n_results": n_results, "timeout_s": timeout_s}
    kinds: dict[str, Kind] = {
        "query": settings.QUERY,
        "n_results": settings.N_RESULTS,
        "timeout_s": settings.SECONDS,
    }
    errors: dict[str, list[str]] = {}
    for key, kind in kinds.items():
        if given[key] is not None or key == "query":
            try:
                kind.check(given[key])
            except SettingError as exc:
                errors[key] = [f"expected {exc}"]
    if errors:
        raise Invalid("the search has faults", errors=errors)
    return n_results if n_results is None else int(n_results)


def _check(store: Store, reply: StoreReply) -> Check:
    reason = None
    if reply.failure is not None:
        reason = f"{reply.failure.kind}: {reply.failure.reason}"
    elif store.adapter.is_not(reply.looks_like):
        reason = f"it answers like a {reply.looks_like}, not like a {store.type}; set its type"
    elif not reply.hits and reply.unreadable:
        reason = "bad_reply: none of its hits could be read; is this the right type of store?"
    return Check(store.name, reason is None, reply.ms, len(reply.hits), reply.looks_like, reason)
