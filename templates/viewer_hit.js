// One hit: where it came from, why it stands where it stands, and everything its store said about it.

const FOLD_CHARACTERS = 600;
const MARKED_CHARACTERS = 20000;
const METADATA_ROWS = 40;
const UNSPACED = "\\p{sc=Han}\\p{sc=Hiragana}\\p{sc=Katakana}\\p{sc=Thai}"; // scripts without spaces between words
// Words that say nothing of a memory: left unmarked beside others.
const FILLERS = new Set("a an and are as at be by did do does for from how in is it of on or that the to was what when where which who why with".split(" "));
const WORD = new RegExp(`[${UNSPACED}]+|(?:(?![${UNSPACED}])[\\p{L}\\p{M}\\p{N}_])+`, "gu");

function marker(query) {
  const words = new Set((query.toLowerCase().match(WORD) ?? []).slice(0, 200));
  const unspaced = [...words].filter((word) => new RegExp(`[${UNSPACED}]`, "u").test(word));
  const telling = [...words].filter((word) => !FILLERS.has(word));
  const wanted = new Set(telling.length ? telling : words);
  const inside = (run) => unspaced.find((word) => run.includes(word));
  return (text) => {
    const parts = [];
    let from = 0;
    for (const match of text.slice(0, MARKED_CHARACTERS).matchAll(WORD)) {
      const run = match[0].toLowerCase();
      const part = wanted.has(run) ? match[0] : inside(run); // lower case may be longer than the text
      if (!part) continue;
      const begin = match.index + (part === match[0] ? 0 : run.indexOf(part));
      parts.push(text.slice(from, begin), el("mark", {}, text.slice(begin, begin + part.length)));
      from = begin + part.length;
    }
    parts.push(text.slice(from));
    return parts;
  };
}

function foldable(text, mark) {
  if (text.length <= FOLD_CHARACTERS) return el("p.content", { dir: "auto" }, mark(text));
  const content = el("p.content", { dir: "auto" });
  const button = el("button.quiet", { type: "button", "aria-expanded": "false" });
  const fold = (folded) => {
    content.replaceChildren(...mark(folded ? cut(text, FOLD_CHARACTERS) : text));
    button.setAttribute("aria-expanded", String(!folded));
    button.textContent = folded ? `Show all ${text.length.toLocaleString("en")} characters` : "Fold";
  };
  button.addEventListener("click", () => fold(button.getAttribute("aria-expanded") === "true"));
  fold(true);
  return el("div", {}, content, button);
}

// A fact is shown in its parts only if they make up its content, so that nothing the content says is lost.
function factOf(hit) {
  const { key, value, why } = isMapping(hit.metadata) ? hit.metadata : {};
  const [k, v, w] = [key, value, why].map((part) => (part === null || part === undefined ? "" : shown(part)));
  const sentence = [k, v].filter(Boolean).join(" = ") + (w && ` because ${w}`);
  return k && v && sentence === hit.content ? { key: k, value: v, why: w } : null;
}

function textOf(hit, mark) {
  const fact = factOf(hit);
  if (!fact) return hit.content ? foldable(hit.content, mark) : el("p.content.muted", {}, "(no text)");
  return el(
    "div.fact",
    {},
    el("span.key", { dir: "auto" }, mark(fact.key)),
    el("span.equals", { "aria-label": "is" }, "="),
    fact.value.length > FOLD_CHARACTERS ? foldable(fact.value, mark) : el("span.value", { dir: "auto" }, mark(fact.value)),
    fact.why && el("div.why", {}, el("span.because", {}, "because "), foldable(fact.why, mark)),
  );
}

function journey(hit) {
  const steps = list(hit.metadata?.via).filter(isMapping).slice(0, 8);
  return steps.map((step) => el("span.step", {}, " › ", named(shown(step.store)), ` #${shown(step.store_rank)}`));
}

function arithmetic(hit, answer) {
  const weight = list(answer.stores).find((row) => row.name === hit.store)?.weight;
  return `${decimal(weight)} / (${shown(answer.k)} + ${shown(hit.store_rank)}) = ${short(hit.score)}`;
}

function standing(position, hit, answer) {
  if (position === 1) return "Nothing scores higher, so it leads.";
  const before = answer.hits.slice(0, position - 1);
  const equal = before.filter((other) => number(other.score) === number(hit.score)).length;
  const higher = before.length - equal;
  const parts = [];
  if (higher) parts.push(`${counted(higher, "hit")} above ${higher === 1 ? "has" : "have"} a higher score`);
  if (equal) {
    parts.push(`${counted(equal, "hit")} above ${equal === 1 ? "has" : "have"} the same score and ${equal === 1 ? "comes" : "come"} from a store listed earlier`);
  }
  const same = equal && before.some((other) => other.store === hit.store && number(other.score) === number(hit.score));
  const words = joined(parts);
  return `It is number ${position}: ${same ? words.replace("listed earlier", "listed earlier, or ranked before it in its own") : words}.`;
}

function details(position, hit, answer) {
  const sum = arithmetic(hit, answer);
  return [
    el(
      "div.part",
      {},
      el("h4", {}, "Why it stands here"),
      el("p.sum", {}, mono(sum), copyButton("copy", sum, "Arithmetic")),
      el("p.muted", {}, "weight of ", named(hit.store), " / (k + its rank there) = score. ", standing(position, hit, answer)),
    ),
    el(
      "div.part",
      {},
      el("h4", {}, "What its own store thought of it"),
      el(
        "p.muted",
        {},
        `Relevance ${short(hit.base_relevance)} (only the floor reads it), own score ${short(hit.native_score)}, `,
        `distance ${short(hit.raw_distance)}. None of them moves the order: numbers of two stores cannot be compared.`,
      ),
    ),
    el("div.part", {}, el("h4", {}, "Id"), hit.id === "" ? el("p.muted", {}, "none") : el("p.sum", {}, mono(hit.id), copyButton("copy", hit.id, "Id"))),
    metadataPart(hit.metadata),
  ];
}

function metadataPart(metadata) {
  const entries = Object.entries(isMapping(metadata) ? metadata : {});
  const part = el("div.part", {}, el("h4", {}, "Metadata"));
  if (!entries.length) {
    part.append(el("p.muted", {}, "none"));
    return part;
  }
  part.firstChild.append(" ", copyButton("copy", () => shown(metadata), "Metadata"));
  const table = el("dl.metadata");
  const show = (some) => {
    for (const [key, value] of some) table.append(el("dt", {}, el("bdi", {}, key)), el("dd", { dir: "auto" }, shown(value)));
  };
  show(entries.slice(0, METADATA_ROWS));
  part.append(table);
  if (entries.length > METADATA_ROWS) {
    const rest = entries.length - METADATA_ROWS;
    const button = el("button.quiet", { type: "button" }, `Show ${rest.toLocaleString("en")} more`);
    button.addEventListener("click", () => {
      show(entries.slice(METADATA_ROWS));
      button.remove();
    });
    part.append(button);
  }
  return part;
}

function hitItem(position, hit, answer, mark) {
  const id = `hit-${position}`;
  const panel = el("div.details", { id: `${id}-details`, hidden: true });
  const line = el(
    "button.provenance",
    { type: "button", "aria-expanded": "false", "aria-controls": panel.id },
    el("span.fold"),
    el("span.hidden", {}, `Why hit ${position} is here: `),
    [["rrf", hit.score], ["rel", hit.base_relevance], ["native", hit.native_score], ["d=", hit.raw_distance]].map(
      ([name, value]) => el("span.number", {}, el("span.of", {}, name), short(value)),
    ),
  );
  line.addEventListener("click", () => unfold(line, line.getAttribute("aria-expanded") !== "true"));
  line.fill = () => panel.append(...details(position, hit, answer));
  return el(
    `li.hit.${hueOf(hit.store)}`,
    { id },
    el("span.position", { "aria-label": `Position ${position}` }, String(position)),
    el(
      "div.body",
      {},
      el("div.origin", {}, badge(hit.store), el("span.rank", { title: "its rank in that store" }, `#${shown(hit.store_rank)}`), journey(hit)),
      textOf(hit, mark),
      line,
      panel,
    ),
  );
}

function unfold(line, open) {
  const panel = byId(line.getAttribute("aria-controls"));
  if (open && !panel.firstChild) line.fill();
  panel.hidden = !open;
  line.setAttribute("aria-expanded", String(open));
}
