// The view of one conversation: it is loaded once, then every event changes it.

import { ask, dayOf, make, newId, tell } from "./dom.js";
import { copy, draw, dress } from "./items.js";
import { compare, listen } from "./stream.js";

/** Show the conversation `key` in an element; returns what takes it away. */
export function talk(main, key, app) {
  const elements = new Map();
  let at = "", waiting = [], runs = false, isGone = false;

  const log = make("div.log", { role: "log", "aria-label": "Conversation", tabindex: 0 });
  const below = make("button.below", { type: "button", hidden: true, onclick: () => toEnd(true) }, "New text below ↓");
  const title = make("h1", {}, app.titleOf(key) || "New conversation");
  const lost = make("span.lost", { hidden: true }, "connecting …");
  const field = make("textarea", { rows: 1, placeholder: "Say something …", "aria-label": "Message", enterkeyhint: "send" });
  const stop = make("button.stop", { type: "button", hidden: true, onclick: () => say("/stop"), "aria-label": "Stop" }, "■");
  const send = make("button.primary.send", { type: "submit", "aria-label": "Send" }, "↑");
  const tray = make("div.tray"), names = make("div.names");
  const chooser = make("input", { type: "file", multiple: true, hidden: true, onchange: () => (attach([...chooser.files]), (chooser.value = "")) });
  const clip = make("button.clip", { type: "button", "aria-label": "Attach files", onclick: () => chooser.click() }, "+");
  const form = make("form.composer", { onsubmit: submit }, names, tray, chooser, make("div.box", {}, clip, field, stop, send));
  main.append(
    make("header.bar", {}, make("button.menu", { type: "button", "aria-label": "Conversations", onclick: app.openSide }, "☰"), title, lost),
    log, make("div.foot", {}, below, form));

  // --- what is shown

  async function load() {
    waiting = [];
    at = "";
    let found;
    try {
      found = await ask(`/api/talk?c=${encodeURIComponent(key)}`);
    } catch (problem) {
      if (!isGone) tell(problem.message, "Try again", load);
      return;
    }
    if (isGone) return;
    log.replaceChildren();
    elements.clear();
    [...found.items, ...found.live].forEach((item) => put(item));
    if (!elements.size) log.append(welcome());
    setRuns(found.runs);
    if (found.draft && !field.value) (field.value = found.draft), fit();
    at = found.at;
    const missed = waiting;
    waiting = null;
    missed.forEach(heard);
    toEnd(true);
  }

  const welcome = () => make("div.welcome", {}, make("h2", {}, "What can I do for you?"),
    make("p", {}, "Ask, or give me something to do. I remember, remind you on time, and act with tools. ", make("code", {}, "/help"), " lists what you can say."));

  function put(item, instead) {
    if (item.id === "notice" || item.what === "status") elements.get(item.id)?.remove();
    if (item.what === "status" && !item.text) return;
    const before = elements.get(item.id) || (instead && elements.get(instead));
    if (instead && !before && !item.buttons?.length) return; // it was loaded with the history
    log.querySelector(".welcome")?.remove();
    if (item.kind === "tool" && before?.open !== undefined && item.state !== "running") item.wasOpen = before.open;
    const drawn = draw(item, key, say);
    if (item.wasOpen) drawn.open = true;
    if (before?.isConnected) before.replaceWith(drawn);
    else {
      if (item.at) mayBeginDay(item.at);
      log.append(drawn);
    }
    if (instead) elements.delete(instead);
    elements.set(item.id, drawn);
  }

  let lastDay = "";
  function mayBeginDay(iso) {
    const found = dayOf(iso);
    if (found !== lastDay && log.querySelector("article, .tool")) log.append(make("div.day", {}, found));
    lastDay = found;
  }

  function heard({ id, event, afresh, state }) {
    if (state) lost.hidden = state === "open";
    if (afresh) return load();
    if (!event) return;
    if (waiting) return waiting.push({ id, event });
    if (event.c !== key) return;
    const order = compare(id, at);
    if (Number.isNaN(order)) return load();
    if (order <= 0) return;
    at = id;
    const follows = isAtEnd();
    if (event.t === "elsewhere") return load();
    change(event);
    if (follows) toEnd();
    else if (event.t === "item" || event.t === "text") below.hidden = false;
  }

  function change(event) {
    if (event.t === "item") put(event.item, event.instead);
    if (event.t === "text") grow(event);
    if (event.t === "gone") elements.get(event.id)?.remove();
    if (event.t === "began") setRuns(true);
    if (event.t === "ended" || event.t === "paused") setRuns(false);
    if (event.t === "progress") {
      const shown = log.querySelector(`.tool[data-call="${CSS.escape(event.call)}"] .progress`);
      if (shown) shown.textContent = event.text;
    }
    if (event.t === "settled") elements.get(event.id)?.querySelectorAll(".buttons button").forEach((one) => (one.disabled = true));
  }

  function grow(event) {
    const words = elements.get(event.id)?.querySelector(".words");
    if (!words) return;
    const tail = words.querySelector(".tail") || words.appendChild(make("div.tail"));
    if (event.add) {
      const closed = document.createElement("template");
      closed.innerHTML = event.add.join("");
      tail.before(closed.content);
      dress(words);
    }
    if (event.tail !== undefined) tail.innerHTML = event.tail;
    if (event.more) (tail.querySelector("pre") || tail).append(event.more);
  }

  function setRuns(now) {
    runs = now;
    stop.hidden = !runs;
    log.setAttribute("aria-busy", String(runs));
    main.classList.toggle("runs", runs);
  }

  // --- the end of the text

  const isAtEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  function toEnd(anyway) {
    log.scrollTop = log.scrollHeight;
    below.hidden = true;
    if (anyway) field.focus({ preventScroll: true });
  }
  log.addEventListener("scroll", () => isAtEnd() && (below.hidden = true), { passive: true });

  // --- what is said

  let unsent = { words: "", id: "" };
  async function say(words, id = newId(), files = []) {
    if (words !== "/stop") {
      put({ id: `i${id}`, kind: "said", text: words, names: files.map((one) => one.name), at: new Date().toISOString() });
      toEnd();
    }
    try {
      await ask("/api/say", { c: key, id, text: words, files: files.map((one) => one.id) });
    } catch (problem) {
      elements.get(`i${id}`)?.remove();
      tell(problem.message);
      if (words === "/stop") return;
      unsent = { words, id }; // it is not lost, and not said twice if it did arrive
      field.value = [words, field.value].filter(Boolean).join("\n");
      attached.unshift(...files);
      drawAttached();
      fit();
      keepDraft();
    }
  }

  function submit(event) {
    event.preventDefault();
    const words = field.value;
    if (!words.trim() && !attached.length) return;
    field.value = "";
    fit();
    keepDraft();
    if (title.textContent === "New conversation" && words[0] !== "/") title.textContent = words.slice(0, 60);
    say(words, words === unsent.words ? unsent.id : newId(), attached.splice(0));
    drawAttached();
  }

  // --- drafts, files and commands

  let drafting;
  function keepDraft() {
    clearTimeout(drafting);
    drafting = setTimeout(() => ask("/api/draft", { c: key, text: field.value }).catch(() => {}), 400);
  }
  const left = () => navigator.sendBeacon("/api/draft", new Blob([JSON.stringify({ c: key, text: field.value })], { type: "application/json" }));
  addEventListener("pagehide", left);

  const attached = [];
  function drawAttached() {
    tray.replaceChildren(...attached.map((one) => make("button.file", { type: "button", "aria-label": `Remove ${one.name}`,
      onclick: () => (attached.splice(attached.indexOf(one), 1), drawAttached()) }, `📎 ${one.name} ✕`)));
  }

  async function attach(list) {
    for (const file of list) {
      try {
        attached.push(await ask(`/api/files?name=${encodeURIComponent(file.name || "picture.png")}`, file));
        drawAttached();
      } catch (problem) {
        tell(problem.message, "Try again", () => attach([file]));
      }
    }
  }
  field.addEventListener("paste", (event) => {
    if (!event.clipboardData.files.length) return;
    event.preventDefault();
    attach([...event.clipboardData.files]);
  });
  main.ondragover = (event) => event.preventDefault();
  main.ondrop = (event) => {
    event.preventDefault();
    attach([...event.dataTransfer.files]);
  };

  let commands;
  async function complete() {
    if (!field.value.startsWith("/")) return;
    commands ||= ask("/api/commands");
    const found = Object.entries(await commands.catch(() => ({})));
    names.replaceChildren(...found.filter(([name]) => `/${name}`.startsWith(field.value) && `/${name}` !== field.value).slice(0, 6)
      .map(([name, help]) => make("button.command", { type: "button", onclick: () => ((field.value = `/${name} `), names.replaceChildren(), field.focus()) },
        make("strong", {}, `/${name}`), ` ${help}`)));
  }

  function fit() {
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight, innerHeight * 0.4)}px`;
  }
  field.addEventListener("input", () => (fit(), keepDraft(), names.replaceChildren(), complete()));
  field.addEventListener("keydown", (event) => {
    const composes = event.isComposing || event.keyCode === 229;
    if (event.key === "Tab" && !event.shiftKey && names.firstChild) {
      event.preventDefault();
      names.firstChild.click();
    }
    if (event.key === "Enter" && !event.shiftKey && !composes) {
      event.preventDefault();
      form.requestSubmit();
    }
    if (event.key === "Escape" && runs) say("/stop");
  });

  const quiet = listen(heard);
  load();
  return () => {
    isGone = true;
    quiet();
    removeEventListener("pagehide", left);
  };
}

export { copy };
