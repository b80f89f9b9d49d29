"""Where an added store may be: what its URL says at POST, what its name resolves to at connect, what a check echoes."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .roster_service import Local
from .support.checks import problem
from .support.goodstore import GoodStore, sample_hits
from .support.rawstore import RawStore

REFUSED_AT_CONNECT = "its host is a link-local or metadata address, refused to added stores"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Local]:
    with Local(tmp_path, "federation: {per_store_timeout_s: 0.5}") as one:
        yield one


def body_of(url: str) -> dict[str, Any]:
    return {"name": "new", "type": "seren_loci", "url": url}


MALFORMED = [
    "", " ", "localhost:7420", "127.0.0.1:7420", "//127.0.0.1", "ftp://x/", "file:///etc/passwd", "gopher://x",
    "unix:///run/x.sock", "javascript:alert(1)", "http://", "http:///search", "http://:80/", "http://user:pass@/",
    "http://[::1/", "http://::1/", "http://[::1]x/", "http://[]/", "http://[v1.x]/", "http://[1.2.3.4]/", "http://a..b/",
    "http://.a/", "http://exa mple/", "http://a%20b/", "http://a\\@b/", "http://a\tb/",
    "http://a\nb/", "http://a\x00b/", "http://a:port/", "http://a:-1/", "http://a:0/", "http://a:65536/", "http://a:١/",
    "http://a/?query", "http://a/#fragment", "http://" + "a" * 64 + ".b/", "http://a*b/", "http://a,b/", "http://a;b/",
    " http://127.0.0.1/", "data:,x",
]  # fmt: skip


def test_what_is_no_http_url_is_refused_at_post_and_by_a_check(service: Local) -> None:
    for url in MALFORMED:
        for query in ("", "?check=only"):
            told = problem(service.request("POST", f"/stores{query}", body_of(url)), 422, secrets=["user:pass"])
            assert list(told["errors"]) == ["url"], url
    assert service.roster() == {} and not service.overlay.exists()


def test_the_same_urls_in_a_file_cost_their_own_store_only(
    tmp_path: Path, good_store: Callable[..., GoodStore]
) -> None:
    good = good_store("seren_loci", sample_hits("seren_loci", 1))
    entries = [{"name": f"s{n}", "type": "seren_loci", "url": url} for n, url in enumerate(MALFORMED)]
    entries.append({"name": "good", "type": "seren_loci", "url": good.url})
    with Local(tmp_path, json.dumps({"federation": {"stores": entries}})) as service:
        body = service.search()
        assert body["stores_searched"] == ["good"] and len(body["hits"]) == 1
        assert [entry["name"] for entry in body["skipped"]] == [f"s{n}" for n in range(len(MALFORMED))]
        assert "user:pass" not in service.request("GET", "/stores").text


UNCALLABLE = ["１６９.２５４.１６９.２５４", "169。254。169。254", "①⑥⑨.254.169.254", "☃.example", "x\u200b.example",
              "x。y", "my_ü.internal"]  # fmt: skip


@pytest.mark.parametrize("host", UNCALLABLE, ids=ascii)
def test_a_host_that_no_call_would_reach_is_refused(service: Local, host: str) -> None:
    for query in ("", "?check=only"):
        told = problem(service.request("POST", f"/stores{query}", body_of(f"http://{host}:1")), 422)
        assert "expected a URL with a valid host" in told["errors"]["url"][0]
    assert service.roster() == {}


LINK_LOCAL = [
    "169.254.169.254", "169.254.0.1", "169.254.255.255", "169.254.169.254.",  # a trailing dot is a name's root
    "2852039166", "0xa9fea9fe", "0xA9.0xFE.0xA9.0xFE", "0251.0376.0251.0376", "025177524776", "169.16689662",
    "169.254.43518", "0xa9.254.0251.254", "169.0xfea9fe",
    "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[0:0:0:0:0:ffff:a9fe:a9fe]", "[::169.254.169.254]",
    "[64:ff9b::169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::a9fe:a9fe]", "[2002:a9fe:a9fe::1]",
    "[64:ff9b:1:a9fe:a9:fe00::]",
    "[2002:a9fe:a9fe::]", "[2001:0:a9fe:a9fe::5601:5601]", "[::ffff:0:169.254.169.254]",
    "[fe80::1]", "[fe80::1%25eth0]", "[FE80::a9fe:a9fe]", "[febf::1]",
    "[fd00:ec2::254]", "[fd20:ce::254]", "100.100.100.200", "192.0.0.192", "168.63.129.16",
]  # fmt: skip


def test_link_local_and_metadata_addresses_are_refused_in_every_spelling(service: Local) -> None:
    for host in LINK_LOCAL:
        for url in (f"http://{host}", f"https://{host}:8443/latest", f"http://ann:secret@{host}/"):
            for query in ("", "?check=only"):
                told = problem(service.request("POST", f"/stores{query}", body_of(url)), 422, secrets=["secret"])
                assert "link-local and metadata addresses are refused" in told["errors"]["url"][0], url
    assert service.roster() == {}


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "[::1]", "10.0.0.1", "192.168.1.20", "[fd12::1]", "169.253.255.255", "169.255.0.1", "[fec0::1]",
     "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "nas", "nas.local", "bücher.example", "xn--bcher-kva.example",
     "a_b.internal"],
)  # fmt: skip
def test_the_lan_and_loopback_are_where_stores_are(service: Local, host: str) -> None:
    answer = service.request("POST", "/stores", body_of(f"http://{host}:7422/base/"))
    assert answer.status_code == 201, answer.text
    assert answer.json()["url"] == f"http://{host}:7422/base"


ADDRESSES = [
    ["169.254.169.254"], ["169.254.1.1"], ["100.100.100.200"], ["fe80::1%2"], ["::ffff:169.254.169.254"],
    ["64:ff9b::a9fe:a9fe"], ["2002:a9fe:a9fe::"], ["fd00:ec2::254"], ["169.254.169.254", "fe80::1"],
]  # fmt: skip


def resolving_to(addresses: list[str], port: int) -> Callable[..., list[Any]]:
    """A getaddrinfo for which every name but this machine's has these addresses."""
    real = socket.getaddrinfo

    def look_up(host: Any, *arguments: Any, **named: Any) -> list[Any]:
        if host != "innocent.example":
            return real(host, *arguments, **named)
        found: list[Any] = []
        for address in addresses:
            six = ":" in address
            place = (address, port, 0, 0) if six else (address, port)
            found.append((socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_STREAM, 6, "", place))
        return found

    return look_up


@pytest.mark.parametrize("addresses", ADDRESSES, ids=str)
def test_a_name_that_resolves_to_a_link_local_address_is_never_connected_to(
    service: Local, monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    tried: list[Any] = []
    connect = socket.socket.connect

    def noted(self: socket.socket, place: Any) -> None:
        if place[0] in addresses:
            tried.append(place)
            raise ConnectionRefusedError
        connect(self, place)

    monkeypatch.setattr(socket.socket, "connect", noted)
    monkeypatch.setattr(socket, "getaddrinfo", resolving_to(addresses, 80))
    check = service.request("POST", "/stores?check=only", body_of("http://innocent.example")).json()
    assert (check["ok"], check["reason"]) == (False, f"unreachable: {REFUSED_AT_CONNECT}")
    service.add("new", "http://innocent.example")
    assert service.search()["skipped"] == [{"name": "new", "kind": "unreachable", "reason": REFUSED_AT_CONNECT}]
    assert tried == []


def test_of_several_addresses_the_allowed_ones_are_used(
    service: Local, monkeypatch: pytest.MonkeyPatch, good_store: Callable[..., GoodStore]
) -> None:
    store = good_store("seren_loci", sample_hits("seren_loci", 1))
    addresses = ["169.254.169.254", "127.0.0.1"]
    monkeypatch.setattr(socket, "getaddrinfo", resolving_to(addresses, store.port))
    service.add("new", f"http://innocent.example:{store.port}")
    assert service.search()["stores_searched"] == ["new"]


def test_a_base_store_may_be_where_its_owner_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = (
        "federation: {per_store_timeout_s: 0.2, stores: [{name: a, type: seren_loci, url: 'http://innocent.example'}]}"
    )
    tried: list[Any] = []

    def refuse(self: socket.socket, place: Any) -> None:
        tried.append(place)
        raise ConnectionRefusedError

    with Local(tmp_path, config) as service:
        with monkeypatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", resolving_to(["169.254.169.254"], 80))
            patch.setattr(socket.socket, "connect", refuse)
            packet = service.callosum.search("x")
        assert [skipped.failure.reason for skipped in packet.skipped] == ["connection refused"]
    assert tried == [("169.254.169.254", 80)]


SECRET = b"AKIA-EXAMPLE-SECRET"


def answers() -> list[bytes]:
    json_head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
    bodies = [
        SECRET, b"<html>" + SECRET, b'{"key": "' + SECRET + b'"}', b'["' + SECRET + b'"]',
        b'{"error": "' + SECRET + b'"}',
        b'{"hits": [], "error": "' + SECRET + b'"}', b'{"hits": "' + SECRET + b'"}',
        b'{"hits": [{"id": "' + SECRET + b'", "value": "' + SECRET + b'"}], "finder": "' + SECRET + b'"}',
        b'{"hits": [{"' + SECRET + b'": 1}], "searched_tiers": "' + SECRET + b'"}',
    ]  # fmt: skip
    whole = [json_head + b"Content-Length: %d\r\n\r\n" % len(body) + body for body in bodies]
    heads = [
        b"HTTP/1.1 200 " + SECRET + b"\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
        b"HTTP/1.1 500 " + SECRET + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://" + SECRET + b"/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 401 No\r\nWWW-Authenticate: " + SECRET + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        json_head + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(SECRET) + SECRET,
        json_head + b"Content-Length: " + SECRET + b"\r\n\r\n{}",
        json_head + b"Transfer-Encoding: chunked\r\n\r\n" + SECRET + b"\r\n",
        SECRET + b"\r\n\r\n", SECRET + b": " + SECRET + b"\r\n\r\n",
    ]  # fmt: skip
    return whole + heads


@pytest.mark.parametrize("answer", answers(), ids=lambda _: "")
def test_a_check_never_echoes_what_its_target_answered(
    service: Local, raw_store: Callable[..., RawStore], answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    def say(connection: Any) -> None:
        connection.read_request()
        connection.send(answer)

    target = raw_store(say)
    for query in ("?check=only", "?check=true"):
        told = service.request("POST", f"/stores{query}", body_of(target.url))
        assert told.status_code in (200, 201, 422)
        assert "AKIA" not in told.text + str(told.headers)
    shown = service.request("GET", "/stores").text + service.request("GET", "/").text
    assert "AKIA" not in shown + caplog.text
