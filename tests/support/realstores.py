"""seren-loci and seren-memory as processes in folders of their own. `.ci/real_stores.sh` makes their environments."""

import http.client
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .checks import REPO, require
from .memories import EPISODES, FACTS
from .net import free_port
from .process import ServerProcess, clean_environment

EMBEDDER = Path(".cache/chroma/onnx_models/all-MiniLM-L6-v2/onnx")

LOCI_YAML = """\
server: {{host: 127.0.0.1, port: {port}}}
storage: {{db_path: {folder}/loci.db}}
updates: {{enabled: false}}
backup: {{enabled: false}}
"""

MEMORY_YAML = """\
server: {{host: 127.0.0.1, port: {port}}}
storage: {{persist_dir: {folder}/chroma}}
consolidator: {{enabled: false}}
updates: {{enabled: false}}
backup: {{enabled: false}}
"""


class RealStore(ServerProcess):
    """One real store: `type` as the callosum calls it. A test that stops it uses stopped(), which starts it again."""

    def __init__(self, type: str, module: str, python: Path, config: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.type = type
        port = free_port()
        file = folder / f"{module}.yaml"
        file.write_text(config.format(port=port, folder=json.dumps(str(folder))[1:-1]), encoding="utf-8")
        command = [str(python), "-m", module, "--config", str(file)]
        super().__init__(command, folder, port, clean_environment(folder / "home"), ready_within_s=60.0)

    def post(self, path: str, body: Any) -> Any:
        """The JSON of the answer to one POST, which must be 200."""
        return self.post_all(path, [body])[0]

    def search(self, query: str, n_results: int = 10) -> list[dict[str, Any]]:
        """What the store answers when it is asked directly, with the callosum's own defaults."""
        options: dict[str, Any] = {"include_superseded": False}
        if self.type == "seren_loci":
            options |= {"project": None, "include_fundamentals": True}
        else:
            options |= {"include_short": True, "include_near": True, "include_long": True}
        hits: list[dict[str, Any]] = self.post("/search", {"query": query, "n_results": n_results, **options})["hits"]
        return hits

    def post_all(self, path: str, bodies: Sequence[Any]) -> list[Any]:
        """Posts one after the other on one connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        answers = []
        try:
            for body in bodies:
                connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
                response = connection.getresponse()
                text = response.read()
                assert response.status == 200, f"{path} answered {response.status}: {text!r}"
                answers.append(json.loads(text))
        finally:
            connection.close()
        return answers

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """The store is down within, and up again after, whatever happens."""
        self.kill()
        try:
            yield
        finally:
            if not self.running:
                self.start()


def home_of_real_stores() -> Path:
    """Where `.ci/real_stores.sh` put them: $SEREN_TEST_REAL_STORES, else .real in the checkout."""
    return Path(os.environ.get("SEREN_TEST_REAL_STORES") or REPO / ".real")


def python_of(name: str) -> Path:
    """The interpreter of one store's environment; skips, or fails with CI=true, where there is none."""
    python = home_of_real_stores() / name / "bin" / "python"
    require(os.access(python, os.X_OK), f"a real seren-{name} (.ci/real_stores.sh makes it)")
    return python


@contextmanager
def running_loci(folder: Path) -> Iterator[RealStore]:
    """A seren-loci that holds FACTS."""
    with RealStore("seren_loci", "seren_loci", python_of("loci"), LOCI_YAML, folder) as store:
        store.post_all("/fact", FACTS)
        yield store


@contextmanager
def running_memory(folder: Path) -> Iterator[RealStore]:
    """A seren-memory that holds EPISODES; its embedder is linked into a home of its own."""
    python = python_of("memory")
    cached = home_of_real_stores() / "home" / EMBEDDER
    require(os.access(cached / "model.onnx", os.R_OK), "the embedder of seren-memory (.ci/real_stores.sh lays it)")
    link = folder / "home" / EMBEDDER
    link.parent.mkdir(parents=True)
    link.symlink_to(cached.resolve(), target_is_directory=True)
    with RealStore("seren_memory", "seren_memory", python, MEMORY_YAML, folder) as store:
        store.post_all("/short", EPISODES)
        yield store
