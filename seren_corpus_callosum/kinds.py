"""What kinds of values settings take: each checks what YAML and JSON hold, and parses the text of a variable."""

import ipaddress
import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .errors import SettingError
from .hits import Json


class OddNumber(int):
    """A number that YAML 1.1 reads from octal, hexadecimal, binary or sexagesimal notation; no setting takes one."""


class Kind(Protocol):
    """What values a setting takes: `check` for YAML and JSON, `parse` for the text of a variable."""

    @property
    def expected(self) -> str: ...

    def check(self, value: Json) -> Any: ...

    def parse(self, text: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class Whole:
    low: int
    high: int

    @property
    def expected(self) -> str:
        return f"a whole number {self.low}..{self.high}"

    def check(self, value: Json) -> int:
        if type(value) is not int or not self.low <= value <= self.high:
            raise SettingError(self.expected)
        return value

    def parse(self, text: str) -> int:
        if not re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", text, re.ASCII):
            raise SettingError(self.expected)
        return self.check(int(text))


@dataclass(frozen=True, slots=True)
class Number:
    low: float
    high: float
    optional: bool = False

    @property
    def expected(self) -> str:
        return f"a number {self.low:g}..{self.high:g}"

    def check(self, value: Json) -> float:
        # NaN fails no `low <= value` test that is written as a refusal, so the range is asked for as an acceptance
        if type(value) not in (int, float) or not self.low <= value <= self.high:
            raise SettingError(self.expected)
        return float(value)

    def parse(self, text: str) -> float:
        try:
            number = float(text) if re.fullmatch(r"[0-9+\-.eE]+", text, re.ASCII) else math.nan
        except ValueError:
            number = math.nan
        return self.check(number)


@dataclass(frozen=True, slots=True)
class Flag:
    expected: str = "true or false"

    def check(self, value: Json) -> bool:
        if type(value) is not bool:
            raise SettingError(self.expected)
        return value

    def parse(self, text: str) -> bool:
        word = text.lower()
        if word in ("true", "yes", "on", "1"):
            return True
        if word in ("false", "no", "off", "0"):
            return False
        raise SettingError("true or false (also yes/no, on/off, 1/0)")


@dataclass(frozen=True, slots=True)
class Text:
    expected: str = "text"
    pattern: str = r"[^\x00-\x1f\x7f\ud800-\udfff]*"

    def check(self, value: Json) -> str:
        if type(value) is not str or not re.fullmatch(self.pattern, value):
            raise SettingError(self.expected)
        return value

    def parse(self, text: str) -> str:
        return self.check(text)


@dataclass(frozen=True, slots=True)
class Secret:
    """A token: its faults are found by tokens.resolve, which never shows it."""

    expected: str = "text"

    def check(self, value: Json) -> Json:
        return value

    def parse(self, text: str) -> Json:
        return text


@dataclass(frozen=True, slots=True)
class Address:
    expected: str = "one IP address"

    def check(self, value: Json) -> str:
        text = Text(self.expected).check(value)
        try:
            return str(ipaddress.ip_address(text)) if text else ""
        except ValueError:
            raise SettingError(self.expected) from None

    def parse(self, text: str) -> str:
        return self.check(text)


@dataclass(frozen=True, slots=True)
class Words:
    """A list of texts; in a variable, separated by commas."""

    each: Text

    @property
    def expected(self) -> str:
        return f"a list, each entry {self.each.expected}"

    def check(self, value: Json) -> tuple[str, ...]:
        if not isinstance(value, (list, tuple)):
            raise SettingError(self.expected)
        try:
            return tuple(self.each.check(item) for item in value)
        except SettingError:
            raise SettingError(self.expected) from None

    def parse(self, text: str) -> tuple[str, ...]:
        return self.check([word.strip() for word in text.split(",") if word.strip()])


class StoreName:
    """1..64 printable characters of any script in NFC, usable as one segment of a URL path."""

    expected = (
        "a name of 1..64 printable characters, no slash or backslash, no space at either end, "
        "and not '.', '..', 'snapshot' or 'snapshots'"
    )
    reserved = (".", "..", "snapshot", "snapshots")

    def check(self, value: Json) -> str:
        if type(value) is not str:
            raise SettingError(f"{self.expected} (quote it if it looks like a number, a date or yes/no)")
        name = unicodedata.normalize("NFC", value)
        odd = any(char in "/\\" or unicodedata.category(char) in self.unprintable for char in name)
        if not 1 <= len(name) <= 64 or odd or name != name.strip() or name in self.reserved:
            raise SettingError(self.expected)
        return name

    unprintable = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")

    def parse(self, text: str) -> str:
        return self.check(text)


INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # letters and marks that show nothing


class QueryText:
    """1..16384 characters, at least one of which can be seen."""

    expected = "text of 1..16384 characters that is not blank"

    def check(self, value: Json) -> str:
        if type(value) is not str or not 1 <= len(value) <= 16384 or all(map(self._is_blank, value)):
            raise SettingError(self.expected)
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise SettingError("text in valid Unicode, without lone surrogates")
        return value

    def parse(self, text: str) -> str:
        return self.check(text)

    @staticmethod
    def _is_blank(char: str) -> bool:
        return (
            char.isspace()
            or char in INVISIBLE
            or unicodedata.category(char) in ("Cc", "Cf", "Cn", "Co")
            or "\ufe00" <= char <= "\ufe0f"
            or "\U000e0100" <= char <= "\U000e01ef"
        )


class Options:
    expected = "a mapping of adapter options"

    def check(self, value: Json) -> dict[str, Json]:
        if not isinstance(value, Mapping) or not all(type(key) is str for key in value):
            raise SettingError(self.expected)
        return dict(value)

    def parse(self, text: str) -> dict[str, Json]:
        raise SettingError(self.expected)
