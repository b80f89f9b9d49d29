"""Against real seren-loci and seren-memory processes: the merged list is what the formula gives for their answers."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.checks import REPO
from tests.support.realstores import RealStore
from tests.support.service import Service

QUERIES = [
    "why larch for the hull planking",
    "which epoxy glue in the workshop",
    "when is the boat launched",
    "Marta",
    "what went wrong with the release",
    "ferry to Port Ellery",
]
K = 60


def config(loci: RealStore, memory: RealStore, weight: float = 1.0) -> str:
    stores = [
        {"name": "facts", "type": "seren_loci", "url": loci.url},
        {"name": "episodic", "type": "seren_memory", "url": memory.url, "weight": weight},
    ]
    return json.dumps({"federation": {"per_store_timeout_s": 10, "stores": stores}})


@pytest.fixture
def live(service: Any, real_loci: RealStore, real_memory: RealStore) -> Iterator[Service]:
    yield service(config(real_loci, real_memory))


def expected(loci: RealStore, memory: RealStore, query: str, n_results: int, weight: float) -> list[tuple[str, str]]:
    """product.md's formula by hand: weight / (60 + rank), ties in configured order."""
    scored = [(-1.0 / (K + rank), 0, rank, "facts", hit["id"]) for rank, hit in enumerate(loci.search(query, 20), 1)]
    scored += [
        (-weight / (K + rank), 1, rank, "episodic", hit["id"]) for rank, hit in enumerate(memory.search(query, 20), 1)
    ]
    return [(store, str(hit_id)) for _, _, _, store, hit_id in sorted(scored)[:n_results]]


@pytest.mark.parametrize("query", QUERIES)
def test_the_merged_order_is_what_the_formula_gives_for_the_stores_own_answers(
    live: Service, real_loci: RealStore, real_memory: RealStore, query: str
) -> None:
    body = live.search(query, n_results=10)
    assert body["skipped"] == []
    assert [(hit["store"], hit["id"]) for hit in body["hits"]] == expected(real_loci, real_memory, query, 10, 1.0)


def test_a_weight_moves_the_episodes_as_the_formula_says(
    service: Any, real_loci: RealStore, real_memory: RealStore
) -> None:
    query = QUERIES[0]
    body = service(config(real_loci, real_memory, weight=1.1)).search(query, n_results=10)
    assert [(hit["store"], hit["id"]) for hit in body["hits"]] == expected(real_loci, real_memory, query, 10, 1.1)


def test_readmes_query_finds_something_in_both(live: Service) -> None:
    query = re.search(r'seren-corpus-callosum search "(.*)"', (REPO / "README.md").read_text(encoding="utf-8"))
    assert query
    assert {hit["store"] for hit in live.search(query[1])["hits"]} == {"facts", "episodic"}


def test_a_fact_reads_as_key_value_and_why(live: Service) -> None:
    hit = next(hit for hit in live.search("hull.planking")["hits"] if hit["store"] == "facts")
    assert hit["content"] == "hull.planking = larch on oak frames because that is how she was built in 1957"
    assert (hit["metadata"]["key"], hit["metadata"]["value"]) == ("hull.planking", "larch on oak frames")
    assert hit["base_relevance"] == 1.0


def test_an_episode_keeps_its_tier_and_topic(live: Service) -> None:
    hit = next(hit for hit in live.search("varnish")["hits"] if hit["store"] == "episodic")
    assert hit["metadata"]["tier"] == "short"
    assert hit["metadata"]["topic"]
    assert hit["base_relevance"] == pytest.approx(1 / (1 + hit["raw_distance"]))


def test_a_store_that_goes_is_named_and_one_that_comes_back_answers_again(
    live: Service, real_loci: RealStore, real_memory: RealStore
) -> None:
    with real_memory.stopped():
        body = live.search("larch")
        assert body["stores_searched"] == ["facts"]
        assert [(entry["name"], entry["kind"]) for entry in body["skipped"]] == [("episodic", "unreachable")]
        assert {hit["store"] for hit in body["hits"]} == {"facts"}
    body = live.search("larch")
    assert body["stores_searched"] == ["facts", "episodic"]


def test_more_is_never_asked_of_a_store_than_it_allows(live: Service) -> None:
    body = live.search("boat", n_results=200)
    assert body["skipped"] == []
    assert body["stores_searched"] == ["facts", "episodic"]


def test_a_store_behind_the_wrong_type_is_told(service: Any, real_loci: RealStore, real_memory: RealStore) -> None:
    entry = {"name": "odd", "type": "seren_loci", "url": real_memory.url}
    body = service("{}").request("POST", "/stores?check=only", json=entry).json()
    assert (body["ok"], body["looks_like"]) == (False, "seren_memory")
