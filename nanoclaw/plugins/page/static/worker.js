// One stream of events for all tabs of this browser. It opens again by itself, whatever the server answered.

const OF_ONE = new Set(["text", "item", "progress"]); // events that only a tab needs which shows their conversation
const ports = new Set();
let source, last = "", pause = 500, timer, state = "lost";

function open() {
  clearTimeout(timer);
  source?.close();
  source = new EventSource(`/api/stream?last=${encodeURIComponent(last)}`);
  source.onopen = () => {
    pause = 500;
    tell({ state: (state = "open") });
  };
  source.onmessage = (event) => {
    last = event.lastEventId;
    tell({ id: last, event: JSON.parse(event.data) });
  };
  source.addEventListener("afresh", (event) => {
    const isFirst = !last;
    last = event.lastEventId;
    tell(isFirst ? { since: last } : { afresh: true });
  });
  source.onerror = () => {
    // EventSource itself gives up after an answer such as 502
    source.close();
    if (state !== "lost") tell({ state: (state = "lost") });
    timer = setTimeout(open, pause);
    pause = Math.min(pause * 2, 3000);
  };
}

function tell(what) {
  const kind = what.event?.t;
  for (const port of ports) {
    const isOwn = port.watched === what.event?.c;
    if (OF_ONE.has(kind) && !isOwn) continue;
    if (port.hidden && kind === "text") hold(port, what);
    else if (!port.hidden || kind !== "progress") isOwn && release(port), port.postMessage(what);
  }
}

/** A tab that nobody sees is told of a text that grows when it is seen again, or when something else happens there. */
function hold(port, { id, event }) {
  if (port.held?.event.id !== event.id) return release(port), (port.held = { id, event: { ...event } });
  const { event: sum } = port.held;
  port.held.id = id;
  if (event.add) sum.add = [...(sum.add || []), ...event.add];
  if (event.tail !== undefined) (sum.tail = event.tail), (sum.more = "");
  if (event.more) sum.more = (sum.more || "") + event.more;
}

function release(port) {
  if (port.held) port.postMessage(port.held);
  port.held = undefined;
}

onconnect = (event) => {
  const port = event.ports[0];
  ports.add(port);
  port.onmessage = ({ data }) => {
    if (data.hidden !== undefined) port.hidden = data.hidden;
    if (!port.hidden || data.watch !== undefined) release(port);
    if (data.watch !== undefined) {
      port.watched = data.watch;
      if (last) port.postMessage({ since: last });
    }
    if (data === "bye") ports.delete(port);
    if (data === "now" && state === "lost") open();
    if (!ports.size) {
      clearTimeout(timer);
      source?.close();
      source = undefined;
      state = "lost";
    }
  };
  port.postMessage({ state });
  if (!source) open();
};
