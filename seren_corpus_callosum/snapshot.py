"""What a search reads, frozen: the stores as they are, their clients, and how replies become one packet."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .binding import Unbound
from .fan import StoreClient
from .fusion import fuse, ranked
from .health import Tally
from .hits import Asked, Failure, Packet, Skipped, StoreReply, Warned
from .roster import unknown
from .settings import Federation
from .stores import Store


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the roster: a usable store with its tally, or an entry that cannot be used."""

    entry: Store | Unbound
    tally: Tally

    @property
    def status(self) -> str:
        if isinstance(self.entry, Unbound):
            return f"skipped: {self.entry.reason}"
        return "active" if self.entry.enabled else "disabled"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a search reads: entries in configured order, base before managed."""

    federation: Federation
    entries: tuple[Store | Unbound, ...]
    clients: Mapping[str, StoreClient]
    damage: str | None = None

    @property
    def stores(self) -> Iterator[Store]:
        return (entry for entry in self.entries if isinstance(entry, Store))

    @property
    def unbound(self) -> Iterator[Unbound]:
        """The unusable entries that a search must own up to."""
        return (entry for entry in self.entries if isinstance(entry, Unbound) and entry.is_missed)

    def rows(self) -> tuple[Row, ...]:
        return tuple(self._row(entry) for entry in self.entries)

    def row(self, name: str) -> Row:
        """The line of this name; of two the one that is in use. Raises NotFound."""
        named = [entry for entry in self.entries if entry.name == name]
        if not named:
            raise unknown(name)
        return self._row(min(named, key=lambda entry: isinstance(entry, Unbound)))

    def _row(self, entry: Store | Unbound) -> Row:
        tally = self.clients[entry.name].health.tally if isinstance(entry, Store) else Tally()
        return Row(entry, tally)


def looped(snapshot: Snapshot, query: str) -> Packet:
    loop = Failure("loop", "the query came back to a callosum, or through too many; nobody was asked")
    skipped = [Skipped(store.name, loop) for store in snapshot.stores if store.enabled]
    skipped += [Skipped(entry.name, loop) for entry in snapshot.unbound]
    return Packet(query, (), (), tuple(skipped), (), snapshot.federation.k, (), 0.0)


def packet(snapshot: Snapshot, query: str, n_results: int, replies: Sequence[StoreReply], started: float) -> Packet:
    """The replies of the stores that were asked or suspended, merged; unusable entries are owned up to."""
    by_name = {reply.name: reply for reply in replies}
    rankings, searched, asked = [], [], []
    skipped: list[Skipped] = []
    warnings: list[Warned] = []
    for entry in snapshot.entries:
        if isinstance(entry, Unbound):
            if entry.is_missed:
                skipped.append(Skipped(entry.name, Failure("unbound", entry.reason)))
            continue
        reply = by_name.get(entry.name)
        if reply is None:
            continue
        ranking = ranked(entry.name, reply.hits, asked=reply.asked, weight=entry.weight, floor=entry.floor)
        if reply.asked:
            asked.append(Asked(entry.name, entry.weight, reply.ms, ranking.returned, ranking.floored))
        if reply.failure is not None:
            skipped.append(Skipped(entry.name, reply.failure))
            continue
        rankings.append(ranking)
        searched.append(entry.name)
        warnings += [Warned(entry.name, warning) for warning in reply.warnings]
    hits = fuse(rankings, k=snapshot.federation.k, n_results=n_results)
    took_ms = (time.monotonic() - started) * 1000
    return Packet(
        query, hits, tuple(searched), tuple(skipped), tuple(warnings), snapshot.federation.k, tuple(asked), took_ms
    )
