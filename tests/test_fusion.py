"""Promises of the merge: cut, repeated ids, floor, ranks, scores, ties. Tables are worked out by hand."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seren_corpus_callosum import Callosum, Hit
from seren_corpus_callosum.config import Config
from seren_corpus_callosum.fusion import Ranking, fuse, ranked
from seren_corpus_callosum.hits import RankedHit
from seren_corpus_callosum.stores import Mapped, SerenLoci, SerenMemory, Store
from tests.support.goodstore import GoodStore, sample_hits


def hit(id: str, relevance: float | None = 0.9, *origin: str) -> Hit:
    return Hit(id=id, content=f"text of {id}", base_relevance=relevance, origin=origin)


def ranking(store: str, *ids: str, weight: float = 1.0) -> Ranking:
    return Ranking(store, weight, tuple(hit(id) for id in ids), len(ids), 0)


def told(merged: tuple[RankedHit, ...]) -> list[tuple[str, str, float, int]]:
    return [(one.store, one.hit.id, one.score, one.store_rank) for one in merged]


def kept(hits: list[Hit], *, asked: int = 100, floor: float = 0.0) -> list[str]:
    return [one.id for one in ranked("s", hits, asked=asked, weight=1.0, floor=floor).hits]


# The arithmetic


def test_ranks_start_at_1_and_a_store_that_lacks_a_hit_adds_nothing() -> None:
    merged = fuse([ranking("a", "x", "y", "z"), ranking("b", "x", "p", "q")], k=60, n_results=6)
    assert told(merged) == [
        ("a", "x", 0.01639344262295082, 1),
        ("b", "x", 0.01639344262295082, 1),
        ("a", "y", 0.016129032258064516, 2),
        ("b", "p", 0.016129032258064516, 2),
        ("a", "z", 0.015873015873015872, 3),
        ("b", "q", 0.015873015873015872, 3),
    ]


@pytest.mark.parametrize(
    ("weight", "k", "best"),
    [(1.0, 60, 0.01639344262295082), (1.0, 20, 0.047619047619047616), (2.0, 60, 0.03278688524590164),
     (0.5, 1, 0.25), (1.0, 1, 0.5), (1000.0, 1, 500.0), (1.0, 10000, 9.999000099990002e-05), (0.0, 60, 0.0)],
)  # fmt: skip
def test_the_best_hit_of_a_store_scores_weight_over_k_plus_1(weight: float, k: int, best: float) -> None:
    assert fuse([ranking("a", "x", weight=weight)], k=k, n_results=1)[0].score == pytest.approx(best, abs=1e-12)


def test_a_trusted_store_leads_until_its_ranks_sink_below_the_others() -> None:
    # k = 1: a scores 2/2, 2/3, 2/4, 2/5 = 1, .67, .5, .4; b scores 1/2, 1/3 = .5, .33; the tie at .5 goes to a
    merged = fuse([ranking("a", "1", "2", "3", "4", weight=2.0), ranking("b", "5", "6")], k=1, n_results=10)
    assert [(one.store, one.store_rank) for one in merged] == [
        ("a", 1), ("a", 2), ("a", 3), ("b", 1), ("a", 4), ("b", 2),
    ]  # fmt: skip


def test_weight_0_lists_the_hits_of_that_store_last_in_their_order() -> None:
    merged = fuse([ranking("zero", "1", "2", weight=0.0), ranking("b", "3", "4", weight=0.001)], k=60, n_results=10)
    assert [one.hit.id for one in merged] == ["3", "4", "1", "2"]
    assert [one.score for one in merged[2:]] == [0.0, 0.0]


def test_ties_are_in_configured_order_and_then_by_rank() -> None:
    rankings = [ranking("c", "1", "2"), ranking("a", "3", "4"), ranking("b", "5", "6")]
    assert [one.hit.id for one in fuse(rankings, k=60, n_results=6)] == ["1", "3", "5", "2", "4", "6"]


@pytest.mark.parametrize(("n_results", "count"), [(1, 1), (3, 3), (4, 4), (5, 4), (200, 4)])
def test_as_many_hits_as_asked_or_as_there_are(n_results: int, count: int) -> None:
    merged = fuse([ranking("a", "1", "2", "3"), ranking("b", "4")], k=60, n_results=n_results)
    assert len(merged) == count


def test_nothing_merged_is_nothing() -> None:
    assert fuse([], k=60, n_results=10) == ()
    assert fuse([ranking("a")], k=60, n_results=10) == ()


# Cut, repeated ids, floor: in this order


def test_more_hits_than_asked_for_are_cut_before_anything_else() -> None:
    hits = [hit("a"), hit("a"), hit("b", 0.1), hit("c"), hit("d")]
    result = ranked("s", hits, asked=4, weight=1.0, floor=0.3)
    assert [one.id for one in result.hits] == ["a", "c"]
    assert (result.returned, result.floored) == (4, 1)


def test_a_repeated_id_keeps_its_first_place_only() -> None:
    assert kept([hit("a"), hit("b"), hit("a"), hit("c"), hit("b"), hit("a")]) == ["a", "b", "c"]


def test_a_repeated_id_is_judged_by_its_first_place_even_where_the_floor_drops_that() -> None:
    assert kept([hit("a", 0.1), hit("b", 0.5), hit("a", 0.9)], floor=0.3) == ["b"]


def test_hits_without_an_id_are_all_kept() -> None:
    assert kept([hit(""), hit("a"), hit(""), hit("a"), hit("")]) == ["", "a", "", ""]


def test_the_same_id_in_two_stores_is_two_hits() -> None:
    merged = fuse([ranking("a", "same"), ranking("b", "same")], k=60, n_results=10)
    assert [(one.store, one.hit.id) for one in merged] == [("a", "same"), ("b", "same")]


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        (("facts",), ("facts",), 1),
        (("facts",), ("episodes",), 2),
        (("inner", "facts"), ("inner", "facts"), 1),
        (("inner", "facts"), ("inner", "episodes"), 2),
        (("inner", "facts"), ("other", "facts"), 2),
        (("inner",), ("inner", "facts"), 2),
        ((), ("facts",), 2),
    ],
)
def test_behind_a_nested_callosum_a_hit_is_known_by_its_inner_stores_and_id(
    first: tuple[str, ...], second: tuple[str, ...], left: int
) -> None:
    assert len(kept([hit("7", 0.9, *first), hit("7", 0.9, *second)])) == left


@pytest.mark.parametrize(
    ("floor", "ids"),
    [
        (0.0, ["84", "31", "30", "29", "0", "unknown"]),
        (0.29, ["84", "31", "30", "29", "unknown"]),
        (0.3, ["84", "31", "30", "unknown"]),
        (0.84, ["84", "unknown"]),
        (1.0, ["unknown"]),
    ],
)
def test_the_floor_compares_the_relevance_and_is_inclusive(floor: float, ids: list[str]) -> None:
    hits = [hit("84", 0.84), hit("31", 0.31), hit("30", 0.30), hit("29", 0.29), hit("0", 0.0), hit("unknown", None)]
    assert kept(hits, floor=floor) == ids


def test_ranks_are_given_after_the_floor_and_are_contiguous() -> None:
    hits = [hit("bad", 0.1), hit("good", 0.8), hit("worse", 0.0), hit("fair", 0.5)]
    merged = fuse([ranked("s", hits, asked=10, weight=1.0, floor=0.3)], k=60, n_results=10)
    assert [(one.hit.id, one.store_rank) for one in merged] == [("good", 1), ("fair", 2)]


def test_a_store_with_every_hit_below_the_floor_says_how_many() -> None:
    result = ranked("s", [hit("a", 0.1), hit("b", 0.2)], asked=10, weight=1.0, floor=0.3)
    assert (result.hits, result.returned, result.floored) == ((), 2, 2)


def test_a_store_is_never_re_sorted() -> None:
    hits = [hit("low", 0.1), hit("high", 1.0), hit("none", None), hit("mid", 0.5)]
    assert kept(hits) == ["low", "high", "none", "mid"]


def test_ten_thousand_hits_for_thirty_asked_are_cut_to_thirty() -> None:
    result = ranked("s", [hit(str(n)) for n in range(10_000)], asked=30, weight=1.0, floor=0.0)
    assert len(result.hits) == result.returned == 30
    merged = fuse([result, ranking("b", "b1", "b2")], k=60, n_results=10)
    assert [(one.store, one.store_rank) for one in merged] == [
        ("s", 1), ("b", 1), ("s", 2), ("b", 2), ("s", 3), ("s", 4), ("s", 5), ("s", 6), ("s", 7), ("s", 8),
    ]  # fmt: skip


# Properties

IDS = st.sampled_from(["", "a", "b", "c", "d", "e", "f", "g"])
MAGNITUDE = st.floats(0.001, 1000, allow_nan=False)
STORES = st.lists(
    st.tuples(st.sampled_from(["memory", "loci"]), st.lists(st.tuples(IDS, MAGNITUDE), max_size=8)),
    min_size=1,
    max_size=4,
)


def merged_from_replies(replies: list[tuple[str, list[tuple[str, float]]]], factors: list[float]) -> bytes:
    rankings = []
    for number, ((kind, hits), factor) in enumerate(zip(replies, factors, strict=True)):
        adapter = SerenMemory() if kind == "memory" else SerenLoci()
        raws = [
            {"id": id, "content": "c", "value": "v", "score": size * factor, "raw_distance": size * factor}
            for id, size in hits
        ]
        mapped: Mapped = adapter.read({"hits": raws})
        assert len(mapped.hits) == len(raws)
        rankings.append(ranked(f"s{number}", mapped.hits, asked=20, weight=1.0, floor=0.0))
    return repr(told(fuse(rankings, k=60, n_results=50))).encode()


@settings(max_examples=150, deadline=None)
@given(STORES, st.data())
def test_embedder_change_does_not_perturb_order(
    replies: list[tuple[str, list[tuple[str, float]]]], data: st.DataObject
) -> None:
    ones = [1.0] * len(replies)
    factors = data.draw(st.lists(st.floats(1e-9, 1e9), min_size=len(replies), max_size=len(replies)))
    assert merged_from_replies(replies, factors) == merged_from_replies(replies, ones)


RANKINGS = st.lists(
    st.tuples(st.lists(st.integers(0, 99).map(str), max_size=6, unique=True), st.sampled_from([0.0, 0.5, 1.0, 2.0])),
    min_size=1,
    max_size=5,
).map(
    lambda rows: [
        Ranking(f"s{number}", weight, tuple(map(hit, ids)), len(ids), 0) for number, (ids, weight) in enumerate(rows)
    ]
)


@settings(max_examples=150, deadline=None)
@given(RANKINGS, st.data())
def test_a_failed_store_never_changes_the_relative_order_of_the_others(
    rankings: list[Ranking], data: st.DataObject
) -> None:
    failed = data.draw(st.sampled_from([one.store for one in rankings]))
    whole = told(fuse(rankings, k=60, n_results=100))
    without = told(fuse([one for one in rankings if one.store != failed], k=60, n_results=100))
    assert without == [line for line in whole if line[0] != failed]


@settings(max_examples=150, deadline=None)
@given(RANKINGS, st.data())
def test_permuting_the_configured_order_changes_ties_only(rankings: list[Ranking], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(rankings))
    one, other = told(fuse(rankings, k=60, n_results=100)), told(fuse(shuffled, k=60, n_results=100))
    assert [line[2] for line in one] == [line[2] for line in other]
    assert sorted(one) == sorted(other)


@settings(max_examples=150, deadline=None)
@given(RANKINGS, st.integers(1, 200), st.integers(1, 10_000))
def test_where_a_rank_is_listed_every_better_rank_of_its_store_is(
    rankings: list[Ranking], n_results: int, k: int
) -> None:
    merged = fuse(rankings, k=k, n_results=n_results)
    assert len(merged) == min(n_results, sum(len(one.hits) for one in rankings))
    for one in rankings:
        ranks = [line.store_rank for line in merged if line.store == one.store]
        assert ranks == list(range(1, len(ranks) + 1))


# Through the service

DEFAULTS = {key: option.default for key, option in SerenLoci.options.items()}


class Noting(SerenLoci):
    """Says when a reply has come in."""

    def __init__(self) -> None:
        self.came = threading.Event()

    def read(self, reply: Any, limit: int | None = None) -> Mapped:
        mapped = super().read(reply, limit)
        self.came.set()
        return mapped


def fanned(stores: list[GoodStore], folder: Path, adapters: list[Noting] | None = None) -> Callosum:
    adapters = adapters or [Noting() for _ in stores]
    entries = tuple(
        Store(f"s{number}", "seren_loci", adapter, store.url, options=DEFAULTS)
        for number, (store, adapter) in enumerate(zip(stores, adapters, strict=True))
    )
    return Callosum(Config(stores=entries, overlay=folder / "runtime-stores.json", instance_id="t"), environ={})


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1), (1, 3, 0, 2)])
def test_the_order_in_which_stores_answer_changes_nothing(
    good_store: Callable[..., GoodStore], tmp_path: Path, order: tuple[int, ...]
) -> None:
    stores = [good_store("seren_loci", sample_hits("seren_loci", 2, f"s{number}")) for number in range(4)]
    adapters = [Noting() for _ in stores]
    for store in stores:
        store.hold = threading.Event()
    with fanned(stores, tmp_path, adapters) as callosum, ThreadPoolExecutor(1) as caller:
        search = caller.submit(callosum.search, "q", 6)
        for number in order:
            gate = stores[number].hold
            assert gate is not None
            gate.set()
            assert adapters[number].came.wait(5)
        hits = search.result(10).hits
    assert told(hits) == [
        ("s0", "s0-1", 0.01639344262295082, 1),
        ("s1", "s1-1", 0.01639344262295082, 1),
        ("s2", "s2-1", 0.01639344262295082, 1),
        ("s3", "s3-1", 0.01639344262295082, 1),
        ("s0", "s0-2", 0.016129032258064516, 2),
        ("s1", "s1-2", 0.016129032258064516, 2),
    ]


def test_a_dead_store_leaves_the_others_in_their_order(good_store: Callable[..., GoodStore], tmp_path: Path) -> None:
    stores = [good_store("seren_loci", sample_hits("seren_loci", 3, f"s{number}")) for number in range(3)]
    with fanned(stores, tmp_path) as callosum:
        whole = told(callosum.search("q", 9).hits)
        stores[1].status = 500
        packet = callosum.search("q", 9)
    assert [entry.name for entry in packet.skipped] == ["s1"]
    assert told(packet.hits) == [line for line in whole if line[0] != "s1"]
    assert len(packet.hits) == 6
