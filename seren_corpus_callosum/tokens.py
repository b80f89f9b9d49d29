"""Where a secret comes from (inline, OS keychain, environment) and how it is compared.

No message, repr or log of this module holds a secret. The keychain library is optional and never waited for."""

import hmac
import importlib
import threading
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from .errors import TokenError

WAIT_S = 1.8  # of one keychain call; with what surrounds it, the answer comes within 2 s
WAIT_AFTER_HANG_S = 0.3  # while an earlier call still hangs: ten pointers must not cost twenty seconds
INSTALL = "pip install 'seren-corpus-callosum[keyring]'"
_WORDS = {"bool": "true/false", "int": "a number", "float": "a number", "date": "a date"}


@dataclass(frozen=True, slots=True)
class Token:
    """A usable secret and where it came from."""

    value: str = field(repr=False)
    source: str  # "inline", "keychain" or "environment variable NAME"

    @property
    def header_bytes(self) -> bytes:
        return self.value.encode()


def deciding(*sources: object) -> int:
    """Which of inline, keychain and environment decides: the index of the first that is set, 0 if none is."""
    return next((index for index, source in enumerate(sources) if _is_set(source)), 0)


def resolve(inline: object, keyring: object, env: object, environ: Mapping[str, str]) -> Token | None:
    """The first of the three that is set, or None; TokenError if that one leads to no usable token."""
    if _is_set(inline):
        return Token(_usable(inline, "the token"), "inline")
    if _is_set(keyring):
        return Token(_from_keychain(_usable(keyring, "the pointer to the keychain")), "keychain")
    if _is_set(env):
        return _from_environment(_usable(env, "the name of the token's environment variable"), environ)
    return None


def same(presented: bytes, token: Token) -> bool:
    """Whether both are equal, in a time that does not tell how far they agree."""
    return hmac.compare_digest(presented, token.header_bytes)


def keychain_answers(service: str) -> bool:
    """Whether this machine has a keychain that answers; asked where nobody waits for what the caller holds."""
    try:
        _ask(lambda backend, _call: backend.get_password(service, "answers"))
    except _NoKeychainError:
        return False
    return True


def keychain_save(service: str, username: str, secret: str) -> bool:
    """Whether the OS keychain now holds the secret; False where there is no working keychain."""

    def save(backend: Any, call: "_Call") -> bool:
        backend.set_password(service, username, secret)
        if call.finish():
            return bool(backend.get_password(service, username) == secret)
        # The caller was told "not saved" and keeps the secret elsewhere: a late copy would outlive its store.
        backend.delete_password(service, username)
        return False

    return _write((service, username), save)


def keychain_delete(service: str, username: str) -> bool:
    """Whether an entry was there and is deleted; False where there is no working keychain."""

    def delete(backend: Any, _call: "_Call") -> bool:
        backend.delete_password(service, username)
        return True

    return _write((service, username), delete)


def _is_set(value: object) -> bool:
    return value is not None and value != ""


def _usable(value: object, what: str) -> str:
    if not isinstance(value, str):
        names = [base.__name__ for base in type(value).__mro__[:-1]]
        kind = next((_WORDS[name] for name in names if name in _WORDS), f"a {names[-1]}")
        raise TokenError(f"{what} is not text but {kind}: quote it")
    text = value.strip()
    if not text:
        raise TokenError(f"{what} is blank: give one, or remove the key")
    if any(unicodedata.category(sign) in ("Cc", "Cs") for sign in text):
        raise TokenError(f"{what} holds a control character, a line break or broken UTF-8: write it on one line")
    return text


def _from_environment(name: str, environ: Mapping[str, str]) -> Token:
    # A secret pasted where its pointer belongs must not come back in the message.
    shown = f" {name}" if name.isidentifier() and ("_" in name or name.isupper()) else ""
    value = environ.get(name)
    if value is None:
        raise TokenError(f"the token's environment variable{shown} is not set: set it, or remove the pointer")
    return Token(_usable(value, f"the value of the environment variable{shown}"), f"environment variable {name}")


def _from_keychain(pointer: str) -> str:
    service, _, username = pointer.partition("/")
    if not service or not username:
        raise TokenError("a pointer to the keychain has the form service/username")
    try:
        secret = _ask(lambda backend, _call: backend.get_password(service, username))
    except _NoKeychainError as error:
        raise TokenError(f"the keychain entry {pointer} cannot be read: {error}") from None
    if secret is None:
        raise TokenError(f"no keychain entry {pointer}: save it with `keyring set {service} {username}`")
    return _usable(secret, f"the keychain entry {pointer}")


class _NoKeychainError(Exception):
    """Why no keychain answers here; never the text of a foreign exception, which may hold the secret."""


class _Call(threading.Thread):
    """One use of the keychain, in a daemon thread: backends wait for desktops and buses without a limit."""

    def __init__(self, work: Callable[[Any, "_Call"], Any], clean_up: Callable[[], None]) -> None:
        super().__init__(name="keychain", daemon=True)
        self._work, self._clean_up = work, clean_up
        self._decided = threading.Lock()
        self._outcome = ""
        self._done = threading.Event()
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            backend = _backend()
            if self._outcome != "given up":
                self.value = self._work(backend, self)
        except BaseException as error:  # noqa: BLE001  a backend may raise anything, and only the waiting thread can tell
            self.error = error
        finally:
            self._clean_up()
            self._done.set()

    def finish(self) -> bool:
        """Whether somebody still waits for the result; afterwards the call counts as successful."""
        return self._decide("finished")

    def wait(self, wait_s: float) -> bool:
        """Whether the result came in time."""
        return self._done.wait(wait_s) or (not self._decide("given up") and self._done.wait(WAIT_AFTER_HANG_S))

    def _decide(self, outcome: str) -> bool:
        with self._decided:
            self._outcome = self._outcome or outcome
            return self._outcome == outcome


_hung: list[_Call] = []
_writing: set[tuple[str, str]] = set()  # entries with a write under way: a hung one must not land on a later one
_writing_lock = threading.Lock()


def _ask(work: Callable[[Any, _Call], Any], clean_up: Callable[[], None] = lambda: None) -> Any:
    _hung[:] = [call for call in _hung if call.is_alive()]
    call = _Call(work, clean_up)
    try:
        call.start()
    except RuntimeError:
        clean_up()
        raise _NoKeychainError("no thread could be started for it") from None
    if not call.wait(WAIT_AFTER_HANG_S if _hung else WAIT_S):
        _hung.append(call)
        raise _NoKeychainError("the keychain does not answer; is it locked, or is no desktop session running?")
    if isinstance(call.error, _NoKeychainError):
        raise call.error
    if call.error is not None:
        raise _NoKeychainError(f"the keychain failed ({type(call.error).__name__})")
    return call.value


def _write(entry: tuple[str, str], work: Callable[[Any, _Call], bool]) -> bool:
    with _writing_lock:
        if entry in _writing:
            return False
        _writing.add(entry)
    try:
        return bool(_ask(work, lambda: _writing.discard(entry)))
    except _NoKeychainError:
        return False


def _backend() -> Any:
    """The keychain of this machine that works without asking anybody, or _NoKeychainError."""
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        raise _NoKeychainError(f"keyring is not installed: {INSTALL}") from None
    backend = keyring.get_keyring()
    members = list(getattr(backend, "backends", ())) or [backend]  # a chain of several, or one
    if all(type(member).__module__ in ("keyring.backends.fail", "keyring.backends.null") for member in members):
        raise _NoKeychainError("this machine has no keychain")
    if any(_would_ask(member) for member in members):
        raise _NoKeychainError("the keychain is locked and would ask for a pass phrase: unlock it first")
    return backend


def _would_ask(backend: Any) -> bool:
    kind = type(backend)
    if (kind.__module__, kind.__name__) == ("keyrings.alt.file", "EncryptedKeyring"):
        return "keyring_key" not in vars(backend)
    if kind.__module__ == "keyring.backends.SecretService":
        secretstorage = importlib.import_module("secretstorage")
        with closing(secretstorage.dbus_init()) as bus:
            return bool(secretstorage.Collection(bus).is_locked())
    return False
