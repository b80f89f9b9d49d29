"""N instant stub stores in one process, each on a port of its own: `python bench/stubs.py N` prints the ports."""

import asyncio
import json
import sys

HITS = [
    {
        "id": f"fact-{number}",
        "project": "bench",
        "key": f"key {number}",
        "value": "a value of ordinary length, as facts have it",
        "why": "because a bench needs some text",
        "score": round(0.9 - number / 50, 3),
        "match_kind": "lexical",
        "source": "user",
        "raw_distance": None,
        "live": True,
        "superseded_at": None,
        "why_changed": None,
        "figures": 0,
        "recheck": None,
    }
    for number in range(5)
]
BODY = json.dumps({"query": "q", "project": None, "finder": "lexical", "hits": HITS}).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


class Stub(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
        self.buffer = b""

    def data_received(self, data):
        self.buffer += data
        while True:
            head, found, rest = self.buffer.partition(b"\r\n\r\n")
            if not found:
                return
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            if len(rest) < length:
                return
            self.buffer = rest[length:]
            self.transport.write(ANSWER)


async def main(count):
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Stub, "127.0.0.1", 0) for _ in range(count)]
    print(*[server.sockets[0].getsockname()[1] for server in servers], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
