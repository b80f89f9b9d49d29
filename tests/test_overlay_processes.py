"""Several processes on one overlay file, some of them killed at random moments."""

import json
import random
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import seren_corpus_callosum
from seren_corpus_callosum.errors import NotSaved
from seren_corpus_callosum.overlay import Overlay

ROOT = Path(seren_corpus_callosum.__path__[0]).parent
NAME = "runtime-stores.json"

# Waits for a line, then adds each name it was given, and says for each what came of it.
ADDER = """
import sys
from pathlib import Path
from seren_corpus_callosum.overlay import Overlay

overlay = Overlay(Path(sys.argv[1]), lock_timeout_s=60)

def add(name):
    def edit(entries):
        if any(entry["name"] == name for entry in entries):
            raise KeyError(name)
        entries.append({"name": name, "token": "x" * 200})
    try:
        overlay.change(edit)
    except KeyError:
        return "duplicate"
    return "added"

print("ready", flush=True)
sys.stdin.readline()
for name in sys.argv[2:]:
    print(add(name), name, flush=True)
"""

HOLDER = """
import sys
from filelock import FileLock

with FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def running(program, *args):
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, args)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        process.first_line = process.stdout.readline().strip()
        yield process
    finally:
        process.kill()
        process.communicate()


def run_together(path, names_of_each):
    """The lines of all adders, each with its own names, let go at the same moment."""
    processes = []
    try:
        for names in names_of_each:
            manager = running(ADDER, path, *names)
            processes.append((manager, manager.__enter__()))
        for _, process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        lines = []
        for _, process in processes:
            out, _ = process.communicate(timeout=60)
            assert process.returncode == 0
            lines += out.splitlines()
        return lines
    finally:
        for manager, _ in processes:
            manager.__exit__(None, None, None)


def names_in(path):
    return [entry["name"] for entry in json.loads(path.read_bytes())]


def test_two_hundred_adds_by_four_processes_at_once_are_all_in_the_file(tmp_path):
    path = tmp_path / NAME
    names = [[f"{process}-{step}" for step in range(50)] for process in range(4)]
    lines = run_together(path, names)
    expected = sorted(name for some in names for name in some)
    assert sorted(lines) == [f"added {name}" for name in expected]
    assert sorted(names_in(path)) == expected
    assert sorted(file.name for file in tmp_path.iterdir()) == [NAME, NAME + ".lock"]


def test_of_twenty_adds_of_one_name_exactly_one_wins(tmp_path):
    path = tmp_path / NAME
    lines = run_together(path, [["same"] * 5] * 4)
    assert sorted(lines) == ["added same"] + ["duplicate same"] * 19
    assert names_in(path) == ["same"]


def test_a_process_killed_at_any_moment_loses_nothing_it_acknowledged(tmp_path):
    path = tmp_path / NAME
    path.write_text("[]")
    stop, unreadable = threading.Event(), []

    def read_on():
        while not stop.is_set():
            try:
                json.loads(path.read_bytes())
            except ValueError as error:
                unreadable.append(error)
            stop.wait(0.001)

    reader = threading.Thread(target=read_on)
    reader.start()
    acknowledged = []
    chance = random.Random(20)
    try:
        for life in range(12):
            with running(ADDER, path, *(f"{life}-{step}" for step in range(200))) as process:
                process.stdin.write("go\n")
                process.stdin.flush()
                for _ in range(chance.randint(1, 10)):
                    acknowledged.append(process.stdout.readline().split()[1])
                pause_end_s = time.perf_counter() + chance.random() * 0.005  # somewhere within the next save
                while time.perf_counter() < pause_end_s:
                    pass
                process.kill()
                acknowledged += [line.split()[1] for line in process.communicate()[0].splitlines()]
            Overlay(path).change(lambda entries: None)
            assert sorted(file.name for file in tmp_path.iterdir()) == [NAME, NAME + ".lock"]
    finally:
        stop.set()
        reader.join()
    assert unreadable == []
    assert len(acknowledged) >= 12
    assert set(acknowledged) <= set(names_in(path))


def test_a_lock_held_elsewhere_is_not_saved_in_time_and_reading_goes_on(tmp_path):
    path = tmp_path / NAME
    overlay = Overlay(path, lock_timeout_s=0.2)
    overlay.change(lambda entries: entries.append({"name": "a"}))
    with running(HOLDER, f"{path}.lock") as process:
        assert process.first_line == "held"
        start_s = time.monotonic()
        with pytest.raises(NotSaved) as caught:
            overlay.change(lambda entries: entries.clear())
        assert time.monotonic() - start_s < 1.5
        assert caught.value.detail == (
            "not saved: another process, or another change, holds the lock of runtime-stores.json; try again"
        )
        assert overlay.read().entries == ({"name": "a"},)
        process.kill()
        process.wait()
        overlay.change(lambda entries: entries.append({"name": "b"}))  # a dead holder's lock file blocks nobody
    assert names_in(path) == ["a", "b"]


def test_a_change_by_another_process_is_seen_at_the_next_look(tmp_path):
    path = tmp_path / NAME
    overlay = Overlay(path)
    overlay.read()
    assert not overlay.changed()
    assert run_together(path, [["theirs"]]) == ["added theirs"]
    assert overlay.changed()
    assert [entry["name"] for entry in overlay.read().entries] == ["theirs"]
