"""What the address of a store may be: its shape, the credentials inside it, and the hosts it may not name."""

import ipaddress
import re
import socket
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit

from .errors import SettingError

# Cloud metadata services that are not in a link-local range.
METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192", "168.63.129.16")
)
# IPv6 ranges whose last 32 bits are an IPv4 address: compatible, translated (SIIT), NAT64 and its local prefix.
CARRIERS = tuple(ipaddress.IPv6Network(text) for text in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"))
LOCAL_NAT64 = CARRIERS[-1]  # where a /48 is the prefix, RFC 6052 puts the address around the ninth byte


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """A store's address without credentials, and the credentials that stood in it."""

    url: str
    host: str
    credentials: tuple[str, str] | None = field(default=None, repr=False)


def parse(text: str) -> StoreUrl:
    """Split a store's URL, or raise SettingError saying what is wrong with it, without showing credentials."""
    if re.search(r"[\s\x00-\x1f\x7f\\]", text):
        raise SettingError("a URL without spaces, control characters or backslashes")
    try:
        parts = urlsplit(text)
        port = parts.port
        host = parts.hostname
        host_ascii = _ascii(host or "")
    except (ValueError, UnicodeError):
        raise SettingError("a URL with a valid host and port, such as http://127.0.0.1:7422") from None
    if parts.scheme not in ("http", "https"):
        raise SettingError("a URL that starts with http:// or https://")
    netloc = parts.netloc.rpartition("@")[2]
    # urlsplit takes what stands between a bracket and the colon for nothing, and any text for an address in brackets.
    shape = r"\[[^\]]+:[^\]]+\](:[0-9]*)?" if "[" in netloc else r"[^\[\]:]+(:[0-9]*)?"
    if not host or not host_ascii or port == 0 or not re.fullmatch(shape, netloc):
        raise SettingError("a URL with a valid host and port, such as http://127.0.0.1:7422")
    if ":" in host:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise SettingError("a URL with a valid IPv6 address in brackets") from None
    elif not re.fullmatch(rb"[A-Za-z0-9._-]+", host_ascii):
        raise SettingError("a URL whose host is a name or an IP address")
    else:
        host = host_ascii.decode()  # full-width digits spell an address too, as the resolver reads them
    if parts.query or parts.fragment:
        raise SettingError("a URL without ? or #")
    credentials = None
    if parts.username is not None:
        credentials = (unquote(parts.username), unquote(parts.password or ""))
    return StoreUrl(urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", "")), host, credentials)


def _ascii(host: str) -> bytes:
    """The host as it is looked up; UnicodeError for one that urllib3 will not call."""
    if host.isascii():
        return b"ip6" if ":" in host else host.encode("idna")
    import idna  # what urllib3 uses, and no start needs

    return idna.encode(host.lower(), strict=True, std3_rules=True)


def literal_address(host: str) -> str | None:
    """The IP address that a host spells, decimal, octal and hexadecimal spellings included; None for a name."""
    try:
        return str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        pass
    if not re.fullmatch(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+)){0,3}\.?", host, re.IGNORECASE):
        return None
    try:
        return socket.inet_ntoa(socket.inet_aton(host.rstrip(".")))
    except OSError:
        return None


def is_forbidden(address: str) -> bool:
    """Whether an IP address is link-local or a cloud's metadata service, also inside an IPv6 one."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        inner = [ip.ipv4_mapped, ip.sixtofour, (ip.teredo or (None, None))[1]]
        if any(ip in carrier for carrier in CARRIERS):
            inner.append(ipaddress.IPv4Address(ip.packed[12:]))
        if ip in LOCAL_NAT64:
            inner.append(ipaddress.IPv4Address(ip.packed[6:8] + ip.packed[9:11]))
        if any(is_forbidden(str(one)) for one in inner if one is not None):
            return True
    return ip.is_link_local or ip in METADATA
