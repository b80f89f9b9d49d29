"""`service`, `--log-file`, and a start in the bare surroundings that a service manager gives."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from seren_corpus_callosum import install, service_command
from seren_corpus_callosum.errors import CallosumError, ConfigError
from tests.support.net import free_port
from tests.support.service import Service, run_command, service_environment

CONFIG = "federation:\n  stores: []\n"


@pytest.fixture
def done(monkeypatch):
    """What would have been done to the machine, in order; nothing is."""
    deeds = []
    monkeypatch.setattr(install, "install", lambda plan: deeds.append(("install", plan)))
    monkeypatch.setattr(install, "uninstall", lambda plan: deeds.append(("uninstall", plan)))
    monkeypatch.setattr(install, "status", lambda plan: (deeds.append(("status", plan)), (False, "inactive"))[1])
    monkeypatch.setattr(install, "detect", lambda system: "systemd-system" if system else "systemd-user")
    return deeds


@pytest.fixture
def config_file(tmp_path):
    file = tmp_path / "my config %h & Séren.yaml"
    file.write_text(CONFIG)
    return file


@pytest.mark.parametrize("command", [["init"], ["service", "install"]], ids=repr)
def test_a_path_that_no_file_can_have_is_told_in_one_line(tmp_path, command):
    told = run_command(tmp_path, "-c", "a" * 300, *command)
    assert told.returncode in (1, 78)
    assert "File name too long" in told.stderr
    assert len(told.stderr.splitlines()) == 1


def test_install_plans_for_this_interpreter_and_this_file(done, config_file):
    status, told = service_command.carry_out("install", str(config_file), system=False)
    [(deed, plan)] = done
    assert (deed, plan.platform, status) == ("install", "systemd-user", 0)
    assert str(config_file).replace("%", "%%") in plan.text
    assert f"ExecStart={sys.executable} " in plan.text
    assert told.splitlines()[0] == f"installed {plan.path}"


def test_system_asks_for_a_service_of_the_machine(done, config_file):
    service_command.carry_out("install", str(config_file), system=True)
    assert done[0][1].platform == "systemd-system"


def test_a_relative_path_is_made_absolute_and_a_link_stays_a_link(done, config_file, monkeypatch):
    monkeypatch.chdir(config_file.parent)
    Path("link.yaml").symlink_to(config_file)
    service_command.carry_out("install", "link.yaml", system=False)
    assert f"-c {config_file.parent}/link.yaml\n" in done[0][1].text


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be removed")
def test_a_working_directory_that_is_gone_is_told_and_a_full_path_needs_none(done, config_file, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match="the working directory is gone"):
        service_command.carry_out("print", "c.yaml", system=False)
    assert service_command.spec_of(str(config_file)).config == config_file


@pytest.mark.parametrize("action", ["install", "status", "print", "uninstall"])
def test_the_file_may_be_named_by_the_variable(action, done, config_file, monkeypatch):
    monkeypatch.setenv("SEREN_SCC_CONFIG", str(config_file))
    service_command.carry_out(action, None, system=False)
    assert service_command.spec_of(None).config == config_file


def test_without_a_config_file_install_says_to_run_init_first(done, tmp_path):
    missing = tmp_path / "c.yaml"
    with pytest.raises(CallosumError, match=rf"there is no {missing}: write one with .* -c {missing} init"):
        service_command.carry_out("install", str(missing), system=False)
    assert done == []


def test_a_faulty_config_file_is_not_installed(done, config_file):
    config_file.write_text("server: {port: 0}\n")
    with pytest.raises(ConfigError, match=r"a whole number 1\.\.65535"):
        service_command.carry_out("install", str(config_file), system=False)
    assert done == []


def test_install_tells_what_the_service_will_not_have(done, config_file, monkeypatch):
    config_file.write_text("server: {bearer_token_env: MY_TOKEN}\n")
    monkeypatch.setenv("MY_TOKEN", "secret-of-mine")
    monkeypatch.setenv("SEREN_SCC_PORT", "7500")
    _, told = service_command.carry_out("install", str(config_file), system=False)
    assert "warning: SEREN_SCC_PORT is set here and will not be for the service" in told
    assert "warning: without the variables that are set here: " in told
    assert "MY_TOKEN" in told
    assert "secret-of-mine" not in told


def test_status_is_3_where_the_service_does_not_run(done, config_file):
    assert service_command.carry_out("status", str(config_file), system=False) == (3, "inactive")


def test_print_and_status_and_uninstall_need_no_config_file(done, tmp_path):
    missing = str(tmp_path / "c.yaml")
    for action in ("print", "status", "uninstall"):
        service_command.carry_out(action, missing, system=False)
    assert [deed for deed, _ in done] == ["status", "uninstall"]


@pytest.mark.skipif(sys.platform == "win32", reason="accounts of POSIX")
def test_root_is_told_which_files_the_services_account_does_not_own(config_file, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_USER", "daemon")
    spec = service_command.spec_of(str(config_file))
    assert spec.user == "daemon"
    assert [line.split(" is not owned by daemon")[0] for line in service_command.checked(spec)] == [
        str(config_file.parent),
        str(config_file),
    ]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prints the plan of this machine")
def test_print_shows_the_unit_and_the_commands_and_changes_nothing(tmp_path):
    before = sorted(tmp_path.rglob("*"))
    shown = run_command(tmp_path, "-c", "some/c.yaml", "service", "print", "--system")
    assert shown.returncode == 0, shown.stderr
    assert "Restart=on-failure\n" in shown.stdout
    assert f" -c {tmp_path}/some/c.yaml\n" in shown.stdout
    assert "systemctl enable seren-corpus-callosum.service" in shown.stdout
    assert [path for path in sorted(tmp_path.rglob("*")) if path not in before] == [tmp_path / "home"]


def test_an_unknown_action_is_a_usage_error(tmp_path):
    assert run_command(tmp_path, "service", "reinstall").returncode == 2


# The log file: the Task Scheduler keeps no output (B91, B98)


def test_with_a_log_file_the_log_goes_there_and_standard_error_stays_empty(service, tmp_path):
    log = tmp_path / "a b" / "callosum.log"
    log.parent.mkdir()
    one = service(CONFIG, args=["--log-file", str(log)])
    assert one.stop() == 0
    assert one.stderr == ""
    text = log.read_text(encoding="utf-8")
    assert f"listening on 127.0.0.1 port {one.port}" in text
    assert "GET /health 200" in text


@pytest.mark.parametrize(
    ("yaml", "status", "cause"),
    [
        ("server: {port: no}\n", 78, "server.port: expected a whole number 1..65535"),
        ("server: [\n", 78, "not valid YAML"),
        ("server: {host: 192.0.2.1}\n", 1, "cannot listen on 192.0.2.1 port "),
    ],
)
def test_the_last_line_of_the_log_file_says_why_a_start_fails(yaml, status, cause, tmp_path):
    (tmp_path / "c.yaml").write_text(yaml)
    ended = run_command(
        tmp_path, "-c", "c.yaml", "--log-file", "c.log", env={"SEREN_SCC_PORT": ""} if status == 78 else {}
    )
    assert ended.returncode == status
    assert cause in (tmp_path / "c.log").read_text(encoding="utf-8").splitlines()[-1]
    assert cause in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


def test_a_log_file_that_cannot_be_written_is_a_configuration_fault(tmp_path):
    ended = run_command(tmp_path, "--log-file", "nowhere/c.log")
    assert (ended.returncode, ended.stdout) == (78, "")
    assert ended.stderr == "--log-file nowhere/c.log: cannot be written: No such file or directory\n"


def test_a_port_in_use_is_named_and_is_no_configuration_fault(service, tmp_path):
    first = service(CONFIG)
    ended = run_command(tmp_path, env={"SEREN_SCC_HOST": "127.0.0.1", "SEREN_SCC_PORT": str(first.port)})
    assert ended.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {first.port}: address already in use" in ended.stderr.splitlines()[-1]


# Bare surroundings (B94)


def bare_command(folder: Path, config: Path, port: int) -> list[str]:
    root = service_environment(folder)["PYTHONPATH"]
    bind = ["SEREN_SCC_HOST=127.0.0.1", f"SEREN_SCC_PORT={port}"]
    python = [sys.executable, "-m", "seren_corpus_callosum", "-c", str(config)]
    return ["env", "-i", f"PYTHONPATH={root}", *bind, *python]


@pytest.mark.skipif(sys.platform == "win32", reason="env -i")
@pytest.mark.parametrize("name", ["~", "My Memory %h & Co"])
def test_without_home_and_in_the_root_folder_it_serves_and_writes_beside_its_config_only(name, good_store, tmp_path):
    folder = tmp_path / name
    folder.mkdir()
    store = good_store("seren_loci", [{"id": "1", "key": "a", "value": "b"}])
    before = set(Path("/").iterdir())
    one = Service(folder, CONFIG)
    one.command = bare_command(tmp_path, one.config, one.port)
    one.folder = tmp_path / "said"
    one.folder.mkdir()
    command = one.command
    one.command = ["sh", "-c", 'cd / && exec "$@"', "sh", *command]
    with one:
        entry = {"name": "facts", "type": "seren_loci", "url": store.url}
        assert one.request("POST", "/stores", json=entry).status_code == 201
        assert one.search("x")["stores_searched"] == ["facts"]
        assert one.stop() == 0
    assert (folder / "runtime-stores.json").exists()
    assert set(Path("/").iterdir()) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "home", "said"])
    assert "Traceback" not in one.stderr


def test_a_relative_overlay_is_beside_the_config_file_wherever_it_is_started(service, tmp_path):
    (tmp_path / "state").mkdir()
    elsewhere = tmp_path / "elsewhere"
    one = service(CONFIG, folder=elsewhere, env={"SEREN_SCC_RUNTIME_STORES": "../state/stores.json"})
    answer = one.request("POST", "/stores", json={"name": "a", "type": "seren_loci", "url": "http://127.0.0.1:1"})
    assert answer.status_code == 201
    assert (tmp_path / "state" / "stores.json").exists()


def test_the_log_names_a_state_folder_that_is_missing(service, tmp_path):
    one = service(CONFIG, env={"SEREN_SCC_RUNTIME_STORES": "state/stores.json"})
    answer = one.request("POST", "/stores", json={"name": "a", "type": "seren_loci", "url": "http://127.0.0.1:1"})
    assert answer.status_code == 503
    assert f"{one.folder / 'state'} does not exist" in one.stderr
    assert not (one.folder / "state").exists()


# Stopping (B30, B92)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_stopped_and_started_ten_times_it_is_one_process_and_frees_its_port_at_once(tmp_path):
    with Service(tmp_path, CONFIG, port=free_port()) as one:
        for number in (signal.SIGTERM, signal.SIGINT) * 5:
            assert psutil.Process(one.pid).children() == []
            one.signal(number)
            assert one.wait(5) == 0
            one.start()
