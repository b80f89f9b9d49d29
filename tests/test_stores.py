"""Promises of the adapters: what each protocol is asked, what becomes of its hits, and what no reply can do.

Every reply goes the whole way, from bytes to the body of POST /search.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import responses

from seren_corpus_callosum import Adapter, Callosum, Hit, Option, StoreError, register_adapter, wire
from seren_corpus_callosum.binding import Unbound, bind_all
from seren_corpus_callosum.config import Config
from seren_corpus_callosum.kinds import Flag
from seren_corpus_callosum.stores import Mapped, SerenLoci, Store, adapter_for, adapter_types
from tests.support.checks import strict_json

URL = "http://store.test/search"
GOOD_LOCI = '{"id":"good","key":"k","value":"v","score":0.5}'
GOOD_MEMORY = '{"id":"good","content":"c","raw_distance":1.0,"score":0.4}'
AROUND = {"seren_loci": '"finder":"lexical"', "seren_memory": '"searched_tiers":[]', "callosum": '"stores_searched":[]'}


class Asked:
    """One search over one mocked store: the body that it was sent, and the answer as it goes over the wire."""

    def __init__(self, type: str, reply: bytes, n_results: int, entry: Mapping[str, Any], **answer: Any) -> None:
        bound = bind_all([{"name": "s", "type": type, "url": "http://store.test", **entry}], {}, managed=False)
        config = Config(stores=tuple(bound), overlay=Path("none") / "runtime-stores.json", instance_id="t")
        with responses.RequestsMock() as mock, Callosum(config, environ={}) as callosum:
            mock.post(answer.pop("at", URL), body=reply, **answer)
            packet = callosum.search("what", n_results)
            self.sent = json.loads(mock.calls[0].request.body or b"")
        self.answer: dict[str, Any] = strict_json(wire.encode(wire.packet_body(packet)))

    @property
    def hits(self) -> list[dict[str, Any]]:
        return list(self.answer["hits"])

    @property
    def skipped(self) -> list[tuple[str, str]]:
        return [(entry["kind"], entry["reason"]) for entry in self.answer["skipped"]]

    @property
    def warnings(self) -> list[str]:
        return [entry["reason"] for entry in self.answer["warnings"]]


def ask(type: str, reply: Any, n_results: int = 10, entry: Mapping[str, Any] | None = None, **answer: Any) -> Asked:
    if isinstance(reply, str):
        reply = reply.encode()
    elif not isinstance(reply, bytes):
        reply = json.dumps(reply).encode()
    return Asked(type, reply, n_results, entry or {}, **answer)


def replied(type: str, *hits: str) -> str:
    """A reply of this type around hits that are given as JSON."""
    return f'{{{AROUND[type]}, "hits": [{", ".join(hits)}]}}'


# What each protocol is asked


def test_seren_loci_is_asked_in_every_scope_without_superseded_facts() -> None:
    assert ask("seren_loci", replied("seren_loci")).sent == {
        "query": "what", "project": None, "n_results": 20, "include_fundamentals": True, "include_superseded": False,
    }  # fmt: skip


def test_seren_memory_is_asked_in_every_tier() -> None:
    assert ask("seren_memory", replied("seren_memory")).sent == {
        "query": "what", "n_results": 20, "include_short": True, "include_near": True, "include_long": True,
        "include_superseded": False,
    }  # fmt: skip


def test_another_callosum_is_sent_a_little_less_than_the_time_left() -> None:
    sent = ask("callosum", replied("callosum"), entry={"timeout_s": 2.0}).sent
    assert {key: sent[key] for key in ("query", "n_results")} == {"query": "what", "n_results": 20}
    assert 1.0 < sent["timeout_s"] <= 1.8


@pytest.mark.parametrize(
    ("type", "n_results", "asked"),
    [
        ("seren_loci", 1, 2), ("seren_loci", 200, 400),
        ("seren_memory", 1, 2), ("seren_memory", 25, 50), ("seren_memory", 26, 50), ("seren_memory", 200, 50),
        ("callosum", 100, 200), ("callosum", 101, 200), ("callosum", 200, 200),
    ],
)  # fmt: skip
def test_no_store_is_asked_for_more_than_it_allows(type: str, n_results: int, asked: int) -> None:
    assert ask(type, replied(type), n_results).sent["n_results"] == asked


LOCI_OPTIONS = {"project": "boat", "include_fundamentals": False, "include_superseded": True}
MEMORY_OPTIONS = {"include_short": False, "include_near": False, "include_long": False, "include_superseded": True}


@pytest.mark.parametrize(("type", "options"), [("seren_loci", LOCI_OPTIONS), ("seren_memory", MEMORY_OPTIONS)])
@pytest.mark.parametrize("nested", [True, False], ids=["under options", "on the entry"])
def test_adapter_options_stand_under_options_or_on_the_entry(type: str, options: dict[str, Any], nested: bool) -> None:
    sent = ask(type, replied(type), entry={"options": options} if nested else options).sent
    assert {key: sent[key] for key in options} == options


def test_a_null_option_is_its_default() -> None:
    entry = {"options": {"project": None, "include_fundamentals": None}}
    sent = ask("seren_loci", replied("seren_loci"), entry=entry).sent
    assert (sent["project"], sent["include_fundamentals"]) == (None, True)


def test_the_search_path_may_be_another() -> None:
    asked = ask("seren_loci", replied("seren_loci", GOOD_LOCI), entry={"search_path": "/v2/find"},
                at="http://store.test/v2/find")  # fmt: skip
    assert [hit["id"] for hit in asked.hits] == ["good"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"include_short": "false"}, "options.include_short: expected true or false, found text 'false'"),
        ({"include_short": 1}, "options.include_short: expected true or false, found the number 1"),
        ({"search_path": "search"}, "options.search_path: expected a path that starts with /, found text 'search'"),
        ({"search_path": "/a b"}, "options.search_path: expected a path that starts with /, found text '/a b'"),
        (["include_short"], "options: expected a mapping of adapter options, found a list"),
        ("include_short", "options: expected a mapping of adapter options, found text 'include_short'"),
    ],
)
def test_an_option_of_a_wrong_type_makes_the_entry_unusable(options: Any, reason: str) -> None:
    entry = {"name": "s", "type": "seren_memory", "url": "http://store.test", "options": options}
    (bound,) = bind_all([entry], {}, managed=False)
    assert isinstance(bound, Unbound)
    assert bound.reason == reason


def test_an_unknown_option_is_a_warning_with_the_nearest_known() -> None:
    entry = {"name": "s", "type": "seren_memory", "url": "http://store.test", "options": {"include_shrt": True}}
    (bound,) = bind_all([entry], {}, managed=False)
    assert isinstance(bound, Store)
    assert bound.warnings == ("options.include_shrt: unknown option; did you mean include_short?",)


# What becomes of a hit


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        ({"key": "hull", "value": "larch", "why": "built so"}, "hull = larch because built so"),
        ({"key": "hull", "value": "larch", "why": None}, "hull = larch"),
        ({"key": "hull", "value": "larch", "why": ""}, "hull = larch"),
        ({"key": "hull", "value": "larch"}, "hull = larch"),
        ({"value": "larch"}, "larch"),
        ({"key": None, "value": "larch", "why": "built so"}, "larch because built so"),
        ({"key": "", "value": "larch"}, "larch"),
        ({"key": "hull"}, "hull"),
        ({"key": "count", "value": 0}, "count = 0"),
        ({"key": "wet", "value": False}, "wet = false"),
        ({"value": 0, "why": 0}, "0 because 0"),
        ({"key": 7, "value": 9007199254740993}, "7 = 9007199254740993"),
        ({"key": "k", "value": 1.5}, "k = 1.5"),
        ({"key": "k", "value": ["a", "é"]}, 'k = ["a","é"]'),
        ({"key": "k", "value": {"a": None}}, 'k = {"a":null}'),
        ({"why": "only so"}, "only so"),
        ({}, ""),
    ],
)
def test_a_fact_reads_as_one_sentence_without_what_is_missing(parts: dict[str, Any], content: str) -> None:
    asked = ask("seren_loci", {"finder": "lexical", "hits": [{"id": "1", "score": 1.0, **parts}]})
    assert [hit["content"] for hit in asked.hits] == [content]


def test_a_fact_keeps_everything_else_that_it_carries() -> None:
    raw = {
        "id": 12, "project": "boat", "key": "hull", "value": "larch", "why": None, "score": 0.75,
        "match_kind": "hybrid", "source": "user", "raw_distance": 0.25, "live": True, "superseded_at": None,
        "why_changed": None, "figures": 0, "recheck": ["x"], "of a later version": {"a": 1},
    }  # fmt: skip
    (hit,) = ask("seren_loci", {"finder": "hybrid", "hits": [raw]}).hits
    assert hit == {
        "store": "s", "id": "12", "content": "hull = larch", "score": 0.01639344262295082, "store_rank": 1,
        "base_relevance": 0.75, "native_score": 0.75, "raw_distance": 0.25,
        "metadata": {
            "project": "boat", "key": "hull", "value": "larch", "why": None, "match_kind": "hybrid", "source": "user",
            "live": True, "superseded_at": None, "why_changed": None, "figures": 0, "recheck": ["x"],
            "of a later version": {"a": 1},
        },
    }  # fmt: skip


def test_an_episode_has_its_relevance_from_its_distance_and_its_tier_in_the_metadata() -> None:
    raw = {
        "tier": "near", "content": "Launched.", "topic": "boat, launch", "score": 0.9, "raw_distance": 0.25,
        "id": "m1", "metadata": {"place": "harbour", "at": 1718000000}, "surroundings": {"satellites": 2},
        "matched_via": None,
    }  # fmt: skip
    (hit,) = ask("seren_memory", {"searched_tiers": ["near"], "hits": [raw]}).hits
    assert hit == {
        "store": "s", "id": "m1", "content": "Launched.", "score": 0.01639344262295082, "store_rank": 1,
        "base_relevance": 0.8, "native_score": 0.9, "raw_distance": 0.25,
        "metadata": {"place": "harbour", "at": 1718000000, "tier": "near", "topic": "boat, launch",
                     "surroundings": {"satellites": 2}},
    }  # fmt: skip


def test_the_order_of_a_store_stays_where_it_differs_from_the_distances() -> None:
    hits = [{"id": "far", "raw_distance": 2.0}, {"id": "near", "raw_distance": 0.1}, {"id": "none"}]
    asked = ask("seren_memory", {"searched_tiers": [], "hits": hits})
    assert [hit["id"] for hit in asked.hits] == ["far", "near", "none"]


@pytest.mark.parametrize(
    ("distance", "relevance"),
    [("0", 1.0), ("0.0", 1.0), ("1", 0.5), ("3", 0.25), ("1e308", 1e-308), ("-0.5", None), ("-1", None),
     ("null", None), ('"0.5"', None), ("true", None), ("[]", None), ("NaN", None), ("Infinity", None),
     ("-Infinity", None), ("1e999", None), ("1" + "0" * 400, None)],
)  # fmt: skip
def test_the_relevance_of_an_episode_is_1_over_1_plus_its_distance(distance: str, relevance: float | None) -> None:
    (hit,) = ask("seren_memory", replied("seren_memory", f'{{"id":"1","raw_distance":{distance}}}')).hits
    assert hit["base_relevance"] == (None if relevance is None else pytest.approx(relevance))


@pytest.mark.parametrize(
    ("score", "relevance", "native"),
    [("1", 1.0, 1.0), ("0", 0.0, 0.0), ("0.3", 0.3, 0.3), ("1.0001", None, 1.0001), ("-0.1", None, -0.1),
     ("7", None, 7.0), ("null", None, None), ('"0.9"', None, None), ("true", None, None), ("{}", None, None),
     ("NaN", None, None), ("1e999", None, None), ("-Infinity", None, None)],
)  # fmt: skip
def test_a_score_outside_0_to_1_says_nothing_about_relevance(
    score: str, relevance: float | None, native: float | None
) -> None:
    (hit,) = ask("seren_loci", replied("seren_loci", f'{{"id":"1","value":"v","score":{score}}}')).hits
    assert (hit["base_relevance"], hit["native_score"]) == (relevance, native)


def test_a_floor_keeps_what_it_cannot_judge_and_counts_what_it_drops() -> None:
    hits = [{"id": "84", "score": 0.84}, {"id": "29", "score": 0.29}, {"id": "text", "score": "0.1"},
            {"id": "30", "score": 0.30}, {"id": "7", "score": 7}]  # fmt: skip
    asked = ask("seren_loci", {"finder": "lexical", "hits": hits}, entry={"floor": 0.3})
    assert [(hit["id"], hit["store_rank"]) for hit in asked.hits] == [("84", 1), ("text", 2), ("30", 3), ("7", 4)]
    (row,) = asked.answer["stores"]
    assert (row["returned"], row["floored"]) == (5, 1)


def test_a_store_whose_hits_all_fall_below_the_floor_has_answered() -> None:
    asked = ask("seren_loci", {"finder": "lexical", "hits": [{"id": "1", "score": 0.1}]}, entry={"floor": 1.0})
    assert (asked.hits, asked.answer["stores_searched"], asked.skipped) == ([], ["s"], [])


@pytest.mark.parametrize("type", ["seren_loci", "seren_memory", "callosum"])
@pytest.mark.parametrize(
    ("sent", "id"),
    [("9007199254740993", "9007199254740993"), ("215250709085334181", "215250709085334181"), ("0", "0"),
     ("-1", "-1"), ("1.0", "1.0"), ("true", "true"), ("false", "false"), ('{"a":1}', '{"a":1}'), ("null", ""),
     ('""', ""), ('"007"', "007"), ('"日本"', "日本"), ("1" * 300, "1" * 300), ("1" * 5000, "1" * 5000), ("NaN", "")],
)  # fmt: skip
def test_an_id_is_text_with_its_exact_digits(type: str, sent: str, id: str) -> None:
    assert [hit["id"] for hit in ask(type, replied(type, f'{{"id":{sent},"content":"c"}}')).hits] == [id]


@pytest.mark.parametrize("type", ["seren_memory", "callosum"])
@pytest.mark.parametrize(
    ("sent", "content"),
    [("null", ""), ("0", "0"), ("false", "false"), ('""', ""), ('["a"]', '["a"]'), ('"a\\u0000b"', "a\x00b")],
)
def test_content_is_text_and_zero_is_not_lost(type: str, sent: str, content: str) -> None:
    assert [hit["content"] for hit in ask(type, replied(type, f'{{"id":"1","content":{sent}}}')).hits] == [content]


def test_hits_without_an_id_are_all_kept_and_repeated_ids_once() -> None:
    hits = [{"id": None, "content": "1"}, {"content": "2"}, {"id": "", "content": "3"}, {"id": "a", "content": "4"},
            {"id": "a", "content": "5"}, {"id": 7, "content": "6"}, {"id": "7", "content": "7"}]  # fmt: skip
    asked = ask("seren_memory", {"searched_tiers": [], "hits": hits})
    assert [hit["content"] for hit in asked.hits] == ["1", "2", "3", "4", "6"]
    assert [hit["store_rank"] for hit in asked.hits] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("metadata", ["null", "[1]", '"text"', "0", "true"])
def test_metadata_that_is_no_object_is_an_empty_one(metadata: str) -> None:
    asked = ask("seren_memory", replied("seren_memory", f'{{"id":"1","content":"c","metadata":{metadata}}}'))
    assert [hit["metadata"] for hit in asked.hits] == [{}]


def test_metadata_passes_through_unchanged() -> None:
    metadata = {
        "epoch": 1718000000, "iso": "2024-06-10T08:00:00Z", "dateless": "yesterday", "big": 9007199254740993,
        "none": None, "": "", "日本": "é🙂", "id": "inner", "content": "inner", "list": [1, [2, [3]], {"a": []}],
    }  # fmt: skip
    asked = ask("seren_memory", {"searched_tiers": [], "hits": [{"id": "1", "metadata": metadata}]})
    assert [hit["metadata"] for hit in asked.hits] == [metadata]


def test_ten_thousand_keys_of_metadata_come_through() -> None:
    metadata = {f"key {number}": number for number in range(10_000)}
    asked = ask("seren_memory", {"searched_tiers": [], "hits": [{"id": "1", "metadata": metadata}]})
    assert [hit["metadata"] for hit in asked.hits] == [metadata]


# One odd hit never costs the others

DEEP_50 = "[" * 50 + "]" * 50
DEEP_300 = "[" * 300 + "]" * 300
ODD_LOCI = [
    "null", "7", '"text"', "[]", "true", "{}", '{"id":null,"key":null,"value":null,"score":null}',
    '{"score":NaN,"raw_distance":Infinity,"x":-Infinity,"y":1e999}', f'{{"id":{"9" * 5000}}}',
    f'{{"score":{"9" * 400}}}', f'{{"value":{DEEP_300}}}', f'{{"id":{DEEP_300}}}', f'{{"other":{DEEP_300}}}',
    '{"id":"\\ud800","value":"\\udfff","\\ud83d":"\\ud83d"}', '{"id":"a","id":"b"}',
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD_LOCI, ids=range(len(ODD_LOCI)))
def test_one_odd_fact_never_costs_the_others(odd: str) -> None:
    asked = ask("seren_loci", replied("seren_loci", GOOD_LOCI, odd, GOOD_LOCI.replace("good", "last")))
    ids = [hit["id"] for hit in asked.hits]
    assert (ids[0], ids[-1]) == ("good", "last")
    assert asked.answer["stores_searched"] == ["s"]


ODD_MEMORIES = [
    "null", "0", '"x"', "[[]]", "{}", '{"metadata":[]}', f'{{"metadata":{{"a":{DEEP_300}}}}}',
    '{"metadata":{"x":NaN,"y":1e999,"z":-Infinity}}', f'{{"metadata":{{"n":{"7" * 9000}}}}}',
    '{"topic":["a"],"tier":5,"surroundings":"s","matched_via":[]}', '{"content":"\\ud83d"}',
]  # fmt: skip


@pytest.mark.parametrize("type", ["seren_memory", "callosum"])
@pytest.mark.parametrize("odd", ODD_MEMORIES, ids=range(len(ODD_MEMORIES)))
def test_one_odd_memory_never_costs_the_others(type: str, odd: str) -> None:
    asked = ask(type, replied(type, GOOD_MEMORY, odd, GOOD_MEMORY.replace("good", "last")))
    ids = [hit["id"] for hit in asked.hits]
    assert (ids[0], ids[-1]) == ("good", "last")


def test_hits_that_cannot_be_read_are_counted_in_a_warning() -> None:
    asked = ask("seren_loci", replied("seren_loci", "null", GOOD_LOCI, '"x"'))
    assert asked.warnings == ["2 of its hits could not be read and were left out"]


def test_metadata_nested_50_deep_is_kept() -> None:
    asked = ask("seren_memory", replied("seren_memory", f'{{"id":"1","metadata":{{"a":{DEEP_50}}}}}'))
    assert json.dumps(asked.hits[0]["metadata"]["a"]) == DEEP_50
    assert asked.warnings == []


@pytest.mark.parametrize("depth", [101, 300, 600, 900])
@pytest.mark.parametrize("type", ["seren_loci", "seren_memory", "callosum"])
def test_metadata_nested_too_deep_to_send_is_left_out_with_a_warning(type: str, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    odd = f'{{"id":"1","value":"v","content":"v","metadata":{{"a":{deep}}}}}'
    asked = ask(type, replied(type, odd, GOOD_MEMORY))
    assert (asked.hits[0]["id"], asked.hits[0]["metadata"]) == ("1", {})
    assert len(asked.hits) == 2
    assert asked.warnings == ["the metadata of 1 of its hits is nested too deep and was left out"]


def test_a_reply_nested_5000_deep_is_a_bad_reply() -> None:
    asked = ask("seren_loci", replied("seren_loci", GOOD_LOCI, f'{{"x":{"[" * 5000 + "]" * 5000}}}'))
    assert asked.skipped == [("bad_reply", "the answer is nested too deep")]


def test_numbers_that_are_not_finite_go_out_as_null_and_keep_their_place() -> None:
    odd = '{"id":"1","score":NaN,"raw_distance":Infinity,"x":NaN,"y":1e999}'
    first, second = ask("seren_loci", replied("seren_loci", odd, GOOD_LOCI)).hits
    assert (first["id"], first["native_score"], first["raw_distance"]) == ("1", None, None)
    assert first["metadata"] == {"x": None, "y": None}
    assert second["id"] == "good"


# What is no answer

NOT_AN_ANSWER = [
    ({"error": "x"}, "the answer holds an error; is this the right type of store?"),
    ({"results": [{"id": 1, "memory": "other vendor"}]},
     "the answer holds no `hits` list; is this the right type of store?"),
    ({}, "the answer holds no `hits` list; is this the right type of store?"),
    ({"hits": None}, "the answer holds no `hits` list; is this the right type of store?"),
    ({"hits": {}}, "the answer holds no `hits` list; is this the right type of store?"),
    ({"hits": "none"}, "the answer holds no `hits` list; is this the right type of store?"),
    ({"hits": [], "error": "database locked"}, "the store reports an error beside an empty list of hits"),
    ({"hits": [], "error": {"code": 5}}, "the store reports an error beside an empty list of hits"),
    ({"hits": [], "error": True}, "the store reports an error beside an empty list of hits"),
    ([], "the answer is JSON but not an object; is this the right type of store?"),
    ([{"id": 1}], "the answer is JSON but not an object; is this the right type of store?"),
    ("null", "the answer is JSON but not an object; is this the right type of store?"),
    ('"hits"', "the answer is JSON but not an object; is this the right type of store?"),
    ("42", "the answer is JSON but not an object; is this the right type of store?"),
    ("", "the answer is not JSON in UTF-8, it is empty"),
    ("  \n", "the answer is not JSON in UTF-8, it is empty"),
    ("<!doctype html><p>hits</p>", "the answer is not JSON in UTF-8, it looks like HTML"),
    ("\n <html>", "the answer is not JSON in UTF-8, it looks like HTML"),
    ("hits: []", "the answer is not JSON in UTF-8, it looks like something else"),
    ('{"hits": []', "the answer is not JSON in UTF-8, it looks like something else"),
    ('{"hits": []} trailing', "the answer is not JSON in UTF-8, it looks like something else"),
    ('{"hits": [{"id": "é"}]}'.encode("latin-1"), "the answer is not JSON in UTF-8, it looks like something else"),
    ('{"hits": []}'.encode("utf-16"), "the answer is not JSON in UTF-8, it looks like something else"),
]  # fmt: skip


@pytest.mark.parametrize("type", ["seren_loci", "seren_memory", "callosum"])
@pytest.mark.parametrize(("reply", "reason"), NOT_AN_ANSWER, ids=range(len(NOT_AN_ANSWER)))
def test_a_reply_that_is_not_what_the_protocol_says_is_a_bad_reply(type: str, reply: Any, reason: str) -> None:
    asked = ask(type, reply)
    assert asked.skipped == [("bad_reply", reason)]
    assert (asked.hits, asked.answer["stores_searched"]) == ([], [])


@pytest.mark.parametrize("error", ["null", '""', "false"])
def test_an_error_field_that_says_nothing_is_no_error(error: str) -> None:
    asked = ask("seren_loci", f'{{"finder":"lexical","hits":[],"error":{error}}}')
    assert (asked.answer["stores_searched"], asked.skipped) == (["s"], [])


def test_an_error_beside_hits_is_a_warning() -> None:
    asked = ask("seren_loci", f'{{"finder":"lexical","hits":[{GOOD_LOCI}],"error":"one shard is down <b>"}}')
    assert [hit["id"] for hit in asked.hits] == ["good"]
    assert asked.warnings == ["it reports an error beside its hits"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(201, "bad_reply"), (202, "bad_reply"), (204, "bad_reply"), (206, "bad_reply"), (301, "redirect"),
     (302, "redirect"), (304, "redirect"), (307, "redirect"), (400, "http_error"), (401, "http_error"),
     (404, "http_error"), (422, "http_error"), (429, "http_error"), (500, "http_error"), (503, "http_error")],
)  # fmt: skip
def test_every_status_but_200_is_no_answer_whatever_its_body_says(status: int, kind: str) -> None:
    asked = ask("seren_loci", replied("seren_loci", GOOD_LOCI), status=status)
    assert [(told, reason.split(":")[0].split(" where")[0]) for told, reason in asked.skipped] == [
        (kind, f"HTTP {status}")
    ]
    assert asked.hits == []


@pytest.mark.parametrize(
    "content_type",
    ["application/json; charset=ISO-8859-1", "text/plain", "text/html", "application/json; charset=bogus",
     "application/octet-stream", "", "application/json;;;"],
)  # fmt: skip
def test_text_is_utf_8_whatever_the_header_says(content_type: str) -> None:
    reply = '{"searched_tiers":[],"hits":[{"id":"1","content":"é🙂"}]}'.encode()
    assert [hit["content"] for hit in ask("seren_memory", reply, content_type=content_type).hits] == ["é🙂"]


def test_a_byte_order_mark_before_the_json_is_no_fault() -> None:
    reply = b"\xef\xbb\xbf" + replied("seren_loci", GOOD_LOCI).encode()
    assert [hit["id"] for hit in ask("seren_loci", reply).hits] == ["good"]


def test_more_hits_than_asked_for_are_cut() -> None:
    hits = [{"id": str(number), "score": 0.5} for number in range(1000)]
    asked = ask("seren_loci", {"finder": "lexical", "hits": hits}, 3)
    assert [hit["id"] for hit in asked.hits] == ["0", "1", "2"]
    assert asked.answer["stores"][0]["returned"] == 6


@pytest.mark.parametrize("type", ["seren_loci", "seren_memory", "callosum"])
@pytest.mark.parametrize("speaker", ["seren_loci", "seren_memory", "callosum"])
def test_a_reply_of_another_type_of_store_says_which_type_to_set(type: str, speaker: str) -> None:
    blank = "1 of its hits could not be read and were left out"
    expected = [] if type == speaker else [blank, f"its answer looks like that of a {speaker}: set its type"]
    asked = ask(type, replied(speaker, '{"id":"1"}'))
    assert (asked.warnings, len(asked.hits)) == (expected, type == speaker)


def test_what_can_be_read_of_a_reply_of_another_type_is_kept() -> None:
    asked = ask("seren_memory", replied("callosum", '{"id":"1","content":""}', '{"id":"2","content":"larch"}'))
    assert [(hit["id"], hit["content"], hit["store_rank"]) for hit in asked.hits] == [("2", "larch", 1)]


# Another callosum


def test_a_hit_of_another_callosum_keeps_its_numbers_and_tells_the_way_it_came() -> None:
    raw = {
        "store": "facts", "id": "7", "content": "c", "score": 0.016, "store_rank": 2, "base_relevance": 0.5,
        "native_score": 3.5, "raw_distance": 1.25, "metadata": {"a": 1},
    }  # fmt: skip
    (hit,) = ask("callosum", {"stores_searched": ["facts"], "hits": [raw]}).hits
    assert hit == {
        "store": "s", "id": "7", "content": "c", "score": 0.01639344262295082, "store_rank": 1,
        "base_relevance": 0.5, "native_score": 3.5, "raw_distance": 1.25,
        "metadata": {"a": 1, "via": [{"store": "facts", "store_rank": 2, "score": 0.016}]},
    }  # fmt: skip


def test_the_way_through_several_callosums_is_told_outermost_first() -> None:
    inner = {"store": "deep", "store_rank": 1, "score": 0.5}
    raw = {"store": "middle", "id": "7", "content": "c", "score": 0.25, "store_rank": 3, "metadata": {"via": [inner]}}
    (hit,) = ask("callosum", {"stores_searched": ["middle"], "hits": [raw]}).hits
    assert hit["metadata"]["via"] == [{"store": "middle", "store_rank": 3, "score": 0.25}, inner]


def test_the_same_id_in_two_stores_behind_one_callosum_is_two_hits() -> None:
    def hit(store: str, *via: str) -> dict[str, Any]:
        return {"store": store, "id": "7", "metadata": {"via": [{"store": name} for name in via]}}

    hits = [hit("facts"), hit("episodes"), hit("facts"), hit("inner", "facts"), hit("inner", "episodes"),
            hit("inner", "facts")]  # fmt: skip
    assert len(ask("callosum", {"stores_searched": ["facts"], "hits": hits}).hits) == 4


def test_a_callosum_whose_stores_are_all_dead_is_a_failure_of_that_store() -> None:
    reply = {"hits": [], "stores_searched": [], "skipped": [
        {"name": "facts", "kind": "timeout", "reason": "secret reason"},
        {"name": "epi\nsodes", "kind": "<b>", "reason": "r"}, {"kind": "unreachable"},
    ]}  # fmt: skip
    assert ask("callosum", reply).skipped == [
        ("unreachable", "none of its stores answered: 'facts' timeout; without a usable name unknown; "
                        "without a usable name unreachable"),
    ]  # fmt: skip


def test_a_callosum_that_was_passed_before_is_a_loop() -> None:
    reply = {"hits": [], "stores_searched": [], "skipped": [{"name": "a", "kind": "loop", "reason": "r"}]}
    assert ask("callosum", reply).skipped == [("loop", "the query came back to a callosum that it had passed")]


def test_a_callosum_without_stores_has_answered() -> None:
    asked = ask("callosum", {"hits": [], "stores_searched": [], "skipped": []})
    assert (asked.answer["stores_searched"], asked.skipped) == (["s"], [])


def test_a_callosum_that_skipped_some_of_its_stores_has_answered_with_warnings() -> None:
    reply = {"hits": [], "stores_searched": ["facts"], "skipped": [{"name": "old", "kind": "timeout", "reason": "r"}],
             "warnings": [{"name": "far", "reason": "<script>"}]}  # fmt: skip
    asked = ask("callosum", reply)
    assert asked.answer["stores_searched"] == ["s"]
    assert asked.warnings == ["its store 'old' did not answer: timeout", "its store 'far' gave a partial answer"]


def test_the_inner_stores_that_are_named_are_capped() -> None:
    skipped = [{"name": f"store {number}", "kind": "timeout", "reason": "r"} for number in range(1000)]
    warnings = ask("callosum", {"hits": [], "stores_searched": ["x"], "skipped": skipped}).warnings
    assert len(warnings) == 9
    assert warnings[-1] == "and 992 more of its stores"


@pytest.mark.parametrize("field", ["skipped", "stores_searched", "warnings"])
@pytest.mark.parametrize("value", ["null", "{}", '"x"', "7", "[null, 7]", "[[]]"])
def test_odd_lists_beside_the_hits_of_a_callosum_cost_nothing(field: str, value: str) -> None:
    reply = f'{{"hits":[{{"id":"1","store":"x"}}],"stores_searched":["x"],"{field}":{value}}}'
    assert [hit["id"] for hit in ask("callosum", reply).hits] == ["1"]


# Adapters of one's own


@pytest.fixture
def own_types(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Registrations of one test do not reach another."""
    from seren_corpus_callosum import stores

    monkeypatch.setattr(stores, "_registry", dict(stores._registry))
    yield


class Plain(Adapter):
    """A protocol that answers {"hits": [text, ...]} and wants a shouting query."""

    options: ClassVar[Mapping[str, Option]] = {"loud": Option(Flag(), True, "shout")}

    def body(self, query: str, n_results: int, options: Mapping[str, Any], time_left_s: float) -> Any:
        return {"q": query.upper() if options["loud"] else query, "top": n_results}

    def hit(self, raw: Mapping[str, Any]) -> Hit:
        return Hit(id=str(raw["key"]), content=raw["text"])


@pytest.mark.usefixtures("own_types")
def test_a_registered_adapter_speaks_to_the_stores_of_its_type() -> None:
    register_adapter("plain", Plain())
    assert "plain" in adapter_types()
    asked = ask("plain", {"hits": [{"key": 5, "text": "five"}, {"no": "key"}]}, entry={"loud": False})
    assert asked.sent == {"q": "what", "top": 20}
    assert [(hit["id"], hit["content"], hit["base_relevance"]) for hit in asked.hits] == [("5", "five", None)]
    assert asked.warnings == ["1 of its hits could not be read and were left out"]


@pytest.mark.usefixtures("own_types")
def test_a_type_of_ones_own_over_a_known_protocol_passes_its_check() -> None:
    register_adapter("my_loci", SerenLoci())
    stores = bind_all([{"name": "s", "type": "my_loci", "url": "http://store.test"}], {}, managed=False)
    config = Config(stores=tuple(stores), overlay=Path("none") / "o.json")
    with responses.RequestsMock() as mock, Callosum(config, environ={}) as callosum:
        mock.post(URL, body=replied("seren_loci", GOOD_LOCI))
        (check,) = callosum.check_all()
    assert (check.ok, check.reason) == (True, None)


@pytest.mark.parametrize("adapter", [Plain, None, "plain", lambda: None], ids=repr)
def test_only_an_instance_of_an_adapter_can_be_registered(adapter: Any) -> None:
    with pytest.raises(TypeError, match="an adapter is an instance of a subclass of"):
        register_adapter("plain", adapter)
    assert adapter_for("plain") is None


class FaultyHit(Plain):
    def hit(self, raw: Mapping[str, Any]) -> Hit:
        if raw["key"] == "odd":
            raise RuntimeError("SECRET")
        return super().hit(raw)


@pytest.mark.usefixtures("own_types")
def test_whatever_an_adapter_raises_over_one_hit_costs_that_hit_alone() -> None:
    register_adapter("plain", FaultyHit())
    asked = ask("plain", {"hits": [{"key": 1, "text": "a"}, {"key": "odd", "text": "b"}, {"key": 3, "text": "c"}]})
    assert [hit["id"] for hit in asked.hits] == ["1", "3"]
    assert asked.warnings == ["1 of its hits could not be read and were left out"]


AnyHit: Any = Hit
UNSOUND = [
    None, {"id": "1"}, AnyHit(id=5, content="c"), AnyHit(id="1", content=None),
    AnyHit("1", "c", base_relevance="high"), AnyHit("1", "c", native_score=float("nan")),
    AnyHit("1", "c", raw_distance=float("inf")), AnyHit("1", "c", metadata=None), AnyHit("1", "c", metadata=[1]),
    AnyHit("1", "c", base_relevance=7.0), AnyHit("1", "c", origin=["x"]), AnyHit("1", "c", origin=(["x"],)),
]  # fmt: skip


@pytest.mark.usefixtures("own_types")
@pytest.mark.parametrize("made", UNSOUND, ids=range(len(UNSOUND)))
def test_a_hit_that_an_adapter_made_wrong_costs_that_hit_alone(made: Any) -> None:
    class Unsound(Plain):
        def hit(self, raw: Mapping[str, Any]) -> Hit:
            return made if raw["key"] == "odd" else super().hit(raw)

    register_adapter("plain", Unsound())
    asked = ask("plain", {"hits": [{"key": "odd", "text": "b"}, {"key": 3, "text": "c"}]})
    assert [hit["id"] for hit in asked.hits] == ["3"]


@pytest.mark.usefixtures("own_types")
@pytest.mark.parametrize("made", UNSOUND, ids=range(len(UNSOUND)))
def test_a_hit_that_an_adapters_own_reading_made_wrong_costs_that_hit_alone(made: Any) -> None:
    class Reading(Plain):
        def read(self, reply: Any, limit: int | None = None) -> Mapped:
            return Mapped((made, Hit("3", "c")))

    register_adapter("plain", Reading())
    asked = ask("plain", {"hits": []})
    assert [hit["id"] for hit in asked.hits] == ["3"]
    assert asked.warnings == ["1 of its hits could not be read and were left out"]


@pytest.mark.usefixtures("own_types")
def test_metadata_that_json_cannot_hold_still_goes_out() -> None:
    class Rich(Plain):
        def hit(self, raw: Mapping[str, Any]) -> Hit:
            odd: Any = {"path": Path("a"), 5: (1, {2}), None: float("nan"), (1, 2): b"x", "flag": True, "n": 7}
            return Hit("1", "c", metadata=odd)

    register_adapter("plain", Rich())
    (hit,) = ask("plain", {"hits": [{}]}).hits
    assert hit["metadata"] == {"path": "a", "5": [1, [2]], "None": None, "(1, 2)": "b'x'", "flag": True, "n": 7}


@pytest.mark.usefixtures("own_types")
@pytest.mark.parametrize(
    ("method", "error", "skipped"),
    [
        ("body", KeyError("SECRET"), ("bad_reply", "the answer could not be read (KeyError)")),
        ("body", StoreError("timeout", "too late to ask"), ("timeout", "too late to ask")),
        ("read", RuntimeError("SECRET"), ("bad_reply", "the answer could not be read (RuntimeError)")),
        ("read", StoreError("bad_reply", "not its protocol"), ("bad_reply", "not its protocol")),
    ],
)
def test_an_adapter_that_raises_costs_its_own_store_only(
    method: str, error: Exception, skipped: tuple[str, str]
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    register_adapter("broken", type("Broken", (Plain,), {method: fail})())
    entries = [{"name": "b", "type": "broken", "url": "http://broken.test"},
               {"name": "s", "type": "seren_loci", "url": "http://store.test"}]  # fmt: skip
    config = Config(stores=tuple(bind_all(entries, {}, managed=False)), overlay=Path("none") / "o.json")
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock, Callosum(config, environ={}) as callosum:
        mock.post("http://broken.test/search", body='{"hits": []}')
        mock.post(URL, body=replied("seren_loci", GOOD_LOCI))
        packet = callosum.search("what")
    assert [(entry.failure.kind, entry.failure.reason) for entry in packet.skipped] == [skipped]
    assert [line.hit.id for line in packet.hits] == ["good"]


@pytest.mark.usefixtures("own_types")
@pytest.mark.parametrize("returned", [None, [], "hits", 7], ids=repr)
def test_an_adapter_that_returns_no_mapped_reply_costs_its_own_store_only(returned: Any) -> None:
    class Odd(Plain):
        def read(self, reply: Any, limit: int | None = None) -> Mapped:
            return returned  # type: ignore[no-any-return]

    register_adapter("odd", Odd())
    assert [kind for kind, _ in ask("odd", {"hits": []}).skipped] == ["bad_reply"]


def installed(folder: Path, name: str, target: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution that brings one entry point, as pip would leave it."""
    info = folder / "brought-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[seren_corpus_callosum.adapters]\n{name} = {target}\n")
    (folder / "brought_adapters.py").write_text(source)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(__import__("sys").modules, "brought_adapters", raising=False)


BROUGHT = """\
from seren_corpus_callosum import Adapter, Hit

class Brought(Adapter):
    def body(self, query, n_results, options, time_left_s):
        return {"q": query}

    def hit(self, raw):
        return Hit(id=raw["i"], content=raw["c"])

brought = Brought()
"""


@pytest.mark.usefixtures("own_types")
@pytest.mark.parametrize("target", ["brought_adapters:Brought", "brought_adapters:brought"])
def test_an_installed_distribution_can_bring_a_store_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    installed(tmp_path, "brought", target, BROUGHT, monkeypatch)
    assert "brought" in adapter_types()
    asked = ask("brought", {"hits": [{"i": "1", "c": "text"}]})
    assert asked.sent == {"q": "what"}
    assert [(hit["id"], hit["content"]) for hit in asked.hits] == [("1", "text")]


@pytest.mark.usefixtures("own_types")
@pytest.mark.parametrize(
    ("source", "raised"),
    [("raise RuntimeError('SECRET')", "RuntimeError"), ("import not_there", "ModuleNotFoundError"),
     ("brought = 5", "TypeError"), ("", "AttributeError")],
)  # fmt: skip
def test_a_broken_installed_adapter_costs_its_own_stores_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, raised: str
) -> None:
    installed(tmp_path, "brought", "brought_adapters:brought", source, monkeypatch)
    entries = [{"name": "b", "type": "brought", "url": "http://b.test"},
               {"name": "s", "type": "seren_loci", "url": "http://store.test"}]  # fmt: skip
    broken, good = bind_all(entries, {}, managed=False)
    assert isinstance(good, Store)
    assert isinstance(broken, Unbound)
    assert broken.reason == f"type: its adapter could not be loaded ({raised})"


def test_what_is_beyond_the_cut_is_not_even_mapped() -> None:
    mapped: list[str] = []

    class Counting(Adapter):
        def hit(self, raw: Mapping[str, Any]) -> Hit:
            mapped.append(raw["id"])
            return Hit(raw["id"], "")

    reply = {"hits": [{"id": str(number)} for number in range(1000)]}
    assert [hit.id for hit in Counting().read(reply, 3).hits] == ["0", "1", "2"]
    assert mapped == ["0", "1", "2"]
