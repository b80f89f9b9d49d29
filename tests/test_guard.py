"""Who may do what: every caller against every action, and the oddities one by one."""

from itertools import product

import pytest

from seren_corpus_callosum.guard import (
    Action,
    Ask,
    Rules,
    client_address,
    client_scheme,
    has_right_bearer,
    is_loopback_client,
    refuse,
)
from seren_corpus_callosum.tokens import Token

TOKEN = Token("voil\u00e0", "inline")
RIGHT = "Bearer voil\u00c3\u00a0"  # the token's UTF-8 bytes, as WSGI shows them
PROXY = "10.0.0.5"

# The table: each caller is a row of plain facts, and `verdict` says the rules over those facts only.

BEARERS = {  # what is configured and sent -> (is a token configured, is the right one sent)
    "no token configured": (None, None, False),
    "no token configured, one sent": (None, RIGHT, False),
    "right": (TOKEN, RIGHT, True),
    "missing": (TOKEN, None, False),
    "wrong": (TOKEN, "Bearer voila", False),
    "odd bytes": (TOKEN, "Bearer \xff\xfe\x80", False),
    "two headers": (TOKEN, f"{RIGHT},{RIGHT}", False),
}
PEERS = {  # peer, its X-Forwarded-For, is it a loopback client
    "loopback": ("127.0.0.1", None, True),
    "LAN address": ("192.168.1.77", None, False),
    "loopback with X-Forwarded-For": ("127.0.0.1", "127.0.0.1", False),
    "trusted proxy for the LAN": (PROXY, "127.0.0.1, 192.168.1.77", False),
    "trusted proxy for loopback": (PROXY, "127.0.0.1", True),
    "trusted proxy that does not say": (PROXY, None, False),
}
HOSTS = {  # the Host, is it one of ours
    "localhost:7423": True,
    "evil.example:7423": False,
    "callosum:7423": True,
    "192.168.1.20:7423": True,
}
ORIGINS = {  # the Origin (OWN: that of the Host), does it pass where Sec-Fetch-Site is absent
    None: True,
    "OWN": True,
    "http://foreign.example": False,
    "null": False,
}
SITES = {  # Sec-Fetch-Site, does it pass (None: the Origin decides)
    None: None,
    "same-origin": True,
    "none": True,
    "same-site": False,
    "cross-site": False,
}
BODIES = {  # content type (None: no body), does it pass
    None: True,
    "application/json": True,
    "text/plain": False,
}
METHODS = {
    Action.HEALTH: ("GET",),
    Action.PUBLIC: ("GET",),
    Action.WELL_KNOWN: ("GET",),
    Action.READ: ("GET", "POST"),
    Action.CHANGE: ("POST", "PATCH", "DELETE"),
    Action.MCP: ("GET", "POST"),
}
SETTINGS = {  # allow_open_lan, guest, host_allows
    "alone": (False, False, False),
    "open LAN": (True, False, False),
    "guest": (True, True, False),
    "guest, allowed by the host": (False, True, True),
}


def verdict(action, method, *, token, bearer, loopback, ours, own, json, open_lan, guest, host_allows):
    """The rules of the security page, said over facts: the status and a word of the detail, or None."""
    if action is Action.HEALTH:
        return None
    needs_bearer = action in (Action.READ, Action.CHANGE, Action.MCP)
    if token and needs_bearer and not bearer and not host_allows:
        return 401, "Authorization: Bearer"
    if not token and not guest and not host_allows and not ours:
        return 403, "server.allowed_hosts"
    if action in (Action.CHANGE, Action.MCP) and not own:
        return 403, "another origin"
    if action is Action.CHANGE and not token and not host_allows:
        if guest:
            return 403, "read-only"
        if not open_lan and not loopback:
            return 403, "server.allow_open_lan"
    if needs_bearer and method != "GET" and not json:
        return 415, "application/json"
    return None


@pytest.mark.parametrize("action", Action, ids=lambda action: action.name)
def test_every_caller_gets_what_the_rules_say(action):
    seen = set()
    for (
        (token, authorization, bearer),
        (remote, forwarded_for, loopback),
        (host, ours),
        (origin, own_by_origin),
        (site, own_by_site),
        (content_type, json),
        method,
    ) in product(
        BEARERS.values(), PEERS.values(), HOSTS.items(), ORIGINS.items(), SITES.items(), BODIES.items(), METHODS[action]
    ):
        headers = {
            "host": host,
            "authorization": authorization,
            "x-forwarded-for": forwarded_for,
            "origin": f"http://{host}" if origin == "OWN" else origin,
            "sec-fetch-site": site,
            "content-type": content_type,
        }
        ask = Ask(
            remote=remote,
            method=method,
            headers={name: value for name, value in headers.items() if value is not None},
            has_body=content_type is not None,
            scheme="http",
        )
        for open_lan, guest, host_allows in SETTINGS.values():
            rules = Rules(token=token, allow_open_lan=open_lan, trusted_proxy=PROXY, guest=guest)
            expected = verdict(
                action,
                method,
                token=token is not None,
                bearer=bearer,
                loopback=loopback,
                ours=ours,
                own=own_by_origin if own_by_site is None else own_by_site,
                json=json,
                open_lan=open_lan,
                guest=guest,
                host_allows=host_allows,
            )
            problem = refuse(ask, action, rules, host_allows=host_allows)
            seen.add(expected)
            if expected is None:
                assert problem is None, (ask, rules)
            else:
                assert problem is not None, (ask, rules)
                assert problem.status == expected[0], (ask, rules)
                assert expected[1] in problem.detail, (ask, rules)
    assert {status for status, _ in filter(None, seen)} == {
        Action.HEALTH: set(),
        Action.PUBLIC: {403},
        Action.WELL_KNOWN: {403},
        Action.READ: {401, 403, 415},
        Action.CHANGE: {401, 403, 415},
        Action.MCP: {401, 403, 415},
    }[action]


def ask(remote="127.0.0.1", method="GET", *, has_body=False, scheme="http", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
    return Ask(remote=remote, method=method, headers={"host": "localhost", **named}, has_body=has_body, scheme=scheme)


def status(problem):
    return None if problem is None else problem.status


OPEN = Rules(token=None)
LOCKED = Rules(token=TOKEN)
BEHIND = Rules(token=None, trusted_proxy="127.0.0.1")


# The bearer.


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_the_scheme_is_taken_in_any_case(scheme):
    assert refuse(ask(authorization=f"{scheme} voil\u00c3\u00a0"), Action.READ, LOCKED) is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        "voil\u00c3\u00a0",
        " " + RIGHT,
        RIGHT + " ",
        "Bearer  voil\u00c3\u00a0",
        "Bearer\tvoil\u00c3\u00a0",
        "Bearer:voil\u00c3\u00a0",
        "Basic voil\u00c3\u00a0",
        "Token voil\u00c3\u00a0",
        "Bearer voil\u00e0",  # the token in latin-1 bytes
        "Bearer voila\u0300",  # text that a broken server decoded
        "Bearer \u043f\u0430\u0440\u043e\u043b\u044c",
        "Bearer \ud800",
        "Bearer voil\u00c3",
        "Bearer VOIL\u00c3\u00a0",
        f"{RIGHT}, {RIGHT}",
        f"{RIGHT},Basic eDp5",
        f"Basic eDp5, {RIGHT}",
        f"{RIGHT}, ",
        "Bearer " + "x" * 100_000,
    ],
)
def test_anything_but_the_scheme_one_space_and_the_token_is_401(value):
    problem = refuse(ask(authorization=value), Action.READ, LOCKED)
    assert status(problem) == 401
    assert problem.headers == {"WWW-Authenticate": "Bearer"}
    assert "voil" not in problem.detail


@pytest.mark.parametrize("token", ["a=b==", "two words", "a,b", "Bearer x", "\u65e5\u672c"])
def test_a_token_of_any_shape_is_recognised(token):
    rules = Rules(token=Token(token, "inline"))
    sent = "Bearer " + token.encode("utf-8").decode("latin-1")
    assert refuse(ask(authorization=sent), Action.READ, rules) is None
    assert status(refuse(ask(authorization=sent + "x"), Action.READ, rules)) == 401


def test_an_empty_token_lets_nobody_in():
    rules = Rules(token=Token("", "inline"))
    assert [status(refuse(ask(authorization=sent), Action.READ, rules)) for sent in ("Bearer ", "Bearer", None)] == [
        401,
        401,
        401,
    ]


@pytest.mark.parametrize(
    ("action", "method"),
    [(Action.READ, "POST"), (Action.CHANGE, "POST"), (Action.MCP, "GET"), (Action.MCP, "POST"), (Action.READ, "BREW")],
)
def test_401_comes_before_host_origin_content_type_and_open_rules(action, method):
    worst = ask(
        "203.0.113.9",
        method,
        has_body=True,
        host="evil.example",
        origin="null",
        sec_fetch_site="cross-site",
        content_type="text/plain",
    )
    assert status(refuse(worst, action, LOCKED)) == 401


@pytest.mark.parametrize("action", [Action.PUBLIC, Action.WELL_KNOWN, Action.HEALTH])
def test_public_paths_need_no_bearer_and_take_any_host_when_a_token_is_configured(action):
    assert refuse(ask("203.0.113.9", host="evil.example"), action, LOCKED) is None


@pytest.mark.parametrize("host", ["evil.example", "", "a b", None])
def test_with_the_token_any_host_works(host):
    sent = ask("203.0.113.9", "POST", has_body=True, authorization=RIGHT, content_type="application/json", host=host)
    assert refuse(sent, Action.CHANGE, LOCKED) is None
    sent = Ask(remote=None, method="GET", headers={"authorization": RIGHT})
    assert refuse(sent, Action.READ, LOCKED) is None


def test_health_is_answered_whatever_is_asked():
    sent = Ask(remote=None, method="POST", headers={"host": "evil.example", "origin": "null"}, has_body=True)
    assert refuse(sent, Action.HEALTH, OPEN) is None


@pytest.mark.parametrize(
    ("rules", "authorization", "right"),
    [(LOCKED, RIGHT, True), (LOCKED, "Bearer no", False), (LOCKED, None, False), (OPEN, RIGHT, False)],
)
def test_a_right_bearer_can_be_told_by_itself(rules, authorization, right):
    assert has_right_bearer(ask(authorization=authorization), rules) is right


# The Host.


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:7423",
        "LOCALHOST:7423",
        "localhost.",
        "localhost.:7423",
        "localhost:",
        "evil.localhost",
        "127.0.0.1",
        "127.0.0.1:7423",
        "127.8.8.8:1",
        "[::1]",
        "[::1]:7423",
        "[::ffff:127.0.0.1]:7423",
        "[fe80::1%25eth0]:7423",
        "192.168.1.20:7423",
        "203.0.113.9",
        "0.0.0.0:7423",
        "callosum",
        "CALLOSUM:7423",
        "my_container:7423",
        "xn--mller-kva",
        "box.local:7423",
        "a.b.internal",
        "nas.home.arpa",
    ],
)
def test_an_open_service_answers_to_loopback_address_single_label_and_home_names(host):
    assert refuse(ask(host=host), Action.READ, OPEN) is None


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        " ",
        "evil.example",
        "evil.example:7423",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1.nip.io",
        "box.local.evil.example",
        "notlocal.locals",
        "home.arpa",
        ".local",
        ".localhost",
        "localhost..",
        ".",
        "..",
        "a..local",
        "localhost, evil.example",
        "localhost,localhost",
        "evil.example, localhost",
        "localhost evil.example",
        " localhost",
        "localhost ",
        "localhost\t",
        "localhost\n",
        "user@localhost",
        "localhost@evil.example",
        "evil.example#localhost",
        "http://localhost",
        "localhost/",
        "localhost\\",
        "local%68ost",
        "%5B::1%5D",
        "localhost:http",
        "localhost:-1",
        "localhost:65536",
        "localhost:123456",
        "localhost:80:80",
        "localhost:\u0661",
        ":7423",
        "::1",
        "::1:7423",
        "fe80::1%eth0",
        "[::1",
        "::1]",
        "[]",
        "[::1]x",
        "[::1]:x",
        "[127.0.0.1]",
        "[localhost]",
        "[::g]",
        "[::1%]",
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0X7F000001:7423",
        "0x",
        "127.1",
        "0177.0.0.1",
        "256.0.0.1",
        "1.2.3.4.5",
        "m\u00fcller",
        "m\u00c3\u00bcller",
        "\uff4cocalhost",
        "localhost\u3002",
        "local\u212aost",
        "a" * 64,
        "<script>.local",
        "*",
        "*.local",
    ],
)
def test_an_open_service_refuses_foreign_and_malformed_hosts_and_names_the_setting(host):
    sent = ask(host=host) if host is not None else Ask(remote="127.0.0.1", method="GET", headers={})
    for action in (Action.PUBLIC, Action.WELL_KNOWN, Action.READ, Action.CHANGE, Action.MCP):
        problem = refuse(sent, action, OPEN)
        assert status(problem) == 403
        assert "server.allowed_hosts" in problem.detail
        assert "<" not in problem.detail


def test_open_lan_does_not_open_the_host_rule():
    rules = Rules(token=None, allow_open_lan=True)
    assert status(refuse(ask(host="evil.example"), Action.READ, rules)) == 403


@pytest.mark.parametrize(
    ("entry", "host", "answers"),
    [
        ("mem.example", "mem.example", True),
        ("mem.example", "mem.example:7423", True),
        ("Mem.Example", "mEM.eXAMPLE.:1", True),
        ("mem.example.", "mem.example", True),
        ("mem.example", "sub.mem.example", False),
        ("mem.example", "mem.example.evil.example", False),
        ("mem.example", "xmem.example", False),
        ("mem.example:8443", "mem.example:8443", True),
        ("mem.example:8443", "mem.example:8444", False),
        ("mem.example:8443", "mem.example", False),
        ("mem.example:80", "mem.example", True),
        ("mem.example:80", "mem.example:", True),
        ("mem.example:80", "mem.example:8080", False),
        ("mem.example:443", "mem.example", False),
        ("m\u00fcller.example", "xn--mller-kva.example", True),
        ("M\u00dcLLER.example:7423", "xn--mller-kva.example:7423", True),
        ("xn--mller-kva.example", "xn--mller-kva.example", True),
        ("stra\u00dfe.example", "strasse.example", False),
        ("\u00fc" * 80 + ".example", "evil.example", False),
        ("2130706433", "2130706433:7423", True),
        ("*", "evil.example", False),
        ("*.example", "evil.example", False),
        ("evil.*", "evil.example", False),
        ("mem.example:*", "mem.example:7423", False),
        ("", "evil.example", False),
        ("", "", False),
        (".example", "evil.example", False),
        ("http://mem.example", "mem.example", False),
    ],
)
def test_allowed_hosts_are_names_or_names_with_a_port_and_nothing_else(entry, host, answers):
    problem = refuse(ask(host=host), Action.READ, Rules(token=None, allowed_hosts=("other.example", entry)))
    assert status(problem) == (None if answers else 403)


def test_a_name_with_port_443_is_meant_when_the_trusted_proxy_says_https():
    rules = Rules(token=None, allowed_hosts=("mem.example:443",), trusted_proxy="127.0.0.1")
    assert refuse(ask(host="mem.example", x_forwarded_proto="https"), Action.READ, rules) is None
    assert status(refuse(ask(host="mem.example"), Action.READ, rules)) == 403


def test_the_machines_own_names_are_answered_to():
    rules = Rules(token=None, own_names=("Desk.Corp.Example", "172"))
    assert refuse(ask(host="desk.corp.example:7423"), Action.READ, rules) is None
    assert refuse(ask(host="172:7423"), Action.READ, rules) is None
    assert status(refuse(ask(host="other.corp.example:7423"), Action.READ, rules)) == 403


def test_a_forwarded_host_is_never_believed():
    sent = ask(host="evil.example", x_forwarded_host="localhost", forwarded="host=localhost")
    assert status(refuse(sent, Action.READ, BEHIND)) == 403


# Pages of other origins.


@pytest.mark.parametrize("action", [Action.CHANGE, Action.MCP])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("rules", [OPEN, LOCKED], ids=["open", "token"])
def test_a_foreign_page_neither_changes_anything_nor_reaches_mcp(action, method, rules):
    sent = ask(method=method, authorization=RIGHT, origin="http://evil.example")
    assert status(refuse(sent, action, rules)) == 403
    assert status(refuse(sent, action, rules, host_allows=True)) == 403


@pytest.mark.parametrize(
    ("site", "passes"),
    [
        ("same-origin", True),
        ("none", True),
        ("same-site", False),
        ("cross-site", False),
        ("", False),
        ("Same-Origin", False),
        ("same-origin ", False),
        ("same-origin, same-origin", False),
        ("same-origin,none", False),
        ("null", False),
        ("*", False),
        ("\xff", False),
    ],
)
def test_sec_fetch_site_decides_where_it_is_sent(site, passes):
    expected = None if passes else 403
    assert status(refuse(ask(sec_fetch_site=site), Action.MCP, OPEN)) == expected
    assert status(refuse(ask(sec_fetch_site=site, origin="null"), Action.MCP, OPEN)) == expected
    assert status(refuse(ask(sec_fetch_site=site, origin="http://localhost"), Action.MCP, OPEN)) == expected


@pytest.mark.parametrize(
    ("host", "origin", "passes"),
    [
        ("localhost:7423", "http://localhost:7423", True),
        ("LOCALHOST:7423", "http://localhost:7423", True),
        ("localhost", "http://localhost", True),
        ("localhost", "http://localhost:80", True),
        ("localhost:80", "http://localhost", True),
        ("localhost:443", "https://localhost", True),
        ("[::1]:7423", "http://[::1]:7423", True),
        ("[0:0::1]:7423", "http://[::1]:7423", True),
        ("mem.example.:7423", "http://mem.example:7423", True),
        ("localhost", "https://localhost", False),
        ("localhost:7423", "http://localhost", False),
        ("localhost:7423", "http://localhost:7424", False),
        ("localhost:7423", "http://127.0.0.1:7423", False),
        ("localhost:7423", "http://evil.localhost:7423", False),
        ("localhost:7423", "http://localhost.evil.example:7423", False),
        ("localhost:7423", "null", False),
        ("localhost:7423", "NULL", False),
        ("localhost:7423", "", False),
        ("localhost:7423", "localhost:7423", False),
        ("localhost:7423", "//localhost:7423", False),
        ("localhost:7423", "HTTP://localhost:7423", False),
        ("localhost:7423", "file://localhost:7423", False),
        ("localhost:7423", "tauri://localhost:7423", False),
        ("localhost:7423", "javascript://localhost:7423", False),
        ("localhost:7423", "http://localhost:7423/", False),
        ("localhost:7423", "http://localhost:7423?x", False),
        ("localhost:7423", "http://user@localhost:7423", False),
        ("localhost:7423", "http://localhost:7423, http://localhost:7423", False),
        ("localhost:7423", "http://evil.example, http://localhost:7423", False),
        ("localhost:7423", "http://localhost:7423 ", False),
        ("localhost:7423", "http://localhost:7423\x00", False),
        ("localhost:7423", "http://\xff", False),
        ("localhost:7423", "*", False),
        ("", "http://", False),
        ("a b", "http://a b", False),
        (None, "http://localhost", False),
    ],
)
def test_an_origin_is_our_own_when_its_host_and_port_are_those_of_the_host(host, origin, passes):
    headers = {"authorization": RIGHT, "origin": origin} | ({} if host is None else {"host": host})
    sent = Ask(remote="192.168.1.77", method="POST", headers=headers)
    assert status(refuse(sent, Action.CHANGE, LOCKED)) == (None if passes else 403)


@pytest.mark.parametrize(
    ("remote", "passes"), [("127.0.0.1", True), ("127.0.0.2", False)], ids=["trusted proxy", "someone else"]
)
def test_https_is_ours_when_the_trusted_proxy_says_so(remote, passes):
    rules = Rules(token=TOKEN, trusted_proxy="127.0.0.1")
    sent = ask(remote, host="mem.example", origin="https://mem.example", x_forwarded_proto="https", authorization=RIGHT)
    assert status(refuse(sent, Action.MCP, rules)) == (None if passes else 403)


def test_a_program_that_sends_no_origin_is_welcome():
    assert refuse(ask(method="POST"), Action.CHANGE, OPEN) is None
    assert refuse(ask(method="POST"), Action.MCP, OPEN) is None


@pytest.mark.parametrize("action", [Action.READ, Action.PUBLIC, Action.WELL_KNOWN])
def test_reading_asks_for_no_origin(action):
    assert refuse(ask(origin="null", sec_fetch_site="cross-site"), action, OPEN) is None


# Content types.


@pytest.mark.parametrize(
    ("content_type", "passes"),
    [
        ("application/json", True),
        ("Application/JSON", True),
        ("application/json; charset=utf-8", True),
        ("application/json;charset=latin-1", True),
        (" application/json ; x=y", True),
        ("text/plain", False),
        ("text/plain; application/json", False),
        ("application/x-www-form-urlencoded", False),
        ("multipart/form-data; boundary=application/json", False),
        ("application/jsonp", False),
        ("application/json-patch+json", False),
        ("application/problem+json", False),
        ("text/json", False),
        ("json", False),
        ("application/json, application/json", False),
        ("text/plain, application/json", False),
        ("\xa0application/json", False),
        ("", False),
        (None, False),
    ],
)
@pytest.mark.parametrize(
    ("action", "method"),
    [
        (Action.READ, "POST"),
        (Action.CHANGE, "POST"),
        (Action.CHANGE, "PATCH"),
        (Action.CHANGE, "DELETE"),
        (Action.MCP, "POST"),
    ],
)
def test_a_body_must_be_json(action, method, content_type, passes):
    sent = ask(method=method, has_body=True, content_type=content_type)
    assert status(refuse(sent, action, OPEN)) == (None if passes else 415)


@pytest.mark.parametrize("content_type", [None, "text/plain", ""])
def test_a_request_without_a_body_needs_no_content_type(content_type):
    assert refuse(ask(method="DELETE", content_type=content_type), Action.CHANGE, OPEN) is None
    assert refuse(ask(method="POST", content_type=content_type), Action.READ, OPEN) is None


@pytest.mark.parametrize("action", [Action.PUBLIC, Action.WELL_KNOWN, Action.HEALTH])
def test_public_paths_look_at_no_body(action):
    assert refuse(ask(method="POST", has_body=True, content_type="text/plain"), action, OPEN) is None


def test_a_body_on_a_get_is_of_no_interest():
    assert refuse(ask(has_body=True, content_type="text/plain"), Action.READ, OPEN) is None


@pytest.mark.parametrize(
    ("fixed", "says"),
    [
        ((), "server.allowed_hosts"),
        (("host",), "another origin"),
        (("host", "origin"), "server.allow_open_lan"),
        (("host", "origin", "remote"), "application/json"),
    ],
)
def test_an_open_service_says_host_then_origin_then_open_rule_then_content_type(fixed, says):
    bad = {"remote": "192.168.1.77", "host": "evil.example", "origin": "null"}
    good = {"remote": "127.0.0.1", "host": "localhost", "origin": "http://localhost"}
    sent = bad | {name: good[name] for name in fixed}
    problem = refuse(
        ask(sent.pop("remote"), "POST", has_body=True, content_type="text/plain", **sent), Action.CHANGE, OPEN
    )
    assert says in problem.detail


# Whose request it is.


@pytest.mark.parametrize(
    ("remote", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.255.255.254", True),
        ("::1", True),
        ("::1%lo", True),
        ("0:0:0:0:0:0:0:1", True),
        ("::ffff:127.0.0.1", True),
        ("::FFFF:7f00:1", True),
        ("::ffff:127.0.0.1%1", True),
        ("192.168.1.77", False),
        ("::ffff:192.168.1.77", False),
        ("::127.0.0.1", False),
        ("fe80::1%eth0", False),
        ("0.0.0.0", False),
        ("::", False),
        ("128.0.0.1", False),
        ("127.1", False),
        ("0177.0.0.1", False),
        ("2130706433", False),
        ("127.0.0.1 ", False),
        ("127.0.0.1:5000", False),
        ("[::1]", False),
        ("localhost", False),  # what waitress says of a unix socket
        ("unix:", False),
        ("unix:/run/callosum.sock", False),
        ("", False),
        (None, False),
    ],
)
def test_an_open_service_is_changed_from_loopback_only(remote, loopback):
    sent = ask(remote, "DELETE")
    assert is_loopback_client(sent, OPEN) is loopback
    problem = refuse(sent, Action.CHANGE, OPEN)
    assert status(problem) == (None if loopback else 403)
    assert loopback or ("server.allow_open_lan" in problem.detail and "server.bearer_token" in problem.detail)
    assert refuse(sent, Action.READ, OPEN) is None
    assert refuse(sent, Action.CHANGE, Rules(token=None, allow_open_lan=True)) is None


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("forwarded", "for=127.0.0.1"),
        ("forwarded", 'for=";"'),
        ("forwarded", ""),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-for", ""),
        ("x-forwarded-proto", "javascript"),
        ("x-forwarded-host", "localhost"),
        ("x-forwarded-prefix", '"><script>'),
        ("x-forwarded-anything", "1"),
        ("x-real-ip", "127.0.0.1"),
        ("cf-connecting-ip", "127.0.0.1"),
        ("via", "1.1 nginx"),
        ("via", "HTTP/1.1 proxy.example:3128"),
        ("via", "1.1 callosum-a, 1.1 nginx"),
        ("via", "1.1 nginx, 1.1 callosum-a"),
        ("via", "1.1 callosum-a (x, 1.1 nginx"),
        ("via", "1.1 callosum-a (x, 1.1 nginx (squid)"),
        ("via", "1.1 callosum-a 1.1 nginx"),
        ("via", "1.1 notcallosum-a"),
        ("via", "1.1 callosum-"),
        ("via", "1.1 callosum"),
        ("via", "1.1 (callosum-a)"),
        ("via", "2.0 callosum-a"),
        ("via", "1.1 callosum-a,"),
        ("via", "1.1 callosum-" + "a" * 65),
        ("via", "1.1 callosum-a:3128"),
        ("via", "\xff"),
        ("via", ""),
    ],
)
def test_a_forwarded_request_is_no_loopback_client(header, value):
    sent = Ask(remote="127.0.0.1", method="POST", headers={"host": "localhost", header: value})
    assert not is_loopback_client(sent, OPEN)
    problem = refuse(sent, Action.CHANGE, OPEN)
    assert status(problem) == 403
    assert "server.allow_open_lan" in problem.detail
    assert "<" not in problem.detail
    assert refuse(sent, Action.READ, OPEN) is None


@pytest.mark.parametrize(
    "via",
    [
        "1.1 callosum-3f2a",
        "1.1 callosum-a, 1.1 callosum-b",
        "1.1 callosum-a,1.1 callosum-b ,  1.1 callosum-c",
        "1.1 callosum-a (one hop, or two), 1.1 callosum-b (1.1 x)",
        "1.1 callosum-desk.corp_1-x",
    ],
)
def test_another_callosum_is_no_proxy(via):
    assert refuse(ask(method="POST", via=via), Action.CHANGE, OPEN) is None


@pytest.mark.parametrize(
    ("forwarded_for", "address", "loopback"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "::1", True),
        ("[::1]:5000", "::1", True),
        ("127.0.0.1:5000", "127.0.0.1", True),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        (" 127.0.0.1\t", "127.0.0.1", True),
        ("192.168.1.77", "192.168.1.77", False),
        ("127.0.0.1, 192.168.1.77", "192.168.1.77", False),
        ("127.0.0.1,127.0.0.1,203.0.113.9", "203.0.113.9", False),
        ("203.0.113.9, 127.0.0.1", "127.0.0.1", False),  # a tunnel on this machine stands before the proxy
        (", 127.0.0.1", "127.0.0.1", False),
        ("127.0.0.1,", "unknown", False),
        ("127.0.0.1, ", "unknown", False),
        ("", "unknown", False),
        (None, "unknown", False),
        ("unknown", "unknown", False),
        ("localhost", "unknown", False),
        ('"127.0.0.1"', "unknown", False),
        ("127.0.0.1;x", "unknown", False),
        ("127.0.0.1 x", "unknown", False),
        ("2130706433", "unknown", False),
        ("\x1b[31m", "unknown", False),
        ("<script>", "unknown", False),
        ("::1%\x1b", "unknown", False),
        ("\xff", "unknown", False),
    ],
)
def test_behind_the_trusted_proxy_x_forwarded_for_tells_the_client(forwarded_for, address, loopback):
    sent = ask(method="POST", x_forwarded_for=forwarded_for, x_forwarded_proto="https", x_real_ip="127.0.0.1")
    assert client_address(sent, BEHIND) == address
    assert is_loopback_client(sent, BEHIND) is loopback
    assert status(refuse(sent, Action.CHANGE, BEHIND)) == (None if loopback else 403)


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("192.168.1.77", "192.168.1.77"),
        ("::ffff:192.168.1.77", "192.168.1.77"),
        ("FE80::1%eth0", "fe80::1%eth0"),
        ("localhost", "unknown"),
        ("unix:", "unknown"),
        ("", "unknown"),
        (None, "unknown"),
        ("127.0.0.1\n", "unknown"),
    ],
)
def test_the_log_shows_the_peer_when_nobody_is_trusted(remote, address):
    assert client_address(ask(remote, x_forwarded_for="203.0.113.9"), OPEN) == address


@pytest.mark.parametrize(
    ("proxy", "remote", "trusted"),
    [
        ("10.0.0.5", "10.0.0.5", True),
        ("10.0.0.5", "::ffff:10.0.0.5", True),
        ("::ffff:10.0.0.5", "10.0.0.5", True),
        ("2001:DB8::5", "2001:db8:0::5", True),
        ("fe80::1%eth0", "fe80::1%eth0", True),
        ("fe80::1", "fe80::1%eth0", False),
        ("10.0.0.5", "10.0.0.50", False),
        ("10.0.0.0/24", "10.0.0.5", False),
        ("*", "10.0.0.5", False),
        ("proxy.example", "proxy.example", False),
        ("", "", False),
        ("", None, False),
        ("unix:", "unix:", False),
        ("localhost", "localhost", False),
    ],
)
def test_one_exact_address_is_the_trusted_proxy(proxy, remote, trusted):
    rules = Rules(token=None, trusted_proxy=proxy)
    sent = ask(remote, x_forwarded_for="203.0.113.9", x_forwarded_proto="https")
    assert (client_address(sent, rules) == "203.0.113.9") is trusted
    assert client_scheme(sent, rules) == ("https" if trusted else "http")


@pytest.mark.parametrize(
    ("scheme", "told", "expected"),
    [
        ("http", "https", "https"),
        ("http", "HTTPS", "https"),
        ("https", "http", "http"),
        ("http", "http, https", "https"),
        ("http", "https, http", "http"),
        ("http", None, "http"),
        ("https", None, "https"),
        ("http", "", "http"),
        ("https", "javascript", "https"),
        ("http", "https;", "http"),
        ("javascript", None, "http"),
    ],
)
def test_the_trusted_proxy_tells_the_scheme_if_it_is_one(scheme, told, expected):
    assert client_scheme(ask(scheme=scheme, x_forwarded_proto=told), BEHIND) == expected


# Inside someone else's application.


def test_a_guest_without_a_token_is_read_only_and_has_no_host_rule():
    guest = Rules(token=None, allow_open_lan=True, guest=True)
    assert refuse(ask(host="portal.example"), Action.READ, guest) is None
    assert refuse(ask(host="portal.example"), Action.PUBLIC, guest) is None
    problem = refuse(ask(method="DELETE", host="portal.example"), Action.CHANGE, guest)
    assert status(problem) == 403
    assert "server.bearer_token" in problem.detail
    assert "authorize" in problem.detail


def test_a_hosts_yes_stands_for_the_bearer_and_the_open_rules():
    remote = ask("203.0.113.9", "DELETE", host="portal.example")
    for rules in (OPEN, LOCKED, Rules(token=None, guest=True), Rules(token=TOKEN, guest=True)):
        assert refuse(remote, Action.CHANGE, rules, host_allows=True) is None
        assert refuse(remote, Action.READ, rules, host_allows=True) is None


def test_a_guest_with_a_token_takes_it():
    guest = Rules(token=TOKEN, guest=True)
    assert refuse(ask("203.0.113.9", "DELETE", authorization=RIGHT), Action.CHANGE, guest) is None
    assert status(refuse(ask("203.0.113.9", "DELETE"), Action.CHANGE, guest)) == 401
