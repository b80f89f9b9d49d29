// Elements, calls, the token, copying, words. Whatever a store says goes through text nodes and setAttribute only.

const here = new URL(location.href);
here.hash = here.search = here.username = here.password = "";
const TOKEN_KEY = `seren-corpus-callosum:${location.pathname}:token`;
const state = { roster: null, about: null, answer: null };
let heldToken = null; // where the browser refuses localStorage

const byId = (id) => document.getElementById(id);

function el(spec, attributes = {}, ...children) {
  const [name, ...classes] = spec.split(".");
  return furnished(document.createElement(name), classes, attributes, children);
}

function svg(spec, attributes = {}, ...children) {
  const [name, ...classes] = spec.split(".");
  return furnished(document.createElementNS("http://www.w3.org/2000/svg", name), classes, attributes, children);
}

function furnished(node, classes, attributes, children) {
  if (classes.length) node.classList.add(...classes);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(key, value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const mono = (text) => el("code", {}, text);
const named = (name) => el("bdi.name", {}, name);

// Numbers: the browser's own lose digits of large integers.

class Exact {
  constructor(value, source) {
    this.value = value;
    this.source = source;
  }
  toJSON() {
    return JSON.rawJSON(this.source); // browsers that give the source have this too
  }
}

function parsed(text) {
  return JSON.parse(text, (key, value, context) =>
    typeof value === "number" && context?.source && String(value) !== context.source
      ? new Exact(value, context.source)
      : value,
  );
}

const number = (value) =>
  value instanceof Exact ? value.value : typeof value === "number" ? value : null;
const list = (value) => (Array.isArray(value) ? value : []);
const isMapping = (value) =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Exact);

function shown(value) {
  if (value === undefined) return "";
  if (typeof value === "string") return value;
  if (value instanceof Exact) return value.source;
  return JSON.stringify(value, null, 2);
}

function decimal(value) {
  const plain = number(value);
  if (plain === null) return "—";
  return Number.isInteger(plain) ? plain.toFixed(1) : String(Number(plain.toPrecision(12)));
}

function short(value, digits = 4) {
  const plain = number(value);
  if (plain === null) return "—";
  if (Number.isInteger(plain)) return String(plain);
  return Math.abs(plain) >= 0.001 && Math.abs(plain) < 1e6 ? String(Number(plain.toFixed(digits))) : plain.toPrecision(3);
}

const milliseconds = (value) => {
  const ms = number(value);
  if (ms === null) return "—";
  return ms < 1000 ? `${ms < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`;
};
const cut = (text, length) => (text.length > length ? `${text.slice(0, length).replace(/[\uD800-\uDBFF]$/, "")}…` : text);
const counted = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;
const joined = (words) =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;

function clock(iso) {
  const moment = new Date(iso);
  if (Number.isNaN(moment.getTime())) return el("span", {}, shown(iso));
  const today = moment.toDateString() === new Date().toDateString();
  const text = today ? moment.toLocaleTimeString() : moment.toLocaleString();
  return el("time", { datetime: moment.toISOString(), title: moment.toISOString() }, text);
}

function ago(iso) {
  const seconds = Math.max(0, Math.round((Date.now() - new Date(iso).getTime()) / 1000));
  if (seconds < 90) return `${seconds} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 129600 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} days ago`;
}

// Calls

class Trouble extends Error {
  constructor(status, detail, errors = {}) {
    super(detail);
    this.status = status;
    this.errors = isMapping(errors) ? errors : {};
  }
}

const addressOf = (path) => new URL(path, here).href;

function keptToken() {
  try {
    return localStorage.getItem(TOKEN_KEY) ?? heldToken;
  } catch {
    return heldToken;
  }
}

function keepToken(token) {
  heldToken = token;
  try {
    if (token) localStorage.setItem(TOKEN_KEY, token);
    else localStorage.removeItem(TOKEN_KEY);
  } catch {
    // The browser refuses storage (a sandboxed frame): the token lives as long as the page.
  }
}

// fetch takes one character for each byte of a header, so a token beyond Latin-1 would throw.
const byteString = (text) => Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");

async function call(method, path, body, signal) {
  const token = keptToken();
  const headers = token ? { Authorization: `Bearer ${byteString(token)}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const sent = body === undefined ? undefined : JSON.stringify(body);
  let response;
  let text;
  try {
    response = await fetch(addressOf(path), { method, headers, body: sent, signal, cache: "no-store", redirect: "manual" });
    text = await response.text();
  } catch (cause) {
    if (cause.name === "AbortError") throw cause;
    if (window.origin === "null") {
      throw new Trouble(0, "The frame around this page is a sandbox that lets it call nothing: give it allow-same-origin, or open the page by itself.");
    }
    throw new Trouble(0, `The service cannot be reached at ${addressOf(".")}. Is it still running? Nothing you typed is lost.`);
  }
  if (response.type === "opaqueredirect") {
    throw new Trouble(0, "The address answers with a redirect, perhaps to a sign-in page. Reload this page and sign in.");
  }
  let answer = {};
  try {
    answer = parsed(text);
  } catch {
    // A portal around this service refuses with a page of its own.
    if (![401, 403].includes(response.status)) throw new Trouble(response.status, `The address answered ${response.status}, but not in JSON. Something else, such as a proxy, may stand in between.`);
  }
  if (response.ok) return { body: answer, text };
  const trouble = new Trouble(response.status, inWords(response.status, answer, Boolean(token)), answer?.errors);
  if (response.status === 401) openToken(trouble.message);
  throw trouble;
}

function inWords(status, problem, hadToken) {
  const detail = shown(problem?.detail ?? problem?.title ?? `status ${status}`);
  if (status === 401) {
    return hadToken
      ? "The service refused the token that this browser keeps. Enter the right one."
      : "This service asks for a token before it answers.";
  }
  if (status === 403) return `Not allowed: ${detail}`;
  return detail.charAt(0).toUpperCase() + detail.slice(1);
}

function told(trouble, retry) {
  return el(
    "div.trouble",
    { role: "alert" },
    el("p", {}, trouble.message),
    trouble.status === 401 && el("button.quiet", { type: "button", click: () => openToken(trouble.message) }, "Enter the token"),
    trouble.status !== 401 && retry && el("button.quiet", { type: "button", click: retry }, "Try again"),
  );
}

// Copying

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Plain http on a LAN address has no clipboard object; the old command still works there.
    const area = el("textarea.hidden", { "aria-hidden": "true", tabindex: "-1" });
    const before = document.activeElement;
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    before?.focus?.({ preventScroll: true });
    return done;
  }
}

function copyButton(label, text, name = label) {
  const button = el("button.quiet.copy", { type: "button", "aria-label": name === label ? null : `${label}: ${name}` }, label);
  button.addEventListener("click", async () => {
    const done = await copied(typeof text === "function" ? text() : text);
    button.textContent = done ? "Copied" : "Not copied";
    byId("said").textContent = done ? `${name}: copied` : "The browser did not let this page copy.";
    setTimeout(() => (button.textContent = label), 1500);
  });
  return button;
}

// Stores in the roster

const HEMISPHERES = { seren_loci: "cyan", seren_memory: "coral" };
const rowOf = (name) => list(state.roster?.stores).find((row) => row.name === name && !String(row.status).startsWith("skipped"));
const hemisphere = (type) => (Object.hasOwn(HEMISPHERES, type) ? HEMISPHERES[type] : "violet");
const hueOf = (name) => hemisphere(rowOf(name)?.type);

function badge(name) {
  const type = rowOf(name)?.type;
  return el(`span.badge.${hemisphere(type)}`, { title: type ?? false }, el("span.dot"), named(name));
}
