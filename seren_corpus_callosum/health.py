"""How a store has fared, and whether it is left out for a while after timeouts in a row. No I/O, no threads."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

from .hits import Failure

FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 60.0


@dataclass(frozen=True, slots=True)
class Tally:
    """How a store has fared: counts since the start, milliseconds, times in UTC."""

    calls: int = 0
    failures: int = 0
    last_ms: float | None = None
    total_ms: float = 0.0
    last_error: str | None = None
    failing_since: datetime | None = None
    suspended_until: datetime | None = None

    @property
    def avg_ms(self) -> float | None:
        return self.total_ms / self.calls if self.calls else None


class Admission(Enum):
    ASK = "ask"
    TRY = "try"  # one trial call that nobody waits for
    LEAVE = "leave"


class Health:
    """The tally of one store and whether it is suspended; shared by every search."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._calls = self._failures = 0
        self._last_ms: float | None = None
        self._total_ms = 0.0
        self._last_error: str | None = None
        self._failing_since: datetime | None = None
        self._suspended_until: datetime | None = None
        self._timeouts = 0  # in a row
        self._pause_s = 0.0  # 0: not suspended
        self._until = 0.0
        self._trying = False

    @property
    def tally(self) -> Tally:
        with self._lock:
            return Tally(
                self._calls,
                self._failures,
                self._last_ms,
                self._total_ms,
                self._last_error,
                self._failing_since,
                self._suspended_until,
            )

    def admit(self, suspend_after: int, deadline_s: float) -> Admission:
        if not self._pause_s:
            return Admission.ASK
        with self._lock:
            if not suspend_after:
                self._lift()
            if not self._pause_s:
                return Admission.ASK
            if self._trying or self._clock() < self._until:
                return Admission.LEAVE
            self._trying = True
            self._set_until(deadline_s)
            return Admission.TRY

    def count(self, ms: float, failure: Failure | None, *, timed_out: bool | None, suspend_after: int) -> None:
        """Take one call into the tally; `timed_out` None: a deadline that says nothing about the store."""
        with self._lock:
            self._count(ms, failure)
            if timed_out is False:
                self._timeouts = 0
            elif timed_out:
                self._timeouts += 1
                if suspend_after and self._timeouts >= suspend_after and not self._pause_s:
                    self._suspend(FIRST_PAUSE_S)

    def tried(self, ms: float, failure: Failure | None, *, timed_out: bool) -> None:
        """Take the end of a trial call: a timeout doubles the pause, anything else ends the suspension."""
        with self._lock:
            self._count(ms, failure)
            self._trying = False
            if timed_out and self._pause_s:
                self._suspend(min(2 * self._pause_s, LONGEST_PAUSE_S))
            else:
                self._lift()

    def why_left_out(self) -> Failure:
        tally = self.tally
        reason = f"left out for a while after timeouts in a row; the last: {tally.last_error}"
        return Failure("suspended", reason, tally.suspended_until)

    def _count(self, ms: float, failure: Failure | None) -> None:
        self._calls += 1
        self._last_ms = ms
        self._total_ms += ms
        if failure is None:
            self._failing_since = None
        else:
            self._failures += 1
            self._last_error = f"{failure.kind}: {failure.reason}"
            self._failing_since = self._failing_since or datetime.now(UTC)

    def _suspend(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self._set_until(pause_s)

    def _set_until(self, from_now_s: float) -> None:
        self._until = self._clock() + from_now_s
        self._suspended_until = datetime.now(UTC) + timedelta(seconds=from_now_s)

    def _lift(self) -> None:
        self._pause_s = 0.0
        self._timeouts = 0
        self._suspended_until = None
