"""A portal with the callosum under every server that people use: prefork, threads, preload, and a fork after import."""

import importlib.util
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.support.checks import require
from tests.support.net import free_port
from tests.support.process import ServerProcess
from tests.support.service import service_environment

PORTAL = """\
from flask import Flask
from seren_corpus_callosum import Callosum, create_blueprint

app = Flask("portal")
app.add_url_rule("/health", "health", lambda: "portal")
app.register_blueprint(create_blueprint(Callosum.from_config({config!r})), url_prefix="/memory")
"""

CONFIG = """\
server: {{bearer_token: right, instance_id: one}}
federation:
  per_store_timeout_s: 2
  stores: [{{name: facts, type: seren_loci, url: '{url}'}}]
"""

GUNICORN = ["gunicorn", "app:app", "--bind", "127.0.0.1:{port}", "--no-control-socket", "--workers"]
GTHREAD = ["--worker-class", "gthread", "--threads", "8"]
SERVERS = {
    "gunicorn sync": [*GUNICORN, "2"],
    "gunicorn gthread preload": [*GUNICORN, "2", *GTHREAD, "--preload"],
    "waitress": ["waitress", "--listen", "127.0.0.1:{port}", "--threads", "8", "app:app"],
    "flask": ["flask", "--app", "app", "run", "--host", "127.0.0.1", "--port", "{port}"],
}
ONE_WORKER = {
    # A worker that gunicorn forks while it is told to stop misses the signal: the only one here is the one that serves.
    "gunicorn sync preload": [*GUNICORN, "1", "--preload"],
    "gunicorn gthread": [*GUNICORN, "1", *GTHREAD],
}
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="prefork is POSIX")


@pytest.fixture
def portal(tmp_path, good_store):
    """Starts the portal by the name and the words of a server, over one healthy store, which it returns too."""
    store = good_store("seren_loci", [{"id": "1", "key": "", "value": "larch"}])
    config = tmp_path / "c.yaml"
    config.write_text(CONFIG.format(url=store.url))
    (tmp_path / "app.py").write_text(PORTAL.format(config=str(config)))
    started = []

    def start(server, words):
        if server.startswith("gunicorn"):
            require(importlib.util.find_spec("gunicorn"), "gunicorn")
        port = free_port()
        command = [sys.executable, "-m", *(word.format(port=port) for word in words)]
        environment = service_environment(tmp_path)
        environment["PYTHONPATH"] += os.pathsep + str(tmp_path)
        one = ServerProcess(command, tmp_path, port, environment)
        started.append(one)
        one.start()
        return one, store

    yield start
    for one in started:
        one.close()
        assert "Traceback" not in one.stderr, one.stderr


def ask(server, method, path, **kwargs):
    """One request on a connection of its own, so that the server may give it to any of its workers."""
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = "Bearer right"
        return session.request(method, f"{server.url}/memory{path}", timeout=20, **kwargs)


@pytest.mark.parametrize("server", [pytest.param(name, marks=POSIX if "gunicorn" in name else ()) for name in SERVERS])
def test_it_searches_in_parallel_and_an_added_store_is_there_for_every_worker(server, portal, good_store):
    one, _ = portal(server, SERVERS[server])
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda turn: ask(one, "POST", "/search", json={"query": str(turn)}), range(24)))
    assert [answer.status_code for answer in answers] == [200] * 24
    assert [answer.json()["query"] for answer in answers] == [str(turn) for turn in range(24)]
    assert {answer.json()["hits"][0]["content"] for answer in answers} == {"larch"}
    added = good_store("seren_memory", [{"id": "2", "content": "pine"}])
    entry = {"name": "episodic", "type": "seren_memory", "url": added.url}
    assert ask(one, "POST", "/stores", json=entry).status_code == 201
    for _ in range(8):
        assert ask(one, "POST", "/search", json={"query": "x"}).json()["stores_searched"] == ["facts", "episodic"]
    assert ask(one, "GET", "/nope").headers["Content-Type"] == "application/problem+json"


@POSIX
@pytest.mark.parametrize("server", ONE_WORKER)
def test_a_server_that_is_stopped_while_a_store_hangs_ends_with_the_stores_deadline(server, portal):
    one, store = portal(server, ONE_WORKER[server])
    store.hold = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, one, "POST", "/search", json={"query": "x"})
        assert store.wait_for(lambda s: s.searches)
        assert one.stop(timeout_s=6) == 0
        assert [entry["kind"] for entry in answer.result().json()["skipped"]] == ["timeout"]


FORK = """\
import os, signal, sys
from seren_corpus_callosum import Callosum

callosum = Callosum.from_config(sys.argv[1])

def contents():
    return [ranked.hit.content for ranked in callosum.search("x").hits]

if sys.argv[2] == "searched before":
    assert contents() == ["larch"]
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        signal.alarm(8)  # a child that hangs is ended, and its status shows it
        found = contents()
        callosum.close(grace_s=0)
        os._exit(0 if found == ["larch"] else 1)
    children.append(child)
assert contents() == ["larch"]
print([os.waitpid(child, 0)[1] for child in children])
callosum.close(grace_s=0)
"""


@POSIX
@pytest.mark.parametrize("before", ["searched before", "not searched before"])
def test_a_fork_after_import_searches_in_every_child_and_in_the_parent(before, tmp_path, good_store):
    store = good_store("seren_loci", [{"id": "1", "key": "", "value": "larch"}])
    config = tmp_path / "c.yaml"
    config.write_text(CONFIG.format(url=store.url))
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(config), before], env=service_environment(tmp_path),
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 0, 0]\n", "")


def test_importing_and_building_starts_no_thread(tmp_path):
    code = (
        "import threading; from seren_corpus_callosum import Callosum, create_app, create_blueprint; "
        "one = Callosum.from_config(); create_app(one); create_blueprint(one); print(threading.active_count())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=service_environment(tmp_path),
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert done.stdout == "1\n"
