// Elements, requests and small things that every view needs.

/** An element: make("button.primary", {onclick, "aria-label": "Send"}, "Send"). Texts are never read as HTML. */
export function make(what, given = {}, ...children) {
  const [name, ...classes] = what.split(".");
  const element = document.createElement(name || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "hidden" || key === "disabled" || key === "open" || key === "value") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((one) => one !== undefined && one !== null && one !== false));
  return element;
}

const CLIP = '<svg class="paperclip" viewBox="0 0 24 24" width="15" height="15" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d="M21 11.5l-8.6 8.6a5.4 5.4 0 0 1-7.6-7.6l8.9-8.9a3.6 3.6 0 0 1 5.1 5.1l-8.9 8.9a1.8 1.8 0 0 1-2.5-2.5l8.2-8.2"/></svg>';

/** The name of a file behind a paperclip, which is drawn, so that no font has to have it. */
export function fileLabel(name) {
  const shown = make("span.file-label");
  shown.innerHTML = CLIP;
  shown.append(name);
  return shown;
}

export class Problem extends Error {
  constructor(text, status) {
    super(text);
    this.status = status;
  }
}

/** Ask the server; the JSON that it answers. Throws a Problem with a sentence. */
export async function ask(path, body, method = body === undefined ? "GET" : "POST") {
  let answer;
  const isJson = body !== undefined && !(body instanceof Blob);
  try {
    answer = await fetch(path, {
      method,
      body: isJson ? JSON.stringify(body) : body,
      headers: isJson ? { "content-type": "application/json" } : {},
    });
  } catch {
    throw new Problem("The assistant cannot be reached at the moment.", 0);
  }
  const found = await answer.json().catch(() => ({}));
  if (answer.status === 401) document.dispatchEvent(new Event("signed-out"));
  if (!answer.ok) throw new Problem(found.error || "That did not work.", answer.status);
  return found;
}

/** A sentence at the edge of the page, gone after a while; with an action it stays until it is used or closed. */
export function tell(text, label, action) {
  const state = document.getElementById("state");
  const close = () => shown.remove();
  const shown = make("div.toast", {}, make("span", {}, text));
  if (label) shown.append(make("button.link", { type: "button", onclick: () => (close(), action()) }, label));
  shown.append(make("button.link", { type: "button", "aria-label": "Close this message", onclick: close }, "✕"));
  state.replaceChildren(shown);
  if (!label) setTimeout(close, 6000);
  return close;
}

export const newId = () => [...crypto.getRandomValues(new Uint8Array(9))].map((one) => one.toString(36).padStart(2, "0")).join("");

const time = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long", year: "numeric" });
const short = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

export const clock = (iso) => time.format(new Date(iso));
export const dayOf = (iso) => day.format(new Date(iso));

/** "14:05" today, else with its day: "Sat 7 Mar, 07:00". */
export function moment(iso) {
  const then = new Date(iso), now = new Date(), year = then.getFullYear() === now.getFullYear() ? {} : { year: "numeric" };
  if (then.toDateString() === now.toDateString()) return time.format(then);
  return `${then.toLocaleDateString(undefined, { weekday: "short", day: "numeric", month: "short", ...year })}, ${time.format(then)}`;
}

/** "14:05" today, "3 Mar" before. */
export function when(iso) {
  if (!iso) return "";
  const then = new Date(iso);
  return then.toDateString() === new Date().toDateString() ? time.format(then) : short.format(then);
}
