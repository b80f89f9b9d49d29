// Tabs, the address, keys, the token, and the start.

// The panels go by other ids than the addresses: a browser takes the focus away from wherever it is for a target.
const TABS = ["search", "stores", "overview"];

// The address: #q=...&n=... is a search, #stores and #overview are the other tabs.

function readAddress() {
  const hash = location.hash.slice(1);
  if (hash === "stores" || hash === "overview") return { tab: hash };
  const terms = new URLSearchParams(hash);
  const count = terms.get("n");
  // What is no whole number goes as it is: the service says what it expected.
  return { tab: "search", query: terms.get("q") ?? "", count: /^[0-9]+$/.test(count ?? "") ? Number(count) : count };
}

function searchAddress(query, count) {
  if (!query) return "search";
  return new URLSearchParams(count === null ? { q: query } : { q: query, n: String(count) }).toString();
}

function fillBox(query = "", count = null) {
  byId("query").value = query.replace(/[\r\n]+/g, " "); // the box would join the lines
  byId("count").value = count === null ? "" : String(count);
}

function go(hash) {
  if (location.hash.slice(1) === hash) follow();
  else location.hash = hash; // follow() comes with the event
}

function follow() {
  const { tab, query, count } = readAddress();
  showTab(tab);
  if (tab !== "search" || query === undefined) return;
  if (query && (asked?.query !== query || asked?.count !== count)) {
    fillBox(query, count);
    ask(query, count);
  } else if (!query && asked) {
    fillBox();
    forget();
  }
}

function showTab(chosen) {
  for (const name of TABS) {
    const tab = byId(`tab-${name}`);
    tab.setAttribute("aria-selected", String(name === chosen));
    tab.tabIndex = name === chosen ? 0 : -1;
    byId(`panel-${name}`).hidden = name !== chosen;
  }
  if (chosen === "overview") drawMerge();
  if (chosen === "stores") refreshRoster();
}

for (const name of TABS) {
  const tab = byId(`tab-${name}`);
  tab.addEventListener("click", () => go(name === "search" && asked ? searchAddress(asked.query, asked.count) : name));
  tab.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -TABS.indexOf(name), End: TABS.length - 1 - TABS.indexOf(name) };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const next = byId(`tab-${TABS[(TABS.indexOf(name) + steps[event.key] + TABS.length) % TABS.length]}`);
    next.focus();
    next.click();
  });
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const query = byId("query").value;
  const given = byId("count").value.trim();
  if (!query.trim()) return byId("query").focus();
  asked = null; // the same query again is asked again
  return go(searchAddress(query, given || null));
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("token").open) return;
  const at = event.target;
  const typing = at.isContentEditable || ["TEXTAREA", "SELECT"].includes(at.tagName) || (at.tagName === "INPUT" && at.type !== "checkbox");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    if (byId("panel-search").hidden) byId("tab-search").click();
    showTab("search");
    byId("query").focus();
    byId("query").select();
  } else if (byId("panel-search").hidden) {
    return;
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (!typing || at === byId("query")) walkHits(event);
  } else if (event.key === "Escape") {
    if (at !== byId("query")) closeHit();
  }
});

byId("copy-markdown").replaceWith(copyButton("Copy as Markdown", () => asMarkdown(state.answer), "All hits as Markdown"));
byId("copy-json").replaceWith(copyButton("Copy as JSON", () => shown(state.answer), "All hits as JSON"));
byId("pulse").addEventListener("click", () => go("stores"));
byId("roster-refresh").addEventListener("click", () => refreshRoster());

// The token

function openToken(why = "") {
  byId("token-why").textContent = why;
  byId("token-clear").hidden = !keptToken();
  byId("token-fault").textContent = "";
  if (!byId("token").open) byId("token").showModal();
  byId("token-text").focus();
}

function closeToken(text) {
  byId("token-text").value = "";
  byId("token").close();
  say(text);
  showTokenState();
  const { query, count } = readAddress();
  if (keptToken()) {
    loadAbout();
    if (query && !asked) ask(query, count);
    else refreshRoster();
  }
}

function showTokenState() {
  byId("token-open").classList.toggle("set", Boolean(keptToken()));
  byId("token-open").title = keptToken() ? "A token is kept in this browser" : "No token is kept in this browser";
}

byId("token-open").addEventListener("click", () => openToken());
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = byId("token-text").value.trim();
  const odd = /[\u0000-\u001f\u007f]/.test(token);
  byId("token-fault").textContent = !token ? "Enter a token, or clear the one that is kept." : odd ? "A token has no line breaks or other control characters." : "";
  if (!token || odd) return;
  keepToken(token);
  closeToken("The token is kept in this browser.");
});
byId("token-clear").addEventListener("click", () => {
  keepToken(null);
  closeToken("The token is forgotten.");
});
byId("token-cancel").addEventListener("click", () => byId("token").close());

// The start

const LOOK_AGAIN_MS = 10_000;

async function start() {
  const { tab, query, count } = readAddress();
  showTab(tab);
  fillBox(query, count);
  await refreshRoster(); // the hits take their hue from it
  if (query && !asked) ask(query, count);
}

function lookAgain() {
  if (!document.hidden && !refused && !byId("panel-stores").hidden) refreshRoster();
}

window.addEventListener("hashchange", follow);
document.addEventListener("visibilitychange", lookAgain);
setInterval(lookAgain, LOOK_AGAIN_MS);
window.addEventListener("resize", drawMerge);
for (const node of document.querySelectorAll("[data-script]")) node.hidden = false;
showTokenState();
showOverview();
loadAbout();
byId("query").focus();
start();
