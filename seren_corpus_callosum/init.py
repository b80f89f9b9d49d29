"""The work of `init`: the starter configuration, written without ever replacing what stands there unasked."""

import os
import secrets
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from .binding import bind_all
from .config import OVERLAY_FILE, Config
from .errors import CallosumError
from .reference import LOCAL_STORES, starter
from .service import Callosum, Check
from .settings import Federation

PROBE_TIMEOUT_S = 2.0  # a store that loads its embedder at the first query still shows as running
TOKEN_BYTES = 32


def new_token() -> str:
    """A token that cannot be guessed, of letters, digits, dashes and underscores."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def probe() -> tuple[Check, ...]:
    """Ask each store that the starter names one live query."""
    stores = tuple(bind_all(LOCAL_STORES, {}, managed=False))
    with tempfile.TemporaryDirectory() as folder:
        config = Config(
            federation=Federation(per_store_timeout_s=PROBE_TIMEOUT_S),
            stores=stores,
            overlay=Path(folder) / OVERLAY_FILE,
        )
        with Callosum(config, environ={}) as callosum:
            return callosum.check_all()


def write_starter(path: Path, *, token: str = "", force: bool = False) -> Path | None:
    """Write the starter to `path`, mode 0600; return the name under which a replaced file is kept.

    An existing file is a CallosumError unless `force`; what stood there is never lost.
    """
    text = starter(token=token).encode()
    try:
        if path.is_dir():
            raise CallosumError(f"{path} is a folder: give the path of a file in it")
        path.parent.mkdir(parents=True, exist_ok=True)
        # A link that leads nowhere is somebody's arrangement too.
        if os.path.lexists(path) and not force:
            raise CallosumError(f"{path} is there already and was left alone; --force keeps it as .bak-<time>")
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        written = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(handle)
            give_to_caller(written)
            aside = _keep_aside(path) if os.path.lexists(path) else None
            written.replace(path)
        finally:
            written.unlink(missing_ok=True)
    except OSError as exc:
        raise CallosumError(f"{path} cannot be written: {exc.strerror}") from exc
    return aside


def _keep_aside(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.bak-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    return path.rename(aside)


def give_to_caller(path: Path) -> None:
    """Behind sudo, give a file to the account that called it, as which the service will run."""
    if hasattr(os, "geteuid") and os.geteuid() == 0 and {"SUDO_UID", "SUDO_GID"} <= os.environ.keys():
        os.chown(path, int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"]))


def report(path: Path, aside: Path | None, token: str, checks: Sequence[Check]) -> list[str]:
    """What `init` says."""
    lines = [f"wrote {path}"]
    if aside:
        lines.append(f"kept the file that stood there as {aside.name}")
    if token:
        lines.append("it holds a new token (server.bearer_token); callers send it as `Authorization: Bearer <token>`")
    else:
        lines.append(
            "it has no token, so whoever reaches the port may search: `init --token` makes one, or set server.host"
        )
    for entry, check in zip(LOCAL_STORES, checks, strict=True):
        told = "answers" if check.ok else f"does not answer now ({check.reason})"
        lines.append(f"{check.name} ({entry['type']} at {entry['url']}): {told}")
    return lines
