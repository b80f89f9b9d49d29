"""Promises of the table of settings: what each takes from YAML and from a variable, its default and its range."""

import math
from datetime import date, datetime
from typing import Any

import pytest

from seren_corpus_callosum import settings
from seren_corpus_callosum.errors import SettingError
from seren_corpus_callosum.kinds import OddNumber, StoreName
from seren_corpus_callosum.settings import Row, StoreEntry

ROWS = {f"{row.section}.{row.key}": row for row in settings.all_rows()}
ROWS |= {f"store.{row.key}": row for row in settings.rows("store", StoreEntry)}

DEFAULTS: dict[str, Any] = {
    "server.host": "0.0.0.0", "server.port": 7423, "server.threads": 16, "server.connection_limit": 200,
    "server.request_timeout_s": 30.0, "server.bearer_token": "", "server.bearer_token_env": "",
    "server.bearer_token_keyring": "", "server.allow_open_lan": False, "server.allowed_hosts": (),
    "server.trusted_proxy": "", "server.frame_ancestors": (), "server.instance_id": "",
    "tls.trust_system_store": False, "tls.ca_bundle": None,
    "federation.k": 60, "federation.n_results": 10, "federation.fetch_multiplier": 2,
    "federation.per_store_timeout_s": 5.0, "federation.suspend_after": 3,
    "store.name": None, "store.type": None, "store.url": None, "store.weight": 1.0, "store.floor": 0.0,
    "store.enabled": True, "store.timeout_s": None, "store.token": "", "store.token_env": "",
    "store.token_keyring": "", "store.proxy": None, "store.options": None,
}  # fmt: skip


def test_every_setting_has_the_documented_default_and_a_help_text() -> None:
    assert {name: row.default for name, row in ROWS.items()} == DEFAULTS
    assert all(row.help and row.kind.expected for row in ROWS.values())


def test_no_two_settings_share_a_variable() -> None:
    variables = [row.variable for row in settings.all_rows()]
    variables += [settings.PREFIX + name for name in settings.PROCESS_VARIABLES]
    assert len(variables) == len(set(variables))
    assert {"SEREN_SCC_HOST", "SEREN_SCC_PORT", "SEREN_SCC_K", "SEREN_SCC_TRUST_SYSTEM_STORE"} <= set(variables)


# Numbers

WHOLE = {
    "server.port": (1, 65535), "server.threads": (1, 256), "server.connection_limit": (10, 10000),
    "federation.k": (1, 10000), "federation.n_results": (1, 200), "federation.fetch_multiplier": (1, 10),
    "federation.suspend_after": (0, 100),
}  # fmt: skip
REAL = {
    "server.request_timeout_s": (0.1, 3600), "federation.per_store_timeout_s": (0.05, 120), "store.timeout_s":
    (0.05, 120), "store.weight": (0, 1000), "store.floor": (0, 1),
}  # fmt: skip
NO_NUMBER: list[Any] = [
    True, False, "1", "1.5", "", "10s", ".5", "nan", [], [1], {}, {"a": 1}, (1,), b"1", date(2024, 1, 1),
    datetime(2024, 1, 1), math.nan, math.inf, -math.inf, 10**400, -(10**400), OddNumber(5), 1j,
]  # fmt: skip


@pytest.mark.parametrize(("name", "low", "high"), [(name, *limits) for name, limits in WHOLE.items()])
def test_a_whole_number_is_taken_in_its_range_only(name: str, low: int, high: int) -> None:
    kind = ROWS[name].kind
    assert [kind.check(low), kind.check(high)] == [low, high]
    assert [kind.parse(str(low)), kind.parse(str(high))] == [low, high]
    for outside in (low - 1, high + 1, -1 if low else -2, -60, 2**63):
        with pytest.raises(SettingError, match=f"a whole number {low}..{high}"):
            kind.check(outside)
        with pytest.raises(SettingError, match=f"a whole number {low}..{high}"):
            kind.parse(str(outside))


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", [*NO_NUMBER, 20.0, 20.5, 1e2], ids=repr)
def test_what_is_no_whole_number_is_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingError):
        ROWS[name].kind.check(value)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize(
    "text",
    ["tcp://10.0.0.1:7423", "20.0", "2e1", "020", "0x14", "0b1", "2_0", "+20", " 20", "twenty", "٢٠", "２０", "20 30",
     "nan", "inf", "true", "-0x1", "--2", "1" * 5000, "20\n"],
)  # fmt: skip
def test_a_variable_takes_plain_decimal_digits_only(name: str, text: str) -> None:
    with pytest.raises(SettingError):
        ROWS[name].kind.parse(text)


@pytest.mark.parametrize(("name", "low", "high"), [(name, *limits) for name, limits in REAL.items()])
def test_a_number_is_taken_in_its_range_only(name: str, low: float, high: float) -> None:
    kind = ROWS[name].kind
    assert [kind.check(low), kind.check(high), kind.check(1)] == [low, high, 1.0]
    assert type(kind.check(1)) is float
    for outside in (low - 0.01, high + 0.01, -1, -0.001, 1e308, 1e999, -1e999, math.nan):
        with pytest.raises(SettingError, match=f"a number {low:g}..{high:g}"):
            kind.check(outside)
        with pytest.raises(SettingError, match=f"a number {low:g}..{high:g}"):
            kind.parse(str(outside))


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("value", NO_NUMBER, ids=repr)
def test_what_is_no_number_is_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingError):
        ROWS[name].kind.check(value)


@pytest.mark.parametrize(
    ("text", "number"), [("0.5", 0.5), ("1", 1.0), (".5", 0.5), ("5e-1", 0.5), ("+1", 1.0), ("1.", 1.0), ("05e-1", 0.5)]
)
def test_a_variable_for_a_number_takes_the_usual_notations(text: str, number: float) -> None:
    assert ROWS["store.floor"].kind.parse(text) == number


@pytest.mark.parametrize(
    "text", ["nan", "NaN", "inf", "infinity", "-inf", "1e999", "0,5", "0.5s", "1/2", "٠.٥", "1_0", "--1", ".", "e", ""]
)
def test_a_variable_for_a_number_takes_nothing_else(text: str) -> None:
    with pytest.raises(SettingError):
        ROWS["store.weight"].kind.parse(text)


# true and false

FLAGS = ["server.allow_open_lan", "tls.trust_system_store", "store.enabled"]


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("True", True), ("TRUE", True), ("yes", True), ("Yes", True), ("on", True), ("ON", True),
     ("1", True), ("false", False), ("False", False), ("no", False), ("NO", False), ("off", False), ("Off", False),
     ("0", False)],
)  # fmt: skip
def test_a_variable_spells_true_and_false_in_many_ways(name: str, text: str, value: bool) -> None:
    assert ROWS[name].kind.parse(text) is value


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("text", ["banana", "2", "-1", "00", "01", "y", "n", "t", "f", "enabled", "none", "1.0", "ja"])
def test_any_other_word_is_refused(name: str, text: str) -> None:
    with pytest.raises(SettingError, match="true or false"):
        ROWS[name].kind.parse(text)


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", ["true", "false", "no", "", 0, 1, 0.0, [], {}, OddNumber(1), date(2024, 1, 1)])
def test_in_yaml_and_json_only_true_and_false_are_booleans(name: str, value: Any) -> None:
    assert ROWS[name].kind.check(True) is True
    assert ROWS[name].kind.check(False) is False
    with pytest.raises(SettingError, match="true or false"):
        ROWS[name].kind.check(value)


# Texts and lists

TEXTS = ["server.host", "server.bearer_token_env", "server.bearer_token_keyring", "server.trusted_proxy",
         "server.instance_id", "tls.ca_bundle", "store.name", "store.type", "store.url", "store.token_env",
         "store.token_keyring", "store.proxy"]  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    "value", [True, 0, 1.5, [], ["a"], {}, b"a", date(2024, 1, 1), OddNumber(7), math.nan, "a\nb", "a\x00", "\x1b[31m"],
    ids=repr,
)  # fmt: skip
def test_text_is_never_anything_else_and_never_holds_control_characters(name: str, value: Any) -> None:
    with pytest.raises(SettingError):
        ROWS[name].kind.check(value)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("server.host", ["127.0.0.1", "::1", "localhost"], ["", " ", "a b"]),
        ("server.trusted_proxy", ["", "10.0.0.1", "::1"], ["10.0.0.0/8", "proxy.lan", "10.0.0.1:80", "*", "10.1"]),
        ("server.instance_id", ["", "a", "A-1_b.c", "x" * 64], ["a b", "x" * 65, "ä", "a,b", "a/b", "a(b)"]),
        ("store.token_env", ["", "MY_TOKEN"], ["A=B"]),
    ],
)
def test_a_text_with_a_shape_is_taken_in_that_shape_only(name: str, good: list[str], bad: list[str]) -> None:
    assert [ROWS[name].kind.check(value) for value in good] == good
    for value in bad:
        with pytest.raises(SettingError):
            ROWS[name].kind.check(value)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("server.allowed_hosts", ["a", "a.b:80", "日本.test", "[::1]:7423", "10.0.0.1"],
         ["http://a", "a/b", "a b", "u@a", "a:x", "", "a:123456"]),
        ("server.frame_ancestors", ["https://a.test", "http://a.test:8080"],
         ["a.test", "*", "https://*.a.test", "https://a.test/x", "https://a;b", "javascript:x", "https://a b",
          "'self'"]),
    ],
)  # fmt: skip
def test_each_entry_of_a_list_is_checked(name: str, good: list[str], bad: list[str]) -> None:
    kind = ROWS[name].kind
    assert kind.check(good) == tuple(good)
    assert kind.parse(" , ".join(good) + ",") == tuple(good)
    assert kind.check([]) == ()
    for value in [*bad, 1, None, True, ["nested"]]:
        with pytest.raises(SettingError):
            kind.check([*good, value])


@pytest.mark.parametrize("value", ["a,b", "a", 1, True, {"a": 1}, date(2024, 1, 1)], ids=repr)
def test_a_list_is_never_anything_else(value: Any) -> None:
    with pytest.raises(SettingError):
        ROWS["server.allowed_hosts"].kind.check(value)


# Names of stores


@pytest.mark.parametrize(
    ("name", "kept"),
    [("facts", "facts"), ("a b", "a b"), ("日本", "日本"), ("%", "%"), ("a?b", "a?b"), ("x" * 64, "x" * 64),
     ("...", "..."), ("Snapshot", "Snapshot"), ("no", "no"), ("123", "123"), ("<b>", "<b>"), ("🙂", "🙂"),
     ("cafe\u0301", "café"), ("e\u0301" * 64, "é" * 64), ("a\u00a0b", "a\u00a0b"), ("mémoire d'été", "mémoire d'été")],
)  # fmt: skip
def test_names_of_any_script_are_taken_in_nfc(name: str, kept: str) -> None:
    assert StoreName().check(name) == kept


@pytest.mark.parametrize(
    "name",
    ["", " ", " x", "x ", "\u00a0x", "x\u3000", "a/b", "a\\b", ".", "..", "snapshot", "snapshots", "x" * 65, "a\nb",
     "a\x00", "a\x7f", "a\x85", "a\u200b", "a\u202eb", "a\u2028b", "\ud800", "\ue000", "\ufeffa", "a\u0378",
     None, 5, True, 1.5, [], {}, b"a", date(2024, 1, 1), OddNumber(5)],
    ids=repr,
)  # fmt: skip
def test_a_name_that_cannot_be_addressed_or_seen_is_refused(name: Any) -> None:
    with pytest.raises(SettingError, match=r"a name of 1\.\.64 printable characters"):
        StoreName().check(name)


# Queries

VISIBLE = ["a", "?", "日本", "é", " a ", "a\u200b", "🙂", "👨‍👩‍👧", "\u0301", "a\x00b", "x" * 16384, "ﷺ" * 16384]
BLANK = ["", " ", "   ", "\t\n", "\u00a0", "\u200b", "\u3000", "\u2060", "\ufeff", "\u00ad", "\u200e", "\u2028",
         "\x85", "\u180e", "\x00", "\ufe0f", "\u034f", "\u3164", "\u2800", "\U000e0041", "\u115f",
         " \u200b\u3000\n"]  # fmt: skip


@pytest.mark.parametrize("query", VISIBLE, ids=ascii)
def test_a_query_in_which_something_can_be_seen_is_taken_unchanged(query: str) -> None:
    assert settings.QUERY.check(query) == query


@pytest.mark.parametrize(
    "query", [*BLANK, "x" * 16385, None, 5, True, [], ["q"], {}, b"q", "a\ud800", "\udfff"], ids=ascii
)
def test_a_blank_overlong_or_broken_query_is_refused(query: Any) -> None:
    with pytest.raises(SettingError):
        settings.QUERY.check(query)


# What an error text shows


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "nothing"), (True, "true"), (False, "false"), (5, "the number 5"), (1.5, "the number 1.5"),
        (math.nan, "the number nan"), ("a", "text 'a'"), ("a\x1b[31m\n", r"text 'a\x1b[31m\n'"),
        ("x" * 61, "text '" + "x" * 59 + "…'"), ([1], "a list"), ((1,), "a list"), ({"a": 1}, "a mapping"),
        (date(2024, 1, 1), "a date"), (datetime(2024, 1, 1), "a date"), ({1}, "something else"),
        (b"x", "something else"),
        (OddNumber(83), "the number 83 (leading 0, 0x, 0b or 1:30 is not plain decimal)"),
    ],
)  # fmt: skip
def test_what_was_found_is_shown_short_and_printable(value: Any, shown: str) -> None:
    assert settings.described(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [("hunter2", "text"), (12345, "a number"), (True, "true/false"), (OddNumber(5), "a number"), (["x"], "a list"),
     (None, "nothing"), ({"hunter2": 1}, "a mapping"), (date(2024, 1, 1), "a date"), (b"x", "something else")],
)  # fmt: skip
def test_of_a_secret_only_its_type_is_shown(value: Any, shown: str) -> None:
    assert settings.described(value, secret=True) == shown


HIDDEN = {"server.bearer_token", "server.bearer_token_env", "server.bearer_token_keyring", "store.token",
          "store.token_env", "store.token_keyring", "store.url", "store.proxy"}  # fmt: skip


def test_whatever_may_hold_a_secret_is_never_shown_in_a_fault() -> None:
    assert {name for name, row in ROWS.items() if row.hidden} == HIDDEN


def test_a_number_with_more_digits_than_python_writes_is_described_too() -> None:
    assert settings.described(10**5000) == settings.described(OddNumber(-(10**5000))) == "a huge number"


def test_a_row_knows_its_variable() -> None:
    row: Row = ROWS["federation.per_store_timeout_s"]
    assert row.variable == "SEREN_SCC_PER_STORE_TIMEOUT_S"


@pytest.mark.parametrize(
    ("key", "shown"),
    [("port", "port"), ("日本", "日本"), (5, "5"), (None, "None"), (True, "True"), ("\x1b[31m", r"'\x1b[31m'"),
     ("a\nb", r"'a\nb'"), ("x" * 61, "x" * 59 + "…")],
)  # fmt: skip
def test_a_key_is_shown_short_and_printable(key: object, shown: str) -> None:
    assert settings.key_text(key) == shown
