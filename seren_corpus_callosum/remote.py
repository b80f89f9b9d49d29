"""A search that a running service is asked for, over its HTTP API."""

import threading
from typing import Any

from . import console, settings, urls
from .config import Config
from .connections import Call
from .errors import CallosumError, SettingError, StoreError
from .service import checked_search
from .stores import InnerCallosum, Store
from .transport import Transport, Trust, decode


def search(config: Config, url: str, query: str, n_results: int | None) -> dict[str, Any]:
    """The body of its answer; it gets this configuration's token. Raises CallosumError where there is none."""
    checked_search(query, n_results)
    try:
        address = urls.parse(url)
    except SettingError as exc:
        raise SettingError(f"--url: expected {exc}") from None
    credentials = address.credentials if config.token is None else None
    store = Store("service", "callosum", InnerCallosum(), address.url, token=config.token, credentials=credentials)
    trust = Trust(trust_system_store=config.tls.trust_system_store, ca_bundle=config.tls.ca_bundle)
    call = Call(settings.SECONDS.high)
    transport = Transport(store, connections=1, trust=trust)
    end = threading.Timer(call.left_s(), call.abort)
    end.daemon = True
    try:
        end.start()
        body = decode(transport.search(call, {"query": query, "n_results": n_results}, ()))
    except StoreError as exc:
        raise CallosumError(f"{address.url}: {exc.reason}") from None
    finally:
        end.cancel()
        transport.close()
    try:
        console.search_lines(body)
    except (LookupError, TypeError, ValueError, AttributeError):
        raise CallosumError(f"{address.url}: what answers there is not a callosum") from None
    return dict(body)
