"""Promises about the addresses of stores: what is taken, what is kept of it, which hosts an added store may name."""

import pytest

from seren_corpus_callosum.binding import Unbound, bind_all
from seren_corpus_callosum.errors import SettingError
from seren_corpus_callosum.stores import Store
from seren_corpus_callosum.urls import is_forbidden, literal_address, parse

HOST = "a URL with a valid host and port, such as http://127.0.0.1:7422"
SCHEME = "a URL that starts with http:// or https://"
SIGNS = "a URL without spaces, control characters or backslashes"
NAME = "a URL whose host is a name or an IP address"
TAIL = "a URL without ? or #"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("localhost:7420", SCHEME), ("127.0.0.1:7420", HOST + "|" + SCHEME), ("ftp://x/", SCHEME),
        ("file:///etc/passwd", SCHEME), ("//x/", SCHEME), ("x", SCHEME), ("", SCHEME), ("javascript:alert(1)", SCHEME),
        ("gopher://x", SCHEME), ("unix:///run/x.sock", SCHEME), ("httpss://x", SCHEME), ("http:x", HOST),
        ("http:/x", HOST), ("http://", HOST), ("https://", HOST), ("http:///search", HOST), ("http://[::1/", HOST),
        ("http://::1/", HOST), ("http://a..b/", HOST), ("http://.a/", HOST), ("http://.", HOST), ("http://:80/", HOST),
        ("http://user@/", HOST), ("http://user:pass@:80/", HOST), ("http://h:0/", HOST), ("http://h:65536/", HOST),
        ("http://h:-1/", HOST), ("http://h:abc/", HOST), ("http://h:80:80/", HOST), ("http://[::1]x/", HOST),
        ("http://[fe80::zz]/", HOST), ("http://[v1.a]/", HOST), ("http://" + "a" * 64 + ".test/", HOST),
        ("http://exa mple/", SIGNS), (" http://h/", SIGNS), ("http://h/ ", SIGNS), ("http://h\\@evil/", SIGNS),
        ("http://h/\x00", SIGNS), ("http://h/\r\nX: y", SIGNS), ("ht\ttp://h/", SIGNS), ("http://h/\u00a0", SIGNS),
        ("http://h/\u2028", SIGNS), ("http://%6cocalhost/", NAME), ("http://a,b/", NAME), ("http://a%00b/", NAME),
        ("http://<b>/", NAME), ("http://*/", NAME), ("http://h/?q=1", TAIL), ("http://h/#top", TAIL),
    ],
)  # fmt: skip
def test_a_url_that_cannot_work_is_refused_with_what_was_expected(url: str, expected: str) -> None:
    with pytest.raises(SettingError) as caught:
        parse(url)
    assert str(caught.value) in expected


@pytest.mark.parametrize(
    ("url", "kept", "host"),
    [
        ("http://127.0.0.1:7422", "http://127.0.0.1:7422", "127.0.0.1"),
        ("http://127.0.0.1:7422/", "http://127.0.0.1:7422", "127.0.0.1"),
        ("https://Store.Example/memory//", "https://Store.Example/memory", "store.example"),
        ("HTTP://h", "http://h", "h"),
        ("http://[::1]:7422/a/b", "http://[::1]:7422/a/b", "::1"),
        ("http://h.", "http://h.", "h."),
        ("http://my_store-1.lan:80", "http://my_store-1.lan:80", "my_store-1.lan"),
        ("http://h/?", "http://h", "h"),
        ("http://bücher.test", "http://bücher.test", "xn--bcher-kva.test"),
        ("http://bücher.example/", "http://bücher.example", "xn--bcher-kva.example"),
        ("http://straße.example/", "http://straße.example", "xn--strae-oqa.example"),
    ],
)
def test_a_url_is_kept_without_what_the_search_path_would_double(url: str, kept: str, host: str) -> None:
    parsed = parse(url)
    assert (parsed.url, parsed.host, parsed.credentials) == (kept, host, None)


@pytest.mark.parametrize(
    ("url", "kept", "credentials"),
    [
        ("http://user:pass@h:1/x", "http://h:1/x", ("user", "pass")),
        ("http://user@h", "http://h", ("user", "")),
        ("http://:pass@h", "http://h", ("", "pass")),
        ("http://u:p%40%3A%2F@h", "http://h", ("u", "p@:/")),
        ("http://u:p@ss@h", "http://h", ("u", "p@ss")),
        ("http://u:a:b@[::1]:9", "http://[::1]:9", ("u", "a:b")),
        ("http://ü:é@h", "http://h", ("ü", "é")),
    ],
)
def test_credentials_are_taken_out_of_a_url(url: str, kept: str, credentials: tuple[str, str]) -> None:
    parsed = parse(url)
    assert (parsed.url, parsed.credentials) == (kept, credentials)
    assert "pass" not in repr(parsed)


FORBIDDEN = [
    "169.254.169.254", "169.254.0.1", "2852039166", "0xA9FEA9FE", "0xa9.0xfe.0xa9.0xfe", "0251.0376.0251.0376",
    "169.254.43518", "169.16689662", "169.254.169.254.", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]",
    "[::169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[fe80::1]", "[fe80::1%25eth0]",
    "[fd00:ec2::254]", "[FD00:EC2::254]", "[fd20:ce::254]", "100.100.100.200", "192.0.0.192", "168.63.129.16",
    "[64:ff9b:1::a9fe:a9fe]", "[64:ff9b:1:a9fe:a9:fe00::]",
]  # fmt: skip


@pytest.mark.parametrize("host", FORBIDDEN)
def test_an_added_store_may_not_name_a_link_local_or_metadata_address(host: str) -> None:
    entry = {"name": "s", "type": "seren_loci", "url": f"http://{host}/"}
    (added,) = bind_all([entry], {}, managed=True)
    assert isinstance(added, Unbound)
    assert added.reason == "url: link-local and metadata addresses are refused to added stores"
    (base,) = bind_all([entry], {}, managed=False)
    assert isinstance(base, Store)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "[::1]", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "169.253.169.254", "169.255.0.1",
     "[fd00::1]", "[fec0::1]", "8.8.8.8", "localhost", "store.lan", "169-254-169-254.test"],
)  # fmt: skip
def test_an_added_store_may_name_loopback_lan_and_public_addresses(host: str) -> None:
    (added,) = bind_all([{"name": "s", "type": "seren_loci", "url": f"http://{host}:7422/"}], {}, managed=True)
    assert isinstance(added, Store)


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.1", "127.0.0.1"), ("0x7f.1", "127.0.0.1"), ("017700000001", "127.0.0.1"), ("::1", "::1"),
     ("2130706433", "127.0.0.1"), ("h", None), ("1.2.3.4.5", None), ("0x", None), ("256.1.1.1", None),
     ("1.2.3.4.test", None), ("99999999999", None)],
)  # fmt: skip
def test_every_spelling_of_an_address_is_seen_through(host: str, address: str | None) -> None:
    assert literal_address(host) == address


@pytest.mark.parametrize("address", ["", "store.lan", "1.2.3", "::ffff:10.0.0.1", "0.0.0.0", "::"])
def test_what_is_no_forbidden_address_is_none(address: str) -> None:
    assert not is_forbidden(address)


@pytest.mark.parametrize(
    "url",
    ["http://user:hunter2@a..b/", "http://user:hunter2@h:99999/", "ftp://user:hunter2@h/", "http://user:hunter2@h/?q",
     "http://user:hunter2@h/\n", "http://user:hunter2@ h/", "user:hunter2@h", ["http://user:hunter2@h/"],
     {"hunter2": 1}, "http://user:hunter2@[::1/"],
)  # fmt: skip
@pytest.mark.parametrize("key", ["url", "proxy"])
def test_a_faulty_address_is_not_echoed(key: str, url: object) -> None:
    entry = {"name": "s", "type": "seren_loci", "url": "http://h", key: url}
    (bound,) = bind_all([entry], {}, managed=False)
    assert isinstance(bound, Unbound)
    assert bound.reason.startswith(f"{key}: expected ")
    assert "hunter2" not in repr(bound)


@pytest.mark.parametrize("key", ["url", "proxy"])
def test_a_name_with_a_password_is_never_shown(key: str) -> None:
    entry = {"name": "s", "type": "seren_loci", "url": "http://h", key: "http://user:hunter2@127.0.0.1:1"}
    (bound,) = bind_all([entry], {}, managed=False)
    assert isinstance(bound, Store)
    assert "hunter2" not in repr(bound)


def test_a_token_wins_over_credentials_in_the_url_and_says_so() -> None:
    entry = {"name": "s", "type": "seren_loci", "url": "http://user:hunter2@h", "token": "t"}
    (bound,) = bind_all([entry], {}, managed=False)
    assert isinstance(bound, Store)
    assert bound.credentials is None
    assert bound.warnings == ("url: it holds a user and password, which are not used: the token wins",)
