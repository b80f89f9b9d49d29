"""A real nginx before the service, set up as docs/security.md says: who its clients are, and what it passes on."""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from .support.checks import REPO, problem, require
from .support.net import free_port
from .support.service import Service

NEW = {"name": "new", "type": "seren_loci", "url": "http://127.0.0.1:9"}


def sample() -> str:
    """The server block of docs/security.md."""
    text = (REPO / "docs" / "security.md").read_text(encoding="utf-8")
    found = re.search(r"```nginx\n(.*?)```", text, re.DOTALL)
    assert found, "docs/security.md has no nginx sample"
    return found[1]


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Starts nginx with the sample before a service; returns its URL."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    require(program, "nginx")
    started: list[subprocess.Popen[bytes]] = []

    def start(service: Service) -> str:
        port = free_port()
        server = sample().replace("listen 443 ssl;", f"listen 127.0.0.1:{port};").replace(":7423", f":{service.port}")
        server = re.sub(r"\n *ssl_[^;]*;", "", server)
        folder = tmp_path / f"nginx-{port}"
        folder.mkdir()
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        places = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
        # Of root's nginx the workers are somebody else, who may not enter the folders of this test.
        user = "user root;" if os.geteuid() == 0 else ""
        (folder / "nginx.conf").write_text(
            f"{user} daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;\n"
            f"events {{ worker_connections 64; }}\nhttp {{ access_log off; {places} {server} }}\n"
        )
        command = [str(program), "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        started.append(process)
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return f"http://127.0.0.1:{port}"
            except OSError:
                said = (folder / "error.log").read_text() if (folder / "error.log").exists() else ""
                assert process.poll() is None and time.monotonic() < deadline, said
                time.sleep(0.02)

    yield start
    for process in started:
        process.terminate()
        process.wait(10)


def ask(method: str, url: str, **kwargs: Any) -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False
        return session.request(method, url, timeout=10, **kwargs)


def test_behind_nginx_a_loopback_client_changes_and_a_claim_to_be_one_is_not_believed(
    service: Callable[..., Service], nginx: Callable[..., str]
) -> None:
    one = service("server: {trusted_proxy: 127.0.0.1}")
    front = nginx(one)
    assert ask("POST", f"{front}/stores", json=NEW).status_code == 201  # nginx says 127.0.0.1, and it is so
    assert ask("POST", f"{front}/search", json={"query": "x"}).status_code == 200
    claimed = {"X-Forwarded-For": "192.168.1.20"}
    problem(ask("DELETE", f"{front}/stores/new", headers=claimed), 403)
    problem(ask("DELETE", f"{front}/stores/new", headers={"X-Forwarded-For": "127.0.0.1"}), 403)
    problem(one.request("DELETE", "/stores/new"), 403)  # straight from the proxy's address, saying nothing
    assert ask("DELETE", f"{front}/stores/new").status_code == 200


def test_behind_nginx_the_host_and_origin_are_those_of_the_browser(
    service: Callable[..., Service], nginx: Callable[..., str]
) -> None:
    one = service("server: {trusted_proxy: 127.0.0.1, allowed_hosts: [memory.example]}")
    front = nginx(one)
    assert ask("GET", f"{front}/stores", headers={"Host": "memory.example"}).status_code == 200
    problem(ask("GET", f"{front}/stores", headers={"Host": "evil.example"}), 403)
    own = {"Host": "memory.example", "Origin": "http://memory.example"}
    assert ask("POST", f"{front}/stores", json=NEW, headers=own).status_code == 201
    foreign = {"Host": "memory.example", "Origin": "http://evil.example"}
    problem(ask("DELETE", f"{front}/stores/new", headers=foreign), 403)


def test_behind_nginx_401_stays_401_and_the_token_and_odd_names_pass(
    service: Callable[..., Service], nginx: Callable[..., str]
) -> None:
    one = service("server: {trusted_proxy: 127.0.0.1, bearer_token: t}")
    front = nginx(one)
    answer = ask("GET", f"{front}/stores")
    problem(answer, 401)
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    bearer = {"Authorization": "Bearer t"}
    assert ask("POST", f"{front}/stores", json={**NEW, "name": "日本 %2F?"}, headers=bearer).status_code == 201
    assert ask("DELETE", f"{front}/stores/%E6%97%A5%E6%9C%AC%20%252F%3F", headers=bearer).status_code == 200
    assert ask("GET", f"{front}/health").status_code == 200


def test_an_nginx_that_is_not_trusted_makes_everybody_a_stranger(
    service: Callable[..., Service], nginx: Callable[..., str]
) -> None:
    one = service("")
    front = nginx(one)
    assert ask("GET", f"{front}/stores").status_code == 200
    told = problem(ask("POST", f"{front}/stores", json=NEW), 403)
    assert "server.bearer_token" in told["detail"]
