"""What travels through a search, as frozen data. Imports nothing of the package."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Json = Any  # whatever a JSON text can hold


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory as its store ranked it. `origin`: the inner stores it came through, outermost first."""

    id: str
    content: str
    base_relevance: float | None = None  # 0..1, higher is better; None: unknown
    native_score: float | None = None
    raw_distance: float | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)
    origin: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a store gave no answer; `kind` is one of errors.KINDS."""

    kind: str
    reason: str
    retry_at: datetime | None = None  # UTC; only of a suspended store


@dataclass(frozen=True, slots=True)
class StoreReply:
    """What one store gave to one search: hits in its own order, or a failure."""

    name: str
    asked: int  # hits asked for; 0: the store was not asked
    ms: float = 0.0
    hits: tuple[Hit, ...] = ()
    failure: Failure | None = None
    warnings: tuple[str, ...] = ()
    looks_like: str | None = None  # the type of store that such a reply comes from
    unreadable: int = 0  # hits left out, because they are none


@dataclass(frozen=True, slots=True)
class RankedHit:
    """One line of the merged list. `store_rank` starts at 1; `score` is the number it was ranked by."""

    store: str
    store_rank: int
    score: float
    hit: Hit


@dataclass(frozen=True, slots=True)
class Skipped:
    """An enabled store that did not answer."""

    name: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class Warned:
    """A store that answered, but not wholly."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One store that was asked: its weight, milliseconds, hits after the cut, hits below the floor."""

    name: str
    weight: float
    ms: float
    returned: int
    floored: int


@dataclass(frozen=True, slots=True)
class Packet:
    """The answer to one search, whole."""

    query: str
    hits: tuple[RankedHit, ...]
    stores_searched: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[Warned, ...]
    k: int
    stores: tuple[Asked, ...]
    took_ms: float
