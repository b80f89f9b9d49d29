// Asking every store, and showing what came of each.

let running = null; // the AbortController of the search under way
const FIRST_HITS = 10; // more than a screen holds
const NAMED_STORES = 5; // of more, the chips tell the names
let asked = null; // what the list shows, or what is being asked: {query, count}

async function ask(query, count) {
  running?.abort();
  const mine = (running = new AbortController());
  asked = { query, count };
  byId("search-trouble").replaceChildren();
  byId("silent").replaceChildren();
  byId("summary").textContent = "Asking…";
  byId("panel-search").setAttribute("aria-busy", "true");
  byId("results").classList.add("old");
  byId("welcome").hidden = true;
  showChips(waitingChips());
  try {
    const { body } = await call("POST", "search", { query, n_results: count }, mine.signal);
    if (list(body.stores).some((row) => !rowOf(row.name))) await refreshRoster(); // added elsewhere meanwhile
    if (running !== mine) return;
    state.answer = body;
    showAnswer(body);
  } catch (cause) {
    if (cause.name === "AbortError" || running !== mine) return;
    if (!(cause instanceof Trouble)) throw cause;
    forget();
    byId("welcome").hidden = true;
    const said = Object.entries(cause.errors).flatMap(([key, messages]) => list(messages).map((text) => `${key}: ${text}`));
    const full = said.length ? new Trouble(cause.status, `${cause.message}: ${said.join("; ")}`) : cause;
    byId("search-trouble").replaceChildren(told(full, () => ask(query, count)));
    if (cause.status === 401) return; // the roster would be refused as well, and ask for the token once more
  } finally {
    if (running === mine || running === null) {
      running = null;
      byId("panel-search").removeAttribute("aria-busy");
      byId("results").classList.remove("old");
    }
  }
  refreshRoster();
}

function showAnswer(answer) {
  byId("search-trouble").replaceChildren();
  showChips(answeredChips(answer));
  showSilent(answer);
  byId("summary").textContent = summaryOf(answer);
  byId("tools").hidden = !list(answer.hits).length;
  byId("welcome").hidden = list(state.roster?.stores).length > 0;
  showHits(answer);
}

function showHits(answer) {
  const mark = marker(shown(answer.query));
  const drawn = (from, to) => list(answer.hits).slice(from, to).map((hit, index) => hitItem(from + index + 1, hit, answer, mark));
  const first = drawn(0, FIRST_HITS);
  byId("hits").replaceChildren(...first);
  // The rest once these are painted, unless another answer has taken their place.
  requestAnimationFrame(() => requestAnimationFrame(() => {
    if (first[0]?.isConnected) byId("hits").append(...drawn(FIRST_HITS));
    drawMerge();
  }));
}

function summaryOf(answer) {
  const hits = list(answer.hits).length;
  const searched = list(answer.stores_searched);
  const silent = list(answer.skipped).length;
  const took = `in ${milliseconds(answer.took_ms)}`;
  const missing = silent ? `; ${counted(silent, "store")} did not answer` : "";
  if (!searched.length && !silent) return "No store was asked: none is configured, or none is enabled.";
  if (!searched.length) return `Nobody answered: ${counted(silent, "store")} asked, ${silent === 1 ? "it" : "all"} failed, ${took}.`;
  const who = searched.length > NAMED_STORES ? counted(searched.length, "store") : joined(searched.map(shown));
  if (!hits) return `No hits. ${who} answered with nothing${flooredBy(answer)}, ${took}${missing}.`;
  return `${counted(hits, "hit")} from ${counted(searched.length, "store")} ${took}${missing}.`;
}

function flooredBy(answer) {
  const dropped = list(answer.stores).reduce((sum, row) => sum + (number(row.floored) ?? 0), 0);
  return dropped ? ` above the floor (${counted(dropped, "hit")} below it)` : "";
}

function forget() {
  running?.abort();
  running = asked = null;
  showChips([]);
  for (const id of ["search-trouble", "silent", "hits", "summary"]) byId(id).replaceChildren();
  byId("tools").hidden = true;
  byId("welcome").hidden = false;
}

// One chip for each store

function chip(name, look, ...text) {
  return el(`li.chip.${look}.${hueOf(name)}`, {}, el("span.dot"), named(name), el("span.came", {}, ...text));
}

function showChips(chips) {
  byId("chips").replaceChildren(...chips);
  reach(byId("chips"));
}

function waitingChips() {
  return list(state.roster?.stores)
    .filter((row) => row.status === "active")
    .map((row) => chip(row.name, "waiting", "waiting"));
}

function answeredChips(answer) {
  const rows = new Map(list(answer.stores).map((row) => [row.name, row]));
  const skipped = new Map(list(answer.skipped).map((entry) => [entry.name, entry]));
  const order = [...list(state.roster?.stores).map((row) => row.name), ...rows.keys(), ...skipped.keys()];
  return [...new Set(order)].flatMap((name) => {
    const row = rows.get(name);
    const failure = skipped.get(name);
    if (failure?.retry_at) return [chip(name, "failed", `${shown(failure.kind)} until `, clock(failure.retry_at))];
    if (failure) return [chip(name, "failed", shown(failure.kind))];
    if (!row) return [];
    const floored = number(row.floored) ? `, ${shown(row.floored)} below the floor` : "";
    return [chip(name, "answered", `${counted(number(row.returned) ?? 0, "hit")}${floored} in ${milliseconds(row.ms)}`)];
  });
}

// What rolls must be reached by the keyboard.
function reach(node) {
  node.tabIndex = node.scrollHeight > node.clientHeight ? 0 : -1;
}

function showSilent(answer) {
  const skipped = list(answer.skipped);
  const warnings = list(answer.warnings);
  const items = [
    ...skipped.map((entry) =>
      el("li", {}, badge(entry.name), " ", el("strong.kind", {}, shown(entry.kind)), " ", el("span", {}, shown(entry.reason)),
        entry.retry_at && el("span", {}, "; asked again after ", clock(entry.retry_at))),
    ),
    ...warnings.map((entry) => el("li.warning", {}, badge(entry.name), " ", el("span", {}, shown(entry.reason)))),
  ];
  if (!items.length) return byId("silent").replaceChildren();
  const heading = skipped.length
    ? `${counted(skipped.length, "store")} did not answer, so ${skipped.length === 1 ? "its" : "their"} memories are missing here`
    : "Answered, but not in full";
  const whole = el("ul", { "aria-label": heading }, items);
  byId("silent").replaceChildren(el("div.notice", {}, el("h3", {}, heading), whole));
  return reach(whole);
}

// Taking it along

function asMarkdown(answer) {
  const lines = list(answer.hits).map((hit, index) => {
    const text = hit.content.trim().replaceAll("\n", "\n   ");
    return `${index + 1}. **${hit.store}** #${shown(hit.store_rank)}: ${text}`;
  });
  const silent = list(answer.skipped).map((entry) => `${entry.name} (${shown(entry.kind)})`);
  const missing = silent.length ? `\n\nNot searched, because they did not answer: ${silent.join(", ")}.` : "";
  return `Memories for "${shown(answer.query)}", best first:\n\n${lines.join("\n")}${missing}\n`;
}

// Arrows walk the hits: from the box down, and back up into it.

function walkHits(event) {
  const lines = [...byId("hits").querySelectorAll(".provenance")];
  const at = lines.findIndex((line) => line.closest(".hit").contains(document.activeElement));
  const inBox = document.activeElement === byId("query");
  if (!lines.length || (at < 0 && !inBox && document.activeElement !== document.body)) return;
  event.preventDefault();
  const next = event.key === "ArrowDown" ? at + 1 : at - 1;
  const goal = next < 0 ? byId("query") : lines[Math.min(next, lines.length - 1)];
  goal.focus({ preventScroll: true });
  (goal.closest(".hit") ?? goal).scrollIntoView({ block: "nearest" });
}

function closeHit() {
  const open = document.activeElement.closest?.(".hit")?.querySelector('.provenance[aria-expanded="true"]');
  if (!open) return byId("query").focus();
  unfold(open, false);
  return open.focus();
}
