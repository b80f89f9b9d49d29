"""A service inside the test's own process, over real sockets: quick to start, and open to monkeypatch."""

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import requests

from seren_corpus_callosum.config import load
from seren_corpus_callosum.server import Server
from seren_corpus_callosum.service import Callosum

OVERLAY = "runtime-stores.json"


class Local:
    """Serves 127.0.0.1 from `folder`, where the config file and the overlay are; it can be started again."""

    def __init__(self, folder: Path, config: str = "", *, environ: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.overlay = folder / OVERLAY
        self.environ = dict(environ or {})
        self.config = folder / "seren-corpus-callosum.yaml"
        self.config.write_text(config, encoding="utf-8")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        config = load(self.config, self.environ)
        config = replace(config, server=replace(config.server, host="127.0.0.1", port=0))
        self.callosum = Callosum(config, environ=self.environ)
        self.server = Server(self.callosum)
        self.url = f"http://127.0.0.1:{self.server.port}"
        self._thread = threading.Thread(target=self.server.run, name="local-service")
        self._thread.start()

    def stop(self) -> None:
        self.server.close()
        self._thread.join(5)
        assert not self._thread.is_alive()

    def restart(self) -> None:
        self.stop()
        self.start()

    def request(self, method: str, path: str, body: Any = None, **kwargs: Any) -> requests.Response:
        """One request on a connection of its own; `body` goes out as JSON unless it is None or bytes."""
        if body is not None:
            kwargs["data"] = body if isinstance(body, bytes) else json.dumps(body).encode()
            kwargs["headers"] = {"Content-Type": "application/json", **kwargs.get("headers", {})}
        with requests.Session() as session:
            session.trust_env = False
            return session.request(method, self.url + path, **{"timeout": 30, "allow_redirects": False, **kwargs})

    def add(self, name: str, url: str, **fields: Any) -> dict[str, Any]:
        """The row of an added seren_loci store; it must be 201."""
        answer = self.request("POST", "/stores", {"name": name, "type": "seren_loci", "url": url, **fields})
        assert answer.status_code == 201, answer.text
        row: dict[str, Any] = answer.json()
        return row

    def search(self, query: str = "anything", **fields: Any) -> dict[str, Any]:
        answer = self.request("POST", "/search", {"query": query, **fields})
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    def roster(self) -> dict[str, dict[str, Any]]:
        """The rows of GET /stores by name; of two with one name the last."""
        return {row["name"]: row for row in self.request("GET", "/stores").json()["stores"]}

    def entries(self) -> list[dict[str, Any]]:
        """What the overlay file holds."""
        found: list[dict[str, Any]] = json.loads(self.overlay.read_text(encoding="utf-8"))
        return found
