"""Two replicas behind a real nginx and a real HAProxy, as docs/scale.md says: killed and drained under load."""

import os
import re
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.support.checks import REPO, require
from tests.support.net import free_port
from tests.support.process import ServerProcess, clean_environment
from tests.support.service import Service

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="proxies of the distribution")

CLIENTS = 6
LOAD_S = 0.7  # before and after the event

AROUND = """\
daemon off;
{user}
pid {folder}/nginx.pid;
error_log stderr warn;
worker_processes 1;
events {{ worker_connections 256; }}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{documented}
}}
"""


def documented(language):
    """The one sample of a language in docs/scale.md."""
    [sample] = re.findall(rf"^```{language}\n(.*?)^```", (REPO / "docs/scale.md").read_text(), re.MULTILINE | re.DOTALL)
    return sample


def at(ports, replicas, text):
    for standing, replica in zip(ports, replicas, strict=True):
        text = text.replace(f"127.0.0.1:{standing}", f"127.0.0.1:{replica.port}")
    return text


def nginx(folder, front, replicas):
    text = at(("7431", "7432"), replicas, documented("nginx").replace("listen 7423", f"listen 127.0.0.1:{front}"))
    user = "user root;" if os.geteuid() == 0 else ""
    file = folder / "nginx.conf"
    file.write_text(AROUND.format(folder=folder, user=user, documented=text))
    return ["nginx", "-e", "stderr", "-c", str(file)]


def haproxy(folder, front, replicas):
    file = folder / "haproxy.cfg"
    file.write_text(
        at(("7431", "7432"), replicas, documented("haproxy").replace("bind :7423", f"bind 127.0.0.1:{front}"))
    )
    return ["haproxy", "-db", "-f", str(file)]


@pytest.fixture(params=[nginx, haproxy], ids=["nginx", "haproxy"])
def site(request, service, good_store, tmp_path):
    """Two replicas on one configuration file over a store that takes 20 ms, and a proxy in front."""
    program = shutil.which(request.param.__name__, path=f"{os.environ['PATH']}:/usr/sbin")
    require(program, request.param.__name__)
    store = good_store("seren_loci", [{"id": "1", "key": "", "value": "larch"}])
    store.delay_s = 0.02
    config = documented("yaml").replace("http://127.0.0.1:7422", store.url)
    config = re.sub(r"^.*http://127\.0\.0\.1:7420.*\n", "", config, flags=re.MULTILINE)
    # The port is the only thing that tells them apart, so the second is started on the file of the first.
    token = {"MEMORY_TOKEN": "right"}
    first = service(config, folder=tmp_path / "shared", env=token)
    second = Service(tmp_path / "shared", config, env=token, port=free_port())
    second.folder = tmp_path / "second"
    second.folder.mkdir()
    front = free_port()
    folder = tmp_path / "proxy"
    folder.mkdir()
    _, *arguments = request.param(folder, front, (first, second))
    with second, ServerProcess([program, *arguments], folder, front, clean_environment(folder / "home")) as proxy:
        yield proxy, first, second, store
    assert "Traceback" not in second.stderr


def ask(url, path="/search", body=None, headers=None):
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = "Bearer right"
        return session.post(url + path, json=body, headers=headers, timeout=10)


class Load:
    """Searches without a pause from CLIENTS threads while the block runs; keeps what every one of them got."""

    def __init__(self, url):
        self.url = url
        self.seen = []
        self.ending = threading.Event()

    def __enter__(self):
        self.pool = ThreadPoolExecutor(CLIENTS)
        self.loops = [self.pool.submit(self.loop) for _ in range(CLIENTS)]
        return self

    def loop(self):
        while not self.ending.is_set():
            begun = time.monotonic()
            try:
                answer = ask(self.url, body={"query": "x"})
                got = answer.json()["stores_searched"] if answer.status_code == 200 else answer.status_code
            except requests.RequestException as error:
                got = repr(error)
            self.seen.append((begun, got))

    def run_on(self):
        """Goes on for LOAD_S, and until 20 more searches are done."""
        until, done = time.monotonic() + LOAD_S, len(self.seen) + 20
        while time.monotonic() < until or len(self.seen) < done:
            time.sleep(0.01)

    def run_until(self, fact, within_s=5.0):
        until = time.monotonic() + within_s
        while not fact():
            assert time.monotonic() < until
            time.sleep(0.02)

    def __exit__(self, *exc):
        self.ending.set()
        self.pool.shutdown()
        for loop in self.loops:
            loop.result()

    @property
    def failed(self):
        return [(begun, got) for begun, got in self.seen if got != ["facts"]]


def test_a_replica_killed_under_load_costs_no_search_but_one_whose_answer_was_on_its_way(site):
    proxy, first, second, _ = site
    with Load(proxy.url) as load:
        load.run_until(lambda: "POST /search 200" in said_since_its_start(first))
        load.run_on()
        killed = time.monotonic()
        first.kill()
        load.run_on()
        first.start()
        load.run_until(lambda: "POST /search 200" in said_since_its_start(first))
    # The other replica is asked again unless the head of an answer has come; nothing later may fail at all.
    assert [got for begun, got in load.failed if begun > killed or "IncompleteRead" not in str(got)] == []
    assert len(load.seen) >= 40
    assert "POST /search 200" in second.stderr


def said_since_its_start(replica):
    return replica.stderr.rsplit("listening on", 1)[1]


def test_replicas_stopped_one_after_the_other_under_load_fail_no_search(site):
    proxy, first, second, _ = site
    with Load(proxy.url) as load:
        for replica in (first, second):
            load.run_on()
            replica.signal(signal.SIGTERM)
            assert replica.wait(5) == 0
            replica.start()
            load.run_until(lambda one=replica: "POST /search 200" in said_since_its_start(one))
    assert load.failed == []


def test_replicas_are_one_callosum_to_those_who_add_stores_and_to_a_query_that_comes_back(site, good_store):
    proxy, first, second, _ = site
    added = good_store("seren_memory", [{"id": "2", "content": "pine"}])
    entry = {"name": "episodic", "type": "seren_memory", "url": added.url}
    assert ask(proxy.url, path="/stores", body=entry).status_code == 201
    for url in (first.url, second.url, proxy.url, proxy.url):
        assert ask(url, body={"query": "x"}).json()["stores_searched"] == ["facts", "episodic"]
        looped = ask(url, body={"query": "x"}, headers={"Via": "1.1 callosum-memory"}).json()
        assert [entry["kind"] for entry in looped["skipped"]] == ["loop", "loop"]
