"""Service units as data: what a unit is made from, and the plans for systemd and launchd.

Writes nothing and runs nothing; install.py does.
"""

import os
import plistlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Literal

from .errors import CallosumError, ConfigError

Platform = Literal["systemd-system", "systemd-user", "launchd-daemon", "launchd-agent", "windows-task"]
Command = tuple[str, ...]  # a first word "-" means that a failure does not matter

MARKER = "Managed by seren-corpus-callosum"
DESCRIPTION = "SerenCorpusCallosum: one query to many memory stores"
STOP_WITHIN_S = 4  # the program itself takes 2.5 s; whoever waits for more is past 5 s
RESTART_AFTER_S = 5
EXIT_CONFIG = ConfigError.exit_status


def account() -> str:
    """Return who the service runs as: the current account, behind sudo the one that called it."""
    if sys.platform == "win32":
        return f"{os.environ.get('USERDOMAIN', '.')}\\{os.environ.get('USERNAME', '')}"
    import pwd  # not on Windows

    if os.geteuid() == 0 and os.environ.get("SUDO_USER"):
        return os.environ["SUDO_USER"]
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # containers run as users that are in no passwd file
        return str(os.geteuid())


def user_id() -> int:
    return 0 if sys.platform == "win32" else os.getuid()


@dataclass(frozen=True)
class ServiceSpec:
    """What is to run. `python` is sys.executable as it stands: resolving its symlink leaves the venv."""

    python: PurePath
    config: PurePath
    name: str = "seren-corpus-callosum"
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = field(default_factory=account)
    uid: int = field(default_factory=user_id)
    home: PurePath = field(default_factory=Path.home)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", self.name):
            raise CallosumError(f"service name {self.name!r}: use letters, digits, '-', '_' and '.' only")
        for what, path in (("python", self.python), ("config", self.config)):
            if not path.is_absolute():
                raise CallosumError(f"{what} {str(path)!r}: a service needs an absolute path")
        for what, text in [("python", self.python), ("config", self.config), ("user", self.user), *self.env.items()]:
            if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", f"{what}{text}"):
                raise CallosumError(f"{what!r}: control characters and broken UTF-8 cannot stand in a service unit")

    @property
    def folder(self) -> PurePath:
        return self.config.parent

    @property
    def variables(self) -> dict[str, str]:
        return {"PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1", **self.env}

    @property
    def arguments(self) -> Command:
        return ("-m", "seren_corpus_callosum", "-c", str(self.config))


@dataclass(frozen=True)
class Plan:
    """What would be written and run. Cleanup commands follow the removal of the unit file."""

    platform: Platform
    path: PurePath
    text: str
    install_commands: tuple[Command, ...]
    uninstall_commands: tuple[Command, ...]
    status_command: Command
    notes: tuple[str, ...]
    query_command: Command = ()  # prints an installed unit of this name, wherever it came from
    cleanup_commands: tuple[Command, ...] = ()
    alternatives: str = ""
    encoding: str = "utf-8"


def systemd_plan(platform: Platform, spec: ServiceSpec) -> Plan:
    unit = f"{spec.name}.service"
    path: PurePath = PurePath("/etc/systemd/system") / unit
    manager: Command = ("systemctl",)
    first: tuple[Command, ...] = ()
    notes = runs_as(spec, f"`sudo systemctl edit {unit}`, User=")
    if platform == "systemd-user":
        path = spec.home / ".config/systemd/user" / unit
        manager = ("systemctl", "--user")
        first = (("loginctl", "enable-linger", spec.user),)
        notes = (f"Lingering lets it start at boot, without a login; `loginctl disable-linger {spec.user}` ends that.",)
    return Plan(
        platform=platform,
        path=path,
        text=systemd_unit(platform, spec),
        install_commands=(*first, (*manager, "daemon-reload"), (*manager, "enable", unit), (*manager, "restart", unit)),
        uninstall_commands=((*manager, "disable", "--now", unit),),
        cleanup_commands=((*manager, "daemon-reload"), ("-", *manager, "reset-failed", unit)),
        status_command=(*manager, "status", "--no-pager", "--lines=20", unit),
        query_command=(*manager, "cat", "--no-pager", unit),
        notes=(*notes, *secrets_note(spec), f"Exit status {EXIT_CONFIG}, a faulty configuration, is not restarted."),
    )


def systemd_unit(platform: Platform, spec: ServiceSpec) -> str:
    if re.search(r"[\"'\\]", str(spec.python)):
        raise CallosumError(
            f"{spec.python}: systemd starts no program with a quote or backslash in its path; move the venv"
        )
    system = platform == "systemd-system"
    program = systemd_word(str(spec.python))
    if "$" in program:
        # systemd expands $ in the arguments and in argv[0] but not in the path, so the two differ here.
        program = f"@{program} {program.replace('$', '$$')}"
    arguments = " ".join(systemd_word(argument).replace("$", "$$") for argument in spec.arguments)
    network = "After=network-online.target\nWants=network-online.target\n" if system else ""
    user = f"User={spec.user.replace('%', '%%')}\n" if system else ""
    environment = "".join(f"Environment={systemd_word(f'{k}={v}')}\n" for k, v in spec.variables.items())
    return f"""\
# {MARKER}
[Unit]
Description={DESCRIPTION}
{network}
[Service]
Type=exec
{user}ExecStart={program} {arguments}
WorkingDirectory={str(spec.folder).replace("%", "%%")}
{environment}Restart=on-failure
RestartSec={RESTART_AFTER_S}
RestartPreventExitStatus={EXIT_CONFIG}
KillMode=mixed
TimeoutStopSec={STOP_WITHIN_S}
NoNewPrivileges=yes

[Install]
WantedBy={"multi-user" if system else "default"}.target
"""


def systemd_word(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if re.search(r"[^\w/.=@%:+,-]", text) else escaped


def launchd_plan(platform: Platform, spec: ServiceSpec) -> Plan:
    daemon = platform == "launchd-daemon"
    domain = "system" if daemon else f"gui/{spec.uid}"
    path = (
        PurePath("/") if daemon else spec.home
    ) / f"Library/Launch{'Daemons' if daemon else 'Agents'}/{spec.name}.plist"
    target = f"{domain}/{spec.name}"
    # bootout returns while the service is still stopping, and bootstrap fails until it is gone.
    gone = (
        f"for _ in $(seq 50); do launchctl print {target} >/dev/null 2>&1 || exit 0; sleep 0.2; done; "
        "echo 'the old service does not stop' >&2; exit 1"
    )
    log = str(spec.folder / f"{spec.name}.log")
    content = {
        "Label": spec.name,
        "ProgramArguments": [str(spec.python), *spec.arguments],
        "WorkingDirectory": str(spec.folder),
        "EnvironmentVariables": spec.variables,
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 30,
        "ExitTimeOut": STOP_WITHIN_S,
        "StandardOutPath": log,
        "StandardErrorPath": log,
    } | ({"UserName": spec.user} if daemon else {})
    text = plistlib.dumps(content, sort_keys=False).decode()
    start = (
        runs_as(spec, "UserName in the plist")
        if daemon
        else ("A LaunchAgent starts at login, not at boot; --system does.",)
    )
    return Plan(
        platform=platform,
        path=path,
        text=text.replace("<plist ", f"<!-- {MARKER} -->\n<plist ", 1),
        install_commands=(
            ("-", "launchctl", "bootout", target),
            ("sh", "-c", gone),
            ("launchctl", "enable", target),
            ("launchctl", "bootstrap", domain, str(path)),
        ),
        uninstall_commands=(("-", "launchctl", "bootout", target),),
        status_command=("launchctl", "print", target),
        notes=(
            *start,
            *secrets_note(spec),
            f"launchd restarts after every failure, each 30 s, after {EXIT_CONFIG} (a faulty configuration) too.",
            f"What the service says is in {log}.",
        ),
    )


def runs_as(spec: ServiceSpec, change: str) -> tuple[str, ...]:
    rights = (
        f"Runs as {spec.user} ({change} changes that), who must be able to read the config and to write {spec.folder}."
    )
    return (rights,)


def secrets_note(spec: ServiceSpec) -> tuple[str, ...]:
    if not spec.env:
        return ()
    return ("Everyone can read the unit file: keep tokens in the config file or the keychain, not in its variables.",)
