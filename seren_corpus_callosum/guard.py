"""Who may do what: one pure decision for HTTP and /mcp alike. No I/O, no clock, no web framework.

Whatever cannot be read for certain counts against the caller.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal

from . import settings, tokens
from .errors import BadMediaType, Forbidden, Problem, Unauthorized

UNKNOWN = "unknown"  # the word of RFC 7239 for a client whose address cannot be told
LOCAL_DOMAINS = (".localhost", ".local", ".internal", ".home.arpa")
FORWARDING = frozenset({"forwarded", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"})
DEFAULT_PORTS = {"http": 80, "https": 443}

_ADDRESS = re.compile(r"[0-9A-Fa-f:.]{2,45}(?:%[0-9A-Za-z._~-]{1,32})?")
_LABEL = r"[0-9A-Za-z_-]{1,63}"
_AUTHORITY = re.compile(
    rf"(?:\[(?P<six>[^\]]+)\]|(?P<name>{_LABEL}(?:\.{_LABEL})*)\.?)(?::(?P<port>[0-9]{{0,5}}))?",
)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_COMMENT = re.compile(r"\([^()]*\)")


class Action(Enum):
    """What a request is about to do."""

    HEALTH = auto()  # no rule at all
    PUBLIC = auto()  # the page and /: no bearer
    WELL_KNOWN = auto()  # /.well-known/*: no bearer, so that no client goes looking for OAuth
    READ = auto()  # search, GET /stores, and every unknown path
    CHANGE = auto()  # POST, PATCH and DELETE of /stores
    MCP = auto()  # reading, from pages of our own only


@dataclass(frozen=True, slots=True)
class Ask:
    """A request as WSGI tells it: header names in lower case, values as latin-1 text, repeats joined with a comma."""

    remote: str | None
    method: str
    headers: Mapping[str, str]
    has_body: bool = False
    scheme: str = "http"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the settings say about callers; `guest` is a blueprint in someone else's application."""

    token: tokens.Token | None
    allow_open_lan: bool = False
    allowed_hosts: tuple[str, ...] = ()
    trusted_proxy: str = ""
    own_names: tuple[str, ...] = ()
    guest: bool = False


def refuse(ask: Ask, action: Action, rules: Rules, *, host_allows: bool = False) -> Problem | None:
    """Return the problem that this request is answered with, or None if it may go on.

    The first that applies: 401, then 403 for the Host, the origin, an open service's change rule, then 415.
    `host_allows` says that the embedding application allowed this action: it stands for the bearer and for what an
    open service asks; origin and content type are looked at all the same.
    """
    if action is Action.HEALTH:
        return None
    public = action in (Action.PUBLIC, Action.WELL_KNOWN)
    is_open = rules.token is None and not host_allows
    if not (public or is_open or host_allows or has_right_bearer(ask, rules)):
        return Unauthorized("this service wants one header `Authorization: Bearer <token>` with its token")
    problem = _host_problem(ask, rules) if is_open and not rules.guest else None
    if problem is None and action in (Action.CHANGE, Action.MCP):
        problem = _origin_problem(ask, rules)
    if problem is None and action is Action.CHANGE and is_open:
        problem = _open_change_problem(ask, rules)
    if problem is None and not public:
        problem = _media_problem(ask)
    return problem


def has_right_bearer(ask: Ask, rules: Rules) -> bool:
    """Tell whether a token is configured and the request carries it: the scheme, one space, the token, once."""
    scheme, _, presented = ask.headers.get("authorization", "").partition(" ")
    if rules.token is None or not presented or scheme.lower() != "bearer":
        return False
    try:
        return tokens.same(presented.encode("latin-1"), rules.token)
    except UnicodeEncodeError:
        return False


def client_address(ask: Ask, rules: Rules) -> str:
    """Return the client's IP address, or "unknown"; what is no address is never passed on.

    It is the peer's; behind `trusted_proxy` it is the last entry of X-Forwarded-For, the one that proxy appended, and
    "unknown" if the proxy sends none. A peer on a unix socket is "unknown".
    """
    if not _from_trusted_proxy(ask, rules):
        address = _address(ask.remote or "")
    else:
        last = _last_entry(ask.headers.get("x-forwarded-for", ""))
        address = _address(last)
        parsed = _authority(last) if address is None else None
        if parsed is not None:
            address = _address(parsed[0])
    return UNKNOWN if address is None else str(address)


def client_scheme(ask: Ask, rules: Rules) -> Literal["http", "https"]:
    """Return the scheme that the client used; X-Forwarded-Proto counts from `trusted_proxy` only, its last entry."""
    scheme = ask.scheme
    if _from_trusted_proxy(ask, rules):
        told = _last_entry(ask.headers.get("x-forwarded-proto", "")).lower()
        scheme = told if told in DEFAULT_PORTS else scheme
    return "https" if scheme == "https" else "http"


def is_loopback(host: str) -> bool:
    """Tell whether an address to listen on is reached from this machine only."""
    address = _address(host.strip("[]"))
    return host == "localhost" if address is None else address.is_loopback


def is_loopback_client(ask: Ask, rules: Rules) -> bool:
    """Tell whether the request began on this machine, for all that can be seen.

    A peer on a unix socket is not: what connects there is most often a proxy. Neither is a request with a forwarding
    header from any peer but `trusted_proxy`, nor one through that proxy without X-Forwarded-For, or with more than the
    proxy's own entry in it (a tunnel on this machine stood before the proxy).
    """
    if _from_trusted_proxy(ask, rules):
        if "," in ask.headers.get("x-forwarded-for", ""):
            return False
    elif _is_forwarded(ask.headers):
        return False
    address = _address(client_address(ask, rules))
    return address is not None and address.is_loopback


def _host_problem(ask: Ask, rules: Rules) -> Problem | None:
    parsed = _authority(ask.headers.get("host", ""))
    if parsed is None:
        return Forbidden(
            "the Host header is missing or malformed: call this service by a name in server.allowed_hosts or by its "
            "IP address, or configure server.bearer_token"
        )
    name, port = parsed
    port = DEFAULT_PORTS[client_scheme(ask, rules)] if port is None else port
    if _is_configured(name, port, rules) or _is_local_name(name):
        return None
    return Forbidden(
        f"this service does not answer to the Host {name!r}: add it to server.allowed_hosts, or configure "
        "server.bearer_token"
    )


def _is_configured(name: str, port: int, rules: Rules) -> bool:
    listed = [_authority(_to_ascii(entry)) for entry in (*rules.allowed_hosts, *rules.own_names)]
    return any(entry[0] == name and entry[1] in (None, port) for entry in listed if entry is not None)


def _is_local_name(name: str) -> bool:
    if _address(name) is not None or name.endswith(LOCAL_DOMAINS):
        return True
    # A bare number is another spelling of an IP address to some resolvers and a name to others.
    return "." not in name and _NUMBER.fullmatch(name) is None


def _origin_problem(ask: Ask, rules: Rules) -> Problem | None:
    site, origin = ask.headers.get("sec-fetch-site"), ask.headers.get("origin")
    if site in ("same-origin", "none") or (site is None and (origin is None or _is_own_origin(origin, ask, rules))):
        return None
    return Forbidden(
        "this request comes from a page of another origin: use the page that this service serves; a reverse proxy must "
        "pass Host on, and server.trusted_proxy must name it if it speaks https"
    )


def _is_own_origin(origin: str, ask: Ask, rules: Rules) -> bool:
    scheme, _, rest = origin.partition("://")
    theirs, ours = _authority(rest), _authority(ask.headers.get("host", ""))
    if scheme not in DEFAULT_PORTS or theirs is None or ours is None:
        return False
    their_port = DEFAULT_PORTS[scheme] if theirs[1] is None else theirs[1]
    our_port = DEFAULT_PORTS[client_scheme(ask, rules)] if ours[1] is None else ours[1]
    return (theirs[0], their_port) == (ours[0], our_port)


def _open_change_problem(ask: Ask, rules: Rules) -> Problem | None:
    if rules.guest:
        return Forbidden(
            "without a token this service is read-only here: configure server.bearer_token, or give create_blueprint "
            "an authorize function"
        )
    if rules.allow_open_lan or is_loopback_client(ask, rules):
        return None
    return Forbidden(
        "without a token, stores are changed from this machine only, and not through a proxy or a tunnel: configure "
        "server.bearer_token, or set server.allow_open_lan: true"
    )


def _media_problem(ask: Ask) -> Problem | None:
    if not ask.has_body or ask.method not in ("POST", "PATCH", "DELETE"):
        return None
    if ask.headers.get("content-encoding", "").strip(" \t").lower() not in ("", "identity"):
        return BadMediaType("send the body as it is, without Content-Encoding")
    media_type = ask.headers.get("content-type", "").partition(";")[0].strip(" \t").lower()
    return None if media_type == "application/json" else BadMediaType("send the body as Content-Type: application/json")


def _from_trusted_proxy(ask: Ask, rules: Rules) -> bool:
    proxy = _address(rules.trusted_proxy)
    return proxy is not None and _address(ask.remote or "") == proxy


def _is_forwarded(headers: Mapping[str, str]) -> bool:
    if any(name in FORWARDING or name.startswith("x-forwarded") for name in headers):
        return True
    hops = _COMMENT.sub("", headers["via"]).split(",") if "via" in headers else ()
    return any(settings.CALLOSUM_HOP.fullmatch(hop.strip(" \t")) is None for hop in hops)


def _last_entry(value: str) -> str:
    return value.rpartition(",")[2].strip(" \t")


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an IP address, an IPv4-mapped one as the IPv4 address that it is; a zone id stays part of it."""
    try:
        address = ip_address(text) if _ADDRESS.fullmatch(text) else None
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _authority(text: str) -> tuple[str, int | None] | None:
    """Read `host` or `host:port` into a lower-case name or normal address, and the port if it is given."""
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        return None
    six = match["six"]
    address = _address(six or "")
    port = int(match["port"]) if match["port"] else None
    if (six is not None and (address is None or ":" not in six)) or (port is not None and port > 65535):
        return None
    return (match["name"].lower() if address is None else str(address)), port


def _to_ascii(entry: str) -> str:
    """Write a configured name the way that browsers send it; one that IDNA would turn into another name is left."""
    if entry.isascii():
        return entry
    try:
        sent = entry.encode("idna")
        return sent.decode("ascii") if sent.decode("idna") == entry.lower() else entry
    except UnicodeError:
        return entry
