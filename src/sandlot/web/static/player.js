// A player for terminal recordings (asciicast 2): text only, with play, pause, speed and a place in time.

import { make, read } from "./read.js";

const idle = 2; // seconds: longer waits are shortened
const kept = 200; // pieces of output above which one can scroll back

function clean(text) {
  // Escapes of a terminal are dropped: what is shown is text.
  return text.replace(/\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-_])/g, "").replace(/\r\n/g, "\n").replace(/\r/g, "\n");
}

function eventsOf(lines) {
  const events = [];
  let [now, before] = [0, 0];
  for (const [at, kind, text] of lines) {
    now += Math.min(idle, Math.max(0, at - before));
    before = at;
    // A picture of a whole screen begins by clearing it: what was before is no longer shown.
    if (kind === "o") events.push({ at: now, text: clean(String(text)), clears: String(text).startsWith("\x1b[H\x1b[2J") });
  }
  return events;
}

function start(box, lines) {
  const events = eventsOf(lines);
  const end = events.at(-1)?.at ?? 0;
  const screen = make("pre", "", "screen");
  const [play, speed, place] = [make("button", "play"), make("select", ""), make("input", "")];
  const clock = make("span", "", "dim");
  play.type = "button";
  for (const times of [1, 2, 4, 8]) speed.append(new Option(`${times}×`, times));
  speed.setAttribute("aria-label", "speed");
  Object.assign(place, { type: "range", min: 0, max: 1000, value: 1000 });
  place.setAttribute("aria-label", "place in the recording");
  const bar = make("p", "", "bar");
  bar.append(play, " ", speed, " ", place, " ", clock);
  box.append(bar, screen);
  let [now, last, going] = [end, 0, false];
  function draw() {
    const later = events.findIndex((event) => event.at > now);
    const count = later < 0 ? events.length : later;
    const cleared = events.findLastIndex((event, place) => place < count && event.clears);
    screen.textContent = events.slice(Math.max(0, cleared, count - kept), count).map((event) => event.text).join("");
    screen.scrollTop = screen.scrollHeight;
    place.value = end ? (1000 * now) / end : 1000;
    clock.textContent = `${now.toFixed(1)} of ${end.toFixed(1)} s`;
    play.textContent = going ? "pause" : "play";
  }
  function tick(at) {
    if (!going || !box.isConnected) return;
    now = Math.min(end, now + ((at - last) / 1000) * Number(speed.value));
    last = at;
    going = now < end;
    draw();
    requestAnimationFrame(tick);
  }
  play.addEventListener("click", () => {
    going = !going;
    if (going && now >= end) now = 0;
    last = performance.now();
    draw();
    requestAnimationFrame(tick);
  });
  place.addEventListener("input", () => {
    now = (Number(place.value) / 1000) * end;
    draw();
  });
  draw();
}

async function open(box) {
  box.dataset.loaded = "yes";
  try {
    const held = box.querySelector("pre.cast");
    const lines = held
      ? held.textContent.split("\n").slice(1).filter(Boolean).map((line) => JSON.parse(line))
      : (await read(box.dataset.source)).events;
    start(box, lines);
  } catch (error) {
    box.append(make("p", `The recording cannot be played: ${error.message}`, "problem"));
  }
}

document.addEventListener(
  "toggle",
  (event) => {
    if (event.target.matches?.("details.recording") && event.target.open && !event.target.dataset.loaded) open(event.target);
  },
  true,
);
for (const box of document.querySelectorAll("details.recording[open]")) if (!box.dataset.loaded) open(box);
