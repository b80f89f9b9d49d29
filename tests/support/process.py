"""A server process under test: started on a port, awaited by GET /health, ended by its id; its output kept in files."""

import http.client
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy")


def is_unclean(variable: str) -> bool:
    """Whether an environment variable of the developer's own could change what a test sees."""
    return variable.startswith("SEREN_") or variable.lower() in PROXY_VARIABLES or variable == "NETRC"


def clean_environment(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a child: nothing that `is_unclean`, no XDG folders, `home` as its home, then `more`."""
    kept = {k: v for k, v in os.environ.items() if not is_unclean(k) and not k.startswith(("XDG_", "PYTHON"))}
    home.mkdir(parents=True, exist_ok=True)
    return {**kept, "HOME": str(home), "USERPROFILE": str(home), **(more or {})}


class ServerProcess:
    """Runs `command` in `folder`, where server.out and server.err keep what it says."""

    def __init__(
        self, command: Sequence[str], folder: Path, port: int, env: Mapping[str, str], *, ready_within_s: float = 20.0
    ) -> None:
        self.command = list(command)
        self.folder = folder
        self.port = port
        self.env = dict(env)
        self.ready_within_s = ready_within_s
        self.url = f"http://127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        assert self._process, "not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def stdout(self) -> str:
        return self._said("server.out")

    @property
    def stderr(self) -> str:
        return self._said("server.err")

    def launch(self) -> None:
        """Starts the process and does not wait for it to be ready."""
        assert not self.running, "already running"
        with (self.folder / "server.out").open("ab") as out, (self.folder / "server.err").open("ab") as err:
            self._process = subprocess.Popen(
                self.command, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )

    def start(self) -> None:
        """Starts, or starts again on the same port; returns when GET /health is 200."""
        self.launch()
        deadline = time.monotonic() + self.ready_within_s
        while not self.healthy():
            status = self._process.poll() if self._process else None
            if status is not None:
                raise AssertionError(f"the server ended with status {status} before it was ready:\n{self.stderr}")
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the server was not ready within {self.ready_within_s} s:\n{self.stderr}")
            time.sleep(0.02)

    def healthy(self, timeout_s: float = 1.0) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def signal(self, number: int) -> None:
        assert self._process, "not started"
        self._process.send_signal(number)

    def wait(self, timeout_s: float = 5.0) -> int:
        """The exit status; fails (and kills) when the process does not end in time."""
        assert self._process, "not started"
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not end within {timeout_s} s:\n{self.stderr}") from None

    def stop(self, timeout_s: float = 5.0) -> int:
        """SIGTERM, and the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL, awaited."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Ends it whatever state it is in: politely first, so that it can clean up."""
        if self._process and self.running:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self.kill()

    def _said(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
