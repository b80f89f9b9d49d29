"""A YAML file as plain values that remember their lines; duplicate keys and guessed numbers are not let through."""

import codecs
import math
import re
from collections.abc import Hashable, Iterator, Mapping
from datetime import date
from typing import Any

import yaml

from .errors import ConfigError
from .kinds import OddNumber
from .settings import key_text

NULL_TAG = "tag:yaml.org,2002:null"
NULLS = ("", "~", "null", "Null", "NULL")
HUGE_BITS = 128  # a longer number is as good as infinite

PLAIN_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9_]*)(\.[0-9_]*)?([eE][-+]?[0-9]+)?|[-+]?\.[0-9_]+([eE][-+]?[0-9]+)?")


class Section(dict[Any, Any]):
    """A mapping of the file, with the line (from 1) of each key."""

    lines: dict[Any, int]


class _Loader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.duplicates: list[tuple[int, str]] = []  # lines and what is wrong there

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node: yaml.ScalarNode = super().compose_scalar_node(anchor)
        # A token that begins with & or ! would be an anchor or a tag of nothing, and the service would be open.
        if node.tag == NULL_TAG and (node.value not in NULLS or (anchor is not None and not node.value)):
            problem = "an anchor (&) or a tag (!) of nothing; quote a text that begins so"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, ArithmeticError, LookupError, AttributeError):
            problem = "a value that its tag (!!) does not take"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from None

    def section(self, node: yaml.MappingNode) -> Iterator[Section]:
        section = Section()
        section.lines = {}
        yield section
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.MarkedYAMLError(problem="a key is not text", problem_mark=key_node.start_mark)
            if key in section.lines:
                problem = f"the key {key_text(key)} stands twice, first in line {section.lines[key]}; keep one"
                self.duplicates.append((key_node.start_mark.line + 1, problem))
                continue
            section.lines[key] = key_node.start_mark.line + 1
        section.update(self.construct_mapping(node, deep=True))

    def whole(self, node: yaml.ScalarNode) -> float:
        try:
            number: int = self.construct_yaml_int(node)
        except ValueError:
            if not re.fullmatch(r"[-+]?[0-9_]{1000,}", node.value):
                raise
            return math.inf  # more digits than Python reads; no setting takes it
        if number.bit_length() > HUGE_BITS:
            return math.inf
        return number if PLAIN_NUMBER.fullmatch(node.value) else OddNumber(number)

    def number(self, node: yaml.ScalarNode) -> float:
        number: float = self.construct_yaml_float(node)
        return OddNumber(number) if ":" in node.value else number

    def day(self, node: yaml.ScalarNode) -> date:
        try:
            day: date = self.construct_yaml_timestamp(node)
        except ValueError:
            day = date.min  # 2024-02-30: a date in shape; no setting takes one
        return day


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.section)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.whole)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.number)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.day)


def read(data: bytes, name: str) -> Mapping[Any, Any]:
    """The top-level mapping of a YAML text; ConfigError names the file `name`, the line and what is wrong."""
    text = _decoded(data, name)
    try:
        loader = _Loader(text)
        value = loader.get_single_data()
    except yaml.MarkedYAMLError as exc:
        raise ConfigError([f"{_place(name, exc)}: not valid YAML: {_problem(exc)}"]) from None
    except yaml.reader.ReaderError as exc:
        line = text.count("\n", 0, exc.position) + 1
        raise ConfigError([f"{name}:{line}: not valid YAML: it holds a control character"]) from None
    except RecursionError:
        raise ConfigError([f"{name}: not valid YAML: nested too deep"]) from None
    if loader.duplicates:
        raise ConfigError([f"{name}:{line}: {problem}" for line, problem in sorted(loader.duplicates)])
    if value is None:
        return {}
    if not isinstance(value, Section):
        found = "a list" if isinstance(value, list) else "one value"
        raise ConfigError([f"{name}: expected sections such as server: and federation:, found {found}"])
    return value


def _decoded(data: bytes, name: str) -> str:
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise ConfigError([f"{name}:{line}: not text in UTF-8 (or UTF-16 with a byte order mark)"]) from None


def _problem(exc: yaml.MarkedYAMLError) -> str:
    problem = str(exc.problem or exc.context)
    if r"'\t'" in problem:
        return "a tab where only spaces may stand"
    if problem == "second occurrence":
        return "an anchor (&) that stands twice"
    # What PyYAML quotes may be part of a token: one that begins with * or !, say, is read as an alias or a tag.
    return re.sub(r"(['\"]).*\1", "…", problem)


def _place(name: str, exc: yaml.MarkedYAMLError) -> str:
    mark = exc.problem_mark or exc.context_mark
    if "stream" in str(exc.problem) and exc.context_mark is not None:
        mark = exc.context_mark  # where the quote or bracket opens that nothing closes
    return f"{name}:{mark.line + 1}" if mark is not None else name
