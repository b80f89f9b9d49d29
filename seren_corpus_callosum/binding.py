"""One store entry, of the file, the overlay or a request, to one usable Store, or to every reason why not."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import settings, urls
from .errors import BadRequest, Invalid, SettingError, TokenError
from .hits import Json
from .kinds import StoreName
from .settings import Row, StoreEntry
from .stores import Adapter, Store, adapter_for, adapter_types
from .tokens import Token, deciding, resolve

STORE_ROWS = {row.key: row for row in settings.rows("store", StoreEntry)}


@dataclass(frozen=True, slots=True)
class Unbound:
    """A store entry that cannot be used: the name it is shown under, why, and what it says of itself."""

    name: str
    reason: str
    type: str = ""
    url: str = ""
    enabled: bool = True
    managed: bool = False
    duplicate: bool = False  # another store has this name: shown in the roster only

    @property
    def is_missed(self) -> bool:
        """Whether a search must own up to it."""
        return self.enabled and not self.duplicate


def nearest(key: object, known: Iterable[str]) -> str:
    """A hint at the known key that was probably meant."""
    names = sorted(filter(None, known))
    close = difflib.get_close_matches(settings.key_text(key), names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f" (known: {', '.join(names) or 'none'})"


def bind_all(
    entries: Sequence[Json],
    environ: Mapping[str, str],
    *,
    managed: bool,
    taken: Mapping[str, str] | None = None,
    bind_one: Callable[[Mapping[Any, Json]], Store] | None = None,
) -> list[Store | Unbound]:
    """Each entry as a usable Store or as an Unbound with the reason, in order; of one name the first wins.

    `taken` maps names that are not to be had to the reason why; `bind_one` stands for `bind`.
    """
    bind_one = bind_one or (lambda entry: bind(entry, environ, managed=managed))
    bound: list[Store | Unbound] = []
    names = dict(taken or {})
    for index, entry in enumerate(entries):
        own = own_name(entry)
        name = own or f"{'overlay' if managed else 'stores'}[{index}]"
        if own in names:
            bound.append(_unbound(name, names[own], entry, managed, duplicate=True))
            continue
        try:
            if not isinstance(entry, Mapping):
                raise Invalid("", errors={"": [f"expected a mapping, found {settings.shape_of(entry)}"]})
            bound.append(bind_one(entry))
        except (Invalid, BadRequest) as exc:
            bound.append(_unbound(name, str(exc), entry, managed))
        if own is not None:
            names[own] = "an earlier entry has this name"
    return bound


def _unbound(name: str, reason: str, entry: Json, managed: bool, *, duplicate: bool = False) -> Unbound:
    type_name, url = _about(entry)
    enabled = not isinstance(entry, Mapping) or entry.get("enabled") is not False
    return Unbound(name, reason, type_name, url, enabled, managed, duplicate)


def own_name(entry: Json) -> str | None:
    """The name of an entry; None where it has no usable one, and goes by its place in the list."""
    try:
        return StoreName().check(entry.get("name") if isinstance(entry, Mapping) else None)
    except SettingError:
        return None


def _about(entry: Json) -> tuple[str, str]:
    """The type and the address that an entry names, as far as they can be shown."""
    if not isinstance(entry, Mapping):
        return "", ""
    type_name, url = entry.get("type"), entry.get("url")
    try:
        shown = urls.parse(url).url if isinstance(url, str) else ""
    except SettingError:
        shown = ""
    return settings.clipped(type_name) if isinstance(type_name, str) else "", shown


def bind(entry: Mapping[Any, Json], environ: Mapping[str, str], *, managed: bool, strict: bool = False) -> Store:
    """One entry as a usable Store; the faults by field are in Invalid, or in BadRequest where its type is none of ours.

    `strict`: an unknown option is a fault, not a warning.
    """
    errors: dict[str, list[str]] = {}
    warnings: list[str] = []
    given = _given(entry, errors)
    known = _adapter(given.get("type"), errors)
    adapter = known or Adapter()
    values: dict[str, Any] = {}
    options = dict(given.pop("options", None) or {}) if isinstance(given.get("options"), Mapping) else {}
    for key, value in given.items():
        if key in STORE_ROWS:
            _check(STORE_ROWS[key], value, values, errors)
        elif key in adapter.options:
            options.setdefault(key, value)
        else:
            keys = [*STORE_ROWS, *settings.TOKEN_SPELLINGS, *adapter.options]
            warnings.append(f"{settings.key_text(key)}: unknown key{nearest(key, keys)}")
    for key in ("name", "type", "url"):
        if key not in given:
            errors.setdefault(key, []).append(f"missing: {STORE_ROWS[key].help}")
    url = _url(values, errors, managed=managed)
    if known is None:  # which options there are cannot be told
        options.clear()
        warnings = [line for line in warnings if line.endswith(("mean name?", "mean type?", "mean url?"))]
    bound = {key: option.default for key, option in adapter.options.items()}
    for key, value in options.items():
        if key not in adapter.options:
            message = f"unknown option{nearest(key, adapter.options)}"
            if strict:
                errors.setdefault(f"options.{key}", []).append(message)
            else:
                warnings.append(f"options.{settings.key_text(key)}: {message}")
        elif value is not None:
            try:
                bound[key] = adapter.options[key].kind.check(value)
            except SettingError as exc:
                errors.setdefault(f"options.{key}", []).append(f"expected {exc}, found {settings.described(value)}")
    token = _token(values, environ, errors)
    if errors or url is None:
        all_ = errors | ({"": warnings} if warnings else {})
        if known is None and isinstance(given.get("type"), str):
            raise BadRequest("; ".join(errors["type"]), errors=all_)
        raise Invalid("the store entry has faults", errors=all_)
    if token is not None and url.credentials is not None:
        warnings.append("url: it holds a user and password, which are not used: the token wins")
    if managed and token is not None and token.source == "inline":
        warnings.append("its token stands in the overlay file (mode 0600); a working OS keychain would keep it")
    knobs = {key: values.get(key, row.default) for key, row in STORE_ROWS.items() if row.live}
    return Store(
        name=values["name"],
        type=values["type"],
        adapter=adapter,
        url=url.url,
        options=bound,
        token=token,
        credentials=url.credentials if token is None else None,
        proxy=values.get("proxy"),
        managed=managed,
        warnings=tuple(warnings),
        **knobs,
    )


def _given(entry: Mapping[Any, Json], errors: dict[str, list[str]]) -> dict[str, Json]:
    """The keys that are set, the other spellings of the token's keys brought to one."""
    given: dict[str, Json] = {}
    for key, value in entry.items():
        name = settings.TOKEN_SPELLINGS.get(key, key) if isinstance(key, str) else str(key)
        if value is None and name not in ("name", "type", "url"):
            continue
        if name in given:
            errors.setdefault(name, []).append(f"given twice, as {name} and as {key}; keep one")
        given[name] = value
    return given


def _adapter(type_name: Json, errors: dict[str, list[str]]) -> Adapter | None:
    if not isinstance(type_name, str):
        return None
    try:
        adapter = adapter_for(type_name)
    except Exception as exc:  # noqa: BLE001 - an installed plug-in may raise anything; it costs its own stores only
        errors.setdefault("type", []).append(f"its adapter could not be loaded ({type(exc).__name__})")
        return None
    if adapter is None:
        known = ", ".join(adapter_types())
        errors.setdefault("type", []).append(f"unknown type {settings.clipped(type_name)!r}; known types: {known}")
    return adapter


def _check(row: Row, value: Json, values: dict[str, Any], errors: dict[str, list[str]]) -> None:
    try:
        values[row.key] = row.kind.check(value)
    except SettingError as exc:
        found = settings.described(value, secret=row.hidden)
        errors.setdefault(row.key, []).append(f"expected {exc}, found {found}")


def _url(values: Mapping[str, Any], errors: dict[str, list[str]], *, managed: bool) -> urls.StoreUrl | None:
    try:
        if values.get("proxy"):
            urls.parse(values["proxy"])
    except SettingError as exc:
        errors.setdefault("proxy", []).append(f"expected {exc}")
    if "url" not in values:
        return None
    try:
        url = urls.parse(values["url"])
    except SettingError as exc:
        errors.setdefault("url", []).append(f"expected {exc}")
        return None
    address = urls.literal_address(url.host)
    if managed and address is not None and urls.is_forbidden(address):
        errors.setdefault("url", []).append("link-local and metadata addresses are refused to added stores")
    return url


def _token(values: Mapping[str, Any], environ: Mapping[str, str], errors: dict[str, list[str]]) -> Token | None:
    sources = (values.get("token"), values.get("token_keyring"), values.get("token_env"))
    try:
        return resolve(*sources, environ)
    except TokenError as exc:
        key = ("token", "token_keyring", "token_env")[deciding(*sources)]
        errors.setdefault(key, []).append(str(exc))
        return None
