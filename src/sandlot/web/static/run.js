// A run: its charts, the numbers of a live one, and what health and triage find.

import "./control.js";
import "./view.js";
import { drawCharts } from "./chart.js";
import { follow } from "./live.js";

const at = (selector) => document.querySelector(selector);
const figure = (value, digits = 0) => (value === null ? "-" : value.toLocaleString("en", { maximumFractionDigits: digits }));

function duration(seconds) {
  if (seconds === null) return "-";
  if (seconds < 1) return `${(1000 * seconds).toFixed(0)} ms`;
  if (seconds < 100) return `${seconds.toFixed(1)} s`;
  if (seconds < 6000) return `${(seconds / 60).toFixed(0)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

function fill(table, rows) {
  table.tBodies[0].replaceChildren(
    ...rows.map((cells) => {
      const row = document.createElement("tr");
      for (const cell of cells) row.insertCell().textContent = cell;
      return row;
    }),
  );
}

function show(state) {
  const { now } = state;
  at("#rollouts").textContent = figure(state.rollouts);
  at("#failed").textContent = figure(state.failed);
  at("#score").textContent = state.score === null ? "-" : state.score.toFixed(3);
  at("#rate").textContent = figure(now.per_second, 2);
  at("#left").textContent = duration(state.left_s);
  at("#flying").textContent = figure(now.num_in_flight);
  at("#waits").textContent = Object.entries(now.waits).map(([doing, count]) => `${figure(count)} ${doing}`).join(", ");
  at("#tokens").textContent = figure(now.tokens_per_s);
  at("#lag").textContent = duration(now.lag_s);
  const phases = Object.entries(now.phases).filter(([, share]) => share >= 0.005).map(([phase, share]) => `${phase} ${(100 * share).toFixed(0)} %`);
  at("#spent").textContent = phases.length ? `time of the last rollouts: ${phases.join(", ")}` : "";
  at("#flights").hidden = !now.in_flight.length;
  const flights = now.in_flight.map((each) => [each.task, each.rollout, duration(each.seconds), each.turns, each.doing, duration(each.since_s)]);
  fill(at("#flights table"), flights);
  const tools = now.tools.map((each) => [each.name, duration(each.seconds), figure(each.calls), duration(each.longest), figure(each.errors)]);
  fill(at("#tools"), tools);
}

async function find(holder) {
  const answer = await fetch(holder.dataset.source);
  if (!answer.ok) return;
  // Parsed, never run: the policy of the page forbids it, and the server escapes all text.
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const found = page.querySelector("#findings");
  if (found) holder.replaceWith(found);
}

drawCharts();
const live = at("#live");
if (live) {
  follow(live.dataset.source, show);
} else if (at("#findings")) {
  find(at("#findings"));
}
