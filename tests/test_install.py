"""Service units: what is generated for each service manager, and what the runner does and refuses."""

import dataclasses
import errno
import os
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath, PureWindowsPath
from xml.etree import ElementTree

import pytest

from seren_corpus_callosum.errors import CallosumError
from seren_corpus_callosum.install import ServiceSpec, detect, install, plan, render, status, uninstall
from tests.support.checks import require

NAME = "seren-corpus-callosum"
PLATFORMS = ["systemd-system", "systemd-user", "launchd-daemon", "launchd-agent", "windows-task"]
TASK = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"


def posix_spec(folder="/opt/My Memory %h & Co/é", **changes):
    settings = {"user": "nora", "uid": 501, "home": PurePosixPath("/home/nora")} | changes
    return ServiceSpec(PurePosixPath(f"{folder}/venv/bin/python"), PurePosixPath(f"{folder}/c.yaml"), **settings)


def windows_spec(folder="C:\\Program Files\\Séren", **changes):
    settings = {"user": "PC\\nora", "uid": 0, "home": PureWindowsPath("C:\\Users\\nora")} | changes
    python = PureWindowsPath(f"{folder}\\venv\\Scripts\\python.exe")
    return ServiceSpec(python, PureWindowsPath(f"{folder}\\c.yaml"), **settings)


def spec_for(platform):
    return windows_spec() if platform == "windows-task" else posix_spec()


def unit_lines(text):
    return [line for line in text.splitlines() if line and not line.startswith(("#", "["))]


# systemd


def test_the_system_unit_is_this_text():
    assert plan("systemd-system", posix_spec("/srv/memory")).text == (
        "# Managed by seren-corpus-callosum\n"
        "[Unit]\n"
        "Description=SerenCorpusCallosum: one query to many memory stores\n"
        "After=network-online.target\n"
        "Wants=network-online.target\n"
        "\n"
        "[Service]\n"
        "Type=exec\n"
        "User=nora\n"
        "ExecStart=/srv/memory/venv/bin/python -m seren_corpus_callosum -c /srv/memory/c.yaml\n"
        "WorkingDirectory=/srv/memory\n"
        "Environment=PYTHONUTF8=1\n"
        "Environment=PYTHONUNBUFFERED=1\n"
        "Restart=on-failure\n"
        "RestartSec=5\n"
        "RestartPreventExitStatus=78\n"
        "KillMode=mixed\n"
        "TimeoutStopSec=4\n"
        "NoNewPrivileges=yes\n"
        "\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )


@pytest.mark.parametrize(
    ("folder", "exec_start", "directory"),
    [
        (
            "/opt/My Memory %h & Co",
            '"/opt/My Memory %%h & Co/venv/bin/python" -m seren_corpus_callosum -c "/opt/My Memory %%h & Co/c.yaml"',
            "/opt/My Memory %%h & Co",
        ),
        (
            "/opt/a;b",
            '"/opt/a;b/venv/bin/python" -m seren_corpus_callosum -c "/opt/a;b/c.yaml"',
            "/opt/a;b",
        ),
        (
            "/opt/Séren",
            "/opt/Séren/venv/bin/python -m seren_corpus_callosum -c /opt/Séren/c.yaml",
            "/opt/Séren",
        ),
        (
            "/opt/$HOME",
            '@"/opt/$HOME/venv/bin/python" "/opt/$$HOME/venv/bin/python" -m seren_corpus_callosum'
            ' -c "/opt/$$HOME/c.yaml"',
            "/opt/$HOME",
        ),
    ],
)
def test_systemd_reads_every_path_as_it_is_meant(folder, exec_start, directory):
    lines = unit_lines(plan("systemd-user", posix_spec(folder)).text)
    assert f"ExecStart={exec_start}" in lines
    assert f"WorkingDirectory={directory}" in lines


def test_a_config_with_a_quote_or_backslash_in_its_name_is_escaped_for_systemd():
    spec = dataclasses.replace(posix_spec("/srv"), config=PurePosixPath('/srv/a"b\\c.yaml'))
    assert '-c "/srv/a\\"b\\\\c.yaml"\n' in plan("systemd-user", spec).text


def test_an_interpreter_that_systemd_cannot_start_is_refused():
    with pytest.raises(CallosumError, match="move the venv"):
        plan("systemd-system", posix_spec("/opt/nora's"))


def test_variables_reach_the_unit_with_their_special_characters():
    lines = unit_lines(plan("systemd-user", posix_spec(env={"A": 'q"uo\\te %h $y', "B": "plain"})).text)
    assert 'Environment="A=q\\"uo\\\\te %%h $y"' in lines
    assert "Environment=B=plain" in lines


@pytest.mark.parametrize("platform", ["systemd-system", "systemd-user"])
@pytest.mark.parametrize("folder", ["plain", "My Memory %h & Co", "Séren $HOME ${x}", "semi;colon #1"])
def test_systemd_itself_finds_no_fault_in_the_unit(tmp_path, platform, folder):
    require(shutil.which("systemd-analyze"), "systemd-analyze")
    program = tmp_path / folder / "venv/bin/python"
    program.parent.mkdir(parents=True)
    program.symlink_to(sys.executable)
    spec = ServiceSpec(program, tmp_path / folder / "c.yaml", user="root")
    unit = tmp_path / f"{NAME}.service"
    unit.write_text(plan(platform, spec).text, encoding="utf-8")
    manager = ["--user"] if platform == "systemd-user" else []
    done = subprocess.run(
        ["systemd-analyze", *manager, "verify", "--man=no", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)},
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_user_service_starts_at_boot_without_a_login():
    made = plan("systemd-user", posix_spec())
    assert str(made.path) == "/home/nora/.config/systemd/user/seren-corpus-callosum.service"
    assert made.install_commands == (
        ("loginctl", "enable-linger", "nora"),
        ("systemctl", "--user", "daemon-reload"),
        ("systemctl", "--user", "enable", "seren-corpus-callosum.service"),
        ("systemctl", "--user", "restart", "seren-corpus-callosum.service"),
    )
    assert "WantedBy=default.target" in made.text
    assert "User=" not in made.text


def test_the_system_service_is_installed_with_these_commands():
    made = plan("systemd-system", posix_spec())
    assert str(made.path) == "/etc/systemd/system/seren-corpus-callosum.service"
    assert made.install_commands == (
        ("systemctl", "daemon-reload"),
        ("systemctl", "enable", "seren-corpus-callosum.service"),
        ("systemctl", "restart", "seren-corpus-callosum.service"),
    )
    assert made.uninstall_commands == (("systemctl", "disable", "--now", "seren-corpus-callosum.service"),)
    assert made.status_command == ("systemctl", "status", "--no-pager", "--lines=20", "seren-corpus-callosum.service")


# launchd


@pytest.mark.parametrize("platform", ["launchd-daemon", "launchd-agent"])
def test_the_plist_says_what_the_unit_says(platform):
    folder = "/Users/nora/My Memory %h & <Co>/é $HOME"
    made = plan(platform, posix_spec(folder))
    content = plistlib.loads(made.text.encode())
    user = content.pop("UserName", None)
    assert user == ("nora" if platform == "launchd-daemon" else None)
    assert content == {
        "Label": NAME,
        "ProgramArguments": [
            f"{folder}/venv/bin/python",
            "-m",
            "seren_corpus_callosum",
            "-c",
            f"{folder}/c.yaml",
        ],
        "WorkingDirectory": folder,
        "EnvironmentVariables": {"PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 30,
        "ExitTimeOut": 4,
        "StandardOutPath": f"{folder}/{NAME}.log",
        "StandardErrorPath": f"{folder}/{NAME}.log",
    }
    assert any("after 78" in note for note in made.notes)


def test_launchd_is_asked_for_the_machine_or_for_the_account():
    daemon = plan("launchd-daemon", posix_spec())
    agent = plan("launchd-agent", posix_spec())
    assert str(daemon.path) == "/Library/LaunchDaemons/seren-corpus-callosum.plist"
    assert str(agent.path) == "/home/nora/Library/LaunchAgents/seren-corpus-callosum.plist"
    assert daemon.install_commands[-1] == ("launchctl", "bootstrap", "system", str(daemon.path))
    assert agent.install_commands[-1] == ("launchctl", "bootstrap", "gui/501", str(agent.path))
    assert any("at login, not at boot" in note for note in agent.notes)


# Windows


def test_the_task_has_this_structure():
    made = plan("windows-task", windows_spec("C:\\Program Files\\Séren & Co <1>"))
    task = ElementTree.fromstring(made.text.encode("utf-16"))
    assert (task.tag, task.get("version")) == (f"{TASK}Task", "1.2")
    assert [child.tag.removeprefix(TASK) for child in task] == [
        *("RegistrationInfo", "Triggers", "Principals", "Settings", "Actions"),
    ]
    text = {node.tag.removeprefix(TASK): node.text for node in task.iter() if len(node) == 0}
    assert text == {
        "Description": "SerenCorpusCallosum: one query to many memory stores. Managed by seren-corpus-callosum",
        "URI": "\\seren-corpus-callosum",
        "Enabled": "true",
        "UserId": "PC\\nora",
        "LogonType": "S4U",
        "RunLevel": "LeastPrivilege",
        "MultipleInstancesPolicy": "IgnoreNew",
        "DisallowStartIfOnBatteries": "false",
        "StopIfGoingOnBatteries": "false",
        "AllowHardTerminate": "true",
        "StartWhenAvailable": "true",
        "AllowStartOnDemand": "true",
        "ExecutionTimeLimit": "PT0S",
        "Priority": "5",
        "Interval": "PT1M",
        "StopAtDurationEnd": "false",
        "StartBoundary": "2020-01-01T00:00:00",
        "Command": "C:\\Program Files\\Séren & Co <1>\\venv\\Scripts\\python.exe",
        "Arguments": '-X utf8 -m seren_corpus_callosum -c "C:\\Program Files\\Séren & Co <1>\\c.yaml"'
        ' --log-file "C:\\Program Files\\Séren & Co <1>\\seren-corpus-callosum.log"',
        "WorkingDirectory": "C:\\Program Files\\Séren & Co <1>",
    }
    assert task.find(f"{TASK}Triggers/{TASK}BootTrigger/{TASK}Enabled") is not None
    assert task.find(f"{TASK}Triggers/{TASK}TimeTrigger/{TASK}Repetition/{TASK}Interval") is not None
    principal = task.find(f"{TASK}Principals/{TASK}Principal")
    assert principal.get("id") == task.find(f"{TASK}Actions").get("Context") == "Author"


def test_the_task_is_created_started_ended_and_deleted_by_schtasks():
    made = plan("windows-task", windows_spec("C:\\Program Files\\Séren"))
    xml = "C:\\Program Files\\Séren\\seren-corpus-callosum-task.xml"
    assert str(made.path) == xml
    assert made.install_commands == (
        ("schtasks", "/Create", "/TN", NAME, "/XML", xml, "/F"),
        ("-", "schtasks", "/End", "/TN", NAME),
        ("schtasks", "/Run", "/TN", NAME),
    )
    assert made.uninstall_commands == (
        ("-", "schtasks", "/Change", "/TN", NAME, "/DISABLE"),
        ("-", "schtasks", "/End", "/TN", NAME),
        ("schtasks", "/Delete", "/TN", NAME, "/F"),
    )


@pytest.mark.parametrize("folder", ["C:\\%TEMP%\\x", "C:\\$(Arg0)"])
def test_paths_that_the_task_scheduler_would_expand_are_refused(folder):
    with pytest.raises(CallosumError, match="rename the folder"):
        plan("windows-task", windows_spec(folder))


def test_a_single_percent_sign_is_fine_on_windows():
    assert "C:\\100% Séren\\c.yaml" in plan("windows-task", windows_spec("C:\\100% Séren")).text


def test_variables_that_the_task_scheduler_cannot_set_are_named():
    made = plan("windows-task", windows_spec(env={"SEREN_SCC_LOG_LEVEL": "debug"}))
    assert made.notes[-1].endswith("set these for the machine: SEREN_SCC_LOG_LEVEL")


def test_print_shows_the_same_service_for_nssm():
    lines = render(plan("windows-task", windows_spec("C:\\Program Files\\Séren & Co"))).splitlines()
    nssm = [line.strip() for line in lines if line.startswith("    nssm")]
    assert nssm[:4] == [
        'nssm install seren-corpus-callosum "C:\\Program Files\\Séren & Co\\venv\\Scripts\\python.exe"',
        "nssm set seren-corpus-callosum AppParameters -X utf8 -m seren_corpus_callosum",
        'nssm set seren-corpus-callosum AppDirectory "C:\\Program Files\\Séren & Co"',
        'nssm set seren-corpus-callosum AppEnvironmentExtra "SEREN_SCC_CONFIG=C:\\Program Files\\Séren & Co\\c.yaml"'
        " PYTHONUTF8=1 PYTHONUNBUFFERED=1",
    ]
    assert "nssm set seren-corpus-callosum AppExit 78 Exit" in nssm
    assert "nssm set seren-corpus-callosum AppStopMethodConsole 4000" in nssm
    assert 'nssm set seren-corpus-callosum AppStderr "C:\\Program Files\\Séren & Co\\seren-corpus-callosum.log"' in nssm


def test_print_shows_the_same_service_for_winsw():
    shown = render(plan("windows-task", windows_spec("C:\\Program Files\\Séren & Co")))
    service = ElementTree.fromstring(shown[shown.index("<service>") :])
    assert service.findtext("executable") == "C:\\Program Files\\Séren & Co\\venv\\Scripts\\python.exe"
    assert service.findtext("arguments") == (
        '-X utf8 -m seren_corpus_callosum -c "C:\\Program Files\\Séren & Co\\c.yaml"'
    )
    assert service.findtext("stoptimeout") == "4 sec"
    assert service.find("onfailure").attrib == {"action": "restart", "delay": "5 sec"}
    assert {"name": "PYTHONUTF8", "value": "1"} in [node.attrib for node in service.findall("env")]


# every platform


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_unit_carries_the_mark_and_the_commands_are_printed(platform):
    made = plan(platform, spec_for(platform))
    shown = render(made)
    assert "Managed by seren-corpus-callosum" in made.text
    assert made.text in shown
    assert [title for title in ("Install:", "Remove:", "Show:", "Notes:") if title not in shown.splitlines()] == []


@pytest.mark.parametrize("platform", PLATFORMS)
def test_planning_and_printing_change_nothing(platform, monkeypatch, tmp_path):
    def refuse(*args, **kwargs):
        raise AssertionError("something was run or written")

    monkeypatch.setattr(subprocess, "run", refuse)
    monkeypatch.setattr(Path, "write_text", refuse)
    monkeypatch.chdir(tmp_path)
    render(plan(platform, spec_for(platform)))
    assert list(tmp_path.iterdir()) == []


def test_the_interpreter_of_the_venv_stays_an_unresolved_symlink(tmp_path):
    program = tmp_path / "venv/bin/python"
    program.parent.mkdir(parents=True)
    program.symlink_to(sys.executable)
    spec = ServiceSpec(program, tmp_path / "c.yaml")
    assert f"{program} -m seren_corpus_callosum" in plan("systemd-user", spec).text.replace('"', "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"config": PurePosixPath("c.yaml")}, "config 'c.yaml'.*absolute"),
        ({"config": PurePosixPath("~/c.yaml")}, "config '~/c.yaml'.*absolute"),
        ({"python": PurePosixPath("python")}, "python 'python'.*absolute"),
        ({"config": PurePosixPath("/srv/a\nExecStart=/bin/evil")}, "'config': control characters"),
        ({"env": {"A": "1\n2"}}, "'A': control characters"),
        ({"name": "../x"}, "service name '../x'"),
        ({"name": ""}, "service name ''"),
    ],
)
def test_what_cannot_be_written_into_a_unit_is_refused(changes, said):
    with pytest.raises(CallosumError, match=said):
        dataclasses.replace(posix_spec(), **changes)


def test_an_unknown_service_manager_is_refused_by_name():
    with pytest.raises(CallosumError, match=r"'upstart'.*systemd-system"):
        plan("upstart", posix_spec())


@pytest.mark.parametrize(
    ("system", "root", "flag", "expected"),
    [
        ("linux", False, False, "systemd-user"),
        ("linux", False, True, "systemd-system"),
        ("linux", True, False, "systemd-system"),
        ("darwin", False, False, "launchd-agent"),
        ("darwin", False, True, "launchd-daemon"),
        ("win32", False, False, "windows-task"),
    ],
)
def test_the_service_manager_follows_the_machine_and_the_account(monkeypatch, system, root, flag, expected):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr("os.geteuid", lambda: 0 if root else 1000)
    assert detect(flag) == expected


def test_a_machine_without_a_known_service_manager_is_told_so(monkeypatch):
    monkeypatch.setattr(sys, "platform", "sunos5")
    with pytest.raises(CallosumError, match="sunos5"):
        detect(False)


def test_behind_sudo_the_service_runs_as_the_one_who_called_it(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_USER", "nora")
    assert ServiceSpec(PurePosixPath("/p"), PurePosixPath("/c")).user == "nora"


# the runner, with stand-ins for the commands of the service managers


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Puts stand-ins first on the PATH that note their words; `answer(name, status, text)` sets what they say."""
    folder = tmp_path / "bin"
    folder.mkdir()
    log = tmp_path / "commands.log"

    class Commands:
        def answer(self, name, rule):
            program = folder / name
            program.write_text(f'#!/bin/sh\necho "{name} $*" >> "{log}"\n{rule}\n')
            program.chmod(0o755)

        def seen(self):
            return log.read_text().splitlines() if log.exists() else []

    made = Commands()
    made.answer("systemctl", 'case "$*" in *cat*) echo "No files found" >&2; exit 1;; esac')
    made.answer("loginctl", "exit 0")
    made.answer("schtasks", 'case "$*" in /Query*) exit 1;; esac')
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return made


@pytest.fixture
def user_plan(tmp_path):
    return plan("systemd-user", ServiceSpec(tmp_path / "python", tmp_path / "c.yaml", user="nora", home=tmp_path))


def test_install_writes_the_unit_and_starts_it(commands, user_plan):
    install(user_plan)
    assert Path(user_plan.path).read_text(encoding="utf-8") == user_plan.text
    assert Path(user_plan.path).stat().st_mode & 0o777 == 0o644
    assert commands.seen() == [
        "systemctl --user cat --no-pager seren-corpus-callosum.service",
        "loginctl enable-linger nora",
        "systemctl --user daemon-reload",
        "systemctl --user enable seren-corpus-callosum.service",
        "systemctl --user restart seren-corpus-callosum.service",
    ]


def test_a_unit_that_cannot_be_written_whole_is_not_left_in_half(commands, user_plan, monkeypatch):
    install(user_plan)

    def full(path, text, **_):
        path.write_bytes(b"")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(CallosumError, match=r"cannot be written: No space left on device$"):
            install(dataclasses.replace(user_plan, text="changed"))
    assert Path(user_plan.path).read_text(encoding="utf-8") == user_plan.text
    assert [path.name for path in Path(user_plan.path).parent.iterdir()] == [Path(user_plan.path).name]
    uninstall(user_plan)


def test_a_path_that_is_no_utf_8_is_refused():
    with pytest.raises(CallosumError, match="broken UTF-8 cannot stand in a service unit"):
        posix_spec("/srv/\udcff")


def test_install_again_replaces_our_own_unit(commands, user_plan):
    install(user_plan)
    install(dataclasses.replace(user_plan, text=user_plan.text + "# changed\n"))
    assert Path(user_plan.path).read_text(encoding="utf-8").endswith("# changed\n")


def test_uninstall_stops_the_service_and_removes_the_unit(commands, user_plan):
    install(user_plan)
    uninstall(user_plan)
    assert not Path(user_plan.path).exists()
    assert commands.seen()[-3:] == [
        "systemctl --user disable --now seren-corpus-callosum.service",
        "systemctl --user daemon-reload",
        "systemctl --user reset-failed seren-corpus-callosum.service",
    ]


@pytest.mark.parametrize("do", [install, uninstall])
def test_a_foreign_unit_file_is_never_touched(commands, user_plan, do):
    path = Path(user_plan.path)
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\nExecStart=/bin/theirs\n")
    with pytest.raises(CallosumError, match="did not write"):
        do(user_plan)
    assert path.read_text() == "[Service]\nExecStart=/bin/theirs\n"
    assert not any(word in line for line in commands.seen() for word in ("enable", "disable", "restart"))


@pytest.mark.parametrize("do", [install, uninstall])
def test_a_masked_unit_stays_masked(commands, user_plan, do):
    path = Path(user_plan.path)
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/null")
    with pytest.raises(CallosumError, match="did not write"):
        do(user_plan)
    assert str(path.readlink()) == "/dev/null"


def test_a_foreign_unit_elsewhere_is_not_shadowed(commands, user_plan):
    commands.answer("systemctl", 'case "$*" in *cat*) echo "ExecStart=/usr/bin/theirs";; esac')
    with pytest.raises(CallosumError, match="systemctl --user cat"):
        install(user_plan)
    assert not Path(user_plan.path).exists()


def test_uninstalling_what_is_not_there_says_so(commands, user_plan):
    with pytest.raises(CallosumError, match="no service is installed"):
        uninstall(user_plan)


def test_launchd_gets_the_new_service_only_when_the_old_one_is_gone(commands, tmp_path):
    stopping = tmp_path / "stopping"
    commands.answer(
        "launchctl",
        f'case "$1" in bootout) echo > "{stopping}";; print) test -e "{stopping}" && rm "{stopping}";;'
        f' bootstrap) test ! -e "{stopping}";; esac',
    )
    made = plan("launchd-agent", ServiceSpec(tmp_path / "python", tmp_path / "c.yaml", uid=501, home=tmp_path))
    install(made)
    of = "gui/501/seren-corpus-callosum"
    assert commands.seen() == [
        *(f"launchctl {words} {of}" for words in ("bootout", "print", "print", "enable")),
        f"launchctl bootstrap gui/501 {made.path}",
    ]


def test_a_failing_command_is_shown_with_what_it_said(commands, user_plan):
    commands.answer("loginctl", 'echo "Could not enable linger: Access denied" >&2; exit 1')
    with pytest.raises(CallosumError, match=r"`loginctl enable-linger nora` failed: Could not enable linger"):
        install(user_plan)


def test_a_machine_without_the_command_is_told_what_to_do(user_plan, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CallosumError, match=r"systemctl is not on this machine.*service print"):
        install(user_plan)
    assert not Path(user_plan.path).exists()


def test_a_folder_that_cannot_be_written_is_named(commands, user_plan, tmp_path):
    (tmp_path / "file").write_text("")
    stuck = dataclasses.replace(user_plan, path=tmp_path / "file/unit.service")
    with pytest.raises(CallosumError, match=r"file/unit.service cannot be"):
        install(stuck)


def test_status_tells_what_the_service_manager_says(commands, user_plan):
    commands.answer("systemctl", 'echo "Active: failed"; echo "Hint" >&2; exit 3')
    assert status(user_plan) == (False, "Active: failed\nHint")
    commands.answer("systemctl", 'echo "Active: active (running)"')
    assert status(user_plan) == (True, "Active: active (running)")


@pytest.fixture
def task_plan(tmp_path):
    return dataclasses.replace(plan("windows-task", windows_spec()), path=tmp_path / "task.xml")


def test_the_task_file_is_utf_16_as_its_first_line_says(commands, task_plan):
    install(task_plan)
    content = Path(task_plan.path).read_bytes()
    assert content[:2] in (b"\xff\xfe", b"\xfe\xff")
    assert ElementTree.fromstring(content).tag == f"{TASK}Task"


def test_our_own_task_is_replaced_and_a_foreign_one_is_not(commands, task_plan):
    commands.answer("schtasks", 'case "$*" in /Query*) echo "<Task>Managed by seren-corpus-callosum</Task>";; esac')
    install(task_plan)
    Path(task_plan.path).unlink()
    commands.answer("schtasks", 'case "$*" in /Query*) echo "<Task>theirs</Task>";; esac')
    with pytest.raises(CallosumError, match="did not write"):
        install(task_plan)


def test_a_task_is_removed_even_where_its_file_is_gone(commands, task_plan):
    commands.answer("schtasks", 'case "$*" in /Query*) echo "Managed by seren-corpus-callosum";; /End*) exit 1;; esac')
    uninstall(task_plan)
    assert commands.seen()[-2:] == [f"schtasks /End /TN {NAME}", f"schtasks /Delete /TN {NAME} /F"]
