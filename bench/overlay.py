"""What the look for a changed overlay costs a search when nothing changed: python bench/overlay.py [CALLS]."""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from seren_corpus_callosum.overlay import Overlay

LIMIT_US = 20.0
ROUNDS = 20


def look_us(overlay: Overlay, calls: int) -> float:
    """Microseconds of one look, over `calls` of them."""
    started = time.perf_counter()
    for _ in range(calls):
        if overlay.changed():
            raise SystemExit("the file changed under the measurement")
    return (time.perf_counter() - started) / calls * 1e6


def main() -> int:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runtime-stores.json"
        entries = [{"name": f"n{n}", "type": "seren_loci", "url": "http://127.0.0.1:9"} for n in range(200)]
        path.write_text(json.dumps(entries), encoding="utf-8")
        overlay = Overlay(path)
        overlay.read()
        rounds = [look_us(overlay, calls) for _ in range(ROUNDS)]
    median = statistics.median(rounds)
    print(f"overlay look, nothing changed, 200 stores: median {median:.2f} us, worst round {max(rounds):.2f} us")
    print(f"limit {LIMIT_US:.0f} us: {'kept' if median < LIMIT_US else 'BROKEN'}")
    return 0 if median < LIMIT_US else 1


if __name__ == "__main__":
    sys.exit(main())
