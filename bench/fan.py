"""The whole service next to a bare fan, in one run, as ratios: `python bench/fan.py [--rounds N]`.

The stub stores and the service run in processes of their own; the bare fan is a ThreadPoolExecutor in this process that
makes the cheapest correct requests call to each store and decodes the answers, without merging, serving or suspending.
"""

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

HERE = Path(__file__).parent
QUERY = {"query": "what do you know about the boat?", "n_results": 10}
CLIENTS = 16
TURNS = 10  # of the two in alternation, so that a noisy moment falls on both


class BareFan:
    def __init__(self, ports, clients):
        self.pool = ThreadPoolExecutor(len(ports) * clients)
        self.calls = []
        for port in ports:
            session = requests.Session()
            session.trust_env = False
            session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=clients))
            request = session.prepare_request(
                requests.Request("POST", f"http://127.0.0.1:{port}/search", json={**QUERY, "n_results": 20})
            )
            self.calls.append((session, request))

    @staticmethod
    def ask(call):
        session, request = call
        return session.send(request, timeout=5, allow_redirects=False).json()["hits"]

    def search(self):
        return [future.result() for future in [self.pool.submit(self.ask, call) for call in self.calls]]


class Client:
    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.body = json.dumps(QUERY)

    def search(self):
        self.connection.request("POST", "/search", self.body, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        body = json.loads(response.read())
        assert response.status == 200 and not body["skipped"] and body["hits"], body


def milliseconds(search, rounds):
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        search()
        taken.append((time.perf_counter() - started) * 1000)
    return taken


def per_second(searches, seconds):
    counts = [0] * len(searches)
    end = time.perf_counter() + seconds

    def run(index):
        while time.perf_counter() < end:
            searches[index]()
            counts[index] += 1

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(searches))]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - started)


def serving(ports, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    stores = [{"name": f"s{port}", "type": "seren_loci", "url": f"http://127.0.0.1:{port}"} for port in ports]
    config = Path(folder) / "bench.yaml"
    config.write_text(json.dumps({"server": {"host": "127.0.0.1", "port": port}, "federation": {"stores": stores}}))
    environ = {key: value for key, value in os.environ.items() if not key.startswith("SEREN_SCC_")}
    command = [sys.executable, "-m", "seren_corpus_callosum", "-c", str(config)]
    process = subprocess.Popen(command, env={**environ, "SEREN_SCC_LOG_LEVEL": "warning"})
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return process, port
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the service did not start")


def measure(count, rounds, seconds):
    stubs = subprocess.Popen([sys.executable, HERE / "stubs.py", str(count)], stdout=subprocess.PIPE, text=True)
    ports = [int(port) for port in stubs.stdout.readline().split()]
    with tempfile.TemporaryDirectory() as folder:
        service, port = serving(ports, folder)
        try:
            client, bare = Client(port), BareFan(ports, 1)
            milliseconds(client.search, 50), milliseconds(bare.search, 50)
            ours, theirs = [], []
            for _ in range(TURNS):
                theirs += milliseconds(bare.search, rounds // TURNS)
                ours += milliseconds(client.search, rounds // TURNS)
            bare_many = BareFan(ports, CLIENTS)
            clients = [Client(port) for _ in range(CLIENTS)]
            rates_ours, rates_theirs = [], []
            for _ in range(TURNS):
                rates_theirs.append(per_second([bare_many.search] * CLIENTS, seconds / TURNS))
                rates_ours.append(per_second([one.search for one in clients], seconds / TURNS))
        finally:
            service.terminate()
            stubs.terminate()
            service.wait(10)
            stubs.wait(10)
    p50, bare_p50 = statistics.median(ours), statistics.median(theirs)
    p99, bare_p99 = statistics.quantiles(ours, n=100)[98], statistics.quantiles(theirs, n=100)[98]
    rate, bare_rate = statistics.median(rates_ours), statistics.median(rates_theirs)
    print(
        f"{count:3} stores | 1 client: p50 {p50:6.2f} ms, bare {bare_p50:6.2f} ms, ratio {p50 / bare_p50:.2f}"
        f"; p99 {p99:6.2f} ms, bare {bare_p99:6.2f} ms"
        f" | {CLIENTS} clients: {rate:6.1f}/s, bare {bare_rate:6.1f}/s, ratio {rate / bare_rate:.2f}",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=400, help="searches of one client for each figure")
    parser.add_argument("--seconds", type=float, default=10.0, help="of 16 clients for each figure")
    parser.add_argument("--stores", type=int, nargs="*", default=[2, 8, 32])
    arguments = parser.parse_args()
    for stores in arguments.stores:
        measure(stores, arguments.rounds, arguments.seconds)
