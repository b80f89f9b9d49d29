"""Promises of the package's shape: imports point one way, each library has its one place, the wheel is whole."""

import ast
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checks import REPO
from tests.support.net import free_port
from tests.support.process import ServerProcess, clean_environment

PACKAGE = REPO / "seren_corpus_callosum"
# Each module imports only from those to its left.
ORDER = """
    errors hits | values fusion | kinds | settings tokens urls | overlay stores | yamlfile connections | binding config
    | transport | health fan | roster snapshot | service | wire guard | tool shorten mcp | page answers web | server
    sample_memories demo units units_windows install reference init service_command logs console remote
    | cli __init__ __main__
"""
LINES_LIMIT = 330
# Who may import which library; None: nobody may.
PLACES: dict[str, set[str] | None] = {
    "requests": {"connections", "transport"},
    "urllib3": {"connections", "transport"},
    "flask": {"answers", "web"},
    "werkzeug": {"web"},
    "waitress": {"server"},
    "jinja2": {"page"},
    "mcp": {"mcp"},
    "mcp_types": {"mcp"},
    "anyio": {"mcp"},
    "asyncio": {"mcp"},
    "filelock": {"overlay"},
    "idna": {"urls"},
    "marshmallow": {"wire"},
    "yaml": {"yamlfile"},
    "click": {"cli", "logs"},
    "truststore": {"transport"},
    "keyring": {"tokens"},
    "torch": None,
    "numpy": None,
    "chromadb": None,
    "sentence_transformers": None,
    "seren_loci": None,
    "seren_memory": None,
}
PURE = {"errors", "hits", "values", "fusion", "kinds", "settings", "urls", "stores", "guard", "snapshot"}
IMPURE = {"os", "time", "threading", "subprocess", "logging", "asyncio", "concurrent"}

MODULES = sorted(path.stem for path in PACKAGE.glob("*.py"))


def imports(module: str) -> Iterator[tuple[str, str | None]]:
    """Each import of a module: (`.sibling` or library, imported name)."""
    for node in ast.walk(ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level <= 1
            for alias in node.names:
                if node.level and node.module is None:
                    yield f".{alias.name}", None
                else:
                    yield f"{'.' * node.level}{node.module}", alias.name


def test_every_module_has_its_place_in_the_order() -> None:
    assert sorted(ORDER.replace("|", " ").split()) == MODULES


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_those_to_its_left(module: str) -> None:
    order = ORDER.replace("|", " ").split()
    left = set(order[: order.index(module)])
    siblings = {name[1:].partition(".")[0] for name, _ in imports(module) if name.startswith(".")}
    assert siblings <= left
    assert not any(name.startswith("seren_corpus_callosum") for name, _ in imports(module)), "imports are relative"


@pytest.mark.parametrize("module", MODULES)
def test_no_underscored_name_crosses_modules(module: str) -> None:
    crossing = [f"{name}.{imported}" for name, imported in imports(module) if imported and imported.startswith("_")]
    assert crossing == []
    siblings = {name[1:] for name, imported in imports(module) if name.startswith(".") and imported is None}
    tree = ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))
    reached = [
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id in siblings and node.attr.startswith("_") and not node.attr.startswith("__")
    ]
    assert reached == []


@pytest.mark.parametrize("module", MODULES)
def test_each_library_is_imported_in_its_one_place(module: str) -> None:
    used = {name.partition(".")[0] for name, _ in imports(module) if not name.startswith(".")}
    strangers = used - set(PLACES) - sys.stdlib_module_names
    assert strangers == set(), "say in PLACES who may import it"
    assert [name for name in used & set(PLACES) if module not in (PLACES[name] or ())] == []


@pytest.mark.parametrize("module", sorted(PURE))
def test_the_pure_modules_know_no_clock_thread_or_process(module: str) -> None:
    used = {name.partition(".")[0] for name, _ in imports(module)}
    assert used & IMPURE <= ({"time"} if module == "snapshot" else set())


@pytest.mark.parametrize("module", MODULES)
def test_no_module_is_too_long_to_read(module: str) -> None:
    lines = (PACKAGE / f"{module}.py").read_text(encoding="utf-8").count("\n")
    assert lines <= LINES_LIMIT


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_in_a_few_lines_what_it_holds(module: str) -> None:
    told = ast.get_docstring(ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8")))
    assert told
    assert 1 <= len(told.splitlines()) <= (25 if module == "errors" else 5)  # errors draws its tree there


BLOCKED = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"mcp", "mcp_types", "truststore", "keyring", "anyio"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import seren_corpus_callosum.cli
print(",".join(sorted(name for name in sys.modules if name in ("mcp", "truststore", "keyring", "anyio"))))
"""


def test_the_core_imports_without_any_extra(tmp_path: Path) -> None:
    environment = clean_environment(tmp_path, {"PYTHONPATH": str(REPO)})
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKED], env=environment, capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


# The wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an empty environment into which the wheel, built from a copy of the tree, was installed."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in ("seren_corpus_callosum", "templates"):
        shutil.copytree(REPO / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(REPO / name, source / name)
    run(folder, sys.executable, "-m", "build", "--outdir", "dist", "source")
    (wheel,) = (folder / "dist").glob("*.whl")
    shutil.rmtree(source)
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(folder, str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", str(wheel))
    return python


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=clean_environment(folder / "home"), capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_serves_and_shows_its_page_in_an_empty_environment(installed: Path, tmp_path: Path) -> None:
    extras = "import importlib.util as u; print([n for n in ('mcp', 'truststore', 'keyring') if u.find_spec(n)])"
    assert run(tmp_path, str(installed), "-c", extras).strip() == "[]"
    port = free_port()
    environment = clean_environment(tmp_path / "home", {"SEREN_SCC_PORT": str(port), "SEREN_SCC_HOST": "127.0.0.1"})
    script = installed.parent / "seren-corpus-callosum"
    with ServerProcess([str(script)], tmp_path, port, environment) as server:
        import requests

        with requests.Session() as session:
            session.trust_env = False
            page = session.get(f"{server.url}/viewer", timeout=10)
            assert (page.status_code, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
            assert "<script" in page.text
            about = session.get(f"{server.url}/", timeout=10).json()
            assert (about["service"], about["mcp"]) == ("seren-corpus-callosum", False)
            without = session.post(f"{server.url}/mcp", json={}, timeout=10)
            assert (without.status_code, "seren-corpus-callosum[mcp]" in without.json()["detail"]) == (404, True)
        assert server.stop() == 0
    assert "Traceback" not in server.stderr


@pytest.mark.slow
def test_the_wheel_shows_its_demo_in_an_empty_environment(installed: Path, tmp_path: Path) -> None:
    assert "facts #1" in run(tmp_path, str(installed), "-m", "seren_corpus_callosum", "demo", "--once")


@pytest.mark.slow
def test_the_wheel_holds_the_package_its_templates_and_its_licence_and_nothing_else(installed: Path) -> None:
    files = run(installed.parent, str(installed), "-c", (
        "from importlib.metadata import files\n"
        "for f in files('seren-corpus-callosum'): print(f.as_posix())"
    )).split()  # fmt: skip
    ours = {name.partition("/")[0] for name in files if ".." not in name}
    assert {name for name in ours if not name.endswith(".dist-info")} == {"seren_corpus_callosum"}
    templates = {path.name for path in (REPO / "templates").iterdir() if path.suffix in (".html", ".css", ".js")}
    assert {name.rpartition("/")[2] for name in files if "/templates/" in name and ".pyc" not in name} >= templates
    assert "seren_corpus_callosum/py.typed" in files
    assert any(name.endswith("licenses/LICENSE") for name in files)
