"""The Bridge as it is delivered: its policy, its weight, where it can be framed, what it holds without JavaScript."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from seren_corpus_callosum.page import Bridge

TEMPLATES = Path(__file__).resolve().parents[1] / "templates"
API = "http://127.0.0.1:7423/search"
LIMIT_BYTES = 120_000


def policy(frame_ancestors: Sequence[str] = ()) -> dict[str, str]:
    header = Bridge(frame_ancestors).render(API).headers["Content-Security-Policy"]
    return dict(rule.partition(" ")[::2] for rule in header.split("; "))


def test_the_page_weighs_under_120_kb() -> None:
    assert 20_000 < len(Bridge().render(API).html.encode()) < LIMIT_BYTES


def test_nothing_but_our_own_style_and_script_runs() -> None:
    rules = policy()
    nonce = re.fullmatch(r"'nonce-([\w-]{20,})'", rules["script-src"])
    assert nonce
    assert rules == {
        "default-src": "'none'",
        "style-src": f"'nonce-{nonce[1]}'",
        "script-src": f"'nonce-{nonce[1]}'",
        "connect-src": "'self'",
        "img-src": "data:",
        "form-action": "'none'",
        "base-uri": "'none'",
        "frame-ancestors": "'self'",
    }


def test_the_nonce_of_the_page_is_that_of_its_policy_and_new_each_time() -> None:
    bridge = Bridge()
    first, second = bridge.render(API), bridge.render(API)
    nonces = re.findall(r'<(?:style|script) nonce="([^"]+)">', first.html)
    assert len(nonces) == 2 and len(set(nonces)) == 1
    assert f"'nonce-{nonces[0]}'" in first.headers["Content-Security-Policy"]
    assert nonces[0] not in second.html


def test_frame_ancestors_may_frame_the_page_beside_itself() -> None:
    ancestors = policy(["https://portal.example", "http://10.0.0.2:8080"])["frame-ancestors"]
    assert ancestors == "'self' https://portal.example http://10.0.0.2:8080"


def test_the_page_is_neither_sniffed_nor_kept_nor_told_where_a_reader_came_from() -> None:
    headers = dict(Bridge().render(API).headers)
    del headers["Content-Security-Policy"]
    assert headers == {
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }


def test_an_address_with_markup_in_it_is_text() -> None:
    html = Bridge().render("http://x/'\"><script>alert(1)</script>/search").html
    assert "<script>alert" not in html and "&lt;script&gt;alert(1)" in html


def test_everything_is_in_the_one_document() -> None:
    html = Bridge().render(API).html
    assert re.findall(r"(?:src|href|action)=\"?([^\"\s>]+)", html) == ["data:,"]
    assert not re.search(r"@import|url\(|//cdn", html)
    assert not re.search(r"<[^>]+ (?:style|on\w+)=", html)


@pytest.mark.parametrize("file", sorted(TEMPLATES.glob("*.js")), ids=lambda file: file.name)
def test_no_script_makes_markup_out_of_text_or_code_out_of_a_string(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc", source)
    assert not re.search(r"DOMParser|createContextualFragment|\beval\b|new Function", source)
    assert not re.search(r"\{\{|\{%|\{#|</script", source), "Jinja or the parser would read this"
    assert source.count("\n") <= 300
