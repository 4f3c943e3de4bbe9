// Views that are made of cards: what a card is made of, and what its buttons do.

import { ask, make, tell, when } from "./dom.js";
import { copy, dress } from "./items.js";
import { listen } from "./stream.js";

/**
 * A view with a title; what is told `late` is filled in once the rest is there. `compose` makes its cards of what the server tells for it: { title, rows, html, form, acts, plot, empty }.
 * A row has { text or html, about, share, acts, talk, more }: its part of all, a conversation that it leads to, and lines to unfold. A button, of a row or a card,
 * has { label, command, c, asks, show }: the conversation of the command, what is asked first, and what shows its answer below.
 */
export const cards = (title, compose, late = "") => (main, _, { openSide, titleOf }) => {
  const log = make("div.cards", { tabindex: -1 });
  main.append(
    make("header.bar", {},
      make("button.menu", { type: "button", "aria-label": "Open the list of conversations", onclick: openSide }, "☰"),
      make("h1", {}, title)),
    log,
  );
  let isGone = false, soon, known = {};

  /** What somebody reads or writes just now stays: a field, an answer below a button, lines that are unfolded. */
  const isInUse = () => log.contains(document.activeElement?.closest("input")) || log.querySelector("details[open], .answer:not(:empty)");

  async function load(isAsked) {
    try {
      for (const part of late ? [`without=${late}`, `only=${late}`] : [""]) {
        known = { ...known, ...(await ask(`/api/view/${title.toLowerCase()}?${part}`)) };
        if (!isGone && (isAsked || !isInUse())) log.replaceChildren(...compose(known, titleOf).filter(Boolean).map(card));
      }
    } catch (problem) {
      if (problem.status !== 401) tell(problem.message, "Try again", load);
    }
  }

  function card(one) {
    const { title: name, rows = [], acts = [] } = one, answer = make("div.answer", { role: "status" });
    const parts = [make("h2", {}, name)];
    if (one.plot?.length) parts.push(plot(one.plot), axis(one.plot));
    if (one.html) parts.push(words(one.html));
    if (rows.length) parts.push(list(rows));
    if (one.empty && !rows.length && !one.html) parts.push(make("p.quiet", {}, ...coded(one.empty)));
    if (acts.length) parts.push(make("p.acts-of-card", {}, ...acts.map((act) => button(act, answer))), answer);
    if (one.form) parts.push(form(one.form));
    return make("section.card", { "aria-label": name }, ...parts);
  }

  const coded = (text) => text.split(/`+([^`]+)`+/).map((part, number) => (number % 2 ? make("code", {}, part) : part));
  const list = (rows) => make("ul.rows", {}, ...rows.map(row));

  function row(one) {
    const said = one.html ? [words(one.html)] : coded(one.text);
    const what = one.talk ? [make("a", { href: `#/talk/${encodeURIComponent(one.talk)}` }, ...said)] : said;
    const answer = make("div.answer", { role: "status" });
    const more = one.more?.length > 1 && make("details", {}, make("summary", {}, one.more[0]), one.more.slice(1).join(", "));
    return make("li", {}, make("div.what", {}, ...what, one.about && make("span", {}, one.about), one.share && bar(one.share * 100), more),
      ...(one.acts || []).map((act) => button(act, answer)), answer);
  }

  function button(act, answer) {
    const press = async ({ target }) => {
      if (act.asks && !confirm(act.asks)) return;
      if (act.copy) return copy(act.copy);
      target.disabled = true;
      if (act.show) answer.replaceChildren(make("p.quiet", {}, act.wait || "…"));
      try {
        const said = await ask("/api/do", { command: act.command, c: act.c });
        if (act.show) answer.replaceChildren(act.show === true ? words(said.html) : list(act.show(said.data)));
        else {
          told(said.html);
          await load(true);
        }
      } catch (problem) {
        if (act.show) answer.replaceChildren(make("p.problem", {}, problem.message));
        else tell(problem.message);
      }
      target.disabled = false;
    };
    return make("button", { type: "button", onclick: press }, act.label);
  }

  function form(one) {
    const id = `field-${one.command.replaceAll(" ", "-")}`;
    const field = make("input", { id, type: "text", required: true, autocomplete: "off" });
    const answer = make("div.answer", { role: "status" });
    const send = async (event) => {
      event.preventDefault();
      const said = await ask("/api/do", { command: `${one.command} ${field.value}` }).catch((problem) => tell(problem.message));
      if (!said?.html) return;
      field.value = "";
      if (one.stays) return answer.replaceChildren(words(said.html));
      field.blur();
      told(said.html);
      await load(true);
    };
    return make("form", { onsubmit: send }, make("label", { for: id }, one.label), field, make("button", { type: "submit" }, one.button), answer);
  }

  const stop = listen(({ event, afresh }) => {
    if (!afresh && !["ended", "paused"].includes(event?.t)) return;
    clearTimeout(soon);
    soon = setTimeout(load, 500);
  });
  load();
  return () => {
    isGone = true;
    clearTimeout(soon);
    stop();
  };
};

/** HTML that the server has made of Markdown, and cleaned. */
function words(html) {
  const shown = make("div.words");
  shown.innerHTML = html;
  dress(shown);
  shown.querySelectorAll("table").forEach(pictured);
  return shown;
}

/** A table with a column "share" has a bar below the first word of each row. */
function pictured(table) {
  const place = [...table.querySelectorAll("th")].findIndex((one) => one.textContent === "share");
  for (const row of place < 0 ? [] : table.querySelectorAll("tbody tr")) {
    row.cells[0].append(bar(parseFloat(row.cells[place]?.textContent) || 0));
  }
}

function bar(percent) {
  const shown = make("span.bar-of-share", { "aria-hidden": "true" });
  shown.style.width = `${percent}%`;
  return shown;
}

const told = (html) => tell(words(html).textContent.trim().slice(0, 300));

/** The first and the last day of a plot, and what its highest bar stands for. */
function axis(bars) {
  const highest = bars.reduce((one, other) => (other[1] > one[1] ? other : one));
  return make("p.axis", { "aria-hidden": "true" }, make("span", {}, when(`${bars[0][0]}T12:00`)), make("span", {}, `most: ${highest[2]}`), make("span", {}, "today"));
}

/** Bars, the highest one as high as the plot; each says what it stands for when it is pointed at, or read aloud. */
function plot(bars) {
  const svg = (name, given, ...children) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(given)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const highest = Math.max(1, ...bars.map(([, size]) => size)), width = 300 / bars.length;
  const bar = ([name, size, about], number) => {
    const title = svg("title", {}, `${name}: ${about}`), height = (size / highest) * 96;
    return svg("rect", { x: number * width + 1, width: width - 2, y: 99 - height, height, rx: 1 }, title);
  };
  const label = `Tokens by day, ${bars[0][0]} to ${bars.at(-1)[0]}; the most in a day: ${highest.toLocaleString()}`;
  return svg("svg", { viewBox: "0 0 300 100", preserveAspectRatio: "none", class: "plot", role: "img", "aria-label": label },
    svg("line", { x1: 0, x2: 300, y1: 99.5, y2: 99.5 }), ...bars.map(bar));
}
