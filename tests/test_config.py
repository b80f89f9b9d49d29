"""Promises of the configuration: YAML, variables, defaults; every mistake told in one line, all at once, no secret."""

import codecs
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from seren_corpus_callosum import Callosum, ConfigError, settings
from seren_corpus_callosum.binding import Unbound
from seren_corpus_callosum.config import Config, load
from seren_corpus_callosum.settings import StoreEntry
from seren_corpus_callosum.stores import Store
from tests.support.service import run_command

SECRET = "hunter2"
STORE = "- {name: s, type: seren_loci, url: 'http://h'}"


class Files:
    """Loads configurations from files of one folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "c.yaml"

    def load(self, text: str | bytes, **environ: str) -> Config:
        self.path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load(self.path, environ)

    def faults(self, text: str | bytes, **environ: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            self.load(text, **environ)
        assert all(fault.isprintable() and len(fault) < 400 for fault in caught.value.faults), caught.value.faults
        return list(caught.value.faults)

    def stores(self, entries: str, **environ: str) -> list[Store | Unbound]:
        """The stores of a YAML list."""
        indented = "\n".join("    " + line for line in entries.splitlines())
        return list(self.load(f"federation:\n  stores:\n{indented}\n", **environ).stores)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


# Everything at once


def test_a_path_without_a_home_does_not_hide_the_other_faults(files: Files) -> None:
    text = "server: {port: x}\ntls: {ca_bundle: ~nouser/ca.pem}\n"
    assert files.faults(text, SEREN_SCC_RUNTIME_STORES="~nouser/o.json", SEREN_SCC_K="0")[:4] == [
        "c.yaml:1: server.port: expected a whole number 1..65535, found text 'x'",
        "SEREN_SCC_K: expected a whole number 1..10000, found text '0'",
        "c.yaml:2: tls.ca_bundle: ~nouser/ca.pem: there is no home folder to put for ~; give a full path",
        "c.yaml:2: tls.ca_bundle: expected a readable PEM file with certificates, found none at "
        f"{str(files.path.parent / '~nouser/ca.pem')!r}",
    ]


def test_every_key_that_stands_twice_is_told(files: Files) -> None:
    assert files.faults("server:\n  host: a\n  host: b\n  port: 1\nfederation: {k: 1, k: 2}\nserver: {}\n") == [
        "c.yaml:3: the key host stands twice, first in line 2; keep one",
        "c.yaml:5: the key k stands twice, first in line 5; keep one",
        "c.yaml:6: the key server stands twice, first in line 1; keep one",
    ]


def test_the_overlay_is_never_the_hand_written_file(files: Files) -> None:
    link = files.path.parent / "link.json"
    link.symlink_to(files.path.name)
    for name in ("c.yaml", str(files.path), "link.json"):
        assert files.faults("server: {port: 7}\n", SEREN_SCC_RUNTIME_STORES=name) == [
            "SEREN_SCC_RUNTIME_STORES: expected a file of its own, found the config file"
        ]


def test_a_forgotten_space_shows_no_secret(files: Files) -> None:
    for text in (
        "server: {bearer_token:hunter2}\n",
        "server: {bearer_token=hunter2: 1}\n",
        "server:\n  token=hunter2\n",
    ):
        assert "hunter2" not in "".join(files.faults(text))
    config = files.load(
        "bearer_token:hunter2: 1\nfederation: {k:hunter2: 1, stores: [{token:hunter2: 1}, token=hunter2]}\n"
    )
    assert "hunter2" not in repr((config.warnings, config.stores))


# Where values come from


def test_without_a_file_it_is_a_service_over_no_stores_and_says_so(tmp_path: Path) -> None:
    config = load(tmp_path / "none.yaml", {})
    assert (config.server.host, config.server.port, config.federation.k, config.stores) == ("0.0.0.0", 7423, 60, ())
    assert config.warnings == ("no config file none.yaml: built-in defaults, no stores declared",)
    with Callosum(config, environ={}) as callosum:
        assert callosum.search("anything").hits == ()


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "# only a comment\n", "---\n", "--- \n...\n", "~", "null", "{}", "federation:\n", "federation: {}\n",
     "federation:\n  stores:\n", "federation:\n  stores: []\n", "server:\ntls:\nfederation:\n", "server: null\n",
     "\ufeff", "\ufeff# x\n"],
    ids=repr,
)  # fmt: skip
def test_empty_files_and_sections_are_the_defaults(files: Files, text: str) -> None:
    config = files.load(text)
    assert (config.server.port, config.federation.n_results, config.stores) == (7423, 10, ())
    assert config.warnings == ()


def test_a_variable_wins_over_the_file_and_the_file_over_the_default(files: Files) -> None:
    text = "server: {port: 7000, threads: 4}\nfederation: {k: 20, n_results: 5}\n"
    config = files.load(text, SEREN_SCC_PORT="7001", SEREN_SCC_K="30")
    assert (config.server.port, config.server.threads, config.server.connection_limit) == (7001, 4, 200)
    assert (config.federation.k, config.federation.n_results) == (30, 5)
    sources = {key: config.sources[f"server.{key}"] for key in ("port", "threads", "connection_limit")}
    assert sources == {"port": "SEREN_SCC_PORT", "threads": "c.yaml", "connection_limit": "default"}


VARIABLES: list[tuple[str, str, Any]] = [
    ("server.host", "127.0.0.1", "127.0.0.1"), ("server.port", "7001", 7001), ("server.threads", "4", 4),
    ("server.connection_limit", "50", 50), ("server.request_timeout_s", "2.5", 2.5),
    ("server.bearer_token", "t0ken", "t0ken"), ("server.bearer_token_env", "NAME_OF_IT", "NAME_OF_IT"),
    ("server.bearer_token_keyring", "a/b", "a/b"), ("server.allow_open_lan", "YES", True),
    ("server.allowed_hosts", "a.test, b.test:80 ,", ("a.test", "b.test:80")), ("server.trusted_proxy", "::1", "::1"),
    ("server.frame_ancestors", "https://a.test", ("https://a.test",)), ("server.instance_id", "one", "one"),
    ("tls.trust_system_store", "off", False), ("tls.ca_bundle", "ca.pem", None),
    ("federation.k", "20", 20), ("federation.n_results", "5", 5), ("federation.fetch_multiplier", "3", 3),
    ("federation.per_store_timeout_s", "0.5", 0.5), ("federation.suspend_after", "0", 0),
]  # fmt: skip


def test_every_scalar_setting_is_in_the_table_of_variables() -> None:
    assert [name for name, _, _ in VARIABLES] == [f"{row.section}.{row.key}" for row in settings.all_rows()]


@pytest.mark.parametrize(
    ("name", "text", "value"), [row for row in VARIABLES if "keyring" not in row[0] and row[0] != "tls.ca_bundle"]
)
def test_every_setting_has_a_variable(files: Files, name: str, text: str, value: Any) -> None:
    section, _, key = name.partition(".")
    variable = f"SEREN_SCC_{key.upper()}"
    config = files.load("", **{variable: text, "NAME_OF_IT": "t0ken"})
    assert getattr(getattr(config, section), key) == value
    assert config.sources[name] == variable


@pytest.mark.parametrize("name", [name for name, _, _ in VARIABLES])
def test_an_empty_variable_is_unset(files: Files, name: str) -> None:
    key = name.partition(".")[2]
    assert files.load("", **{f"SEREN_SCC_{key.upper()}": ""}).sources[name] == "default"


@pytest.mark.parametrize("name", [name for name, _, _ in VARIABLES if name != "server.bearer_token"])
def test_a_blank_variable_is_unset_and_space_around_a_value_is_nothing(files: Files, name: str) -> None:
    key = name.partition(".")[2]
    assert files.load("", **{f"SEREN_SCC_{key.upper()}": "  \t"}).sources[name] == "default"


def test_space_around_the_value_of_a_variable_is_nothing(files: Files) -> None:
    config = files.load("", SEREN_SCC_PORT=" 7001 ", SEREN_SCC_ALLOW_OPEN_LAN=" no ", SEREN_SCC_BEARER_TOKEN=" t \n")
    assert (config.server.port, config.server.allow_open_lan) == (7001, False)
    assert config.token is not None
    assert config.token.value == "t"


@pytest.mark.parametrize(
    ("variable", "text", "fault"),
    [
        ("PORT", "tcp://10.0.0.1:7423", "expected a whole number 1..65535, found text 'tcp://10.0.0.1:7423'"),
        ("PORT", "7423.0", "expected a whole number 1..65535, found text '7423.0'"),
        ("PORT", "0", "expected a whole number 1..65535, found text '0'"),
        ("PORT", "99999", "expected a whole number 1..65535, found text '99999'"),
        ("PORT", "-1", "expected a whole number 1..65535, found text '-1'"),
        ("PORT", "07423", "expected a whole number 1..65535, found text '07423'"),
        ("K", "0", "expected a whole number 1..10000, found text '0'"),
        ("PER_STORE_TIMEOUT_S", "nan", "expected a number 0.05..120, found text 'nan'"),
        ("PER_STORE_TIMEOUT_S", "10s", "expected a number 0.05..120, found text '10s'"),
        ("TRUST_SYSTEM_STORE", "banana",
         "expected true or false (also yes/no, on/off, 1/0), found text 'banana'"),
        ("LOG_QUERY", "maybe", "expected true or false (also yes/no, on/off, 1/0), found text 'maybe'"),
        ("LOG_LEVEL", "loud", "expected debug, info, warning or error, found text 'loud'"),
        ("TRUSTED_PROXY", "10.0.0.0/8", "expected one IP address, found text '10.0.0.0/8'"),
        ("BEARER_TOKEN_ENV", "hunter2=", "expected text: the name of an environment variable, found text"),
    ],
)  # fmt: skip
def test_a_wrong_variable_is_a_fault_that_names_it(files: Files, variable: str, text: str, fault: str) -> None:
    assert files.faults("", **{f"SEREN_SCC_{variable}": text}) == [f"SEREN_SCC_{variable}: {fault}"]


def test_an_unknown_variable_is_a_warning_with_the_nearest_known(files: Files) -> None:
    config = files.load("", SEREN_SCC_PROT="1", SEREN_SCC_ZZZ="2", SEREN_SCC_CONFIG="c.yaml")
    assert config.warnings == (
        "SEREN_SCC_PROT: unknown variable; did you mean SEREN_SCC_PORT?",
        "SEREN_SCC_ZZZ: unknown variable",
    )


@pytest.mark.parametrize("level", ["debug", "INFO", "Warning", "error"])
def test_the_log_level_is_one_of_four_in_any_case(files: Files, level: str) -> None:
    assert files.load("", SEREN_SCC_LOG_LEVEL=level).log_level == level


# Where files are


def test_the_file_is_the_argument_then_the_variable_then_the_one_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(["argument.yaml", "variable.yaml", "seren-corpus-callosum.yaml"], start=1):
        (tmp_path / name).write_text(f"federation: {{k: {number}}}\n")
    monkeypatch.chdir(tmp_path)
    environ = {"SEREN_SCC_CONFIG": "variable.yaml"}
    assert load("argument.yaml", environ).federation.k == 1
    assert load(None, environ).federation.k == 2
    assert load(None, {"SEREN_SCC_CONFIG": " "}).federation.k == 3


def test_relative_paths_are_relative_to_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "c.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert load("conf/c.yaml", {}).overlay == tmp_path / "conf" / "runtime-stores.json"
    assert load("conf/c.yaml", {"SEREN_SCC_RUNTIME_STORES": "x/o.json"}).overlay == tmp_path / "conf" / "x" / "o.json"
    assert load("conf/c.yaml", {"SEREN_SCC_RUNTIME_STORES": "/o.json"}).overlay == Path("/o.json")
    assert load("none/c.yaml", {"SEREN_SCC_RUNTIME_STORES": "o.json"}).overlay == tmp_path / "o.json"


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "c.yaml").write_text("federation: {k: 7}\n")
    config = load("~/c.yaml", {"SEREN_SCC_RUNTIME_STORES": "~/o.json"})
    assert (config.federation.k, config.overlay) == (7, tmp_path / "o.json")


@pytest.mark.parametrize("variable", ["SEREN_SCC_CONFIG", "SEREN_SCC_RUNTIME_STORES"])
def test_a_tilde_without_a_home_folder_is_a_fault(files: Files, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", no_home)
    with pytest.raises(ConfigError) as caught:
        load(None, {variable: "~/x"})
    assert caught.value.faults[0].endswith("there is no home folder to put for ~; give a full path")


def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {})
    assert caught.value.faults == (f"{tmp_path.name}: cannot be read: Is a directory",)


def test_a_ca_bundle_must_be_a_pem_file(files: Files, tmp_path: Path) -> None:
    expected = "tls.ca_bundle: expected a readable PEM file with certificates, found none at"
    (tmp_path / "no.pem").write_text("no certificate")
    for path in ("none.pem", "no.pem", "."):
        found = f"{expected} {str(tmp_path / path)!r}"
        assert files.faults(f"tls:\n  ca_bundle: {path}\n") == [f"c.yaml:2: {found}"]
        assert files.faults("tls: {}\n", SEREN_SCC_CA_BUNDLE=path) == [f"SEREN_SCC_CA_BUNDLE: {found}"]


def test_the_systems_trust_store_without_its_extra_is_a_fault_with_its_place(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    fault = "c.yaml:2: tls.trust_system_store: needs pip install 'seren-corpus-callosum[corp]'"
    assert files.faults("tls:\n  trust_system_store: true\n") == [fault]


# Encodings and what is no YAML

TEXT = "server: {instance_id: x}\nfederation:\n  stores:\n    - {name: é日本, type: seren_loci, url: 'http://h'}\n"


@pytest.mark.parametrize(
    "data",
    [TEXT.encode(), codecs.BOM_UTF8 + TEXT.encode(), TEXT.encode("utf-16"),
     codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), TEXT.replace("\n", "\r\n").encode(),
     TEXT.replace("\n", "\r").encode()],
    ids=["utf-8", "utf-8 with bom", "utf-16", "utf-16 big endian", "crlf", "cr"],
)  # fmt: skip
def test_a_file_in_utf_8_or_utf_16_is_read(files: Files, data: bytes) -> None:
    assert [store.name for store in files.load(data).stores] == ["é日本"]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ("k: 1\nx: é\n".encode("latin-1"), "c.yaml:2: not text in UTF-8 (or UTF-16 with a byte order mark)"),
        (b"\n\n\xff", "c.yaml:3: not text in UTF-8 (or UTF-16 with a byte order mark)"),
        (b"\xff\xfea", "c.yaml:1: not text in UTF-8 (or UTF-16 with a byte order mark)"),
        (b"a: 1\nb: \x00\n", "c.yaml:2: not valid YAML: it holds a control character"),
        (b"a: 1\n\nb: \x1b[31m\n", "c.yaml:3: not valid YAML: it holds a control character"),
        ("a: 1\n".encode("utf-32"), "c.yaml:1: not valid YAML: it holds a control character"),
        (b"server:\n\tport: 1\n", "c.yaml:2: not valid YAML: a tab where only spaces may stand"),
        (b"server:\n  port: 1\n\tthreads: 1\n", "c.yaml:3: not valid YAML: a tab where only spaces may stand"),
        (b"server:\n  port: 1\n threads: 2\n", "c.yaml:3: not valid YAML: expected <block end>, but found …"),
        (b"a: [1\nb: 2\n", "c.yaml:2: not valid YAML: expected …"),
        (b"a:\n  - 'x\n", "c.yaml:2: not valid YAML: found unexpected end of stream"),
        (b"a: b: c\n", "c.yaml:1: not valid YAML: mapping values are not allowed here"),
        (b"a: 1\n---\nb: 2\n", "c.yaml:2: not valid YAML: but found another document"),
        (b"a: &x 1\nb: &x 2\n", "c.yaml:2: not valid YAML: an anchor (&) that stands twice"),
        (b"a: *nowhere\n", "c.yaml:1: not valid YAML: found undefined alias …"),
        (b"a: !ruby/object x\n", "c.yaml:1: not valid YAML: could not determine a constructor for the tag …"),
        (b"a: !!python/name:os.system\n", "c.yaml:1: not valid YAML: could not determine a constructor for the tag …"),
        (b"a: !!int x\n", "c.yaml:1: not valid YAML: a value that its tag (!!) does not take"),
        (b"a: !!bool x\n", "c.yaml:1: not valid YAML: a value that its tag (!!) does not take"),
        (b"a: !!timestamp x\n", "c.yaml:1: not valid YAML: a value that its tag (!!) does not take"),
        (b"a: 1\n? [x]\n: 2\n", "c.yaml:2: not valid YAML: a key is not text"),
        (b"a: 1\n? {x: y}\n: 2\n", "c.yaml:2: not valid YAML: a key is not text"),
        (b"a: 1\n? !!set {x}\n: 2\n", "c.yaml:2: not valid YAML: a key is not text"),
        (b"a: 1\n<<: 5\n",
         "c.yaml:2: not valid YAML: expected a mapping or list of mappings for merging, but found scalar"),
        (b"- a\n- b\n", "c.yaml: expected sections such as server: and federation:, found a list"),
        (b"just text\n", "c.yaml: expected sections such as server: and federation:, found one value"),
        (b"42\n", "c.yaml: expected sections such as server: and federation:, found one value"),
        (b"[" * 5000, "c.yaml: not valid YAML: nested too deep"),
    ],
    ids=range(28),
)  # fmt: skip
def test_a_file_that_cannot_be_read_as_yaml_is_one_line_with_its_place(files: Files, data: bytes, fault: str) -> None:
    assert files.faults(data) == [fault]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("server: {}\nfederation: {}\nserver: {}\n",
         "c.yaml:3: the key server stands twice, first in line 1; keep one"),
        ("federation:\n  stores: []\n  k: 1\n  stores: []\n",
         "c.yaml:4: the key stores stands twice, first in line 2; keep one"),
        ("federation:\n  stores:\n    - name: a\n      url: http://a\n      url: http://b\n",
         "c.yaml:5: the key url stands twice, first in line 4; keep one"),
        ("federation:\n  stores:\n    - {name: a, options: {project: x, project: y}}\n",
         "c.yaml:3: the key project stands twice, first in line 3; keep one"),
        ("unknown:\n  deep:\n    - a: 1\n      'a': 2\n",
         "c.yaml:4: the key a stands twice, first in line 3; keep one"),
        ("x:\n  yes: 1\n  true: 2\n", "c.yaml:3: the key True stands twice, first in line 2; keep one"),
    ],
    ids=range(6),
)  # fmt: skip
def test_a_key_that_stands_twice_is_a_fault_at_any_depth(files: Files, text: str, fault: str) -> None:
    assert files.faults(text) == [fault]


def test_anchors_aliases_and_merge_keys_work(files: Files) -> None:
    bound = files.stores(
        "- &first {name: a, type: seren_loci, url: 'http://h', weight: 2.0}\n"
        "- {<<: *first, name: b}\n"
        "- <<: [*first, {floor: 0.5}]\n"
        "  name: c\n"
    )
    assert [(s.name, s.weight, s.floor) for s in bound if isinstance(s, Store)] == [
        ("a", 2.0, 0.0), ("b", 2.0, 0.0), ("c", 2.0, 0.5),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["a: &x [*x]\n", "a: &x {b: *x}\n", "server: {port: &x [*x]}\n", "federation: {stores: &x [*x]}\n",
     "federation: {stores: [&x {name: *x, options: *x}]}\n"],
)  # fmt: skip
def test_an_alias_inside_what_it_stands_for_is_a_fault(files: Files, text: str) -> None:
    assert files.faults(text) == ["c.yaml:1: not valid YAML: found unconstructable recursive node"]


def test_a_bomb_of_aliases_is_read_at_once(files: Files) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    config = files.load("\n".join(lines) + "\nfederation: {stores: *a11}\n")
    assert len(config.stores) == 9


# Mistakes in sections

WRONG_TYPES = ["true", "'text'", "1.5", "[]", "[1]", "{}", "{a: 1}", "2024-01-01", "0x1F", "0b1", "017", "1:30",
               ".nan", ".inf", "-.inf", "9" * 400, "9" * 5000, "0x" + "f" * 5000, "!!set {a}",
               "!!binary aGk=", "1e3"]  # fmt: skip
NUMBERS = ["server.port", "server.threads", "server.connection_limit", "federation.k", "federation.n_results",
           "federation.fetch_multiplier", "federation.suspend_after"]  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", WRONG_TYPES, ids=range(len(WRONG_TYPES)))
def test_a_number_of_another_type_or_notation_is_a_fault_with_file_line_and_key(
    files: Files, name: str, value: str
) -> None:
    section, _, key = name.partition(".")
    (fault,) = files.faults(f"# a comment\n{section}:\n  {key}: {value}\n")
    assert re.fullmatch(rf"c\.yaml:3: {name}: expected a whole number \d+\.\.\d+, found .+", fault)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("port: '7423'", "expected a whole number 1..65535, found text '7423'"),
        ("port: 07423", "expected a whole number 1..65535, found the number 3859 "
                        "(leading 0, 0x, 0b or 1:30 is not plain decimal)"),
        ("port: 1:30", "expected a whole number 1..65535, found the number 90 "
                       "(leading 0, 0x, 0b or 1:30 is not plain decimal)"),
        ("port: 0", "expected a whole number 1..65535, found the number 0"),
        ("port: 65536", "expected a whole number 1..65535, found the number 65536"),
        ("port: 2024-02-30", "expected a whole number 1..65535, found a date"),
        ("port: !!binary aGk=", "expected a whole number 1..65535, found something else"),
        ("host: 127.1", "expected an address to listen on, found the number 127.1"),
        ("host: ''", "expected an address to listen on, found text ''"),
        ("request_timeout_s: .inf", "expected a number 0.1..3600, found the number inf"),
        ("request_timeout_s: 1:30.5", "expected a number 0.1..3600, found the number 90 "
                                      "(leading 0, 0x, 0b or 1:30 is not plain decimal)"),
        ("allow_open_lan: 'false'", "expected true or false, found text 'false'"),
        ("allow_open_lan: 0", "expected true or false, found the number 0"),
        ("allowed_hosts: a.test", "expected a list, each entry `name` or `name:port`, found text 'a.test'"),
        ("allowed_hosts: [a.test, 5]",
         "expected a list, each entry `name` or `name:port` (entry 2 is not), found a list"),
        ("trusted_proxy: 10.0.0.0/8", "expected one IP address, found text '10.0.0.0/8'"),
        ("trusted_proxy: 10", "expected one IP address, found the number 10"),
        ("instance_id: 5", "expected at most 64 letters, digits, dots, dashes and underscores, found the number 5"),
        ('instance_id: "a\\e[31m"',
         r"expected at most 64 letters, digits, dots, dashes and underscores, found text 'a\x1b[31m'"),
        ("bearer_token_env: 5", "expected text: the name of an environment variable, found a number"),
    ],
    ids=range(20),
)  # fmt: skip
def test_each_fault_of_the_server_says_what_was_expected_and_found(files: Files, line: str, fault: str) -> None:
    key = line.partition(":")[0]
    assert files.faults(f"server:\n  {line}\n") == [f"c.yaml:2: server.{key}: {fault}"]


def test_a_plain_number_with_underscores_is_that_number(files: Files) -> None:
    assert files.load("server: {port: 7_423}\n").server.port == 7423


@pytest.mark.parametrize("section", ["server", "tls", "federation"])
@pytest.mark.parametrize(
    ("value", "found"),
    [("[]", "a list"), ("5", "the number 5"), ("text", "text"), ("bearer_token:hunter2", "text"), ("true", "true")],
)
def test_a_section_that_is_no_mapping_is_a_fault(files: Files, section: str, value: str, found: str) -> None:
    assert files.faults(f"{section}: {value}\n") == [f"c.yaml:1: {section}: expected a mapping, found {found}"]


@pytest.mark.parametrize(("value", "found"), [("{}", "a mapping"), ("5", "the number 5"), ("s", "text")])
def test_stores_that_are_no_list_are_a_fault(files: Files, value: str, found: str) -> None:
    text = f"federation:\n  stores: {value}\n"
    assert files.faults(text) == [f"c.yaml:2: federation.stores: expected a list, found {found}"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("server:\n  prot: 1\n", "c.yaml:2: server.prot: unknown key; did you mean port?"),
        ("server:\n  bearer_tokn: hunter2\n", "c.yaml:2: server.bearer_tokn: unknown key; did you mean bearer_token?"),
        ("tls:\n  ca-bundle: x\n", "c.yaml:2: tls.ca-bundle: unknown key; did you mean ca_bundle?"),
        ("tls:\n  zzz: x\n", "c.yaml:2: tls.zzz: unknown key (known: ca_bundle, trust_system_store)"),
        ("tls:\n  5: x\n", "c.yaml:2: tls.5: unknown key (known: ca_bundle, trust_system_store)"),
        ("tls:\n  no: x\n", "c.yaml:2: tls.False: unknown key (known: ca_bundle, trust_system_store)"),
        ("tls:\n  ~: x\n", "c.yaml:2: tls.None: unknown key (known: ca_bundle, trust_system_store)"),
        ('tls:\n  "\\e[31m": x\n',
         r"c.yaml:2: tls.'\x1b[31m': unknown key (known: ca_bundle, trust_system_store)"),
    ],
    ids=range(8),
)  # fmt: skip
def test_an_unknown_key_under_server_or_tls_is_a_fault_with_a_hint(files: Files, text: str, fault: str) -> None:
    assert files.faults(text) == [fault]


def test_an_unknown_key_elsewhere_is_a_warning_with_a_hint(files: Files) -> None:
    config = files.load(
        "federatoin: 1\n5: x\nfederation:\n  n_result: 3\n  hops: 2\n  stores:\n"
        "    - {name: s, type: seren_loci, url: 'http://h', wieght: 2, 7: x, include_short: true}\n"
    )
    assert config.warnings == (
        "c.yaml:1: federatoin: unknown key; did you mean federation?",
        "c.yaml:2: 5: unknown key (known: federation, server, tls)",
        "c.yaml:4: federation.n_result: unknown key; did you mean n_results?",
        "c.yaml:5: federation.hops: unknown key (known: fetch_multiplier, k, n_results, per_store_timeout_s, stores, "
        "suspend_after)",
    )
    (store,) = config.stores
    assert isinstance(store, Store)
    assert store.warnings[0] == "wieght: unknown key; did you mean weight?"
    assert store.warnings[1].startswith("7: unknown key (known: ")
    assert store.warnings[2].startswith("include_short: unknown key; did you mean include_")


def test_every_fault_is_told_at_once(files: Files, tmp_path: Path) -> None:
    faults = files.faults(
        "server:\n  port: x\n  prot: 1\n  bearer_token: 5\ntls:\n  ca_bundle: none.pem\n  zz: 1\nfederation:\n"
        "  k: 0\n  n_results: 201\n  per_store_timeout_s: .nan\n  stores: {}\n",
        SEREN_SCC_THREADS="x", SEREN_SCC_LOG_LEVEL="loud",
    )  # fmt: skip
    assert faults == [
        "c.yaml:3: server.prot: unknown key; did you mean port?",
        "c.yaml:2: server.port: expected a whole number 1..65535, found text 'x'",
        "SEREN_SCC_THREADS: expected a whole number 1..256, found text 'x'",
        "c.yaml:7: tls.zz: unknown key (known: ca_bundle, trust_system_store)",
        "c.yaml:9: federation.k: expected a whole number 1..10000, found the number 0",
        "c.yaml:10: federation.n_results: expected a whole number 1..200, found the number 201",
        "c.yaml:11: federation.per_store_timeout_s: expected a number 0.05..120, found the number nan",
        "c.yaml:6: tls.ca_bundle: expected a readable PEM file with certificates, "
        f"found none at {str(tmp_path / 'none.pem')!r}",
        "c.yaml:4: server.bearer_token: the token is not text but a number: quote it",
        "c.yaml:12: federation.stores: expected a list, found a mapping",
        "SEREN_SCC_LOG_LEVEL: expected debug, info, warning or error, found text 'loud'",
    ]


def test_a_file_that_is_no_yaml_does_not_hide_the_faults_of_the_variables(files: Files) -> None:
    assert files.faults("a: [\n", SEREN_SCC_PORT="x") == [
        "c.yaml:2: not valid YAML: expected the node content, but found …",
        "SEREN_SCC_PORT: expected a whole number 1..65535, found text 'x'",
    ]


@pytest.mark.parametrize("name", [name for name, _, _ in VARIABLES])
def test_null_is_the_default_of_every_setting(files: Files, name: str) -> None:
    section, _, key = name.partition(".")
    config = files.load(f"{section}:\n  {key}: null\n")
    assert config.sources[name] == "default"


# The token of the service


@pytest.mark.parametrize(
    ("token", "found"),
    [("no", "true/false"), ("on", "true/false"), ("0123", "a number"), ("123", "a number"), ("0x1F", "a number"),
     ("1_000", "a number"), ("1:30", "a number"), ("1.5", "a number"), (".nan", "a number"), (".inf", "a number"),
     ("9" * 5000, "a number"), ("2024-01-01", "a date"), ("2024-02-30", "a date"), ("2024-13-45", "a date"),
     ("2024-01-01 10:00:00", "a date"), ("[a]", "a list"), ("{a: b}", "a dict"), ("!!binary aGk=", "a bytes"),
     ("!!set {a}", "a set")],
    ids=range(19),
)  # fmt: skip
def test_a_token_that_yaml_reads_as_something_else_never_leaves_the_service_open(
    files: Files, token: str, found: str
) -> None:
    expected = f"c.yaml:2: server.bearer_token: the token is not text but {found}: quote it"
    assert files.faults(f"server:\n  bearer_token: {token}\n") == [expected]


ODD_TOKENS = [
    f"*{SECRET}", f"&{SECRET}", f"!{SECRET}", f"!{SECRET} x", f"!!{SECRET} x", f"!!null {SECRET}", f"@{SECRET}",
    f"`{SECRET}", f"%{SECRET}", f'"{SECRET}', f"'{SECRET}", f"[{SECRET}", f"{{{SECRET}", f"{SECRET}: x", f"- {SECRET}",
    f"? {SECRET}", f">{SECRET}", f"|{SECRET}", f'"{SECRET}" x', f"'a'{SECRET}'", f'"\\q{SECRET}"', f'"\\x{SECRET}"',
    f"!<{SECRET}> x", f"!a!{SECRET} x", f"!!int {SECRET}", f"!!float {SECRET}", f"!!timestamp {SECRET}",
    f"!!bool {SECRET}", f"!!python/object:{SECRET} x", f"[{SECRET}]", f"{{{SECRET}: x}}", f"{{{SECRET}}}",
    f"{SECRET}\n   x: y", f'"{SECRET}\\n{SECRET}"', f'"{SECRET}\\0"', f"|\n    {SECRET}\n    {SECRET}",
    f"* {SECRET}", f"! {SECRET}: y", f"*'{SECRET}'\"x", f"\t{SECRET}\n\tx", f"{SECRET}\n\t{SECRET}: x",
]  # fmt: skip


@pytest.mark.parametrize("token", ODD_TOKENS, ids=range(len(ODD_TOKENS)))
def test_a_token_that_breaks_the_yaml_around_it_is_refused_and_never_shown(files: Files, token: str) -> None:
    faults = files.faults(f"server:\n  port: 1\n  bearer_token: {token}\n")
    assert SECRET not in " ".join(faults)
    assert re.match(r"c\.yaml:\d: ", faults[0])


@pytest.mark.parametrize("token", ODD_TOKENS, ids=range(len(ODD_TOKENS)))
def test_the_token_of_a_store_is_never_shown_either(files: Files, token: str) -> None:
    shown = ""
    try:
        config = files.load(
            f"federation:\n  stores:\n  - name: s\n    type: seren_loci\n    url: http://h\n    token: {token}\n"
        )
        shown = repr(config)
        assert all(isinstance(store, Unbound) for store in config.stores)
    except ConfigError as exc:
        shown = str(exc)
    assert SECRET not in shown


@pytest.mark.parametrize("value", ["", "~", "null", "''", '""', "# nothing but a comment"])
def test_nothing_behind_the_key_of_the_token_is_no_token(files: Files, value: str) -> None:
    assert files.load(f"server:\n  bearer_token: {value}\n").token is None


@pytest.mark.parametrize("value", ["'no'", '"0123"', "'2024-01-01'", "1e3", "' a '", "tök€n", "'#x'", "a#b", "a b"])
def test_quoted_or_odd_text_is_a_token(files: Files, value: str) -> None:
    token = files.load(f"server:\n  bearer_token: {value}\n").token
    assert token is not None
    assert token.value == value.strip("'\"").strip()


@pytest.mark.parametrize(
    ("environ", "fault"),
    [
        ({"SEREN_SCC_BEARER_TOKEN": "  "},
         "SEREN_SCC_BEARER_TOKEN: server.bearer_token: the token is blank: give one, or remove the key"),
        ({"SEREN_SCC_BEARER_TOKEN": "a\nhunter2"},
         "SEREN_SCC_BEARER_TOKEN: server.bearer_token: the token holds a control character, a line break or broken "
         "UTF-8: write it on one line"),
        ({"SEREN_SCC_BEARER_TOKEN_ENV": "NOT_SET"},
         "SEREN_SCC_BEARER_TOKEN_ENV: server.bearer_token_env: the token's environment variable NOT_SET is not set: "
         "set it, or remove the pointer"),
        ({"SEREN_SCC_BEARER_TOKEN_ENV": "EMPTY_ONE", "EMPTY_ONE": " "},
         "SEREN_SCC_BEARER_TOKEN_ENV: server.bearer_token_env: the value of the environment variable EMPTY_ONE is "
         "blank: give one, or remove the key"),
        ({"SEREN_SCC_BEARER_TOKEN_KEYRING": "hunter2"},
         "SEREN_SCC_BEARER_TOKEN_KEYRING: server.bearer_token_keyring: a pointer to the keychain has the form "
         "service/username"),
    ],
    ids=range(5),
)  # fmt: skip
def test_a_pointer_to_no_token_is_a_fault(files: Files, environ: Mapping[str, str], fault: str) -> None:
    assert files.faults("", **environ) == [fault]


def test_the_inline_token_wins_over_the_variable_it_points_to(files: Files) -> None:
    text = "server: {bearer_token: inline, bearer_token_env: OTHER}\n"
    token = files.load(text, OTHER="other").token
    assert token is not None
    assert (token.value, token.source) == ("inline", "inline")


# Entries of stores


def unusable(files: Files, entries: str, **environ: str) -> list[tuple[str, str]]:
    """Name and reason of the entries that cannot be used; the good one that is put after them must be usable."""
    bound = files.stores(entries + "\n- {name: good, type: seren_loci, url: 'http://h'}", **environ)
    assert isinstance(bound[-1], Store)
    return [(entry.name, entry.reason) for entry in bound if isinstance(entry, Unbound)]


NAME = (
    "expected a name of 1..64 printable characters, no slash or backslash, no space at either end, "
    "and not '.', '..', 'snapshot' or 'snapshots'"
)
QUOTE = " (quote it if it looks like a number, a date or yes/no)"
ENTRY = "type: seren_loci, url: 'http://h'"


@pytest.mark.parametrize(
    ("entry", "name", "reason"),
    [
        ("-", "stores[0]", "expected a mapping, found nothing"),
        ("- token:hunter2", "stores[0]", "expected a mapping, found text"),
        ("- [a]", "stores[0]", "expected a mapping, found a list"),
        ("- 5", "stores[0]", "expected a mapping, found the number 5"),
        ("- 2024-02-30", "stores[0]", "expected a mapping, found a date"),
        ("- {name: a, type: seren_loci}", "a", "url: missing: where it listens"),
        ("- {name: a, url: 'http://h'}", "a", "type: missing: which adapter speaks to it"),
        ("- {name: a, typ: seren_loci, url: 'http://h', project: boats}", "a",
         "type: missing: which adapter speaks to it; typ: unknown key; did you mean type?"),
        ("- {name: a, type: seren_loci, urll: 'http://h', options: {projekt: boats}}", "a",
         "url: missing: where it listens; urll: unknown key; did you mean url?; "
         "options.projekt: unknown option; did you mean project?"),
        ("- {type: seren_loci, url: 'http://h'}", "stores[0]", "name: missing: unique name of the store"),
        ("- {name: a, type: chroma, url: 'http://h'}", "a",
         "type: unknown type 'chroma'; known types: seren_loci, seren_memory, callosum"),
        ("- {name: a, type: chroma, weight: -1, colection: x, options: {tenant: y}}", "a",
         "type: unknown type 'chroma'; known types: seren_loci, seren_memory, callosum; "
         "weight: expected a number 0..1000, found the number -1; url: missing: where it listens"),
        ("- {name: a, type: '', url: 'http://h'}", "a",
         "type: unknown type ''; known types: seren_loci, seren_memory, callosum"),
        ("- {name: a, type: null, url: 'http://h'}", "a", "type: expected the name of a store type, found nothing"),
        ("- {name: a, type: [x], url: 'http://h'}", "a", "type: expected the name of a store type, found a list"),
        (f"- {{name: no, {ENTRY}}}", "stores[0]", f"name: {NAME}{QUOTE}, found false"),
        (f"- {{name: 123, {ENTRY}}}", "stores[0]", f"name: {NAME}{QUOTE}, found the number 123"),
        (f"- {{name: 2024-01-01, {ENTRY}}}", "stores[0]", f"name: {NAME}{QUOTE}, found a date"),
        (f"- {{name: 1:30, {ENTRY}}}", "stores[0]",
         f"name: {NAME}{QUOTE}, found the number 90 (leading 0, 0x, 0b or 1:30 is not plain decimal)"),
        (f"- {{name: null, {ENTRY}}}", "stores[0]", f"name: {NAME}{QUOTE}, found nothing"),
        (f"- {{name: a/b, {ENTRY}}}", "stores[0]", f"name: {NAME}, found text 'a/b'"),
        (f"- {{name: ' a', {ENTRY}}}", "stores[0]", f"name: {NAME}, found text ' a'"),
        (f"- {{name: snapshots, {ENTRY}}}", "stores[0]", f"name: {NAME}, found text 'snapshots'"),
        (f"- {{name: a, {ENTRY}, weight: -1}}", "a", "weight: expected a number 0..1000, found the number -1"),
        (f"- {{name: a, {ENTRY}, weight: .nan}}", "a", "weight: expected a number 0..1000, found the number nan"),
        (f"- {{name: a, {ENTRY}, weight: .inf}}", "a", "weight: expected a number 0..1000, found the number inf"),
        (f"- {{name: a, {ENTRY}, weight: 1.0e+999}}", "a", "weight: expected a number 0..1000, found the number inf"),
        (f"- {{name: a, {ENTRY}, weight: 1e3}}", "a", "weight: expected a number 0..1000, found text '1e3'"),
        (f"- {{name: a, {ENTRY}, weight: true}}", "a", "weight: expected a number 0..1000, found true"),
        (f"- {{name: a, {ENTRY}, floor: 1.1}}", "a", "floor: expected a number 0..1, found the number 1.1"),
        (f"- {{name: a, {ENTRY}, enabled: 'false'}}", "a", "enabled: expected true or false, found text 'false'"),
        (f"- {{name: a, {ENTRY}, enabled: 0}}", "a", "enabled: expected true or false, found the number 0"),
        (f"- {{name: a, {ENTRY}, timeout_s: 0}}", "a", "timeout_s: expected a number 0.05..120, found the number 0"),
        (f"- {{name: a, {ENTRY}, timeout_s: 10s}}", "a", "timeout_s: expected a number 0.05..120, found text '10s'"),
        (f"- {{name: a, {ENTRY}, token: 0123}}", "a", "token: the token is not text but a number: quote it"),
        (f"- {{name: a, {ENTRY}, token: 2024-02-30}}", "a", "token: the token is not text but a date: quote it"),
        (f"- {{name: a, {ENTRY}, token: no}}", "a", "token: the token is not text but true/false: quote it"),
        (f"- {{name: a, {ENTRY}, token: ' '}}", "a", "token: the token is blank: give one, or remove the key"),
        (f"- {{name: a, {ENTRY}, bearer_token: [hunter2]}}", "a", "token: the token is not text but a list: quote it"),
        (f"- {{name: a, {ENTRY}, token: a, bearer_token: b}}", "a",
         "token: given twice, as token and as bearer_token; keep one"),
        (f"- {{name: a, {ENTRY}, token_env: NOT_SET}}", "a",
         "token_env: the token's environment variable NOT_SET is not set: set it, or remove the pointer"),
        (f"- {{name: a, {ENTRY}, token_env: hunter2=x}}", "a",
         "token_env: expected text: the name of an environment variable, found text"),
        (f"- {{name: a, {ENTRY}, token_keyring: 5}}", "a",
         "token_keyring: expected text: service/username, found a number"),
        (f"- {{name: a, {ENTRY}, token_keyring: hunter2}}", "a",
         "token_keyring: a pointer to the keychain has the form service/username"),
        (f"- {{name: a, {ENTRY}, proxy: 'socks5://u:hunter2@h'}}", "a",
         "proxy: expected a URL that starts with http:// or https://"),
        (f"- {{name: a, {ENTRY}, options: [a]}}", "a",
         "options: expected a mapping of adapter options, found a list"),
        (f"- {{name: a, {ENTRY}, project: 5}}", "a", "options.project: expected text, found the number 5"),
        ("- {name: a, type: seren_loci, url: h, weight: x, floor: 2, enabled: 1}", "a",
         "weight: expected a number 0..1000, found text 'x'; floor: expected a number 0..1, found the number 2; "
         "enabled: expected true or false, found the number 1; url: expected a URL that starts with http:// or "
         "https://"),
    ],
    ids=range(48),
)  # fmt: skip
def test_one_unusable_entry_is_listed_with_the_reason_and_stops_nothing(
    files: Files, entry: str, name: str, reason: str
) -> None:
    assert unusable(files, entry) == [(name, reason)]
    assert SECRET not in reason


def test_of_two_entries_with_one_name_the_first_wins(files: Files) -> None:
    entries = (
        f'- {{name: é, {ENTRY}, weight: 2.0}}\n- {{name: "e\\u0301", {ENTRY}}}\n'
        f"- {{name: b, type: x}}\n- {{name: b, {ENTRY}}}"
    )
    first, second, third, fourth = files.stores(entries)
    assert isinstance(first, Store)
    assert isinstance(second, Unbound)
    assert (second.name, second.reason, second.duplicate) == ("é", "an earlier entry has this name", True)
    assert [isinstance(entry, Unbound) and entry.duplicate for entry in (third, fourth)] == [False, True]


@pytest.mark.parametrize("key", [row.key for row in settings.rows("store", StoreEntry)])
def test_null_is_the_default_of_every_key_of_an_entry_that_has_one(files: Files, key: str) -> None:
    entry = {"name": "a", "type": "seren_loci", "url": "'http://h'"} | {key: "null"}
    (bound,) = files.stores("- {" + ", ".join(f"{name}: {value}" for name, value in entry.items()) + "}")
    assert isinstance(bound, Unbound) == (key in ("name", "type", "url"))


def test_unusable_entries_are_in_skipped_but_duplicates_and_disabled_ones_are_not(files: Files) -> None:
    entries = (
        f"- {{name: dup, {ENTRY}, enabled: false}}\n- {{name: dup, {ENTRY}}}\n- {{name: bad, type: seren_loci}}\n"
        "- x\n- {name: off, type: seren_loci, enabled: false}"
    )
    files.stores(entries)
    with Callosum.from_config(files.path, environ={}) as callosum:
        packet = callosum.search("anything")
    assert [(entry.name, entry.failure.kind) for entry in packet.skipped] == [
        ("bad", "unbound"),
        ("stores[3]", "unbound"),
    ]
    assert (packet.stores_searched, packet.hits) == ((), ())


@pytest.mark.parametrize("spelling", ["token", "bearer_token"])
@pytest.mark.parametrize(("suffix", "value"), [("", "t0ken"), ("_env", "THE_TOKEN")])
def test_both_spellings_of_the_keys_of_a_token_are_taken(files: Files, spelling: str, suffix: str, value: str) -> None:
    (store,) = files.stores(f"- {{name: a, {ENTRY}, {spelling}{suffix}: {value}}}", THE_TOKEN=" t0ken\n")
    assert isinstance(store, Store)
    assert store.token is not None
    assert store.token.value == "t0ken"
    assert "t0ken" not in repr(store)


# As a process


@pytest.mark.parametrize("command", [(), ("check",), ("search", "q"), ("stores", "list")], ids=repr)
def test_a_broken_file_ends_every_command_with_78_one_line_a_fault_and_no_traceback(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "c.yaml").write_text(f"server:\n  port: x\n  bearer_token: [{SECRET}]\n  zz: 1\n")
    done = run_command(tmp_path, "-c", "c.yaml", *command)
    assert done.returncode == 78
    assert done.stdout == ""
    assert done.stderr.splitlines()[1:] == [
        "c.yaml:2: server.port: expected a whole number 1..65535, found text 'x'",
        "c.yaml:3: server.bearer_token: the token is not text but a list: quote it",
    ]
    assert done.stderr.startswith("c.yaml:4: server.zz: unknown key (known: allow_open_lan, ")


def test_a_wrong_variable_ends_with_78(tmp_path: Path) -> None:
    done = run_command(tmp_path, env={"SEREN_SCC_PORT": "tcp://10.0.0.1:7423"})
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr == "SEREN_SCC_PORT: expected a whole number 1..65535, found text 'tcp://10.0.0.1:7423'\n"


def test_an_unreadable_file_ends_with_78(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").mkdir()
    done = run_command(tmp_path, "-c", "c.yaml", "check")
    assert (done.returncode, done.stderr) == (78, f"c.yaml: cannot be read: {os.strerror(21)}\n")


def test_a_working_directory_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match="the working directory is gone"):
        load(environ={})
