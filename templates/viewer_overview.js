// Counts, the addresses for a model, and the merge drawn from the last search.

const EXAMPLE = {
  query: "an example",
  k: 60,
  hits: [
    ["facts", 1, "planking = larch"], ["episodic", 1, "argued over pine or larch"], ["facts", 2, "frames = oak"],
    ["episodic", 2, "steamed the first frames"], ["facts", 3, "mast = spruce"], ["episodic", 3, "found the rot"],
  ].map(([store, store_rank, content]) => ({ store, store_rank, content, score: 1 / (60 + store_rank) })),
};
const EXAMPLE_HUES = { facts: "cyan", episodic: "coral" };
const SIDES = ["cyan", "violet", "coral"]; // the left hemisphere on the left
const DRAWN_HITS = 8;
const DRAWN_CHARACTERS = 60;
const LINE_PX = 30;

async function loadAbout() {
  try {
    state.about = (await call("GET", ".")).body;
  } catch (cause) {
    if (!(cause instanceof Trouble)) throw cause;
    byId("about-trouble").replaceChildren(told(cause, loadAbout));
    return;
  }
  byId("about-trouble").replaceChildren();
  showOverview();
}

function showOverview() {
  const { roster, about } = state;
  const rows = list(roster?.stores);
  const count = (test) => String(rows.filter(test).length);
  const open = about?.auth === "open";
  const hosted = "hosted" in document.documentElement.dataset;
  const tiles = [
    ["active", count((row) => row.status === "active")],
    ["failing", count((row) => row.status === "active" && isDown(row))],
    ["disabled", count((row) => row.status === "disabled")],
    ["skipped", count((row) => String(row.status).startsWith("skipped"))],
    ["k", shown(roster?.k)],
    ["hits asked for", shown(roster?.n_results)],
    ["deadline a store", roster ? `${shown(roster.per_store_timeout_s)} s` : ""],
    ["access", about ? (hosted ? "the portal's" : open ? "open" : "bearer") : ""],
  ];
  byId("counts").replaceChildren(...tiles.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value || "—"))));
  byId("access").textContent = !about ? "" : hosted
    ? `The portal that this page is part of decides who may use it. ${open
      ? "No token is configured, so what has no login there is refused, models too: set server.bearer_token to let them in."
      : "A call with the token is let in too."}`
    : open ? "Open: no token is asked for. Stores may be changed from this machine only, unless the configuration or the portal says otherwise."
    : "Bearer: every call needs the token, save this page's own loading and the health check.";
  showSnippets(!open && about);
  drawMerge();
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function showSnippets(bearer) {
  const search = addressOf("search");
  const mcp = addressOf("mcp");
  const curl = bearer ? ` \\\n  -H "Authorization: Bearer $TOKEN"` : "";
  const server = { type: "http", url: mcp, ...(bearer ? { headers: { Authorization: "Bearer TOKEN" } } : {}) };
  const snippets = [
    ["HTTP", `curl ${quoted(search)} \\\n  -H 'Content-Type: application/json'${curl} \\\n  -d '{"query": "what do you know about me?", "n_results": 10}'`],
    ["MCP, for Claude Code", `claude mcp add --transport http callosum ${quoted(mcp)}${bearer ? ` \\\n  --header "Authorization: Bearer $TOKEN"` : ""}`],
    ["MCP, for other clients", JSON.stringify({ mcpServers: { callosum: server } }, null, 2)],
    ["In the model's instructions", "Before you answer a question about the past, call `search` of the callosum with the question in plain words. It asks every memory store at once. Name the store that a memory came from."],
  ];
  byId("snippets").replaceChildren(
    ...snippets.map(([name, text]) => el("div.snippet", {}, el("div.bar", {}, el("h4", {}, name), copyButton("copy", text, name)), el("pre", { tabindex: "0" }, text))),
  );
  byId("no-mcp").hidden = state.about?.mcp !== false;
}

// The drawing

function drawMerge() {
  if (byId("panel-overview").hidden) return; // it has no width yet; the tab draws it when it opens
  const answer = list(state.answer?.hits).length ? state.answer : EXAMPLE;
  const hue = (store) => (answer === EXAMPLE ? EXAMPLE_HUES[store] : hueOf(store));
  const pair = [...new Set(answer.hits.map((hit) => hit.store))].slice(0, 2);
  pair.sort((a, b) => SIDES.indexOf(hue(a)) - SIDES.indexOf(hue(b)));
  const hits = answer.hits.map((hit, index) => ({ ...hit, position: index + 1 })).filter((hit) => pair.includes(hit.store)).slice(0, DRAWN_HITS);
  byId("drawn-from").replaceChildren(
    ...(answer === EXAMPLE ? ["An example; search for something and this shows your own two lists."] : ["Drawn from your last search: ", el("q", {}, shown(answer.query)), "."]),
  );
  byId("drawing").replaceChildren(drawing(hits, pair, hue));
  for (const text of byId("drawing").querySelectorAll("[data-room]")) fit(text, Number(text.dataset.room));
}

function fit(text, room) {
  const full = text.textContent;
  for (let length = full.length - 1; length > 0 && text.getComputedTextLength() > room; length -= 1) {
    length = Math.min(length, Math.ceil((text.textContent.length * room) / text.getComputedTextLength()));
    text.textContent = cut(full, length);
  }
}

function drawing(hits, pair, hue) {
  const width = Math.max(280, byId("drawing").clientWidth);
  const lists = pair.map((store) => hits.filter((hit) => hit.store === store));
  const height = 44 + LINE_PX * Math.max(hits.length, 1);
  const box = width * 0.25;
  const middle = [width / 2 - box / 2, width / 2 + box / 2];
  const room = box - 48;
  const wide = room > 40;
  const text = (hit) => (wide ? cut(hit.content, DRAWN_CHARACTERS) : "");
  const lineY = (index, of) => 40 + (index + (hits.length - of) / 2) * LINE_PX;
  const parts = [];
  const cell = (x, y, label, words, look, anchorEnd) =>
    svg(`g.cell.${look}`, {}, svg("rect", { x, y, width: box, height: LINE_PX - 6, rx: 5 }),
      svg("text.lead", { x: anchorEnd ? x + box - 8 : x + 8, y: y + 16, "text-anchor": anchorEnd ? "end" : "start" }, label),
      words && svg("text", { x: anchorEnd ? x + 8 : x + 34, y: y + 16, "data-room": room }, words));
  lists.forEach((of, side) => {
    const x = side === 0 ? 0 : width - box;
    parts.push(svg(`text.title.${hue(pair[side])}`, { x: side === 0 ? 0 : width, y: 20, "text-anchor": side === 0 ? "start" : "end", "data-room": box }, pair[side]));
    of.forEach((hit, index) => {
      const y = lineY(index, of.length);
      const goal = lineY(hits.indexOf(hit), hits.length) + LINE_PX / 2 - 3;
      const [from, to] = side === 0 ? [box, middle[0]] : [width - box, middle[1]];
      const bend = (from + to) / 2;
      parts.push(svg(`path.link.${hue(hit.store)}`, { d: `M${from} ${y + LINE_PX / 2 - 3}C${bend} ${y + LINE_PX / 2 - 3} ${bend} ${goal} ${to} ${goal}` }));
      parts.push(cell(x, y, `#${shown(hit.store_rank)}`, text(hit), hue(hit.store), side === 1));
    });
  });
  parts.push(svg("text.title.violet", { x: width / 2, y: 20, "text-anchor": "middle" }, "merged"));
  hits.forEach((hit, index) => {
    const words = wide ? short(hit.score) : "";
    parts.push(cell(middle[0], lineY(index, hits.length), String(hit.position), words, hue(hit.store), false));
  });
  const said = hits.map((hit) => `${hit.position}: ${hit.store} #${shown(hit.store_rank)}`).join(", ");
  return svg("svg.merge", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Merged list: ${said}` }, parts);
}
