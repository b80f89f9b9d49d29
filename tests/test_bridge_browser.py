"""The Bridge in Chromium, on a real service over real sockets: what a reader sees, types and is told."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from seren_corpus_callosum.demo import SampleStores

from .support import axe, scripts
from .support.browser import Watched, chromium, serving
from .support.service import Service

pytestmark = pytest.mark.browser

LARCH = "#q=why+larch+for+the+planking"
REFUSED = "http://127.0.0.1:1"
SEARCHES = "why larch for the planking"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    # For this module only: its event loop would be in the way of asyncio.run in the tests of another.
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def demo() -> Iterator[SampleStores]:
    with SampleStores() as stores:
        yield stores


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Starts services, arguments as serving() takes them but the folder, and ends them."""
    with ExitStack() as stack:
        number = iter(range(100))
        yield lambda stores, **settings: stack.enter_context(
            serving(tmp_path / f"service-{next(number)}", stores, **settings)
        )


@pytest.fixture
def visit(browser: Any, serve: Any) -> Iterator[Callable[..., Watched]]:
    """Opens an address in a context of its own; a script's error or a breach of the policy fails the test.

    It stands on `serve` so that the pages go before their services do.
    """
    visited: list[Watched] = []

    def go(url: str, **options: Any) -> Watched:
        watched = Watched(browser, **options)
        visited.append(watched)
        watched.page.goto(url)
        return watched

    yield go
    for one in visited:
        one.close()
    assert [fault for one in visited for fault in one.faults] == []


def texts(page: Any, selector: str) -> list[str]:
    return [" ".join(text.split()) for text in page.locator(selector).all_inner_texts()]


def results(page: Any) -> None:
    page.wait_for_selector("#panel-search:not([aria-busy]) .hit")


def summary(page: Any, text: str) -> None:
    page.wait_for_function("t => document.getElementById('summary').innerText.includes(t)", arg=text)


# Searching


def test_each_hit_shows_its_position_its_hemisphere_its_store_and_its_rank_there(
    visit: Any, serve: Any, demo: Any
) -> None:
    page = visit(f"{serve(demo.store_entries())}/viewer{LARCH}").page
    results(page)
    assert texts(page, ".hit .position")[:4] == ["1", "2", "3", "4"]
    assert texts(page, ".hit .badge")[:4] == ["facts", "episodic", "facts", "episodic"]
    assert texts(page, ".hit .rank")[:4] == ["#1", "#1", "#2", "#2"]
    hue = "e => getComputedStyle(e).getPropertyValue('--hue') === getComputedStyle(e).getPropertyValue('--' + '%s')"
    assert page.locator(".hit .badge").nth(0).evaluate(hue % "cyan")
    assert page.locator(".hit .badge").nth(1).evaluate(hue % "coral")


def test_a_store_of_any_other_type_is_violet(visit: Any, serve: Any, good_store: Any) -> None:
    store = good_store("callosum", [{"id": "a", "content": "larch", "store": "deep", "store_rank": 4}])
    page = visit(f"{serve([{'name': 'inner', 'type': 'callosum', 'url': store.url}])}/viewer#q=larch").page
    results(page)
    assert page.locator(".hit .badge.violet").count() == 1
    assert texts(page, ".hit .step") == ["› deep #4"]  # and where it came from behind that


def test_the_provenance_opens_to_the_arithmetic_the_id_and_the_metadata(visit: Any, serve: Any, demo: Any) -> None:
    page = visit(f"{serve(demo.store_entries())}/viewer{LARCH}").page
    results(page)
    third = page.locator(".hit").nth(2)
    assert re.search(
        r"rrf\s*0\.0161\s+rel\s*0\.\d+\s+native\s*0\.\d+\s+d=\s*—$", third.locator(".provenance").inner_text()
    )
    third.locator(".provenance").click()
    assert third.locator(".sum code").first.inner_text() == "1.0 / (60 + 2) = 0.0161"
    assert "It is number 3: 2 hits above have a higher score." in third.inner_text()
    assert "project" in texts(third, ".metadata dt")
    fourth = page.locator(".hit").nth(3)
    fourth.locator(".provenance").click()
    assert "2 hits above have a higher score and 1 hit above has the same score" in fourth.inner_text()


def test_a_weight_stands_in_the_arithmetic(visit: Any, serve: Any, good_store: Any) -> None:
    store = good_store("seren_memory", [{"id": "a", "content": "larch"}])
    url = serve([{"name": "m", "type": "seren_memory", "url": store.url, "weight": 2.5}], k=10)
    page = visit(f"{url}/viewer#q=larch").page
    results(page)
    page.click(".provenance")
    assert page.locator(".sum code").first.inner_text() == "2.5 / (10 + 1) = 0.2273"


def test_a_fact_shows_its_key_its_value_and_why(visit: Any, serve: Any, demo: Any) -> None:
    page = visit(f"{serve(demo.store_entries())}/viewer{LARCH}").page
    results(page)
    fact = page.locator(".hit").first
    assert fact.locator(".key").inner_text() == "planking wood"
    assert fact.locator(".value").inner_text() == "larch"
    assert texts(fact, ".why") == ["because its resin resists rot and Jonas can saw it locally"]


def test_the_words_of_the_query_are_marked_and_fillers_are_not(visit: Any, serve: Any, good_store: Any) -> None:
    hits = [{"id": "a", "content": "The Larch, not larches; for the 東京タワー of café."}]
    store = good_store("seren_memory", hits)
    url = serve([{"name": "m", "type": "seren_memory", "url": store.url}])
    page = visit(f"{url}/viewer#q=the+larch+東京+CAFÉ").page
    results(page)
    assert texts(page, "mark") == ["Larch", "東京", "café"]
    assert page.locator(".content").inner_text() == hits[0]["content"]


def test_every_store_waits_in_a_chip_of_its_own_until_it_answers(visit: Any, serve: Any, good_store: Any) -> None:
    store = good_store("seren_memory", [{"id": "a", "content": "larch"}])
    store.hold = threading.Event()
    entries = [
        {"name": "held", "type": "seren_memory", "url": store.url, "timeout_s": 20},
        {"name": "gone", "type": "seren_loci", "url": REFUSED},
    ]
    page = visit(f"{serve(entries)}/viewer#q=larch").page
    page.wait_for_selector("#chips .chip.waiting >> text=held")
    assert texts(page, "#chips .chip") == ["held waiting", "gone waiting"]
    store.hold.set()
    results(page)
    held, gone = texts(page, "#chips .chip")
    assert re.fullmatch(r"held 1 hit in [\d.]+ m?s", held)
    assert gone == "gone unreachable"


def test_stores_that_did_not_answer_are_named_with_the_reason_above_the_list(
    visit: Any, serve: Any, demo: Any, raw_store: Any
) -> None:
    hung = raw_store(scripts.hang_after_request)
    entries = [
        *demo.store_entries(),
        {"name": "archive", "type": "seren_memory", "url": hung.url, "timeout_s": 0.5},
        {"name": "attic", "type": "seren_loci", "url": REFUSED},
        {"name": "broken", "type": "nope", "url": "http://x"},
    ]
    page = visit(f"{serve(entries)}/viewer{LARCH}").page
    results(page)
    assert texts(page, "#silent li") == [
        "archive timeout no answer within 0.5 s",
        "attic unreachable connection refused",
        "broken unbound type: unknown type 'nope'; known types: seren_loci, seren_memory, callosum",
    ]
    assert "3 stores did not answer" in page.inner_text("#summary")
    top = page.locator("#silent").bounding_box()["y"]
    assert top < page.locator("#hits").bounding_box()["y"]


def test_when_all_fail_the_empty_list_says_who_was_asked(visit: Any, serve: Any) -> None:
    entries = [{"name": "attic", "type": "seren_loci", "url": REFUSED}]
    page = visit(f"{serve(entries)}/viewer#q=larch").page
    summary(page, "Nobody answered: 1 store asked, it failed")
    assert texts(page, "#silent li") == ["attic unreachable connection refused"]
    assert page.locator(".hit").count() == 0


def test_an_empty_answer_is_told_from_no_answer(visit: Any, serve: Any, good_store: Any) -> None:
    store = good_store("seren_loci", [])
    page = visit(f"{serve([{'name': 'facts', 'type': 'seren_loci', 'url': store.url}])}/viewer#q=larch").page
    summary(page, "No hits. facts answered with nothing")
    assert page.locator("#silent li").count() == 0


def test_what_the_floor_dropped_is_counted(visit: Any, serve: Any, good_store: Any) -> None:
    store = good_store("seren_loci", [{"id": "a", "value": "larch", "score": 0.1}])
    entries = [{"name": "facts", "type": "seren_loci", "url": store.url, "floor": 0.5}]
    page = visit(f"{serve(entries)}/viewer#q=larch").page
    summary(page, "answered with nothing above the floor (1 hit below it)")


def test_a_suspended_store_shows_until_when(visit: Any, serve: Any, raw_store: Any) -> None:
    hung = raw_store(scripts.hang_after_request)
    entries = [{"name": "archive", "type": "seren_memory", "url": hung.url, "timeout_s": 0.1}]
    url = serve(entries, suspend_after=1)
    page = visit(f"{url}/viewer#q=larch").page
    page.wait_for_selector("#silent li")
    page.press("#query", "Enter")
    page.wait_for_selector("#silent li >> text=suspended")
    assert re.fullmatch(r"archive suspended until .*\d.*", texts(page, "#chips .chip")[0])
    assert "asked again after" in texts(page, "#silent li")[0]
    page.click("#tab-stores")
    page.wait_for_selector(".row >> text=suspended until")


def test_no_stores_says_so_and_leads_to_the_form(visit: Any, serve: Any) -> None:
    page = visit(f"{serve([])}/viewer").page
    page.click("#welcome >> text=+ Add store")
    page.wait_for_selector("#add-name:focus")
    page.click("#tab-search")
    page.fill("#query", "larch")
    page.press("#query", "Enter")
    summary(page, "No store was asked")


def test_a_search_is_linked_by_its_address_and_back_works(visit: Any, serve: Any, demo: Any) -> None:
    page = visit(f"{serve(demo.store_entries())}/viewer").page
    assert page.evaluate("document.activeElement.id") == "query"
    page.fill("#query", "oak & frames = 50%")
    page.fill("#count", "2")
    page.press("#query", "Enter")
    results(page)
    assert page.evaluate("location.hash") == "#q=oak+%26+frames+%3D+50%25&n=2"
    assert page.locator(".hit").count() == 2
    page.fill("#query", SEARCHES)
    page.fill("#count", "")
    page.press("#query", "Enter")
    page.wait_for_function("() => document.querySelectorAll('.hit').length > 2")
    page.go_back()
    page.wait_for_function("() => document.querySelectorAll('.hit').length === 2")
    assert page.input_value("#query") == "oak & frames = 50%"
    page.go_back()
    page.wait_for_selector("#welcome:not([hidden])")
    assert page.locator(".hit").count() == 0


def test_a_number_of_hits_out_of_range_is_told_and_kept(visit: Any, serve: Any, demo: Any) -> None:
    page = visit(f"{serve(demo.store_entries())}/viewer").page
    page.fill("#query", "oak")
    page.fill("#count", "many")
    page.press("#count", "Enter")
    page.wait_for_selector("#search-trouble >> text=n_results: expected a whole number 1..200")
    assert (page.input_value("#query"), page.input_value("#count")) == ("oak", "many")


def test_the_hits_are_copied_as_markdown_and_as_json(visit: Any, serve: Any, demo: Any) -> None:
    watched = visit(f"{serve(demo.store_entries())}/viewer{LARCH}", permissions=["clipboard-read", "clipboard-write"])
    page = watched.page
    results(page)
    page.click("text=Copy as Markdown")
    page.wait_for_selector("text=Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(
        'Memories for "why larch for the planking", best first:\n\n1. **facts** #1: planking wood = larch because'
    )
    page.click("text=Copy as JSON")
    page.wait_for_function("() => navigator.clipboard.readText().then((text) => text.startsWith('{'))")
    body = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert body["query"] == SEARCHES and body["hits"][0]["store"] == "facts"


def test_a_long_text_folds(visit: Any, serve: Any, good_store: Any) -> None:
    store = good_store("seren_memory", [{"id": "a", "content": "larch " * 5000}])
    page = visit(f"{serve([{'name': 'm', 'type': 'seren_memory', 'url': store.url}])}/viewer#q=larch").page
    results(page)
    assert len(page.inner_text(".content")) <= 601
    page.click("text=Show all 30,000 characters")
    assert len(page.inner_text(".content")) >= 29_999
    page.click("text=Fold")
    assert len(page.inner_text(".content")) <= 601


def test_large_integers_keep_every_digit(visit: Any, serve: Any, good_store: Any) -> None:
    hits = [{"id": 9007199254740993, "content": "larch", "metadata": {"edge": 215250709085334181, "ratio": 1.0}}]
    store = good_store("seren_memory", hits)
    watched = visit(
        f"{serve([{'name': 'm', 'type': 'seren_memory', 'url': store.url}])}/viewer#q=larch",
        permissions=["clipboard-read", "clipboard-write"],
    )
    page = watched.page
    results(page)
    page.click(".provenance")
    assert "9007199254740993" in texts(page, ".sum code")
    assert texts(page, ".metadata dd")[:2] == ["215250709085334181", "1.0"]
    page.click("text=Copy as JSON")
    page.wait_for_selector("text=Copied")
    assert "215250709085334181" in page.evaluate("navigator.clipboard.readText()")


def test_metadata_of_ten_thousand_keys_shows_forty_and_the_rest_on_demand(
    visit: Any, serve: Any, good_store: Any
) -> None:
    store = good_store("seren_memory", [{"id": "a", "content": "x", "metadata": {f"k{n}": n for n in range(9_998)}}])
    page = visit(f"{serve([{'name': 'm', 'type': 'seren_memory', 'url': store.url}])}/viewer#q=x").page
    results(page)
    page.click(".provenance")
    assert page.locator(".metadata dt").count() == 40
    page.click("text=Show 9,960 more")  # tier and topic are metadata too
    assert page.locator(".metadata dt").count() == 10_000


def test_the_first_of_fifty_hits_is_painted_within_50_ms_of_the_answer(visit: Any, serve: Any, good_store: Any) -> None:
    text = "Argued with Jonas over pine or larch for the planking; larch won because its resin keeps rot out. " * 4
    hits = [{"id": str(n), "content": text, "metadata": {f"key{i}": i for i in range(12)}} for n in range(50)]
    store = good_store("seren_memory", hits)
    page = visit(f"{serve([{'name': 'm', 'type': 'seren_memory', 'url': store.url}])}/viewer").page
    page.wait_for_selector(".chip")
    page.evaluate(
        """() => {
            const read = Response.prototype.text;
            Response.prototype.text = async function () {
                const text = await read.call(this);
                if (this.url.endsWith("/search")) window.answered = performance.now();
                return text;
            };
            new MutationObserver(() => {
                const answered = window.answered;
                if (!document.querySelector(".hit") || answered === window.measured) return;
                window.measured = answered;
                requestAnimationFrame(() => setTimeout(() => window.painted = performance.now() - answered));
            }).observe(document.getElementById("hits"), {childList: true});
        }"""
    )
    best = 1000.0
    for attempt in range(8):  # the best of eight: the machine has other work
        page.evaluate("window.painted = undefined")
        page.fill("#query", f"larch {attempt}")
        page.fill("#count", "50")
        page.press("#query", "Enter")
        page.wait_for_function("() => window.painted !== undefined")
        best = min(best, page.evaluate("window.painted"))
        page.wait_for_function("() => document.querySelectorAll('.hit').length === 50")
    assert best < 50


def test_two_hundred_hits_stay_smooth(visit: Any, serve: Any, good_store: Any) -> None:
    text = "Argued with Jonas over pine or larch for the planking; larch won because its resin keeps rot out. " * 8
    hits = [{"id": str(n), "content": text, "metadata": {f"key{i}": i for i in range(12)}} for n in range(200)]
    store = good_store("callosum", hits)
    page = visit(f"{serve([{'name': 'm', 'type': 'callosum', 'url': store.url}])}/viewer").page
    page.wait_for_selector(".chip")
    page.fill("#query", "larch")
    page.fill("#count", "200")
    page.press("#query", "Enter")
    page.wait_for_selector(".hit:nth-of-type(200)")
    walk = """async () => {
        const frame = () => new Promise(requestAnimationFrame);
        const gaps = [];
        const step = async (act) => {
            await frame();
            const before = performance.now();
            act();
            await frame();
            await frame();
            gaps.push(performance.now() - before);
        };
        for (let n = 0; n < 20; n++) await step(() => scrollBy(0, 900));
        for (let n = 0; n < 20; n++) await step(() => document.activeElement.dispatchEvent(
            new KeyboardEvent("keydown", {key: "ArrowDown", bubbles: true})));
        return gaps.sort((a, b) => a - b)[Math.floor(gaps.length * 0.9)];
    }"""
    page.press("#query", "ArrowDown")
    assert min(page.evaluate(walk) for _ in range(3)) < 100  # ms of nine frames out of ten; the machine has other work


# Hostile texts

EVIL = "<img src=x onerror=pwned()>"
EVILS = (
    *(EVIL, "</script><script>pwned()</script>", '"><svg onload=pwned()>', "javascript:pwned()"),
    *("{{7*7}}", "${pwned()}", "&lt;b&gt;"),
)


def test_markup_in_whatever_a_store_an_operator_or_a_query_says_is_text(
    visit: Any, serve: Any, good_store: Any
) -> None:
    evil = " ".join(EVILS)
    metadata = {**{f"{one} {n}": one for n, one in enumerate(EVILS)}, "__proto__": {"polluted": evil}, "list": [evil]}
    fact = {"id": evil, "key": evil, "value": evil, "why": evil, "score": evil, "project": evil, "source": evil}
    episode = {"id": evil, "content": evil, "topic": evil, "score": evil, "raw_distance": evil, "metadata": metadata}
    inner = {"id": evil, "content": evil, "store": evil, "store_rank": evil, "score": evil, "metadata": {"via": [evil]}}
    loci, memory, callosum = (
        good_store(type_, [hit])
        for type_, hit in (("seren_loci", fact), ("seren_memory", episode), ("callosum", inner))
    )
    callosum.extra = {
        "skipped": [{"name": EVIL, "kind": evil, "reason": evil}],
        "warnings": [{"name": EVIL, "reason": evil}],
    }
    entries = [
        {"name": EVIL, "type": "seren_loci", "url": loci.url},
        {"name": '"><svg onload=pwned()>', "type": "seren_memory", "url": memory.url},
        {"name": "{{7*7}}", "type": "callosum", "url": callosum.url, EVIL: 1},
        {"name": "bad type", "type": EVIL, "url": "http://x/<svg onload=pwned()>"},
        {"name": "bad url", "type": "seren_loci", "url": "http://127.0.0.1:1/<img/src=x/onerror=pwned()>"},
    ]
    url = serve(entries)
    watched = visit("about:blank")
    page = watched.page
    page.add_init_script("window.pwnedTimes = 0; window.pwned = () => { window.pwnedTimes += 1; };")
    page.goto(f"{url}/viewer")
    page.wait_for_selector(".chip")
    page.fill("#query", evil)
    page.press("#query", "Enter")
    results(page)
    assert page.locator(".hit").count() == 3
    for line in page.locator(".provenance").all():
        line.click()
    assert EVIL in texts(page, ".hit .badge") and EVIL in texts(page, ".metadata dd")
    assert any(evil in text for text in texts(page, ".fact"))
    assert any(evil in text for text in texts(page, ".sum code"))
    page.click("#tab-stores")
    page.wait_for_selector(".row")
    assert EVIL in texts(page, ".row h3") and any(EVIL in text for text in texts(page, ".reason"))
    page.click("#tab-overview")
    page.wait_for_selector(".merge")
    assert EVIL in page.locator("#drawn-from").inner_text()
    page.wait_for_timeout(50)  # an onerror would come a moment later
    assert page.evaluate("window.pwnedTimes") == 0
    assert page.locator("img, iframe, object, embed, base, form[action], a[href^='javascript']").count() == 0
    assert page.locator("script").count() == 1
    attributes = "[...document.querySelectorAll('*')].flatMap((e) => [...e.attributes]).map((a) => a.name)"
    assert [name for name in page.evaluate(attributes) if name.startswith("on") or name == "style"] == []
    assert page.evaluate("({}).polluted") is None
    paths = {address.removeprefix(url) for address in watched.requests if not address.startswith(("data:", "about:"))}
    assert paths == {"/viewer", "/stores", "/search", "/"}


def test_a_query_in_a_link_is_text(visit: Any, serve: Any, demo: Any) -> None:
    page = visit(f"{serve(demo.store_entries())}/viewer#q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E").page
    summary(page, "No hits.")
    assert page.input_value("#query") == "<img src=x onerror=alert(1)>"
    assert page.locator("img").count() == 0


# Stores


def stores_tab(watched: Watched) -> Any:
    watched.page.wait_for_selector("#roster > :not(:empty)")
    return watched.page


def test_a_store_is_added_reached_changed_and_removed(visit: Any, serve: Any, demo: Any) -> None:
    page = stores_tab(visit(f"{serve(demo.store_entries()[:1])}/viewer#stores"))
    page.click("#add-open")
    page.fill("#add-name", "épisodes 日本")
    page.select_option("#add-type", "seren_memory")
    page.fill("#add-url", demo.memory_url)
    page.fill("#add-weight", "0.5")
    page.click("#add-test")
    page.wait_for_selector("#add-told .well >> text=speaks seren_memory")
    assert page.locator(".row").count() == 1  # the test adds nothing
    page.click("#add-save")
    page.wait_for_selector(".row >> text=épisodes 日本")
    page.click("#tab-search")
    page.fill("#query", SEARCHES)
    page.press("#query", "Enter")
    results(page)
    assert "épisodes 日本" in texts(page, ".hit .badge")

    page.click("#tab-stores")
    row = page.locator(".row", has_text="épisodes 日本")
    row.locator("[name=weight]").fill("2")
    row.locator("[name=floor]").fill("0.25")
    row.locator("text=Save").click()
    page.wait_for_function("() => document.getElementById('said').textContent.startsWith('Saved')")
    page.reload()
    page.wait_for_selector(".row")
    assert row.locator("[name=weight]").input_value() == "2.0"
    assert row.locator("[name=floor]").input_value() == "0.25"

    row.locator("button.cross").click()
    page.wait_for_selector(".confirm")
    page.keyboard.press("Escape")
    assert page.locator(".confirm").count() == 0 and page.locator(".row").count() == 2
    row.locator("button.cross").click()
    page.click(".confirm >> text=Remove >> nth=-1")
    page.wait_for_function("() => document.querySelectorAll('.row').length === 1")


def test_a_store_that_somebody_else_removed_goes_without_an_error(visit: Any, serve: Any, demo: Any) -> None:
    url = serve(demo.store_entries()[:1])
    watched = visit("about:blank")
    request = watched.page.request
    entry = {"name": "mine", "type": "seren_memory", "url": demo.memory_url}
    assert request.post(f"{url}/stores", data=entry).status == 201
    watched.page.goto(f"{url}/viewer#stores")
    page = stores_tab(watched)
    page.locator(".row", has_text="mine").locator("button.cross").click()
    assert request.delete(f"{url}/stores/mine").status == 200
    page.click(".confirm >> text=Remove >> nth=-1")
    page.wait_for_function("() => document.querySelectorAll('.row').length === 1")
    assert "Somebody else removed it already: mine" in page.inner_text("#said")


def test_a_base_store_says_where_it_is_declared_and_has_no_cross(visit: Any, serve: Any, demo: Any) -> None:
    page = stores_tab(visit(f"{serve(demo.store_entries())}/viewer#stores"))
    assert page.locator(".row button").count() == 0
    assert "declared in the config file, under federation.stores" in texts(page, ".row")[0]


def test_mistakes_stand_beside_their_fields_and_nothing_typed_is_lost(visit: Any, serve: Any, demo: Any) -> None:
    page = stores_tab(visit(f"{serve(demo.store_entries())}/viewer#stores"))
    page.click("#add-open")
    page.fill("#add-name", "a/b")
    page.fill("#add-url", "ftp://x")
    page.fill("#add-weight", "heavy")
    page.fill("#add-floor", "2")
    page.click("text=More")
    page.fill("#add-options", '{"projekt": "x"}')
    page.click("#add-save")
    page.wait_for_selector(".fault:not(:empty)")
    beside = {one: page.locator(f"label[for=add-{one}] .fault").inner_text() for one in ("name", "url", "weight")}
    assert beside["name"].startswith("expected a name of 1..64 printable characters")
    assert beside["url"] == "expected a URL that starts with http:// or https://"
    assert beside["weight"] == "expected a number 0..1000, found text 'heavy'"
    assert "expected a number 0..1" in page.inner_text("label[for=add-floor] .fault")
    assert "projekt: unknown option" in page.inner_text("label[for=add-options] .fault")
    assert page.evaluate("document.activeElement.id") == "add-name"
    kept = [page.input_value(f"#add-{one}") for one in ("name", "url", "weight", "floor", "options")]
    assert kept == ["a/b", "ftp://x", "heavy", "2", '{"projekt": "x"}']

    page.fill("#add-name", "facts")
    for one, value in (("url", demo.loci_url), ("weight", ""), ("floor", ""), ("options", "{")):
        page.fill(f"#add-{one}", value)
    page.click("#add-save")
    page.wait_for_selector("label[for=add-options] .fault >> text=expected a JSON object")
    page.fill("#add-options", "")
    page.click("#add-save")
    page.wait_for_selector("label[for=add-name] .fault >> text=taken by a store of")


def test_a_candidate_of_another_type_is_recognised_and_its_type_offered(visit: Any, serve: Any, demo: Any) -> None:
    page = stores_tab(visit(f"{serve([])}/viewer#stores"))
    page.click("#add-open")
    page.fill("#add-name", "notes")
    page.select_option("#add-type", "seren_loci")
    page.fill("#add-url", demo.memory_url)
    page.click("#add-test")
    page.click("#add-told >> text=Set the type to seren_memory")
    assert page.input_value("#add-type") == "seren_memory"


def test_a_knob_that_is_refused_says_so_beside_it_and_keeps_what_was_typed(visit: Any, serve: Any, demo: Any) -> None:
    url = serve([])
    watched = visit(f"{url}/viewer#stores")
    page = stores_tab(watched)
    entry = {"name": "notes", "type": "seren_loci", "url": demo.loci_url}
    assert page.request.post(f"{url}/stores", data=entry).status == 201
    page.click("#roster-refresh")
    page.fill(".row [name=weight]", "-1")
    page.click(".row >> text=Save")
    page.wait_for_selector(".row .fault >> text=expected a number 0..1000")
    assert page.input_value(".row [name=weight]") == "-1"


@pytest.mark.parametrize("typed", ["1e999", "Infinity", "0x10", "NaN", "1_000", "1,5"])
def test_what_is_no_number_is_never_taken_for_the_default(visit: Any, serve: Any, demo: Any, typed: str) -> None:
    url = serve([])
    page = stores_tab(visit(f"{url}/viewer#stores"))
    entry = {"name": "notes", "type": "seren_loci", "url": demo.loci_url, "weight": 7.0}
    assert page.request.post(f"{url}/stores", data=entry).status == 201
    page.click("#roster-refresh")
    page.fill(".row [name=weight]", typed)
    page.click(".row >> text=Save")
    page.wait_for_selector(".row .fault >> text=expected a number 0..1000")
    assert page.request.get(f"{url}/stores/notes").json()["weight"] == 7.0


def test_which_store_is_down_and_since_when(visit: Any, serve: Any, demo: Any) -> None:
    entries = [*demo.store_entries()[:1], {"name": "attic", "type": "seren_loci", "url": REFUSED}]
    page = visit(f"{serve(entries)}/viewer{LARCH}").page
    results(page)
    page.wait_for_selector("#pulse >> text=1 of 2 down")
    page.click("#tab-stores")
    row = page.locator(".row", has_text="attic")
    assert row.locator(".status").inner_text() == "failing"
    told = row.locator(".reason").inner_text()
    assert re.fullmatch(r"down since .+ \(\d+ s ago\): unreachable: connection refused", told)
    healthy = page.locator(".row", has_text="facts")
    assert re.search(r"last [\d.]+ ms · average [\d.]+ ms · 1 call · 0 failures", healthy.inner_text())


# Who may, and what goes wrong


def test_a_token_is_asked_for_kept_and_sent(visit: Any, serve: Any, demo: Any) -> None:
    token = "schlüssel-日本 x".replace(" ", "-")
    page = visit(f"{serve(demo.store_entries(), server={'bearer_token': token})}/viewer{LARCH}").page
    page.wait_for_selector("dialog[open] >> text=This service asks for a token")
    page.fill("#token-text", "wrong")
    page.press("#token-text", "Enter")
    page.wait_for_selector("dialog[open] >> text=The service refused the token")
    page.fill("#token-text", token)
    page.press("#token-text", "Enter")
    results(page)
    assert page.evaluate("Object.entries(localStorage)") == [["seren-corpus-callosum:/viewer:token", token]]
    assert page.input_value("#query") == SEARCHES
    page.reload()
    results(page)
    page.click("#token-open")
    page.click("#token-clear")
    page.wait_for_selector("dialog:not([open])", state="attached")
    assert page.evaluate("localStorage.length") == 0


def test_the_sign_of_the_token_needs_no_emoji_font(visit: Any, serve: Any) -> None:
    page = visit(f"{serve([])}/viewer").page
    assert page.locator("#token-open svg path").count() == 1
    assert page.inner_text("#token-open").strip() == "token"


def test_a_change_that_is_not_allowed_says_what_to_set_and_loses_nothing(visit: Any, serve: Any, demo: Any) -> None:
    forwarded = {"X-Forwarded-For": "192.0.2.7"}  # from someone who is no trusted proxy: not this machine
    page = stores_tab(visit(f"{serve([])}/viewer#stores", extra_http_headers=forwarded))
    page.click("#add-open")
    page.fill("#add-name", "notes")
    page.fill("#add-url", demo.loci_url)
    page.click("#add-save")
    page.wait_for_selector("#add-told >> text=Not allowed")
    assert re.search("bearer_token|allow_open_lan|trusted_proxy", page.inner_text("#add-told"))
    assert page.input_value("#add-url") == demo.loci_url


def test_a_change_that_could_not_be_saved_says_so_and_loses_nothing(
    visit: Any, serve: Any, demo: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    environ = {"SEREN_SCC_RUNTIME_STORES": str(tmp_path / "file" / "runtime-stores.json")}
    page = stores_tab(visit(f"{serve([], environ=environ)}/viewer#stores"))
    page.click("#add-open")
    page.fill("#add-name", "notes")
    page.fill("#add-url", demo.loci_url)
    page.click("#add-save")
    page.wait_for_selector("#add-told >> text=/not saved/i")
    assert page.input_value("#add-name") == "notes"


def test_a_service_that_went_away_is_told_in_words_and_the_query_stays(
    visit: Any, service: Callable[..., Service], demo: Any
) -> None:
    one = service(yaml.safe_dump({"federation": {"stores": demo.store_entries()}}))
    page = visit(f"{one.url}/viewer").page
    page.wait_for_selector(".chip")
    one.kill()
    page.fill("#query", SEARCHES)
    page.press("#query", "Enter")
    page.wait_for_selector("#search-trouble >> text=cannot be reached")
    assert page.input_value("#query") == SEARCHES
    one.start()
    page.click("#search-trouble >> text=Try again")
    results(page)


def test_an_answer_that_is_no_json_is_told_in_words(visit: Any, serve: Any, demo: Any) -> None:
    page = visit(f"{serve(demo.store_entries())}/viewer").page
    page.route("**/search", lambda route: route.fulfill(status=502, body="<h1>Bad gateway</h1>"))
    page.fill("#query", "oak")
    page.press("#query", "Enter")
    page.wait_for_selector("#search-trouble >> text=answered 502, but not in JSON")


def test_a_portal_that_refuses_with_a_page_of_its_own_still_leads_to_the_token(
    visit: Any, serve: Any, demo: Any
) -> None:
    page = visit(f"{serve(demo.store_entries())}/viewer").page
    page.route("**/search", lambda route: route.fulfill(status=401, body="<h1>Sign in</h1>"))
    page.fill("#query", "oak")
    page.press("#query", "Enter")
    page.wait_for_selector("dialog[open] >> text=This service asks for a token")


# Keys, eyes, sizes


def test_the_keyboard_reaches_everything(visit: Any, serve: Any, demo: Any) -> None:
    page = visit(f"{serve(demo.store_entries())}/viewer{LARCH}").page
    results(page)
    focused = "document.activeElement.closest('.hit')?.id ?? document.activeElement.id"
    for key, where in (("ArrowDown", "hit-1"), ("ArrowDown", "hit-2"), ("ArrowUp", "hit-1"), ("ArrowUp", "query")):
        page.keyboard.press(key)
        assert page.evaluate(focused) == where
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#hit-1-details").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#hit-1-details").is_visible()
    page.keyboard.press("Escape")
    assert page.evaluate(focused) == "query"
    page.focus("#tab-search")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#tab-stores:focus")
    assert page.evaluate(focused) == "tab-stores"
    page.wait_for_selector("#panel-stores:not([hidden])")
    page.keyboard.press("End")
    page.wait_for_selector("#panel-overview:not([hidden])")
    assert page.get_attribute("#tab-overview", "aria-selected") == "true"
    page.keyboard.press("/")
    assert page.evaluate(focused) == "query"
    page.keyboard.press("/")
    assert page.input_value("#query") == "/"  # typed where a text is typed


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_axe_finds_nothing_serious_on_any_tab(visit: Any, serve: Any, demo: Any, scheme: str) -> None:
    entries = [*demo.store_entries(), {"name": "attic", "type": "seren_loci", "url": REFUSED}]
    url = serve(entries)
    page = visit(f"{url}/viewer{LARCH}", color_scheme=scheme, reduced_motion="reduce").page
    results(page)
    page.click(".provenance >> nth=1")
    assert axe.violations(page) == []
    entry = {"name": "notes", "type": "callosum", "url": REFUSED}
    assert page.request.post(f"{url}/stores", data=entry).status == 201
    page.click("#tab-stores")
    page.click("#add-open")
    page.click("#add-save")
    page.wait_for_selector(".fault:not(:empty)")
    page.click(".cross")
    page.wait_for_selector(".confirm")
    assert axe.violations(page) == []
    page.click("#tab-overview")
    page.wait_for_selector(".merge")
    assert axe.violations(page) == []
    page.click("#token-open")
    assert axe.violations(page) == []


def test_the_token_button_is_whole_at_360_px(visit: Any, serve: Any) -> None:
    url = serve([], server={"bearer_token": "secret"})
    page = visit(f"{url}/viewer", viewport={"width": 360, "height": 740}).page
    page.wait_for_selector("#pulse >> text=locked")
    box = page.locator("#token-open").bounding_box()
    assert box["x"] + box["width"] <= 360


@pytest.mark.parametrize("tab", [LARCH, "#stores", "#overview"])
def test_nothing_runs_over_the_edge_at_360_px(visit: Any, serve: Any, good_store: Any, demo: Any, tab: str) -> None:
    wide = good_store("seren_memory", [{"id": "x" * 300, "content": "y" * 500, "metadata": {"k" * 100: "v" * 300}}])
    entries = [*demo.store_entries(), {"name": "n" * 64, "type": "seren_memory", "url": f"{wide.url}"}]
    page = visit(f"{serve(entries)}/viewer{tab}", viewport={"width": 360, "height": 740}).page
    page.wait_for_selector({LARCH: ".hit", "#stores": ".row", "#overview": ".merge"}[tab])
    for line in page.locator(".provenance").all():
        line.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_light_theme_follows_the_preference_and_dark_is_the_default(visit: Any, serve: Any) -> None:
    url = serve([])
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    grounds = {
        scheme: visit(f"{url}/viewer", color_scheme=scheme).page.evaluate(ground)
        for scheme in ("dark", "light", "no-preference")
    }
    assert grounds["dark"] == "rgb(13, 10, 21)" and grounds["light"] == "rgb(247, 245, 252)"


def test_reduced_motion_is_respected(visit: Any, serve: Any, good_store: Any) -> None:
    store = good_store("seren_loci", [])
    store.hold = threading.Event()
    entries = [{"name": "held", "type": "seren_loci", "url": store.url, "timeout_s": 20}]
    url = serve(entries)
    moving = "getComputedStyle(document.querySelector('.chip.waiting .dot')).animationName"
    for motion, name in (("reduce", "none"), ("no-preference", "breathe")):
        page = visit(f"{url}/viewer#q=x", reduced_motion=motion).page
        page.wait_for_selector("#chips .chip.waiting")
        assert page.evaluate(moving) == name
    store.hold.set()


def test_without_javascript_the_page_says_what_is_missing_and_where_the_api_is(visit: Any, serve: Any) -> None:
    url = serve([])
    page = visit(f"{url}/viewer", java_script_enabled=False).page
    body = page.inner_text("body")
    assert "This page needs JavaScript" in body and f"{url}/search" in body


# Giving it to a model, and living under a prefix


def test_the_overview_gives_the_addresses_for_a_model(visit: Any, serve: Any, demo: Any) -> None:
    url = serve(demo.store_entries())
    page = visit(f"{url}/viewer#overview").page
    page.wait_for_selector("#access:not(:empty)")
    told = page.inner_text("#snippets")
    assert f"claude mcp add --transport http callosum '{url}/mcp'" in told
    assert f"curl '{url}/search'" in told and "Authorization" not in told
    assert texts(page, "#counts dd")[0] == "2" and "Open: no token" in page.inner_text("#access")


def test_the_snippets_of_a_service_with_a_token_send_it(visit: Any, serve: Any) -> None:
    page = visit(f"{serve([], server={'bearer_token': 'secret'})}/viewer#overview").page
    page.wait_for_selector("#access:not(:empty)")
    told = page.inner_text("#snippets")
    assert '--header "Authorization: Bearer $TOKEN"' in told and "secret" not in told


def test_the_drawing_shows_the_last_search(visit: Any, serve: Any, demo: Any) -> None:
    page = visit(f"{serve(demo.store_entries())}/viewer{LARCH}").page
    results(page)
    page.click("#tab-overview")
    label = page.get_attribute(".merge", "aria-label")
    assert label.startswith("Merged list: 1: facts #1, 2: episodic #1, 3: facts #2")
    assert page.locator(".merge .link").count() == 8


class Portal:
    """A host's own application with two callosums in it, behind a server that mounts it at /outer."""

    def __init__(
        self, folder: Path, entries: Sequence[dict[str, Any]], servers: Sequence[dict[str, Any]] = (), **more: Any
    ) -> None:
        from flask import Flask
        from werkzeug.middleware.dispatcher import DispatcherMiddleware
        from werkzeug.serving import make_server

        from seren_corpus_callosum import Callosum, create_blueprint

        host = Flask("portal")
        self.callosums = []
        servers = servers or [{"bearer_token": "first"}, {"bearer_token": "second"}]
        for name, entry, server in zip(("one", "two"), entries, servers, strict=False):
            file = folder / f"{name}.yaml"
            settings = {"server": server, "federation": {"stores": [entry]}}
            file.write_text(json.dumps(settings), encoding="utf-8")
            environ = {"SEREN_SCC_RUNTIME_STORES": str(folder / f"{name}.json")}
            callosum = Callosum.from_config(file, environ=environ)
            self.callosums.append(callosum)
            host.register_blueprint(create_blueprint(callosum, name=name, **more), url_prefix=f"/{name}")
        app = DispatcherMiddleware(Flask("nothing"), {"/outer": host})
        self.server = make_server("127.0.0.1", 0, app, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, name="portal", daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join(5)
        self.server.server_close()
        for callosum in self.callosums:
            callosum.close(grace_s=0)


def test_two_callosums_of_one_portal_under_a_prefix_do_not_mix(visit: Any, demo: Any, tmp_path: Path) -> None:
    portal = Portal(tmp_path, demo.store_entries())
    try:
        watched = visit(f"{portal.url}/outer/one/viewer{LARCH}")
        page = watched.page
        for name, token, store in (("one", "first", "facts"), ("two", "second", "episodic")):
            page.goto(f"{portal.url}/outer/{name}/viewer{LARCH}")
            page.wait_for_selector("dialog[open] >> text=This service asks for a token")
            page.fill("#token-text", token)
            page.press("#token-text", "Enter")
            results(page)
            assert set(texts(page, ".hit .badge")) == {store}
            page.click("#tab-overview")
            page.wait_for_selector("#access:not(:empty)")
            assert f"{portal.url}/outer/{name}/mcp" in page.inner_text("#snippets")
        assert sorted(page.evaluate("Object.entries(localStorage)")) == [
            ["seren-corpus-callosum:/outer/one/viewer:token", "first"],
            ["seren-corpus-callosum:/outer/two/viewer:token", "second"],
        ]
        asked = [address for address in watched.requests if not address.startswith("data:")]
        assert {address.removeprefix(portal.url).split("/")[1] for address in asked} == {"outer"}
        assert {address.removeprefix(f"{portal.url}/outer") for address in asked} == {
            f"/{name}{path}" for name in ("one", "two") for path in ("/viewer", "/", "/stores", "/search")
        }
    finally:
        portal.close()


@pytest.mark.parametrize(
    ("server", "told"),
    [({}, "No token is configured, so what has no login there is refused"),
     ({"bearer_token": "right"}, "A call with the token is let in too.")],
)  # fmt: skip
def test_in_a_portal_that_decides_the_page_does_not_call_it_open(
    visit: Any, demo: Any, tmp_path: Path, server: dict[str, Any], told: str
) -> None:
    portal = Portal(tmp_path, demo.store_entries()[:1], [server], authorize=lambda action: True)
    try:
        page = visit(f"{portal.url}/outer/one/viewer#overview").page
        page.wait_for_selector("#access:not(:empty)")
        assert page.inner_text("#access") == f"The portal that this page is part of decides who may use it. {told}" + (
            "" if server else ", models too: set server.bearer_token to let them in."
        )
        assert texts(page, "#counts dd")[-1] == "the portal's"
    finally:
        portal.close()


# What a reader does meanwhile


def test_a_store_that_others_added_shows_its_own_hemisphere_at_once(visit: Any, serve: Any, demo: Any) -> None:
    url = serve([])
    page = visit(f"{url}/viewer").page
    page.wait_for_selector("#pulse >> text=0 stores")
    entry = {"name": "notes", "type": "seren_loci", "url": demo.loci_url}
    assert page.request.post(f"{url}/stores", data=entry).status == 201
    page.fill("#query", SEARCHES)
    page.press("#query", "Enter")
    results(page)
    assert page.locator(".hit .badge.cyan").count() == page.locator(".hit").count()


def test_what_is_typed_while_the_page_starts_stays(visit: Any, serve: Any, demo: Any) -> None:
    page = visit("about:blank").page
    waiting: list[Any] = []
    page.route("**/stores", lambda route: route.continue_() if waiting else waiting.append(route))
    page.goto(f"{serve(demo.store_entries())}/viewer#q=oak")
    page.wait_for_selector("#query:focus")
    assert page.input_value("#query") == "oak"
    page.keyboard.type(" and larch")
    waiting[0].continue_()
    results(page)
    assert page.input_value("#query") == "oak and larch"


def test_a_late_answer_to_an_earlier_search_changes_nothing(visit: Any, serve: Any, demo: Any) -> None:
    page = visit(f"{serve(demo.store_entries())}/viewer").page
    page.wait_for_selector("#pulse >> text=2 stores")
    # The first search is given its answer by the script itself, after that of the second.
    page.evaluate(
        """() => {
            const real = window.fetch;
            window.fetch = (url, options) => {
                if (!String(options.body).includes("frames")) return real(url, options);
                return new Promise((done) => { window.late = () => real(url, {...options, signal: null}).then(done); });
            };
        }"""
    )
    page.fill("#query", "frames")
    page.press("#query", "Enter")
    page.wait_for_function("() => window.late")
    page.fill("#query", SEARCHES)
    page.press("#query", "Enter")
    results(page)
    before = texts(page, ".hit"), page.inner_text("#summary")
    page.evaluate("() => window.late().then(() => new Promise((done) => setTimeout(done)))")
    assert (texts(page, ".hit"), page.inner_text("#summary")) == before
    assert page.input_value("#query") == SEARCHES


def test_back_to_the_search_tab_before_any_search_shows_none(visit: Any, serve: Any, demo: Any) -> None:
    page = visit(f"{serve(demo.store_entries())}/viewer#stores").page
    page.click("#tab-search")
    page.fill("#query", SEARCHES)
    page.press("#query", "Enter")
    results(page)
    page.go_back()
    page.wait_for_selector("#welcome:not([hidden])")
    assert (page.locator(".hit").count(), page.input_value("#query")) == (0, "")


def test_a_line_break_in_a_linked_query_is_a_space_in_the_box(visit: Any, serve: Any, demo: Any) -> None:
    page = visit(f"{serve(demo.store_entries())}/viewer#q=larch%0Aplanking").page
    results(page)
    assert page.input_value("#query") == "larch planking"


def test_a_search_that_was_refused_is_asked_again_with_the_token(visit: Any, serve: Any, demo: Any) -> None:
    page = visit(f"{serve(demo.store_entries())}/viewer{LARCH}").page
    results(page)
    page.route("**/search", lambda route: route.fulfill(status=401, body="{}"))
    page.fill("#query", "oak")
    page.press("#query", "Enter")
    page.wait_for_selector("dialog[open]")
    page.unroute("**/search")
    page.fill("#token-text", "new")
    page.press("#token-text", "Enter")
    results(page)
    assert page.locator("#search-trouble > *").count() == 0


def test_the_count_of_stores_that_are_down_leads_to_them(visit: Any, serve: Any) -> None:
    page = visit(f"{serve([{'name': 'attic', 'type': 'seren_loci', 'url': REFUSED}])}/viewer#q=x").page
    page.click("#pulse >> text=1 of 1 down")
    page.wait_for_selector(".row .reason >> text=down since")


def test_an_open_stores_tab_shows_what_changes(visit: Any, serve: Any, demo: Any) -> None:
    url = serve(demo.store_entries())
    watched = visit("about:blank")
    page = watched.page
    page.clock.install()
    page.goto(f"{url}/viewer#stores")
    page.wait_for_selector(".row >> text=not asked yet")
    assert page.request.post(f"{url}/search", data={"query": "oak"}).status == 200
    page.clock.run_for(10_000)
    page.wait_for_selector(".row >> text=1 call · 0 failures")


def test_a_page_that_was_refused_does_not_ask_for_the_token_by_itself_again(visit: Any, serve: Any) -> None:
    url = serve([], server={"bearer_token": "secret"})
    watched = visit("about:blank")
    watched.page.clock.install()
    watched.page.goto(f"{url}/viewer#stores")
    watched.page.wait_for_selector("#pulse >> text=locked")
    watched.page.click("#token-cancel")
    asked = len(watched.requests)
    watched.page.clock.run_for(60_000)
    assert watched.page.locator("dialog[open]").count() == 0 and len(watched.requests) == asked


def test_a_letter_that_grows_in_lower_case_is_marked_once(visit: Any, serve: Any, good_store: Any) -> None:
    store = good_store("seren_memory", [{"id": "a", "content": "İİİİ İİİİ larch"}])
    page = visit(f"{serve([{'name': 'm', 'type': 'seren_memory', 'url': store.url}])}/viewer#q=İİİİ").page
    results(page)
    assert page.inner_text(".content") == "İİİİ İİİİ larch"
    assert texts(page, "mark") == ["İİİİ", "İİİİ"]


def test_a_fold_splits_no_emoji(visit: Any, serve: Any, good_store: Any) -> None:
    store = good_store("seren_memory", [{"id": "a", "content": "x" * 599 + "🪵" * 100}])
    page = visit(f"{serve([{'name': 'm', 'type': 'seren_memory', 'url': store.url}])}/viewer#q=oak").page
    results(page)
    assert page.inner_text(".content") == "x" * 599 + "…"


def test_with_no_store_a_search_leads_to_the_form(visit: Any, serve: Any) -> None:
    page = visit(f"{serve([])}/viewer#q=larch").page
    summary(page, "No store was asked")
    page.click("#welcome >> text=+ Add store")
    page.wait_for_selector("#add-name:focus")


def test_forty_stores_leave_the_first_hit_in_sight(visit: Any, serve: Any, demo: Any) -> None:
    attic = [{"name": f"attic {n}", "type": "seren_loci", "url": REFUSED} for n in range(8)]
    facts = [{**demo.store_entries()[0], "name": f"facts {n}"} for n in range(32)]
    page = visit(f"{serve([*attic, *facts])}/viewer{LARCH}").page
    results(page)
    assert page.locator("#silent li").count() == 8 and page.locator("#chips .chip").count() == 40
    text = page.locator(".hit .fact").first.bounding_box()
    assert text["y"] + text["height"] < 800
    assert axe.violations(page) == []


def test_the_count_of_stores_is_whole_at_360_px(visit: Any, serve: Any) -> None:
    entries = [{"name": f"attic {n}", "type": "seren_loci", "url": REFUSED} for n in range(12)]
    page = visit(f"{serve(entries)}/viewer#q=x", viewport={"width": 360, "height": 740}).page
    page.wait_for_selector("#pulse >> text=12 of 12 down")
    assert page.locator("#pulse").evaluate("e => e.scrollWidth <= e.clientWidth")


def test_the_drawing_takes_the_two_stores_that_lead_and_keeps_wide_letters_in_their_box(
    visit: Any, serve: Any, good_store: Any
) -> None:
    wide = good_store("seren_memory", [{"id": str(n), "content": "W" * 90} for n in range(4)])
    facts = good_store("seren_loci", [{"id": "a", "key": "wood", "value": "larch"}])
    memories = [{"name": name, "type": "seren_memory", "url": wide.url} for name in ("W" * 64, "also")]
    url = serve([{"name": "facts", "type": "seren_loci", "url": facts.url}, *memories])
    page = visit(f"{url}/viewer#q=larch").page
    results(page)
    page.click("#tab-overview")
    page.wait_for_selector(".merge")
    assert page.locator(".merge .title").all_text_contents()[0] == "facts"
    inside = """() => [...document.querySelectorAll('.cell')].every((cell) => {
        const [box, ...words] = [...cell.children].map((one) => one.getBoundingClientRect());
        return words.every((word) => word.left >= box.left && word.right <= box.right);
    })"""
    assert page.evaluate(inside)
    assert page.locator(".merge .title").nth(1).evaluate("e => e.getBoundingClientRect().width") <= 241  # a quarter


def test_a_service_that_refuses_is_not_told_as_one_that_is_gone(visit: Any, serve: Any) -> None:
    page = visit("about:blank").page
    page.route("**/stores", lambda route: route.fulfill(status=403, body='{"detail": "not for you"}'))
    page.goto(f"{serve([])}/viewer#stores")
    page.wait_for_selector("#pulse >> text=not allowed")
    page.wait_for_selector("#roster-trouble >> text=Not allowed: not for you")


def test_a_sandboxed_frame_is_told_what_it_lacks(visit: Any, serve: Any) -> None:
    url = serve([])
    watched = visit("about:blank")
    frame = '<iframe src="/viewer" sandbox="allow-scripts"></iframe>'
    watched.page.route("**/portal", lambda route: route.fulfill(body=frame, content_type="text/html"))
    watched.page.goto(f"{url}/portal")
    watched.page.frame_locator("iframe").locator("#roster-trouble >> text=allow-same-origin").wait_for(state="attached")
    watched.faults.clear()  # the browser itself reports each call that it stopped


def test_the_addresses_for_a_model_stand_before_the_account_of_the_merge(visit: Any, serve: Any) -> None:
    page = visit(f"{serve([])}/viewer#overview").page
    page.wait_for_selector(".merge")
    assert texts(page, "#panel-overview h2") == ["Overview", "Give it to a model", "How the lists become one"]
