// House: how it is, what is to be mended, what it cost, models, and who is let in.

import { moment } from "./dom.js";

const COMMAND = /`([^`]+)`|(?:\brun |: )((?:\S*nanoclaw|\S*pip|uv|pipx|sudo|podman) [^`]+?)\.?$/;

export function house({ status, findings = [], spent, models, context, grants, browsers, tokens }, titleOf) {
  return [
    status && { title: "How it is", rows: status.about.map((text) => ({ text })) },
    { title: "To be mended", empty: "Nothing was noticed so far.", rows: findings.filter((one) => !one.is_well).map((one) => finding(one.text, one.name || one.plugin)),
      acts: [{ label: "Check everything", command: "doctor", show: checked, wait: "Models, channels and files are asked, for up to 90 s …" }] },
    status && { title: "Channels", rows: status.channels.map(channel) },
    { title: "The last 30 days", plot: spent?.plot, empty: !spent ? "It is being added up …" : spent.plot.length ? "" : "No model was asked yet." },
    ...Object.entries(spent?.by || {}).map(([what, rows]) => rows.length && { title: `Cost by ${what}`, rows: rows.map((one) => cost(what, one, titleOf)) }),
    models && { title: "Models", rows: ofModels(models.data) },
    context && { title: "What the model is sent", html: context.html },
    grants && { title: "What it may do without asking", html: grants.html },
    { title: "Who is let in", form: { label: "Name of a program that may talk as you", command: "web token", button: "Make a token", stays: true },
      rows: [...(browsers?.data.browsers || []).map(browser), ...(tokens?.data.tokens || []).map(token)] },
  ];
}

/** What was spent, and its share of all. */
function cost(what, [name, about, share], titleOf) {
  if (what !== "conversation") return { text: name || "unknown", about, share };
  const channel = name.split(":")[0], title = titleOf(name);
  return { text: title || name || "in no conversation", about: [title && channel !== "page" && channel, about].filter(Boolean).join(" · "), share, talk: title && name };
}

/** What is to be mended: with its button where the program can do that, else with the command to copy. */
function finding(text, about, canFix) {
  const command = text.match(COMMAND)?.slice(1).find(Boolean);
  const fix = { label: "Repair", command: "doctor fix", show: checked, wait: "It is being repaired, and everything is looked at again …" };
  return { text, about, acts: canFix ? [fix] : command ? [{ label: "Copy the command", copy: command }] : [] };
}

function checked({ findings }) {
  const well = findings.filter((one) => one.state === "ok").length;
  const shown = findings.filter((one) => one.state !== "ok").map((one) => finding(one.text, `${one.name} · ${one.state}`, one.can_fix && one.state === "wrong"));
  return [...shown, { text: `${well} thing${well === 1 ? " is" : "s are"} well.` }];
}

function channel({ name, alive, trouble }) {
  const ago = alive < 120 ? `${alive} s` : alive < 7200 ? `${Math.round(alive / 60)} min` : `${Math.round(alive / 3600)} h`;
  return { text: name, about: trouble || (alive === null ? "serves; no sign of life is known" : `serves; last sign of life ${ago} ago`) };
}

/** All that are known by name, with a button that asks for one word. */
function ofModels({ model, models, purposes = [] }) {
  const uses = (name) => [name === model && "conversations", ...purposes.filter((one) => one.model === name && one.purpose !== "conversation").map((one) => one.purpose)].filter(Boolean);
  return (models || [{ name: model }]).map((one) => ({
    text: one.name,
    about: [uses(one.name).length && `for ${uses(one.name).join(", ")}`, one.is_local && "on this machine", one.key && `${one.key} is ${one.is_key_set ? "" : "not "}set`,
      one.window && `${one.window.toLocaleString()} tokens`, one.input_usd !== null && one.input_usd !== undefined && !one.is_local && `$${one.input_usd} in, $${one.output_usd} out for a million`, one.problem].filter(Boolean).join(" · "),
    acts: [{ label: "Test", command: `test ${one.name}`, show: true, wait: "It is asked for one word …" }],
  }));
}

const browser = (one) => ({
  text: one.name, about: `browser · ${one.about}`,
  acts: [{ label: "Sign out", command: `web browser --revoke ${one.id}`, asks: `Sign out ${one.name}?` }],
});

const token = (one) => ({
  text: one.name, about: one.used ? `token · used ${moment(one.used)}` : "token · not used yet",
  acts: [{ label: "Revoke", command: `web token --revoke ${one.name}`, asks: `Revoke the token ${one.name}?` }],
});
