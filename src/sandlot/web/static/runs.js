// Sorting and filtering of the list of runs.

import "./view.js";

const TICK_MS = 3000;
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
  const compare = document.querySelector("#compare");
  const count = () => {
    const picked = body.querySelectorAll("input[name=run]:checked").length;
    compare.disabled = picked < 2;
    compare.textContent = picked ? `compare ${picked}` : "compare";
  };
  body.addEventListener("change", count);
  count(); // the browser may have kept what was picked

  // While a run is live, its row follows it; new runs come first. What was sorted, filtered and picked stays.
  const nameOf = (row) => row.querySelector("input[name=run]")?.value;
  const follow = async () => {
    const answer = document.hidden ? null : await fetch(location.href).catch(() => null);
    if (answer?.ok) {
      // Parsed, never run: the policy of the page forbids it, and the server escapes all text.
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const known = new Map([...body.rows].filter(nameOf).map((row) => [nameOf(row), row]));
      for (const row of [...page.querySelectorAll("#rows tbody tr")].filter(nameOf)) {
        const old = known.get(nameOf(row));
        if (!old) body.prepend(row);
        else [...row.cells].slice(1).forEach((cell, number) => old.cells[number + 1].replaceWith(cell));
      }
      filter.dispatchEvent(new Event("input"));
    }
    if (body.querySelector(".tag.live")) setTimeout(follow, TICK_MS);
  };
  if (body.querySelector(".tag.live")) setTimeout(follow, TICK_MS);
}
