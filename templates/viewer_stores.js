// The roster: how each store is, its knobs, adding and removing.

const drafts = new Map(); // what was typed into a row and not saved yet: it outlives a redrawn roster
let refused = false; // for want of a token: then the page does not ask by itself
let drawn = ""; // the roster as it stands on the page
const rowKey = (row) => JSON.stringify([row.name, Boolean(row.managed), String(row.status).startsWith("skipped")]);

async function refreshRoster() {
  try {
    const { body } = await call("GET", "stores");
    state.roster = body;
    byId("count").placeholder = shown(body.n_results);
    refused = false;
    byId("roster-trouble").replaceChildren();
  } catch (cause) {
    if (!(cause instanceof Trouble)) throw cause;
    refused = cause.status === 401;
    const before = byId("roster-trouble").querySelector("p")?.textContent;
    if (before !== cause.message) byId("roster-trouble").replaceChildren(told(cause, refreshRoster));
    showPulse(cause);
    return;
  }
  showPulse();
  showRoster();
  showOverview();
}

function showPulse(trouble) {
  const rows = list(state.roster?.stores).filter((row) => row.enabled);
  const down = rows.filter(isDown).length;
  const look = trouble ? "bad" : down || !rows.length ? "warn" : "good";
  const refusal = { 0: "no answer", 401: "locked", 403: "not allowed" };
  const text = trouble ? (refusal[trouble.status] ?? `status ${trouble.status}`) : down ? `${down} of ${rows.length} down` : counted(rows.length, "store");
  byId("pulse").replaceChildren(el(`span.dot.${look}`), text);
}

const isDown = (row) =>
  row.enabled && (String(row.status).startsWith("skipped") || Boolean(row.health?.failing_since) || Boolean(row.health?.suspended_until));

function showRoster() {
  const box = byId("roster");
  const selected = !getSelection().isCollapsed && getSelection().containsNode(box, true);
  const busy = selected || box.querySelector(".confirm") || box.contains(document.activeElement);
  for (const span of box.querySelectorAll(".ago")) span.textContent = ago(span.dataset.since);
  if (busy && !byId("panel-stores").hidden) return; // redrawing would take the focus, or the question, away
  const wanted = JSON.stringify(state.roster);
  if (wanted !== drawn) drawRoster();
  drawn = wanted;
}

function drawRoster() {
  const rows = list(state.roster?.stores);
  const damage = state.roster?.damage;
  byId("roster").replaceChildren(
    ...(damage ? [el("div.notice", {}, el("h3", {}, "The file of added stores is damaged"), el("p", {}, shown(damage)))] : []),
    rows.length ? el("ul.rows", {}, rows.map(storeItem)) : el("p.empty", {}, "No stores yet. Add the first one: it is asked from the very next search on."),
  );
  byId("welcome").replaceChildren(...welcome(rows));
}

function welcome(rows) {
  if (!rows.length) {
    const add = el("button.strong", { type: "button", click: () => { showTab("stores"); go("stores"); openForm(); } }, "+ Add store");
    return [el("p", {}, "No stores are configured yet, so there is nobody to ask."), el("p", {}, add)];
  }
  const asked_ = rows.filter((row) => row.status === "active");
  return [el("p", {}, "One query goes to every store at once; their ranked lists come back as one."),
    el("ul.chips", {}, asked_.map((row) => chip(row.name, "idle", row.type)))];
}

function storeItem(row) {
  const skipped = String(row.status).startsWith("skipped");
  const look = skipped ? "bad" : row.status === "disabled" ? "off" : isDown(row) ? "warn" : "good";
  const item = el(`li.row.${hemisphere(row.type)}`, {});
  const remove = row.managed && el("button.cross", { type: "button", "aria-label": `Remove ${row.name}`, title: "Remove this store" }, cross());
  item.append(
    el("div.head", {}, el("h3", {}, el("span.dot"), named(row.name)), el(`span.status.${look}`, {}, skipped ? "skipped" : isDown(row) ? "failing" : shown(row.status)), remove || el("span")),
    ...(skipped ? [el("p.reason", {}, shown(row.status))] : []),
    el("p.where", {}, el("span.type", {}, shown(row.type)), " ", el("bdi.url", {}, shown(row.url)), row.auth ? " · with a token" : "", row.managed ? " · added here" : " · base"),
    ...(skipped ? [] : [healthOf(row)]),
    ...list(row.warnings).map((warning) => el("p.reason.warning", {}, shown(warning))),
    row.managed && !skipped ? knobs(row) : row.managed ? el("p.muted", {}, "Remove it here, or add it again with what is missing.") : declared(row),
  );
  if (remove) remove.addEventListener("click", () => confirmRemoval(item, row, remove));
  return item;
}

const cross = () => svg("svg.icon", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: "M4 4l8 8M12 4l-8 8" }));

function healthOf(row) {
  const health = isMapping(row.health) ? row.health : {};
  const calls = number(health.calls) ?? 0;
  const facts = calls
    ? [`last ${milliseconds(health.last_ms)}`, `average ${milliseconds(health.avg_ms)}`, counted(calls, "call"), counted(number(health.failures) ?? 0, "failure")]
    : ["not asked yet"];
  const since = health.failing_since;
  return el(
    "div.health",
    {},
    el("p.muted", {}, facts.join(" · ")),
    since && el("p.reason", {}, "down since ", clock(since), " (", el("span.ago", { "data-since": since }, ago(since)), "): ", shown(health.last_error)),
    !since && health.last_error && el("p.muted", {}, `last failure: ${shown(health.last_error)}`),
    health.suspended_until && el("p.reason", {}, "suspended until ", clock(health.suspended_until), "; then it is tried again"),
  );
}

function declared(row) {
  const knobsOf = row.weight === null ? [] : [`weight ${decimal(row.weight)} · floor ${decimal(row.floor)} · `];
  return el("p.muted", {}, ...knobsOf, "declared in the config file, under ", mono("federation.stores"), ": change or remove it there and restart");
}

// Weight, floor and enabled of a managed store

function knobs(row) {
  const key = rowKey(row);
  const values = { weight: decimal(row.weight), floor: decimal(row.floor), enabled: row.enabled };
  const draft = { ...values, ...drafts.get(key) };
  const save = el("button.quiet", { type: "submit", hidden: !drafts.has(key) }, "Save");
  const trouble = el("div");
  const form = el("form.knobs", { novalidate: true, "aria-label": `Knobs of ${row.name}` });
  form.key = key;
  const field = (name) => {
    const input = el("input", { name, inputmode: "decimal", autocomplete: "off", size: "5", value: draft[name] });
    return el("label", {}, name, " ", input);
  };
  const box = el("input", { type: "checkbox", name: "enabled", checked: draft.enabled });
  form.append(field("weight"), field("floor"), el("label", {}, box, " enabled"), save, trouble);
  form.addEventListener("input", () => {
    drafts.set(key, { weight: form.weight.value, floor: form.floor.value, enabled: form.enabled.checked });
    save.hidden = false;
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const change = {};
    if (form.weight.value !== values.weight) change.weight = typed(form.weight.value);
    if (form.floor.value !== values.floor) change.floor = typed(form.floor.value);
    if (form.enabled.checked !== values.enabled) change.enabled = form.enabled.checked;
    trouble.replaceChildren();
    try {
      await call("PATCH", `stores/${encodeURIComponent(row.name)}`, change);
      drafts.delete(key);
      drawn = "";
      say(`Saved: ${row.name}`);
      document.activeElement.blur();
      await refreshRoster();
      [...byId("roster").querySelectorAll("form")].find((one) => one.key === key)?.weight.focus();
    } catch (cause) {
      showFaults(form, cause, trouble);
    }
  });
  return form;
}

// Text that is no number goes as it is: the service says what was expected, and what was typed stays.
const isNumber = (text) => /^\s*[-+]?[\d.]+(e[-+]?\d+)?\s*$/i.test(text) && Number.isFinite(Number(text));
const typed = (text) => (text.trim() === "" ? null : isNumber(text) ? Number(text) : text);
const say = (text) => (byId("said").textContent = text);

function showFaults(form, cause, place) {
  if (!(cause instanceof Trouble)) throw cause;
  clearFaults(form);
  const rest = [];
  let first = null;
  for (const [key, messages] of Object.entries(cause.errors)) {
    const input = form.elements.namedItem(key.split(".")[0]);
    const text = list(messages).map(shown).join("; ");
    if (!(input instanceof HTMLElement)) rest.push(`${key}: ${text}`);
    else {
      const id = `${input.id || `fault-${Math.random().toString(36).slice(2)}`}-fault`;
      const label = input.closest("label");
      const fault = el("span.fault", { id }, key.includes(".") ? `${key}: ${text}` : text);
      label.append(fault);
      label.closest("details")?.setAttribute("open", "");
      input.setAttribute("aria-invalid", "true");
      input.setAttribute("aria-describedby", id);
      first ??= input;
    }
  }
  const beside = first && !rest.length ? "Nothing has changed yet: what is wrong stands beside the field." : cause.message;
  const text = rest.length ? `${beside}: ${rest.join("; ")}` : beside;
  place.replaceChildren(told(new Trouble(cause.status, text)));
  first?.focus();
}

function clearFaults(form) {
  form.querySelectorAll(".fault").forEach((fault) => fault.remove());
  form.querySelectorAll("[aria-invalid]").forEach((input) => {
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-describedby");
  });
}

// Removing

function wasGone(cause) {
  if (cause.status === 404) return true;
  throw cause;
}

function confirmRemoval(item, row, opener) {
  if (item.querySelector(".confirm")) return;
  const trouble = el("div");
  const keep = el("button.quiet", { type: "button" }, "Keep it");
  const yes = el("button.danger", { type: "button" }, "Remove");
  const box = el("div.confirm", { role: "group", "aria-label": `Remove ${row.name}?` }, el("p", {}, "Remove ", named(row.name), " from the fan? Its memories stay in the store."), el("div.buttons", {}, yes, keep), trouble);
  const close = () => {
    box.remove();
    opener.focus();
  };
  keep.addEventListener("click", close);
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  });
  yes.addEventListener("click", async () => {
    yes.disabled = true;
    try {
      const isGone = await call("DELETE", `stores/${encodeURIComponent(row.name)}`).then(() => false, wasGone);
      drafts.delete(rowKey(row));
      say(`${isGone ? "Somebody else removed it already" : "Removed"}: ${row.name}`);
      box.remove();
      byId("add-open").focus();
      await refreshRoster();
    } catch (cause) {
      if (!(cause instanceof Trouble)) throw cause;
      trouble.replaceChildren(told(cause));
    } finally {
      yes.disabled = false;
    }
  });
  item.append(box);
  keep.focus();
}
