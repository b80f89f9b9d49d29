"""docs/mcp.md: its samples can be pasted, and its promises about size and versions are those of the code."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from seren_corpus_callosum import shorten
from tests.support.checks import REPO
from tests.support.service import run_command

DOCUMENT = (REPO / "docs" / "mcp.md").read_text(encoding="utf-8")
SAMPLES = [json.loads(sample) for sample in re.findall(r"```json\n(.*?)```", DOCUMENT, re.DOTALL)]


def servers() -> list[dict[str, Any]]:
    return [one for sample in SAMPLES for key in ("mcpServers", "servers") for one in sample.get(key, {}).values()]


def test_every_client_has_a_sample_that_parses() -> None:
    assert len(servers()) == len(SAMPLES) == 6
    for heading in ("Claude Code", "Claude Desktop", "Cursor", "VS Code", "Any client that starts a command"):
        assert f"### {heading}\n" in DOCUMENT


def test_samples_over_http_point_at_the_default_port_and_the_tool() -> None:
    over_http = [one for one in servers() if "url" in one]
    assert len(over_http) == 4
    for one in over_http:
        assert one["url"] == "http://127.0.0.1:7423/mcp"
        assert set(one.get("headers", {})) <= {"Authorization"}
        assert one.get("headers", {"Authorization": "Bearer x"})["Authorization"].startswith("Bearer ")


def piped_in() -> str:
    (line,) = re.findall(r"^    echo (.*) \| seren-corpus-callosum mcp$", DOCUMENT, re.MULTILINE)
    (message,) = shlex.split(line)
    return message + "\n"


@pytest.mark.parametrize("one", [one for one in servers() if "command" in one], ids=lambda one: str(one["command"]))
def test_samples_over_stdio_answer_what_is_piped_in(one: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "seren-corpus-callosum.yaml"
    file.write_text("{}", encoding="utf-8")
    arguments = [str(file) if argument.endswith(".yaml") else argument for argument in one["args"]]
    environment = {name: str(file) for name in one.get("env", {})}
    assert one["command"].endswith("seren-corpus-callosum")
    assert environment.keys() <= {"SEREN_SCC_CONFIG"}
    ran = run_command(tmp_path, *arguments, env=environment, stdin=piped_in())
    assert json.loads(ran.stdout)["result"]["protocolVersion"] == "2025-06-18", ran.stderr
    assert "no config file" not in ran.stderr


def test_shell_lines_of_claude_code_give_the_command_its_arguments_in_order() -> None:
    (line,) = re.findall(r"^    claude mcp add memory -- (.*)$", DOCUMENT, re.MULTILINE)
    assert shlex.split(line) == ["seren-corpus-callosum", "-c", "/path/to/seren-corpus-callosum.yaml", "mcp"]


def test_the_size_rule_names_the_numbers_of_the_code() -> None:
    assert shorten.LIMIT_BYTES < 60_000
    for told in (
        f"A query over {shorten.QUERY_LIMIT} characters",
        f"reasons over {shorten.REASON_LIMIT}",
        f"{shorten.LIST_LIMIT_BYTES:,} bytes",
        f"An id over {shorten.ID_LIMIT} characters",
        f"have {shorten.CONTENT_MINIMUM_BYTES} bytes",
    ):
        assert told in DOCUMENT, told
