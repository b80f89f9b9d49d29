"""Texts made from the settings table: the starter configuration and the tables of the documentation. Reads no file."""

import json
from collections.abc import Iterable, Iterator, Mapping

from . import settings
from .hits import Json
from .settings import Row, StoreEntry
from .stores import SIGNATURES, adapter_for

LOCAL_STORES: tuple[Mapping[str, str], ...] = (
    {"name": "facts", "type": "seren_loci", "url": "http://127.0.0.1:7422"},
    {"name": "episodic", "type": "seren_memory", "url": "http://127.0.0.1:7420"},
)
COMMENT_COLUMN = 46

STARTER_HEAD = """\
# SerenCorpusCallosum. One line for each setting, with its default; take the first # away to set it.
# Variables win over this file: SEREN_SCC_PORT over server.port, and so on. Every setting: docs/configuration.md
"""


def starter(*, token: str = "") -> str:
    """The configuration that `init` writes: the stores of this machine, every other setting at its default."""
    lines = [STARTER_HEAD]
    for section, table in settings.SECTIONS.items():
        lines.append(f"{section}:")
        for row in settings.rows(section, table):
            is_set = bool(token) and row.key == "bearer_token"
            lines.append(_line(row, shown(token if is_set else row.default), indent="  ", is_set=is_set))
        lines.append("" if section != "federation" else "  stores:")
    for number, entry in enumerate(LOCAL_STORES):
        if number:
            lines.append("")
        lines += _entry(entry, is_first=number == 0)
    return "\n".join(lines) + "\n"


def _entry(entry: Mapping[str, str], *, is_first: bool) -> Iterator[str]:
    """One store; the first one shows every key that an entry may have."""
    for row in settings.rows("store", StoreEntry):
        if row.key in entry:
            indent = "    - " if row.key == "name" else "      "
            yield _line(row, entry[row.key], indent=indent, is_set=True, told=is_first)
        elif is_first:
            default = {} if row.key == "options" else row.default
            yield _line(row, shown(default), indent="      ", is_set=False)


def _line(row: Row, value: str, *, indent: str, is_set: bool, told: bool = True) -> str:
    text = f"{indent}{'' if is_set else '# '}{row.key}: {value}"
    return f"{text.ljust(COMMENT_COLUMN)}  # {row.help}" if told else text


def shown(value: Json) -> str:
    """A value as YAML has it, on one line."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def settings_table(section: str) -> str:
    """The rows of one section, or of a store entry (`store`), as a Markdown table."""
    if section == "store":
        rows = settings.rows("store", StoreEntry)
        return _table(
            ("Key", "What it is", "Takes", "Default", "Changes while running"),
            ((_code(row.key), row.help, _kind(row), _default(row), _live(row)) for row in rows),
        )
    return _table(
        ("Key", "What it is", "Takes", "Default", "Variable", "Changes while running"),
        (
            (_code(row.key), row.help, _kind(row), _default(row), _code(row.variable), _live(row))
            for row in settings.rows(section, settings.SECTIONS[section])
        ),
    )


def variables_table() -> str:
    """The variables that no key of the file stands for, as a Markdown table."""
    rows = settings.PROCESS_VARIABLES.items()
    return _table(("Variable", "What it is"), ((_code(settings.PREFIX + name), help_) for name, help_ in rows))


def options_table() -> str:
    """The options of the adapters that come with the package, as a Markdown table."""
    rows = []
    for type_name in SIGNATURES:
        adapter = adapter_for(type_name)
        for name, option in adapter.options.items() if adapter else ():
            takes = option.kind.expected
            rows.append((_code(type_name), _code(name), option.help, takes, _code(shown(option.default))))
    return _table(("Type", "Option", "What it is", "Takes", "Default"), rows)


def _live(row: Row) -> str:
    return "yes" if row.live else "no"


def _kind(row: Row) -> str:
    return row.kind.expected


def _default(row: Row) -> str:
    required = row.section == "store" and row.key in ("name", "type", "url")
    return "required" if required else _code(shown(row.default))


def _code(text: str) -> str:
    return f"`{text}`"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *map(list, rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
