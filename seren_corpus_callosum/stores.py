"""One adapter for each store protocol: query to request body, reply to hits. Pure mapping, no I/O; the one registry.

The wire formats are those of the stores; what a field becomes here stands in docs/stores.md.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, NamedTuple

from .errors import KINDS, SettingError, StoreError
from .hits import Hit, Json
from .kinds import Flag, Kind, StoreName, Text
from .tokens import Token
from .values import depth_fits, fraction_of, mapping_of, number_of, text_of

ENTRY_POINT_GROUP = "seren_corpus_callosum.adapters"
WARNINGS_LIMIT = 8  # warnings that one reply may cause


class Option(NamedTuple):
    """One adapter option: what it takes, its default, its help text."""

    kind: Kind
    default: Any
    help: str


class Mapped(NamedTuple):
    """What an adapter made of a reply: hits in the store's order, and what was odd about it."""

    hits: tuple[Hit, ...]
    warnings: tuple[str, ...] = ()
    looks_like: str | None = None  # the type of store that such a reply comes from
    unreadable: int = 0  # hits left out, because they are none


class Adapter:
    """The base of every adapter: `body` and `hit` are what a protocol must say."""

    options: ClassVar[Mapping[str, Option]] = {}
    max_results: ClassVar[int | None] = None  # the most that a store of this type may be asked for
    signature: ClassVar[str | None] = None  # a key that only replies of this type hold; None: any reply will do

    def path(self, options: Mapping[str, Json]) -> str:
        """The path of the search, below the store's URL."""
        return str(options.get("search_path", "/search"))

    def body(self, query: str, n_results: int, options: Mapping[str, Json], time_left_s: float) -> Json:
        """The JSON body of one search; raises StoreError to leave the store unasked."""
        raise NotImplementedError

    def hit(self, raw: Mapping[str, Json]) -> Hit:
        """One hit of a reply; whatever it raises costs that hit alone."""
        raise NotImplementedError

    def read(self, reply: Json, limit: int | None = None) -> Mapped:
        """The first `limit` hits of a reply; StoreError `bad_reply` for what the protocol does not allow."""
        if not isinstance(reply, Mapping):
            raise StoreError("bad_reply", "the answer is JSON but not an object; is this the right type of store?")
        raws = reply.get("hits")
        if not isinstance(raws, list):
            said = "an error" if reply.get("error") else "no `hits` list"
            raise StoreError("bad_reply", f"the answer holds {said}; is this the right type of store?")
        raws = raws[:limit]
        warnings = []
        if reply.get("error"):
            if not raws:
                raise StoreError("bad_reply", "the store reports an error beside an empty list of hits")
            warnings.append("it reports an error beside its hits")
        hits = [hit for raw in raws if (hit := self._hit_or_none(raw)) is not None]
        looks_like = self._speaker(reply)
        if self.is_not(looks_like):
            warnings.append(f"its answer looks like that of a {looks_like}: set its type")
            hits = [hit for hit in hits if hit.content]  # blank ones would stand in the place of memories
        # Serialising recurses from a deeper stack than parsing did: what is nested deeper could be read, not sent.
        deep = [index for index, hit in enumerate(hits) if not depth_fits(hit.metadata)]
        for index in deep:
            hits[index] = replace(hits[index], metadata={})
        if deep:
            warnings.append(f"the metadata of {len(deep)} of its hits is nested too deep and was left out")
        return Mapped(tuple(hits), tuple(warnings), looks_like, len(raws) - len(hits))

    def is_not(self, looks_like: str | None) -> bool:
        """Whether a reply that looks like this type is of another protocol; without a signature none is."""
        return bool(self.signature and looks_like) and SIGNATURES.get(str(looks_like)) != self.signature

    def _speaker(self, reply: Mapping[str, Json]) -> str | None:
        return next((name for name, key in SIGNATURES.items() if key in reply), None)

    def _hit_or_none(self, raw: Json) -> Hit | None:
        if not isinstance(raw, dict):
            return None
        try:
            hit = self.hit(raw)
        except Exception:  # noqa: BLE001 - an adapter may be anybody's, and nested data may exhaust the stack
            return None
        return hit if isinstance(hit, Hit) and isinstance(hit.metadata, Mapping) else None


def sound(mapped: Mapped) -> Mapped:
    """The same without what is no hit, which a warning counts: an adapter may be anybody's."""
    hits = tuple(hit for hit in mapped.hits if isinstance(hit, Hit) and _is_sound(hit))
    unreadable = mapped.unreadable + len(mapped.hits) - len(hits)
    if not unreadable:
        return mapped
    warning = f"{unreadable} of its hits could not be read and were left out"
    return mapped._replace(hits=hits, warnings=(warning, *mapped.warnings), unreadable=unreadable)


def _is_sound(hit: Hit) -> bool:
    for number in (hit.native_score, hit.raw_distance):
        if number is not None and number_of(number) is None:
            return False
    return (
        (hit.base_relevance is None or fraction_of(hit.base_relevance) is not None)
        and type(hit.id) is type(hit.content) is str
        and isinstance(hit.metadata, Mapping)
        and isinstance(hit.origin, tuple)
        and all(type(store) is str for store in hit.origin)
    )


SEARCH_PATH = Option(Text("a path that starts with /", r"/[!-~]*"), "/search", "path of the store's search")


class SerenLoci(Adapter):
    """Keyed facts: `key = value because why`."""

    options: ClassVar[Mapping[str, Option]] = {
        "project": Option(Text(), None, "search this project only; null: every scope"),
        "include_fundamentals": Option(Flag(), True, "facts that hold in every project"),
        "include_superseded": Option(Flag(), False, "facts that a later one replaced"),
        "search_path": SEARCH_PATH,
    }

    signature: ClassVar[str | None] = "finder"

    def body(self, query: str, n_results: int, options: Mapping[str, Json], time_left_s: float) -> Json:
        return {
            "query": query,
            "project": options["project"],
            "n_results": n_results,
            "include_fundamentals": options["include_fundamentals"],
            "include_superseded": options["include_superseded"],
        }

    def hit(self, raw: Mapping[str, Json]) -> Hit:
        key, value, why = text_of(raw.get("key")), text_of(raw.get("value")), text_of(raw.get("why"))
        sentence = f"{key} = {value}" if key and value else key or value
        if why:
            sentence = f"{sentence} because {why}" if sentence else why
        shown = ("id", "score", "raw_distance")
        return Hit(
            id=text_of(raw.get("id")),
            content=sentence,
            base_relevance=fraction_of(raw.get("score")),
            native_score=number_of(raw.get("score")),
            raw_distance=number_of(raw.get("raw_distance")),
            metadata={name: value for name, value in raw.items() if name not in shown},
        )


class SerenMemory(Adapter):
    """Episodes in three tiers; the list is in the order of a tier-weighted score."""

    options: ClassVar[Mapping[str, Option]] = {
        "include_short": Option(Flag(), True, "search the short tier"),
        "include_near": Option(Flag(), True, "search the near tier"),
        "include_long": Option(Flag(), True, "search the long tier"),
        "include_superseded": Option(Flag(), False, "memories that a later one replaced"),
        "search_path": SEARCH_PATH,
    }
    max_results: ClassVar[int | None] = 50
    signature: ClassVar[str | None] = "searched_tiers"

    def body(self, query: str, n_results: int, options: Mapping[str, Json], time_left_s: float) -> Json:
        flags = ("include_short", "include_near", "include_long", "include_superseded")
        return {"query": query, "n_results": n_results, **{name: options[name] for name in flags}}

    def hit(self, raw: Mapping[str, Json]) -> Hit:
        distance = number_of(raw.get("raw_distance"))
        metadata = dict(mapping_of(raw.get("metadata")))
        metadata.update({name: raw.get(name) for name in ("tier", "topic") if name in raw})
        metadata.update({name: raw[name] for name in ("surroundings", "matched_via") if raw.get(name) is not None})
        return Hit(
            id=text_of(raw.get("id")),
            content=text_of(raw.get("content")),
            base_relevance=1.0 / (1.0 + distance) if distance is not None and distance >= 0 else None,
            native_score=number_of(raw.get("score")),
            raw_distance=distance,
            metadata=metadata,
        )


class InnerCallosum(Adapter):
    """Another callosum: its merged list is this store's ranking."""

    max_results: ClassVar[int | None] = 200
    signature: ClassVar[str | None] = "stores_searched"

    def body(self, query: str, n_results: int, options: Mapping[str, Json], time_left_s: float) -> Json:
        if time_left_s < 0.1:
            raise StoreError("timeout", "under 0.1 s was left, too little to ask another callosum")
        # The inner fan must give up before this one does, or its partial answer is lost as a timeout.
        inner_s = max(0.05, time_left_s - min(0.5, max(0.05, 0.1 * time_left_s)))
        return {"query": query, "n_results": n_results, "timeout_s": round(min(inner_s, 120.0), 3)}

    def hit(self, raw: Mapping[str, Json]) -> Hit:
        metadata = dict(mapping_of(raw.get("metadata")))
        store = text_of(raw.get("store"))
        entry = {"store": store, "store_rank": raw.get("store_rank"), "score": raw.get("score")}
        before = metadata.get("via")
        rest = before if isinstance(before, list) else [] if before is None else [before]
        metadata["via"] = [entry, *rest]
        inner = [text_of(step.get("store")) for step in rest if isinstance(step, Mapping)]
        return Hit(
            id=text_of(raw.get("id")),
            content=text_of(raw.get("content")),
            base_relevance=fraction_of(raw.get("base_relevance")),
            native_score=number_of(raw.get("native_score")),
            raw_distance=number_of(raw.get("raw_distance")),
            metadata=metadata,
            origin=(store, *inner),
        )

    def read(self, reply: Json, limit: int | None = None) -> Mapped:
        mapped = super().read(reply, limit)
        skipped = [entry for entry in _list(reply.get("skipped")) if isinstance(entry, Mapping)]
        if skipped and not mapped.hits and not _list(reply.get("stores_searched")):
            if all(entry.get("kind") == "loop" for entry in skipped):
                raise StoreError("loop", "the query came back to a callosum that it had passed")
            raise StoreError("unreachable", f"none of its stores answered: {'; '.join(_told(skipped))}")
        warnings = [f"its store {_name(entry)} did not answer: {_kind(entry)}" for entry in skipped]
        inner = [entry for entry in _list(reply.get("warnings")) if isinstance(entry, Mapping)]
        warnings += [f"its store {_name(entry)} gave a partial answer" for entry in inner]
        return mapped._replace(warnings=(*mapped.warnings, *_capped(warnings)))


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _name(entry: Mapping[str, Json]) -> str:
    try:
        return f"'{StoreName().check(entry.get('name'))}'"
    except SettingError:
        return "without a usable name"


def _kind(entry: Mapping[str, Json]) -> str:
    kind = entry.get("kind")
    return kind if isinstance(kind, str) and kind in KINDS else "unknown"


def _told(skipped: Sequence[Mapping[str, Json]]) -> list[str]:
    return _capped([f"{_name(entry)} {_kind(entry)}" for entry in skipped])


def _capped(lines: list[str]) -> list[str]:
    if len(lines) <= WARNINGS_LIMIT:
        return lines
    return [*lines[:WARNINGS_LIMIT], f"and {len(lines) - WARNINGS_LIMIT} more of its stores"]


_registry: dict[str, Adapter] = {
    "seren_loci": SerenLoci(),
    "seren_memory": SerenMemory(),
    "callosum": InnerCallosum(),
}
SIGNATURES = {name: adapter.signature for name, adapter in _registry.items() if adapter.signature}


def register_adapter(type_name: str, adapter: Adapter) -> None:
    """Make `adapter` speak to every store of this type, in this process, from the next binding on."""
    if not isinstance(adapter, Adapter):
        raise TypeError(f"an adapter is an instance of a subclass of {__name__}.Adapter, not {adapter!r}")
    _registry[Text("text", r"[!-~]+").check(type_name)] = adapter


def adapter_for(type_name: str) -> Adapter | None:
    """The adapter of a store type, built in, registered, or brought by an installed entry point."""
    if type_name not in _registry and type_name in (brought := _brought(tuple(sys.path))):
        loaded = brought[type_name].load()
        register_adapter(type_name, loaded() if isinstance(loaded, type) else loaded)
    return _registry.get(type_name)


def adapter_types() -> tuple[str, ...]:
    """Every store type that can be named in a configuration."""
    return tuple(dict.fromkeys([*_registry, *_brought(tuple(sys.path))]))


@lru_cache(maxsize=1)
def _brought(_search_path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """What installed packages bring; kept, since looking through all of them takes milliseconds."""
    return {found.name: found for found in entry_points(group=ENTRY_POINT_GROUP)}


@dataclass(frozen=True, slots=True)
class Store:
    """One usable store: an adapter bound to an address, with its two knobs."""

    name: str
    type: str
    adapter: Adapter = field(repr=False)
    url: str  # without credentials
    options: Mapping[str, Json] = field(default_factory=dict)
    weight: float = 1.0
    floor: float = 0.0
    enabled: bool = True
    timeout_s: float | None = None
    token: Token | None = None
    credentials: tuple[str, str] | None = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)
    managed: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def search_url(self) -> str:
        return self.url + self.adapter.path(self.options)

    def asked_for(self, wanted: int) -> int:
        """How many hits to ask for, within the store's own cap."""
        cap = self.adapter.max_results
        return wanted if cap is None else min(wanted, cap)
