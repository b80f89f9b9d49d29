"""YAML and environment to one Config, or a ConfigError that holds every fault."""

import difflib
import hashlib
import importlib.util
import os
import socket
import ssl
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from . import settings, yamlfile
from .binding import Unbound, bind_all, nearest
from .errors import ConfigError, SettingError, TokenError
from .kinds import Flag, Kind, Text
from .settings import Federation, Row, Server, Tls
from .stores import Store
from .tokens import Token, deciding, resolve

DEFAULT_FILE = "seren-corpus-callosum.yaml"
OVERLAY_FILE = "runtime-stores.json"

LOG_LEVEL = Text("debug, info, warning or error", r"(?i:debug|info|warning|error)")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Config:
    """The resolved configuration; `stores` are the entries of the file, `warnings` one line each."""

    server: Server = field(default_factory=Server)
    tls: Tls = field(default_factory=Tls)
    federation: Federation = field(default_factory=Federation)
    stores: tuple[Store | Unbound, ...] = ()
    warnings: tuple[str, ...] = ()
    token: Token | None = None
    path: Path | None = None  # of the file that was read
    overlay: Path = field(default_factory=lambda: Path(OVERLAY_FILE))
    instance_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    log_level: str = "info"
    log_query: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)  # "server.port" -> where its value comes from

    @property
    def file_name(self) -> str:
        return self.path.name if self.path else DEFAULT_FILE


class _Reading:
    """Collects faults and warnings while the sources are read."""

    def __init__(self, name: str, environ: Mapping[str, str]) -> None:
        self.name = name
        self.environ = environ
        self.faults: list[str] = []
        self.warnings: list[str] = []
        self.sources: dict[str, str] = {}

    def place(self, section: Mapping[Any, Any], key: object) -> str:
        line = getattr(section, "lines", {}).get(key)
        return f"{self.name}:{line}" if line else self.name

    def source(self, document: Mapping[Any, Any], name: str, key: str) -> str:
        """Where the value in force of a setting comes from: a place in the file, or a variable."""
        source, section = self.sources[f"{name}.{key}"], document.get(name)
        return self.place(section, key) if source == self.name and isinstance(section, Mapping) else source

    def section(self, document: Mapping[Any, Any], name: str) -> Mapping[Any, Any]:
        value = document.get(name)
        if value is None or isinstance(value, Mapping):
            return value or {}
        fault = f"{self.place(document, name)}: {name}: expected a mapping, found {settings.shape_of(value)}"
        if fault not in self.faults:
            self.faults.append(fault)
        return {}

    def table(self, document: Mapping[Any, Any], name: str, table: type[T], *, strict: bool, extra: str = "") -> T:
        """One section of the settings table from the file and the variables."""
        section = self.section(document, name)
        values: dict[str, Any] = {}
        known = [row.key for row in settings.rows(name, table)]
        for key in section:
            if key not in known and key != extra:
                shown = f"{name}.{settings.key_text(key)}"
                line = f"{self.place(section, key)}: {shown}: unknown key{nearest(key, [*known, extra])}"
                (self.faults if strict else self.warnings).append(line)
        for row in settings.rows(name, table):
            full = f"{name}.{row.key}"
            self.sources[full] = "default"
            if section.get(row.key) is not None:
                self._take(row, row.kind.check, section[row.key], f"{self.place(section, row.key)}: {full}", values)
                self.sources[full] = self.name
            text = self.environ.get(row.variable, "")
            if text.strip() or (text and row.secret):
                self._take(row, row.kind.parse, text if row.secret else text.strip(), row.variable, values)
                self.sources[full] = row.variable
        return table(**values)

    def path(self, label: str, text: str) -> Path:
        try:
            return _expanded(text)
        except ConfigError as exc:
            self.faults += [f"{label}: {fault}" for fault in exc.faults]
            return Path(text)

    def variable(self, name: str, kind: Kind, default: Any) -> Any:
        """One of the variables that the file has no key for."""
        variable = settings.PREFIX + name
        text = self.environ.get(variable, "").strip()
        try:
            return kind.parse(text) if text else default
        except SettingError as exc:
            self.faults.append(f"{variable}: expected {exc}, found {settings.described(text)}")
            return default

    def _take(self, row: Row, check: Any, value: Any, place: str, values: dict[str, Any]) -> None:
        try:
            values[row.key] = check(value)
        except SettingError as exc:
            found = settings.described(value, secret=row.hidden)
            self.faults.append(f"{place}: expected {exc}, found {found}")


def load(path: str | Path | None = None, environ: Mapping[str, str] | None = None) -> Config:
    """The configuration from a file, `$SEREN_SCC_CONFIG` or ./seren-corpus-callosum.yaml, and the environment.

    Raises ConfigError with every fault found. A missing file is no fault: a service without stores.
    """
    environ = os.environ if environ is None else environ
    file = file_path(path, environ)
    document: Mapping[Any, Any] = {}
    found = None
    early: list[str] = []
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        pass
    except OSError as exc:
        early.append(f"{file.name}: cannot be read: {os.strerror(exc.errno or 0)}")
    else:
        found = file.absolute()
        try:
            document = yamlfile.read(data, file.name)
        except ConfigError as exc:
            early += exc.faults
    return _resolved(document, found, file.name, environ, early)


def _resolved(
    document: Mapping[Any, Any], path: Path | None, name: str, environ: Mapping[str, str], early: Sequence[str]
) -> Config:
    reading = _Reading(name, environ)
    reading.faults += early
    if path is None and not early:
        reading.warnings.append(f"no config file {name}: built-in defaults, no stores declared")
    for key in document:
        if key not in settings.SECTIONS:
            place, hint = reading.place(document, key), nearest(key, settings.SECTIONS)
            reading.warnings.append(f"{place}: {settings.key_text(key)}: unknown key{hint}")
    server = reading.table(document, "server", Server, strict=True)
    tls = reading.table(document, "tls", Tls, strict=True)
    federation = reading.table(document, "federation", Federation, strict=False, extra="stores")
    reading.warnings += _unknown_variables(environ)
    home = path.parent if path else working_directory()
    tls = _usable_tls(tls, document, home, reading)
    token = _server_token(server, document, reading)
    stores = _stores(reading.section(document, "federation"), reading)
    runtime_stores = settings.PREFIX + "RUNTIME_STORES"
    overlay = home / reading.path(runtime_stores, environ.get(runtime_stores, "").strip() or OVERLAY_FILE)
    if path is not None and os.path.realpath(overlay) == os.path.realpath(path):
        # The first store that is added would take the place of the whole hand-written file.
        reading.faults.append(f"{runtime_stores}: expected a file of its own, found the config file")
    log_level = reading.variable("LOG_LEVEL", LOG_LEVEL, "info")
    log_query = reading.variable("LOG_QUERY", Flag(), False)
    if reading.faults:
        raise ConfigError(reading.faults)
    return Config(
        server=server,
        tls=tls,
        federation=federation,
        stores=tuple(stores),
        warnings=tuple(reading.warnings),
        token=token,
        path=path,
        overlay=overlay,
        instance_id=server.instance_id or _instance_id(server, path),
        log_level=log_level,
        log_query=log_query,
        sources=reading.sources,
    )


def file_path(path: str | Path | None, environ: Mapping[str, str]) -> Path:
    """Where the configuration is: the path given, `$SEREN_SCC_CONFIG` or ./seren-corpus-callosum.yaml."""
    return _expanded(path or environ.get(settings.PREFIX + "CONFIG", "").strip() or DEFAULT_FILE)


def _expanded(path: str | Path) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigError([f"{path}: there is no home folder to put for ~; give a full path"]) from None


def working_directory() -> Path:
    """The folder that relative paths start from; ConfigError where it was removed."""
    try:
        return Path.cwd()
    except OSError:
        raise ConfigError(["the working directory is gone: start in another, or name a config file with -c"]) from None


def _instance_id(server: Server, path: Path | None) -> str:
    place = f"{socket.gethostname()}:{server.port}:{path or working_directory()}"
    return hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _unknown_variables(environ: Mapping[str, str]) -> list[str]:
    known = [row.variable.removeprefix(settings.PREFIX) for row in settings.all_rows()]
    known += settings.PROCESS_VARIABLES
    given = [name.removeprefix(settings.PREFIX) for name in environ if name.startswith(settings.PREFIX)]
    hints = {name: difflib.get_close_matches(name, known, n=1, cutoff=0.5) for name in given if name not in known}
    return [
        f"{settings.PREFIX}{name}: unknown variable" + (f"; did you mean {settings.PREFIX}{hint[0]}?" if hint else "")
        for name, hint in hints.items()
    ]


def _usable_tls(tls: Tls, document: Mapping[Any, Any], home: Path, reading: _Reading) -> Tls:
    if tls.trust_system_store and importlib.util.find_spec("truststore") is None:
        place = reading.source(document, "tls", "trust_system_store")
        reading.faults.append(f"{place}: tls.trust_system_store: needs pip install 'seren-corpus-callosum[corp]'")
    if tls.ca_bundle is None or tls.ca_bundle == "":
        return replace(tls, ca_bundle=None)
    place = reading.source(document, "tls", "ca_bundle")
    bundle = home / reading.path(f"{place}: tls.ca_bundle", tls.ca_bundle)
    try:
        ssl.create_default_context(cafile=str(bundle))
    except OSError:
        expected = "expected a readable PEM file with certificates"
        reading.faults.append(f"{place}: tls.ca_bundle: {expected}, found none at {str(bundle)!r}")
    return replace(tls, ca_bundle=str(bundle))


def _server_token(server: Server, document: Mapping[Any, Any], reading: _Reading) -> Token | None:
    sources = (server.bearer_token, server.bearer_token_keyring, server.bearer_token_env)
    try:
        return resolve(*sources, reading.environ)
    except TokenError as exc:
        key = ("bearer_token", "bearer_token_keyring", "bearer_token_env")[deciding(*sources)]
        reading.faults.append(f"{reading.source(document, 'server', key)}: server.{key}: {exc}")
        return None


def _stores(federation: Mapping[Any, Any], reading: _Reading) -> list[Store | Unbound]:
    entries = federation.get("stores")
    if entries is None:
        return []
    if not isinstance(entries, list):
        place = reading.place(federation, "stores")
        reading.faults.append(f"{place}: federation.stores: expected a list, found {settings.shape_of(entries)}")
        return []
    return bind_all(entries, reading.environ, managed=False)
