"""The documentation holds: samples load, run or parse, commands exist, links lead somewhere, generated parts are fresh.

A fence's first word is its language; after it may stand `run` (sh: execute it), a file name (yaml: the Python samples
of the page find it under that name), or `part` (not whole: not tried).
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
import requests
import tree_sitter
import tree_sitter_powershell
from click.testing import CliRunner

from seren_corpus_callosum import cli, config, settings
from seren_corpus_callosum.binding import Unbound
from tests.support import scripts
from tests.support.checks import REPO, require
from tests.support.net import free_port
from tests.support.service import service_environment

PAGES = sorted(path for path in [REPO / "README.md", *(REPO / "docs").glob("*.md")] if path.exists())
FENCE = re.compile(r"^ *```(\w*)(?: ([^\n]*))?\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
PROGRAM = "seren-corpus-callosum"
TRIED_ELSEWHERE = ("nginx", "haproxy")  # test_replicas.py runs them
SHOWN_ONLY = ("", "text", "http")


@dataclass(frozen=True)
class Sample:
    page: Path
    line: int
    language: str
    info: str
    text: str

    def __str__(self):
        return f"{self.page.name}:{self.line}"


def samples_of(page):
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Sample(page, line, found[1], (found[2] or "").strip(), found[3])


SAMPLES = [sample for page in PAGES for sample in samples_of(page)]


def every(*languages):
    wanted = [sample for sample in SAMPLES if sample.language in languages and sample.info != "part"]
    return pytest.mark.parametrize("sample", wanted, ids=str)


def test_every_sample_is_in_a_language_that_is_tried():
    tried = ("yaml", "python", "sh", "bash", "powershell", "json", "toml", "ini", *TRIED_ELSEWHERE, *SHOWN_ONLY)
    assert [f"{sample}: {sample.language}" for sample in SAMPLES if sample.language not in tried] == []


# Samples


@every("yaml")
def test_a_configuration_loads_without_a_warning_and_with_every_store(sample, tmp_path):
    (tmp_path / "c.yaml").write_text(sample.text, encoding="utf-8")
    named = re.findall(r"token_env: *\"?(\w+)", sample.text)
    loaded = config.load(tmp_path / "c.yaml", dict.fromkeys(named, "a-token"))
    assert loaded.warnings == ()
    known_here = re.findall(r'register_adapter\("(\w+)"', sample.page.read_text(encoding="utf-8"))
    unusable = [store for store in loaded.stores if isinstance(store, Unbound) and store.type not in known_here]
    assert unusable == []
    assert [store.warnings for store in loaded.stores if not isinstance(store, Unbound) and store.warnings] == []


@pytest.fixture
def folder(tmp_path, good_store, raw_store):
    """A working directory for a Python sample: its page's files, with stores that answer at the usual addresses."""
    urls = {
        "http://127.0.0.1:7422": good_store("seren_loci", [{"id": "1", "key": "planking", "value": "larch"}]).url,
        "http://127.0.0.1:7420": good_store("seren_memory", [{"id": "2", "content": "pine"}]).url,
        "http://127.0.0.1:7499": raw_store(
            scripts.answer_json({"hits": [{"page": 3, "title": "larch", "near": 0.5}]})
        ).url,
    }

    def fill(page):
        files = {sample.info: sample.text for sample in samples_of(page) if sample.info.endswith(".yaml")}
        starter = (REPO / "examples/seren-corpus-callosum.yaml").read_text(encoding="utf-8")
        for name, text in {f"{PROGRAM}.yaml": starter, **files}.items():
            for usual, here in urls.items():
                text = text.replace(usual, here)
            (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path

    return fill


def run_python(sample, folder):
    (folder / "sample.py").write_text(sample.text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-W", "error", "sample.py"], cwd=folder, env=service_environment(folder),
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


@every("python")
def test_a_python_sample_runs(sample, folder):
    done = run_python(sample, folder(sample.page))
    assert (done.returncode, done.stderr) == (0, "")
    assert not re.search(r"^print", sample.text, re.MULTILINE) or done.stdout


def test_the_adapter_of_the_documentation_finds_what_its_store_has(folder):
    [sample] = [one for one in SAMPLES if "class Wiki(Adapter)" in one.text]
    assert run_python(sample, folder(sample.page)).stdout == "wiki 1 larch\n"


def test_the_search_of_the_documentation_prints_the_merged_list(folder):
    [sample] = [one for one in SAMPLES if one.page.name == "embedding.md" and "timeout_s=2" in one.text]
    assert run_python(sample, folder(sample.page)).stdout == "facts 1 planking = larch\nepisodic 1 pine\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
def test_the_portal_starts_with_the_line_of_the_documentation(folder):
    [sample] = [one for one in SAMPLES if one.text.startswith("PORTAL_READER=")]
    where, port = folder(sample.page), free_port()
    line = sample.text.replace(
        " python examples/", f" exec {shlex.quote(sys.executable)} {shlex.quote(str(REPO))}/examples/"
    )
    environment = service_environment(where, {"PORTAL_PORT": str(port)})
    with subprocess.Popen(["sh", "-c", line], cwd=where, env=environment, stderr=subprocess.PIPE) as portal:
        try:
            url = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + 20
            while not answers(url) and portal.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            with requests.Session() as session:
                session.trust_env = False
                assert session.post(f"{url}/sign-in", data={"password": "secret-1"}).status_code == 200
                found = session.post(f"{url}/memory/search", json={"query": "x"}).json()
                assert found["stores_searched"] == ["facts", "episodic"]
        finally:
            portal.terminate()
        assert b"Traceback" not in portal.communicate(timeout=10)[1]


def answers(url):
    try:
        with requests.Session() as session:
            session.trust_env = False
            return session.get(f"{url}/memory/health", timeout=5).ok
    except requests.ConnectionError:
        return False


@every("json")
def test_a_json_sample_is_json(sample):
    assert json.loads(sample.text)


@every("toml")
def test_a_toml_sample_is_toml(sample):
    assert tomllib.loads(sample.text)


@every("sh", "bash")
def test_a_shell_sample_can_be_read_by_the_shell(sample):
    done = subprocess.run(["bash", "-n"], input=sample.text, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if sample.info == "run"], ids=str)
def test_a_shell_sample_that_says_run_runs(sample, tmp_path):
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", sample.text], cwd=REPO, env=service_environment(tmp_path),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@every("powershell")
def test_a_powershell_sample_has_no_error_node(sample):
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
    assert not parser.parse(sample.text.encode()).root_node.has_error


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="systemd")
@every("ini")
def test_systemd_finds_no_fault_in_a_unit(sample, tmp_path):
    require(shutil.which("systemd-analyze"), "systemd-analyze")
    text = sample.text.replace("/opt/seren-corpus-callosum/venv/bin/python", sys.executable)
    unit = tmp_path / f"{PROGRAM}@7431.service"
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    about_ours = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (about_ours, PROGRAM in done.stdout) == ([], False)


# Commands


def commands_in(page):
    """Every call of the program in a shell sample or an indented block, as its arguments."""
    text = page.read_text(encoding="utf-8")
    shell = [sample.text for sample in samples_of(page) if sample.language in ("sh", "bash", "powershell")]
    shell += re.findall(r"^ {4}\S.*$", FENCE.sub("", text), re.MULTILINE)
    for line in "\n".join(shell).replace("\\\n", " ").splitlines():
        for part in re.split(r"&&|;|(?<= )\|(?= )", line):
            if f"{PROGRAM}" not in part or part.count('"') % 2 or part.count("'") % 2:
                continue
            words = [word for word in shlex.split(part, comments=True) if not re.fullmatch(r"[A-Z_]+=.*|&", word)]
            if words and words[0].endswith(PROGRAM):
                yield tuple(words[1:])


COMMANDS = sorted({(page.name, words) for page in PAGES for words in commands_in(page)})


def all_commands(group):
    yield group
    for command in group.commands.values():
        yield from all_commands(command) if isinstance(command, click.Group) else [command]


@pytest.mark.parametrize(
    ("page", "words"), COMMANDS, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_a_command_of_the_documentation_is_one_that_the_program_takes(page, words, monkeypatch):
    for command in all_commands(cli.cli):
        monkeypatch.setattr(command, "callback", lambda *args, **kwargs: None)
    done = CliRunner().invoke(cli.cli, list(words))
    assert done.exit_code == 0, done.output


def test_commands_are_found_in_the_documentation():
    assert ("README.md", ("check",)) in COMMANDS
    assert ("install.md", ("-c", "seren-corpus-callosum.yaml", "service", "uninstall")) in COMMANDS


# Links and generated parts


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_to_one(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", FENCE.sub("", page.read_text(encoding="utf-8")))
    local = [link for link in links if not re.match(r"[a-z]+:", link)]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_what_is_generated_is_fresh():
    done = subprocess.run(
        [sys.executable, "scripts/docs.py", "--check"],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), "run: python scripts/docs.py"


def test_every_setting_its_range_and_its_variable_stand_in_the_reference():
    text = (REPO / "docs/configuration.md").read_text(encoding="utf-8")
    for row in settings.all_rows():
        [line] = re.findall(rf"^\| `{row.key}` \|.*`{row.variable}`.*$", text, re.MULTILINE)
        assert row.kind.expected in line
        assert row.help in line
    for row in settings.rows("store", settings.StoreEntry):
        assert f"| `{row.key}` | {row.help} |" in text
    for name in settings.PROCESS_VARIABLES:
        assert f"| `SEREN_SCC_{name}` |" in text


def test_every_option_of_every_adapter_stands_in_the_page_about_stores():
    text = (REPO / "docs/stores.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(seren_\w+)` \| `(\w+)` \|", text, re.MULTILINE)
    assert rows == [
        *[("seren_loci", name) for name in ("project", "include_fundamentals", "include_superseded", "search_path")],
        *[("seren_memory", f"include_{tier}") for tier in ("short", "near", "long", "superseded")],
        ("seren_memory", "search_path"),
    ]


def test_every_key_of_the_example_may_be_taken_out_of_its_comment(tmp_path):
    text = (REPO / "examples/seren-corpus-callosum.yaml").read_text(encoding="utf-8")
    file = tmp_path / "c.yaml"
    file.write_text(re.sub(r"^(\s+)# (\w+: )", r"\1\2", text, flags=re.MULTILINE), encoding="utf-8")
    assert config.load(file, {}).warnings == ()
