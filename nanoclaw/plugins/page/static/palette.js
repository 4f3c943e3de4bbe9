// Ctrl-K: one field for everything: views, conversations, what was said, commands.

import { ask, make } from "./dom.js";

const MOST = 12;

/** Open the field. `places()` are [label, about, what it does]; `say` puts a command where one types; `go` opens an address. */
export function palette({ places, say, go }) {
  const list = make("ul", { id: "found", role: "listbox", "aria-label": "Found" });
  const field = make("input", { type: "text", role: "combobox", "aria-label": "Find or do anything", placeholder: "Find or do anything …",
    "aria-controls": "found", "aria-expanded": "true", autocomplete: "off" });
  const shown = make("dialog.palette", { "aria-label": "Find or do anything", onclose: () => shown.remove(),
    onclick: (event) => event.target === shown && shown.close() }, field, list);
  let chosen = 0, typed, commands = [], said = [];

  const all = () => [...places(), ...commands, ...said];
  function draw() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = all().filter(([label, about, , always]) => always || words.every((word) => `${label} ${about}`.toLowerCase().includes(word))).slice(0, MOST);
    chosen = Math.max(0, Math.min(chosen, found.length - 1));
    list.replaceChildren(...found.map(([label, about, act], number) => make("li", { id: `found-${number}`, role: "option", "aria-selected": String(number === chosen),
      onclick: () => (shown.close(), act()) }, make("span.label", {}, label), make("span.about", {}, about))));
    if (!found.length) list.append(make("li.quiet", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "Nothing has these words."));
    field.setAttribute("aria-activedescendant", `found-${chosen}`);
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  }

  async function search() {
    const words = field.value.trim();
    const found = words.length > 2 && words[0] !== "/" ? (await ask(`/api/talks?words=${encodeURIComponent(words)}`).catch(() => ({}))).found : [];
    if (words !== field.value.trim()) return;
    said = (found || []).map((one) => [one.excerpt, one.who, () => go(`#/talk/${encodeURIComponent(one.conversation)}/${one.row}`), true]);
    draw();
  }

  field.addEventListener("input", () => {
    chosen = 0;
    said = [];
    draw();
    clearTimeout(typed);
    typed = setTimeout(search, 250);
  });
  field.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) event.preventDefault(), (chosen += step), draw();
    if (event.key === "Enter" && !event.isComposing) event.preventDefault(), list.children[chosen]?.click();
  });
  document.body.append(shown);
  shown.showModal();
  draw();
  ask("/api/commands").catch(() => ({})).then((found) => {
    commands = Object.entries(found).map(([name, help]) => [`/${name}`, help, () => say(`/${name} `)]);
    draw();
  });
}
