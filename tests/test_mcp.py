"""The search tool as clients in the wild call it: raw requests to /mcp of an application in this process."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from flask import Flask
from werkzeug.test import TestResponse

from seren_corpus_callosum import Callosum
from seren_corpus_callosum.web import create_app
from tests.support.checks import problem, strict_json
from tests.support.goodstore import GoodStore, sample_hits

NEWEST_HANDSHAKE = "2025-11-25"
CLIENT = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class Tool:
    """One application and what a client says to its /mcp."""

    def __init__(self, app: Flask) -> None:
        self.client = app.test_client()

    def post(self, message: Any, path: str = "/mcp", **headers: str) -> TestResponse:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(path, data=data, content_type="application/json", headers=sent)

    def rpc(self, method: str, params: Any = None, **headers: str) -> dict[str, Any]:
        """The JSON-RPC answer to one request, which must be 200 and JSON."""
        message = {"jsonrpc": "2.0", "id": 7, "method": method} | ({} if params is None else {"params": params})
        response = self.post(message, **headers)
        assert (response.status_code, response.mimetype) == (200, "application/json"), response.data
        answer: dict[str, Any] = strict_json(response.data)
        assert (answer["jsonrpc"], answer["id"]) == ("2.0", 7)
        return answer

    def call(self, arguments: Any, **headers: str) -> dict[str, Any]:
        result: dict[str, Any] = self.rpc("tools/call", {"name": "search", "arguments": arguments}, **headers)["result"]
        assert [part["type"] for part in result["content"]] == ["text"]
        return result

    def hits(self, **arguments: Any) -> list[str]:
        result = self.call(arguments)
        assert not result["isError"], result
        return [hit["id"] for hit in result["structuredContent"]["hits"]]

    def output_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = self.rpc("tools/list")["result"]["tools"][0]["outputSchema"]
        return schema


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[Callable[..., Tool]]:
    """Makes applications over stores given as config entries."""
    with ExitStack() as stack:

        def make(*stores: dict[str, Any], server: dict[str, Any] | None = None, **federation: Any) -> Tool:
            config = {"server": server or {}, "federation": {**federation, "stores": list(stores)}}
            (tmp_path / "c.yaml").write_text(json.dumps(config), encoding="utf-8")
            return Tool(create_app(stack.enter_context(Callosum.from_config(tmp_path / "c.yaml"))))

        yield make


def entry(name: str, store: GoodStore, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": store.type, "url": store.url, **more}


@pytest.fixture
def facts(good_store: Callable[..., GoodStore]) -> GoodStore:
    return good_store("seren_loci", sample_hits("seren_loci", 20, "fact"))


@pytest.fixture
def one(tool: Callable[..., Tool], facts: GoodStore) -> Tool:
    """The tool over one healthy store."""
    return tool(entry("facts", facts))


# What clients send as Accept (B72)


@pytest.mark.parametrize(
    "accept",
    [
        None,
        "",
        "*/*",
        "application/*",
        "application/json",
        "application/json;q=0.9",
        "application/json, text/event-stream",
        "text/event-stream, application/json",
        "text/html, */*;q=0.1",
        "APPLICATION/JSON",
    ],
)
def test_any_accept_header_gets_json(one: Tool, accept: str | None) -> None:
    headers = {} if accept is None else {"Accept": accept}
    for method, params in [
        ("initialize", {"protocolVersion": "2025-06-18", **CLIENT}),
        ("tools/list", None),
        ("tools/call", {"name": "search", "arguments": {"query": "violet"}}),
    ]:
        assert "result" in one.rpc(method, params, **headers)


def test_a_client_that_takes_an_event_stream_only_is_told_that_there_is_none(one: Tool) -> None:
    response = one.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, Accept="text/event-stream")
    assert (response.status_code, response.mimetype) == (406, "application/json")
    assert "error" in strict_json(response.data)


# Versions (B76)


@pytest.mark.parametrize(
    ("asked", "negotiated"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("9999-01-01", NEWEST_HANDSHAKE),
        ("", NEWEST_HANDSHAKE),
        (123, NEWEST_HANDSHAKE),
        (None, NEWEST_HANDSHAKE),
        ("2026-07-28", NEWEST_HANDSHAKE),  # has no handshake
    ],
)
@pytest.mark.parametrize("header", [None, "2025-06-18", "1999-01-01", "2026-07-28", "nonsense"])
def test_initialize_negotiates_whatever_the_header_says(
    one: Tool, asked: Any, negotiated: str, header: str | None
) -> None:
    headers = {"MCP-Protocol-Version": header} if header else {}
    result = one.rpc("initialize", {"protocolVersion": asked, **CLIENT}, **headers)["result"]
    assert result["protocolVersion"] == negotiated
    assert result["serverInfo"]["name"] == "seren-corpus-callosum"
    assert "tools" in result["capabilities"]


@pytest.mark.parametrize(
    "params",
    [None, {}, CLIENT, {"protocolVersion": None, "capabilities": None, "clientInfo": None}],
    ids=["no params", "empty", "no version", "nulls"],
)
def test_initialize_without_a_version_gets_the_newest_handshake_version(one: Tool, params: Any) -> None:
    assert one.rpc("initialize", params)["result"]["protocolVersion"] == NEWEST_HANDSHAKE


@pytest.mark.parametrize("version", ["1999-01-01", "9999-01-01", "nonsense", "2025-06-18, 2025-06-18"])
def test_an_unsupported_version_header_after_initialize_is_400(one: Tool, version: str) -> None:
    response = one.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, MCP_Protocol_Version=version)
    assert response.status_code == 400
    assert "error" in strict_json(response.data)


@pytest.mark.parametrize("version", [None, "", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_supported_version_header_and_none_at_all_are_accepted(one: Tool, version: str | None) -> None:
    headers = {} if version is None else {"MCP-Protocol-Version": version}
    assert one.rpc("tools/list", **headers)["result"]["tools"][0]["name"] == "search"
    assert not one.call({"query": "violet"}, **headers)["isError"]


def test_the_protocol_without_a_handshake_works_by_its_own_envelope(one: Tool) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": CLIENT["clientInfo"],
    }
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "search"}
    params = {"name": "search", "arguments": {"query": "violet ♥"}, "_meta": meta}
    result = one.rpc("tools/call", params, **headers)["result"]
    assert result["structuredContent"]["query"] == "violet ♥"
    assert len(result["structuredContent"]["hits"]) == 10
    discovered = one.rpc("server/discover", {"_meta": meta}, **{**headers, "Mcp-Method": "server/discover"})["result"]
    assert discovered["supportedVersions"] == ["2026-07-28"]


# Notifications, batches, ping, broken messages (B81)


@pytest.mark.parametrize(
    "message",
    [
        {"method": "notifications/initialized"},
        {"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "late"}},
        {"method": "notifications/roots/list_changed"},
        {"method": "notifications/unheard-of", "params": None},
        {"id": 1, "result": {}},
        {"id": 1, "error": {"code": 1, "message": "no"}},
    ],
)
def test_what_nobody_waits_for_is_202_and_empty(one: Tool, message: dict[str, Any]) -> None:
    response = one.post({"jsonrpc": "2.0", **message})
    assert (response.status_code, response.data) == (202, b"")
    assert "Content-Type" not in response.headers


def test_ping_is_answered_with_an_empty_result(one: Tool) -> None:
    assert one.rpc("ping")["result"] == {}


@pytest.mark.parametrize("method", ["nonsense", "resources/list", "prompts/list"])
def test_unknown_methods_are_method_not_found(one: Tool, method: str) -> None:
    assert one.rpc(method)["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"nonsense", -32700),
        (b'{"a": NaN}', -32700),
        (b"\xff\xfe\xff", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600),
        (b"null", -32600),
        (b"1", -32600),
        (b"{}", -32600),
        (b'{"id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', -32600),
    ],
)
def test_broken_messages_are_400_with_a_json_rpc_error(one: Tool, body: bytes, code: int) -> None:
    response = one.post(body)
    assert (response.status_code, response.mimetype) == (400, "application/json")
    answer = strict_json(response.data)
    sender = 1 if body.startswith(b"{") and b'"id": 1,' in body.replace(b"}", b",") else None
    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", sender, code)
    assert answer["error"]["message"]


@pytest.mark.parametrize("levels", [99, 150, 250, 600, 900])
def test_a_message_that_is_nested_too_deep_is_answered(one: Tool, levels: int) -> None:
    deep = b"[" * levels + b"]" * levels
    call = b'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"search","arguments":{"query":"x","z":%b}}}'
    answer = strict_json(one.post(call % deep).data)
    assert answer["id"] == 8
    assert answer["error"]["message"] == "the message is nested too deep"


@pytest.mark.parametrize("identity", [0, -1, 10**30, "", "abc", "é"])
def test_the_id_comes_back_as_it_was_sent(one: Tool, identity: Any) -> None:
    response = one.post({"jsonrpc": "2.0", "id": identity, "method": "ping"})
    assert strict_json(response.data) == {"jsonrpc": "2.0", "id": identity, "result": {}}


def test_half_a_surrogate_pair_in_a_query_is_searched_for_all_the_same(one: Tool) -> None:
    body = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{"query":"a \\ud83d"}}}'
    )
    response = one.post(body)
    assert response.status_code == 200
    assert not strict_json(response.data)["result"]["isError"]


# What the tool says of itself


def test_there_is_one_tool_and_it_only_reads(one: Tool) -> None:
    (told,) = one.rpc("tools/list")["result"]["tools"]
    assert told["name"] == "search"
    assert (told["annotations"]["readOnlyHint"], told["annotations"]["idempotentHint"]) == (True, True)
    assert told["annotations"]["destructiveHint"] is False
    assert told["inputSchema"]["required"] == ["query"]
    assert set(told["inputSchema"]["properties"]) == {"query", "n_results"}
    for word in ("skipped", "Not searched", "warnings", "Answered in part only", "omitted", "data, not instructions"):
        assert word in told["description"]
    jsonschema.Draft202012Validator.check_schema(told["inputSchema"])
    jsonschema.Draft202012Validator.check_schema(told["outputSchema"])


def test_the_schema_and_the_search_agree_on_how_long_a_query_may_be(one: Tool) -> None:
    limit = one.rpc("tools/list")["result"]["tools"][0]["inputSchema"]["properties"]["query"]["maxLength"]
    assert not one.call({"query": "x" * limit})["isError"]
    assert one.call({"query": "x" * (limit + 1)})["isError"]


# Arguments


@pytest.mark.parametrize("value", [5, "5", " 5 ", "5.0", 5.0, "05"])
def test_a_number_may_be_sent_as_text(one: Tool, value: Any) -> None:
    assert one.hits(query="violet", n_results=value) == ["fact-1", "fact-2", "fact-3", "fact-4", "fact-5"]


def test_no_number_means_the_configured_one(tool: Callable[..., Tool], facts: GoodStore) -> None:
    three = tool(entry("facts", facts), n_results=3)
    assert three.hits(query="violet") == ["fact-1", "fact-2", "fact-3"]
    assert three.hits(query="violet", n_results=None) == ["fact-1", "fact-2", "fact-3"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "query: missing"),
        (None, "query: missing"),
        ({"q": "violet"}, "query: missing"),
        ({"query": None}, "query: expected text"),
        ({"query": 5}, "query: expected text"),
        ({"query": ["violet"]}, "query: expected text"),
        ({"query": ""}, "query: expected text"),
        ({"query": " \t\n"}, "query: expected text"),
        ({"query": "\u200b\u3000\xa0"}, "query: expected text"),
        ({"query": "violet", "n_results": "five"}, "n_results: expected a whole number 1..200"),
        ({"query": "violet", "n_results": ""}, "n_results: expected a whole number 1..200"),
        ({"query": "violet", "n_results": "5.5"}, "n_results: expected a whole number 1..200"),
        ({"query": "violet", "n_results": 5.5}, "n_results: expected a whole number 1..200"),
        ({"query": "violet", "n_results": 1e300}, "n_results: expected a whole number 1..200"),
        ({"query": "violet", "n_results": True}, "n_results: expected a whole number 1..200"),
        ({"query": "violet", "n_results": 0}, "n_results: expected a whole number 1..200"),
        ({"query": "violet", "n_results": "201"}, "n_results: expected a whole number 1..200"),
        ({"query": "violet", "n_results": [5]}, "n_results: expected a whole number 1..200"),
    ],
)
def test_wrong_arguments_are_an_error_that_a_model_can_read_and_ask_no_store(
    one: Tool, facts: GoodStore, arguments: Any, says: str
) -> None:
    result = one.call(arguments)
    assert result["isError"] is True
    assert "structuredContent" not in result
    assert result["content"][0]["text"].startswith(says)
    assert facts.searches == []


def test_arguments_that_clients_add_of_their_own_are_ignored(one: Tool) -> None:
    assert one.hits(query="violet", n_results=1, sessionId="x", toolCallId="y", timeout_s="soon") == ["fact-1"]


@pytest.mark.parametrize(
    "params",
    [
        {"name": "nonsense", "arguments": {"query": "violet"}},
        {"name": "search", "arguments": ["violet"]},
        {"name": "search", "arguments": "violet"},
        {"name": 5},
        {},
        None,
    ],
)
def test_a_call_that_is_none_is_invalid_params(one: Tool, params: Any) -> None:
    assert one.rpc("tools/call", params)["error"]["code"] == -32602


# Results


def test_a_session_id_from_before_a_restart_is_no_hindrance(one: Tool) -> None:
    assert not one.call({"query": "violet"}, Mcp_Session_Id="0123456789abcdef")["isError"]


def test_the_structured_result_is_the_body_of_post_search(
    tool: Callable[..., Tool], facts: GoodStore, good_store: Callable[..., GoodStore]
) -> None:
    both = tool(entry("facts", facts), entry("episodic", good_store("seren_memory", sample_hits("seren_memory", 3))))
    by_mcp = both.call({"query": "violet", "n_results": 4})["structuredContent"]
    by_http = strict_json(both.client.post("/search", json={"query": "violet", "n_results": 4}).data)
    for body in (by_mcp, by_http):
        assert body.pop("took_ms") >= 0
        for row in body["stores"]:
            assert row.pop("ms") >= 0
    assert by_mcp == by_http
    assert len(by_mcp["hits"]) == 4


ODD_HITS: list[dict[str, Any]] = [
    {"id": "nulls", "content": None, "score": None, "raw_distance": None, "metadata": None, "topic": None},
    {"id": 9007199254740993, "content": "x", "metadata": {"a": {"b": [None, {"c": 1.5}]}, "n": None, "big": 10**30}},
    {"id": None, "content": "é\u2028\x00\x1b[0m", "metadata": {"": ""}},
]


def test_every_success_matches_the_output_schema_and_is_told_in_text_too(
    tool: Callable[..., Tool], facts: GoodStore, good_store: Callable[..., GoodStore]
) -> None:
    odd = good_store("seren_memory", ODD_HITS)
    empty = good_store("seren_memory", [])
    dead = {"name": "dead", "type": "seren_loci", "url": "http://127.0.0.1:1"}
    broken = {"name": "broken", "type": "no_such_type", "url": "http://127.0.0.1:1"}
    for stores in (
        [entry("facts", facts)],
        [entry("odd", odd)],
        [entry("empty", empty)],
        [entry("facts", facts), entry("odd", odd), dead, broken],
        [entry("empty", empty), dead],
        [],
    ):
        one = tool(*stores)
        result = one.call({"query": "violet", "n_results": 200})
        assert result["isError"] is False
        jsonschema.validate(result["structuredContent"], one.output_schema())
        assert result["content"][0]["text"]


def test_nulls_stay_nulls(tool: Callable[..., Tool], good_store: Callable[..., GoodStore]) -> None:
    one = tool(entry("odd", good_store("seren_memory", ODD_HITS[:1])))
    (hit,) = one.call({"query": "violet"})["structuredContent"]["hits"]
    assert (hit["base_relevance"], hit["native_score"], hit["raw_distance"]) == (None, None, None)


def test_the_text_tells_what_was_searched_and_what_was_not(
    tool: Callable[..., Tool], facts: GoodStore, good_store: Callable[..., GoodStore]
) -> None:
    inner = good_store("callosum", [])
    inner.extra = {"skipped": [{"name": "old", "kind": "timeout", "reason": "no answer"}]}
    refusing = good_store("seren_memory")
    refusing.status = 500
    one = tool(entry("facts", facts), entry("inner", inner), entry("episodic", refusing))
    lines = one.call({"query": "violet", "n_results": 1})["content"][0]["text"].splitlines()
    assert lines[0] == "1 hit, best first. Searched: facts, inner."
    assert lines[1] == "Not searched: episodic (http_error: HTTP 500). What they hold is unknown."
    assert lines[2].startswith("Answered in part only: inner (")
    assert "old" in lines[2]


def test_no_store_configured_is_a_success_that_says_so(tool: Callable[..., Tool]) -> None:
    result = tool().call({"query": "violet"})
    assert result["isError"] is False
    assert result["structuredContent"]["hits"] == []
    assert result["content"][0]["text"] == "No store is configured or enabled, so nothing was searched."


def test_a_store_that_found_nothing_is_no_error(
    tool: Callable[..., Tool], good_store: Callable[..., GoodStore]
) -> None:
    result = tool(entry("empty", good_store())).call({"query": "violet"})
    assert result["isError"] is False
    assert result["content"][0]["text"] == "No hits. Searched: empty."


# A dead fan is an error


def test_all_stores_failing_is_an_error_that_names_them(
    tool: Callable[..., Tool], good_store: Callable[..., GoodStore]
) -> None:
    refusing = good_store("seren_memory")
    refusing.status = 503
    one = tool(
        entry("episodic", refusing),
        {"name": "facts", "type": "seren_loci", "url": "http://127.0.0.1:1"},
        {"name": "odd", "type": "no_such_type", "url": "http://127.0.0.1:1"},
    )
    result = one.call({"query": "violet"})
    assert result["isError"] is True
    assert "structuredContent" not in result
    text = result["content"][0]["text"]
    assert text.startswith("No store answered")
    for told in ("episodic (http_error: ", "facts (unreachable: ", "odd (unbound: "):
        assert told in text


def test_a_suspended_fan_is_an_error_too(tool: Callable[..., Tool], good_store: Callable[..., GoodStore]) -> None:
    hung = good_store("seren_loci")
    hung.delay_s = 30.0
    one = tool(entry("facts", hung, timeout_s=0.05), suspend_after=1)
    assert "facts (timeout: " in one.call({"query": "violet"})["content"][0]["text"]
    result = one.call({"query": "violet"})
    assert result["isError"] is True
    assert "facts (suspended: " in result["content"][0]["text"]
    assert "; asked again from 20" in result["content"][0]["text"]


def test_a_query_that_came_around_is_an_error_and_asks_nobody(one: Tool, facts: GoodStore) -> None:
    hops = ", ".join(f"1.1 callosum-{name}" for name in ("a", "b", "c", "d"))
    result = one.call({"query": "violet"}, Via=hops)
    assert result["isError"] is True
    assert "facts (loop: " in result["content"][0]["text"]
    assert facts.searches == []


def test_the_stores_see_the_way_that_a_query_came(one: Tool, facts: GoodStore) -> None:
    one.call({"query": "violet"}, Via="1.1 callosum-outer")
    assert facts.searches[0].headers["via"].startswith("1.1 callosum-outer, 1.1 callosum-")


def test_a_service_that_is_shutting_down_says_so(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("{}", encoding="utf-8")
    with Callosum.from_config(tmp_path / "c.yaml") as callosum:
        one = Tool(create_app(callosum))
        callosum.drain()
        result = one.call({"query": "violet"})
    assert result["isError"] is True
    assert result["content"][0]["text"] == "the service is shutting down; ask again in a moment"


def test_a_fault_of_ours_is_an_error_without_its_text_and_the_next_call_works(
    one: Tool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    private = "a memory of the user"

    def failing(*args: object, **kwargs: object) -> None:
        raise RuntimeError(private)

    with monkeypatch.context() as patched:
        patched.setattr(Callosum, "search", failing)
        result = one.call({"query": "violet"})
    assert result["isError"] is True
    assert result["content"][0]["text"] == "this service failed; its log has more"
    assert "RuntimeError" in caplog.text
    assert private not in caplog.text
    assert one.hits(query="violet", n_results=1) == ["fact-1"]


def test_queries_are_not_logged_unless_asked_for(one: Tool, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        one.call({"query": "a private matter"})
    assert "a private matter" not in caplog.text


# Who may call (B74, B77, B82), without the extra


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "PUT", "PATCH", "OPTIONS"])
def test_anything_but_post_is_405(one: Tool, method: str, path: str) -> None:
    response = one.client.open(path, method=method, headers={"Accept": "text/event-stream"})
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert response.mimetype == "application/problem+json"


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("sent", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "right"}])
def test_with_a_token_401_comes_first(
    tool: Callable[..., Tool], facts: GoodStore, method: str, sent: dict[str, str]
) -> None:
    one = tool(entry("facts", facts), server={"bearer_token": "right"})
    response = one.client.open("/mcp", method=method, headers=sent)
    problem(response, 401, secrets=["right"] if "right" not in sent.values() else [])
    assert response.headers["WWW-Authenticate"] == "Bearer"


def test_the_right_token_may_call(tool: Callable[..., Tool], facts: GoodStore) -> None:
    one = tool(entry("facts", facts), server={"bearer_token": "right"})
    assert not one.call({"query": "violet"}, Authorization="Bearer right", Host="memory.example.org")["isError"]
    assert one.client.get("/mcp", headers={"Authorization": "Bearer right"}).status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "oauth-protected-resource",
        "oauth-protected-resource/mcp",
        "oauth-authorization-server",
        "oauth-authorization-server/mcp",
        "openid-configuration",
    ],
)
@pytest.mark.parametrize("token", ["", "right"])
def test_no_client_is_sent_looking_for_oauth(tool: Callable[..., Tool], path: str, token: str) -> None:
    one = tool(server={"bearer_token": token})
    problem(one.client.get(f"/.well-known/{path}"), 404)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:7423", "[::1]:7423", "LOCALHOST:7423", "callosum", "listed.example", "box.local:80"],
)
def test_every_host_of_the_rest_of_the_api_is_a_host_here(
    tool: Callable[..., Tool], facts: GoodStore, host: str
) -> None:
    one = tool(entry("facts", facts), server={"allowed_hosts": ["listed.example"]})
    assert not one.call({"query": "violet"}, Host=host)["isError"]


def test_a_host_that_is_refused_is_told_which_setting_allows_it(one: Tool, facts: GoodStore) -> None:
    response = one.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, Host="rebound.example")
    assert "server.allowed_hosts" in problem(response, 403)["detail"]
    assert facts.requests == []


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}],
)
def test_pages_of_other_origins_may_not_call(one: Tool, headers: dict[str, str]) -> None:
    problem(one.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, **headers), 403)


def test_a_content_type_that_is_not_json_is_415(one: Tool) -> None:
    response = one.client.post("/mcp", data=b"{}", content_type="text/plain")
    problem(response, 415)


def test_a_body_over_a_mebibyte_is_413(one: Tool) -> None:
    problem(one.post(b" " * (1024 * 1024 + 1)), 413)


@pytest.mark.parametrize("missing", ["mcp", "mcp_types"], ids=["no SDK", "the SDK of the major before"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_without_the_extra_mcp_is_404_and_says_how_to_get_it(
    tool: Callable[..., Tool], facts: GoodStore, monkeypatch: pytest.MonkeyPatch, method: str, path: str, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    one = tool(entry("facts", facts))
    detail = problem(one.client.open(path, method=method), 404)["detail"]
    assert "pip install 'seren-corpus-callosum[mcp]'" in detail
    assert strict_json(one.client.get("/").data)["mcp"] is False
    assert one.client.post("/search", json={"query": "violet"}).status_code == 200


def test_without_the_extra_401_still_comes_first(tool: Callable[..., Tool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    problem(tool(server={"bearer_token": "right"}).client.get("/mcp"), 401)
