"""A store that keeps missing its whole deadline is left out for a while, never silently, and tried again."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from seren_corpus_callosum import health as health_module
from seren_corpus_callosum.fan import Fan
from seren_corpus_callosum.health import Admission, Health
from seren_corpus_callosum.hits import Failure
from tests.support import scripts
from tests.support.goodstore import GoodStore
from tests.support.net import free_port
from tests.support.outward import client, search, soon, store_at
from tests.support.rawstore import Connection, RawStore

RawStores = Callable[..., RawStore]
TIMEOUT = Failure("timeout", "no answer within 5.0 s")
REFUSED = Failure("unreachable", "connection refused")
HIT = {"hits": [{"id": "1", "value": "x"}]}
ASK, TRY, LEAVE = Admission.ASK, Admission.TRY, Admission.LEAVE


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health(clock)


def time_out(health: Health, times: int = 1) -> None:
    for _ in range(times):
        health.count(5000.0, TIMEOUT, timed_out=True, suspend_after=3)


def admitted(health: Health, suspend_after: int = 3) -> Admission:
    return health.admit(suspend_after, 5.0)


def test_the_third_timeout_in_a_row_suspends_for_five_seconds(health: Health, clock: Clock) -> None:
    time_out(health, 2)
    assert admitted(health) is ASK
    time_out(health)
    assert admitted(health) is LEAVE
    clock.now_s += 4.99
    assert admitted(health) is LEAVE
    clock.now_s += 0.02
    assert admitted(health) is TRY


@pytest.mark.parametrize(
    ("failure", "timed_out"),
    [
        (None, False),
        (REFUSED, False),
        (Failure("http_error", "HTTP 500"), False),
        (Failure("bad_reply", "the answer is not HTTP"), False),
    ],
)
def test_anything_but_a_timeout_begins_the_count_anew(health: Health, failure: Failure, timed_out: bool) -> None:
    for _ in range(4):
        time_out(health, 2)
        health.count(1.0, failure, timed_out=timed_out, suspend_after=3)
    assert admitted(health) is ASK


def test_a_deadline_that_the_caller_shortened_neither_counts_nor_clears(health: Health) -> None:
    for _ in range(20):
        health.count(50.0, TIMEOUT, timed_out=None, suspend_after=3)
    assert admitted(health) is ASK
    time_out(health, 2)
    health.count(50.0, TIMEOUT, timed_out=None, suspend_after=3)
    assert admitted(health) is ASK
    time_out(health)
    assert admitted(health) is LEAVE


def test_zero_means_never(health: Health) -> None:
    for _ in range(200):
        health.count(5000.0, TIMEOUT, timed_out=True, suspend_after=0)
    assert admitted(health, 0) is ASK


def test_turning_it_off_brings_a_suspended_store_back(health: Health) -> None:
    time_out(health, 3)
    assert admitted(health, 0) is ASK
    assert health.tally.suspended_until is None
    assert admitted(health, 3) is ASK


def test_only_one_search_makes_the_trial(health: Health, clock: Clock) -> None:
    time_out(health, 3)
    clock.now_s += 5
    assert [admitted(health) for _ in range(5)] == [TRY, LEAVE, LEAVE, LEAVE, LEAVE]
    clock.now_s += 1000
    assert admitted(health) is LEAVE, "a second trial beside the first"


@pytest.mark.parametrize("failure", [None, REFUSED, Failure("http_error", "HTTP 500")])
def test_any_end_of_the_trial_but_a_timeout_ends_the_suspension(
    health: Health, clock: Clock, failure: Failure | None
) -> None:
    time_out(health, 3)
    clock.now_s += 5
    assert admitted(health) is TRY
    health.tried(12.0, failure, timed_out=False)
    assert admitted(health) is ASK
    assert health.tally.suspended_until is None
    time_out(health, 2)
    assert admitted(health) is ASK, "the count did not begin anew"
    time_out(health)
    assert admitted(health) is LEAVE
    clock.now_s += 5
    assert admitted(health) is TRY, "the pause did not begin anew"


def test_each_trial_that_times_out_doubles_the_pause_up_to_a_minute(health: Health, clock: Clock) -> None:
    time_out(health, 3)
    pause_s = 5.0
    for next_pause_s in (10.0, 20.0, 40.0, 60.0, 60.0):
        clock.now_s += pause_s - 0.01
        assert admitted(health) is LEAVE
        clock.now_s += 0.01
        assert admitted(health) is TRY
        health.tried(5000.0, TIMEOUT, timed_out=True)
        pause_s = next_pause_s
    clock.now_s += 59.9
    assert admitted(health) is LEAVE


def test_late_timeouts_of_calls_that_were_under_way_change_nothing(health: Health, clock: Clock) -> None:
    time_out(health, 16)
    clock.now_s += 5
    assert admitted(health) is TRY
    time_out(health, 4)
    health.tried(1.0, None, timed_out=False)
    assert admitted(health) is ASK


def test_sixteen_timeouts_at_once_suspend_once(clock: Clock) -> None:
    health = Health(clock)
    together = threading.Barrier(16)

    def one() -> None:
        together.wait()
        time_out(health)

    threads = [threading.Thread(target=one) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clock.now_s += 5
    assert admitted(health) is TRY
    assert (health.tally.calls, health.tally.failures) == (16, 16)


def test_what_is_left_out_says_why_and_until_when(health: Health) -> None:
    before = datetime.now(UTC)
    time_out(health, 3)
    left_out = health.why_left_out()
    assert left_out.kind == "suspended"
    assert left_out.reason == (
        "left out for a while after timeouts in a row; the last: timeout: no answer within 5.0 s"
    )
    assert left_out.retry_at
    assert timedelta(seconds=4.9) < left_out.retry_at - before < timedelta(seconds=5.5)
    assert left_out.retry_at == health.tally.suspended_until


# In real time, twenty-five times faster


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "FIRST_PAUSE_S", 0.2)
    monkeypatch.setattr(health_module, "LONGEST_PAUSE_S", 0.4)


def test_a_hung_store_costs_three_searches_and_then_nothing_until_it_recovers(
    quick: None, raw_store: RawStores, good_store: Callable[..., GoodStore]
) -> None:
    hung = raw_store(scripts.answer_held(HIT))
    good = good_store("seren_loci", [{"id": "2"}])
    with client() as one, client() as two:
        fan = Fan()
        members = [(store_at(hung.url, "hung"), one), (store_at(good.url, "good", timeout_s=5.0), two)]

        def found() -> Any:
            return search(members, fan=fan, timeout_s=0.15, suspend_after=3)

        for _ in range(3):
            timed = found()
            assert timed.replies[0].failure and timed.replies[0].failure.kind == "timeout"
            assert timed.s >= 0.15
        timed = found()
        left_out = timed.replies[0]
        assert left_out.failure
        assert (left_out.failure.kind, left_out.asked) == ("suspended", 0)
        assert left_out.failure.retry_at
        assert timed.s < 0.1
        assert len(hung.requests) == 3
        hung.release()
        # The pause ends, a search makes the trial without waiting for it, and its hits are dropped.
        # It may be back, and asked once more, before this looks again.
        assert soon(lambda: len((found(), hung.requests)[1]) >= 4)
        assert soon(lambda: found().replies[0].failure is None)
        assert [hit.id for hit in found().replies[0].hits] == ["1"]
        assert one.health.tally.suspended_until is None


def test_a_trial_is_made_once_however_many_search_and_nobody_waits_for_it(quick: None, raw_store: RawStores) -> None:
    hung = raw_store(scripts.hang_after_request)
    with client() as one:
        fan = Fan()
        members = [(store_at(hung.url), one)]
        for _ in range(3):
            search(members, fan=fan, timeout_s=0.1, suspend_after=3)
        assert soon(lambda: len((search(members, fan=fan, timeout_s=0.1, suspend_after=3), hung.requests)[1]) == 4)
        slowest: list[float] = []
        together = threading.Barrier(8)

        def many() -> None:
            together.wait()
            timed = search(members, fan=fan, timeout_s=0.1, suspend_after=3)
            assert timed.only.failure and timed.only.failure.kind == "suspended"
            slowest.append(timed.s)

        threads = [threading.Thread(target=many) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(slowest) == 8 and max(slowest) < 0.09
        assert len(hung.requests) == 4
        assert hung.wait_for(lambda store: store.open_connections == 0), "the trial outlived its deadline"
        assert soon(lambda: one.health.tally.calls == 4)


def test_a_trial_that_ends_in_a_server_error_ends_the_suspension(quick: None, raw_store: RawStores) -> None:
    store = raw_store(scripts.hang_after_request)
    with client() as one:
        fan = Fan()
        members = [(store_at(store.url), one)]
        for _ in range(3):
            search(members, fan=fan, timeout_s=0.1, suspend_after=3)
        store.script = scripts.answer_json({}, 500)

        def kind() -> str | None:
            failure = search(members, fan=fan, timeout_s=0.1, suspend_after=3).only.failure
            return failure and failure.kind

        assert kind() == "suspended"
        assert soon(lambda: kind() == "http_error", 2.0)


def test_a_trial_has_the_whole_deadline_though_the_caller_is_in_a_hurry(quick: None, raw_store: RawStores) -> None:
    def slow(conn: Connection) -> None:
        conn.read_request()
        conn.pause(0.15)
        conn.send(scripts.json_answer(HIT))

    store = raw_store(scripts.hang_after_request)
    with client() as one:
        fan = Fan()
        members = [(store_at(store.url), one)]
        for _ in range(3):
            search(members, fan=fan, timeout_s=0.25, suspend_after=3)
        store.script = slow

        def kind() -> str | None:
            failure = search(members, fan=fan, timeout_s=0.25, limit_s=0.05, suspend_after=3).only.failure
            return failure and failure.kind

        assert soon(lambda: kind() == "timeout", 3.0), "the trial did not lift the suspension"


def test_hurried_callers_and_cheap_failures_never_suspend(raw_store: RawStores) -> None:
    hung = raw_store(scripts.hang_after_request)
    with client() as one, client() as two:
        hurried = [(store_at(hung.url), one)]
        refused = [(store_at(f"http://127.0.0.1:{free_port()}"), two)]
        for _ in range(6):
            assert (search(hurried, limit_s=0.05, suspend_after=3).only.failure or TIMEOUT).kind == "timeout"
            assert (search(refused, suspend_after=3).only.failure or TIMEOUT).kind == "unreachable"


def test_a_caller_who_asks_for_more_time_than_there_is_does_not_prevent_suspension(raw_store: RawStores) -> None:
    hung = raw_store(scripts.hang_after_request)
    with client() as one:
        members = [(store_at(hung.url), one)]
        for _ in range(3):
            search(members, timeout_s=0.05, limit_s=9.0, suspend_after=3)
        failure = search(members, timeout_s=0.05, limit_s=9.0, suspend_after=3).only.failure
    assert failure and failure.kind == "suspended"


def test_a_stop_in_the_middle_of_a_trial_ends_it(quick: None, raw_store: RawStores) -> None:
    hung = raw_store(scripts.hang_after_request)
    with client() as one:
        fan = Fan()
        members = [(store_at(hung.url, timeout_s=0.05), one)]
        for _ in range(3):
            search(members, fan=fan, suspend_after=3)
        members = [(store_at(hung.url, timeout_s=30.0), one)]
        assert soon(lambda: len((search(members, fan=fan, suspend_after=3), hung.requests)[1]) == 4)
        fan.stop()
        assert hung.wait_for(lambda store: store.open_connections == 0)


def test_a_trial_that_gets_no_timer_ends_and_another_is_made(
    quick: None, raw_store: RawStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = raw_store(scripts.hang_after_request)
    with client() as one:
        fan = Fan()
        members = [(store_at(store.url), one)]
        for _ in range(3):
            search(members, fan=fan, timeout_s=0.1, suspend_after=3)
        with monkeypatch.context() as exhausted:

            def refuse(timer: threading.Timer) -> None:
                raise RuntimeError("can't start new thread")

            exhausted.setattr(threading.Timer, "start", refuse)
            assert soon(
                lambda: (search(members, fan=fan, timeout_s=0.1, suspend_after=3), one.health.tally.calls)[1] == 4
            )
        store.script = scripts.answer_json(HIT)
        assert soon(lambda: search(members, fan=fan, timeout_s=0.1, suspend_after=3).only.failure is None, 3.0)
