"""Every store is asked at once, each has its own deadline and its own threads, and no store is the fault of another."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from seren_corpus_callosum.fan import Ask, Fan, StoreClient
from seren_corpus_callosum.hits import StoreReply
from seren_corpus_callosum.stores import InnerCallosum, SerenLoci, Store
from tests.support import scripts
from tests.support.goodstore import GoodStore
from tests.support.net import free_port, unconnectable
from tests.support.outward import client, search, sockets_to, soon, store_at
from tests.support.rawstore import RawStore

RawStores = Callable[..., RawStore]
GoodStores = Callable[..., GoodStore]
Members = list[tuple[Store, StoreClient]]
HIT = {"hits": [{"id": "1", "key": "keys", "value": "on the hook"}]}
ASK = Ask("x", 3)


@pytest.fixture
def members() -> Any:
    """Binds stores, given as (name, url, fields), each to a client of its own."""
    with ExitStack() as stack:

        def bound(*stores: tuple[str, str, dict[str, Any]], threads: int = 4) -> Members:
            return [
                (store_at(url, name=name, **fields), stack.enter_context(client(threads)))
                for name, url, fields in stores
            ]

        yield bound


def kinds(replies: Sequence[StoreReply]) -> list[str | None]:
    return [reply.failure.kind if reply.failure else None for reply in replies]


def test_replies_come_in_configured_order_whatever_order_they_arrive_in(members: Any, good_store: GoodStores) -> None:
    stores = [good_store("seren_loci", [{"id": f"{number}"}]) for number in range(4)]
    gates = [threading.Event() for _ in stores]
    for store, gate in zip(stores, gates, strict=True):
        store.hold = gate
    asked = members(*((f"s{number}", store.url, {}) for number, store in enumerate(stores)))
    with ThreadPoolExecutor(1) as caller:
        found = caller.submit(search, asked)
        for number in (1, 3, 2, 0):
            assert stores[number].wait_for(lambda store: len(store.searches) == 1), "one after the other"
            gates[number].set()
        replies = found.result(10).replies
    assert [reply.name for reply in replies] == ["s0", "s1", "s2", "s3"]
    assert [reply.hits[0].id for reply in replies] == ["0", "1", "2", "3"]


def test_the_milliseconds_of_a_store_are_its_own(members: Any, good_store: GoodStores, raw_store: RawStores) -> None:
    hung, good = raw_store(scripts.hang_after_request), good_store()
    asked = members(("hung", hung.url, {}), ("good", good.url, {}))
    replies = search(asked, timeout_s=0.5).replies
    assert 500 <= replies[0].ms < 800
    assert replies[1].ms < 300
    last_ms = asked[1][1].health.tally.last_ms
    assert last_ms is not None and last_ms < 300


def test_the_shorter_of_the_two_deadlines_counts(members: Any, raw_store: RawStores) -> None:
    hung = raw_store(scripts.hang_after_request)
    own = members(("own", hung.url, {"timeout_s": 0.2}))
    common = members(("common", hung.url, {}))
    table = [
        (common, 0.3, None, 0.3),
        (own, 5.0, None, 0.2),
        (own, 0.05, None, 0.2),
        (own, 5.0, 0.1, 0.1),
        (own, 5.0, 9.0, 0.2),
        (common, 0.3, 9.0, 0.3),
    ]
    for asked, timeout_s, limit_s, expected_s in table:
        found = search(asked, timeout_s=timeout_s, limit_s=limit_s)
        assert found.only.failure
        assert found.only.failure.reason == f"no answer within {expected_s} s"
        assert expected_s <= found.s < expected_s + 0.3


def test_each_store_is_cut_off_at_its_own_deadline(members: Any, raw_store: RawStores, good_store: GoodStores) -> None:
    hung, good = raw_store(scripts.hang_after_request), good_store("seren_loci", [{"id": "1"}])
    good.delay_s = 0.4
    asked = members(("slow", good.url, {"timeout_s": 2.0}), ("hung", hung.url, {"timeout_s": 0.1}))
    found = search(asked, timeout_s=5.0)
    assert kinds(found.replies) == [None, "timeout"]
    assert found.replies[1].ms < 300
    assert 0.4 <= found.s < 0.8


def test_the_time_before_the_fan_counts_too(members: Any, raw_store: RawStores) -> None:
    hung = raw_store(scripts.hang_after_request)
    asked = members(("hung", hung.url, {}))
    started = time.monotonic()
    Fan().ask(asked, ASK, timeout_s=0.3, suspend_after=0, started=started - 0.2)
    assert time.monotonic() - started < 0.25


def test_every_way_to_give_no_answer_has_its_own_reason_and_costs_nobody_else(
    members: Any, raw_store: RawStores, good_store: GoodStores
) -> None:
    with unconnectable() as dead:
        asked = members(
            ("refuses", f"http://127.0.0.1:{free_port()}", {}),
            ("hangs", raw_store(scripts.hang_after_request).url, {"timeout_s": 0.4}),
            ("connects never", dead, {"timeout_s": 0.4}),
            ("fails", raw_store(scripts.answer_json({}, 500)).url, {}),
            ("too long", raw_store(scripts.answer_json({"detail": "query too long"}, 400)).url, {}),
            ("empty", good_store().url, {}),
            ("drips", raw_store(scripts.drip_body("chunked", 0.02)).url, {"timeout_s": 0.4}),
            ("raises", good_store().url, {"adapter": Broken()}),
            ("good", good_store("seren_loci", [{"id": "1"}]).url, {}),
        )
        for _ in range(3):
            found = search(asked)
            assert found.s < 0.9
            said = [f"{r.failure.kind}: {r.failure.reason}" if r.failure else len(r.hits) for r in found.replies]
            assert said == [
                "unreachable: connection refused",
                "timeout: no answer within 0.4 s",
                "timeout: no answer within 0.4 s",
                "http_error: HTTP 500",
                "http_error: HTTP 400",
                0,
                "timeout: no answer within 0.4 s",
                "bad_reply: the answer could not be read (ZeroDivisionError)",
                1,
            ]


class Broken(SerenLoci):
    def read(self, reply: Any, limit: int | None = None) -> Any:
        raise ZeroDivisionError("sEcReT")


def test_a_store_is_never_asked_for_more_than_it_allows(members: Any, good_store: GoodStores) -> None:
    memory = good_store("seren_memory", [{"id": f"{number}"} for number in range(60)])
    reply = search(members(("m", memory.url, {"type": "seren_memory"})), wanted=300).only
    assert (reply.asked, len(reply.hits), memory.searches[0].json["n_results"]) == (50, 50, 50)


def test_hung_stores_use_up_no_threads_and_are_back_when_they_recover(
    members: Any, raw_store: RawStores, good_store: GoodStores
) -> None:
    hung = raw_store(scripts.answer_held(HIT))
    good = good_store("seren_loci", [{"id": "1"}])
    good.delay_s = 0.01
    asked = members(("hung", hung.url, {"timeout_s": 0.1}), ("good", good.url, {}), threads=10)
    fan = Fan()
    threads = set()
    for _ in range(12):
        found = search(asked, fan=fan)
        assert kinds(found.replies) == ["timeout", None]
        assert found.s < 0.6
        threads.add(sum(1 for t in threading.enumerate() if t.name.startswith("callosum-store")))
    assert max(threads) <= 4, "a hung store keeps its threads"
    failures: list[Any] = []

    def many() -> None:
        for _ in range(5):
            failures.append(kinds(search(asked, fan=fan).replies))

    searchers = [threading.Thread(target=many) for _ in range(10)]
    for one in searchers:
        one.start()
    for one in searchers:
        one.join()
    assert failures == [["timeout", None]] * 50
    assert soon(lambda: sockets_to(hung.port) == 0)
    hung.release()
    recovered = [(replace(store, timeout_s=5.0), its_client) for store, its_client in asked]
    assert kinds(search(recovered, fan=fan).replies) == [None, None]


def test_many_searches_on_a_slow_healthy_store_are_no_timeouts(members: Any, good_store: GoodStores) -> None:
    slow = good_store("seren_loci", [{"id": "1"}])
    slow.delay_s = 0.4
    asked = members(("slow", slow.url, {}), threads=16)
    said: list[Any] = []
    searchers = [
        threading.Thread(target=lambda: said.append(kinds(search(asked, timeout_s=1.2).replies))) for _ in "x" * 16
    ]
    for one in searchers:
        one.start()
    for one in searchers:
        one.join()
    assert said == [[None]] * 16


def test_a_call_that_waits_for_a_thread_all_its_time_says_nothing_about_the_store(
    members: Any, good_store: GoodStores
) -> None:
    slow = good_store("seren_loci", [{"id": "1"}])
    asked = members(("slow", slow.url, {}), threads=1)
    slow.hold = threading.Event()
    with ThreadPoolExecutor(4) as callers:
        first = callers.submit(search, asked, timeout_s=2.0, suspend_after=1)
        assert slow.wait_for(lambda store: len(store.searches) == 1)
        waiting = [callers.submit(search, asked, timeout_s=0.2, suspend_after=1) for _ in range(3)]
        assert [one.result(10).only.failure.kind for one in waiting] == ["timeout"] * 3
        slow.hold.set()
        assert first.result(10).only.failure is None
    assert search(asked, suspend_after=1).only.failure is None


def test_a_call_that_an_adapter_does_not_make_says_nothing_about_the_store(
    members: Any, good_store: GoodStores
) -> None:
    inner = good_store("callosum")
    asked = members(("inner", inner.url, {"adapter": InnerCallosum(), "timeout_s": 0.09}))
    for _ in range(3):
        assert kinds(search(asked, suspend_after=2).replies) == ["timeout"]
    assert inner.searches == []


def test_a_thread_that_cannot_be_started_is_told_and_its_call_is_never_made(
    members: Any, good_store: GoodStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = good_store("seren_loci", [{"id": "1"}])
    asked = members(("s", store.url, {}))

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", refuse)
        failure = search(asked).only.failure
    assert failure
    assert (failure.kind, failure.reason) == ("unreachable", "no thread could be started for it")
    assert search(asked).only.failure is None
    assert len(store.searches) == 1


def test_two_hung_stores_do_not_make_a_third_miss_its_deadline(
    members: Any, raw_store: RawStores, good_store: GoodStores
) -> None:
    hung = [raw_store(scripts.hang_after_request) for _ in range(5)]
    good = good_store("seren_loci", [{"id": "1"}])
    good.delay_s = 0.05
    sick = [(f"h{number}", store.url, {"timeout_s": 0.2}) for number, store in enumerate(hung)]
    asked = members(*sick, ("good", good.url, {}))
    for _ in range(4):
        found = search(asked)
        assert kinds(found.replies) == [*["timeout"] * 5, None]
        assert found.s < 0.6


def test_stopping_ends_every_call_at_once_and_starts_no_more(members: Any, raw_store: RawStores) -> None:
    hung = [raw_store(scripts.hang_after_request) for _ in range(3)]
    asked = members(*((f"h{number}", store.url, {}) for number, store in enumerate(hung)))
    fan = Fan()
    found: list[Any] = []
    searching = threading.Thread(target=lambda: found.append(search(asked, fan=fan, timeout_s=30.0)))
    searching.start()
    assert all(store.wait_for(lambda store: bool(store.requests)) for store in hung)
    started = time.monotonic()
    fan.stop()
    searching.join(5.0)
    assert time.monotonic() - started < 0.3
    said = [(r.failure.kind, r.failure.reason) for r in found[0].replies]
    assert said == [("unreachable", "the service is stopping")] * 3
    again = search(asked, fan=fan)
    assert kinds(again.replies) == ["unreachable"] * 3
    assert again.s < 0.1
    assert [len(store.requests) for store in hung] == [1, 1, 1]


def test_a_store_removed_while_it_is_searched_is_unreachable(members: Any, good_store: GoodStores) -> None:
    asked = members(("gone", good_store().url, {}), ("good", good_store().url, {}))
    assert kinds(search(asked).replies) == [None, None]
    asked[0][1].close()
    replies = search(asked).replies
    assert kinds(replies) == ["unreachable", None]
    assert replies[0].failure and replies[0].failure.reason == "it was removed, or the service is stopping"


def test_a_store_whose_client_never_called_can_be_removed_too(members: Any, good_store: GoodStores) -> None:
    asked = members(("gone", good_store().url, {}))
    asked[0][1].close()
    assert kinds(search(asked).replies) == ["unreachable"]


def test_a_url_that_only_the_libraries_refuse_costs_its_own_store(members: Any, good_store: GoodStores) -> None:
    for url in ("http://", "http://[::1", "ftp://x", "localhost:7420", "http://exa mple/", "http://a..b"):
        replies = search(members(("odd", url, {}), ("good", good_store().url, {}))).replies
        assert kinds(replies)[0] in ("unreachable", "bad_reply")
        assert kinds(replies)[1] is None


def test_the_tally_says_how_a_store_fares(members: Any, good_store: GoodStores) -> None:
    store = good_store()
    asked = members(("one", store.url, {}))
    health = asked[0][1].health
    assert (health.tally.calls, health.tally.avg_ms, health.tally.last_ms) == (0, None, None)
    search(asked)
    assert (health.tally.calls, health.tally.failures, health.tally.failing_since) == (1, 0, None)
    store.status = 500
    search(asked)
    first_failure = health.tally.failing_since
    search(asked)
    assert (health.tally.calls, health.tally.failures) == (3, 2)
    assert health.tally.last_error == "http_error: HTTP 500"
    assert first_failure is not None and health.tally.failing_since == first_failure
    store.status = 200
    search(asked)
    assert (health.tally.calls, health.tally.failures, health.tally.failing_since) == (4, 2, None)
    assert health.tally.last_error == "http_error: HTTP 500"


def test_one_client_may_serve_a_store_whose_knobs_change(members: Any, good_store: GoodStores) -> None:
    ((store, its_client),) = members(("one", good_store().url, {}))
    search([(store, its_client)])
    search([(replace(store, weight=2.0, timeout_s=1.0), its_client)])
    assert its_client.health.tally.calls == 2
