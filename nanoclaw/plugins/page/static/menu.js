// What can be done to a conversation, by the commands that a terminal has, too.

import { ask, make, tell } from "./dom.js";
import { copy } from "./items.js";

/** Carry out a command; asks first where something was done since that would stay. Undefined if the person said no. */
export async function act(key, command, more = {}) {
  const found = await ask("/api/act", { c: key, command, ...more });
  if (!found.done) return found;
  const done = found.done.slice(0, 10).map((one) => `- ${one}`).join("\n");
  const question = command === "rewind" ? "Files go back, the rest of this stays done:" : "This was done since then, and stays done:";
  return confirm(`${question}\n${done}\n\nGo on all the same?`) ? act(key, command, { ...more, sure: true }) : undefined;
}

/** HTML of the server as plain words. */
export function plain(html) {
  const shown = make("div");
  shown.innerHTML = html;
  return shown.textContent.trim();
}

/** The menu of a conversation. `app` has { key, title, retry, jump, go, listed }. */
export function menu(app) {
  const close = () => (menu_.open = false);
  const item = (label, what) => make("button", { type: "button", onclick: () => (close(), what()) }, label);
  const save = (label, format) => make("a", { href: `/api/export?c=${encodeURIComponent(app.key)}&format=${format}`, download: "", onclick: close }, label);
  const tried = (what) => async () => {
    try {
      await what();
    } catch (problem) {
      tell(problem.message);
    }
  };
  const rename = tried(async () => {
    const title = prompt("A title for this conversation", app.title());
    if (title?.trim()) await act(app.key, "rename", { argument: title }), await app.listed();
  });
  const goOn = tried(async () => {
    tell("It is being summed up …");
    const found = await act(app.key, "continue");
    await app.listed();
    app.go(found.opened);
    tell(plain(found.html));
  });
  const share = tried(async () => {
    const told = plain((await ask("/api/do", { command: `web guest ${app.key}` })).html);
    tell("A link for one guest, who sees and writes this conversation alone.", "Copy it", () => copy(told.match(/https?:\S+#[\w-]+/g).at(-1)));
  });
  const remove = tried(async () => {
    if (!confirm(`Delete “${app.title()}” for good? What it cost and did stays on record.`)) return;
    const { html } = await act(app.key, "delete");
    await app.listed();
    location.hash = "#/talk";
    tell(plain(html));
  });

  const models = make("select", { id: "again-with", onchange: () => {
    if (models.value) close(), app.retry(models.value);
    models.value = "";
  } }, make("option", { value: "" }, "choose …"));
  const day = make("input", { id: "day", type: "date", onchange: () => day.value && (close(), app.jump(day.value)) });
  const fill = async () => {
    if (!menu_.open || models.options.length > 1) return;
    const { data } = await ask("/api/do", { command: "model" }).catch(() => ({}));
    models.append(...(data?.models || []).map((one) => make("option", {}, one.name)));
  };

  const menu_ = make("details.more", { ontoggle: fill },
    make("summary", { "aria-label": "This conversation" }, "⋯"),
    make("div.menu-items", {},
      item("Rename …", rename),
      make("label", { for: "again-with" }, "Ask the last message again, of another model"), models,
      make("label", { for: "day" }, "Go to a day"), day,
      item("Go on in a new one, with a summary", goOn),
      item("Let a guest in …", share),
      save("Save as Markdown", "markdown"),
      save("Save as JSON", "json"),
      item("Delete …", remove)));
  menu_.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu_.open) return;
    event.stopPropagation();
    close();
    menu_.querySelector("summary").focus();
  });
  menu_.addEventListener("focusout", (event) => event.relatedTarget && !menu_.contains(event.relatedTarget) && close());
  return menu_;
}
