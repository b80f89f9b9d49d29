"""docs/api.md names every route, every field that is taken or sent, and every status that an answer may have."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seren_corpus_callosum import errors, web, wire
from seren_corpus_callosum.service import ADDED_FIELDS

from .roster_service import Local
from .support.checks import REPO
from .support.goodstore import GoodStore, sample_hits

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def document() -> str:
    return (REPO / "docs" / "api.md").read_text(encoding="utf-8")


def section(document: str, title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", document, re.DOTALL | re.MULTILINE)
    assert found, f"docs/api.md has no section {title}"
    return found[1]


def fields_of(text: str) -> set[str]:
    """The fields that stand at the beginning of a table's row."""
    return set(re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE))


def test_every_route_has_its_section(tmp_path: Path, document: str) -> None:
    with Local(tmp_path) as service:
        rules = list(web.create_app(service.callosum).url_map.iter_rules())
    served = {f"{method} {rule.rule}" for rule in rules for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}}
    assert len(served) >= 9
    described = set(re.findall(r"`((?:GET|POST|PATCH|DELETE) /[^`]*)`", document))
    assert served <= described
    titles = set(re.findall(r"^## `(.*)`$", document, re.MULTILINE))
    assert titles - served <= {"POST /mcp"}, "a section of a route that is not served"


@pytest.mark.parametrize(
    ("schema", "title"),
    [
        (wire.SearchRequest, "`POST /search`"),
        (wire.PacketBody, "`POST /search`"),
        (wire.HitBody, "`POST /search`"),
        (wire.SkippedBody, "`POST /search`"),
        (wire.AskedBody, "`POST /search`"),
        (wire.StoreBody, "`GET /stores`"),
        (wire.HealthBody, "`GET /stores`"),
        (wire.CheckBody, "`POST /stores`"),
    ],
)
def test_every_field_of_a_schema_is_described(schema: Any, title: str, document: str) -> None:
    assert set(schema._declared_fields) - fields_of(section(document, title)) == set()


def test_every_field_that_an_added_store_may_have_is_described(document: str) -> None:
    assert set(ADDED_FIELDS) <= fields_of(section(document, "`POST /stores`"))


def keys_of(value: Any, *, but: str = "metadata") -> set[str]:
    """Every key of a body, however deep; what a store sent aside."""
    if isinstance(value, list):
        return set().union(*map(keys_of, value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(keys_of(inner) for key, inner in value.items() if key not in (but, "errors")))


def test_every_field_of_a_real_answer_is_described(
    tmp_path: Path, document: str, good_store: Callable[..., GoodStore]
) -> None:
    store = good_store("seren_loci", sample_hits("seren_loci", 2))
    store.extra = {"error": "half of it"}
    with Local(tmp_path, "federation: {stores: [{name: lost}]}") as service:
        new = {"name": "new", "type": "seren_loci", "url": store.url}
        down = {"name": "down", "type": "seren_loci", "url": NOWHERE}
        answers = {
            "`POST /stores`": [service.request("POST", "/stores?check=only", new)],
            "`GET /stores`": [service.request("POST", "/stores", one) for one in (new, down)],
            "`POST /search`": [service.request("POST", "/search", {"query": "x"})],
            "`GET /`": [service.request("GET", "/")],
            "`GET /health`": [service.request("GET", "/health")],
            "Errors": [service.request("POST", "/search", {}), service.request("GET", "/nothing")],
        }
        answers["`GET /stores`"].append(service.request("GET", "/stores/new"))
        answers["`DELETE /stores/<name>`"] = [service.request("DELETE", "/stores/new")]
        service.overlay.write_text("[{]")
        answers["`GET /stores`"].append(service.request("GET", "/stores"))
    for title, given in answers.items():
        described = fields_of(section(document, title)) | {"name", "reason"}
        for answer in given:
            assert keys_of(answer.json()) <= described, (title, answer.text)
    assert "damage" in answers["`GET /stores`"][-1].json()


def test_every_status_is_described(document: str) -> None:
    problems = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.Problem)]
    described = set(map(int, re.findall(r"^\| (\d{3}) \|", section(document, "Errors"), re.MULTILINE)))
    assert described == {problem.status for problem in problems}


def test_every_link_of_the_two_documents_leads_somewhere() -> None:
    for name in ("api.md", "security.md"):
        text = (REPO / "docs" / name).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert (REPO / "docs" / target).exists(), f"{name} links to {target}"
