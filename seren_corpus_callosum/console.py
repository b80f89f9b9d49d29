"""What the command line prints: searches, checks and rosters as text that is safe on any terminal."""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from . import settings
from .config import Config
from .hits import Json
from .service import Check
from .snapshot import Row
from .stores import Store

NO_STORE = "no store is enabled: add one under federation.stores, or with `stores add`"


def plain(text: object) -> str:
    """Text from anywhere on one line, without control characters: what a store returns must not steer the terminal."""
    shown = (" " if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") else char for char in str(text))
    return " ".join("".join(shown).split())


def search_lines(body: Mapping[str, Any], *, width: int = 96) -> list[str]:
    """A search's answer, as POST /search gives it, as readable lines."""
    lines = []
    for position, hit in enumerate(body["hits"], start=1):
        lines.append(
            f"{position:3}. {plain(hit['store'])} #{hit['store_rank']}  score {hit['score']:.5f}{_measures(hit)}"
        )
        lines.append(f"     {settings.clipped(plain(hit['content']), width)}")
    if not body["hits"]:
        lines.append("no hits")
    searched = ", ".join(f"{plain(row['name'])} ({row['ms']:.0f} ms)" for row in body["stores"] if _answered(row, body))
    lines.append(f"searched: {searched or 'no store'}; k = {body['k']}; {body['took_ms']:.0f} ms in all")
    for entry in body["skipped"]:
        lines.append(f"skipped: {plain(entry['name'])}: {entry['kind']}: {plain(entry['reason'])}")
    lines += [f"warning: {plain(entry['name'])}: {plain(entry['reason'])}" for entry in body["warnings"]]
    if not body["stores"] and not body["skipped"]:
        lines.append(NO_STORE)
    return lines


def _answered(row: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    return row["name"] in body["stores_searched"]


def _measures(hit: Mapping[str, Any]) -> str:
    shown = (("rel", "base_relevance"), ("native", "native_score"), ("d", "raw_distance"))
    return "".join(f"  {label} {hit[key]:.3g}" for label, key in shown if hit[key] is not None)


def config_lines(config: Config) -> list[str]:
    """The resolved configuration, each setting with where it comes from; of a secret only that."""
    lines = []
    for section in settings.SECTIONS:
        values = getattr(config, section)
        for row in settings.rows(section, type(values)):
            full = f"{section}.{row.key}"
            source = config.sources.get(full, "default")
            value: Json = getattr(values, row.key)
            shown = ("not set" if value in ("", None) else "set") if row.secret else _shown(value)
            lines.append(f"{full} = {shown}  ({source})")
    token = f"from {config.token.source}" if config.token else "none: the service is open"
    lines.append(f"token: {token}")
    lines.append(f"config file: {config.path or 'none'}")
    lines.append(f"overlay: {config.overlay}")
    return lines


def _shown(value: Json) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(map(plain, value)) + "]"
    return "null" if value is None else plain(value) or '""'


def check_lines(checks: Sequence[Check]) -> list[str]:
    lines = []
    for check in checks:
        if check.ok:
            lines.append(f"{plain(check.name)}: answered in {check.ms:.0f} ms with {check.hits} hits")
        else:
            lines.append(f"{plain(check.name)}: FAILED: {plain(check.reason)}")
    return lines or [NO_STORE]


def roster_lines(rows: Sequence[Row], damage: str | None) -> list[str]:
    lines = [f"warning: {plain(damage)}"] if damage else []
    for row in rows:
        origin = "managed" if row.entry.managed else "base"
        knobs = ""
        if isinstance(row.entry, Store):
            knobs = f"  weight {row.entry.weight:g}  floor {row.entry.floor:g}"
        about = "  ".join(map(plain, (row.entry.name, row.entry.type, row.entry.url)))
        lines.append(f"{about}  {origin}{knobs}  {plain(row.status)}")
        lines += [f"  warning: {plain(warning)}" for warning in getattr(row.entry, "warnings", ())]
    return lines or ["no stores"]
