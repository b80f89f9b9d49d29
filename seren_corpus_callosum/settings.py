"""The one table of every setting: type, default, range, help, and whether it may change while the service runs.

Each dataclass field below is one row. Adding a setting is adding a row here and using it. Holds no I/O.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import date
from typing import Any

from .hits import Json
from .kinds import (
    Address,
    Flag,
    Kind,
    Number,
    OddNumber,
    Options,
    QueryText,
    Secret,
    StoreName,
    Text,
    Whole,
    Words,
)


def setting(kind: Kind, default: Any = MISSING, *, help: str, live: bool = False) -> Any:
    """One row of the table; `live`: it may change while the service runs."""
    row = {"kind": kind, "help": help, "live": live}
    if default is MISSING:
        return field(metadata=row)
    return field(default=default, metadata=row)


LISTEN = Text("an address to listen on", r"[^\s\x00-\x1f\x7f]+")
POINTER = Text("text: the name of an environment variable", r"[^\x00-\x1f\x7f=]*")
KEYRING = Text("text: service/username")
HOST_NAME = Text("`name` or `name:port`", r"[^\s/@:]+(:[0-9]{1,5})?|\[[0-9a-fA-F:.]+\](:[0-9]{1,5})?")
ORIGIN = Text("an origin such as https://portal.example", r"https?://[^\s/;,'\"@?#*]+")
SECONDS = Number(0.05, 120)
N_RESULTS = Whole(1, 200)
QUERY = QueryText()
NAME = Text("at most 64 letters, digits, dots, dashes and underscores", r"[A-Za-z0-9._-]{0,64}")
CALLOSUM_HOP = re.compile(r"1\.1 callosum-[A-Za-z0-9._-]{1,64}")  # an entry of a Via header; the end is a NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    host: str = setting(LISTEN, "0.0.0.0", help="address to listen on")  # noqa: S104
    port: int = setting(Whole(1, 65535), 7423, help="port to listen on")
    threads: int = setting(Whole(1, 256), 16, help="request threads; also the calls to one store at once")
    connection_limit: int = setting(Whole(10, 10000), 200, help="open connections at most")
    request_timeout_s: float = setting(Number(0.1, 3600), 30.0, help="a request not fully received by then is dropped")
    bearer_token: str = setting(Secret(), "", help="the token that callers must send, as it is")
    bearer_token_env: str = setting(POINTER, "", help="or the name of an environment variable that holds it")
    bearer_token_keyring: str = setting(KEYRING, "", help="or its place in the OS keychain, service/username")
    allow_open_lan: bool = setting(Flag(), False, help="without a token, let any client change the stores")
    allowed_hosts: tuple[str, ...] = setting(Words(HOST_NAME), (), help="further Host names that it answers to")
    trusted_proxy: str = setting(Address(), "", help="exact address of a reverse proxy whose X-Forwarded-* count")
    frame_ancestors: tuple[str, ...] = setting(Words(ORIGIN), (), help="origins that may frame the page beside its own")
    instance_id: str = setting(NAME, "", help="this callosum's name in Via; replicas set the same one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    trust_system_store: bool = setting(Flag(), False, help="trust what the OS trusts; needs the [corp] extra")
    ca_bundle: str | None = setting(Text("a path to a PEM file"), None, help="trust the authorities in this PEM file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    k: int = setting(Whole(1, 10000), 60, help="score = weight / (k + rank)")
    n_results: int = setting(N_RESULTS, 10, help="hits of an answer, unless the caller says")
    fetch_multiplier: int = setting(Whole(1, 10), 2, help="each store is asked for n_results * this")
    per_store_timeout_s: float = setting(SECONDS, 5.0, help="total deadline of one store's answer")
    suspend_after: int = setting(
        Whole(0, 100), 3, help="timeouts in a row until a store is left out for a while; 0 = never"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreEntry:
    """One entry of federation.stores, of the overlay, or of POST /stores."""

    name: str = setting(StoreName(), help="unique name of the store")
    type: str = setting(Text("the name of a store type"), help="which adapter speaks to it")
    url: str = setting(Text("an http or https URL"), help="where it listens")
    weight: float = setting(Number(0, 1000), 1.0, help="the cross-store trust lever", live=True)
    floor: float = setting(Number(0, 1), 0.0, help="hits less relevant than this are dropped", live=True)
    enabled: bool = setting(Flag(), True, help="false: kept in the list, never asked", live=True)
    timeout_s: float | None = setting(SECONDS, None, help="overrides per_store_timeout_s for this store", live=True)
    token: str = setting(Secret(), "", help="what this store wants as bearer")
    token_env: str = setting(POINTER, "", help="or the name of an environment variable that holds it")
    token_keyring: str = setting(KEYRING, "", help="or its place in the OS keychain, service/username")
    proxy: str | None = setting(Text("an http or https URL of a proxy"), None, help="outbound proxy for this store")
    options: dict[str, Json] | None = setting(Options(), None, help="adapter options")


SECTIONS: Mapping[str, type[Server] | type[Tls] | type[Federation]] = {
    "server": Server,
    "tls": Tls,
    "federation": Federation,
}
PREFIX = "SEREN_SCC_"
PROCESS_VARIABLES = {
    "CONFIG": "path of the config file",
    "RUNTIME_STORES": "path of the overlay that holds the stores added while running",
    "LOG_LEVEL": "debug, info, warning or error",
    "LOG_QUERY": "true: write query texts into the log",
}
TOKEN_SPELLINGS = {
    "bearer_token": "token",
    "bearer_token_env": "token_env",
    "bearer_token_keyring": "token_keyring",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One setting as the table has it, with its section."""

    section: str
    key: str
    kind: Kind
    default: Any
    help: str
    live: bool

    @property
    def variable(self) -> str:
        return PREFIX + self.key.upper()

    @property
    def secret(self) -> bool:
        return isinstance(self.kind, Secret)

    @property
    def hidden(self) -> bool:
        """Whether a faulty value may hold a secret: a token put where its pointer belongs, a URL with a password."""
        return self.secret or "token" in self.key or self.key in ("url", "proxy")


def rows(section: str, table: Any) -> Iterator[Row]:
    """The rows of one dataclass of this module, in order."""
    for one in fields(table):
        yield _row(section, one)


def _row(section: str, one: "Field[Any]") -> Row:
    default = None if one.default is MISSING else one.default
    return Row(section, one.name, one.metadata["kind"], default, one.metadata["help"], one.metadata["live"])


def all_rows() -> Iterator[Row]:
    """Every setting that has a variable: the whole table but the stores'."""
    for section, table in SECTIONS.items():
        yield from rows(section, table)


def described(value: Json, *, secret: bool = False) -> str:
    """What was found, for an error text; of a secret only its type."""
    number = "a number"
    names: dict[type, str] = {bool: "true/false", int: number, float: number, str: "text", OddNumber: number}
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, date):
        return "a date"
    name = names.get(type(value), "something else")
    if secret or name == "something else":
        return name
    if isinstance(value, int) and value.bit_length() > 1000:
        return "a huge number"
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is str:
        return f"text {clipped(value)!r}"
    if type(value) is OddNumber:
        return f"the number {clipped(str(int(value)))} (leading 0, 0x, 0b or 1:30 is not plain decimal)"
    return f"the number {clipped(str(value))}"


def shape_of(value: Json) -> str:
    """What was found where a mapping or a list was expected; a text may be `token:secret`, a space forgotten."""
    return described(value, secret=isinstance(value, str))


def key_text(key: object) -> str:
    """A key of a file as it can be shown, whatever it holds; of `token:secret`, a space forgotten, the key alone."""
    shown = re.split(r"(?<=.)[:=]", key)[0] if isinstance(key, str) else key
    return clipped(shown if isinstance(shown, str) and shown.isprintable() else repr(shown))


def clipped(text: str, characters: int = 60) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"
