"""Where a token comes from, what makes it unusable, and what a missing or hung keychain costs."""

import datetime
import sys
import threading
import time
from types import ModuleType, SimpleNamespace

import keyring
import pytest
from keyring.backends import chainer, fail, null
from keyrings.alt.file import EncryptedKeyring, PlaintextKeyring

from seren_corpus_callosum import tokens
from seren_corpus_callosum.errors import TokenError
from seren_corpus_callosum.tokens import Token, keychain_delete, keychain_save, resolve, same

SECRET = "s3cr3t-value"


@pytest.fixture
def keychain(tmp_path, monkeypatch):
    """A real keychain of keyrings.alt, in a file of this test."""
    backend = PlaintextKeyring()
    backend.file_path = str(tmp_path / "keychain.cfg")
    use(monkeypatch, backend)
    return backend


@pytest.fixture
def hanging(monkeypatch):
    """A keychain that hangs in `where` until released; every call it was asked is noted."""
    release = threading.Event()
    entries, asked = {}, []

    class Hanging:
        def __init__(self):
            self.where = {"get", "set", "delete"}

        def _hang(self, what):
            asked.append(what)
            if what in self.where:
                release.wait()

        def get_password(self, service, username):
            self._hang("get")
            return entries.get((service, username))

        def set_password(self, service, username, secret):
            self._hang("set")
            entries[service, username] = secret

        def delete_password(self, service, username):
            self._hang("delete")
            del entries[service, username]

    backend = Hanging()
    use(monkeypatch, backend)
    monkeypatch.setattr(tokens, "WAIT_S", 0.1)
    yield SimpleNamespace(backend=backend, entries=entries, asked=asked, let_go=lambda: let_go(release))
    let_go(release)


def use(monkeypatch, backend):
    monkeypatch.setattr(keyring, "get_keyring", lambda: backend)


def let_go(release):
    release.set()
    for thread in threading.enumerate():
        if thread.name == "keychain":
            thread.join()


def refusal(inline=None, keyring=None, env=None, environ=None):
    with pytest.raises(TokenError) as caught:
        resolve(inline, keyring, env, environ or {})
    return str(caught.value)


# Precedence


@pytest.mark.parametrize("unset", [None, ""])
def test_nothing_set_is_no_token(unset):
    assert resolve(unset, unset, unset, {"TOKEN": "x"}) is None


def test_inline_wins_over_keychain_and_environment_which_are_not_looked_at():
    assert resolve("inline", 7, 7, {}) == Token("inline", "inline")


def test_the_keychain_wins_over_the_environment_which_is_not_looked_at(keychain):
    keychain.set_password("callosum", "loci", "from keychain")
    assert resolve("", "callosum/loci", "NOT_SET", {}) == Token("from keychain", "keychain")


def test_the_environment_comes_last():
    assert resolve(None, "", "LOCI_TOKEN", {"LOCI_TOKEN": "x"}) == Token("x", "environment variable LOCI_TOKEN")


def test_a_pointer_to_nothing_never_falls_through_to_the_next_source(keychain):
    assert "no keychain entry callosum/none" in refusal(None, "callosum/none", "LOCI_TOKEN", {"LOCI_TOKEN": "x"})


# Values


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("abc\n", b"abc"),
        (" abc ", b"abc"),
        ("\t\r\nabc\r\n", b"abc"),
        ("tök", b"t\xc3\xb6k"),
        ("a€b", b"a\xe2\x82\xacb"),
        ("two words", b"two words"),
    ],
)
def test_white_space_around_goes_and_any_script_is_sent_as_utf_8(keychain, written, sent):
    keychain.set_password("callosum", "loci", written)
    assert resolve(written, None, None, {}).header_bytes == sent
    assert resolve(None, "callosum/loci", None, {}).header_bytes == sent
    assert resolve(None, None, "T", {"T": written}).header_bytes == sent


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (False, "true/false"),
        (True, "true/false"),
        (0, "a number"),
        (83, "a number"),
        (1.5, "a number"),
        (datetime.date(2024, 1, 1), "a date"),
        (datetime.datetime(2024, 1, 1), "a date"),
        (["abc"], "a list"),
        ({}, "a dict"),
        (b"abc", "a bytes"),
    ],
    ids=repr,
)
def test_what_yaml_read_as_something_else_than_text_is_refused_with_quote_it(value, kind):
    assert refusal(value) == f"the token is not text but {kind}: quote it"
    assert refusal(None, value) == f"the pointer to the keychain is not text but {kind}: quote it"
    assert refusal(None, None, value) == (
        f"the name of the token's environment variable is not text but {kind}: quote it"
    )


@pytest.mark.parametrize("blank", [" ", "\n", "\t \r\n", "\u3000"], ids=ascii)
def test_white_space_alone_is_a_fault_everywhere(keychain, blank):
    keychain.set_password("callosum", "loci", blank)
    assert refusal(blank) == "the token is blank: give one, or remove the key"
    assert refusal(None, blank) == "the pointer to the keychain is blank: give one, or remove the key"
    assert refusal(None, "callosum/loci") == "the keychain entry callosum/loci is blank: give one, or remove the key"
    assert refusal(None, None, "LOCI_TOKEN", {"LOCI_TOKEN": blank}) == (
        "the value of the environment variable LOCI_TOKEN is blank: give one, or remove the key"
    )


@pytest.mark.parametrize("sign", ["\n", "\r\n", "\0", "\x1b", "\x7f", "\x85", "\x9f", "\ud800", "\udcff"], ids=ascii)
def test_control_characters_inside_are_a_fault_that_does_not_show_the_token(keychain, sign):
    value = f"{SECRET}{sign}{SECRET}"
    reports = [refusal(value), refusal(None, None, "LOCI_TOKEN", {"LOCI_TOKEN": value})]
    if not "\ud800" <= sign <= "\udfff":  # no keychain takes those
        keychain.set_password("callosum", "loci", value)
        reports.append(refusal(None, "callosum/loci"))
    for report in reports:
        assert "holds a control character, a line break or broken UTF-8: write it on one line" in report
        assert SECRET not in report
        assert sign not in report


def test_an_unset_variable_is_named():
    assert refusal(None, None, "LOCI_TOKEN") == (
        "the token's environment variable LOCI_TOKEN is not set: set it, or remove the pointer"
    )


def test_an_empty_variable_is_a_fault():
    assert "LOCI_TOKEN is blank" in refusal(None, None, "LOCI_TOKEN", {"LOCI_TOKEN": ""})


@pytest.mark.parametrize("pasted", ["5f2a-99", "deadbeefcafe", "abc.def", "a=b"])
def test_a_token_pasted_where_its_variable_belongs_is_not_shown(pasted):
    assert pasted not in refusal(None, None, pasted)


@pytest.mark.parametrize("pointer", ["loci", "/loci", "callosum/", "/"])
def test_a_keychain_pointer_needs_both_parts(pointer):
    assert refusal(None, pointer) == "a pointer to the keychain has the form service/username"


def test_a_keychain_pointer_is_split_at_the_first_slash(keychain):
    keychain.set_password("callosum", "seren/loci", "x")
    assert resolve(None, "callosum/seren/loci", None, {}).value == "x"


def test_a_token_never_shows_in_its_repr():
    assert repr(Token(SECRET, "inline")) == "Token(source='inline')"


@pytest.mark.parametrize(
    ("presented", "equal"),
    [
        (b"t\xc3\xb6k", True),
        ("tök".encode("latin-1"), False),
        (b"t\xc3\xb6", False),
        (b"t\xc3\xb6k ", False),
        (b"", False),
        (b"\xff\xfe\x00", False),
    ],
)
def test_tokens_are_compared_as_bytes(presented, equal):
    assert same(presented, Token("tök", "inline")) is equal


# The keychain, real


def test_what_was_saved_is_found_and_goes_when_deleted(keychain):
    assert keychain_save("callosum", "id/loci", SECRET) is True
    assert resolve(None, "callosum/id/loci", None, {}) == Token(SECRET, "keychain")
    assert keychain_delete("callosum", "id/loci") is True
    assert refusal(None, "callosum/id/loci") == (
        "no keychain entry callosum/id/loci: save it with `keyring set callosum id/loci`"
    )


def test_saving_again_replaces(keychain):
    assert keychain_save("callosum", "loci", "old")
    assert keychain_save("callosum", "loci", "new")
    assert keychain.get_password("callosum", "loci") == "new"


def test_deleting_what_is_not_there_is_false(keychain):
    assert keychain_delete("callosum", "none") is False


# No keychain


@pytest.mark.parametrize("backend", [fail.Keyring(), null.Keyring()], ids=["fail", "null"])
def test_backends_that_keep_nothing_count_as_no_keychain(monkeypatch, backend):
    use(monkeypatch, backend)
    assert refusal(None, "callosum/loci") == (
        "the keychain entry callosum/loci cannot be read: this machine has no keychain"
    )
    assert keychain_save("callosum", "loci", SECRET) is False
    assert keychain_delete("callosum", "loci") is False


@pytest.mark.parametrize("missing", [None, "broken"], ids=["not installed", "broken"])
def test_without_the_keyring_library_the_extra_is_named(monkeypatch, missing):
    if missing:

        def import_module(name):
            raise ImportError(name)

        monkeypatch.setattr(tokens.importlib, "import_module", import_module)
    else:
        monkeypatch.setitem(sys.modules, "keyring", None)
    assert "pip install 'seren-corpus-callosum[keyring]'" in refusal(None, "callosum/loci")
    assert keychain_save("callosum", "loci", SECRET) is False
    assert keychain_delete("callosum", "loci") is False


class Raising:
    def __init__(self, error):
        self.error = error

    def get_password(self, *_args):
        raise self.error

    set_password = delete_password = get_password


@pytest.mark.parametrize(
    "error", [keyring.errors.KeyringLocked(SECRET), OSError(SECRET), KeyError(SECRET), SystemExit(SECRET)], ids=repr
)
def test_a_keychain_that_fails_is_named_by_kind_without_its_own_words(monkeypatch, error):
    use(monkeypatch, Raising(error))
    assert refusal(None, "callosum/loci") == (
        f"the keychain entry callosum/loci cannot be read: the keychain failed ({type(error).__name__})"
    )
    assert keychain_save("callosum", "loci", SECRET) is False
    assert keychain_delete("callosum", "loci") is False


def test_a_backend_named_in_the_environment_that_does_not_exist_is_no_keychain(monkeypatch):
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "no.such.Keyring")
    monkeypatch.setattr("keyring.core._keyring_backend", None)
    assert "the keychain failed (ModuleNotFoundError)" in refusal(None, "callosum/loci")
    assert keychain_save("callosum", "loci", SECRET) is False


def test_a_keychain_that_forgets_what_it_was_given_did_not_save_it(monkeypatch):
    use(monkeypatch, SimpleNamespace(set_password=lambda *_: None, get_password=lambda *_: None))
    assert keychain_save("callosum", "loci", SECRET) is False


def test_an_entry_that_is_not_text_is_refused(monkeypatch):
    use(monkeypatch, SimpleNamespace(get_password=lambda *_: b"bytes"))
    assert refusal(None, "callosum/loci") == "the keychain entry callosum/loci is not text but a bytes: quote it"


# Nobody is asked


@pytest.fixture
def encrypted(monkeypatch, tmp_path):
    monkeypatch.setattr(EncryptedKeyring, "_get_crypto_impl", lambda *_: {})  # its ciphers are never reached
    backend = EncryptedKeyring()
    backend.file_path = str(tmp_path / "encrypted.cfg")
    return backend


def test_a_keychain_with_a_pass_phrase_is_not_opened_by_asking(monkeypatch, encrypted):
    def getpass(*_args, **_kwargs):
        raise AssertionError("somebody was asked")

    monkeypatch.setattr("getpass.getpass", getpass)
    use(monkeypatch, encrypted)
    assert "is locked and would ask for a pass phrase: unlock it first" in refusal(None, "callosum/loci")
    assert keychain_save("callosum", "loci", SECRET) is False


def test_a_chain_with_a_keychain_that_asks_is_not_used(monkeypatch, keychain, encrypted):
    monkeypatch.setattr(chainer.ChainerBackend, "backends", [keychain, encrypted])
    use(monkeypatch, chainer.ChainerBackend())
    assert keychain_save("callosum", "loci", SECRET) is False
    monkeypatch.setattr(chainer.ChainerBackend, "backends", [keychain])
    assert keychain_save("callosum", "loci", SECRET) is True


@pytest.mark.parametrize("locked", [True, False])
def test_a_locked_desktop_keychain_is_not_asked_to_unlock(monkeypatch, locked):
    closed = []
    library = ModuleType("secretstorage")
    library.dbus_init = lambda: SimpleNamespace(close=lambda: closed.append(True))
    library.Collection = lambda _bus: SimpleNamespace(is_locked=lambda: locked)
    monkeypatch.setitem(sys.modules, "secretstorage", library)
    backend = type("Keyring", (), {"get_password": lambda *_: SECRET})
    backend.__module__ = "keyring.backends.SecretService"
    use(monkeypatch, backend())
    if locked:
        assert "is locked" in refusal(None, "callosum/loci")
    else:
        assert resolve(None, "callosum/loci", None, {}).value == SECRET
    assert closed == [True]


# A keychain that hangs


def test_a_hung_keychain_is_given_up_within_two_seconds(hanging, monkeypatch):
    monkeypatch.undo()
    use(monkeypatch, hanging.backend)
    start_s = time.monotonic()
    assert "the keychain does not answer" in refusal(None, "callosum/loci")
    assert time.monotonic() - start_s < 2.2  # 0.2 s for a busy machine
    hanging.let_go()


@pytest.mark.parametrize("where", ["get", "set", "delete"])
def test_every_use_of_a_hung_keychain_is_given_up(hanging, where):
    hanging.backend.where = {where}
    if where == "get":
        assert "does not answer" in refusal(None, "callosum/loci")
    elif where == "set":
        assert keychain_save("callosum", "loci", SECRET) is False
    else:
        assert keychain_delete("callosum", "loci") is False


def test_a_search_for_a_backend_that_hangs_is_given_up_and_nothing_is_saved_late(hanging, monkeypatch):
    hanging.backend.where = set()
    release = threading.Event()

    def get_keyring():
        release.wait()
        return hanging.backend

    monkeypatch.setattr(keyring, "get_keyring", get_keyring)
    assert keychain_save("callosum", "loci", SECRET) is False
    let_go(release)
    assert hanging.asked == []


def test_a_save_that_comes_through_after_it_was_given_up_leaves_nothing(hanging):
    hanging.backend.where = {"set"}
    assert keychain_save("callosum", "loci", SECRET) is False
    hanging.let_go()
    assert hanging.asked == ["set", "delete"]
    assert hanging.entries == {}


def test_a_hung_save_cannot_land_on_a_later_one(hanging):
    hanging.backend.where = {"set"}
    assert keychain_save("callosum", "loci", "old") is False
    hanging.backend.where = set()
    assert keychain_save("callosum", "loci", "new") is False
    assert keychain_delete("callosum", "loci") is False
    assert keychain_save("callosum", "other", "new") is True
    hanging.let_go()
    assert keychain_save("callosum", "loci", "new") is True
    assert hanging.entries == {("callosum", "loci"): "new", ("callosum", "other"): "new"}


def test_many_pointers_to_a_hung_keychain_cost_little_more_than_one(hanging, monkeypatch):
    monkeypatch.setattr(tokens, "WAIT_S", 0.6)
    monkeypatch.setattr(tokens, "WAIT_AFTER_HANG_S", 0.01)
    start_s = time.monotonic()
    for _ in range(10):
        refusal(None, "callosum/loci")
    assert time.monotonic() - start_s < 2


def test_a_keychain_that_answers_again_is_used_again(hanging, keychain, monkeypatch):
    use(monkeypatch, hanging.backend)
    refusal(None, "callosum/loci")
    use(monkeypatch, keychain)
    assert keychain_save("callosum", "loci", SECRET) is True
    assert resolve(None, "callosum/loci", None, {}).value == SECRET
    hanging.let_go()


def test_without_threads_to_spare_there_is_no_keychain_and_the_next_call_works(keychain, monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        assert keychain_save("callosum", "loci", SECRET) is False
    assert keychain_save("callosum", "loci", SECRET) is True
