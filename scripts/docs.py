"""Writes what is generated from the settings table: the marked parts of docs/*.md and the example configuration.

    python scripts/docs.py [--check]

`--check` changes nothing and ends with status 1 if anything is stale.
"""

import re
import sys
from pathlib import Path

from seren_corpus_callosum import reference

ROOT = Path(__file__).resolve().parents[1]
PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end of generated -->)", re.DOTALL)
PARTS = {
    "server": lambda: reference.settings_table("server"),
    "tls": lambda: reference.settings_table("tls"),
    "federation": lambda: reference.settings_table("federation"),
    "store": lambda: reference.settings_table("store"),
    "variables": reference.variables_table,
    "options": reference.options_table,
}


def wanted() -> dict[Path, str]:
    """Every file that holds something generated, as it should be."""
    files = {ROOT / "examples" / "seren-corpus-callosum.yaml": reference.starter()}
    for path in sorted((ROOT / "docs").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        fresh = PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]()}\n{part[3]}", text)
        if PART.search(text):
            files[path] = fresh
    return files


def main() -> int:
    stale = [path for path, text in wanted().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        sys.stdout.write(f"{'stale' if '--check' in sys.argv else 'written'}: {path.relative_to(ROOT)}\n")
        if "--check" not in sys.argv:
            path.write_text(wanted()[path], encoding="utf-8", newline="\n")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
