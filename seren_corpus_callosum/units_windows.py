"""The plan for the Windows Task Scheduler, and the same service as settings for NSSM and WinSW. Text only."""

import re
import subprocess
from xml.etree import ElementTree

from .errors import CallosumError
from .units import DESCRIPTION, EXIT_CONFIG, MARKER, RESTART_AFTER_S, STOP_WITHIN_S, Command, Plan, ServiceSpec

TASK_NAMESPACE = "http://schemas.microsoft.com/windows/2004/02/mit/task"


def windows_plan(spec: ServiceSpec) -> Plan:
    if any(re.search(r"%[^%]+%|\$\(", str(path)) for path in (spec.python, spec.config)):
        raise CallosumError("the Task Scheduler would replace %NAME% and $(NAME) in the paths: rename the folder")
    path = spec.folder / f"{spec.name}-task.xml"
    ignored = ", ".join(spec.env)
    return Plan(
        platform="windows-task",
        path=path,
        text='<?xml version="1.0" encoding="UTF-16"?>\n' + xml_text(task_xml(spec)),
        encoding="utf-16",
        install_commands=(
            ("schtasks", "/Create", "/TN", spec.name, "/XML", str(path), "/F"),
            ("-", "schtasks", "/End", "/TN", spec.name),
            ("schtasks", "/Run", "/TN", spec.name),
        ),
        uninstall_commands=(
            ("-", "schtasks", "/Change", "/TN", spec.name, "/DISABLE"),
            ("-", "schtasks", "/End", "/TN", spec.name),
            ("schtasks", "/Delete", "/TN", spec.name, "/F"),
        ),
        status_command=("schtasks", "/Query", "/TN", spec.name, "/V", "/FO", "LIST"),
        query_command=("schtasks", "/Query", "/TN", spec.name, "/XML"),
        notes=(
            "Creating a task that starts at boot needs an elevated terminal. Keep the XML file in UTF-16.",
            f"Runs as {spec.user} with least privilege and without a password: it cannot open what is encrypted for "
            "this account (the Credential Manager) nor sign in to proxies as this account.",
            f"The Task Scheduler starts it again within a minute however it ended, after {EXIT_CONFIG} (a faulty "
            f"configuration) and after a stop by hand too: `schtasks /Change /TN {spec.name} /DISABLE` before `/End` "
            "keeps it stopped. The status command shows the last result.",
            f"What the service says, also why a start fails, is in {log_file(spec)}.",
            *((f"The Task Scheduler sets no variables; set these for the machine: {ignored}",) if ignored else ()),
        ),
        alternatives=nssm(spec) + "\n" + winsw(spec),
    )


def log_file(spec: ServiceSpec) -> str:
    return str(spec.folder / f"{spec.name}.log")


def task_xml(spec: ServiceSpec) -> ElementTree.Element:
    arguments = subprocess.list2cmdline(("-X", "utf8", *spec.arguments, "--log-file", log_file(spec)))
    tree: dict[str, object] = {
        "RegistrationInfo": {"Description": f"{DESCRIPTION}. {MARKER}", "URI": f"\\{spec.name}"},
        # RestartOnFailure is for programs that do not start, not for those that end: a trigger each minute is what
        # brings the service back, and does nothing while it runs (IgnoreNew).
        "Triggers": {
            "BootTrigger": {"Enabled": "true"},
            "TimeTrigger": {
                "Repetition": {"Interval": "PT1M", "StopAtDurationEnd": "false"},
                "StartBoundary": "2020-01-01T00:00:00",
                "Enabled": "true",
            },
        },
        "Principals": {"Principal": {"UserId": spec.user, "LogonType": "S4U", "RunLevel": "LeastPrivilege"}},
        "Settings": {
            "MultipleInstancesPolicy": "IgnoreNew",
            "DisallowStartIfOnBatteries": "false",
            "StopIfGoingOnBatteries": "false",
            "AllowHardTerminate": "true",
            "StartWhenAvailable": "true",
            "AllowStartOnDemand": "true",
            "Enabled": "true",
            "ExecutionTimeLimit": "PT0S",
            "Priority": "5",
        },
        "Actions": {
            "Exec": {"Command": str(spec.python), "Arguments": arguments, "WorkingDirectory": str(spec.folder)},
        },
    }
    task = element("Task", tree, version="1.2", xmlns=TASK_NAMESPACE)
    task.find("Principals/Principal").set("id", "Author")  # type: ignore[union-attr]
    task.find("Actions").set("Context", "Author")  # type: ignore[union-attr]
    return task


def element(tag: str, content: object, **attributes: str) -> ElementTree.Element:
    node = ElementTree.Element(tag, attributes)
    if isinstance(content, dict):
        node.extend(element(name, inner) for name, inner in content.items())
    else:
        node.text = str(content)
    return node


def xml_text(node: ElementTree.Element) -> str:
    ElementTree.indent(node)
    return ElementTree.tostring(node, encoding="unicode") + "\n"


def nssm(spec: ServiceSpec) -> str:
    """Return the commands for NSSM, for cmd.exe; the config goes by variable, as cmd.exe and NSSM quote differently."""
    log = log_file(spec)
    variables = [f"{name}={value}" for name, value in {"SEREN_SCC_CONFIG": str(spec.config), **spec.variables}.items()]
    settings: tuple[Command, ...] = (
        ("AppParameters", "-X", "utf8", "-m", "seren_corpus_callosum"),
        ("AppDirectory", str(spec.folder)),
        ("AppEnvironmentExtra", *variables),
        ("AppExit", "Default", "Restart"),
        ("AppExit", str(EXIT_CONFIG), "Exit"),
        ("AppRestartDelay", str(RESTART_AFTER_S * 1000)),
        ("AppStopMethodConsole", str(STOP_WITHIN_S * 1000)),
        ("AppStdout", log),
        ("AppStderr", log),
        ("AppRotateFiles", "1"),
        ("AppRotateBytes", "10485760"),
        ("Description", f"{DESCRIPTION}. {MARKER}"),
    )
    lines: list[Command] = [("nssm", "install", spec.name, str(spec.python))]
    lines += [("nssm", "set", spec.name, *setting) for setting in settings]
    return "NSSM instead (in an elevated cmd.exe):\n" + "".join(f"    {windows_line(line)}\n" for line in lines)


def winsw(spec: ServiceSpec) -> str:
    """Return the settings file for WinSW."""
    service = element(
        "service",
        {
            "id": spec.name,
            "name": spec.name,
            "description": f"{DESCRIPTION}. {MARKER}",
            "executable": spec.python,
            "arguments": subprocess.list2cmdline(("-X", "utf8", *spec.arguments)),
            "workingdirectory": spec.folder,
            "stoptimeout": f"{STOP_WITHIN_S} sec",
        },
    )
    service.extend(element("env", "", name=name, value=value) for name, value in spec.variables.items())
    service.append(element("onfailure", "", action="restart", delay=f"{RESTART_AFTER_S} sec"))
    service.append(element("log", "", mode="roll"))
    return f"WinSW instead (save as {spec.name}.xml beside its executable of the same name):\n" + xml_text(service)


def windows_line(command: Command) -> str:
    """Write a command for cmd.exe; Windows paths hold no quotes."""
    return " ".join(f'"{word}"' if re.search(r"[^\w/\\:.=-]", word) or not word else word for word in command)
