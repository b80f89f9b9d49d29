// The form that adds a store, and the test of a candidate before it is added.

function openForm() {
  byId("add-open").setAttribute("aria-expanded", "true");
  byId("add").hidden = false;
  const types = list(state.roster?.types).map(shown);
  const select = byId("add-type");
  const chosen = select.value;
  if (types.length) select.replaceChildren(...types.map((type) => el("option", { value: type }, type)));
  if (types.includes(chosen)) select.value = chosen;
  byId("add-name").focus();
}

function closeForm() {
  byId("add-open").setAttribute("aria-expanded", "false");
  byId("add").hidden = true;
  byId("add-open").focus();
}

// What was typed as the body of POST /stores; what was left empty is left out.
function candidate(form) {
  const entry = { name: form.elements.namedItem("name").value, type: form.type.value, url: form.url.value.trim() };
  for (const key of ["weight", "floor", "timeout_s"]) {
    const value = typed(form[key].value);
    if (value !== null) entry[key] = value;
  }
  if (form.token.value) entry.token = form.token.value;
  if (!form.enabled.checked) entry.enabled = false;
  const options = form.options.value.trim();
  if (options) {
    try {
      entry.options = JSON.parse(options);
    } catch (cause) {
      throw new Trouble(422, "The options are not JSON", { options: [`expected a JSON object such as {"project": "notes"} (${cause.message})`] });
    }
  }
  return entry;
}

async function sendForm(path, button, then) {
  const form = byId("add");
  const place = byId("add-told");
  clearFaults(form);
  place.replaceChildren(el("p.muted", {}, path === "stores" ? "Adding…" : "Asking it one query…"));
  button.disabled = true;
  try {
    const { body } = await call("POST", path, candidate(form));
    place.replaceChildren();
    await then(body, place, form);
  } catch (cause) {
    if (cause.status === 409) cause.errors = { name: [cause.message] };
    showFaults(form, cause, place);
  } finally {
    button.disabled = false;
  }
}

function showCheck(result, place, form) {
  const seen = result.looks_like;
  const other = seen && seen !== form.type.value;
  const parts = result.ok
    ? [el("p", {}, `It answers in ${milliseconds(result.ms)} with ${counted(number(result.hits) ?? 0, "hit")}${seen ? `, and speaks ${shown(seen)}` : ""}. Nothing was added yet.`)]
    : [el("p", {}, "Not usable like this: ", shown(result.reason))];
  if (other) {
    const adopt = () => {
      form.type.value = seen;
      place.replaceChildren(el("p.muted", {}, "Type changed. Test again, or add it."));
    };
    parts.push(el("button.quiet", { type: "button", click: adopt }, "Set the type to ", named(shown(seen))));
  }
  place.replaceChildren(el(`div.${result.ok ? "well" : "trouble"}`, { role: "status" }, parts));
}

async function showAdded(row, place, form) {
  form.reset();
  closeForm();
  say(`Added: ${row.name}`);
  await refreshRoster();
}

byId("add").addEventListener("submit", (event) => {
  event.preventDefault();
  sendForm("stores", byId("add-save"), showAdded);
});
byId("add-test").addEventListener("click", () => sendForm("stores?check=only", byId("add-test"), showCheck));
byId("add-cancel").addEventListener("click", closeForm);
byId("add-open").addEventListener("click", () => (byId("add").hidden ? openForm() : closeForm()));
byId("add").addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  event.stopPropagation();
  closeForm();
});
