"""The set-up scripts: what they print in a dry run, what they refuse, and one real run from a checkout."""

import os
import re
import shutil
import subprocess
import sys

import pytest
import tree_sitter
import tree_sitter_powershell

from tests.support.checks import REPO, require

SH = REPO / "scripts/seren-corpus-callosum-setup.sh"
PS1 = REPO / "scripts/seren-corpus-callosum-setup.ps1"
SWITCHES = ["mcp", "corp", "keyring", "service", "dryrun", "help"]
VALUES = ["dir", "from", "cert"]


@pytest.fixture
def setup(tmp_path):
    """Runs the shell script in a folder of its own, with a home of its own and this Python on the PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python3").symlink_to(sys.executable)
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}

    def run(*options, path=f"{programs}:/usr/bin:/bin", timeout=60, **environment):
        return subprocess.run(
            ["/bin/sh", str(SH), *map(str, options)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**kept, "HOME": str(tmp_path / "home"), "PATH": path, "LC_ALL": "C.UTF-8", **environment},
            timeout=timeout,
        )

    return run


def everything_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_dry_run_prints_every_step_and_changes_nothing(setup, tmp_path):
    before = everything_in(tmp_path)
    done = setup("--dir", tmp_path / "x", "--mcp", "--corp", "--service", "--dry-run")
    x = tmp_path / "x"
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"+ mkdir -p {x}",
        f"+ {tmp_path}/bin/python3 -m venv --clear {x}/venv",
        f"+ {x}/venv/bin/python -m pip install --upgrade 'seren-corpus-callosum[mcp,corp]'",
        f"+ {x}/venv/bin/seren-corpus-callosum -c {x}/seren-corpus-callosum.yaml init",
        f"+ {x}/venv/bin/seren-corpus-callosum -c {x}/seren-corpus-callosum.yaml service install",
        "Nothing was changed.",
    ]
    assert everything_in(tmp_path) == before


def test_a_checkout_and_certificates_are_given_to_pip_with_absolute_paths(setup, tmp_path):
    (tmp_path / "my checkout").mkdir()
    (tmp_path / "ca.pem").write_text("")
    done = setup("--from", "my checkout", "--cert", "ca.pem", "--dir", "d", "--keyring", "--dry-run")
    assert (
        f"+ env PIP_CERT={tmp_path}/ca.pem {tmp_path}/d/venv/bin/python -m pip install --upgrade"
        f" '{tmp_path}/my checkout[keyring]'"
    ) in done.stdout.splitlines()


def test_without_extras_pip_gets_the_plain_name(setup):
    done = setup("--dir", "d", "--dry-run")
    assert "pip install --upgrade seren-corpus-callosum\n" in done.stdout


def test_an_existing_configuration_is_kept(setup, tmp_path):
    (tmp_path / "seren-corpus-callosum.yaml").write_text("server: {}\n")
    done = setup("--dir", tmp_path, "--dry-run")
    assert f"The configuration in {tmp_path}/seren-corpus-callosum.yaml is kept." in done.stdout
    assert " init" not in done.stdout


def test_an_existing_environment_is_kept(setup, tmp_path):
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "venv/bin/python").chmod(0o755)
    done = setup("--dir", tmp_path, "--dry-run")
    assert f"The virtual environment in {tmp_path}/venv is kept." in done.stdout
    assert "-m venv" not in done.stdout


def test_an_environment_whose_python_is_gone_is_made_anew(setup, tmp_path):
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to(tmp_path / "gone")
    assert "-m venv --clear" in setup("--dir", tmp_path, "--dry-run").stdout


def test_without_root_the_default_folder_is_in_the_home(setup, tmp_path):
    done = setup("--dry-run")
    folder = "/opt" if os.geteuid() == 0 else f"{tmp_path}/home/.local/share"
    assert f"-m venv --clear {folder}/seren-corpus-callosum/venv" in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--mpc"], "unknown option: --mpc"),
        (["extra"], "unknown option: extra"),
        (["--dir"], "--dir needs a value"),
        (["--from", ""], "--from needs a value"),
    ],
)
def test_a_wrong_option_is_status_2_with_the_usage(setup, options, said):
    done = setup("--dry-run", *options)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {said}\n\nusage: ")
    assert done.stdout == ""


@pytest.mark.parametrize(("option", "said"), [("--from", "there is no"), ("--cert", "cannot be read")])
def test_a_path_that_is_not_there_is_named(setup, tmp_path, option, said):
    done = setup("--dry-run", option, "nowhere")
    assert done.returncode == 1
    assert option in done.stderr and said in done.stderr and f"{tmp_path}/nowhere" in done.stderr


def test_an_old_python_is_not_enough(setup, tmp_path):
    old = tmp_path / "old"
    old.mkdir()
    for name in ("python", "python3", *(f"python3.{minor}" for minor in range(11, 16))):
        (old / name).write_text("#!/bin/sh\nexit 1\n")
        (old / name).chmod(0o755)
    done = setup("--dry-run", "--dir", "d", path=f"{old}:/usr/bin:/bin")
    assert (done.returncode, done.stderr) == (
        1,
        "error: Python 3.11 or newer is needed and was not found on the PATH\n",
    )


def test_help_is_status_0_and_names_every_option(setup):
    done = setup("--help")
    assert done.returncode == 0
    for option in ("--dir", "--mcp", "--corp", "--keyring", "--from", "--cert", "--service", "--dry-run"):
        assert f"  {option} " in done.stdout


def test_shellcheck_finds_no_fault():
    require(shutil.which("shellcheck"), "shellcheck")
    done = subprocess.run(["shellcheck", str(SH)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_shell_script_may_be_executed():
    assert os.access(SH, os.X_OK)


def test_powershell_can_read_its_script():
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
    assert not parser.parse(PS1.read_bytes()).root_node.has_error
    assert parser.parse(PS1.read_bytes() + b"\nif (").root_node.has_error


def test_the_powershell_script_is_ascii_because_old_powershell_guesses_encodings():
    assert PS1.read_bytes().isascii()


def test_both_scripts_have_the_same_options():
    usage = PS1.read_text().split("@'", 1)[1].split("'@", 1)[0]
    in_usage = re.findall(r"^  -(\w+)", usage, re.MULTILINE)
    in_param = re.findall(r"\[(?:switch|string)\]\$(\w+)", PS1.read_text().split("param(", 1)[1].split("\n)", 1)[0])
    in_shell = re.findall(r"^  --([\w-]+)", SH.read_text(), re.MULTILINE)
    assert {name.lower() for name in in_usage} == {*SWITCHES, *VALUES}
    assert {name.lower() for name in in_param} == {*SWITCHES, *VALUES}
    assert {name.replace("-", "") for name in in_shell} == {*SWITCHES, *VALUES}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_script_sets_up_a_checkout_and_may_be_run_again(setup, tmp_path):
    checkout = tmp_path / "check out"
    checkout.mkdir()
    for name in ("pyproject.toml", "setup.cfg", "LICENSE", "README.md"):
        shutil.copy(REPO / name, checkout)
    for name in ("seren_corpus_callosum", "templates"):
        shutil.copytree(REPO / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    target = tmp_path / "Séren & Co"
    first = setup("--from", checkout, "--dir", target, "--corp", timeout=500)
    assert first.returncode == 0, first.stdout + first.stderr
    config = target / "seren-corpus-callosum.yaml"
    assert config.is_file()
    config.write_text("federation: {stores: []}  # mine\n")
    second = setup("--from", checkout, "--dir", target, timeout=500)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "is kept" in second.stdout
    assert config.read_text() == "federation: {stores: []}  # mine\n"
    program = target / "venv/bin/seren-corpus-callosum"
    shown = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "service" in shown.stdout
