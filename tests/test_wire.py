"""Promises of the wire: strict JSON out, strict JSON in, times in UTC, the callosums that a request has passed."""

import math
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from seren_corpus_callosum import Hit, Packet, wire
from seren_corpus_callosum.errors import BadRequest, Invalid, MethodNotAllowed, NotSaved, Unauthorized
from seren_corpus_callosum.hits import Asked, Failure, RankedHit, Skipped, Warned
from tests.support.checks import strict_json


def packet(*hits: RankedHit, skipped: tuple[Skipped, ...] = ()) -> Packet:
    asked = (Asked("s", 1.0, 8.149, 20, 1),)
    return Packet("q", hits, ("s",), skipped, (Warned("s", "odd"),), 60, asked, 12.449)


def test_a_packet_has_the_documented_shape() -> None:
    hit = Hit("1", "text", 0.84, 1.0, None, {"a": [1, None]})
    assert strict_json(wire.encode(wire.packet_body(packet(RankedHit("s", 1, 1 / 61, hit))))) == {
        "query": "q",
        "hits": [{"store": "s", "id": "1", "content": "text", "score": 0.01639344262295082, "store_rank": 1,
                  "base_relevance": 0.84, "native_score": 1.0, "raw_distance": None, "metadata": {"a": [1, None]}}],
        "stores_searched": ["s"],
        "skipped": [],
        "warnings": [{"name": "s", "reason": "odd"}],
        "k": 60,
        "stores": [{"name": "s", "weight": 1.0, "ms": 8.1, "returned": 20, "floored": 1}],
        "took_ms": 12.4,
    }  # fmt: skip


def test_only_a_suspended_store_says_when_it_is_tried_again_in_utc() -> None:
    elsewhere = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=timezone(timedelta(hours=2)))
    skipped = (Skipped("a", Failure("timeout", "r")), Skipped("b", Failure("suspended", "r", elsewhere)))
    assert wire.packet_body(packet(skipped=skipped))["skipped"] == [
        {"name": "a", "kind": "timeout", "reason": "r"},
        {"name": "b", "kind": "suspended", "reason": "r", "retry_at": "2026-01-02T01:04:05.678Z"},
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"é": "🙂"}, '{"é":"🙂"}'), ({"n": 9007199254740993}, '{"n":9007199254740993}'), ({"f": 1e308},
         '{"f":1e+308}'),
        ({"x": math.nan}, '{"x":null}'), ({"x": [math.inf, -math.inf, 1.5]}, '{"x":[null,null,1.5]}'),
        ({"x": {1: "a", None: True}}, '{"x":{"1":"a","null":true}}'), ({"x": {"b"}}, '{"x":["b"]}'),
        ({"x": datetime(2026, 1, 2)}, '{"x":"2026-01-02 00:00:00"}'), ({"x": "a\ud800b"}, '{"x":"a?b"}'),
        ({"x": "\x00\x1b\u2028"}, '{"x":"\\u0000\\u001b\u2028"}'),
    ],
    ids=range(10),
)  # fmt: skip
def test_whatever_goes_out_is_strict_json_in_utf_8(value: Any, text: str) -> None:
    data = wire.encode(value)
    assert data.decode() == text
    strict_json(data)


@pytest.mark.parametrize(
    "text", ["NaN", "Infinity", "-Infinity", '{"a":NaN}', "", "{", "{}}", "[1,]", "'a'", "\x00", "01"]
)
def test_whatever_is_no_strict_json_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="the body is not JSON"):
        wire.decode(text.encode())


@pytest.mark.parametrize("body", [[], None, "x", 5, True, 1.5])
def test_a_request_is_an_object(body: Any) -> None:
    with pytest.raises(Invalid) as caught:
        wire.search_request(body)
    assert set(caught.value.errors) == {"body"}


def test_a_request_of_a_search_becomes_its_arguments() -> None:
    assert wire.search_request({"query": "x", "other": 1}) == {"query": "x", "n_results": None, "timeout_s": None}
    given = {"query": "x", "n_results": 5, "timeout_s": 2}
    assert wire.search_request(given) == {"query": "x", "n_results": 5, "timeout_s": 2.0}


@pytest.mark.parametrize(
    ("via", "passed"),
    [
        ("", ()), ("1.1 callosum-a", ("1.1 callosum-a",)), ("1.1 callosum-a, 1.1 callosum-b", ("1.1 callosum-a",
         "1.1 callosum-b")), (" 1.1   callosum-a ,,", ("1.1 callosum-a",)), ("1.1 nginx, 1.1 callosum-a",
         ("1.1 callosum-a",)), ("1.0 callosum-a", ()), ("callosum-a", ()), ("1.1 callosum-", ()),
        ("1.1 callosum-a (comment)", ()), ("1.1 callosum-é", ()), ("1.1 callosum-" + "x" * 65, ()),
        (", ".join(f"1.1 callosum-{n}" for n in range(1000)), tuple(f"1.1 callosum-{n}" for n in range(16))),
    ],
    ids=range(12),
)  # fmt: skip
def test_the_callosums_that_a_request_has_passed_are_read_from_via(via: str, passed: tuple[str, ...]) -> None:
    assert wire.hops(via) == passed


@pytest.mark.parametrize(
    ("problem", "status", "title", "headers"),
    [
        (BadRequest("no"), 400, "Bad Request", {}),
        (Unauthorized("no"), 401, "Unauthorized", {"WWW-Authenticate": "Bearer"}),
        (MethodNotAllowed("no", ["GET", "HEAD"]), 405, "Method Not Allowed", {"Allow": "GET, HEAD"}),
        (NotSaved("no"), 503, "Service Unavailable", {"Retry-After": "5"}),
    ],
)
def test_a_problem_is_rfc_9457(problem: Any, status: int, title: str, headers: dict[str, str]) -> None:
    assert wire.problem_body(problem) == {"type": "about:blank", "title": title, "status": status, "detail": "no"}
    assert problem.headers == headers


def test_a_problem_of_validation_names_each_field() -> None:
    body = wire.problem_body(Invalid("faults", errors={"a": ["x", "y"]}))
    assert (body["status"], body["errors"]) == (422, {"a": ["x", "y"]})
