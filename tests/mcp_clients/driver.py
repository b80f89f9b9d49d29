"""Drives one MCP client by lines of JSON: {"do": "list"}, {"do": "call", "query": ..., "times": 10}; a line each back.

`python driver.py CLIENT URL [TOKEN]`; runs in the environment of the client, so it imports nothing of this repository.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

Tools = Callable[[], Awaitable[list[Any]]]
Call = Callable[[str], Awaitable[Any]]


@contextlib.asynccontextmanager
async def sdk1(url: str, headers: dict[str, str]) -> AsyncIterator[tuple[Tools, Call]]:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    async with streamablehttp_client(url, headers) as (read, write, _), ClientSession(read, write) as session:
        await session.initialize()

        async def tools() -> list[Any]:
            return (await session.list_tools()).tools

        async def call(query: str) -> Any:
            return await session.call_tool("search", {"query": query})

        yield tools, call


@contextlib.asynccontextmanager
async def sdk2(url: str, headers: dict[str, str], mode: str = "auto") -> AsyncIterator[tuple[Tools, Call]]:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        print(json.dumps({"protocol": client.protocol_version}), file=sys.stderr)

        async def tools() -> list[Any]:
            return (await client.list_tools()).tools

        async def call(query: str) -> Any:
            return await client.call_tool("search", {"query": query})

        yield tools, call


@contextlib.asynccontextmanager
async def fastmcp(url: str, headers: dict[str, str]) -> AsyncIterator[tuple[Tools, Call]]:
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport

    async with Client(StreamableHttpTransport(url, headers)) as client:

        async def call(query: str) -> Any:
            return await client.call_tool("search", {"query": query}, raise_on_error=False)

        yield client.list_tools, call


def _told(result: Any) -> dict[str, Any]:
    def either(*names: str) -> Any:
        return next((getattr(result, name) for name in names if hasattr(result, name)), None)

    return {
        "text": result.content[0].text,
        "structured": either("structured_content", "structuredContent"),
        "error": bool(either("is_error", "isError")),
    }


async def drive(tools: Tools, call: Call) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        if asked["do"] == "list":
            told: Any = [tool.name for tool in await tools()]
        else:
            results = await asyncio.gather(*(call(asked["query"]) for _ in range(asked["times"])))
            told = [_told(result) for result in results]
        print(json.dumps(told), flush=True)


async def main(client: str, url: str, token: str = "") -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    clients = {
        "sdk1": lambda: sdk1(url, headers),
        "sdk2": lambda: sdk2(url, headers),
        "sdk2-handshake": lambda: sdk2(url, headers, "legacy"),
        "sdk2-newest": lambda: sdk2(url, headers, "2026-07-28"),
        "fastmcp": lambda: fastmcp(url, headers),
    }
    async with clients[client]() as (tools, call):
        await drive(tools, call)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
