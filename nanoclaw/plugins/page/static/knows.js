// Knows: what it remembers, and what it can do: tasks, rules, skills, servers, people, plugins.

import { moment } from "./dom.js";

export function knows({ memory, log, jobs, pins, skills, findings = [], people, plugins }) {
  const tasks = jobs?.data.jobs.filter((one) => one.kind === "task") || [], servers = findings.filter((one) => one.plugin === "mcp");
  return [
    memory && { title: "What it remembers", html: memory.html.replace(/<p>(?:(?!<p>).)*$/s, "") || memory.html, form: { label: "A fact to keep", command: "memory add --fact", button: "Remember" } },
    log && { title: "Notes and changes", html: log.html, form: { label: "Words to find in notes and talk", command: "search", button: "Search", stays: true } },
    jobs && { title: "Tasks", empty: "No task is planned. Say “every morning at 7 look at the weather and …”.", rows: tasks.map(({ id, text, state, due }) => ({
      text, about: state === "paused" ? "paused" : due ? `next: ${moment(due)}` : "running",
      acts: [{ label: "Runs", command: `jobs runs ${id}`, show: true }],
    })) },
    pins && { title: "Rules", html: pins.html, form: { label: "A standing rule", command: "pin", button: "Pin" } },
    skills && { title: "Skills", rows: skills.data.skills.map(({ name, description, missing }) => ({
      text: name, about: description + (missing.length ? ` Lacks: ${missing.join(", ")}.` : ""),
    })) },
    servers.length && { title: "MCP servers", rows: servers.map((one) => server(one, plugins?.tools || [])) },
    people && { title: "People", empty: "Only you, in a terminal and here. `nanoclaw link telegram` connects a chat app.", rows: people.data.people.filter((one) => one.channel !== "page").map(person) },
    plugins && { title: "Plugins", rows: ofPlugins(plugins) },
  ];
}

function server({ name, text }, tools) {
  const own = name.replace(/^mcp /, ""), its = tools.filter((one) => one.startsWith(`${own}__`)).map((one) => one.slice(own.length + 2));
  return { text: own, about: text, more: its.length ? ["Tools", ...its] : [] };
}

function person({ channel, sender, role, about, code }) {
  const remove = { label: "Remove", command: `pair remove ${channel}:${sender}`, asks: `${channel}:${sender} may not talk to it any more?` };
  return {
    text: about.split(", since")[0] === "no name" ? `${channel}:${sender}` : about.split(", since")[0],
    about: `${channel} · ${code ? "asks to be let in" : role} · ${sender}`,
    acts: code ? [{ label: "Let in as a guest", command: `pair ${code}` }] : [remove],
  };
}

function ofPlugins({ on, off }) {
  const own = Object.keys(on).filter((name) => !on[name]), shipped = Object.keys(on).filter((name) => on[name]);
  return [
    ...own.map((name) => ({ text: name, about: "on · yours" })),
    { text: `${shipped.length} built in`, about: "on", more: ["Which", ...shipped.sort()] },
    off.length && { text: off.join(", "), about: "off: [plugins] off in config.toml" },
  ].filter(Boolean);
}
