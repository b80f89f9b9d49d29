"""`init`: a starter that loads as it stands, says what every key is, and never costs anybody a file."""

import os
import re
import stat

import pytest
import yaml

from seren_corpus_callosum import config, init
from seren_corpus_callosum.errors import CallosumError
from seren_corpus_callosum.reference import starter
from seren_corpus_callosum.settings import Federation, Server, StoreEntry, Tls, all_rows, rows
from tests.support.service import run_command

COMMENTED = re.compile(r"^(\s*(?:- )?)# (\w+: .*)$", re.MULTILINE)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def nobody_home(monkeypatch):
    """Ports that nothing listens on, in place of the two of this machine's own stores."""
    entries = (
        {"name": "facts", "type": "seren_loci", "url": "http://127.0.0.1:1"},
        {"name": "episodic", "type": "seren_memory", "url": "http://127.0.0.1:1"},
    )
    monkeypatch.setattr(init, "LOCAL_STORES", entries)


# What it writes


def test_the_starter_fans_the_loci_and_the_memory_of_this_machine(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(starter(), encoding="utf-8")
    loaded = config.load(file, {})
    assert [(store.name, store.type, store.url) for store in loaded.stores] == [
        ("facts", "seren_loci", "http://127.0.0.1:7422"),
        ("episodic", "seren_memory", "http://127.0.0.1:7420"),
    ]
    assert loaded.warnings == ()
    assert loaded.token is None


def test_every_line_taken_out_of_its_comment_is_the_default(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(COMMENTED.sub(r"\1\2", starter()), encoding="utf-8")
    loaded = config.load(file, {})
    assert (loaded.server, loaded.tls, loaded.federation) == (Server(), Tls(), Federation())
    assert loaded.warnings == ()
    assert [store.warnings for store in loaded.stores] == [(), ()]
    assert loaded.sources["server.port"] == "c.yaml"
    assert loaded.sources["federation.suspend_after"] == "c.yaml"


def test_every_setting_stands_in_it_once_with_what_it_is():
    lines = [line.strip(" -#") for line in starter().splitlines()]
    for row in [*all_rows(), *rows("store", StoreEntry)]:
        told = [line for line in lines if re.match(rf"{row.key}: .*# {re.escape(row.help)}$", line)]
        assert len(told) == 1, row.key


@pytest.mark.parametrize("token", ["0123", "no", "null", "1e5", "a: b #c", '"', "tök€n"])
def test_a_token_that_looks_like_something_else_is_still_the_token(token, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(starter(token=token), encoding="utf-8")
    loaded = config.load(file, {})
    assert loaded.token is not None
    assert loaded.token.value == token


# Where it writes


def test_the_file_is_for_its_owner_alone(tmp_path):
    file = tmp_path / "new" / "c.yaml"
    assert init.write_starter(file, token="secret") is None
    assert mode_of(file) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["c.yaml"]


def test_an_existing_file_is_left_alone(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("mine: true\n")
    with pytest.raises(CallosumError, match=r"c\.yaml is there already and was left alone; --force keeps it"):
        init.write_starter(file)
    assert file.read_text() == "mine: true\n"
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]


def test_a_link_that_leads_nowhere_is_left_alone_too(tmp_path):
    (tmp_path / "c.yaml").symlink_to(tmp_path / "later.yaml")
    with pytest.raises(CallosumError, match="left alone"):
        init.write_starter(tmp_path / "c.yaml")
    assert not (tmp_path / "later.yaml").exists()


def test_force_keeps_each_replaced_file(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("first: 1\n")
    asides = [init.write_starter(file, force=True), init.write_starter(file, token="t", force=True)]
    assert [bool(re.fullmatch(r"c\.yaml\.bak-\d{8}T\d{6}\.\d{6}Z", aside.name)) for aside in asides] == [True, True]
    assert [aside.read_text() for aside in asides] == ["first: 1\n", starter()]
    assert file.read_text() == starter(token="t")
    assert len(list(tmp_path.iterdir())) == 3


def test_a_folder_is_never_replaced(tmp_path):
    with pytest.raises(CallosumError, match="is a folder: give the path of a file in it"):
        init.write_starter(tmp_path, force=True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CallosumError, match=r"file/c\.yaml cannot be written: "):
        init.write_starter(tmp_path / "file" / "c.yaml")


def test_behind_sudo_the_file_belongs_to_the_one_who_called_it(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda path, uid, gid: given.append((path.parent, uid, gid)))
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setenv("SUDO_GID", "1001")
    init.write_starter(tmp_path / "c.yaml")
    assert given == [(tmp_path, 1000, 1001)]


# What it says


def test_it_tells_which_stores_answer(good_store, monkeypatch, nobody_home):
    store = good_store("seren_loci", [{"id": "1", "key": "a", "value": "b"}])
    monkeypatch.setattr(init, "LOCAL_STORES", ({**init.LOCAL_STORES[0], "url": store.url}, init.LOCAL_STORES[1]))
    lines = init.report(init.Path("c.yaml"), None, "", init.probe())
    assert lines == [
        "wrote c.yaml",
        "it has no token, so whoever reaches the port may search: `init --token` makes one, or set server.host",
        f"facts (seren_loci at {store.url}): answers",
        "episodic (seren_memory at http://127.0.0.1:1): does not answer now (unreachable: connection refused)",
    ]


def test_the_command_writes_a_file_that_the_service_loads_and_never_prints_the_token(tmp_path):
    done = run_command(tmp_path, "init", "--token")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    text = (tmp_path / "seren-corpus-callosum.yaml").read_text(encoding="utf-8")
    token = yaml.safe_load(text)["server"]["bearer_token"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", token)
    assert token not in done.stdout
    assert "wrote seren-corpus-callosum.yaml" in done.stdout.splitlines()
    shown = run_command(tmp_path, "stores", "list")
    assert [line.split()[0] for line in shown.stdout.splitlines()] == ["facts", "episodic"]
    again = run_command(tmp_path, "init")
    assert (again.returncode, again.stdout) == (1, "")
    assert "was left alone" in again.stderr
    assert (tmp_path / "seren-corpus-callosum.yaml").read_text(encoding="utf-8") == text


def test_the_file_is_where_the_service_will_look_for_it(tmp_path):
    home = {"HOME": str(tmp_path / "home")}
    assert run_command(tmp_path, "-c", "~/callosum/c.yaml", "init", env=home).returncode == 0
    assert run_command(tmp_path, "init", env=home | {"SEREN_SCC_CONFIG": "~/named.yaml"}).returncode == 0
    assert mode_of(tmp_path / "home" / "callosum" / "c.yaml") == 0o600
    assert mode_of(tmp_path / "home" / "named.yaml") == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_two_tokens_differ():
    assert init.new_token() != init.new_token()
