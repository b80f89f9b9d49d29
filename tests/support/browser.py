"""Chromium on a real service: a callosum in this process on a socket of its own, and a page that reports its faults."""

import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from seren_corpus_callosum.server import Server
from seren_corpus_callosum.service import Callosum

from .checks import require
from .net import free_port

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
WAIT_MS = 10_000


@contextmanager
def chromium() -> Iterator[Any]:
    """Debian's Chromium with a user data directory of its own; missing, the test is skipped, or fails with CI=true."""
    path = shutil.which("chromium")
    require(path, "chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@contextmanager
def serving(folder: Path, stores: Sequence[dict[str, Any]], **settings: Any) -> Iterator[str]:
    """The URL of a service that fans `stores`; `settings` are those of `federation`, and `server` that section."""
    server = {"host": "127.0.0.1", "port": free_port(), "threads": 4, **settings.pop("server", {})}
    environ = settings.pop("environ", {})
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "seren-corpus-callosum.yaml"
    federation = {**settings, "stores": list(stores)}
    file.write_text(yaml.safe_dump({"server": server, "federation": federation}), encoding="utf-8")
    callosum = Callosum.from_config(file, environ=environ)
    one = Server(callosum)
    thread = threading.Thread(target=one.run, name="bridge-server", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{one.port}"
    finally:
        callosum.close(grace_s=0)
        one.close()
        thread.join(5)


class Watched:
    """A page in a context of its own. `faults` are errors of scripts and of the content security policy;
    `requests` the addresses that it asked for."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.faults: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", lambda dialog: self.faults.append(f"dialog {dialog.message}"))
        self.page.on("console", self._said)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _said(self, message: Any) -> None:
        # Chromium itself reports each 4xx answer; those are what a test asks for.
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            self.faults.append(message.text)

    def close(self) -> None:
        self.context.close()
