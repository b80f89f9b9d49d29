"""The overlay file as one process sees it: read, change, damage, refusal, modes, links."""

import errno
import json
import os
import re
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock

from seren_corpus_callosum import overlay as module
from seren_corpus_callosum.errors import NotSaved
from seren_corpus_callosum.overlay import Overlay, Roster

NAME = "runtime-stores.json"
A = {"name": "a"}
B = {"name": "b"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / NAME


def add(overlay, name):
    overlay.change(lambda entries: entries.append({"name": name}))


def names_in(path):
    return [entry["name"] for entry in json.loads(path.read_bytes())]


def files_in(folder):
    return sorted(path.name for path in folder.iterdir())


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def refuse(monkeypatch, function, code, *, times=10_000, winerror=None):
    """Make os.<function> fail `times` times; the list of failures grows with each."""
    real, failures = getattr(os, function), []

    def fake(*args, **kwargs):
        if len(failures) < times:
            error = OSError(code, "refused")
            if winerror:
                error.winerror = winerror
            failures.append(error)
            raise error
        return real(*args, **kwargs)

    monkeypatch.setattr(os, function, fake)
    return failures


# Reading


def test_a_missing_file_is_an_empty_roster(path):
    assert Overlay(path).read() == Roster((), None)


def test_a_missing_folder_is_an_empty_roster(tmp_path):
    assert Overlay(tmp_path / "nowhere" / NAME).read() == Roster((), None)


@pytest.mark.parametrize(
    "content",
    [
        b'[{"name": "a"}]',
        b'\xef\xbb\xbf[{"name": "a"}]',
        '[{"name": "a"}]'.encode("utf-16"),
    ],
    ids=["utf-8", "utf-8 with BOM", "utf-16 with BOM"],
)
def test_a_hand_edited_file_is_read_whatever_the_editor_put_in_front(path, content):
    path.write_bytes(content)
    assert Overlay(path).read() == Roster((A,), None)


DAMAGE = {
    b"": ([], "runtime-stores.json is empty, not even a list"),
    b'[{"name": "a"},\n': ([], "runtime-stores.json is not JSON: line 2, column 1"),
    b"{}": ([], "runtime-stores.json is not a list of objects"),
    b'"a"': ([], "runtime-stores.json is not a list of objects"),
    b'[{"name": "a\xff"}]': ([], "runtime-stores.json is not JSON: broken UTF-8, or nested too deeply"),
    b"[" * 100_000: ([], "runtime-stores.json is not JSON: broken UTF-8, or nested too deeply"),
    b'[{"name": "a"}, 7, {"name": "b"}, null]': (
        [A, B],
        "runtime-stores.json holds what is no JSON object, at [1], [3]",
    ),
    b'[{"name": "a", "weight": NaN}, {"name": "b"}]': ([B], "runtime-stores.json holds what is no JSON object, at [0]"),
    b'[{"weight": 1e999}, {"name": "b"}]': ([B], "runtime-stores.json holds what is no JSON object, at [0]"),
    b'[{"name": "\\ud800"}, {"name": "b"}]': ([B], "runtime-stores.json holds what is no JSON object, at [0]"),
    b'[{"weight": ' + b"9" * 5000 + b'}, {"name": "b"}]': (
        [B],
        "runtime-stores.json holds what is no JSON object, at [0]",
    ),
    b"[0, 0, 0, 0, 0, 0]": (
        [],
        "runtime-stores.json holds what is no JSON object, at [0], [1], [2], [3], [4], ...",
    ),
}


@pytest.mark.parametrize("content", DAMAGE, ids=range(len(DAMAGE)))
def test_a_damaged_file_is_said_to_be_damaged_and_its_usable_entries_are_kept(path, content):
    path.write_bytes(content)
    usable, damage = DAMAGE[content]
    assert Overlay(path).read() == Roster(tuple(usable), damage)


def test_a_folder_in_the_place_of_the_file_is_damage_and_nothing_is_saved_over_it(path):
    path.mkdir()
    overlay = Overlay(path)
    assert overlay.read() == Roster((), "runtime-stores.json is not a regular file")
    with pytest.raises(NotSaved, match="not a regular file"):
        add(overlay, "a")
    assert path.is_dir()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_a_fifo_in_the_place_of_the_file_does_not_hang_the_start(path):
    os.mkfifo(path)
    assert Overlay(path).read().damage == "runtime-stores.json is not a regular file"


def test_a_file_that_broke_while_running_leaves_the_last_good_roster(path):
    overlay = Overlay(path)
    add(overlay, "a")
    add(overlay, "b")
    overlay.read()
    path.write_bytes(b'[{"name": "b"}, 0]')
    assert overlay.read() == Roster((A, B), "runtime-stores.json holds what is no JSON object, at [1]")


def test_what_was_just_saved_is_the_last_good_roster_without_another_read(path):
    overlay = Overlay(path)
    add(overlay, "a")
    path.write_bytes(b"")
    assert overlay.read().entries == (A,)


def test_a_file_that_cannot_be_read_is_tried_again_at_every_look(path, monkeypatch):
    overlay = Overlay(path)
    add(overlay, "a")
    overlay.read()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda self: (_ for _ in ()).throw(OSError(errno.EMFILE, "x")))
        roster = overlay.read()
    assert roster == Roster((A,), "runtime-stores.json cannot be read: too many open files")
    assert overlay.changed()
    assert overlay.read() == Roster((A,), None)
    assert not overlay.changed()


def test_what_a_reader_was_given_does_not_move_under_it(path):
    overlay = Overlay(path)
    add(overlay, "a")
    roster = overlay.read()
    path.write_bytes(b"damaged")  # the next change starts from the last good entries: those of the reader

    def rename(entries):
        entries[0]["name"] = "renamed"

    overlay.change(rename)
    assert roster.entries == (A,)
    assert overlay.read().entries == ({"name": "renamed"},)


# Noticing changes


def test_a_change_is_noticed_once_by_everybody_who_looks(path):
    mine, theirs = Overlay(path), Overlay(path)
    assert mine.changed()
    mine.read()
    assert not mine.changed()
    add(theirs, "a")
    assert mine.changed()
    mine.read()
    assert not mine.changed()


def test_a_file_that_disappears_or_cannot_be_reached_is_noticed(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    overlay = Overlay(folder / NAME)
    add(overlay, "a")
    overlay.read()
    (folder / NAME).unlink()
    assert overlay.changed()
    assert overlay.read() == Roster((), None)
    for leftover in folder.iterdir():
        leftover.unlink()
    folder.rmdir()
    folder.write_text("a file where the folder was")
    assert overlay.changed()
    assert overlay.read().damage == "runtime-stores.json cannot be read: its folder does not exist"


def test_a_change_of_permissions_is_noticed(path):
    overlay = Overlay(path)
    add(overlay, "a")
    overlay.read()
    path.chmod(0o400)
    assert overlay.changed()


def test_a_change_behind_a_link_is_noticed(tmp_path, path):
    target = tmp_path / "elsewhere.json"
    target.write_text("[]")
    path.symlink_to(target)
    overlay = Overlay(path)
    overlay.read()
    assert not overlay.changed()
    add(Overlay(target), "a")
    assert overlay.changed()


def test_two_saves_within_one_tick_of_the_clock_differ_in_their_time(path, monkeypatch):
    monkeypatch.setattr(module.time, "time_ns", lambda: 1_700_000_000_000_000_000)
    overlay = Overlay(path)
    add(overlay, "a")
    first_ns = path.stat().st_mtime_ns
    add(overlay, "b")
    assert path.stat().st_mtime_ns > first_ns


def test_looking_for_a_change_costs_under_20_microseconds(path):
    overlay = Overlay(path)
    add(overlay, "a")
    overlay.read()
    rounds_s = []
    for _ in range(20):
        start_s = time.perf_counter()
        for _ in range(100):
            overlay.changed()
        rounds_s.append(time.perf_counter() - start_s)
    assert min(rounds_s) / 100 < 20e-6  # the best round: the machine is shared


# Changing


def test_a_change_is_written_as_utf_8_for_people_and_what_edit_returns_comes_back(path):
    def edit(entries):
        entries.append({"name": "größe", "weight": 1.5})
        return len(entries)

    assert Overlay(path).change(edit) == 1
    assert path.read_bytes().decode() == '[\n  {\n    "name": "größe",\n    "weight": 1.5\n  }\n]\n'


def test_an_edit_that_raises_writes_nothing(path):
    overlay = Overlay(path)
    add(overlay, "a")
    before = path.stat()

    def edit(entries):
        entries.clear()
        raise KeyError("duplicate")

    with pytest.raises(KeyError):
        overlay.change(edit)
    assert path.stat() == before
    add(overlay, "b")
    assert names_in(path) == ["a", "b"]


def test_an_edit_that_raises_leaves_a_damaged_file_where_it_is(path):
    path.write_bytes(b"damaged")
    with pytest.raises(KeyError):
        Overlay(path).change(lambda entries: entries[{}["no"]])
    assert path.read_bytes() == b"damaged"
    assert files_in(path.parent) == [NAME, NAME + ".lock"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {1, 2}, b"x"], ids=repr)
def test_what_is_no_json_is_refused_and_the_file_stays(path, value):
    overlay = Overlay(path)
    add(overlay, "a")
    with pytest.raises(NotSaved, match="cannot be written as JSON"):
        overlay.change(lambda entries: entries.append({"weight": value}))
    assert names_in(path) == ["a"]
    assert files_in(path.parent) == [NAME, NAME + ".lock"]


def test_threads_of_one_process_keep_each_other_out(path):
    overlay, other = Overlay(path), Overlay(path)
    start = threading.Barrier(4)

    def work(index):
        start.wait()
        for step in range(10):
            add(overlay if index % 2 else other, f"{index}-{step}")

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(names_in(path)) == sorted(f"{index}-{step}" for index in range(4) for step in range(10))


def test_a_second_change_waits_for_the_first_no_longer_than_its_limit(path):
    overlay = Overlay(path, lock_timeout_s=0.05)
    refused = []

    def edit(entries):
        def second():
            with pytest.raises(NotSaved, match="holds the lock of"):
                add(overlay, "b")
            refused.append(True)

        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        entries.append(A)

    overlay.change(edit)
    assert refused == [True]
    assert names_in(path) == ["a"]


def test_reading_never_waits_for_the_lock(path):
    overlay = Overlay(path)
    add(overlay, "a")
    with FileLock(f"{path}.lock"):
        assert overlay.read() == Roster((A,), None)
        assert not overlay.changed()


# Damage is set aside


@pytest.mark.parametrize(
    ("content", "kept"),
    [(b"", []), (b"damaged", []), (b'[{"name": "b"}, 7]', ["b"])],
    ids=["empty", "no JSON", "one bad entry"],
)
def test_the_first_change_keeps_a_damaged_file_aside_and_the_usable_entries(path, content, kept):
    path.write_bytes(content)
    path.chmod(0o644)
    overlay = Overlay(path)
    add(overlay, "a")
    (aside,) = path.parent.glob(NAME + ".bad-*")
    assert aside.read_bytes() == content
    assert mode(aside) == 0o600
    assert names_in(path) == [*kept, "a"]
    assert overlay.read().damage is None
    add(overlay, "c")
    assert len(list(path.parent.glob(NAME + ".bad-*"))) == 1


def test_a_change_to_a_file_that_broke_while_running_starts_from_the_last_good_roster(path):
    overlay = Overlay(path)
    add(overlay, "a")
    path.write_bytes(b"damaged")
    add(overlay, "b")
    assert names_in(path) == ["a", "b"]


def test_every_damaged_file_is_kept_under_a_name_of_its_own(path):
    overlay = Overlay(path)
    for content in (b"first", b"second", b"third"):
        path.write_bytes(content)
        add(overlay, "a")
    kept = sorted(path.parent.glob(NAME + ".bad-*"))
    assert [aside.read_bytes() for aside in kept] == [b"first", b"second", b"third"]


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.EMFILE])
def test_no_change_is_built_on_a_file_that_could_not_be_read(path, monkeypatch, code):
    mine = Overlay(path)
    add(mine, "a")
    mine.read()
    add(Overlay(path), "of another process")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda self: (_ for _ in ()).throw(OSError(code, "x")))
        with pytest.raises(NotSaved, match=r"not saved: runtime-stores.json cannot be read: .*; try again, or move it"):
            add(mine, "b")
    assert names_in(path) == ["a", "of another process"]
    add(mine, "b")
    assert names_in(path) == ["a", "of another process", "b"]
    assert files_in(path.parent) == [NAME, NAME + ".lock"]


def test_a_damaged_file_stays_in_its_place_if_the_new_one_cannot_be_written(path, monkeypatch):
    path.write_bytes(b"damaged")
    refuse(monkeypatch, "replace", errno.EACCES)
    with pytest.raises(NotSaved):
        add(Overlay(path), "a")
    assert path.read_bytes() == b"damaged"
    assert files_in(path.parent) == [NAME, NAME + ".lock"]


# Refusals


@pytest.mark.parametrize(
    ("function", "code", "reason"),
    [
        ("open", errno.EACCES, "permission denied"),
        ("open", errno.EROFS, "read-only file system"),
        ("open", errno.EMFILE, "too many open files"),
        ("fsync", errno.ENOSPC, "no space left on device"),
        ("fsync", errno.EIO, "input/output error"),
        ("replace", errno.EACCES, "permission denied"),
        ("replace", errno.EBUSY, "it is mounted as a single file and cannot be replaced; mount its folder instead"),
        ("replace", errno.EXDEV, "it is mounted as a single file and cannot be replaced; mount its folder instead"),
    ],
)
def test_what_cannot_be_written_is_not_saved_and_the_old_file_is_intact(path, monkeypatch, function, code, reason):
    pauses_s = []
    overlay = Overlay(path, pause=pauses_s.append)
    add(overlay, "a")
    with monkeypatch.context() as patch:
        refuse(patch, function, code)
        with pytest.raises(NotSaved) as caught:
            add(overlay, "b")
    assert caught.value.detail == f"not saved: runtime-stores.json: {reason}"
    assert pauses_s == []  # reported at once
    assert names_in(path) == ["a"]
    assert files_in(path.parent) == [NAME, NAME + ".lock"]
    add(overlay, "b")
    assert names_in(path) == ["a", "b"]


WITH_FILES_OF_4_KIB_AT_MOST = """
import resource, signal, sys
from pathlib import Path
from seren_corpus_callosum.errors import NotSaved
from seren_corpus_callosum.overlay import Overlay

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    Overlay(Path(sys.argv[1])).change(lambda entries: entries.append({"name": "b" * 10_000}))
except NotSaved as exc:
    print(exc.detail)
"""


@pytest.mark.skipif(os.name == "nt", reason="limits of file sizes are a Unix thing")
def test_a_write_that_stops_half_way_leaves_the_old_file_and_no_other(path):
    add(Overlay(path), "a")
    # In a process of its own: the limit would hold for this one's output too.
    command = [sys.executable, "-c", WITH_FILES_OF_4_KIB_AT_MOST, str(path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "file too large" in said
    assert names_in(path) == ["a"]
    assert files_in(path.parent) == [NAME, NAME + ".lock"]


def test_a_missing_folder_is_not_saved_and_not_made(tmp_path):
    with pytest.raises(NotSaved) as caught:
        add(Overlay(tmp_path / "nowhere" / NAME), "a")
    assert caught.value.detail == "not saved: runtime-stores.json: its folder does not exist"
    assert files_in(tmp_path) == []


def test_a_read_only_folder_is_not_saved(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o555)
    if os.access(folder, os.W_OK):  # root may write everywhere
        refuse(monkeypatch, "open", errno.EACCES)
    try:
        with pytest.raises(NotSaved, match="permission denied"):
            add(Overlay(folder / NAME), "a")
        assert files_in(folder) == []
    finally:
        folder.chmod(0o755)


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_not_saved_never_locked_softly(path, monkeypatch, code):
    fcntl = pytest.importorskip("fcntl", reason="flock is a Unix thing")

    def flock(_handle, _operation):
        raise OSError(code, "refused")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(NotSaved) as caught:
        add(Overlay(path), "a")
    assert caught.value.detail == "not saved: runtime-stores.json: its file system has no file locks"
    assert not path.exists()


def test_no_refusal_names_a_path(tmp_path):
    with pytest.raises(NotSaved) as caught:
        add(Overlay(tmp_path / "nowhere" / NAME), "a")
    assert str(tmp_path) not in caught.value.detail


def test_a_folder_that_cannot_be_synced_does_not_call_a_saved_change_unsaved(path, monkeypatch):
    real = os.fsync

    def fsync(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "refused")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    add(Overlay(path), "a")
    assert names_in(path) == ["a"]


def test_the_file_and_then_its_folder_are_on_the_disk_before_the_answer(path, monkeypatch):
    overlay = Overlay(path)
    add(overlay, "a")
    steps = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(handle):
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def note_replace(source, target):
        steps.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    add(overlay, "b")
    assert steps == ["file", "replace", "folder"]


# Windows


@pytest.mark.parametrize("winerror", [5, 32])
def test_windows_sharing_errors_are_waited_out(path, monkeypatch, winerror):
    pauses_s = []
    refuse(monkeypatch, "replace", errno.EACCES, times=3, winerror=winerror)
    add(Overlay(path, pause=pauses_s.append), "a")
    assert names_in(path) == ["a"]
    assert pauses_s == [0.05, 0.05, 0.05]


def test_windows_sharing_errors_that_stay_are_not_saved_after_two_seconds(path, monkeypatch):
    pauses_s = []
    overlay = Overlay(path, pause=pauses_s.append)
    add(overlay, "a")
    with monkeypatch.context() as patch:
        refuse(patch, "replace", errno.EACCES, winerror=32)
        with pytest.raises(NotSaved, match="permission denied"):
            add(overlay, "b")
    assert sum(pauses_s) == pytest.approx(2.0)
    assert names_in(path) == ["a"]
    assert files_in(path.parent) == [NAME, NAME + ".lock"]


def test_other_windows_errors_are_reported_at_once(path, monkeypatch):
    pauses_s = []
    refuse(monkeypatch, "replace", errno.EACCES, winerror=19)
    with pytest.raises(NotSaved):
        add(Overlay(path, pause=pauses_s.append), "a")
    assert pauses_s == []


# Who can read it


@pytest.fixture(params=[0o000, 0o022, 0o277], ids=["umask 000", "umask 022", "umask 277"])
def umask(request):
    previous = os.umask(request.param)
    yield
    os.umask(previous)


def test_no_file_is_readable_by_others_at_any_moment(tmp_path, monkeypatch, umask):
    folder = tmp_path
    path = folder / NAME
    seen, stop, looked = set(), threading.Event(), threading.Event()
    kind = re.compile("[.](json|lock|tmp|bad)(?=$|-)(?!.*[.]bad)(?!.*[.]tmp)(?!.*[.]lock)")

    def look():
        for entry in os.scandir(folder):
            try:
                seen.add((kind.search(entry.name)[0], stat.S_IMODE(entry.stat().st_mode) & 0o077))
            except FileNotFoundError:
                pass

    def watch():
        while not stop.is_set():
            look()
            looked.set()

    fsync = os.fsync

    def look_and_fsync(handle):  # in the middle of every write, so that no file is missed
        look()
        fsync(handle)

    monkeypatch.setattr(os, "fsync", look_and_fsync)
    watcher = threading.Thread(target=watch)
    watcher.start()
    looked.wait()
    try:
        overlay = Overlay(path)
        for index in range(30):
            add(overlay, str(index))
        path.chmod(0o600)
        path.write_bytes(b"damaged")
        add(overlay, "last")
    finally:
        stop.set()
        watcher.join()
    assert seen == {(".json", 0), (".lock", 0), (".tmp", 0), (".bad", 0)}
    assert mode(path) == 0o600
    assert len(names_in(path)) == 31


def test_an_old_file_that_others_can_read_ends_private(path):
    path.write_text("[]")
    path.chmod(0o644)
    add(Overlay(path), "a")
    assert mode(path) == 0o600


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners are a Unix thing")
def test_what_root_changes_stays_the_property_of_its_owner(path, monkeypatch):
    path.write_text("[]")
    given = []
    if os.geteuid() == 0:
        os.chown(path, 4242, 4243)
    owner = (path.stat().st_uid, path.stat().st_gid)
    real = os.fchown

    def fchown(handle, uid, gid):
        given.append((uid, gid))
        real(handle, uid, gid)

    monkeypatch.setattr(os, "fchown", fchown)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    add(Overlay(path), "a")
    folder = (path.parent.stat().st_uid, path.parent.stat().st_gid)
    assert given == [folder, owner]  # the lock file, the new file
    assert (path.stat().st_uid, path.stat().st_gid) == owner


# Links and left-overs


def test_a_link_stays_and_its_target_is_changed(tmp_path, path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    target = elsewhere / "real.json"
    target.write_text("[]")
    path.symlink_to(target)
    add(Overlay(path), "a")
    assert path.is_symlink()
    assert names_in(target) == ["a"]
    assert mode(target) == 0o600
    assert files_in(tmp_path) == ["elsewhere", NAME]
    assert files_in(elsewhere) == ["real.json", "real.json.lock"]


def test_a_link_to_nothing_yet_makes_its_target(tmp_path, path):
    path.symlink_to(tmp_path / "real.json")
    add(Overlay(path), "a")
    assert path.is_symlink()
    assert names_in(tmp_path / "real.json") == ["a"]


def test_a_link_and_its_target_meet_the_same_lock(tmp_path, path):
    target = tmp_path / "real.json"
    path.symlink_to(target)
    through_link = Overlay(path, lock_timeout_s=0.05)

    def edit(entries):
        with pytest.raises(NotSaved, match="holds the lock"):
            add(through_link, "b")
        entries.append(A)

    Overlay(target).change(edit)
    assert names_in(target) == ["a"]


def test_a_link_to_itself_is_damage_and_nothing_is_saved(path):
    path.symlink_to(path)
    overlay = Overlay(path)
    assert overlay.read().damage.startswith("runtime-stores.json cannot be read: too many levels of symbolic links")
    with pytest.raises(NotSaved):
        add(overlay, "a")
    assert path.is_symlink()


def test_temporary_files_of_dead_processes_are_ignored_and_go_at_the_next_change(path):
    (path.parent / ".runtime-stores.json.0123456789abcdef.tmp").write_text('[{"name": "half')
    others = [".other.json.0123456789abcdef.tmp", ".runtime-stores.json.notes.tmp", "runtime-stores.json.bad-old"]
    for other in others:
        (path.parent / other).write_text("not ours")
    overlay = Overlay(path)
    assert overlay.read() == Roster((), None)
    add(overlay, "a")
    assert files_in(path.parent) == sorted([*others, NAME, NAME + ".lock"])


def test_a_left_over_lock_file_blocks_nobody(path):
    Path(f"{path}.lock").write_text("4711")
    add(Overlay(path, lock_timeout_s=0.5), "a")
    assert names_in(path) == ["a"]
