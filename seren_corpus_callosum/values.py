"""Values of a store's reply as what a hit holds: text, numbers, fractions, mappings. Pure."""

import json
import math
from collections.abc import Mapping

from .hits import Json

DEPTH_LIMIT = 100  # levels of nesting in a hit's metadata


def depth_fits(value: Json, room: int = DEPTH_LIMIT) -> bool:
    """Whether an object or a list is nested no deeper than `room` levels."""
    if room <= 0:
        return False
    for one in value.values() if isinstance(value, Mapping) else value:
        if isinstance(one, (dict, list)) and not depth_fits(one, room - 1):
            return False
    return True


def text_of(value: Json) -> str:
    """Text as it is, null as nothing, anything else as its JSON: integers keep every digit."""
    if type(value) is str:
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def number_of(value: Json) -> float | None:
    """A finite number, or None: true/false and numbers given as text are none."""
    if type(value) not in (int, float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def fraction_of(value: Json) -> float | None:
    """A finite number in 0..1, or None."""
    number = number_of(value)
    return number if number is not None and 0.0 <= number <= 1.0 else None


def mapping_of(value: Json) -> dict[str, Json]:
    """A JSON object as it is, anything else as an empty one."""
    return value if isinstance(value, dict) else {}
