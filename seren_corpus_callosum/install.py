"""Installs, removes and shows the service units that units.py and units_windows.py plan.

A unit that does not carry MARKER is someone else's and is never touched.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args

from .errors import CallosumError
from .units import MARKER, Command, Plan, Platform, ServiceSpec, launchd_plan, systemd_plan
from .units_windows import windows_line, windows_plan

__all__ = ["Plan", "Platform", "ServiceSpec", "detect", "install", "plan", "render", "status", "uninstall"]

COMMAND_TIMEOUT_S = 60


def detect(system_flag: bool) -> Platform:
    """Return the service manager of this machine; `system_flag` asks for one of the machine, not of the account."""
    if sys.platform == "win32":
        return "windows-task"
    system = system_flag or os.geteuid() == 0
    if sys.platform == "darwin":
        return "launchd-daemon" if system else "launchd-agent"
    if sys.platform.startswith("linux"):
        return "systemd-system" if system else "systemd-user"
    raise CallosumError(f"no service manager is known for {sys.platform}: start the program from your own")


def plan(platform: Platform, spec: ServiceSpec) -> Plan:
    """Return the plan for one service manager; touches nothing."""
    if platform not in get_args(Platform):
        raise CallosumError(f"unknown service manager {platform!r}: one of {', '.join(get_args(Platform))}")
    if platform.startswith("systemd"):
        return systemd_plan(platform, spec)
    return windows_plan(spec) if platform == "windows-task" else launchd_plan(platform, spec)


def install(plan: Plan) -> None:
    """Write the unit and start the service; ours is replaced, a foreign one is a CallosumError."""
    owner(plan)
    write(plan)
    for command in plan.install_commands:
        run(plan, command)


def uninstall(plan: Plan) -> None:
    """Stop the service and remove its unit; none, or a foreign one, is a CallosumError."""
    if owner(plan) == "nobody":
        raise CallosumError(f"no service is installed here: {plan.path} does not exist")
    for command in plan.uninstall_commands:
        run(plan, command)
    try:
        Path(plan.path).unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(plan, error) from error
    for command in plan.cleanup_commands:
        run(plan, command)


def status(plan: Plan) -> tuple[bool, str]:
    """Return whether the service manager calls it well, and all that it says."""
    done = call(plan, plan.status_command)
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def render(plan: Plan) -> str:
    """Return the unit and every command as text, for reading and for doing by hand."""
    line = windows_line if plan.platform == "windows-task" else shlex.join
    sections = [f"{plan.path}\n\n{plan.text}"]
    for title, commands in (
        ("Install:", plan.install_commands),
        ("Remove:", (*plan.uninstall_commands, *removal(plan), *plan.cleanup_commands)),
        ("Show:", (plan.status_command,)),
    ):
        shown = (line(command[1:]) + "   (may fail)" if command[0] == "-" else line(command) for command in commands)
        sections.append("\n".join([title, *(f"    {text}" for text in shown)]) + "\n")
    sections.append("Notes:\n" + "".join(f"  - {note}\n" for note in plan.notes))
    return "\n".join([*sections, *filter(None, [plan.alternatives])])


def removal(plan: Plan) -> tuple[Command, ...]:
    return (("del" if plan.platform == "windows-task" else "rm", str(plan.path)),)


def owner(plan: Plan) -> Literal["us", "nobody"]:
    """Return whose unit stands there; a foreign one is a CallosumError that names it."""
    path = Path(plan.path)
    found = {}
    if path.is_symlink():  # a masked or linked unit: replacing it undoes what somebody decided
        raise foreign(plan, str(path))
    try:
        if path.exists():
            found[str(path)] = path.read_bytes()
    except OSError as error:
        raise CallosumError(f"{path} cannot be read: {error.strerror}") from error
    if plan.query_command:
        answer = call(plan, plan.query_command)
        if answer.returncode == 0:
            found[shlex.join(plan.query_command)] = answer.stdout.encode()
    for where, content in found.items():
        if MARKER.encode() not in content.replace(b"\0", b""):  # UTF-16 is ASCII with zeros between
            raise foreign(plan, where)
    return "us" if found else "nobody"


def foreign(plan: Plan, where: str) -> CallosumError:
    return CallosumError(
        f"{where}: a service of this name exists that this program did not write; remove it, or choose another name"
    )


def write(plan: Plan) -> None:
    path = Path(plan.path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_name(f".{path.name}.new")
        try:
            written.write_text(plan.text, encoding=plan.encoding)
            written.chmod(0o644)
            written.replace(path)  # half a unit has no MARKER: it would pass for somebody else's
        finally:
            written.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(plan, error) from error


def unwritable(plan: Plan, error: OSError) -> CallosumError:
    hint = "; a service of the machine needs sudo" if isinstance(error, PermissionError) else ""
    return CallosumError(f"{plan.path} cannot be written: {error.strerror}{hint}")


def run(plan: Plan, command: Command) -> None:
    """Run one command of a plan; a failure is a CallosumError with what the command said."""
    if command[0] == "-":
        call(plan, command[1:])
        return
    done = call(plan, command)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
        raise CallosumError(f"`{shlex.join(command)}` failed: {said}")


def call(plan: Plan, command: Command) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    if plan.platform == "systemd-user":
        # Without a login session (su, cron) the variable is missing, and systemctl finds no user manager.
        environment.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    try:
        return subprocess.run(  # noqa: S603 - the words of a plan, and no shell
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env=environment,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise CallosumError(
            f"{command[0]} is not on this machine: `service print` shows what to set up by hand"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CallosumError(f"`{shlex.join(command)}` failed: {error}") from error
