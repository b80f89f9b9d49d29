"""The sample stores of `demo`: real wire formats on loopback, honest ranking, nothing left behind."""

import http.client
import json
import socket
import threading
from urllib.parse import urlsplit

import pytest
import requests

from seren_corpus_callosum.demo import SAMPLE_QUERY, SampleStores
from seren_corpus_callosum.sample_memories import Episode, Fact, episode_search, fact_search

FACT_FIELDS = {
    *("id", "project", "key", "value", "why", "score", "match_kind", "source", "raw_distance", "live"),
    *("superseded_at", "why_changed", "figures", "recheck"),
}
EPISODE_FIELDS = {"tier", "content", "topic", "score", "raw_distance", "id", "metadata", "surroundings", "matched_via"}

FACTS = (
    Fact("boat", "mast wood", "spruce", "light"),
    Fact("boat", "hull paint", "green", "old photograph"),
    Fact("boat", "hull paint", "white", None, 1700000000.0, "it was the undercoat"),
    Fact("house", "door paint", "blue", None),
)


@pytest.fixture(scope="module")
def stores():
    with SampleStores() as running:
        yield running


@pytest.fixture
def ask(stores):
    with requests.Session() as session:
        session.trust_env = False

        def post(store, body, path="/search"):
            url = {"loci": stores.loci_url, "memory": stores.memory_url}[store]
            return session.post(url + path, json=body, timeout=5)

        yield post


def test_a_fact_has_every_field_of_the_protocol(ask):
    body = ask("loci", {"query": "mast wood", "project": None, "n_results": 3, "include_superseded": True}).json()
    assert {key: body[key] for key in ("query", "project", "finder")} == {
        "query": "mast wood",
        "project": None,
        "finder": "lexical",
    }
    assert [set(hit) for hit in body["hits"]] == [FACT_FIELDS] * 3
    assert body["hits"][0] | {"id": "x"} == {
        "id": "x",
        "project": "marlene",
        "key": "mast wood",
        "value": "spruce",
        "why": "light aloft, and Hinrich had a dry trunk in his shed",
        "score": 1.0,
        "match_kind": "exact",
        "source": "user",
        "raw_distance": None,
        "live": True,
        "superseded_at": None,
        "why_changed": None,
        "figures": 0,
        "recheck": None,
    }


def test_an_episode_has_every_field_of_the_protocol(ask):
    body = ask("memory", {"query": "stubborn goat", "n_results": 1, "include_short": False}).json()
    assert body["searched_tiers"] == ["near", "long"]
    (hit,) = body["hits"]
    assert set(hit) == EPISODE_FIELDS
    assert (hit["tier"], hit["topic"], hit["matched_via"]) == ("long", "boat,mast,wood,friends", None)
    assert hit["metadata"] == {"created_at": "2025-04-12T18:00:00+00:00", "source": "user", "superseded": False}
    assert 0 < hit["raw_distance"] < 2
    assert hit["surroundings"] is None


def test_surroundings_come_only_when_asked_for(ask):
    body = ask("memory", {"query": "stubborn goat", "with_surroundings": True}).json()
    assert body["hits"][0]["surroundings"] == {
        "satellites": 0,
        "latest_satellite_at": None,
        "supersedes": None,
        "superseded_by": None,
        "recent": [],
    }


@pytest.mark.parametrize("query", ["Mast Wood", "mast-wood", "the mast wood"])
def test_an_exact_key_is_the_best_hit_in_any_spelling(query):
    hits = fact_search(FACTS)({"query": query})["hits"]
    assert (hits[0]["value"], hits[0]["score"], hits[0]["match_kind"]) == ("spruce", 1.0, "exact")


def test_every_other_fact_scores_below_an_exact_one_and_in_falling_order():
    hits = fact_search(FACTS)({"query": "green paint of the hull"})["hits"]
    assert [hit["value"] for hit in hits] == ["green", "blue"]
    assert all(hit["match_kind"] == "lexical" and 0 < hit["score"] < 0.9 for hit in hits)


def test_a_superseded_fact_is_shown_only_on_request_and_behind_the_live_one():
    search = fact_search(FACTS)
    assert [hit["value"] for hit in search({"query": "hull paint"})["hits"]] == ["green", "blue"]
    hits = search({"query": "hull paint", "include_superseded": True})["hits"]
    assert [(hit["value"], hit["score"], hit["live"]) for hit in hits[:2]] == [
        ("green", 1.0, True),
        ("white", 0.9, False),
    ]
    assert hits[1]["why_changed"] == "it was the undercoat"


def test_a_project_narrows_the_facts():
    search = fact_search(FACTS)
    assert [hit["value"] for hit in search({"query": "paint", "project": "house"})["hits"]] == ["blue"]
    assert search({"query": "paint", "project": "nowhere"})["hits"] == []


def test_the_memory_lists_by_tier_weighted_score_even_against_the_distance():
    episodes = (
        Episode("2025-01-01", "long", "x", "larch planks"),
        Episode("2025-01-02", "short", "x", "larch planks today"),
        Episode("2025-01-03", "near", "x", "something else"),
    )
    hits = episode_search(episodes)({"query": "larch planks"})["hits"]
    assert [hit["tier"] for hit in hits] == ["short", "long"]
    assert hits[0]["score"] > hits[1]["score"]
    assert hits[0]["raw_distance"] > hits[1]["raw_distance"]


def test_the_same_words_are_at_distance_zero():
    search = episode_search((Episode("2025-01-01", "long", "x", "larch"), Episode("2025-01-01", "long", "y", "oak")))
    (hit,) = search({"query": "x larch"})["hits"]
    assert (hit["raw_distance"], hit["score"]) == (0.0, 0.6)


def test_a_superseded_episode_is_shown_only_on_request():
    search = episode_search((Episode("2025-01-01", "short", "x", "white hull", True),))
    assert search({"query": "hull"})["hits"] == []
    assert search({"query": "hull", "include_superseded": True})["hits"][0]["metadata"]["superseded"] is True


def test_the_sample_query_is_answered_by_both_halves(ask):
    facts = ask("loci", {"query": SAMPLE_QUERY, "n_results": 10}).json()["hits"]
    episodes = ask("memory", {"query": SAMPLE_QUERY, "n_results": 10}).json()["hits"]
    assert facts[0]["key"] == "planking wood"
    assert "larch" in episodes[0]["content"]
    assert len(facts) >= 3 and len(episodes) >= 4


def test_an_answer_is_the_same_twice(ask):
    body = {"query": "launch", "n_results": 5}
    assert ask("memory", body).content == ask("memory", body).content


@pytest.mark.parametrize("query", ["", "   ", "the of and", "qwertz", "🙂", "'; DROP --"])
@pytest.mark.parametrize("store", ["loci", "memory"])
def test_a_query_that_matches_nothing_is_an_empty_answer(ask, store, query):
    answer = ask(store, {"query": query, "n_results": 5})
    assert (answer.status_code, answer.json()["hits"]) == (200, [])


@pytest.mark.parametrize(
    ("store", "body", "field"),
    [
        ("memory", {"query": "x", "n_results": 51}, "n_results"),
        ("memory", {"query": "x", "n_results": 0}, "n_results"),
        ("memory", {"query": "x", "n_results": None}, "n_results"),
        ("memory", {"query": "x", "include_long": "yes"}, "include_long"),
        ("memory", {"n_results": 5}, "query"),
        ("loci", {"query": 7}, "query"),
        ("loci", {"query": None}, "query"),
        ("loci", {"query": "x", "n_results": True}, "n_results"),
        ("loci", {"query": "x", "n_results": "5"}, "n_results"),
        ("loci", {"query": "x", "project": 1}, "project"),
    ],
)
def test_a_field_of_a_wrong_type_or_range_is_refused_by_name(ask, store, body, field):
    answer = ask(store, body)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", field]


def test_fifty_results_may_be_asked_for_and_facts_have_no_cap(ask):
    assert ask("memory", {"query": "boat", "n_results": 50}).status_code == 200
    assert ask("loci", {"query": "boat", "n_results": 400}).status_code == 200
    assert ask("loci", {"query": "boat", "n_results": 0}).json()["hits"] == []


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        ("POST /search", b"{", 422),
        ("POST /search", b"[]", 422),
        ("POST /search", b"\xff", 422),
        ("POST /search", b"[" * 100_000, 422),
        ("POST /search", b"", 422),
        ("POST /nowhere", b"{}", 404),
        ("GET /search", b"", 405),
        ("POST /health", b"{}", 405),
        ("PUT /search", b"{}", 405),
    ],
)
def test_a_malformed_request_gets_a_4xx_in_json(stores, head, body, status):
    method, path = head.split()
    connection = http.client.HTTPConnection(urlsplit(stores.loci_url).netloc, timeout=5)
    connection.request(method, path, body)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    assert (answer.status, answer.headers["Content-Type"]) == (status, "application/json")
    assert json.loads(content)["detail"]


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"POST /search HTTP/1.1\r\nHost: x\r\n\r\n", 411),
        (b"POST /search HTTP/1.1\r\nHost: x\r\nContent-Length: -4\r\n\r\n", 411),
        (b"POST /search HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST /search HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n", 413),
        (b"nonsense\r\n\r\n", 400),
    ],
)
def test_a_request_that_cannot_be_framed_is_refused_and_the_connection_ends(stores, raw, status):
    with socket.create_connection(("127.0.0.1", urlsplit(stores.memory_url).port), timeout=5) as client:
        client.sendall(raw)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    head, _, content = answer.rpartition(b"\r\n\r\n")
    assert json.loads(content)["detail"]
    if status != 400:  # without a request line there is no version to answer in, so the body stands alone
        assert head.split(b" ", 2)[1] == str(status).encode()


def test_health_answers_and_a_connection_serves_many_requests(stores):
    connection = http.client.HTTPConnection(urlsplit(stores.memory_url).netloc, timeout=5)
    connection.connect()
    port = connection.sock.getsockname()[1]
    for _ in range(3):
        connection.request("GET", "/health")
        assert json.load(connection.getresponse())["ok"] is True
    assert connection.sock.getsockname()[1] == port
    connection.close()


def test_many_clients_are_served_at_once(stores):
    answers = []

    def search():
        answers.append(requests.post(stores.loci_url + "/search", json={"query": "bread"}, timeout=10).status_code)

    clients = [threading.Thread(target=search) for _ in range(20)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert answers == [200] * 20


def test_stopping_ends_idle_connections_and_leaves_no_thread():
    before = set(threading.enumerate())
    stores = SampleStores()
    stores.start()
    client = http.client.HTTPConnection(urlsplit(stores.loci_url).netloc, timeout=5)
    client.request("GET", "/health")
    client.getresponse().read()
    port = urlsplit(stores.loci_url).port
    stores.stop()
    assert client.sock.recv(1) == b""
    client.close()
    assert set(threading.enumerate()) <= before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_start_and_stop_may_be_called_twice():
    stores = SampleStores()
    first = stores.start().loci_url
    assert stores.start().loci_url == first
    stores.stop()
    stores.stop()


def test_the_entries_name_both_stores_on_loopback(stores):
    assert stores.store_entries() == [
        {"name": "facts", "type": "seren_loci", "url": stores.loci_url},
        {"name": "episodic", "type": "seren_memory", "url": stores.memory_url},
    ]
    assert {urlsplit(entry["url"]).hostname for entry in stores.store_entries()} == {"127.0.0.1"}


def test_a_client_that_vanishes_leaves_no_traceback(capfd):
    with SampleStores() as stores:
        client = socket.create_connection(("127.0.0.1", urlsplit(stores.loci_url).port))
        client.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
        )  # close sends a reset
        client.sendall(b"POST /search HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
        client.close()
        requests.get(stores.loci_url + "/health", timeout=5)
    assert capfd.readouterr().err == ""
