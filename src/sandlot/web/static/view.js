// Sorting and filtering of the list of runs, the numbers of a live run, and keys for reading a trace.

const table = document.querySelector("#rows");
if (table) {
  const body = table.tBodies[0];
  const value = (row, column) => {
    const cell = row.cells[column];
    const number = cell?.dataset.value;
    return number === undefined ? (cell?.textContent.trim() ?? "") : Number(number);
  };
  table.tHead.querySelectorAll("th").forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      table.tHead.querySelectorAll("th").forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].filter((row) => !row.classList.contains("why"));
      rows.sort((a, b) => {
        const [x, y] = [value(a, column), value(b, column)];
        return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
      });
      for (const row of rows) {
        const why = row.nextElementSibling?.classList.contains("why") ? row.nextElementSibling : null;
        body.append(row);
        if (why) body.append(why);
      }
    });
  });
  const filter = document.querySelector("#filter");
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of body.rows) {
      const hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      row.hidden = hidden;
      shown += hidden || row.classList.contains("why") ? 0 : 1;
    }
    document.querySelector("#count").textContent = `${shown} runs`;
  });
}

const live = document.querySelector("#live");
if (live) {
  const source = new EventSource(live.dataset.source);
  source.addEventListener("message", (event) => {
    const state = JSON.parse(event.data);
    document.querySelector("#rollouts").textContent = state.rollouts.toLocaleString("en");
    document.querySelector("#failed").textContent = state.failed.toLocaleString("en");
    document.querySelector("#score").textContent = state.score === null ? "–" : state.score.toFixed(3);
    if (!state.live) {
      source.close();
      location.reload(); // the grid and the charts of the finished run
    }
  });
}

const messages = [...document.querySelectorAll("article")];
if (messages.length) {
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { j: 1, k: -1 }[event.key];
    if (!step) return;
    const now = messages.indexOf(document.activeElement.closest("article"));
    const next = messages[Math.min(messages.length - 1, Math.max(0, now + step))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  });
}
