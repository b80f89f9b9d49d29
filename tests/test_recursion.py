"""A callosum as a store of another: provenance through every level, dead inner fans told apart, rings that end."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import scripts
from tests.support.goodstore import GoodStore
from tests.support.net import free_port
from tests.support.proxy import proxy
from tests.support.rawstore import RawStore
from tests.support.service import Service

Services = Callable[..., Service]
GoodStores = Callable[..., GoodStore]
RawStores = Callable[..., RawStore]


def config(*stores: tuple[str, str, str], timeout_s: float = 2.0, suspend_after: int = 0) -> str:
    lines = ["federation:", f"  per_store_timeout_s: {timeout_s}", f"  suspend_after: {suspend_after}", "  stores:"]
    lines += [f"    - {{name: {name}, type: {kind}, url: '{url}'}}" for name, kind, url in stores]
    return "\n".join(lines)


def kinds(body: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["kind"] for entry in body["skipped"]}


def test_a_hit_keeps_its_provenance_through_two_levels(service: Services, good_store: GoodStores) -> None:
    facts = good_store("seren_loci", [{"id": "f1", "key": "keys", "value": "on the hook", "score": 0.8}])
    episodes = good_store("seren_memory", [{"id": "f1", "content": "we looked for the keys", "raw_distance": 1.0}])
    inner = service(config(("facts", "seren_loci", facts.url), ("episodes", "seren_memory", episodes.url)))
    middle = service(config(("innermost", "callosum", inner.url)))
    outer = service(config(("far", "callosum", middle.url)))
    body = outer.search("keys")
    assert (body["stores_searched"], body["skipped"]) == (["far"], [])
    # The same id of two inner stores is two hits.
    assert [(hit["store"], hit["id"], hit["store_rank"]) for hit in body["hits"]] == [
        ("far", "f1", 1),
        ("far", "f1", 2),
    ]
    first, second = body["hits"]
    assert first["content"] == "keys = on the hook"
    assert [step["store"] for step in first["metadata"]["via"]] == ["innermost", "facts"]
    assert [step["store"] for step in second["metadata"]["via"]] == ["innermost", "episodes"]
    assert [step["store_rank"] for step in second["metadata"]["via"]] == [2, 1]
    assert (first["base_relevance"], second["base_relevance"]) == (0.8, 0.5)
    assert second["raw_distance"] == 1.0


def test_an_inner_callosum_whose_stores_are_all_dead_is_a_failure_of_that_store(
    service: Services, good_store: GoodStores
) -> None:
    good = good_store("seren_loci", [{"id": "1"}])
    dead = f"http://127.0.0.1:{free_port()}"
    inner = service(config(("a", "seren_loci", dead), ("b", "seren_memory", dead)))
    outer = service(config(("inner", "callosum", inner.url), ("good", "seren_loci", good.url)))
    body = outer.search("keys")
    assert body["stores_searched"] == ["good"]
    assert [hit["store"] for hit in body["hits"]] == ["good"]
    (skipped,) = body["skipped"]
    assert (skipped["name"], skipped["kind"]) == ("inner", "unreachable")
    assert skipped["reason"] == "none of its stores answered: 'a' unreachable; 'b' unreachable"


def test_an_inner_callosum_that_missed_a_store_is_an_answer_with_a_warning(
    service: Services, good_store: GoodStores, raw_store: RawStores
) -> None:
    good = good_store("seren_loci", [{"id": "1"}])
    hung = raw_store(scripts.hang_after_request)
    # The inner deadline is the longer one: the time that the outer one sends must cut it short.
    inner = service(
        config(("good", "seren_loci", good.url), ("hung", "seren_loci", hung.url), timeout_s=30, suspend_after=1)
    )
    outer = service(config(("inner", "callosum", inner.url), timeout_s=1.0))
    started = time.monotonic()
    body = outer.search("keys")
    assert time.monotonic() - started < 1.4
    assert (body["stores_searched"], body["skipped"]) == (["inner"], [])
    assert body["warnings"] == [{"name": "inner", "reason": "its store 'hung' did not answer: timeout"}]
    assert [hit["id"] for hit in body["hits"]] == ["1"]
    row = inner.request("GET", "/stores/hung").json()
    assert row["health"]["suspended_until"] is None, "a deadline that the outer one shortened counted"


def test_a_callosum_without_stores_is_an_empty_answer(service: Services) -> None:
    inner = service("federation: {}")
    outer = service(config(("inner", "callosum", inner.url)))
    body = outer.search("keys")
    assert (body["stores_searched"], body["skipped"], body["hits"]) == (["inner"], [], [])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_ring_answers_once_within_the_deadline_without_a_storm(
    service: Services, good_store: GoodStores, raw_store: RawStores, tmp_path: Path, size: int
) -> None:
    stores = [good_store("seren_loci", [{"id": f"own-{number}"}]) for number in range(size)]
    watches = [raw_store(proxy()) for _ in range(size)]
    ports = [free_port() for _ in range(size)]
    services = []
    for number in range(size):
        # Each sees the next one through a proxy that counts.
        to = (number + 1) % size
        text = config(("own", "seren_loci", stores[number].url), ("next", "callosum", f"http://127.0.0.1:{ports[to]}"))
        text += "\n    - {name: unused, type: seren_loci, url: 'http://127.0.0.1:9', enabled: false}"
        text = text.replace(f"{ports[to]}'}}", f"{ports[to]}', proxy: 'http://127.0.0.1:{watches[number].port}'}}")
        services.append(service(text, port=ports[number]))
    started = time.monotonic()
    body = services[0].search("keys")
    assert time.monotonic() - started < 1.5
    passed = [len(watch.requests) for watch in watches]
    assert sum(passed) == size, passed
    assert [len(store.searches) for store in stores] == [1] * size
    found = {hit["id"]: [step["store"] for step in hit["metadata"].get("via", [])] for hit in body["hits"]}
    assert found == {f"own-{number}": (["next"] * (number - 1) + ["own"] if number else []) for number in range(size)}
    if size == 1:
        assert kinds(body) == {"next": "loop"}
    else:
        assert (body["stores_searched"], body["skipped"]) == (["own", "next"], [])
        assert [entry["name"] for entry in body["warnings"]] == ["next"]
    # Nothing goes on going round.
    time.sleep(0.2)
    assert sum(len(watch.requests) for watch in watches) == size


def test_two_that_only_have_each_other_answer_at_once_that_it_is_a_loop(service: Services) -> None:
    ports = [free_port(), free_port()]
    both = [
        service(config(("other", "callosum", f"http://127.0.0.1:{ports[1 - number]}")), port=ports[number])
        for number in (0, 1)
    ]
    started = time.monotonic()
    body = both[0].search("keys")
    assert time.monotonic() - started < 1.0
    assert (kinds(body), body["hits"], body["stores_searched"]) == ({"other": "loop"}, [], [])


def test_a_chain_ends_after_four_others(service: Services, good_store: GoodStores) -> None:
    good = good_store("seren_loci", [{"id": "1"}])
    one = service(config(("good", "seren_loci", good.url)))
    for passed, searched in ((3, ["good"]), (4, [])):
        via = ", ".join(f"1.1 callosum-other{number}" for number in range(passed))
        body = one.request("POST", "/search", json={"query": "x"}, headers={"Via": via}).json()
        assert body["stores_searched"] == searched
        assert kinds(body) == ({} if searched else {"good": "loop"})
    assert len(good.searches) == 1


def test_an_inner_callosum_is_not_asked_with_no_time_left(service: Services, raw_store: RawStores) -> None:
    inner = raw_store(scripts.answer_json({"hits": [], "stores_searched": [], "skipped": []}))
    outer = service(config(("inner", "callosum", inner.url)))
    body = outer.search("keys", timeout_s=0.08)
    assert kinds(body) == {"inner": "timeout"}
    assert inner.requests == []
    outer.search("keys", timeout_s=1.0)
    assert 0.5 < inner.requests[0].json()["timeout_s"] < 0.95
