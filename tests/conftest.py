"""Fixtures for every test: a clean environment, no thread left behind, stores sick, healthy and real, the service."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("tests.support")

from tests.support import realstores  # noqa: E402
from tests.support.goodstore import GoodStore  # noqa: E402
from tests.support.process import is_unclean  # noqa: E402
from tests.support.rawstore import RawStore  # noqa: E402
from tests.support.service import Service  # noqa: E402

THREADS_END_WITHIN_S = 2.0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that uses a real store is marked so."""
    for item in items:
        if {"real_loci", "real_memory"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.real)


@pytest.fixture(autouse=True)
def clean_env(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting, proxy or netrc of the developer's own reaches a test."""
    for variable in filter(is_unclean, list(os.environ)):
        if variable != "SEREN_TEST_REAL_STORES":
            monkeypatch.delenv(variable)


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Fails a test after which a thread runs that did not run before."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + THREADS_END_WITHIN_S
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.005)
    left = sorted(thread.name for thread in set(threading.enumerate()) - before)
    assert not left, f"threads left behind: {left}"


@pytest.fixture
def raw_store() -> Iterator[Callable[..., RawStore]]:
    """Starts RawStores, arguments as the class takes them, and stops them at the end."""
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(RawStore(*args, **kwargs))


@pytest.fixture
def good_store() -> Iterator[Callable[..., GoodStore]]:
    """Starts GoodStores, arguments as the class takes them, and stops them at the end."""
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(GoodStore(*args, **kwargs))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Starts services from a YAML text, each in a folder of its own (or in `folder`), and ends them.

    A traceback in what a service says fails the test.
    """
    started: list[Service] = []
    stack = ExitStack()

    def start(config: str | None = None, *, folder: Path | None = None, **kwargs: Any) -> Service:
        folder = folder or tmp_path / f"service-{len(started) + 1}"
        folder.mkdir(parents=True, exist_ok=True)
        one = Service(folder, config, **kwargs)
        started.append(one)
        stack.callback(one.close)
        one.start()
        return one

    with stack:
        yield start
    for one in started:
        assert "Traceback" not in one.stderr + one.stdout, one.stderr


@pytest.fixture(scope="session")
def real_loci(tmp_path_factory: pytest.TempPathFactory) -> Iterator[realstores.RealStore]:
    with realstores.running_loci(tmp_path_factory.mktemp("loci")) as store:
        yield store


@pytest.fixture(scope="session")
def real_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[realstores.RealStore]:
    with realstores.running_memory(tmp_path_factory.mktemp("memory")) as store:
        yield store
