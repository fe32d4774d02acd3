// The curves of a training, drawn again whenever it has written something.

import "./control.js";
import "./view.js";
import { drawList } from "./chart.js";
import { refreshParts } from "./refresh.js";

const charts = document.querySelector("#charts");
const live = document.querySelector("#live");

const draw = async () => {
  const answer = await fetch(charts.dataset.source);
  if (answer.ok) drawList(charts, (await answer.json()).charts);
};

await draw();
if (live) {
  const source = new EventSource(live.dataset.source);
  let lines = null;
  source.addEventListener("message", async (event) => {
    const state = JSON.parse(event.data);
    document.querySelector("#doing").textContent = state.doing;
    if (!state.live) {
      source.close();
      location.reload();
      return;
    }
    if (lines !== null && state.lines !== lines) await Promise.all([draw(), refreshParts()]);
    lines = state.lines;
  });
}
