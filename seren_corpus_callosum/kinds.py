"""What kinds of values settings take: each checks what YAML and JSON hold, and parses the text of a variable."""

import ipaddress
import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import SettingError
from .hits import Json


class OddNumber(int):
    """A number that YAML 1.1 reads from octal, hexadecimal, binary or sexagesimal notation; no setting takes one."""


class Kind:
    """What values a setting takes, `expected` in words; both methods raise SettingError for any other."""

    __slots__ = ()

    @property
    def expected(self) -> str:
        raise NotImplementedError

    def check(self, value: Json) -> Any:
        """The setting's value from what YAML or JSON hold."""
        raise NotImplementedError

    def parse(self, text: str) -> Any:
        """The setting's value from the text of a variable."""
        return self.check(text)


@dataclass(frozen=True, slots=True)
class Whole(Kind):
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
class Number(Kind):
    low: float
    high: float

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
class Flag(Kind):
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
class Text(Kind):
    expected: str = "text"
    pattern: str = r"[^\x00-\x1f\x7f\ud800-\udfff]*"

    def check(self, value: Json) -> str:
        if type(value) is not str or not re.fullmatch(self.pattern, value):
            raise SettingError(self.expected)
        return value


@dataclass(frozen=True, slots=True)
class Secret(Kind):
    """A token: its faults are found by tokens.resolve, which never shows it."""

    expected: str = "text"

    def check(self, value: Json) -> Json:
        return value


@dataclass(frozen=True, slots=True)
class Address(Kind):
    expected: str = "one IP address"

    def check(self, value: Json) -> str:
        text = Text(self.expected).check(value)
        try:
            return str(ipaddress.ip_address(text)) if text else ""
        except ValueError:
            raise SettingError(self.expected) from None


@dataclass(frozen=True, slots=True)
class Words(Kind):
    """A list of texts; in a variable, separated by commas."""

    each: Text

    @property
    def expected(self) -> str:
        return f"a list, each entry {self.each.expected}"

    def check(self, value: Json) -> tuple[str, ...]:
        if not isinstance(value, (list, tuple)):
            raise SettingError(self.expected)
        for place, item in enumerate(value, 1):
            try:
                self.each.check(item)
            except SettingError:
                raise SettingError(f"{self.expected} (entry {place} is not)") from None
        return tuple(value)

    def parse(self, text: str) -> tuple[str, ...]:
        return self.check([word.strip() for word in text.split(",") if word.strip()])


class StoreName(Kind):
    """1..64 printable characters of any script in NFC, usable as one segment of a URL path."""

    expected = (
        "a name of 1..64 printable characters, no slash or backslash, no space at either end, "
        "and not '.', '..', 'snapshot' or 'snapshots'"
    )
    reserved = (".", "..", "snapshot", "snapshots")
    unprintable = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")

    def check(self, value: Json) -> str:
        if type(value) is not str:
            raise SettingError(f"{self.expected} (quote it if it looks like a number, a date or yes/no)")
        name = unicodedata.normalize("NFC", value)
        odd = any(char in "/\\" or unicodedata.category(char) in self.unprintable for char in name)
        if not 1 <= len(name) <= 64 or odd or name != name.strip() or name in self.reserved:
            raise SettingError(self.expected)
        return name


INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # letters and marks that show nothing


SURROGATE = re.compile("[\ud800-\udfff]")


class QueryText(Kind):
    """1..16384 characters, at least one of which can be seen."""

    expected = "text of 1..16384 characters that is not blank"

    def check(self, value: Json) -> str:
        if type(value) is not str or not 1 <= len(value) <= 16384 or all(map(self._is_blank, value)):
            raise SettingError(self.expected)
        if SURROGATE.search(value):
            raise SettingError("text in valid Unicode, without lone surrogates")
        return value

    @staticmethod
    def _is_blank(char: str) -> bool:
        return (
            char.isspace()
            or char in INVISIBLE
            or unicodedata.category(char) in ("Cc", "Cf", "Cn", "Co")
            or "\ufe00" <= char <= "\ufe0f"
            or "\U000e0100" <= char <= "\U000e01ef"
        )


class Options(Kind):
    expected = "a mapping of adapter options"

    def check(self, value: Json) -> dict[str, Json]:
        if not isinstance(value, Mapping) or not all(type(key) is str for key in value):
            raise SettingError(self.expected)
        return dict(value)
