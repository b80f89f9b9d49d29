"""The roster over HTTP: stores added, changed and removed while the service runs, and what is refused."""

import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from seren_corpus_callosum import overlay

from .roster_service import Local
from .support import scripts
from .support.checks import problem, strict_json
from .support.goodstore import GoodStore, sample_hits
from .support.rawstore import RawStore

NOWHERE = "http://127.0.0.1:9"  # the discard port: nobody listens
BASE = "federation:\n  stores:\n    - {name: facts, type: seren_loci, url: 'http://127.0.0.1:9'}\n"
FRESH = {
    "calls": 0, "failures": 0, "last_ms": None, "avg_ms": None,
    "last_error": None, "failing_since": None, "suspended_until": None,
}  # fmt: skip

Start = Callable[..., Local]


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Start]:
    """Starts services in this process, one at a time or several, and ends them."""
    started: list[Local] = []

    def start(config: str = "", folder: Path | None = None) -> Local:
        one = Local(folder or tmp_path, config)
        one.start()
        started.append(one)
        return one

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def store(good_store: Callable[..., GoodStore]) -> GoodStore:
    return good_store("seren_loci", sample_hits("seren_loci", 2, "new"))


def body_of(**fields: Any) -> dict[str, Any]:
    return {"name": "new", "type": "seren_loci", "url": NOWHERE, **fields}


# Adding


def test_an_added_store_is_in_the_very_next_search_and_its_row_comes_back(local: Start, store: GoodStore) -> None:
    service = local()
    answer = service.request("POST", "/stores", {"name": "new", "type": "seren_loci", "url": store.url})
    assert answer.status_code == 201
    row = {
        "name": "new", "type": "seren_loci", "url": store.url, "weight": 1.0, "floor": 0.0, "enabled": True,
        "managed": True, "auth": False, "timeout_s": None, "status": "active", "warnings": [], "health": FRESH,
    }  # fmt: skip
    assert strict_json(answer.content) == row
    assert [hit["id"] for hit in service.search()["hits"]] == ["new-1", "new-2"]
    assert service.roster()["new"]["health"]["calls"] == 1
    assert service.entries() == [{"name": "new", "type": "seren_loci", "url": store.url}]


def test_every_field_of_an_added_store_is_kept_over_a_restart(local: Start, store: GoodStore) -> None:
    service = local()
    options = {"project": "p", "search_path": "/search"}
    service.add("new", store.url, weight=2, floor=0.25, enabled=False, timeout_s=1.5, options=options)
    before = service.request("GET", "/stores/new").json()
    assert (before["weight"], before["floor"], before["enabled"], before["timeout_s"], before["status"]) == (
        2.0, 0.25, False, 1.5, "disabled",
    )  # fmt: skip
    service.restart()
    assert service.request("GET", "/stores/new").json() == before
    assert service.search()["stores_searched"] == [] and store.searches == []
    service.request("PATCH", "/stores/new", {"enabled": True})
    assert service.search()["stores_searched"] == ["new"]
    assert store.searches[-1].json["project"] == "p"


def test_an_optional_field_that_is_null_is_its_default(local: Start) -> None:
    fields = ("weight", "floor", "enabled", "timeout_s", "token", "options")
    row = local().add("new", NOWHERE, **dict.fromkeys(fields))
    assert (row["weight"], row["floor"], row["enabled"], row["timeout_s"], row["auth"]) == (1.0, 0.0, True, None, False)


def test_the_body_of_stores_has_these_keys_and_no_others(local: Start) -> None:
    body = strict_json(local(BASE).request("GET", "/stores").content)
    expected = {"stores", "active", "types", "k", "n_results", "fetch_multiplier", "per_store_timeout_s"}
    assert set(body) == expected
    assert {key: body[key] for key in expected - {"stores"}} == {
        "active": 1, "types": ["seren_loci", "seren_memory", "callosum"], "k": 60, "n_results": 10,
        "fetch_multiplier": 2, "per_store_timeout_s": 5.0,
    }  # fmt: skip
    assert set(body["stores"][0]) == {
        "name", "type", "url", "weight", "floor", "enabled", "managed", "auth", "timeout_s", "status", "warnings",
        "health",
    }  # fmt: skip


def test_a_user_and_password_in_a_url_are_used_and_never_shown(local: Start, store: GoodStore) -> None:
    service = local()
    row = service.add("new", store.url.replace("//", "//ann:s%33cret@"))
    assert (row["url"], row["auth"]) == (store.url, True)
    service.search()
    assert store.searches[-1].headers["authorization"] == "Basic YW5uOnMzY3JldA=="  # ann:s3cret
    shown = service.request("GET", "/stores").text + service.request("GET", "/").text
    assert "s3cret" not in shown and "s%33cret" not in shown and "ann" not in shown


REFUSED: list[tuple[Any, int, str | None]] = [
    (body_of(type="vector"), 400, "type"),
    (body_of(type=None), 422, "type"),
    ({"type": "seren_loci", "url": NOWHERE}, 422, "name"),
    ({"name": "new", "url": NOWHERE}, 422, "type"),
    ({"name": "new", "type": "seren_loci"}, 422, "url"),
    (body_of(name=None), 422, "name"),
    (body_of(name=7), 422, "name"),
    (body_of(url=None), 422, "url"),
    (body_of(url=["http://127.0.0.1"]), 422, "url"),
    (body_of(weight="1"), 422, "weight"),
    (body_of(weight=True), 422, "weight"),
    (body_of(weight=-0.1), 422, "weight"),
    (body_of(weight=1000.5), 422, "weight"),
    (body_of(weight="nan"), 422, "weight"),
    (body_of(floor=1.01), 422, "floor"),
    (body_of(floor=-0.01), 422, "floor"),
    (body_of(timeout_s=0), 422, "timeout_s"),
    (body_of(timeout_s=0.04), 422, "timeout_s"),
    (body_of(timeout_s=120.5), 422, "timeout_s"),
    (body_of(enabled="false"), 422, "enabled"),
    (body_of(enabled=1), 422, "enabled"),
    (body_of(options=[]), 422, "options"),
    (body_of(options={"colour": 1}), 422, "options.colour"),
    (body_of(options={"include_fundamentals": "no"}), 422, "options.include_fundamentals"),
    (body_of(options={"search_path": "http://169.254.169.254/"}), 422, "options.search_path"),
    (body_of(options={"project": "\ud800"}), 422, "options.project"),
    (body_of(url="http://127.0.0.1/\ud800"), 422, "url"),
    (body_of(name="\ud800"), 422, "name"),
    (body_of(token=123), 422, "token"),
    (body_of(token="   "), 422, "token"),
    (body_of(token="two\nlines"), 422, "token"),
    (body_of(project="p"), 422, "project"),  # an adapter's option stands under options here
    (body_of(colour="red"), 422, "colour"),
    (body_of(managed=False), 422, "managed"),
    (body_of(proxy=NOWHERE), 422, "proxy"),
    (body_of(token_env="HOME"), 422, "token_env"),
    (body_of(token_keyring="login/ann"), 422, "token_keyring"),
    (body_of(bearer_token="t"), 422, "bearer_token"),
    (body_of(bearer_token_env="HOME"), 422, "bearer_token_env"),
    (body_of(bearer_token_keyring="login/ann"), 422, "bearer_token_keyring"),
    (body_of(token_env=None), 422, "token_env"),
    ([], 422, "body"),
    ([body_of()], 422, "body"),
    ("new", 422, "body"),
    ({}, 422, "name"),
    (b"null", 422, "body"),
    (b"", 400, None),
    (b"{", 400, None),
    (b'{"weight": NaN}', 400, None),
    (b'{"weight": -Infinity}', 400, None),
    (b'{"name": "new", "type": "seren_loci", "url": "http://127.0.0.1:9", "weight": 1e999}', 422, "weight"),
    (b'{"name": "new", "type": "seren_loci", "url": "http://127.0.0.1:9", "floor": -1e999}', 422, "floor"),
    (b'{"name": "\xff"}', 400, None),
    (b'{"weight": ' + b"9" * 5000 + b"}", 422, "weight"),
    (b"[" * 100_000, 400, None),
]


def test_all_that_is_wrong_with_an_entry_is_told_at_once(local: Start) -> None:
    entry = body_of(foo=1, weight="2", type="chroma", token_env="HOME", options={"a": 1})
    told = problem(local(BASE).request("POST", "/stores", json=entry), 400)
    assert list(told["errors"]) == ["foo", "token_env", "type", "weight"]


def test_a_name_that_looks_like_a_place_is_a_name(local: Start, tmp_path: Path) -> None:
    service = local(BASE)
    nameless = {"type": "seren_loci", "url": NOWHERE}
    (tmp_path / "runtime-stores.json").write_text(json.dumps([nameless, {**nameless, "name": "overlay[0]"}]))
    told = [row for row in service.request("GET", "/stores").json()["stores"] if row["name"] == "overlay[0]"]
    assert [row["status"] for row in told] == ["skipped: name: missing: unique name of the store", "active"]
    assert service.request("DELETE", "/stores/overlay%5B0%5D").status_code == 200
    assert json.loads((tmp_path / "runtime-stores.json").read_text()) == [nameless]


@pytest.mark.parametrize("query", ["", "?check=only", "?check=true"])
def test_what_is_wrong_is_named_and_nothing_is_added(local: Start, query: str) -> None:
    service = local(BASE)
    before = service.request("GET", "/stores").json()
    for body, status, field in REFUSED:
        answer = service.request("POST", f"/stores{query}", body)
        told = problem(answer, status, secrets=["two\\nlines"])
        assert field is None or field in told["errors"], (body, told)
    assert service.request("GET", "/stores").json() == before
    assert not service.overlay.exists()


def test_a_name_is_given_once_among_base_and_managed_stores(local: Start, store: GoodStore) -> None:
    service = local(BASE)
    told = problem(service.request("POST", "/stores", body_of(name="facts")), 409)
    assert "seren-corpus-callosum.yaml" in told["detail"] and str(service.folder) not in told["detail"]
    service.add("new", store.url)
    problem(service.request("POST", "/stores", body_of()), 409)
    assert service.roster()["new"]["url"] == store.url


# Names


@pytest.mark.parametrize(
    "name",
    ["日本", "%", "%2F", "a?b", "a#b", "a b", "a;b", "a&b=c", "a%2Fb", "a+b", "...", "~", "'", '"', "<b>", "Ünï", "𝒳",
     "overlay[7]", "stores[0]", "Snapshot", "check", "a:b", "@", "x" * 64],
)  # fmt: skip
def test_every_name_that_is_taken_can_be_shown_changed_and_removed_again(local: Start, name: str) -> None:
    service = local()
    path = "/stores/" + quote(name, safe="")
    assert service.add(name, NOWHERE)["name"] == name
    assert service.request("GET", path).json()["name"] == name
    assert service.request("PATCH", path, {"weight": 2}).json()["weight"] == 2.0
    assert service.request("DELETE", path).json() == {"removed": name}
    assert service.entries() == []


@pytest.mark.parametrize(
    "name",
    ["", " ", " x ", "x ", "\u3000x", "\u00a0", "a/b", "a\\b", ".", "..", "snapshot", "snapshots", "x" * 65, "x" * 300,
     "a\nb", "a\x00b", "a\x7fb", "\u200b", "a\u202eb", "\ufeffx", "a\u2028b", "\ue000", "\U000e0041"],
)  # fmt: skip
def test_a_name_that_could_not_be_addressed_or_read_is_refused(local: Start, name: str) -> None:
    service = local()
    told = problem(service.request("POST", "/stores", body_of(name=name)), 422)
    assert list(told["errors"]) == ["name"]
    assert service.roster() == {}


def test_a_name_is_the_same_in_every_normal_form(local: Start) -> None:
    service = local()
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    assert service.add(decomposed, NOWHERE)["name"] == composed
    problem(service.request("POST", "/stores", body_of(name=composed)), 409)
    path = "/stores/" + quote(decomposed)
    assert service.request("GET", path).json()["name"] == composed
    assert service.request("PATCH", path, {"weight": 3}).json()["weight"] == 3.0
    assert service.request("DELETE", path).json() == {"removed": composed}
    problem(service.request("DELETE", path), 404)


# Changing


def test_a_change_is_in_the_very_next_search_and_kept(local: Start, store: GoodStore) -> None:
    service = local()
    service.add("new", store.url)
    service.search()
    row = service.request("PATCH", "/stores/new", {"weight": 2, "floor": 0.75, "timeout_s": 2}).json()
    assert (row["weight"], row["floor"], row["timeout_s"], row["health"]["calls"]) == (2.0, 0.75, 2.0, 1)
    body = service.search()
    assert [(hit["id"], hit["score"]) for hit in body["hits"]] == [("new-1", 2 / 61)]  # new-2 is at 0.5
    assert body["stores"][0]["floored"] == 1
    service.restart()
    assert service.roster()["new"]["weight"] == 2.0


def test_null_resets_a_field_to_its_default(local: Start) -> None:
    service = local()
    service.add("new", NOWHERE, weight=2, floor=0.5, enabled=False, timeout_s=1)
    changes = dict.fromkeys(("weight", "floor", "enabled", "timeout_s"))
    row = service.request("PATCH", "/stores/new", changes).json()
    assert (row["weight"], row["floor"], row["enabled"], row["timeout_s"]) == (1.0, 0.0, True, None)
    assert service.entries() == [body_of()]


def test_a_change_of_nothing_changes_nothing(local: Start) -> None:
    service = local()
    row = service.add("new", NOWHERE, weight=2)
    assert service.request("PATCH", "/stores/new", {}).json() == row


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"url": NOWHERE}, 422, "url"),
        ({"name": "other"}, 422, "name"),
        ({"type": "callosum"}, 422, "type"),
        ({"token": "t"}, 422, "token"),
        ({"options": {}}, 422, "options"),
        ({"colour": None}, 422, "colour"),
        ({"weight": 2, "managed": False}, 422, "managed"),
        ({"weight": "2"}, 422, "weight"),
        ({"weight": True}, 422, "weight"),
        ({"weight": -1}, 422, "weight"),
        ({"floor": 2}, 422, "floor"),
        ({"enabled": "true"}, 422, "enabled"),
        ({"enabled": 0}, 422, "enabled"),
        ({"timeout_s": 0}, 422, "timeout_s"),
        ([], 422, "body"),
        (b'{"weight": NaN}', 400, None),
        (b'{"weight": 1e999}', 422, "weight"),
        (b"", 400, None),
    ],
)
def test_a_change_that_is_wrong_is_named_and_none_of_it_is_made(
    local: Start, body: Any, status: int, field: str | None
) -> None:
    service = local()
    row = service.add("new", NOWHERE, weight=5)
    told = problem(service.request("PATCH", "/stores/new", body), status)
    assert field is None or list(told["errors"]) == [field]
    assert service.roster()["new"] == row and service.entries()[0]["weight"] == 5


# Removing


def test_a_removed_store_is_gone_from_the_very_next_search(local: Start, store: GoodStore) -> None:
    service = local()
    service.add("new", store.url)
    assert service.search()["stores_searched"] == ["new"]
    answer = service.request("DELETE", "/stores/new")
    assert (answer.status_code, answer.json()) == (200, {"removed": "new"})
    body = service.search()
    assert (body["stores_searched"], body["skipped"], body["hits"]) == ([], [], [])
    problem(service.request("DELETE", "/stores/new"), 404)
    problem(service.request("GET", "/stores/new"), 404)
    problem(service.request("PATCH", "/stores/new", {"weight": 1}), 404)


def test_a_store_of_the_config_file_is_refused_with_the_key_and_the_name_of_the_file(local: Start) -> None:
    service = local(BASE)
    for method, body in (("PATCH", {"weight": 2}), ("DELETE", None)):
        told = problem(service.request(method, "/stores/facts", body), 400)
        assert "federation.stores" in told["detail"] and "'facts'" in told["detail"]
        assert "seren-corpus-callosum.yaml" in told["detail"] and str(service.folder) not in told["detail"]
    assert service.config.read_text() == BASE and service.roster()["facts"]["weight"] == 1.0


def test_what_is_refused_anyway_does_not_wait_for_the_file(local: Start) -> None:
    service = local(BASE)
    service.overlay.mkdir()  # nothing can be saved over a folder
    problem(service.request("DELETE", "/stores/facts"), 400)
    problem(service.request("DELETE", "/stores/nobody"), 404)
    problem(service.request("PATCH", "/stores/nobody", {"weight": 1}), 404)


def test_a_callosum_has_no_snapshots(local: Start) -> None:
    service = local()
    for method, path in (
        ("POST", "/stores/snapshot"), ("GET", "/stores/snapshots"), ("GET", "/stores/snapshot"),
        ("POST", "/stores/snapshots"), ("DELETE", "/stores/snapshot"), ("PATCH", "/stores/snapshots"),
        ("PUT", "/stores/snapshot"),
    ):  # fmt: skip
        problem(service.request(method, path, {"name": "x"} if method != "GET" else None), 404)
    assert "snapshots" not in service.request("GET", "/stores").json()


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("PUT", "/stores", 405, {"GET", "HEAD", "POST"}),
        ("DELETE", "/stores", 405, {"GET", "HEAD", "POST"}),
        ("POST", "/stores/new", 405, {"DELETE", "GET", "HEAD", "PATCH"}),
        ("PUT", "/stores/new", 405, {"DELETE", "GET", "HEAD", "PATCH"}),
        ("OPTIONS", "/stores", 405, {"GET", "HEAD", "POST"}),
        ("GET", "/stores/", 404, None),
        ("GET", "/stores/a/b", 404, None),
        ("GET", "/stores/a%2Fb", 404, None),
        ("POST", "/configure", 404, None),
    ],
)
def test_other_paths_and_methods_are_problems_too(
    local: Start, method: str, path: str, status: int, allow: set[str] | None
) -> None:
    answer = local().request(method, path)
    problem(answer, status)
    assert allow is None or set(answer.headers["Allow"].split(", ")) == allow


# Entries that are hidden or cannot be used


def test_a_managed_entry_hidden_by_a_base_store_is_seen_and_can_be_removed(local: Start, store: GoodStore) -> None:
    service = local("")
    service.add("facts", NOWHERE, weight=9)
    service.stop()
    service.config.write_text(BASE.replace(NOWHERE, store.url))
    service.start()
    rows = service.request("GET", "/stores").json()["stores"]
    assert [(row["managed"], row["status"]) for row in rows] == [
        (False, "active"),
        (True, "skipped: hidden by the store of this name in seren-corpus-callosum.yaml"),
    ]
    assert service.request("GET", "/stores").json()["active"] == 1
    assert service.request("GET", "/stores/facts").json()["weight"] == 1.0
    body = service.search()
    assert (body["stores_searched"], body["skipped"]) == (["facts"], [])
    about = service.request("GET", "/").json()
    assert (about["stores"], about["skipped"]) == (["facts"], [])
    problem(service.request("PATCH", "/stores/facts", {"weight": 2}), 400)
    assert service.request("DELETE", "/stores/facts").json() == {"removed": "facts"}
    assert [row["managed"] for row in service.request("GET", "/stores").json()["stores"]] == [False]
    assert service.entries() == [] and service.search()["stores_searched"] == ["facts"]
    problem(service.request("DELETE", "/stores/facts"), 400)


def test_a_base_store_that_cannot_be_used_hides_a_managed_one_all_the_same(local: Start, store: GoodStore) -> None:
    service = local("federation:\n  stores:\n    - {name: facts, type: seren_loci}\n")
    service.overlay.write_text(json.dumps([body_of(name="fact\u0073", url=store.url)]))
    body = service.search()
    assert body["stores_searched"] == []
    assert [(entry["name"], entry["kind"]) for entry in body["skipped"]] == [("facts", "unbound")]
    assert store.searches == []


def test_of_two_base_stores_with_one_name_the_second_is_shown_in_stores_only(local: Start) -> None:
    service = local(BASE + "    - {name: facts, type: seren_memory, url: 'http://127.0.0.1:9'}\n")
    statuses = [row["status"] for row in service.request("GET", "/stores").json()["stores"]]
    assert statuses == ["active", "skipped: an earlier entry has this name"]
    assert [entry["name"] for entry in service.search()["skipped"]] == ["facts"]  # the one that was asked in vain
    assert service.request("GET", "/").json()["skipped"] == []


ODD_ENTRIES: list[Any] = [
    {"name": []}, {"name": {"a": 1}}, {"name": None}, {"name": 7}, {"name": "x" * 300},
    {"name": "a/b", "type": "seren_loci", "url": NOWHERE}, {}, {"type": [], "url": {}}, {"name": "..", "token": 5},
]  # fmt: skip


@pytest.mark.parametrize("entry", ODD_ENTRIES, ids=str)
def test_an_odd_entry_in_the_file_is_shown_by_its_place_and_can_be_removed(
    local: Start, store: GoodStore, entry: Any
) -> None:
    service = local(BASE)
    service.overlay.write_text(json.dumps([body_of(url=store.url), entry]))
    row = service.roster()["overlay[1]"]
    assert row["managed"] and row["status"].startswith("skipped: ")
    assert "new" in service.search()["stores_searched"]
    service.request("DELETE", "/stores/new")
    assert "overlay[0]" in service.roster()  # it moved up
    assert service.request("DELETE", "/stores/overlay%5B0%5D").json() == {"removed": "overlay[0]"}
    assert service.entries() == []


def test_an_unusable_entry_can_be_changed_and_is_skipped_only_while_enabled(local: Start) -> None:
    service = local()
    service.overlay.write_text(json.dumps([body_of(token_env="SEREN_TEST_UNSET")]))
    assert [entry["kind"] for entry in service.search()["skipped"]] == ["unbound"]
    answer = service.request("PATCH", "/stores/new", {"enabled": False})
    assert answer.status_code == 200 and answer.json()["status"].startswith("skipped: token_env: ")
    assert service.search()["skipped"] == []


def test_two_entries_of_one_name_in_the_file_go_together(local: Start, store: GoodStore) -> None:
    service = local()
    service.overlay.write_text(json.dumps([body_of(url=store.url), body_of(weight=5)]))
    assert service.search()["stores_searched"] == ["new"]
    service.request("DELETE", "/stores/new")
    assert service.roster() == {} and service.entries() == []


def test_no_search_overtakes_the_one_that_reads_a_changed_file(
    local: Start, store: GoodStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = local()
    began, go_on = threading.Event(), threading.Event()
    all_bound = service.callosum._bindings.all

    def slowly(*args: Any) -> Any:
        began.set()
        assert go_on.wait(10)
        return all_bound(*args)

    monkeypatch.setattr(service.callosum._bindings, "all", slowly)
    service.overlay.write_text(json.dumps([body_of(url=store.url)]))
    with ThreadPoolExecutor(2) as pool:
        reader = pool.submit(service.search)
        assert began.wait(5)
        next_one = pool.submit(service.search)
        wait([next_one], timeout=0.3)
        go_on.set()
        assert reader.result()["stores_searched"] == next_one.result()["stores_searched"] == ["new"]


# Checking


def test_check_only_asks_and_adds_nothing(local: Start, store: GoodStore) -> None:
    service = local()
    body = strict_json(service.request("POST", "/stores?check=only", body_of(url=store.url)).content)
    assert set(body) == {"ok", "ms", "hits", "looks_like", "reason"}
    assert (body["ok"], body["hits"], body["looks_like"], body["reason"]) == (True, 2, "seren_loci", None)
    assert 0 < body["ms"] < 5000
    assert len(store.searches) == 1 and service.roster() == {} and not service.overlay.exists()


def test_check_only_says_why_a_store_would_not_do(local: Start, good_store: Callable[..., GoodStore]) -> None:
    service = local("federation: {per_store_timeout_s: 0.3}")
    memory = good_store("seren_memory", sample_hits("seren_memory", 1))
    guarded = good_store("seren_loci")
    guarded.token = "t"
    hung = good_store("seren_loci")
    hung.hold = threading.Event()
    for url, looks_like, reason in (
        (memory.url, "seren_memory", "it answers like a seren_memory, not like a seren_loci; set its type"),
        (guarded.url, None, "http_error: HTTP 401: it wants a token and none is set"),
        (hung.url, None, "timeout: no answer within 0.3 s"),
        (NOWHERE, None, "unreachable: connection refused"),
    ):
        answer = service.request("POST", "/stores?check=only", body_of(url=url))
        body = answer.json()
        assert answer.status_code == 200
        assert (body["ok"], body["looks_like"], body["reason"]) == (False, looks_like, reason)
        told = problem(service.request("POST", "/stores?check=true", body_of(url=url)), 422)
        assert reason in told["detail"]
    assert service.roster() == {} and not service.overlay.exists()


def test_a_check_refuses_an_answer_of_which_no_hit_can_be_read(
    local: Start, raw_store: Callable[..., RawStore]
) -> None:
    service = local()
    odd = raw_store(scripts.answer_json({"hits": ["not an object", None]}))
    body = service.request("POST", "/stores?check=only", body_of(url=odd.url)).json()
    assert (body["ok"], body["hits"]) == (False, 0)
    assert body["reason"] == "bad_reply: none of its hits could be read; is this the right type of store?"
    problem(service.request("POST", "/stores?check=true", body_of(url=odd.url)), 422)
    assert service.roster() == {}


def test_a_check_takes_a_store_that_holds_nothing_yet(local: Start, good_store: Callable[..., GoodStore]) -> None:
    empty = good_store("seren_loci", [])
    assert local().request("POST", "/stores?check=only", body_of(url=empty.url)).json()["ok"] is True


def test_check_true_adds_what_answers(local: Start, store: GoodStore) -> None:
    service = local()
    store.token = "t\u00e9"
    answer = service.request("POST", "/stores?check=true", body_of(url=store.url))
    problem(answer, 422)
    # Header bytes come back as latin-1 text: these are the UTF-8 bytes of the token.
    store.token = "t\u00e9".encode().decode("latin-1")
    answer = service.request("POST", "/stores?check=true", body_of(url=store.url, token="t\u00e9"))
    assert answer.status_code == 201 and answer.json()["auth"] is True
    assert service.search()["stores_searched"] == ["new"]


@pytest.mark.parametrize("check", ["yes", "1", "TRUE", "onl"])
def test_another_value_of_check_is_refused(local: Start, check: str) -> None:
    told = problem(local().request("POST", f"/stores?check={check}", body_of()), 422)
    assert list(told["errors"]) == ["check"]


def test_a_check_sends_no_secret_of_this_machine(local: Start, store: GoodStore, monkeypatch: Any) -> None:
    service = local()
    service.environ["SEREN_TEST_SECRET"] = "hunter2"
    monkeypatch.setattr(service.callosum, "_environ", service.environ)
    for query in ("?check=only", "?check=true"):
        body = body_of(url=store.url, token_env="SEREN_TEST_SECRET")
        told = problem(service.request("POST", f"/stores{query}", body), 422, secrets=["hunter2"])
        assert list(told["errors"]) == ["token_env"]
    assert store.requests == []


# The file


def test_damage_is_shown_the_usable_entries_are_searched_and_the_first_change_keeps_the_file_aside(
    local: Start, store: GoodStore, caplog: pytest.LogCaptureFixture
) -> None:
    service = local(BASE)
    service.stop()
    damaged = json.dumps([body_of(url=store.url), "junk"])
    service.overlay.write_text(damaged)
    service.start()
    body = service.request("GET", "/stores").json()
    assert body["damage"] == "runtime-stores.json holds what is no JSON object, at [1]"
    assert "holds what is no JSON object" in caplog.text
    assert service.search()["stores_searched"] == ["new"]
    assert service.overlay.read_text() == damaged
    service.add("second", store.url)
    aside = list(service.folder.glob("runtime-stores.json.bad-*"))
    assert [path.read_text() for path in aside] == [damaged]
    assert [entry["name"] for entry in service.entries()] == ["new", "second"]
    assert "damage" not in service.request("GET", "/stores").json()


@pytest.mark.parametrize("content", [b"", b"[{", b"\x00" * 64, b"\xff\xfe", b"{}", b'"text"', b"[" * 100_000])
def test_a_file_that_breaks_while_running_leaves_the_live_roster(
    local: Start, store: GoodStore, content: bytes
) -> None:
    service = local()
    service.add("new", store.url, weight=2)
    service.overlay.write_bytes(content)
    assert service.search()["stores_searched"] == ["new"]
    body = service.request("GET", "/stores").json()
    assert body["damage"].startswith("runtime-stores.json ") and str(service.folder) not in body["damage"]
    assert body["stores"][0]["weight"] == 2.0
    service.request("PATCH", "/stores/new", {"weight": 3})
    assert [(entry["name"], entry["weight"]) for entry in service.entries()] == [("new", 3)]
    assert [path.read_bytes() for path in service.folder.glob("*.bad-*")] == [content]


def test_a_linked_file_is_changed_where_it_is(local: Start, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "real.json"
    target.parent.mkdir()
    service = local()
    service.overlay.symlink_to(target)
    service.add("new", NOWHERE)
    assert service.overlay.is_symlink()
    assert [entry["name"] for entry in json.loads(target.read_text())] == ["new"]
    service.request("DELETE", "/stores/new")
    assert json.loads(target.read_text()) == [] and service.overlay.is_symlink()


def test_the_file_is_private_and_its_token_is_shown_nowhere(local: Start) -> None:
    service = local()
    service.overlay.write_text("[]")
    service.overlay.chmod(0o644)
    service.add("new", NOWHERE, token="hunter2")
    if os.name == "posix":
        assert service.overlay.stat().st_mode & 0o777 == 0o600
    shown = [service.request("GET", path) for path in ("/", "/stores", "/stores/new")]
    shown += [
        service.request("PATCH", "/stores/new", {"weight": 2}),
        service.request("POST", "/search", {"query": "x"}),
    ]
    assert all("hunter2" not in answer.text for answer in shown)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EBUSY, errno.EXDEV])
def test_what_cannot_be_saved_is_503_and_the_live_roster_is_as_before(
    local: Start, store: GoodStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    service = local()
    service.add("new", store.url)
    before, stored = service.request("GET", "/stores").json(), service.overlay.read_bytes()

    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        for method, path, body in (
            ("POST", "/stores", body_of(name="second", url=store.url)),
            ("PATCH", "/stores/new", {"weight": 2}),
            ("DELETE", "/stores/new", None),
        ):
            told = problem(service.request(method, path, body), 503)
            assert told["detail"].startswith("not saved") and str(service.folder) not in told["detail"]
    assert service.request("GET", "/stores").json() == before
    assert service.overlay.read_bytes() == stored and service.search()["stores_searched"] == ["new"]
    assert not [path for path in service.folder.iterdir() if path.suffix == ".tmp"]


def test_a_missing_folder_starts_searches_and_says_not_saved(local: Start, tmp_path: Path) -> None:
    service = Local(tmp_path, BASE, environ={"SEREN_SCC_RUNTIME_STORES": "missing/stores.json"})
    with service:
        assert service.search()["stores_searched"] == []
        told = problem(service.request("POST", "/stores", body_of()), 503)
        assert "not saved" in told["detail"] and "folder does not exist" in told["detail"]
        assert list(service.roster()) == ["facts"] and not (tmp_path / "missing").exists()


class SharingError(PermissionError):
    """What Windows raises while a reader or a scanner has the file open."""

    winerror = 32


@pytest.mark.parametrize(("times", "status"), [(3, 201), (1000, 503)])
def test_windows_sharing_errors_are_waited_out_for_a_while(
    local: Start, monkeypatch: pytest.MonkeyPatch, times: int, status: int
) -> None:
    monkeypatch.setattr(overlay, "SHARING_PAUSE_S", 0.005)
    service = local()
    service.add("old", NOWHERE)
    real, left = os.replace, [times]

    def replace(*paths: Any) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise SharingError(errno.EACCES, "in use")
        real(*paths)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        answer = service.request("POST", "/stores", body_of())
    assert answer.status_code == status
    assert [entry["name"] for entry in service.entries()] == list(service.roster())
    assert len(service.roster()) == (2 if status == 201 else 1)


HOLDER = """
import sys
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_held_by_another_process_is_503_within_5_s_and_holds_up_no_search(
    local: Start, store: GoodStore
) -> None:
    service = local("server: {threads: 2}")
    service.add("new", store.url)
    lock = service.overlay.with_name(service.overlay.name + ".lock")
    command = [sys.executable, "-c", HOLDER, str(lock)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder,
        ThreadPoolExecutor(8) as callers,
    ):
        assert holder.stdin and holder.stdout and holder.stdout.readline() == "held\n"
        started = time.monotonic()
        asked = [
            callers.submit(service.request, "POST", "/stores", body_of(name="second")),
            callers.submit(service.request, "DELETE", "/stores/new"),
            # More than there are threads: these wait for one, and not for the lock after that.
            *[callers.submit(service.request, "POST", "/stores", body_of(name=f"n{n}")) for n in range(6)],
        ]
        looks = 0
        while not all(one.done() for one in asked):
            began = time.monotonic()
            assert service.search()["stores_searched"] == ["new"]
            assert service.request("GET", "/health").json()["ok"] is True
            assert time.monotonic() - began < 2, "a search or /health waited for the lock"
            looks += 1
            time.sleep(0.05)
        assert time.monotonic() - started < 5.5
        assert looks > 20
        said = [problem(one.result(), 503)["detail"].partition(":")[0] for one in asked]
        assert sorted(said) == ["not saved"] * 2 + ["too many requests are waiting already; ask again in a moment"] * 6
        holder.stdin.close()
    assert service.request("POST", "/stores", body_of(name="second")).status_code == 201


def test_adds_from_many_callers_at_once_are_all_there_and_one_wins_a_name(local: Start) -> None:
    service = local()
    with ThreadPoolExecutor(20) as callers:
        names = [f"n{number}" for number in range(20)]
        answers = list(callers.map(lambda name: service.request("POST", "/stores", body_of(name=name)), names))
        assert [answer.status_code for answer in answers] == [201] * 20
        same = list(callers.map(lambda number: service.request("POST", "/stores", body_of(weight=number)), range(20)))
    assert sorted(answer.status_code for answer in same) == [201] + [409] * 19
    winner = next(answer.json()["weight"] for answer in same if answer.status_code == 201)
    assert service.roster()["new"]["weight"] == winner
    assert sorted(service.roster()) == sorted([*names, "new"]) and len(service.entries()) == 21
