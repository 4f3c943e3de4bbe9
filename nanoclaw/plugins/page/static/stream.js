// The events of the server, from the worker that all tabs share, or by a stream of this tab where there is none.

const listeners = new Set();
const tell = (what) => listeners.forEach((one) => one(what));

export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

let worker, watched = "";
/** The conversation that this tab shows: of the others it is told only when a turn begins and ends. */
export function watch(key) {
  watched = key;
  worker?.port.postMessage({ watch: key });
}

/** Compares two ids: above 0 if the first is newer, NaN if they are of two lives of the server. */
export function compare(one, other) {
  const [life, number] = one.split("-"), [life2, number2] = other.split("-");
  return life === life2 ? number - number2 : NaN;
}

export function start() {
  if (window.SharedWorker) withWorker();
  else alone();
}

function withWorker() {
  worker = new SharedWorker("/static/worker.js", { name: "nanoclaw" });
  worker.port.onmessage = ({ data }) => tell(data);
  worker.port.start();
  watch(watched);
  const seen = () => worker.port.postMessage({ hidden: document.hidden });
  document.addEventListener("visibilitychange", seen);
  seen();
  addEventListener("pagehide", () => worker.port.postMessage("bye"));
  addEventListener("pageshow", (event) => event.persisted && location.reload());
  addEventListener("online", () => worker.port.postMessage("now"));
}

function alone() {
  // a browser has six connections to a server: a tab that nobody sees gives its one back
  let source, last = "", pause = 500, timer;
  const close = () => (clearTimeout(timer), source?.close(), (source = undefined));
  const open = () => {
    close();
    source = new EventSource(`/api/stream?last=${encodeURIComponent(last)}`);
    source.onopen = () => ((pause = 500), tell({ state: "open" }));
    source.onmessage = (event) => ((last = event.lastEventId), tell({ id: last, event: JSON.parse(event.data) }));
    source.addEventListener("afresh", (event) => {
      const isFirst = !last;
      last = event.lastEventId;
      tell(isFirst ? { since: last } : { afresh: true });
    });
    source.onerror = () => {
      close();
      tell({ state: "lost" });
      timer = setTimeout(open, pause);
      pause = Math.min(pause * 2, 3000);
    };
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : source || open()));
  open();
}
