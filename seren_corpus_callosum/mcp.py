"""The search tool for models: MCP over HTTP, one exchange a call without a loop that lives on, and over stdio.

Importing this loads the SDK of the [mcp] extra. Decides nothing about who may call: the guard does, before.
"""

import asyncio
import json
import logging
import re
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from . import tool, wire
from .errors import BadRequest, Problem
from .hits import Json
from .service import Callosum
from .shorten import LIMIT_BYTES, named, shortened, without_long_lists
from .values import depth_fits

log = logging.getLogger(__name__)

Context = ServerRequestContext[Any]
Search = Callable[[Mapping[str, Json]], Awaitable[types.CallToolResult]]

_INITIALIZE_PARAMS: dict[str, Json] = {
    "protocolVersion": LATEST_HANDSHAKE_VERSION,
    "capabilities": {},
    "clientInfo": {"name": "unnamed", "version": ""},
}


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes


def exchange(callosum: Callosum, body: bytes, headers: Mapping[str, str], *, via: Sequence[str] = ()) -> Answer:
    """Answer one POST of MCP's streamable HTTP; header names in lower case. Blocks as long as the search takes."""
    message = _message(body)
    if isinstance(message, Answer):
        return message
    passed = {name: value for name, value in headers.items() if name.startswith("mcp-") and value}
    if message["method"] == "initialize":
        # A client that is about to negotiate may name any version here; the SDK takes the header's word for it.
        passed.pop("mcp-protocol-version", None)
    passed["content-type"] = "application/json"
    passed["accept"] = _accept(headers.get("accept", ""))

    async def search(arguments: Mapping[str, Json]) -> types.CallToolResult:
        return called(callosum, arguments, via=via)  # blocks a loop that has nothing else to do

    return asyncio.run(_exchanged(_server(search), wire.encode(message), passed))


def serve_stdio(callosum: Callosum) -> None:
    """Serve the tool over standard input and output until the input ends and what was asked is answered."""

    async def search(arguments: Mapping[str, Json]) -> types.CallToolResult:
        return await anyio.to_thread.run_sync(called, callosum, arguments, abandon_on_cancel=True)

    async def serve() -> None:
        server = _server(search)
        feed, fed = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        answers, answered = anyio.create_memory_object_stream[SessionMessage](0)
        waiting: dict[Json, anyio.Event] = {}
        lines: Any = _lines(answers.clone())
        async with stdio_server(stdin=lines) as (incoming, outgoing), anyio.create_task_group() as tasks:
            tasks.start_soon(_passed_in, incoming, feed, waiting)
            tasks.start_soon(_passed_out, answered, outgoing, waiting)
            await server.run(fed, answers, server.create_initialization_options())

    try:
        asyncio.run(serve())
    except* OSError as gone:
        log.warning("the client is gone: %s", gone.exceptions[0])


async def _lines(answers: Any) -> AsyncIterator[str]:
    """The messages on standard input; what is none is answered here, as over HTTP: the SDK would leave it waiting."""
    async with answers, await anyio.open_file(0, "rb", closefd=False) as lines:
        async for line in lines:
            message = _message(line) if line.strip() else None
            if isinstance(message, dict):
                yield wire.encode(message).decode()
            elif message and message.body:
                await answers.send(SessionMessage(types.JSONRPCError.model_validate_json(message.body)))


async def _passed_in(incoming: Any, feed: Any, waiting: dict[Json, anyio.Event]) -> None:
    # The SDK drops what it still works on when the input ends: of a piped-in call nobody would see the hits.
    async with feed:
        async for item in incoming:
            message = getattr(item, "message", None)
            if isinstance(message, types.JSONRPCRequest):
                waiting[message.id] = anyio.Event()
            elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
                cancelled = (message.params or {}).get("requestId")
                if isinstance(cancelled, str | int) and cancelled in waiting:
                    waiting.pop(cancelled).set()
            await feed.send(item)
        for event in list(waiting.values()):
            await event.wait()


async def _passed_out(answered: Any, outgoing: Any, waiting: dict[Json, anyio.Event]) -> None:
    async with outgoing:
        async for item in answered:
            await outgoing.send(item)
            waiting.pop(getattr(item.message, "id", None), anyio.Event()).set()


def called(callosum: Callosum, arguments: Mapping[str, Json], *, via: Sequence[str] = ()) -> types.CallToolResult:
    """The result of one call of the tool; whatever went wrong is a result too, one that a model can read."""
    try:
        wanted = wire.search_request({**arguments, "n_results": _number(arguments.get("n_results")), "timeout_s": None})
        if callosum.config.log_query:
            log.info("query %r", wanted["query"])
        body = wire.packet_body(callosum.search(**wanted, via=via))
    except Problem as exc:
        return _failed(str(exc))
    except Exception as exc:  # noqa: BLE001 - a fault of ours: the SDK would log its text, which may hold memories
        where = traceback.extract_tb(exc.__traceback__)
        log.error("a call of the search tool failed: %s\n%s", type(exc).__name__, "".join(where.format()))
        return _failed("this service failed; its log has more")
    if body["skipped"] and not body["stores_searched"]:
        told = named(without_long_lists(body, LIMIT_BYTES), "skipped")
        return _failed(f"No store answered, so nothing was searched and what is remembered is unknown: {told}.")
    short, text = shortened(body)
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=short)


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def _number(value: Json) -> Json:
    """A whole number that a model wrote as text or with a decimal point, as the number that it is."""
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,9}(\.0+)?\s*", value):
        return int(float(value))
    return int(value) if isinstance(value, float) and value.is_integer() else value


@cache
def _version() -> str:
    return version("seren-corpus-callosum")


@cache
def _tool() -> types.Tool:
    return types.Tool(
        name="search",
        title="Search all memory",
        description=tool.DESCRIPTION,
        input_schema=tool.INPUT_SCHEMA,
        output_schema=tool.OUTPUT_SCHEMA,
        annotations=types.ToolAnnotations(
            read_only_hint=True, idempotent_hint=True, destructive_hint=False, open_world_hint=False
        ),
    )


def _server(search: Search) -> Server[Any]:
    async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool()])

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name != "search":
            raise MCPError(types.INVALID_PARAMS, "unknown tool: the only one here is search")
        return await search(params.arguments or {})

    return Server(
        "seren-corpus-callosum",
        version=_version(),
        title="Seren Corpus Callosum",
        instructions=tool.INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _message(body: bytes) -> dict[str, Json] | Answer:
    """The one message in a request's body, or the answer to what is none, or to one that nobody waits for."""
    try:
        message = wire.decode(body)
    except BadRequest as exc:
        return _broken(types.PARSE_ERROR, exc.detail)
    if isinstance(message, list):
        return _broken(types.INVALID_REQUEST, "batches are not served: send each message in a request of its own")
    sender = message.get("id") if isinstance(message, dict) and type(message.get("id")) in (str, int) else None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return _broken(types.INVALID_REQUEST, 'expected a JSON-RPC message: an object with "jsonrpc": "2.0"', sender)
    if not depth_fits(message):  # the SDK would drop it in silence
        return _broken(types.INVALID_REQUEST, "the message is nested too deep", sender)
    if "method" not in message and ("result" in message or "error" in message):
        return Answer(202, {}, b"")
    if message.get("params", {}) is None:
        del message["params"]
    for key, kinds, expected in _MEMBERS:
        if type(message.get(key, kinds[0]())) not in kinds or (key == "method" and key not in message):
            return _broken(types.INVALID_REQUEST, f"{key}: expected {expected}", sender)
    if message["method"] == "initialize":
        sent = {key: value for key, value in message.get("params", {}).items() if value is not None}
        message["params"] = _INITIALIZE_PARAMS | sent
        if not isinstance(message["params"]["protocolVersion"], str):
            message["params"]["protocolVersion"] = LATEST_HANDSHAKE_VERSION
    return message


_MEMBERS: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("method", (str,), "text"),
    ("id", (str, int), "text or a whole number"),
    ("params", (dict,), "an object"),
)


def _broken(code: int, message: str, sender: Json = None) -> Answer:
    error = {"jsonrpc": "2.0", "id": sender, "error": {"code": code, "message": message}}
    return Answer(400, {"content-type": "application/json"}, wire.encode(error))


def _accept(sent: str) -> str:
    """What the SDK takes for yes, unless the client takes nothing but an event stream."""
    kinds = {part.partition(";")[0].strip().lower() for part in sent.split(",")}
    return sent if kinds <= {"text/event-stream", "text/*"} else "application/json, text/event-stream"


async def _exchanged(server: Server[Any], body: bytes, headers: Mapping[str, str]) -> Answer:
    """Run the SDK's own HTTP face over one request, in memory."""
    # The SDK's own rule about Host and Origin knows loopback only; the guard has looked at both.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True, security_settings=security)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "query_string": b"",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
    }
    incoming = [{"type": "http.request", "body": body, "more_body": False}]
    outgoing: list[Mapping[str, Any]] = []

    async def receive() -> Mapping[str, Any]:
        if not incoming:
            await anyio.sleep_forever()
        return incoming.pop()

    async def send(part: Mapping[str, Any]) -> None:
        outgoing.append(part)

    async with manager.run():
        await manager.handle_request(scope, receive, send)  # type: ignore[arg-type]
    start, *parts = outgoing
    told = {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
    answer = b"".join(part.get("body", b"") for part in parts)
    told = {name: value for name, value in told.items() if name == "content-type" and answer}
    # One of the SDK's two ways writes every letter beyond ASCII as six bytes: a reply would be far over its size.
    return Answer(start["status"], told, wire.encode(json.loads(answer)) if b"\\u" in answer else answer)
