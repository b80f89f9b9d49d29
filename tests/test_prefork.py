"""A callosum made before a fork searches in every child: its threads belong to the process that made them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.checks import require
from tests.support.goodstore import GoodStore
from tests.support.service import service_environment

GoodStores = Callable[..., GoodStore]

SCRIPT = """
import json, os, sys
from seren_corpus_callosum import Callosum

callosum = Callosum.from_config("scc.yaml")
searched_before = sys.argv[1] == "used"
if searched_before:
    assert callosum.search("before").hits
found = []
for child in range(3):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        packets = [callosum.search(f"child {child}") for _ in range(3)]
        told = [[[ranked.hit.id for ranked in p.hits], len(p.skipped)] for p in packets]
        os.write(writer, json.dumps(told).encode())
        callosum.close(grace_s=0)
        sys.exit(0)  # as a worker ends: interpreter exit must not wait for the parent's threads
    os.close(writer)
    _, status = os.waitpid(pid, 0)
    found.append([os.read(reader, 65536).decode(), os.waitstatus_to_exitcode(status)])
parent = [ranked.hit.id for ranked in callosum.search("after").hits]
callosum.close(grace_s=0)
print(json.dumps([found, parent]))
"""


def config(folder: Path, store: GoodStore) -> None:
    text = f"federation: {{stores: [{{name: good, type: seren_loci, url: '{store.url}'}}]}}"
    (folder / "scc.yaml").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("state", ["unused", "used"])
def test_children_of_a_fork_search_and_so_does_the_parent_after_them(
    tmp_path: Path, good_store: GoodStores, state: str
) -> None:
    require(hasattr(os, "fork"), "os.fork")
    store = good_store("seren_loci", [{"id": "1"}])
    config(tmp_path, store)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, state],
        cwd=tmp_path, env=service_environment(tmp_path), capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    children, parent = json.loads(done.stdout)
    assert [(json.loads(told), status) for told, status in children] == [([[["1"], 0]] * 3, 0)] * 3
    assert parent == ["1"]
    assert "Traceback" not in done.stderr
    assert len(store.searches) == 10 + (state == "used")
