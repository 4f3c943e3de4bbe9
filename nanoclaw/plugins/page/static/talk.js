// The view of one conversation: it is loaded once, then every event changes it.

import { ask, clock, dayOf, fileLabel, make, newId, tell } from "./dom.js";
import { copy, draw, dress } from "./items.js";
import { act, menu, plain } from "./menu.js";
import { compare, listen, watch } from "./stream.js";
import { recorder } from "./voice.js";

const BLOCKS = new Set("P UL OL LI PRE BLOCKQUOTE TABLE TBODY TR TD H1 H2 H3 H4 H5 H6 DIV".split(" "));
const TRIES = ["Remind me tomorrow at 9 to call Anna", "Write a shopping list to list.txt", "What is in my workspace?"];
const NEAR = 600; // pixels from an end of what is loaded, at which more is

/** Show the conversation `key` in an element, from the row `place` on if there is one; returns what takes it away. */
export function talk(main, key, app, place) {
  const elements = new Map();
  let at = "", heardSince = "", waiting = [], runs = false, isGone = false;
  let loads = 0, first = 0, last = 0, isEarlier = false, isLater = false, isLoading = false;
  const own = { key, say: (words) => say(words), retry, edit, branch, rewind, withdraw };

  const log = make("div.log", { role: "log", "aria-label": "Conversation", tabindex: 0 });
  const below = make("button.below", { type: "button", hidden: true, onclick: () => (isLater ? load() : toEnd(true)) }, "New text below ↓");
  const wait = make("p.note.wait", { role: "timer", hidden: true }); // the last line: what a person waits for
  const title = make("h1", {}, app.titleOf(key) || "New conversation");
  const lost = make("span.lost", { hidden: true }, "connecting …");
  const field = make("textarea", { rows: 1, placeholder: "Say something …", "aria-label": "Message", enterkeyhint: "send" });
  const stop = make("button.stop", { type: "button", hidden: true, onclick: () => say("/stop"), "aria-label": "Stop" }, "■");
  const send = make("button.primary.send", { type: "submit", "aria-label": "Send" }, "↑");
  const tray = make("div.tray"), names = make("div.names");
  const chooser = make("input", { type: "file", multiple: true, hidden: true, onchange: () => (attach([...chooser.files]), (chooser.value = "")) });
  const clip = make("button.clip", { type: "button", "aria-label": "Attach files", onclick: () => chooser.click() }, "+");
  const mic = recorder((list) => attach(list)) || "";
  const edits = make("div.edits", { hidden: true }, "Your last message, changed: the answer begins anew. ", make("button.link", { type: "button", onclick: () => endEdit("") }, "Leave it"));
  const form = make("form.composer", { onsubmit: submit }, names, tray, edits, chooser, make("div.box", {}, clip, mic, field, stop, send));
  main.append(
    make("header.bar", {}, make("button.menu", { type: "button", "aria-label": "Conversations", onclick: app.openSide }, "☰"), title, lost,
      menu({ key, title: () => title.textContent, retry, go: app.go, listed: app.refresh, jump: (day) => load(`&on=${day}`) })),
    log, make("div.foot", {}, below, form));

  // --- what is shown

  const talkOf = (query) => ask(`/api/talk?c=${encodeURIComponent(key)}${query}`);

  /** Load the newest part, or the one that a query names; where the reader is stays where it was, if that is loaded. */
  async function load(query = "") {
    const before = !isAtEnd() && !query && !isLater ? placeOf() : undefined;
    const mine = ++loads;
    waiting = [];
    at = "";
    let found;
    try {
      found = await talkOf(query);
    } catch (problem) {
      if (!isGone) tell(problem.message, "Try again", () => load(query));
      return;
    }
    if (isGone || mine !== loads) return;
    log.replaceChildren(wait);
    elements.clear();
    begun = "";
    first = last = 0;
    isEarlier = found.is_earlier;
    draw_(found);
    if (!elements.size) wait.before(welcome());
    if (found.draft && !field.value) (field.value = found.draft), fit();
    if (query) return show(query);
    if (!before) return toEnd(true);
    const there = log.querySelector(`[data-row="${before.row}"]`);
    if (!there) return load(`&at=${before.row}`);
    log.scrollTop += there.getBoundingClientRect().top - before.top;
    below.hidden = isAtEnd();
  }

  /** The message that the reader sees first, and where it stands. */
  function placeOf() {
    const top = log.getBoundingClientRect().top;
    const seen = [...log.querySelectorAll(":scope > [data-row]")].find((one) => one.getBoundingClientRect().bottom > top);
    return seen && { row: seen.dataset.row, top: seen.getBoundingClientRect().top };
  }

  /** Show what comes last of what is loaded, and what happened while it was. */
  function draw_(found) {
    isLater = found.is_later;
    first ||= found.first;
    last = Math.max(last, ...found.items.map((one) => one.row || 0));
    found.items.forEach((item) => put(item));
    if (!isLater) found.live.forEach((item) => put(item));
    below.textContent = isLater ? "To the newest ↓" : "New text below ↓";
    below.hidden = !isLater;
    setRuns(found.runs);
    at = found.at;
    if (hasMissed()) return load();
    const missed = waiting;
    waiting = null;
    missed?.forEach(heard);
    markLast();
  }

  function show(query) {
    const row = query.match(/at=(\d+)/)?.[1];
    const there = row ? log.querySelector(`[data-row="${row}"]`) : log.querySelector("[data-at]");
    const day = query.match(/on=(.*)/)?.[1];
    const target = day ? [...log.querySelectorAll("[data-at]")].find((one) => one.dataset.at.slice(0, 10) >= day) : there;
    if (!target) return toEnd();
    target.scrollIntoView({ block: "start" });
    target.classList.add("found");
    target.tabIndex = -1;
    target.focus({ preventScroll: true });
  }

  async function earlier() {
    if (isLoading || !isEarlier || !first) return;
    isLoading = true;
    try {
      const mine = loads, found = await talkOf(`&before=${first}`);
      if (mine !== loads) return;
      const height = log.scrollHeight, top = log.scrollTop;
      prepend(found.items);
      log.scrollTop = top + log.scrollHeight - height;
      first = found.first || first;
      isEarlier = found.is_earlier && Boolean(found.first);
    } catch (problem) {
      tell(problem.message, "Try again", earlier);
    } finally {
      isLoading = false;
    }
  }

  async function later() {
    if (isLoading || !isLater) return;
    const mine = loads;
    isLoading = true;
    waiting = [];
    try {
      const found = await talkOf(`&after=${last}`);
      if (mine === loads) draw_(found);
    } catch (problem) {
      waiting = null;
      tell(problem.message, "Try again", later);
    } finally {
      isLoading = false;
    }
  }

  const welcome = () => make("div.welcome", {}, make("h2", {}, "What can I do for you?"),
    make("p", {}, "Ask, or give me something to do. I remember, remind you on time, and act with tools. ", make("code", {}, "/help"), " lists what you can say."),
    make("div.tries", {}, ...TRIES.map((words) => make("button", { type: "button", onclick: () => ((field.value = words), fit(), field.focus()) }, words))),
    app.isSmall ? make("p.quiet", {}, "A small model on this machine answers: good for notes, files, reminders and short commands, and slow. ", make("code", {}, "nanoclaw init"), " sets up a better one.") : "",
    app.projects().length ? make("div.projects", {}, make("p", {}, "Or begin in a project:"),
      ...app.projects().map(({ name }) => make("button", { type: "button", onclick: () => say(`/project ${name}`) }, name))) : "");

  function put(item, instead) {
    newsAt = Date.now();
    wait.hidden = true;
    const isProgress = item.id === "notice" && typeof item.fraction === "number";
    done = isProgress && item.fraction < 1 ? `${item.text} ${Math.round(item.fraction * 100)} %` : "";
    if (isProgress) return;
    if (item.id === "notice" || item.what === "status") elements.get(item.id)?.remove();
    if (item.what === "status" && !item.text) return;
    const before = elements.get(item.id) || (instead && elements.get(instead));
    if (instead && !before && !item.buttons?.length) return; // it was loaded with the history
    log.querySelector(".welcome")?.remove();
    if (item.kind === "tool" && before?.open !== undefined && item.state !== "running") item.wasOpen = before.open;
    const drawn = draw(item, own);
    drawn.began = Date.now();
    if (!drawn.dataset.row && before?.dataset.row && item.kind === "said") drawn.dataset.row = before.dataset.row;
    if (item.wasOpen) drawn.open = true;
    const isMoved = item.kind === "said" && Boolean(item.waits) !== Boolean(before?.classList.contains("waits"));
    if (before?.isConnected && !isMoved) before.replaceWith(drawn);
    else {
      before?.remove();
      if (item.at) mayBeginDay(item.at);
      (item.waits ? wait : log.querySelector(":scope > .waits") || wait).before(drawn); // what waits stays below all
    }
    if (instead) elements.delete(instead);
    elements.set(item.id, drawn);
  }

  let begun = ""; // the day of the last message
  const dayLine = (day) => make("div.day", {}, day);
  function mayBeginDay(iso) {
    const found = dayOf(iso);
    if (found !== begun && begun) wait.before(dayLine(found));
    begun = found;
  }

  /** Show what was said before all that is shown. */
  function prepend(items) {
    const above = document.createDocumentFragment(), next = log.querySelector("[data-at]")?.dataset.at;
    let day = "";
    const turn = (iso) => {
      if (day && dayOf(iso) !== day) above.append(dayLine(dayOf(iso)));
      day = dayOf(iso);
    };
    for (const item of items) {
      if (elements.has(item.id)) continue;
      if (item.at) turn(item.at);
      const drawn = draw(item, own);
      elements.set(item.id, drawn);
      above.append(drawn);
    }
    if (next) turn(next);
    log.prepend(above);
  }

  /** Only the last message can be changed or asked again: a command and an answer to a question are none. */
  function markLast() {
    log.querySelectorAll(".is-last").forEach((one) => one.classList.remove("is-last"));
    if (isLater) return;
    const [said, text] = ["said", "text"].map((kind) => [...log.querySelectorAll(`:scope > .${kind}[data-row]`)].at(-1));
    said?.classList.add("is-last");
    if (!said || said.compareDocumentPosition(text || said) & 4) text?.classList.add("is-last"); // of that message
  }

  function heard({ id, event, afresh, state, since }) {
    if (state) (lost.hidden = state === "open"), (newsAt = Date.now());
    if (since) heardSince = since;
    if (since && hasMissed()) return load();
    if (afresh) return isLater || load();
    if (!event) return;
    if (waiting) return waiting.push({ id, event });
    if (event.c !== key) return;
    if (isLater) return event.t === "item" && (below.hidden = false);
    const order = compare(id, at);
    if (Number.isNaN(order)) return load();
    if (order <= 0) return;
    at = id;
    const follows = isAtEnd();
    if (event.t === "elsewhere") return load();
    change(event);
    if (["item", "gone", "began"].includes(event.t)) markLast();
    if (follows) toEnd();
    else if (event.t === "item" || event.t === "text") below.hidden = false;
  }

  /** True if something may have happened after this was loaded, and before the stream told this tab of it. */
  const hasMissed = () => at && heardSince && !isLater && compare(heardSince, at) > 0;

  function change(event) {
    if (event.t === "item") put(event.item, event.instead);
    if (event.t === "text") (newsAt = Date.now()), (wait.hidden = true), grow(event);
    if (event.t === "gone") elements.get(event.id)?.remove();
    if (event.t === "ended" && event.reason !== "failed") elements.delete("notice"); // it stays
    if (event.t === "began") {
      setRuns(true);
      log.querySelectorAll(".cut .buttons").forEach((one) => one.remove());
      const begun_ = elements.get(event.id);
      if (begun_) begun_.dataset.row = event.row;
    }
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
    if (!event.more) return;
    let end = tail; // words go where the last block ends, until it is made HTML again
    while (BLOCKS.has(end.lastChild?.nodeName) || (end.nodeName === "PRE" && end.lastElementChild)) end = end.lastElementChild;
    end.append(event.more);
  }

  /** Tell, each second, what it is that nothing new has come of. */
  let newsAt = Date.now(), done = "";
  function tick() {
    const seconds = Math.round((Date.now() - newsAt) / 1000), follows = isAtEnd(), tool = [...log.querySelectorAll(":scope > .tool.running")].at(-1);
    const what = done || (tool ? `${tool.querySelector(".name").textContent} runs` : `The ${app.isSmall ? "small " : ""}model is at work`);
    const was = wait.hidden;
    wait.hidden = document.hidden || !seconds || (lost.hidden && !runs);
    if (wait.hidden) return;
    wait.textContent = lost.hidden ? `${what} … ${tool && !done ? Math.round((Date.now() - tool.began) / 1000) : seconds} s` : `The assistant cannot be reached since ${clock(newsAt)}. All goes on by itself as soon as it can.`;
    if (was && follows) toEnd();
  }
  const ticking = setInterval(tick, 1000);

  function setRuns(now) {
    runs = now;
    newsAt = Date.now();
    if (!runs) (done = ""), (wait.hidden = true);
    stop.hidden = !runs;
    log.setAttribute("aria-busy", String(runs));
    main.classList.toggle("runs", runs);
  }

  // --- the end of the text

  const isAtEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  function toEnd(anyway) {
    log.scrollTop = log.scrollHeight;
    below.hidden = true;
    if (anyway && !document.activeElement?.closest(".more, [type=search]")) field.focus({ preventScroll: true });
  }
  log.addEventListener("scroll", () => {
    if (log.scrollTop < NEAR) earlier();
    if (isLater && log.scrollHeight - log.scrollTop - log.clientHeight < NEAR) later();
    if (isAtEnd() && !isLater) below.hidden = true;
  }, { passive: true });

  // --- what is done with it

  const tried = async (what) => {
    try {
      return await what();
    } catch (problem) {
      tell(problem.message);
    }
  };

  function retry(model = "") {
    tried(() => act(key, "retry", { argument: model }));
  }

  async function branch(row, argument = "", command = "branch") {
    const found = await tried(() => act(key, command, row ? { row } : { argument }));
    if (!found?.opened) return found && tell(plain(found.html));
    await app.refresh();
    app.go(found.opened);
  }

  async function rewind(row) {
    if (!confirm("Take back this message and all after it?")) return;
    const found = await tried(() => act(key, "rewind", { row }));
    if (!found) return;
    tell(plain(found.html));
    if (!field.value) (field.value = found.text || ""), fit(), keepDraft();
  }

  let edited = 0; // the row of the message that is changed
  async function edit(row, words) {
    const found = words === undefined ? await tried(() => act(key, "edit", { row })) : { text: words };
    if (!found) return;
    edited = row;
    edits.hidden = false;
    field.value = found.text;
    fit();
    field.focus();
  }

  /** Take back what waits; its words return to the field. */
  async function withdraw({ id, text }) {
    if (await tried(() => ask("/api/say", { c: key, id: id.slice(1), withdrawn: true })))
      (field.value ||= text), fit(), keepDraft(), field.focus();
  }

  function endEdit(words) {
    edits.hidden = true;
    field.value = words;
    fit();
    keepDraft();
  }

  async function sendEdit(words) {
    endEdit("");
    if (!(await tried(() => act(key, "edit", { row: edited, argument: words })))) edit(edited, words);
  }

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
    if (!edits.hidden) return sendEdit(words);
    const way = words.match(/^\/(branch|continue)(?:\s+(.*))?$/s);
    field.value = "";
    names.replaceChildren();
    fit();
    keepDraft();
    if (way) return branch(0, way[2] || "", way[1]);
    if (isLater) load();
    if (title.textContent === "New conversation" && words[0] !== "/") title.textContent = words.slice(0, 60);
    say(words, unsent.id && words === unsent.words ? unsent.id : newId(), attached.splice(0));
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
      onclick: () => (attached.splice(attached.indexOf(one), 1), drawAttached()) }, fileLabel(one.name), " ✕")));
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
    if (!field.value) return; // it was sent meanwhile
    names.replaceChildren(...found.filter(([name]) => `/${name}`.startsWith(field.value) && `/${name}` !== field.value).slice(0, 6)
      .map(([name, help]) => make("button.command", { type: "button", onclick: () => ((field.value = `/${name} `), names.replaceChildren(), field.focus()) },
        make("strong", {}, `/${name}`), ` ${help}`)));
  }

  function fit() {
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight, innerHeight * 0.4)}px`;
  }
  field.addEventListener("type-in", ({ detail }) => ((field.value = detail + field.value), fit(), field.focus()));
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
    if (event.key === "Escape" && !edits.hidden) endEdit("");
    else if (event.key === "Escape" && runs) say("/stop");
  });

  const named = () => app.titleOf(key) && (title.textContent = app.titleOf(key));
  document.addEventListener("listed", named);
  const quiet = listen(heard);
  watch(key);
  load(place ? `&at=${place}` : "");
  return () => {
    isGone = true;
    clearInterval(ticking);
    if (mic) mic.leave();
    quiet();
    document.removeEventListener("listed", named);
    removeEventListener("pagehide", left);
  };
}

export { copy };
