"""Lock, read, change and replace one JSON file: a list of objects that several processes share.

Knows nothing of what the objects mean. Only this module uses file locks."""

import errno
import json
import math
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, SoftFileLock, Timeout

from .errors import NotSaved
from .hits import Json

T = TypeVar("T")
POLL_S = 0.01  # between two tries for the lock
SHARING_RETRIES, SHARING_PAUSE_S = 40, 0.05  # Windows, 2 s: a reader or a scanner has the file open
_REASONS = {
    errno.ENOENT: "its folder does not exist",
    errno.ENOTDIR: "its folder does not exist",
    errno.EBUSY: "it is mounted as a single file and cannot be replaced; mount its folder instead",
    errno.EXDEV: "it is mounted as a single file and cannot be replaced; mount its folder instead",
    errno.ENOLCK: "its file system has no file locks",
    errno.ENOSYS: "its file system has no file locks",
    errno.EOPNOTSUPP: "its file system has no file locks",
}


@dataclass(frozen=True, slots=True)
class Roster:
    """What the file holds. `damage`: one line naming the file, by its name alone; None if all of it is usable."""

    entries: tuple[Mapping[str, Json], ...]
    damage: str | None = None


class Overlay:
    """One shared JSON file; all methods may be called by many threads and processes at once."""

    def __init__(
        self, path: Path, *, lock_timeout_s: float = 5.0, pause: Callable[[float], object] = time.sleep
    ) -> None:
        self._path = path
        self._name = path.name
        self._lock_timeout_s = lock_timeout_s
        self._pause = pause
        self._threads = threading.Lock()
        self._seen: object = None  # the file's state at the last read
        self._good: tuple[Mapping[str, Json], ...] | None = None

    def read(self) -> Roster:
        """The entries as they are now, without the lock; of a damaged file the last good ones or the usable ones."""
        # Taken before the bytes: a change in between is then seen once more, never missed.
        seen = self._state()
        roster, _raw, unread = self._load()
        self._seen = None if unread else seen
        if roster.damage is None:
            self._good = roster.entries
        return roster

    def changed(self) -> bool:
        """Whether the file may differ from what the last read() saw."""
        return self._seen is None or self._state() != self._seen

    def change(self, edit: Callable[[list[dict[str, Json]]], T], *, saved: Callable[[T], object] | None = None) -> T:
        """Under the lock: edit a fresh list in place, write it, call `saved` with what edit returned, and return that.

        What edit raises passes through and nothing is written. NotSaved: the file is as it was."""
        deadline = time.monotonic() + self._lock_timeout_s
        if not self._threads.acquire(timeout=self._lock_timeout_s):
            raise self._locked()
        try:
            # A link stays: everything happens beside its target, where other links to it meet the same lock.
            target = Path(os.path.realpath(self._path))
            with self._locked_file(target, deadline):
                roster, raw, unread = self._load()
                if unread:  # what stands in it is not known to be damaged, and may be another process's change
                    raise NotSaved(f"not saved: {roster.damage}; try again, or move it away")
                with self._not_saved():
                    entries: list[dict[str, Json]] = json.loads(_encoded(roster.entries))  # a copy: readers have these
                result = edit(entries)
                with self._not_saved():
                    self._save(target, _encoded(entries), damaged=raw if roster.damage else None)
                if saved is not None:
                    saved(result)
                return result
        finally:
            self._threads.release()

    def _state(self) -> object:
        try:
            found = os.stat(self._path)  # noqa: PTH116  half the time of Path.stat, before every search
        except OSError as error:
            return error.errno
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def _load(self) -> tuple[Roster, bytes | None, bool]:
        """The roster, the file's bytes (None: none to be had), and whether they are there but could not be read."""
        try:
            # Opening a FIFO or a device would wait for ever.
            if not stat.S_ISREG(self._path.stat().st_mode):
                return self._damaged("is not a regular file"), None, False
            raw = self._path.read_bytes()
        except FileNotFoundError:
            return Roster(()), None, False
        except OSError as error:
            return self._damaged(f"cannot be read: {_reason(error)}"), None, True
        try:
            parsed = json.loads(raw, parse_int=_integer)
        except json.JSONDecodeError as error:
            fault = f"is not JSON: line {error.lineno}, column {error.colno}" if raw else "is empty, not even a list"
        except (ValueError, RecursionError):
            fault = "is not JSON: broken UTF-8, or nested too deeply"
        else:
            if isinstance(parsed, list):
                return self._sorted_out(parsed), raw, False
            fault = "is not a list of objects"
        return self._damaged(fault), raw, False

    def _sorted_out(self, parsed: list[Json]) -> Roster:
        faulty = [index for index, entry in enumerate(parsed) if not _is_usable(entry)]
        if not faulty:
            return Roster(tuple(parsed))
        usable = tuple(entry for index, entry in enumerate(parsed) if index not in set(faulty))
        places = ", ".join(f"[{index}]" for index in faulty[:5]) + (", ..." if len(faulty) > 5 else "")
        return self._damaged(f"holds what is no JSON object, at {places}", usable)

    def _damaged(self, fault: str, usable: tuple[Mapping[str, Json], ...] = ()) -> Roster:
        return Roster(usable if self._good is None else self._good, f"{self._name} {fault}")

    def _save(self, target: Path, data: bytes, *, damaged: bytes | None) -> None:
        for leftover in _leftovers(target):
            leftover.unlink(missing_ok=True)
        old = target.lstat() if os.path.lexists(target) else None
        if old is not None and not stat.S_ISREG(old.st_mode):
            raise NotSaved(f"not saved: {self._name} is not a regular file; move it away")
        like = old or target.parent.stat()
        temp = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
        aside: Path | None = None
        try:
            _create(temp, data, like)
            # Inode numbers come back and clocks tick coarsely: only a rising time shows each change to the readers.
            now_ns = max(time.time_ns(), like.st_mtime_ns + 1_000)
            os.utime(temp, ns=(now_ns, now_ns))
            if damaged is not None:
                aside = _set_aside(target, damaged, like)
            self._replace(temp, target)
        except BaseException:
            temp.unlink(missing_ok=True)
            if aside is not None:
                aside.unlink()
            raise
        self._good = tuple(json.loads(data))
        _sync_folder(target.parent)

    def _replace(self, temp: Path, target: Path) -> None:
        for tries_left in reversed(range(SHARING_RETRIES + 1)):
            try:
                os.replace(temp, target)  # noqa: PTH105  the name under which a test can refuse it
                return
            except PermissionError as error:
                # Only Windows sets winerror (5 access denied, 32 in use): elsewhere waiting changes nothing.
                if getattr(error, "winerror", None) not in (5, 32) or not tries_left:
                    raise
            self._pause(SHARING_PAUSE_S)

    @contextmanager
    def _locked_file(self, target: Path, deadline: float) -> Iterator[None]:
        if issubclass(FileLock, SoftFileLock):
            raise NotSaved(f"not saved: this system has no file locks for {self._name}")
        lock_path = target.with_name(target.name + ".lock")
        with self._not_saved():
            if not os.path.lexists(lock_path):
                try:
                    _create(lock_path, b"", target.parent.stat())
                except FileExistsError:
                    pass
            # A new instance each time: one that is shared by threads is reentrant and keeps none of them out.
            lock = FileLock(lock_path, mode=0o600, fallback_to_soft=False)
            try:
                lock.acquire(timeout=max(0.0, deadline - time.monotonic()), poll_interval=POLL_S)
            except Timeout:
                raise self._locked() from None
        try:
            yield
        finally:
            lock.release()

    def _locked(self) -> NotSaved:
        return NotSaved(f"not saved: another process, or another change, holds the lock of {self._name}; try again")

    @contextmanager
    def _not_saved(self) -> Iterator[None]:
        try:
            yield
        except (OSError, NotImplementedError) as error:
            raise NotSaved(f"not saved: {self._name}: {_reason(error)}") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise NotSaved(f"not saved: {self._name}: an entry cannot be written as JSON") from error


def _reason(error: OSError | NotImplementedError) -> str:
    if isinstance(error, NotImplementedError):  # what some versions of filelock make of ENOSYS
        return _REASONS[errno.ENOSYS]
    if error.errno is None:
        return "it cannot be read or written"
    return _REASONS.get(error.errno, os.strerror(error.errno).lower())


def _integer(digits: str) -> float:
    try:
        return int(digits)
    except ValueError:  # thousands of digits: this entry is unusable, the others are not
        return math.nan


def _is_usable(entry: Json) -> bool:
    try:
        return isinstance(entry, dict) and bool(_encoded([entry]))
    except (ValueError, RecursionError):
        return False


def _encoded(entries: Sequence[Mapping[str, Json]]) -> bytes:
    return (json.dumps(entries, ensure_ascii=False, allow_nan=False, indent=2) + "\n").encode()


def _leftovers(target: Path) -> list[Path]:
    """Temporary files of processes that died: while we hold the lock, no other process has one."""
    pattern = re.compile(re.escape(f".{target.name}.") + "[0-9a-f]{16}[.]tmp")
    return [path for path in target.parent.iterdir() if pattern.fullmatch(path.name)]


def _create(path: Path, data: bytes, like: os.stat_result) -> None:
    """A new file, 0600 from its first moment and on the disk at the end; owned as `like` is, when root may say so."""
    file = open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
    try:
        with file:
            path.chmod(0o600)  # a umask of 0277 would leave a lock file that the next process cannot open
            if hasattr(os, "geteuid") and os.geteuid() == 0:
                # A service that runs as another user could not open what root's command line leaves behind.
                try:
                    os.fchown(file.fileno(), like.st_uid, like.st_gid)
                except OSError:  # a network share refuses it, and nothing is lost that was there before
                    pass
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _set_aside(target: Path, damaged: bytes, like: os.stat_result) -> Path:
    """Keep the damaged file under a second name; its own stays until the replace, so that there is always one."""
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    aside = target.with_name(f"{target.name}.bad-{stamp}")
    _create(aside, damaged, like)
    return aside


def _sync_folder(folder: Path) -> None:
    # The change stands by now: an error here (no such call on Windows and some shares) must not call it unsaved.
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
