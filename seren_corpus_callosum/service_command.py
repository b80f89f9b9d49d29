"""The work of `service`: what this installation and this configuration are as a service, and what stands in its way."""

import os
import sys
from pathlib import Path

from . import install
from .config import file_path, load, working_directory
from .errors import CallosumError, ConfigError
from .settings import PREFIX
from .units import ServiceSpec

ACTIONS = ("install", "uninstall", "status", "print")
NOT_WELL = 3  # of systemctl and of init scripts: the service does not run


def spec_of(config_path: str | None) -> ServiceSpec:
    """This interpreter, unresolved, with this configuration: a service starts in no folder of the caller's."""
    config = file_path(config_path, os.environ)
    if not config.is_absolute():
        config = working_directory() / config
    try:
        return ServiceSpec(python=Path(sys.executable), config=config)
    except RuntimeError:
        raise CallosumError("there is no home folder: set HOME") from None


def carry_out(action: str, config_path: str | None, *, system: bool) -> tuple[int, str]:
    """Do one of ACTIONS and return the exit status and what to say; raises CallosumError, ConfigError."""
    spec = spec_of(config_path)
    plan = install.plan(install.detect(system), spec)
    if action == "print":
        return 0, install.render(plan)
    if action == "status":
        is_well, told = install.status(plan)
        return 0 if is_well else NOT_WELL, told
    if action == "uninstall":
        install.uninstall(plan)
        return 0, f"removed {plan.path}"
    hindrances = checked(spec)
    install.install(plan)
    lines = [f"installed {plan.path}", *(f"warning: {line}" for line in hindrances), *plan.notes]
    return 0, "\n".join(lines)


def checked(spec: ServiceSpec) -> list[str]:
    """What will not be for the service as it is here; a missing or faulty configuration is an error."""
    config = Path(spec.config)
    try:
        config.stat()
    except FileNotFoundError:
        raise CallosumError(f"there is no {config}: write one with `seren-corpus-callosum -c {config} init`") from None
    except OSError:
        pass  # load says why it cannot be read
    load(config)
    lines = [
        f"{name} is set here and will not be for the service; set it in {config.name}"
        for name in sorted(os.environ)
        if name.startswith(PREFIX) and name != f"{PREFIX}CONFIG"
    ]
    try:
        load(config, {})
    except ConfigError as exc:
        lines += [f"without the variables that are set here: {fault}" for fault in exc.faults]
    return lines + _rights(spec, config)


def _rights(spec: ServiceSpec, config: Path) -> list[str]:
    """Files of root's that a service of another account cannot use."""
    if sys.platform == "win32" or os.geteuid() != 0 or spec.user == "root":
        return []
    import pwd  # not on Windows

    try:
        uid = pwd.getpwnam(spec.user).pw_uid
    except KeyError:
        return []
    return [
        f"{path} is not owned by {spec.user}, as whom the service runs: chown {spec.user} '{path}'"
        for path in (config.parent, config)
        if path.stat().st_uid != uid
    ]
