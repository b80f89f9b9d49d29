"""A YAML file as plain values that remember their lines; duplicate keys and guessed numbers are not let through."""

import codecs
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from .errors import ConfigError
from .settings import OddNumber

PLAIN_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9_]*)(\.[0-9_]*)?([eE][-+]?[0-9]+)?|[-+]?\.[0-9_]+([eE][-+]?[0-9]+)?")


class Section(dict[Any, Any]):
    """A mapping of the file, with the line (from 1) of each key."""

    lines: dict[Any, int]


class _DuplicateKeyError(yaml.MarkedYAMLError):
    pass


class _Loader(yaml.SafeLoader):
    def section(self, node: yaml.MappingNode) -> Iterator[Section]:
        section = Section()
        section.lines = {}
        yield section
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (list, dict)):
                raise yaml.MarkedYAMLError(problem="a key is not text", problem_mark=key_node.start_mark)
            if key in section.lines:
                line = section.lines[key]
                problem = f"the key {key!r} stands twice, first in line {line}; keep one"
                raise _DuplicateKeyError(problem=problem, problem_mark=key_node.start_mark)
            section.lines[key] = key_node.start_mark.line + 1
        section.update(self.construct_mapping(node, deep=True))

    def whole(self, node: yaml.ScalarNode) -> int:
        number: int = self.construct_yaml_int(node)
        return number if PLAIN_NUMBER.fullmatch(node.value) else OddNumber(number)

    def number(self, node: yaml.ScalarNode) -> float:
        number: float = self.construct_yaml_float(node)
        return OddNumber(number) if ":" in node.value else number


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.section)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.whole)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.number)


def read(data: bytes, name: str) -> Mapping[Any, Any]:
    """The top-level mapping of a YAML text; ConfigError names the file `name`, the line and what is wrong."""
    text = _decoded(data, name)
    try:
        value = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except _DuplicateKeyError as exc:
        raise ConfigError([f"{_place(name, exc)}: {exc.problem}"]) from None
    except yaml.MarkedYAMLError as exc:
        # What PyYAML quotes may be a token that begins with * or !, read as an alias or a tag.
        problem = re.sub(r"(['\"]).{2,}\1", "…", str(exc.problem or exc.context))
        raise ConfigError([f"{_place(name, exc)}: not valid YAML: {problem}"]) from None
    except yaml.YAMLError:
        raise ConfigError([f"{name}: not valid YAML: it holds a control character"]) from None
    except (ValueError, ArithmeticError):
        raise ConfigError([f"{name}: not valid YAML: a date or number that does not exist; quote it"]) from None
    except RecursionError:
        raise ConfigError([f"{name}: not valid YAML: nested too deep"]) from None
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


def _place(name: str, exc: yaml.MarkedYAMLError) -> str:
    mark = exc.problem_mark or exc.context_mark
    return f"{name}:{mark.line + 1}" if mark is not None else name
