"""A corporate network: every https store stands behind a CONNECT proxy that opens TLS and signs with its own CA."""

import contextlib
import importlib.util
import socket
import ssl
import subprocess
import sys

import pytest
import trustme

from tests.support.checks import require
from tests.support.net import free_port
from tests.support.proxy import ESTABLISHED
from tests.support.service import service_environment

STORE_HOST = "facts.corp.example"  # a name that only the proxy can resolve
ANSWER = {"stores_searched": ["facts"], "skipped": []}


class Network:
    """The store behind its own CA, the proxy in between, and the CA that the company tells everybody to trust."""

    def __init__(self, folder, raw_store, good_store):
        public = trustme.CA()
        self.store = good_store("seren_loci", [{"id": "1", "key": "", "value": "larch"}], tls=served(public))
        self.store.token = "of-the-store"
        company = trustme.CA(organization_name="Company TLS inspection")
        self.ca = folder / "company.pem"
        company.cert_pem.write_to_path(self.ca)
        self.inspecting = served(company)
        self.upstream = ssl.create_default_context()
        public.configure_trust(self.upstream)
        self.proxy = raw_store(self.inspect)

    def inspect(self, conn):
        connect = conn.read_request()
        assert connect.path == f"{STORE_HOST}:443", connect.path
        conn.send(ESTABLISHED)
        with contextlib.suppress(ssl.SSLError, ConnectionError):  # a client that does not trust us leaves
            conn.start_tls(self.inspecting)
            while True:
                request = conn.read_request()
                with (
                    socket.create_connection(("127.0.0.1", self.store.port), 5) as plain,
                    self.upstream.wrap_socket(plain, server_hostname=STORE_HOST) as there,
                ):
                    there.sendall(request.raw.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
                    while data := there.recv(65536):
                        conn.send(data.replace(b"Connection: close\r\n", b""))

    @property
    def config(self):
        return f"""\
federation:
  stores:
    - name: facts
      type: seren_loci
      url: https://{STORE_HOST}
      token: of-the-store
      proxy: {self.proxy.url}
"""

    @property
    def opened(self):
        """What the proxy read inside of TLS."""
        return [request for request in self.proxy.requests if request.method == "POST"]


def served(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(STORE_HOST).configure_cert(context)
    return context


@pytest.fixture
def network(tmp_path, raw_store, good_store):
    return Network(tmp_path, raw_store, good_store)


def searched(body):
    return {key: body[key] for key in ANSWER}


def test_without_the_companys_ca_the_store_is_skipped_and_nothing_is_sent(network, service):
    body = service(network.config).search("secret plans")
    assert body["stores_searched"] == []
    [skipped] = body["skipped"]
    assert (skipped["name"], skipped["kind"]) == ("facts", "unreachable")
    assert skipped["reason"].endswith("name its authority in tls.ca_bundle")
    assert network.opened == []
    assert network.store.requests == []


def test_with_ca_bundle_the_store_answers_through_the_proxy_that_inspects(network, service, tmp_path):
    folder = tmp_path / "service"
    folder.mkdir()
    (folder / "company.pem").write_bytes(network.ca.read_bytes())
    one = service("tls: {ca_bundle: company.pem}\n" + network.config, folder=folder)
    assert searched(one.search("x")) == ANSWER
    assert [request.path for request in network.store.searches] == ["/search"]
    assert network.opened[0].headers["host"] == STORE_HOST


def test_with_the_systems_trust_store_it_answers_too(network, service):
    require(importlib.util.find_spec("truststore"), "truststore")
    one = service("tls: {trust_system_store: true}\n" + network.config, env={"SSL_CERT_FILE": str(network.ca)})
    assert searched(one.search("x")) == ANSWER


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_variable_alone_makes_nothing_trusted(variable, network, service):
    body = service(network.config, env={variable: str(network.ca)}).search("x")
    assert [entry["kind"] for entry in body["skipped"]] == ["unreachable"]
    assert network.opened == []


def test_the_proxy_is_one_stores_own_and_the_environments_are_ignored(network, service, good_store):
    near = good_store("seren_memory", [{"id": "2", "content": "pine"}])
    dead = f"http://127.0.0.1:{free_port()}"
    environment = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"), dead)
    config = (
        f"tls: {{ca_bundle: '{network.ca}'}}\n{network.config}"
        f"    - {{name: near, type: seren_memory, url: '{near.url}'}}\n"
    )
    body = service(config, env=environment).search("x")
    assert searched(body) == {"stores_searched": ["facts", "near"], "skipped": []}
    assert {request.path for request in network.proxy.requests if request.method == "CONNECT"} == {f"{STORE_HOST}:443"}


def test_check_names_what_is_missing_in_a_network_that_inspects(network, tmp_path):
    (tmp_path / "c.yaml").write_text(network.config)
    done = subprocess.run(
        [sys.executable, "-m", "seren_corpus_callosum", "-c", "c.yaml", "check"], cwd=tmp_path,
        env=service_environment(tmp_path), capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    [line] = [line for line in done.stdout.splitlines() if line.startswith("facts: FAILED")]
    assert line.endswith("name its authority in tls.ca_bundle")


GUEST = """\
import ssl, sys
import requests, urllib3
from seren_corpus_callosum import Callosum

before = ssl.SSLContext, urllib3.util.ssl_.SSLContext, requests.adapters.HTTPAdapter.init_poolmanager
with Callosum.from_config(sys.argv[1]) as callosum:
    packet = callosum.search("x")
    print(*packet.stores_searched)
after = ssl.SSLContext, urllib3.util.ssl_.SSLContext, requests.adapters.HTTPAdapter.init_poolmanager
print(before == after, ssl.SSLContext.__module__)
"""


def test_the_systems_trust_store_is_for_our_stores_and_never_for_the_hosts_own_tls(network, tmp_path):
    require(importlib.util.find_spec("truststore"), "truststore")
    (tmp_path / "c.yaml").write_text("tls: {trust_system_store: true}\n" + network.config)
    done = subprocess.run(
        [sys.executable, "-c", GUEST, "c.yaml"], cwd=tmp_path,
        env=service_environment(tmp_path, {"SSL_CERT_FILE": str(network.ca)}),
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("facts\nTrue ssl\n", "")
