// What a conversation is made of: words, tools, notes. Each is an element that is drawn again when it changes.

import { ask, clock, fileLabel, make, tell } from "./dom.js";

/** The element of an item. `app` says and does things in the conversation: { key, say, retry, edit, branch, rewind }. */
export function draw(item, app) {
  const drawn = { said, text, tool, note, broken }[item.kind]?.(item, app) || make("div");
  drawn.dataset.id = item.id;
  if (item.row) drawn.dataset.row = item.row;
  if (item.at) drawn.dataset.at = item.at;
  return drawn;
}

/** Small buttons that appear on a message: [label, name for a screen reader, what it does, when it is there]. */
const acts = (...buttons) => make("span.acts", {}, ...buttons.filter(Boolean).map(([label, name, act, where]) =>
  make(`button.act.${where}`, { type: "button", "aria-label": name, title: name, onclick: act }, label)));

function said(item, app) {
  const time = item.at ? make("time", { datetime: item.at }, clock(item.at)) : undefined;
  const drawn = make(item.waits ? "article.said.waits" : "article.said", { "aria-label": item.waits ? "You, waiting" : "You" });
  const row = () => Number(drawn.dataset.row);
  drawn.append(
    make("div.words", {}, item.text, ...(item.names || []).flatMap((one, at) => [at || item.text ? "\n" : "", fileLabel(one)])),
    make("footer", {}, acts(
      ["Copy", "Copy this message", () => copy(item.text), "always"],
      item.waits && ["Take back", "Take back: this waits, and is not begun", () => app.withdraw(item), "always"],
      ["Edit", "Edit and send again", () => app.edit(row()), "last"],
      ["Branch", "Branch: a new conversation with all up to here", () => app.branch(row()), "placed"],
      ["Back to here", "Take back this message and all after it", () => app.rewind(row()), "placed"]),
    time));
  return drawn;
}

function text(item, app) {
  const words = make("div.words");
  words.innerHTML = item.html; // cleaned by the server
  if (item.grows && !words.querySelector(".tail")) words.append(make("div.tail"));
  const drawn = make("article.text", { "aria-label": "Assistant" }, words);
  dress(words);
  if (item.long) drawn.append(make("button.link", { type: "button", onclick: (event) => whole(item, app, words, event.target) }, "Show all of it"));
  if (item.interrupted) words.append(make("span.interrupted", { title: "This answer is not complete." }, " […]"));
  if (item.files?.length) drawn.append(files(item.files));
  if (item.buttons?.length) drawn.append(buttons(item.buttons, app.say));
  if (item.html && !item.grows) drawn.append(make("footer", {}, acts(
    ["Copy", "Copy this answer", () => copy(words.innerText), "always"],
    ["Retry", "Ask again", () => app.retry(), "last"])));
  return drawn;
}

/** A long text is loaded when somebody wants to read it. */
async function whole(item, app, words, button) {
  button.disabled = true;
  try {
    words.innerHTML = (await ask(`/api/text?c=${encodeURIComponent(app.key)}&id=${item.id}`)).html;
    dress(words);
    button.remove();
  } catch (problem) {
    button.disabled = false;
    tell(problem.message);
  }
}

/** A turn that did not come to its end says so, and what can be done about it. */
function broken(item, app) {
  const drawn = make("p.broken", {}, item.text);
  const below = item.acts.length ? buttons(item.acts, app.say) : make("div.buttons");
  if (item.retry) below.append(make("button", { type: "button", onclick: () => app.retry() }, "Try again"));
  return make("div.cut", { role: "note" }, drawn, below);
}

/** Files of an answer: pictures are shown, voice notes can be played, others can be saved. */
function files(list) {
  const below = make("div.files");
  for (const { name, url } of list) {
    if (/\.ogg$/i.test(name)) {
      below.append(make("audio", { src: url, controls: true, preload: "none", "aria-label": "Voice note" }));
      continue;
    }
    const isPicture = /\.(png|jpe?g|gif|webp)$/i.test(name);
    below.append(make("a", { href: url, target: "_blank", rel: "noopener", download: isPicture ? null : name },
      isPicture ? make("img", { src: url, alt: name, loading: "lazy" }) : fileLabel(name)));
  }
  return below;
}

function buttons(list, say) {
  const below = make("div.buttons");
  for (const [label, words] of list) {
    const press = () => (below.querySelectorAll("button").forEach((one) => (one.disabled = true)), say(words));
    below.append(make("button", { type: "button", onclick: press }, label));
  }
  return below;
}

/** Copy buttons at the code in a text. */
export function dress(words) {
  for (const block of words.querySelectorAll("pre")) {
    if (block.parentElement.classList.contains("code")) continue;
    const around = make("div.code");
    block.replaceWith(around);
    block.tabIndex = 0;
    around.append(block, make("button.copy", { type: "button", onclick: () => copy(block.textContent) }, "Copy"));
  }
  for (const table of words.querySelectorAll("table")) {
    if (!table.parentElement.classList.contains("wide")) {
      const around = make("div.wide", { tabindex: 0, role: "region", "aria-label": "Table" });
      table.replaceWith(around);
      around.append(table);
    }
  }
}

export async function copy(words) {
  try {
    await navigator.clipboard.writeText(words);
    tell("Copied.");
  } catch {
    tell("This browser did not let the page copy.");
  }
}

const SIGNS = { running: "…", done: "✓", failed: "✗", refused: "–", broken: "✗" };
const STATES = { running: " runs", done: "", failed: " failed", refused: " was not allowed", broken: " was broken off" };

function tool(item, app) {
  const inside = make("div.inside");
  const drawn = make("details.tool", { class: `tool ${item.state}` },
    make("summary", {},
      make("span.sign", { "aria-hidden": "true" }, SIGNS[item.state]),
      make("span.name", {}, item.name),
      make("span.arguments", {}, brief(item.arguments)),
      make("span.about", {}, item.seconds >= 1 ? `${item.seconds} s` : "", STATES[item.state])),
    make("div.progress", {}), inside);
  drawn.dataset.call = item.call || "";
  if (item.parent) drawn.classList.add("part");
  drawn.title = STATES[item.state].trim() || item.preview || "done";
  drawn.addEventListener("toggle", () => drawn.open && !inside.firstChild && unfold(item, app.key, inside));
  return drawn;
}

const MAIN = ["path", "file", "command", "query", "pattern", "url", "name", "text", "id"];

/** The action and the main argument of a call on one line, as a terminal shows them; all of it stands inside. */
function brief(text) {
  try {
    const { action = "", ...found } = JSON.parse(text);
    const values = [...MAIN.map((name) => found[name]), ...Object.values(found)];
    const main = values.find((one) => typeof one === "string" || typeof one === "number") ?? "";
    return `${action} ${main}`.trim().replace(/\s+/g, " ");
  } catch {
    return text.replace(/\s+/g, " ");
  }
}

async function unfold(item, key, inside) {
  if (!item.number && !item.row) return inside.replaceChildren(make("pre", { tabindex: 0 }, item.arguments));
  inside.replaceChildren(make("p.quiet", {}, "loading …"));
  try {
    const found = await ask(`/api/output?c=${encodeURIComponent(key)}&${item.row ? `row=${item.row}` : `number=${item.number}`}`);
    inside.replaceChildren(
      make("pre", { tabindex: 0, "aria-label": "Call" }, pretty(found.arguments)),
      found.diff ? diff(found.diff) : "",
      found.text ? make("pre", { tabindex: 0, "aria-label": "Output" }, found.text) : make("p.quiet", {}, "no output"));
  } catch (problem) {
    const again = make("button.link", { type: "button", onclick: () => unfold(item, key, inside) }, "Try again");
    inside.replaceChildren(make("p.quiet", {}, `${problem.message} `, again));
  }
}

function pretty(text) {
  try {
    return Object.entries(JSON.parse(text)).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join("\n");
  } catch {
    return text;
  }
}

function diff(text) {
  const block = make("pre.diff", { tabindex: 0, "aria-label": "Changes" });
  for (const line of text.split("\n")) {
    const kind = line[0] === "+" ? ".added" : line[0] === "-" ? ".removed" : "";
    block.append(make(`span${kind}`, {}, `${line}\n`));
  }
  return block;
}

function note(item) {
  return make("p.note", { class: `note ${item.what}` }, item.text);
}
