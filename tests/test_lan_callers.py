"""Callers on another address, through a network namespace of their own, where this machine allows one.

Where it does not, the rule is tried on parsed addresses only, in test_guard.py.
"""

import json
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from .support.service import Service

ASK = """
import http.client, json, sys
host, port, method, path, headers, body = json.loads(sys.argv[1])
connection = http.client.HTTPConnection(host, port, timeout=10)
connection.request(method, path, body=body, headers=headers)
answer = connection.getresponse()
print(json.dumps([answer.status, answer.read().decode()]))
"""


class Lan(NamedTuple):
    """A second machine as far as the network can tell: commands run in its namespace call this one at `here`."""

    namespace: str
    here: str
    there: str

    def ask(self, service: Service, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            sent["Content-Type"] = "application/json"
        asked = [self.here, service.port, method, path, sent, None if body is None else json.dumps(body)]
        command = ["ip", "netns", "exec", self.namespace, sys.executable, "-c", ASK, json.dumps(asked)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        status, text = json.loads(done.stdout)
        return status, text


def run(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=True, timeout=10)


@pytest.fixture(scope="module")
def lan() -> Iterator[Lan]:
    mark = secrets.token_hex(3)
    third = secrets.randbelow(250) + 1
    one = Lan(f"callosum-{mark}", f"10.213.{third}.1", f"10.213.{third}.2")
    inside, outside = f"in{mark}", f"out{mark}"
    with ExitStack() as stack:
        try:
            run("ip", "netns", "add", one.namespace)
            stack.callback(run, "ip", "netns", "delete", one.namespace)
            run("ip", "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", one.namespace)
            run("ip", "address", "add", f"{one.here}/24", "dev", outside)
            run("ip", "link", "set", outside, "up")
            run("ip", "-n", one.namespace, "address", "add", f"{one.there}/24", "dev", inside)
            run("ip", "-n", one.namespace, "link", "set", inside, "up")
        except (OSError, subprocess.SubprocessError):
            pytest.skip("this machine makes no network namespace; the rule is tried in test_guard.py")
        yield one


NEW = {"name": "new", "type": "seren_loci", "url": "http://127.0.0.1:9"}


def test_on_an_open_service_a_caller_of_the_lan_searches_and_changes_nothing(
    lan: Lan, service: Callable[..., Service]
) -> None:
    one = service("", env={"SEREN_SCC_HOST": "0.0.0.0"})
    assert "OPEN SERVICE" in one.stderr and "server.bearer_token" in one.stderr
    assert one.request("POST", "/stores", json=NEW).status_code == 201  # from loopback
    assert lan.ask(one, "POST", "/search", {"query": "x"})[0] == 200
    assert lan.ask(one, "GET", "/stores")[0] == 200
    assert lan.ask(one, "GET", "/")[0] == 200
    for method, path, body in (
        ("POST", "/stores", NEW | {"name": "second"}),
        ("POST", "/stores?check=only", NEW),
        ("PATCH", "/stores/new", {"weight": 2}),
        ("DELETE", "/stores/new", None),
    ):
        status, text = lan.ask(one, method, path, body)
        assert status == 403 and "server.allow_open_lan" in text, (method, path, text)
        status, text = lan.ask(one, method, path, body, X_Forwarded_For="127.0.0.1")
        assert status == 403, "a caller of the LAN said that it was loopback, and was believed"
    assert [row["name"] for row in one.request("GET", "/stores").json()["stores"]] == ["new"]
    assert lan.ask(one, "GET", "/stores", Host="evil.example")[0] == 403
    assert lan.ask(one, "GET", "/health", Host="evil.example")[0] == 200


def test_an_open_lan_lets_it_change_and_a_token_decides_alone(lan: Lan, service: Callable[..., Service]) -> None:
    opened = service("server: {allow_open_lan: true}", env={"SEREN_SCC_HOST": "0.0.0.0"})
    assert lan.ask(opened, "POST", "/stores", NEW)[0] == 201
    guarded = service("server: {bearer_token: t}", env={"SEREN_SCC_HOST": "0.0.0.0"})
    assert "OPEN SERVICE" not in guarded.stderr
    assert lan.ask(guarded, "GET", "/stores")[0] == 401
    assert lan.ask(guarded, "POST", "/stores", NEW)[0] == 401
    assert lan.ask(guarded, "POST", "/stores", NEW, Authorization="Bearer t")[0] == 201


def test_only_the_trusted_address_is_believed_about_its_clients(lan: Lan, service: Callable[..., Service]) -> None:
    believed = service(f"server: {{trusted_proxy: {lan.there}}}", env={"SEREN_SCC_HOST": "0.0.0.0"})
    assert lan.ask(believed, "POST", "/stores", NEW, X_Forwarded_For="127.0.0.1")[0] == 201
    assert lan.ask(believed, "DELETE", "/stores/new", X_Forwarded_For=lan.there)[0] == 403
    assert lan.ask(believed, "DELETE", "/stores/new")[0] == 403
    other = service("server: {trusted_proxy: 10.213.0.9}", env={"SEREN_SCC_HOST": "0.0.0.0"})
    assert lan.ask(other, "POST", "/stores", NEW, X_Forwarded_For="127.0.0.1")[0] == 403
