// Today: what waits, what tasks did and what failed, what is due, and what it cost.

import { moment } from "./dom.js";
import { plain } from "./menu.js";

const MOST = 10;

/** Runs of tasks that failed and were not better since; of each task only its newest counts. */
function failed(runs) {
  const newest = new Map();
  for (const one of runs) if (one.state !== "missed" && !newest.has(one.job)) newest.set(one.job, one);
  return [...newest.values()].filter((one) => one.state === "failed");
}

/** True where a person should look here first: a question is open, or a task has failed or ended since they last wrote. */
export const waits = ({ waiting, runs }) =>
  waiting?.questions.length > 0 || (runs?.data.runs || []).some((one) => ["done", "failed"].includes(one.state) && new Date(one.at) > new Date(waiting?.spoke));

export function today({ waiting, inbox, jobs, runs, done = [], helpers, budget }) {
  const ran = runs?.data.runs || [], told = (...parts) => parts.filter(Boolean).join(" · ");
  return [
    waiting?.questions.length && { title: "Waits for your answer", rows: waiting.questions.map(([number, html, words]) => ({
      html, acts: words.map((word) => ({ label: word[0].toUpperCase() + word.slice(1), command: `answer ${number} ${word}` })),
    })) },
    failed(ran).length && { title: "Did not work", rows: failed(ran).map((one) => ({
      text: one.text, about: told(moment(one.at), one.took, one.result), acts: [{ label: "Retry", command: `jobs run ${one.job}` }],
    })) },
    ran.some((one) => one.state !== "failed") && { title: "Tasks that ran", rows: ran.filter((one) => ["done", "running"].includes(one.state)).slice(0, MOST).map((one) => ({
      text: one.result || (one.state === "running" ? "It is at work …" : "It had nothing to say."),
      about: told(one.text, moment(one.at), one.took), talk: one.target,
    })) },
    inbox?.data.waiting && { title: "Collected", html: inbox.html },
    jobs && { title: "Due", empty: "Nothing is planned. Say “remind me tomorrow at 9 to …”.", rows: jobs.data.jobs.map(due) },
    { title: "Changes", empty: "Nothing was changed yet.", rows: done.map((one) => ({
      text: one.text, about: told(moment(one.at), one.talk.split(":")[0]), talk: one.talk,
      acts: one.undo ? [{ label: "Undo", command: "undo", c: one.talk, asks: `Take this back: ${one.text}?` }] : [],
    })) },
    helpers?.data.helpers?.length && { title: "Helpers", html: helpers.html },
    budget && { title: "Cost", rows: plain(budget.html).split("\n").map((text) => ({ text })) },
  ];
}

function due({ id, kind, text, state, due: at }) {
  const isPaused = state === "paused";
  const go = isPaused ? { label: "Go on", command: `jobs resume ${id}` } : { label: "Pause", command: `jobs pause ${id}` };
  const run = kind === "task" && { label: "Run now", command: `jobs run ${id}` };
  const remove = { label: "Remove", command: `jobs remove ${id}`, asks: `Remove ${kind} ${id}?` };
  return { text, about: `${kind} · ${isPaused ? "paused" : at ? moment(at) : "running"}`, acts: [run, go, remove].filter(Boolean) };
}
