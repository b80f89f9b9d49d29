"""Values of a store's reply as what a hit holds: text, numbers, fractions, mappings. Pure."""

import json
import math
from collections.abc import Mapping

from .hits import Json

DEPTH_LIMIT = 100  # levels of nesting in a hit's metadata


def depth_fits(value: Json, room: int = DEPTH_LIMIT) -> bool:
    """Whether a value is nested no deeper than `room` levels."""
    if isinstance(value, Mapping):
        return room > 0 and all(depth_fits(v, room - 1) for v in value.values() if isinstance(v, (dict, list)))
    if isinstance(value, list):
        return room > 0 and all(depth_fits(v, room - 1) for v in value if isinstance(v, (dict, list)))
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
