"""The only module that speaks HTTP outward. One total deadline over every phase of a call, a cap on what it may answer.

How a call is aborted in each phase, and what was measured, stands in docs/transport.md.
"""

import copy
import json
import math
import re
import ssl
import threading
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import requests
import requests.adapters
import urllib3
from requests.utils import DEFAULT_CA_BUNDLE_PATH, get_auth_from_url

from .connections import POOLS, Call, doing, store_error
from .errors import StoreError
from .hits import Json
from .stores import Store

BODY_LIMIT_BYTES = 4 * 1024 * 1024  # of decoded body
VALUES_LIMIT = 250_000  # objects, lists and what stands in them; of ten thousand hits there are fewer


class Trust:
    """Which certificate authorities the stores' TLS may use; the context is built when a store first needs it."""

    def __init__(self, *, trust_system_store: bool = False, ca_bundle: str | None = None) -> None:
        self._system = trust_system_store
        self._ca_bundle = ca_bundle
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        with self._lock:
            if self._context is None:
                self._context = self._built()
            return self._context

    def _built(self) -> ssl.SSLContext:
        if self._system:
            import truststore

            context: ssl.SSLContext = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if self._ca_bundle:
                context.load_verify_locations(self._ca_bundle)
            return context
        return ssl.create_default_context(cafile=self._ca_bundle or DEFAULT_CA_BUNDLE_PATH)


class _Adapter(requests.adapters.HTTPAdapter):
    """requests' adapter over abortable connections, for the one address of one store."""

    def __init__(self, url: str, size: int, trust: Trust, proxy: str | None) -> None:
        parts = urlsplit(url)
        self._host: dict[str, Any] = {"scheme": parts.scheme, "host": parts.hostname, "port": parts.port}
        self._trust = trust
        self._proxy = proxy
        self._pool: urllib3.HTTPConnectionPool | None = None
        super().__init__(pool_connections=1, pool_maxsize=size)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **kwargs: Any) -> None:
        super().init_poolmanager(connections, maxsize, block, **kwargs)
        self.poolmanager.pool_classes_by_scheme = POOLS

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        if urlsplit(proxy).scheme == "https":
            kwargs["proxy_ssl_context"] = self._trust.context()
        manager = super().proxy_manager_for(proxy, **kwargs)
        manager.pool_classes_by_scheme = POOLS
        return manager

    def proxy_headers(self, proxy: str) -> dict[str, str]:
        """The proxy's user and password in UTF-8, as the store's: requests knows Latin-1 only."""
        user, password = get_auth_from_url(proxy)
        if not user:
            return {}
        return dict(urllib3.make_headers(proxy_basic_auth=f"{user}:{password}".encode().decode("latin-1")))

    def get_connection_with_tls_context(
        self, request: Any, verify: Any, proxies: Any = None, cert: Any = None
    ) -> urllib3.HTTPConnectionPool:
        """The one pool of the one address, looked up once: requests would build its key anew for each call."""
        if self._pool is None:
            manager = self.proxy_manager_for(self._proxy) if self._proxy else self.poolmanager
            context = {"ssl_context": self._trust.context()} if self._host["scheme"] == "https" else {}
            self._pool = manager.connection_from_host(**self._host, pool_kwargs=context)
        return self._pool

    def request_url(self, request: Any, proxies: Any) -> str:
        """The path, or the whole URL where a proxy is to fetch it."""
        return str(request.url if self._proxy and self._host["scheme"] == "http" else request.path_url)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """The context that the pool was made with decides."""

    def close(self) -> None:
        super().close()
        if self._pool is not None:
            self._pool.close()  # urllib3 leaves that to the garbage collector

    def build_response(self, req: Any, resp: Any) -> requests.Response:
        """Status and body: cookies, history and encodings are for nobody here."""
        response = requests.Response()
        response.status_code = resp.status
        response.raw = resp
        response.request = req
        return response


class Transport:
    """The connections to one store."""

    def __init__(self, store: Store, *, connections: int, trust: Trust) -> None:
        # No requests.Session around the adapter: it would read netrc, keep cookies, and read the whole body of a
        # redirect, uncapped, to find out where it leads.
        self._adapter = _Adapter(store.url, connections, trust, store.proxy)
        self._template = requests.Request("POST", store.search_url, headers=_headers(store), data=b"{}").prepare()
        self._has_token = store.token is not None

    def search(self, call: Call, body: Json, via: Sequence[str]) -> bytes:
        """Send one search and return the decoded body of its answer; raises StoreError."""
        request = copy.copy(self._template)
        request.body = json.dumps(body, allow_nan=False).encode()
        request.headers = self._template.headers.copy()
        request.headers["Content-Length"] = str(len(request.body))
        if via:
            request.headers["Via"] = ", ".join(via)
        doing.call = call
        try:
            return self._sent(call, request)
        except Exception as exc:  # noqa: BLE001 - the border: all of it leaves as a StoreError, shown in `skipped`
            if call.ended_by is not None:
                raise call.ended_by from None
            if not call.reused or call.answered or not isinstance(exc, requests.ConnectionError):
                raise store_error(exc, call) from None
        call.fresh = True
        try:
            return self._sent(call, request)
        except Exception as exc:  # noqa: BLE001 - the same border
            raise call.ended_by or store_error(exc, call) from None

    def _sent(self, call: Call, request: requests.PreparedRequest) -> bytes:
        try:
            body = self._exchanged(call, request)
        finally:
            call.detach()
        if call.ended_by is not None:  # a header that the abort cut can look like a whole, empty answer
            raise call.ended_by
        return body

    def _exchanged(self, call: Call, request: requests.PreparedRequest) -> bytes:
        left_s = call.left_s()
        if left_s <= 0:
            raise call.timed_out()
        response = self._adapter.send(request, stream=True, timeout=left_s)
        try:
            self._check_status(response.status_code)
            body: bytes = response.raw.read(BODY_LIMIT_BYTES + 1, decode_content=True)
        finally:
            # What is left of an unread body would be taken for the next answer: such a connection is closed.
            if not response.raw.closed:
                response.raw.close()
            response.raw.release_conn()
        if len(body) > BODY_LIMIT_BYTES:
            raise StoreError("too_large", f"the answer is larger than {BODY_LIMIT_BYTES // 1024 // 1024} MiB")
        return body

    def _check_status(self, status: int) -> None:
        if status == 200:
            return
        if 300 <= status < 400:
            raise StoreError("redirect", f"HTTP {status}: a redirect is not followed; set url to where it leads")
        if 200 < status < 300:
            raise StoreError("bad_reply", f"HTTP {status} where the protocol says 200")
        hint = ""
        if status in (401, 403):
            hint = ": it does not take this token" if self._has_token else ": it wants a token and none is set"
        elif status in (404, 405):
            hint = ": no search at this address; is this the right type of store?"
        elif status == 407:
            raise StoreError("unreachable", "its proxy wants a user and password (HTTP 407)")
        elif status == 422:
            hint = ": it does not take such a search; is this the right type of store?"
        raise StoreError("http_error", f"HTTP {status}{hint}")

    def close(self) -> None:
        self._adapter.close()


def _headers(store: Store) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "seren-corpus-callosum"}
    headers["Accept-Encoding"] = "gzip, deflate"
    if store.token is not None:
        # http.client writes header text as Latin-1, one byte for one character: that spells these UTF-8 bytes.
        headers["Authorization"] = (b"Bearer " + store.token.header_bytes).decode("latin-1")
    elif store.credentials is not None:
        pair = ":".join(store.credentials).encode()
        headers["Authorization"] = urllib3.make_headers(basic_auth=pair.decode("latin-1"))["authorization"]
    return headers


def decode(body: bytes) -> Json:
    """JSON from UTF-8 bytes, whatever a header said; numbers that are not finite become null."""
    # Parsing holds the interpreter: of two bytes a value, four megabytes would hold up every store for half a second.
    if _values(body) > VALUES_LIMIT and _values(_TEXT.sub(b"", body)) > VALUES_LIMIT:
        raise StoreError("too_large", f"the answer holds more than {VALUES_LIMIT} values")
    try:
        return _parsed((_ESCAPE.sub(_whole_pair, body) if _SURROGATE.search(body) else body).decode("utf-8-sig"))
    except RecursionError:
        raise StoreError("bad_reply", "the answer is nested too deep") from None
    except ValueError:
        looks = "HTML" if body.lstrip()[:1] == b"<" else "something else"
        found = f"looks like {looks}" if body.strip() else "is empty"
        raise StoreError("bad_reply", f"the answer is not JSON in UTF-8, it {found}") from None


def _values(body: bytes) -> int:
    return sum(map(body.count, b"[{,"))


def _parsed(text: str) -> Json:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer with more digits than Python reads: it must not cost the other hits
        return _PATIENT_DECODER.decode(text)


def _whole(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text  # an id keeps every digit; text is no number anywhere


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


_DECODER = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_finite)
_PATIENT_DECODER = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_finite, parse_int=_whole)
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rb"\\\\|(?:%b)?%b|%b" % (_HIGH, _LOW, _HIGH))
_PAIR_BYTES = 12  # of two escapes


def _whole_pair(escape: re.Match[bytes]) -> bytes:
    """An escape as it is, half of a surrogate pair as U+FFFD: no encoder could write it."""
    return escape[0] if escape[0] == b"\\\\" or len(escape[0]) == _PAIR_BYTES else b"\\ufffd"
