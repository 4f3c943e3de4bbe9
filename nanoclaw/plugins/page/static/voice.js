// Records a voice note, which goes with the message as a file does.

import { make, tell } from "./dom.js";

const MIC = '<svg viewBox="0 0 24 24" width="18" height="18" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" aria-hidden="true"><rect x="9" y="3" width="6" height="11" rx="3"/><path d="M5 11a7 7 0 0 0 14 0M12 18v3"/></svg>';

/** A button that records until it is pressed again, and hands the note on; null where the browser can't. */
export function recorder(attach) {
  if (!navigator.mediaDevices?.getUserMedia || !window.MediaRecorder) return null;
  let running;
  const button = make("button.clip.mic", { type: "button", "aria-label": "Record a voice note", "aria-pressed": "false", onclick: press });
  button.innerHTML = MIC;

  async function press() {
    if (running) return running.stop();
    let sound;
    try {
      sound = await navigator.mediaDevices.getUserMedia({ audio: true });
    } catch (problem) {
      return tell(`The microphone can't be used: ${problem.message}.`);
    }
    const note = (running = new MediaRecorder(sound)), pieces = [], begun = Date.now();
    const count = () => (button.textContent = `■ ${Math.round((Date.now() - begun) / 1000)} s`);
    const tick = setInterval(count, 1000);
    note.ondataavailable = (event) => pieces.push(event.data);
    note.onstop = () => {
      clearInterval(tick);
      sound.getTracks().forEach((one) => one.stop());
      running = undefined;
      button.innerHTML = MIC;
      button.setAttribute("aria-pressed", "false");
      const kind = note.mimeType.split(";")[0] || "audio/webm";
      if (button.isConnected) attach([new File(pieces, `voice note.${kind.split("/")[1]}`, { type: kind })]);
    };
    note.start();
    count();
    button.setAttribute("aria-pressed", "true");
  }

  button.leave = () => running?.stop();
  return button;
}
