// How a live run stands, and the buttons that steer it. Import it from the script of a page that includes control.html.

const box = document.querySelector("#control");
const TICK_MS = 2000;
const figure = (number) => number.toLocaleString("en");

async function tell(order) {
  const answer = await fetch(box.dataset.action, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(order),
  });
  return answer.json();
}

function show(status) {
  const state = box.querySelector("#control-state");
  state.textContent = status.state;
  state.className = `tag ${{ running: "complete", paused: "incomplete" }[status.state] ?? "stopped"}`;
  const done = status.planned === null ? figure(status.done) : `${figure(status.done)} of ${figure(status.planned)}`;
  const later = status.requeued ? " · failed ones are taken again at the end" : "";
  box.querySelector("#control-figures").textContent =
    `${done} rollouts · ${figure(status.in_flight)} in flight, at most ${figure(status.at_once)}${later}`;
  for (const button of box.querySelectorAll("[data-do]")) button.disabled = status.state === "stopping";
  const pause = box.querySelector("[data-do=pause]");
  if (pause) {
    pause.hidden = status.state === "paused";
    box.querySelector("[data-do=resume]").hidden = status.state !== "paused";
    box.querySelector("[data-do=requeue]").hidden = status.planned === null;
    const number = box.querySelector("input");
    if (document.activeElement !== number) number.value = status.at_once;
  }
  showHeld(status.held);
  box.hidden = false;
}

function make(name, text, className = "") {
  const element = document.createElement(name);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

function makeButton(text, order) {
  const button = make("button", text);
  button.type = "button";
  button.addEventListener("click", () => act(order()));
  return button;
}

function card(turn, answers) {
  const item = make("li", "");
  item.dataset.held = turn.id;
  const wanted = turn.told; // as the server writes it: whole numbers stay exact, and nothing can hide or change the order of text
  item.append(make("b", `${turn.task} ${turn.rollout}, turn ${turn.turn} waits for you`), " ", make("span", "", "dim left"));
  if (turn.text) item.append(make("pre", turn.text));
  if (!answers) {
    item.append(make("pre", wanted));
    return item;
  }
  const calls = make("textarea", wanted);
  calls.setAttribute("aria-label", "calls");
  calls.rows = Math.min(12, wanted.split("\n").length);
  calls.spellcheck = false;
  const change = () => {
    try {
      return { do: "change", held: turn.id, calls: JSON.parse(calls.value) };
    } catch {
      return { do: "change", held: turn.id, calls: null }; // refused, with a reason
    }
  };
  const row = make("span", "", "buttons");
  row.append(
    makeButton("Approve", () => ({ do: "approve", held: turn.id })),
    makeButton("Make these calls instead", change),
    makeButton(turn.safe ? `Refuse: call ${turn.safe.name}` : "Refuse: stop the rollout", () => ({ do: "refuse", held: turn.id })),
  );
  item.append(calls, row);
  return item;
}

function showHeld(held) {
  const list = box.querySelector("#held");
  const known = new Map([...list.children].map((item) => [item.dataset.held, item]));
  list.replaceChildren(...held.map((turn) => known.get(turn.id) ?? card(turn, list.dataset.answers === "yes")));
  for (const [place, turn] of held.entries()) {
    const left = Math.max(0, Math.round(turn.until - Date.now() / 1000));
    const safe = turn.safe ? `${turn.safe.name} is called instead` : "the rollout stops";
    list.children[place].querySelector(".left").textContent = `without an answer in ${left} s, ${safe}`;
  }
  list.hidden = held.length === 0;
}

async function act(order) {
  const answer = await tell(order);
  box.querySelector("#control-problem").textContent = answer.problem ?? "";
  if (!answer.problem) show(answer);
}

async function press(event) {
  const button = event.currentTarget;
  if (button.dataset.do === "stop" && !button.dataset.sure) {
    button.dataset.sure = "yes";
    button.textContent = "Really stop?";
    button.addEventListener("blur", () => {
      delete button.dataset.sure;
      button.textContent = "Stop";
    }, { once: true });
    button.focus();
    return;
  }
  await act({ do: button.dataset.do });
}

async function follow() {
  if (!document.hidden) {
    const answer = await tell({ do: "status" }).catch(() => null);
    if (answer?.problem) {
      box.hidden = true; // it has ended, or cannot be steered
      return;
    }
    if (answer) show(answer);
  }
  setTimeout(follow, TICK_MS);
}

if (box) {
  for (const button of box.querySelectorAll("[data-do]")) button.addEventListener("click", press);
  box.querySelector("form")?.addEventListener("submit", (event) => {
    event.preventDefault();
    act({ do: "set", at_once: Number(box.querySelector("input").value) });
  });
  follow();
}
