"""Tokens of added stores on a running service: a real keychain, none, and one that hangs; shown nowhere."""

import configparser
import errno
import importlib
import json
import os
import textwrap
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import ModuleType
from typing import Any

import keyring
import pytest
from keyrings.alt.file import PlaintextKeyring

from .roster_service import Local
from .support.checks import problem
from .support.goodstore import GoodStore, sample_hits
from .support.service import Service, run_command

TOKEN = "hunter2-\u00e9"
SENT = TOKEN.encode().decode("latin-1")  # header bytes as latin-1 text
ALT = {"PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring"}
NONE = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
CONFIG = "server: {instance_id: me}\n"


@pytest.fixture
def store(good_store: Callable[..., GoodStore]) -> GoodStore:
    one = good_store("seren_loci", sample_hits("seren_loci", 1, "new"))
    one.token = SENT
    return one


@pytest.fixture
def keychain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlaintextKeyring:
    """A real keychain of keyrings.alt for this process, in a file of this test."""
    backend = PlaintextKeyring()
    backend.file_path = str(tmp_path / "keychain.cfg")
    monkeypatch.setattr(keyring, "get_keyring", lambda: backend)
    return backend


def body_of(store: GoodStore, **fields: Any) -> dict[str, Any]:
    return {"name": "new", "type": "seren_loci", "url": store.url, "token": TOKEN, **fields}


def kept_in(keychain_file: Path) -> list[str]:
    """The names of the entries that a keychain of keyrings.alt holds."""
    parser = configparser.RawConfigParser()
    parser.read(keychain_file)
    return [option for section in parser.sections() for option in parser.options(section)]


def keychain_file(service: Service) -> Path:
    return service.folder / "home" / ".local" / "share" / "python_keyring" / "keyring_pass.cfg"


def entries_of(service: Service) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((service.folder / "runtime-stores.json").read_text())
    return found


def shown_by(service: Service) -> str:
    """Everything that the service says, over HTTP and in its log."""
    answers = [service.request("GET", path).text for path in ("/", "/stores", "/stores/new")]
    answers.append(service.request("PATCH", "/stores/new", json={"weight": 2}).text)
    answers.append(json.dumps(service.search("x")))
    return "".join(answers) + service.stdout + service.stderr


def test_a_token_goes_to_the_keychain_works_after_a_restart_and_goes_with_its_store(
    service: Callable[..., Service], store: GoodStore
) -> None:
    one = service(CONFIG, env={**ALT, "SEREN_SCC_LOG_LEVEL": "debug"})
    answer = one.request("POST", "/stores", json=body_of(store))
    assert answer.status_code == 201, answer.text
    assert (answer.json()["auth"], answer.json()["warnings"]) == (True, [])
    (entry,) = entries_of(one)
    assert "token" not in entry
    assert entry["token_keyring"].startswith("seren-corpus-callosum/me/new/")
    assert len(kept_in(keychain_file(one))) == 1
    assert one.search("x")["stores_searched"] == ["new"]
    assert TOKEN not in shown_by(one) and "hunter2" not in shown_by(one)
    one.stop()
    one.start()
    assert one.search("x")["stores_searched"] == ["new"]
    assert one.request("DELETE", "/stores/new").status_code == 200
    assert kept_in(keychain_file(one)) == []
    assert "hunter2" not in one.stderr


def test_a_name_given_again_gets_its_new_token_in_every_process(
    service: Callable[..., Service], store: GoodStore, tmp_path: Path
) -> None:
    overlay = tmp_path / "shared.json"
    home = tmp_path / "home"
    env = {**ALT, "SEREN_SCC_RUNTIME_STORES": str(overlay), "HOME": str(home), "XDG_DATA_HOME": str(home)}
    first, second = service(CONFIG, env=env), service(CONFIG, env=env)
    wrong = body_of(store, token="old-one")
    assert first.request("POST", "/stores", json=wrong).status_code == 201
    assert second.search("x")["skipped"][0]["kind"] == "http_error"
    # Both between two looks of the second process.
    assert first.request("DELETE", "/stores/new").status_code == 200
    assert first.request("POST", "/stores", json=body_of(store)).status_code == 201
    assert second.search("x")["stores_searched"] == ["new"]


def test_without_a_keychain_the_token_is_in_the_private_file_with_a_warning(
    service: Callable[..., Service], store: GoodStore
) -> None:
    one = service(CONFIG, env=NONE)
    row = one.request("POST", "/stores", json=body_of(store)).json()
    assert row["auth"] is True and len(row["warnings"]) == 1 and "overlay" in row["warnings"][0]
    assert entries_of(one)[0]["token"] == TOKEN
    assert (one.folder / "runtime-stores.json").stat().st_mode & 0o077 == 0
    assert "hunter2" not in shown_by(one)
    one.stop()
    one.start()
    assert one.search("x")["stores_searched"] == ["new"]
    assert "hunter2" not in one.stderr


HANGING = """
    import pathlib
    import threading
    from keyring.backend import KeyringBackend


    class Keyring(KeyringBackend):
        priority = 9

        def get_password(self, service, username):
            pathlib.Path(__file__).with_name("asked").touch()
            threading.Event().wait()

        set_password = delete_password = get_password
"""


def hanging_environment(folder: Path) -> Mapping[str, str]:
    """A keychain that never answers, as a service process finds it."""
    folder.mkdir()
    (folder / "hanging_keychain.py").write_text(textwrap.dedent(HANGING))
    package = importlib.import_module("seren_corpus_callosum")
    assert isinstance(package, ModuleType) and package.__file__
    root = Path(package.__file__).parents[1]
    path = os.pathsep.join([str(root), str(folder)])
    return {"PYTHON_KEYRING_BACKEND": "hanging_keychain.Keyring", "PYTHONPATH": path}


def test_a_keychain_that_hangs_costs_under_two_seconds_and_the_token_works(
    service: Callable[..., Service], store: GoodStore, tmp_path: Path
) -> None:
    one = service(CONFIG, env=hanging_environment(tmp_path / "modules"))
    started = time.monotonic()
    answer = one.request("POST", "/stores", json=body_of(store))
    assert time.monotonic() - started < 2.5  # 2 s, and what a busy machine adds
    assert answer.status_code == 201 and entries_of(one)[0]["token"] == TOKEN
    assert one.search("x")["stores_searched"] == ["new"]
    started = time.monotonic()
    assert one.request("DELETE", "/stores/new").status_code == 200
    assert time.monotonic() - started < 2.5
    one.stop()
    one.start()


def test_a_keychain_that_hangs_holds_up_no_change_of_another_process(
    service: Callable[..., Service], store: GoodStore, tmp_path: Path
) -> None:
    shared = {"SEREN_SCC_RUNTIME_STORES": str(tmp_path / "shared.json")}
    hung = service(CONFIG, env={**hanging_environment(tmp_path / "modules"), **shared})
    other = service(CONFIG, env={**NONE, **shared})
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(hung.request, "POST", "/stores", json=body_of(store))
        while not (tmp_path / "modules" / "asked").exists():
            assert not waiting.done()
        assert other.request("POST", "/stores", json=body_of(store, name="second")).status_code == 201
        assert not waiting.done()
        assert waiting.result().status_code == 201
    assert set(other.search("x")["stores_searched"]) == {"new", "second"}


def test_a_pointer_into_a_keychain_that_hangs_lets_the_service_start_without_that_store(
    service: Callable[..., Service], store: GoodStore, tmp_path: Path
) -> None:
    config = (
        f"federation:\n  stores:\n    - {{name: good, type: seren_loci, url: '{store.url}', token_env: T}}\n"
        f"    - {{name: lost, type: seren_loci, url: '{store.url}', token_keyring: a/b}}\n"
    )
    one = service(config, env={**hanging_environment(tmp_path / "modules"), "T": TOKEN})
    body = one.search("x")
    assert body["stores_searched"] == ["good"]
    assert [(entry["name"], entry["kind"]) for entry in body["skipped"]] == [("lost", "unbound")]
    assert "does not answer" in body["skipped"][0]["reason"]
    assert len(store.searches) == 1  # never without its token


def test_a_pointer_that_leads_nowhere_leaves_its_store_out_and_never_calls_it_without(
    tmp_path: Path, store: GoodStore, keychain: PlaintextKeyring
) -> None:
    lines = [f"{{name: s{n}, type: seren_loci, url: '{store.url}', {key}}}" for n, key in enumerate(
        ["token_env: UNSET", "token_keyring: no/entry", "token: '  '", "token: 0123", "bearer_token_env: BLANK"]
    )]  # fmt: skip
    config = "federation:\n  stores:\n" + "".join(f"    - {line}\n" for line in lines)
    with Local(tmp_path, config, environ={"BLANK": "  "}) as service:
        body = service.search()
        assert [entry["kind"] for entry in body["skipped"]] == ["unbound"] * 5
        assert [row["status"].split(":")[1].strip() for row in service.roster().values()] == [
            "token_env", "token_keyring", "token", "token", "token_env",
        ]  # fmt: skip
    assert store.requests == []


def test_a_save_that_fails_takes_the_token_out_of_the_keychain_again(
    tmp_path: Path, store: GoodStore, keychain: PlaintextKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with Local(tmp_path, CONFIG) as service:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", refuse)
            problem(service.request("POST", "/stores", body_of(store)), 503, secrets=["hunter2"])
        assert Path(keychain.file_path).exists() and kept_in(Path(keychain.file_path)) == []
        assert service.roster() == {}


def test_a_second_store_of_the_name_leaves_the_token_of_the_first(
    tmp_path: Path, store: GoodStore, keychain: PlaintextKeyring
) -> None:
    with Local(tmp_path, CONFIG) as service:
        assert service.request("POST", "/stores", body_of(store)).status_code == 201
        problem(service.request("POST", "/stores", body_of(store, token="hunter3")), 409, secrets=["hunter3"])
        service.restart()
        assert service.search()["stores_searched"] == ["new"]


def test_a_check_puts_nothing_into_the_keychain(tmp_path: Path, store: GoodStore, keychain: PlaintextKeyring) -> None:
    with Local(tmp_path, CONFIG) as service:
        assert service.request("POST", "/stores?check=only", body_of(store)).json()["ok"] is True
    assert not Path(keychain.file_path).exists()


def test_a_keychain_entry_that_a_person_pointed_to_stays_when_its_store_goes(
    tmp_path: Path, store: GoodStore, keychain: PlaintextKeyring
) -> None:
    keychain.set_password("mine", "loci", TOKEN)
    with Local(tmp_path, CONFIG) as service:
        service.overlay.write_text(
            json.dumps([{"name": "new", "type": "seren_loci", "url": store.url, "token_keyring": "mine/loci"}])
        )
        assert service.search()["stores_searched"] == ["new"]
        assert service.request("DELETE", "/stores/new").status_code == 200
    assert keychain.get_password("mine", "loci") == TOKEN


def test_one_change_of_the_keychain_at_a_time(
    tmp_path: Path, store: GoodStore, keychain: PlaintextKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keychain that is a file loses what two write at once."""
    began, go_on, order = threading.Event(), threading.Event(), []
    delete, save = keychain.delete_password, keychain.set_password

    def slow_delete(service: str, username: str) -> None:
        began.set()
        go_on.wait(1.5)
        delete(service, username)
        order.append("deleted")

    def noted_save(service: str, username: str, secret: str) -> None:
        order.append("saved")
        save(service, username, secret)

    monkeypatch.setattr(keychain, "delete_password", slow_delete)
    with Local(tmp_path, CONFIG) as service, ThreadPoolExecutor(2) as pool:
        assert service.request("POST", "/stores", body_of(store)).status_code == 201
        monkeypatch.setattr(keychain, "set_password", noted_save)
        removed = pool.submit(service.request, "DELETE", "/stores/new")
        assert began.wait(5)
        added = pool.submit(service.request, "POST", "/stores", body_of(store, name="second"))
        wait([added], timeout=0.3)
        go_on.set()
        assert (removed.result().status_code, added.result().status_code) == (200, 201)
        assert order == ["deleted", "saved"]
        assert len(kept_in(Path(keychain.file_path))) == 1


def test_the_command_line_takes_the_token_of_a_removed_store_out_of_the_keychain(
    service: Callable[..., Service], store: GoodStore
) -> None:
    one = service(CONFIG, env=ALT)
    assert one.request("POST", "/stores", json=body_of(store)).status_code == 201
    assert len(kept_in(keychain_file(one))) == 1
    done = run_command(one.folder, "-c", str(one.config), "stores", "remove", "new", env=ALT)
    assert done.returncode == 0, done.stderr
    assert kept_in(keychain_file(one)) == []


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (" ", "blank"),
        ("a\x00b", "control"),
        ("a\r\nX: y", "control"),
        (0, "quote it"),
        (True, "quote it"),
        (["t"], "quote"),
    ],
)
def test_a_token_that_cannot_be_sent_is_refused_without_showing_it(
    tmp_path: Path, store: GoodStore, token: Any, told: str
) -> None:
    with Local(tmp_path, CONFIG) as service:
        document = problem(service.request("POST", "/stores", body_of(store, token=token)), 422, secrets=["X: y"])
        assert told in document["errors"]["token"][0]
        assert service.roster() == {}
