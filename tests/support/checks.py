"""What tests ask of an answer, and of the machine they run on."""

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

REPO = Path(__file__).resolve().parents[2]
MARKUP = re.compile(r"<\s*/?\s*(!doctype|html|head|title|body|h1|p|script|pre)\b", re.IGNORECASE)
CODE = re.compile(r'Traceback|File "|line \d+, in |site-packages|\.py\b|0x[0-9a-f]{6,}')


def require(there: object, what: str) -> None:
    """Skips the test where `what` is missing; with CI=true that is a failure."""
    if there:
        return
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"{what} is missing, and CI=true", pytrace=False)
    pytest.skip(f"{what} is missing")


def strict_json(text: bytes | str) -> Any:
    """Parses JSON (UTF-8) and fails on NaN, Infinity, and a key given twice."""
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    return json.loads(text, parse_constant=_refuse, object_pairs_hook=_single_keys)


def problem(response: Any, status: int, *, secrets: Sequence[str] = ()) -> dict[str, Any]:
    """Asserts the one shape that errors have and returns it; takes answers of requests and of test clients."""
    raw = response.content if hasattr(response, "content") else response.data
    text = raw.decode("utf-8")
    assert response.status_code == status, text
    assert response.headers["Content-Type"].split(";")[0] == "application/problem+json", text
    assert response.headers["X-Request-Id"]
    document: dict[str, Any] = strict_json(raw)
    assert {"type", "title", "status", "detail"} <= set(document) <= {"type", "title", "status", "detail", "errors"}
    assert document["status"] == status
    for key in ("type", "title", "detail"):
        assert isinstance(document[key], str) and document[key].strip(), f"{key} says nothing: {text}"
    for field, messages in document.get("errors", {}).items():
        assert field and messages and all(isinstance(message, str) and message for message in messages), text
    assert not MARKUP.search(text), f"markup in {text}"
    assert not CODE.search(text), f"code in {text}"
    for place in {str(REPO), str(Path.cwd()), sys.prefix, str(Path.home())} - {"/"}:
        assert place not in text, f"a path of the server in {text}"
    for secret in secrets:
        assert secret not in text and secret not in str(response.headers), "a secret in the answer"
    required = {401: "WWW-Authenticate", 405: "Allow", 503: "Retry-After"}.get(status)
    assert required is None or response.headers[required]
    return document


def _refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is not JSON")


def _single_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), f"a key given twice in {keys}"
    return dict(pairs)
