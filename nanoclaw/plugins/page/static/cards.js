// The views Today, Knows and House: cards that the server makes of what commands tell.

import { ask, make, tell, when } from "./dom.js";
import { dress } from "./items.js";
import { listen } from "./stream.js";

/** A view of the server's cards of that name. */
export const cards = (title) => (main, _, { openSide }) => {
  const log = make("div.cards", { tabindex: -1 });
  main.append(
    make("header.bar", {},
      make("button.menu", { type: "button", "aria-label": "Open the list of conversations", onclick: openSide }, "☰"),
      make("h1", {}, title)),
    log,
  );
  let isGone = false, soon;

  async function load() {
    try {
      const found = await ask(`/api/view/${title.toLowerCase()}`);
      if (!isGone && !log.contains(document.activeElement?.closest("input"))) log.replaceChildren(...found.cards.map(card));
    } catch (problem) {
      if (problem.status !== 401) tell(problem.message, "Try again", load);
    }
  }

  async function act(command, question) {
    if (question && !confirm(question)) return;
    try {
      const { html } = await ask("/api/do", { command });
      await load();
      return html;
    } catch (problem) {
      tell(problem.message);
    }
  }

  function card(one) {
    const parts = [make("h2", {}, one.title)];
    if (one.plot.length) parts.push(plot(one.plot), axis(one.plot));
    if (one.text) parts.push(words(one.text));
    if (one.rows.length) parts.push(make("ul.rows", {}, ...one.rows.map(row)));
    if (one.empty && !one.rows.length && !one.text) parts.push(make("p.quiet", {}, one.empty));
    if (one.form) parts.push(form(one.form));
    return make("section.card", {}, ...parts);
  }

  function row(one) {
    const said = one.text.split(/`+([^`]+)`+/).map((part, number) => (number % 2 ? make("code", {}, part) : part));
    const what = one.talk ? [make("a", { href: `#/talk/${encodeURIComponent(one.talk)}` }, ...said)] : said;
    const button = (act_) => make("button", { type: "button", onclick: async (event) => {
      event.target.disabled = true;
      const answer = await act(act_.command, act_.asks);
      event.target.disabled = false;
      if (answer) told(answer);
    } }, act_.label);
    return make("li", {}, make("div.what", {}, ...what, one.about && make("span", {}, one.about)), ...one.acts.map(button));
  }

  function form(one) {
    const id = `field-${one.command.replaceAll(" ", "-")}`;
    const field = make("input", { id, type: "text", required: true, autocomplete: "off" });
    const answer = make("div.words", { role: "status" });
    const send = async (event) => {
      event.preventDefault();
      const said = await ask("/api/do", { command: `${one.command} ${field.value}` }).catch((problem) => tell(problem.message));
      if (!said?.html) return;
      field.value = "";
      if (one.stays) return answer.replaceChildren(words(said.html));
      field.blur();
      told(said.html);
      await load();
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
    if (typeof stop === "function") stop();
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
    const bar = make("span.bar-of-share", { "aria-hidden": "true" });
    bar.style.width = row.cells[place]?.textContent.match(/^[\d.]+%/)?.[0] || "0";
    row.cells[0].append(bar);
  }
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
