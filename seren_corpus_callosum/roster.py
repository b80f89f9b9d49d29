"""Edits of the overlay's list of stores, made under its lock; and what goes with them into the OS keychain."""

import json
import re
import secrets
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from . import settings, tokens
from .binding import STORE_ROWS, Unbound, bind, bind_all, own_name
from .errors import BadRequest, Duplicate, Invalid, NotFound, SettingError
from .hits import Json
from .stores import Store

KEYCHAIN_SERVICE = "seren-corpus-callosum"
CHANGED_FIELDS = tuple(key for key, row in STORE_ROWS.items() if row.live)

Entries = list[dict[str, Json]]


class Bindings:
    """The overlay's entries as bound: each once, however often the file changes, since its token may cost a while."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._known: dict[str, Store | Invalid | BadRequest] = {}

    def all(self, entries: Sequence[Mapping[str, Json]], taken: Mapping[str, str]) -> list[Store | Unbound]:
        """Every entry in order, as bind_all gives them; what is not among them is forgotten."""
        before, self._known = self._known, {}

        def bind_one(entry: Mapping[Any, Json]) -> Store:
            key = json.dumps(entry, sort_keys=True)
            found = before.get(key) or self._bound(entry)
            self._known[key] = found
            if not isinstance(found, Store):
                raise found.with_traceback(None)
            return found

        return bind_all(entries, self._environ, managed=True, taken=taken, bind_one=bind_one)

    def _bound(self, entry: Mapping[Any, Json]) -> Store | Invalid | BadRequest:
        try:
            return bind(entry, self._environ, managed=True)
        except (Invalid, BadRequest) as exc:
            return exc


class Addition:
    """One entry to be added; its token goes to the keychain where one works."""

    def __init__(self, entry: Mapping[str, Json], name: str, instance_id: str) -> None:
        self._entry = {key: value for key, value in entry.items() if value is not None} | {"name": name}
        self._name = name
        # Never a used one: the removal of an earlier store of this name may still be under way in another process,
        # and a reference that comes back would pass for the token that was resolved before.
        self._username = f"{instance_id}/{name}/{secrets.token_hex(4)}"
        self._in_keychain = False
        # Before the overlay is locked: a keychain that hangs would hold up the changes of every process.
        self._keychain_answers = bool(self._entry.get("token")) and tokens.keychain_answers(KEYCHAIN_SERVICE)

    def edit(self, entries: Entries) -> None:
        """Append the entry; raises Duplicate."""
        if any(_named(entries, self._name)):
            raise Duplicate(f"there is a store {self._name!r} already; remove it first or choose another name")
        if self._keychain_answers and tokens.keychain_save(
            KEYCHAIN_SERVICE, self._username, str(self._entry["token"]).strip()
        ):
            self._in_keychain = True
            del self._entry["token"]
            self._entry["token_keyring"] = f"{KEYCHAIN_SERVICE}/{self._username}"
        entries.append(self._entry)

    def undo(self) -> None:
        """Take the token back out of the keychain: the entry was not saved."""
        if self._in_keychain:
            tokens.keychain_delete(KEYCHAIN_SERVICE, self._username)


def change(entries: Entries, name: str, values: Mapping[str, Json]) -> None:
    """Set values of the entry of this name, None takes one away; raises NotFound."""
    found = _named(entries, name)
    if not found:
        raise unknown(name)
    for key, value in values.items():
        if value is None:
            found[0].pop(key, None)
        else:
            found[0][key] = value


def remove(entries: Entries, name: str) -> Entries:
    """Take away every entry of this name and return them; raises NotFound."""
    gone = _named(entries, name)
    if not gone:
        raise unknown(name)
    entries[:] = [entry for entry in entries if not any(entry is one for one in gone)]
    return gone


def forget_tokens(gone: Entries, name: str) -> None:
    """Delete the keychain entries that adding these stores made; one that a person pointed to stays."""
    ours = rf"{KEYCHAIN_SERVICE}/([^/]+/{re.escape(name)}/[0-9a-f]{{8}})"
    for entry in gone:
        if made := re.fullmatch(ours, str(entry.get("token_keyring"))):
            tokens.keychain_delete(KEYCHAIN_SERVICE, made[1])


def canonical(name: str) -> str:
    """A name as the roster holds it: a URL or a terminal may spell the same name decomposed."""
    return unicodedata.normalize("NFC", name)


def unknown(name: str) -> NotFound:
    return NotFound(f"there is no store {name!r}; GET /stores and `stores list` name them all")


def _named(entries: Entries, name: str) -> Entries:
    named = [entry for entry in entries if own_name(entry) == name]
    return named or [e for index, e in enumerate(entries) if own_name(e) is None and name == f"overlay[{index}]"]


def checked_changes(changes: Mapping[str, Json]) -> dict[str, Json]:
    """The values to set, None for the default; Invalid names each field that is wrong or cannot be changed."""
    errors: dict[str, list[str]] = {}
    values: dict[str, Json] = {}
    for key, value in changes.items():
        if key not in CHANGED_FIELDS:
            errors[str(key)] = [f"cannot be changed here (can be: {', '.join(CHANGED_FIELDS)})"]
        elif value is None:
            values[key] = None
        else:
            try:
                values[key] = STORE_ROWS[key].kind.check(value)
            except SettingError as exc:
                errors[key] = [f"expected {exc}, found {settings.described(value)}"]
    if errors:
        raise Invalid("the change has faults", errors=errors)
    return values
