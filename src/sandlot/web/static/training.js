// The curves of a training, drawn again whenever it has written something.

import "./control.js";
import "./view.js";
import { drawList } from "./chart.js";
import { follow } from "./live.js";
import { refreshParts } from "./refresh.js";

const charts = document.querySelector("#charts");
const live = document.querySelector("#live");

const draw = async () => {
  const answer = await fetch(charts.dataset.source);
  if (answer.ok) drawList(charts, (await answer.json()).charts);
};

await draw();
if (live) {
  let lines = null;
  follow(live.dataset.source, async (state) => {
    document.querySelector("#doing").textContent = state.doing;
    if (lines !== null && state.lines !== lines) await Promise.all([draw(), refreshParts()]);
    lines = state.lines;
  });
}
