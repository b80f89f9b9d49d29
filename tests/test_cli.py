"""Promises of the command line, run as a user runs it: what it prints, where, and with which exit status."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seren_corpus_callosum import cli, remote
from seren_corpus_callosum.config import Config
from seren_corpus_callosum.errors import CallosumError
from seren_corpus_callosum.kinds import Number
from tests.support import scripts
from tests.support.goodstore import GoodStore
from tests.support.rawstore import RawStore
from tests.support.service import PACKAGE, Service, run_command, service_environment

SECRET = "hunter2"
ODD = "\x1b[31mred\x07 \x9b2J \u202eabc\r\nnext 日本 é"


def config_for(folder: Path, *stores: GoodStore, more: str = "") -> str:
    entries = "".join(
        f"    - {{name: s{number}, type: {store.type}, url: '{store.url}'}}\n" for number, store in enumerate(stores)
    )
    (folder / "c.yaml").write_text(f"federation:\n  stores:\n{entries}{more}", encoding="utf-8")
    return "c.yaml"


@pytest.fixture
def facts(good_store: Callable[..., GoodStore]) -> GoodStore:
    return good_store("seren_loci", [{"id": "1", "key": "hull", "value": "larch", "score": 0.75, "raw_distance": 0.25}])


def test_search_prints_a_readable_list_with_store_rank_and_score(facts: GoodStore, tmp_path: Path) -> None:
    done = run_command(tmp_path, "-c", config_for(tmp_path, facts), "search", "hull")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:2] == ["  1. s0 #1  score 0.01639  rel 0.75  native 0.75  d 0.25", "     hull = larch"]
    assert re.fullmatch(r"searched: s0 \(\d+ ms\); k = 60; \d+ ms in all", lines[2])


def test_the_option_for_the_file_works_after_the_command_too(facts: GoodStore, tmp_path: Path) -> None:
    done = run_command(tmp_path, "search", "-c", config_for(tmp_path, facts), "hull", "-n", "1")
    assert (done.returncode, "hull = larch" in done.stdout) == (0, True)
    assert facts.searches[0].json["n_results"] == 2


def test_search_says_what_was_skipped_and_why(facts: GoodStore, tmp_path: Path) -> None:
    more = "    - {name: dead, type: seren_loci, url: 'http://127.0.0.1:9'}\n    - {name: bad, type: seren_loci}\n"
    done = run_command(tmp_path, "-c", config_for(tmp_path, facts, more=more), "search", "hull")
    assert done.returncode == 0
    assert "skipped: dead: unreachable: connection refused" in done.stdout.splitlines()
    assert "skipped: bad: unbound: url: missing: where it listens" in done.stdout.splitlines()


def test_search_as_json_is_the_body_of_the_http_answer(facts: GoodStore, tmp_path: Path) -> None:
    done = run_command(tmp_path, "-c", config_for(tmp_path, facts), "search", "hüll", "--json")
    body = json.loads(done.stdout)
    assert (body["query"], body["hits"][0]["content"], body["stores_searched"]) == ("hüll", "hull = larch", ["s0"])
    assert done.stdout.isascii()


def test_search_without_stores_is_an_answer(tmp_path: Path) -> None:
    done = run_command(tmp_path, "search", "anything")
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[0]) == (0, "no hits")
    assert lines[-1] == "no store is enabled: add one under federation.stores, or with `stores add`"


@pytest.mark.parametrize(
    "command",
    [["search", "x", "--json"], ["stores", "list"], ["stores", "add", "a", "callosum", "http://h"]],
    ids=" ".join,
)
def test_a_file_that_is_not_there_is_told_beside_what_is_printed(tmp_path: Path, command: list[str]) -> None:
    done = run_command(tmp_path, "-c", "nowhere.yaml", *command)
    assert done.returncode == 0
    assert done.stderr == "warning: no config file nowhere.yaml: built-in defaults, no stores declared\n"
    assert "warning" not in done.stdout.replace('"warnings"', "")


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["search", " "], 1, "query: expected text of 1..16384 characters that is not blank"),
        (["search", "x", "-n", "0"], 1, "n_results: expected a whole number 1..200"),
        (["search", "x", "-n", "201"], 1, "n_results: expected a whole number 1..200"),
        (["search", "x", "-n", "many"], 2, "Invalid value for '-n'"),
        (["search"], 2, "Missing argument 'QUERY'"),
        (["serach", "x"], 2, "No such command 'serach'"),
        (["search", "x", "--nope"], 2, "No such option"),
        (["search", "x", "--url", "127.0.0.1:9"], 1, "--url: expected a URL that starts with http:// or https://"),
        (["search", "x", "-n", "0", "--url", "http://127.0.0.1:9"], 1, "n_results: expected a whole number 1..200"),
        (["search", "x", "--url", "http://127.0.0.1:9"], 1, "http://127.0.0.1:9: connection refused"),
        (["search", "x", "--url", f"http://user:{SECRET}@127.0.0.1:9/"], 1, "http://127.0.0.1:9: connection refused"),
        (["search", "x", "--url", f"http://user:{SECRET}@a..b/"], 1, "--url: expected a URL with a valid host"),
    ],
    ids=range(12),
)  # fmt: skip
def test_a_command_that_cannot_be_done_says_why(tmp_path: Path, arguments: list[str], status: int, told: str) -> None:
    done = run_command(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stderr


def test_search_asks_a_running_service_with_the_configured_token(
    facts: GoodStore, service: Callable[..., Service], tmp_path: Path
) -> None:
    running = service(f"server: {{bearer_token: {SECRET}}}\nfederation: {{stores: [{{name: facts, type: seren_loci, "
                      f"url: '{facts.url}'}}]}}\n")  # fmt: skip
    refused = run_command(tmp_path, "search", "hull", "--url", running.url)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.endswith("HTTP 401: it wants a token and none is set\n")
    done = run_command(tmp_path, "search", "hull", "--url", running.url + "/", env={"SEREN_SCC_BEARER_TOKEN": SECRET})
    assert (done.returncode, done.stdout.splitlines()[1]) == (0, "     hull = larch")


@pytest.mark.parametrize(
    "reply",
    [{"hits": []}, {"hits": [{}], "stores_searched": []}, {"hits": [5], "stores_searched": ["a"], "skipped": []}, [], 5,
     {"hits": 1, "stores": 2, "stores_searched": 3, "skipped": 4, "warnings": 5, "k": 6, "took_ms": "x"}],
)  # fmt: skip
def test_what_is_no_callosum_is_told(facts: GoodStore, tmp_path: Path, reply: Any) -> None:
    facts.reply = lambda _: reply
    done = run_command(tmp_path, "search", "x", "--url", facts.url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"seren-corpus-callosum: {facts.url}: what answers there is not a callosum\n"


# Any terminal


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8", "latin-1"])
@pytest.mark.parametrize("as_json", [True, False], ids=["json", "text"])
def test_nothing_that_a_store_returns_steers_or_breaks_the_terminal(
    good_store: Callable[..., GoodStore], tmp_path: Path, encoding: str, as_json: bool
) -> None:
    store = good_store("seren_memory", [{"id": ODD, "content": ODD, "metadata": {ODD: ODD}}])
    command = [sys.executable, "-m", PACKAGE, "-c", config_for(tmp_path, store), "search", "日本"]
    environment = service_environment(tmp_path, {"PYTHONIOENCODING": encoding})
    done = subprocess.run(
        command + ["--json"] * as_json, cwd=tmp_path, env=environment, capture_output=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode("utf-8" if encoding == "ascii" else encoding)  # click takes ASCII for a wrong setting
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text.replace("\r\n", "\n"))
    if as_json:
        assert json.loads(text)["hits"][0]["content"] == ODD
    else:
        assert "[31mred" in text
        assert ("日本" in text) == (encoding in ("utf-8", "ascii"))


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-"])
@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell closes the streams")
def test_it_works_without_standard_streams(facts: GoodStore, tmp_path: Path, closed: str) -> None:
    command = f'"{sys.executable}" -m {PACKAGE} -c {config_for(tmp_path, facts)} search hull {closed}'
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=service_environment(tmp_path), timeout=30,
                          capture_output=True)  # fmt: skip
    assert done.returncode == 0
    assert len(facts.searches) == 1


# check


def test_check_prints_the_configuration_and_asks_every_store(facts: GoodStore, tmp_path: Path) -> None:
    done = run_command(tmp_path, "-c", config_for(tmp_path, facts), "check", env={"SEREN_SCC_K": "20"})
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "federation.k = 20  (SEREN_SCC_K)" in lines
    assert "server.port = 7423  (default)" in lines
    assert "token: none: the service is open" in lines
    assert re.fullmatch(r"s0: answered in \d+ ms with 1 hits", lines[-1])


def test_check_shows_secrets_only_by_where_they_come_from(facts: GoodStore, tmp_path: Path) -> None:
    facts.token = SECRET
    config_for(tmp_path, facts)
    text = (tmp_path / "c.yaml").read_text().replace("type:", f"token: {SECRET}, type:")
    url = facts.url.replace("http://", f"http://user:{SECRET}@")
    (tmp_path / "c.yaml").write_text(f"server: {{bearer_token: {SECRET}}}\n" + text.replace(facts.url, url))
    done = run_command(tmp_path, "-c", "c.yaml", "check")
    assert done.returncode == 0, done.stderr
    assert "server.bearer_token = set  (c.yaml)" in done.stdout
    assert "token: from inline" in done.stdout
    assert SECRET not in done.stdout + done.stderr


def test_check_tells_each_reason_and_ends_with_1(
    good_store: Callable[..., GoodStore], facts: GoodStore, tmp_path: Path
) -> None:
    memory, locked = good_store("seren_memory"), good_store("seren_loci")
    memory.type, locked.token = "seren_loci", SECRET
    more = (
        f"    - {{name: wrong, type: seren_memory, url: '{facts.url}'}}\n"
        "    - {name: dead, type: seren_loci, url: 'http://127.0.0.1:9'}\n    - {name: bad, type: seren_loci}\n"
        "    - {name: off, type: seren_loci, url: 'http://127.0.0.1:9', enabled: false}\n"
    )
    done = run_command(tmp_path, "-c", config_for(tmp_path, facts, locked, more=more), "check")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-4:] == [
        "s1: FAILED: http_error: HTTP 401: it wants a token and none is set",
        "wrong: FAILED: it answers like a seren_loci, not like a seren_memory; set its type",
        "dead: FAILED: unreachable: connection refused",
        "bad: FAILED: unbound: url: missing: where it listens",
    ]


def test_of_entries_with_one_name_each_is_told_once_with_its_own_reason(facts: GoodStore, tmp_path: Path) -> None:
    more = f"    - {{name: a, type: seren_loci, url: '{facts.url}', floor: 2}}\n" + (
        f"    - {{name: a, type: seren_loci, url: '{facts.url}'}}\n" * 2
    )
    done = run_command(tmp_path, "-c", config_for(tmp_path, facts, more=more), "check")
    assert done.returncode == 1
    checks = done.stdout.splitlines()[-2:]
    assert re.fullmatch(r"s0: answered in \d+ ms with 1 hits", checks[0])
    assert checks[1] == "a: FAILED: unbound: floor: expected a number 0..1, found the number 2"
    assert done.stdout.splitlines()[-3] == 'asking each store "what do you know about me?":'


def test_the_words_of_a_query_need_no_quotes(facts: GoodStore, tmp_path: Path) -> None:
    done = run_command(tmp_path, "-c", config_for(tmp_path, facts), "search", "larch", "keel", "-n", "3")
    assert done.returncode == 0
    assert facts.searches[0].json["query"] == "larch keel"


def test_the_config_may_be_named_after_every_command(facts: GoodStore, tmp_path: Path) -> None:
    file = config_for(tmp_path, facts)
    for command in (["stores", "list"], ["stores", "add", "b", "seren_loci", facts.url], ["stores", "remove", "b"]):
        done = run_command(tmp_path, *command, "-c", file)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
    listed = run_command(tmp_path, "stores", "list", "-c", file)
    assert listed.stdout.startswith("s0  seren_loci  ")


@pytest.mark.parametrize(
    "arguments", [["stores", "add", "a", "seren_loci", "http://h", "--token-stdin"], ["mcp"]], ids=repr
)
def test_closed_standard_streams_are_told(tmp_path: Path, arguments: list[str]) -> None:
    closed = f"exec {sys.executable} -m {PACKAGE} {' '.join(arguments)} <&-"
    done = subprocess.run(
        ["sh", "-c", closed],
        cwd=tmp_path,
        env=service_environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search("standard input held no token|one of them is closed", done.stderr)
    assert "Traceback" not in done.stderr


def test_an_option_nested_without_end_is_text(tmp_path: Path) -> None:
    deep = "project=" + "[" * 100_000
    done = run_command(tmp_path, "stores", "add", "a", "seren_loci", "http://h", "--option", deep)
    assert "Traceback" not in done.stderr


def test_a_service_that_drips_ends_the_command_at_its_deadline(
    raw_store: Callable[..., RawStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = raw_store(scripts.drip_body("content-length", 0.05))
    monkeypatch.setattr(remote.settings, "SECONDS", Number(0.05, 0.5))
    started = time.monotonic()
    with pytest.raises(CallosumError, match=f"{store.url}: no answer within 0.5 s"):
        remote.search(Config(), store.url, "x", None)
    assert time.monotonic() - started < 1.5
    assert store.wait_for(lambda one: one.open_connections == 0)


# demo, help, version


def test_the_demo_shows_one_merged_search_and_ends(tmp_path: Path) -> None:
    (tmp_path / "seren-corpus-callosum.yaml").write_text("server: {port: broken}\n")
    done = run_command(tmp_path, "demo", "--once")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^  1\. (facts|episodes) #1  score 0\.01639", done.stdout, re.MULTILINE)
    assert {"facts", "episodes"} <= set(re.findall(r"facts|episodes", done.stdout))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "seren-corpus-callosum.yaml"]


def test_the_demo_leaves_nothing_behind_when_it_is_ended(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = service_environment(tmp_path, {"TMPDIR": str(scratch), "PYTHONUNBUFFERED": "1"})
    command = [sys.executable, "-m", PACKAGE, "demo"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout
        assert any("the page: http://" in line for line in demo.stdout)
        assert list(scratch.iterdir()) != []
        demo.terminate()
        assert demo.wait(10) == 0
    assert list(scratch.iterdir()) == []


def test_help_and_version_need_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "seren-corpus-callosum.yaml").write_text("server: {port: broken}\n")
    helped = run_command(tmp_path, "--help")
    assert helped.returncode == 0
    assert {"serve", "search", "check", "demo", "stores", "init", "service"} <= set(
        re.findall(r"^  (\w+) ", helped.stdout, re.M)
    )
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", run_command(tmp_path, "--version").stdout)


def test_a_file_that_may_not_be_read_is_a_configuration_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    config_for(tmp_path)
    monkeypatch.setattr("os.access", lambda *args, **kwargs: False)
    monkeypatch.setattr(Path, "read_bytes", denied)
    monkeypatch.setattr(sys, "argv", ["seren-corpus-callosum", "-c", str(tmp_path / "c.yaml")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 78
    assert capsys.readouterr().err == "c.yaml: cannot be read: Permission denied\n"
