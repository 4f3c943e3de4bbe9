// The page: signing in, the list of conversations, and which view is shown.

import { cards } from "./cards.js";
import { ask, make, newId, tell, when } from "./dom.js";
import { house } from "./house.js";
import { knows } from "./knows.js";
import { palette } from "./palette.js";
import { listen, start } from "./stream.js";
import { talk } from "./talk.js";
import { today, waits } from "./today.js";

/** Views by the first word of the address: each is shown in an element, and returns what takes it away. */
const views = { talk, today: cards("Today", today), knows: cards("Knows", knows), house: cards("House", house, "spent") };

const side = document.getElementById("side"), main = document.getElementById("main");
const shade = document.getElementById("shade");
let leave = () => {}, list, search, only = "", model = "", running = new Set(); // `only`: the conversation that a guest may see

async function begin() {
  const code = location.hash.slice(1);
  let wrong; // a link that was used already matters only where this browser is not signed in
  if (code && !code.startsWith("/")) {
    history.replaceState(null, "", "/");
    await ask("/api/login", { code }).catch((problem) => (wrong = problem.message));
  }
  try {
    ({ only } = await ask("/api/start"));
    document.body.classList.toggle("guest", Boolean(only));
  } catch (problem) {
    if (problem.status === 401) return signIn(wrong);
    tell(problem.message, "Try again", () => location.reload());
    return;
  }
  document.addEventListener("signed-out", () => signIn());
  drawSide();
  start();
  listen(heard);
  addEventListener("hashchange", show);
  addEventListener("keydown", keyed);
  document.addEventListener("visibilitychange", () => isStale && refresh());
  const named = only || ask("/api/do", { command: "model" }).then(({ data }) => (model = data.model)).catch(() => {}); // its plugin may be off
  await Promise.all([refresh(), named]);
  const waiting = !only && !location.hash && waits(await ask("/api/view/today").catch(() => ({})));
  if (isShown) return; // the person was quicker
  if (waiting) history.replaceState(null, "", "#/today");
  show();
}

function signIn(problem = "") {
  leave();
  document.body.classList.add("signed-out");
  const field = make("input", { type: "password", id: "code", autocomplete: "current-password", required: true });
  const said = make("p.problem", { role: "alert" }, problem);
  const enter = async (event) => {
    event.preventDefault();
    try {
      // the whole link may be pasted, too
      await ask("/api/login", { code: field.value.trim().split("#").pop() });
      location.replace("/");
    } catch (failure) {
      said.textContent = failure.message;
    }
  };
  main.replaceChildren(
    make("form.sign-in", { onsubmit: enter },
      make("img", { src: "/static/icon.svg", alt: "", width: 48, height: 48 }),
      make("h1", {}, "nanoclaw"),
      make("p", {}, "On the machine where it runs, ", make("code", {}, "nanoclaw web"), " prints a link that signs this browser in."),
      make("label", { for: "code" }, "Link or password"),
      field, said,
      make("button.primary", {}, "Sign in")),
  );
  field.focus();
}

/** Ctrl-K finds and does everything. */
function keyed(event) {
  if (!(event.ctrlKey || event.metaKey) || event.key !== "k" || only || document.querySelector("dialog")) return;
  event.preventDefault();
  const to = (address) => () => (location.hash = address);
  palette({
    places: () => [
      ["New conversation", "", () => go(`page:${newId()}`)],
      ...["Today", "Knows", "House"].map((name) => [name, "view", to(`#/${name.toLowerCase()}`)]),
      ...[...titles].map(([key, title]) => [title || "New conversation", "conversation", () => go(key)]),
    ],
    say: (words) => {
      if (!main.querySelector("textarea")) go(current() || titles.keys().next().value || `page:${newId()}`);
      setTimeout(() => main.querySelector("textarea")?.dispatchEvent(new CustomEvent("type-in", { detail: words })));
    },
    go: (address) => (location.hash = address),
  });
}

// --- the list of conversations

function drawSide() {
  list = make("ul.talks");
  let typed;
  search = make("input", { type: "search", placeholder: "Search", "aria-label": "Search all conversations", oninput: () => {
    clearTimeout(typed);
    typed = setTimeout(refresh, 250);
  } });
  side.replaceChildren(
    make("div.brand", {}, make("img", { src: "/static/icon.svg", alt: "", width: 28, height: 28 }), make("strong", {}, "nanoclaw")),
    make("div.views", {}, ...["Today", "Knows", "House"].map((name) =>
      make("a", { href: `#/${name.toLowerCase()}`, "data-view": name.toLowerCase(), onclick: closeSide }, name))),
    make("button.new", { type: "button", onclick: () => go(`page:${newId()}`), "aria-keyshortcuts": "Control+K", title: "Ctrl-K finds and does everything" }, "+ New conversation"),
    search, list,
  );
  shade.onclick = () => closeSide();
  addEventListener("keydown", (event) => event.key === "Escape" && closeSide());
}

export function openSide() {
  document.body.classList.add("side-open");
  shade.hidden = false;
  side.querySelector("button").focus();
}

function closeSide() {
  document.body.classList.remove("side-open");
  shade.hidden = true;
}

async function refresh() {
  if (only) return;
  try {
    const words = search.value.trim();
    const [found, told] = await Promise.all([
      ask(`/api/talks?words=${encodeURIComponent(words)}`),
      ask("/api/do", { command: "project" }).catch(() => ({})), // its plugin may be off
    ]);
    if (words !== search.value.trim()) return;
    running = new Set(found.running);
    projects = told.data?.projects || [];
    if (!words) titles = new Map(found.talks.map((one) => [one.name, one.title]));
    list.replaceChildren(...found.talks.map(entry), ...found.found.map(hit));
    if (words && !list.firstChild) list.append(make("li.quiet", { role: "status" }, `Nothing was said about “${words}”.`));
    mark();
    document.dispatchEvent(new Event("listed"));
  } catch (problem) {
    if (problem.status !== 401) tell(problem.message, "Try again", refresh);
  }
}

function entry(one) {
  const [channel] = one.name.split(":");
  const of = channel === "page" ? "" : channel;
  const project = projects.find(({ conversations }) => conversations.includes(one.name))?.name;
  return make("li", {},
    make("a", { href: `#/talk/${encodeURIComponent(one.name)}`, "data-c": one.name, onclick: closeSide },
      make("span.title", {}, one.title || "New conversation"),
      make("span.about", {}, [project, of, when(one.last)].filter(Boolean).join(" · "))));
}

/** A message that was found; it opens there. */
function hit(one) {
  const who = one.who === "you" ? "you" : "answer";
  return make("li", {},
    make("a.hit", { href: `#/talk/${encodeURIComponent(one.conversation)}/${one.row}`, onclick: closeSide },
      make("span.about", {}, [titleOf(one.conversation), who, when(one.at)].filter(Boolean).join(" · ")),
      make("span.excerpt", {}, one.excerpt)));
}

function mark() {
  for (const link of list.querySelectorAll("a")) {
    if (link.dataset.c === current()) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    link.classList.toggle("runs", running.has(link.dataset.c));
  }
  for (const link of side.querySelectorAll("a[data-view]")) {
    if (link.dataset.view === location.hash.split("/")[1]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

let soon, isStale = false; // a tab that nobody sees reads the list when it is seen again
function heard({ event, afresh, state }) {
  if (state === "lost") ask("/api/start").catch(() => {}); // perhaps this browser was signed out
  if (event?.t === "began") running.add(event.c);
  if (event?.t === "ended" || event?.t === "paused") running.delete(event.c);
  const isNew = event?.t === "item" && event.c === current() && !titles.has(event.c);
  if (afresh || isNew || ["began", "ended", "paused"].includes(event?.t)) {
    mark();
    clearTimeout(soon);
    soon = setTimeout(() => (isStale = document.hidden) || refresh(), 300);
  }
}

// --- the view

const current = () => decodeURIComponent(location.hash.split("/")[2] || "");
const go = (key) => (location.hash = `#/talk/${encodeURIComponent(key)}`);

let isShown = false;
function show() {
  isShown = true;
  const [, name] = location.hash.split("/");
  if (only && (name !== "talk" || current() !== only)) history.replaceState(null, "", `#/talk/${encodeURIComponent(only)}`);
  else if (!views[name] || (name === "talk" && !current())) {
    const newest = list.querySelector("a")?.dataset.c;
    history.replaceState(null, "", `#/talk/${encodeURIComponent(newest || `page:${newId()}`)}`);
  }
  closeSide();
  leave();
  document.body.classList.remove("signed-out");
  main.replaceChildren();
  leave = views[location.hash.split("/")[1]](main, current(), { openSide, titleOf, refresh, go, projects: () => projects, isSmall: model.startsWith("local/") }, location.hash.split("/")[3]) || (() => {});
  mark();
}

let titles = new Map(), projects = [];
const titleOf = (key) => (only ? "Shared with you" : titles.get(key));

begin();
