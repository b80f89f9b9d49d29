"""The service as a user starts it: a process of its own, a YAML file, a port; and its command line."""

import importlib.util
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import requests

from .net import free_port
from .process import ServerProcess, clean_environment

PACKAGE = "seren_corpus_callosum"


class Service(ServerProcess):
    """`config` is the YAML text, or None for no file at all. It binds 127.0.0.1 unless `host` says otherwise.

    Host and port are given through the environment, which wins over the file; `host=None` leaves both to the file,
    and `port` then says where to look for it.
    """

    def __init__(
        self,
        folder: Path,
        config: str | None,
        *,
        env: Mapping[str, str] | None = None,
        args: Sequence[str] = (),
        host: str | None = "127.0.0.1",
        port: int | None = None,
        ready_within_s: float = 20.0,
    ) -> None:
        port = port or free_port()
        self.config = folder / "seren-corpus-callosum.yaml"
        bind = {"SEREN_SCC_HOST": host, "SEREN_SCC_PORT": str(port)} if host else {}
        command = [sys.executable, "-m", PACKAGE]
        if config is not None:
            self.config.write_text(config, encoding="utf-8")
            command += ["-c", str(self.config)]
        environment = service_environment(folder, {**bind, **(env or {})})
        super().__init__([*command, *args], folder, port, environment, ready_within_s=ready_within_s)

    def request(self, method: str, path: str, **kwargs: Any) -> requests.Response:
        """One request on a connection of its own; `kwargs` as requests takes them."""
        with requests.Session() as session:
            session.trust_env = False
            return session.request(method, self.url + path, **{"timeout": 30, "allow_redirects": False, **kwargs})

    def search(self, query: str, **fields: Any) -> dict[str, Any]:
        """The body of POST /search, which must be 200."""
        response = self.request("POST", "/search", json={"query": query, **fields})
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        return body


def service_environment(folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """A clean environment in which a child imports the same package as this process does."""
    spec = importlib.util.find_spec(PACKAGE)
    assert spec and spec.submodule_search_locations, f"{PACKAGE} is not installed"
    root = Path(next(iter(spec.submodule_search_locations))).parent
    return clean_environment(folder / "home", {"PYTHONPATH": str(root), **(more or {})})


def run_command(
    folder: Path, *args: str, env: Mapping[str, str] | None = None, stdin: str = "", timeout_s: float = 30.0
) -> subprocess.CompletedProcess[str]:
    """Runs `seren-corpus-callosum ARGS` in `folder` to its end."""
    environment = service_environment(folder, {"PYTHONIOENCODING": "utf-8", **(env or {})})
    return subprocess.run(
        [sys.executable, "-m", PACKAGE, *args],
        cwd=folder, env=environment, input=stdin, capture_output=True, encoding="utf-8", timeout=timeout_s, check=False,
    )  # fmt: skip
