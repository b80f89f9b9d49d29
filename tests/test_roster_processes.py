"""Several real service processes, and the command line, on one overlay: nothing acknowledged is lost."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from .support.goodstore import GoodStore, sample_hits
from .support.service import Service, run_command

NOWHERE = "http://127.0.0.1:9"
CONFIG = "server: {threads: 8}\n"


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    return tmp_path / "shared" / "runtime-stores.json"


@pytest.fixture
def services(service: Callable[..., Service], shared: Path) -> Callable[[int], list[Service]]:
    """Starts that many processes over the one overlay."""
    shared.parent.mkdir()
    env = {"SEREN_SCC_RUNTIME_STORES": str(shared)}
    return lambda count: [service(CONFIG, env=env) for _ in range(count)]


@pytest.fixture
def store(good_store: Callable[..., GoodStore]) -> GoodStore:
    return good_store("seren_loci", sample_hits("seren_loci", 1, "new"))


def body_of(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "type": "seren_loci", "url": NOWHERE, **fields}


def add(service: Service, name: str, **fields: Any) -> int:
    return service.request("POST", "/stores", json=body_of(name, **fields)).status_code


def names_in(path: Path) -> list[str]:
    return [entry["name"] for entry in json.loads(path.read_text(encoding="utf-8"))]


def names_shown(service: Service) -> list[str]:
    return [row["name"] for row in service.request("GET", "/stores").json()["stores"]]


@contextmanager
def parsed_all_the_while(path: Path) -> Iterator[None]:
    """Reads the file over and over; fails if it ever did not parse or was open to others."""
    over = threading.Event()
    faults: list[str] = []
    reads = [0]

    def read() -> None:
        while not over.wait(0.001):
            try:
                assert isinstance(json.loads(path.read_bytes()), list)
                assert path.stat().st_mode & 0o077 == 0
                reads[0] += 1
            except FileNotFoundError:
                pass
            except Exception as exc:
                faults.append(repr(exc))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        over.set()
        reader.join()
    assert faults == [] and reads[0] > 10


def test_what_one_process_did_is_in_the_very_next_request_of_the_others(
    services: Callable[[int], list[Service]], store: GoodStore
) -> None:
    first, second = services(2)
    for number in range(10):
        name = f"n{number}"
        assert add(first, name, url=store.url) == 201
        assert second.search("x")["stores_searched"] == [name]
        assert second.request("PATCH", f"/stores/{name}", json={"weight": 2}).status_code == 200
        assert first.search("x")["hits"][0]["score"] == 2 / 61
        assert first.request("PATCH", f"/stores/{name}", json={"enabled": False}).status_code == 200
        assert second.search("x")["stores_searched"] == []
        assert second.request("DELETE", f"/stores/{name}").status_code == 200
        assert first.request("GET", f"/stores/{name}").status_code == 404
        assert first.search("x")["skipped"] == []


def test_two_hundred_adds_by_four_processes_at_once_are_all_kept(
    services: Callable[[int], list[Service]], shared: Path
) -> None:
    four = services(4)
    with parsed_all_the_while(shared), ThreadPoolExecutor(8) as callers:
        statuses = list(callers.map(lambda number: add(four[number % 4], f"n{number}"), range(200)))
    assert statuses == [201] * 200
    expected = sorted(f"n{number}" for number in range(200))
    assert sorted(names_in(shared)) == expected
    assert [sorted(names_shown(one)) for one in four] == [expected] * 4


def test_twenty_callers_of_four_processes_get_one_winner_for_a_name(
    services: Callable[[int], list[Service]], shared: Path
) -> None:
    four = services(4)
    with ThreadPoolExecutor(20) as callers:
        statuses = list(callers.map(lambda number: add(four[number % 4], "one", weight=number), range(20)))
        assert sorted(statuses) == [201] + [409] * 19
        weight = json.loads(shared.read_text())[0]["weight"]
        assert statuses[weight] == 201
        assert [one.request("GET", "/stores/one").json()["weight"] for one in four] == [float(weight)] * 4
        removals = list(callers.map(lambda number: four[number % 4].request("DELETE", "/stores/one"), range(20)))
    assert sorted(answer.status_code for answer in removals) == [200] + [404] * 19
    assert names_in(shared) == []


def test_adds_changes_and_removals_mixed_leave_what_was_acknowledged(
    services: Callable[[int], list[Service]], shared: Path
) -> None:
    both = services(2)

    def life_of(number: int) -> tuple[str, float | None]:
        """One caller over its own name, through both processes in turn; returns what must be left of it."""
        name, left = f"n{number}", None
        moves = random.Random(number)
        for turn in range(8):
            one = both[(number + turn) % 2]
            if left is None:
                assert add(one, name, weight=turn) == 201
                left = float(turn)
            elif moves.random() < 0.5:
                assert one.request("PATCH", f"/stores/{name}", json={"weight": 10 + turn}).status_code == 200
                left = 10.0 + turn
            else:
                assert one.request("DELETE", f"/stores/{name}").status_code == 200
                left = None
        return name, left

    def fight(number: int) -> set[int]:
        """Adds and removes one name that every fighter wants."""
        one = both[number % 2]
        return {add(one, "wanted"), one.request("DELETE", "/stores/wanted").status_code}

    with parsed_all_the_while(shared), ThreadPoolExecutor(10) as callers:
        fights = [callers.submit(fight, number) for number in range(20)]
        expected = dict(callers.map(life_of, range(20)))
        assert set().union(*(one.result() for one in fights)) <= {201, 409, 200, 404}
    kept = {name: weight for name, weight in expected.items() if weight is not None}
    assert 0 < len(kept) < 20
    found = {
        entry["name"]: float(entry["weight"]) for entry in json.loads(shared.read_text()) if entry["name"] != "wanted"
    }
    assert found == kept


def test_a_process_killed_at_any_moment_loses_nothing_it_acknowledged(
    services: Callable[[int], list[Service]], shared: Path
) -> None:
    victim, witness = services(2)
    moment = random.Random(3)
    acknowledged: set[str] = set()
    with parsed_all_the_while(shared):
        for life in range(5):
            ended = threading.Event()

            def adding(life: int = life, ended: threading.Event = ended) -> None:
                for number in range(10_000):
                    name = f"n{life}-{number}"
                    try:
                        if add(victim, name) == 201:
                            acknowledged.add(name)
                    except requests.RequestException:  # it is dead, perhaps between the head of its answer and the rest
                        ended.set()
                        return

            caller = threading.Thread(target=adding)
            caller.start()
            assert add(witness, f"w{life}") == 201
            acknowledged.add(f"w{life}")
            ended.wait(moment.uniform(0.02, 0.25))
            victim.kill()
            caller.join()
            assert acknowledged <= set(names_in(shared))
            victim.start()
            assert acknowledged <= set(names_shown(victim))
    assert len(acknowledged) > 20
    assert add(witness, "last") == 201
    assert not list(shared.parent.glob("*.tmp")) and not list(shared.parent.glob(".*.tmp"))
    assert set(names_shown(victim)) == set(names_in(shared)) == set(names_shown(witness))


def test_the_command_line_works_on_the_overlay_of_a_running_service(
    service: Callable[..., Service], store: GoodStore
) -> None:
    one = service("")
    folder, config = one.folder, str(one.config)
    store.token = "hunter2"
    done = run_command(
        folder, "-c", config, "stores", "add", "caf\u00e9", "seren_loci", store.url, "--weight", "2", "--token-stdin",
        "--check", "--option", "project=p", stdin="hunter2\n",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    assert one.search("x")["stores_searched"] == ["caf\u00e9"]
    assert store.searches[-1].json["project"] == "p"
    assert one.request("GET", "/stores/caf%C3%A9").json()["weight"] == 2.0
    listed = run_command(folder, "stores", "-c", config, "list")
    assert "caf\u00e9  seren_loci" in listed.stdout and "active" in listed.stdout
    again = run_command(folder, "-c", config, "stores", "add", "caf\u00e9", "seren_loci", store.url)
    assert again.returncode == 1 and "there is a store" in again.stderr and "Traceback" not in again.stderr
    gone = run_command(folder, "-c", config, "stores", "remove", "cafe\u0301")
    assert gone.returncode == 0, gone.stderr
    assert one.search("x")["stores_searched"] == [] and names_in(folder / "runtime-stores.json") == []
    assert "hunter2" not in one.stdout + one.stderr


def test_the_command_line_works_without_a_service_and_may_point_to_secrets(
    service: Callable[..., Service], store: GoodStore, tmp_path: Path
) -> None:
    folder = tmp_path / "service-1"
    folder.mkdir()
    config = folder / "seren-corpus-callosum.yaml"
    config.write_text("")
    store.token = "from-the-variable"
    env = {"MY_STORE_TOKEN": "from-the-variable"}
    arguments = ("-c", str(config), "stores", "add", "new", "seren_loci", store.url, "--token-env", "MY_STORE_TOKEN")
    refused = run_command(folder, *arguments)
    assert refused.returncode == 1 and "MY_STORE_TOKEN is not set" in refused.stderr
    done = run_command(folder, *arguments, "--check", env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "runtime-stores.json").read_text()) == [
        {"name": "new", "type": "seren_loci", "url": store.url, "token_env": "MY_STORE_TOKEN"}
    ]
    one = service("", folder=folder, env=env)
    assert one.search("x")["stores_searched"] == ["new"]


@pytest.mark.parametrize(
    ("arguments", "stdin", "told"),
    [
        (("add", "a/b", "seren_loci", NOWHERE), "", "name: expected a name of 1..64"),
        (("add", "new", "vector", NOWHERE), "", "unknown type 'vector'"),
        (("add", "new", "seren_loci", "ftp://x"), "", "url: expected a URL that starts with http"),
        (("add", "new", "seren_loci", "http://169.254.169.254"), "", "link-local"),
        (("add", "new", "seren_loci", NOWHERE, "--weight", "nan"), "", "weight: expected a number"),
        (("add", "new", "seren_loci", NOWHERE, "--token-stdin"), " \n", "no token"),
        (("add", "new", "seren_loci", NOWHERE, "--check"), "", "connection refused"),
        (("remove", "nobody"), "", "there is no store 'nobody'"),
        (("remove", "facts"), "", "federation.stores"),
    ],
)
def test_what_the_command_line_cannot_do_is_said_in_its_last_line_with_status_1(
    tmp_path: Path, arguments: tuple[str, ...], stdin: str, told: str
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("federation: {stores: [{name: facts, type: seren_loci, url: 'http://127.0.0.1:9'}]}")
    done = run_command(tmp_path, "-c", str(config), "stores", *arguments, stdin=stdin)
    assert done.returncode == 1 and told in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
    assert not (tmp_path / "runtime-stores.json").exists()
