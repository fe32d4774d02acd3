// What the pages of the review desk share: keys, posting, notes that survive a reload.

import "./view.js";

const typing = (target) => target.matches("input, textarea, select");

// Calls `keys[key]` for a key pressed outside of fields. `?` shows the keys; Escape leaves a field.
export function listen(keys) {
  const dialog = document.querySelector("#keys");
  const show = () => dialog.showModal();
  document.querySelector("#help")?.addEventListener("click", show);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && typing(event.target)) event.target.blur();
    if (event.repeat) return; // a key that is held down labels one rollout, not all that follow
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || dialog?.open) return;
    const act = event.key === "?" ? show : keys[event.key];
    if (!act) return;
    if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
    event.preventDefault();
    act();
  });
}

// Makes a function that does nothing while an earlier call of it is under way.
export function oneAtATime(act) {
  let busy = false;
  return async (...given) => {
    if (busy) return;
    busy = true;
    try {
      await act(...given);
    } finally {
      busy = false;
    }
  };
}

// Posts JSON; returns the answer, or shows the problem and returns null.
export async function post(address, told) {
  const problem = document.querySelector("#problem");
  problem.textContent = "";
  try {
    const answer = await fetch(address, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(told),
    });
    const said = (answer.headers.get("content-type") ?? "").includes("json") ? await answer.json() : {};
    if (answer.ok) return said;
    problem.textContent = said.problem ?? `Not stored: the server answered ${answer.status}.`;
  } catch {
    problem.textContent = "Not stored: the server does not answer. What you wrote is kept in this tab.";
  }
  return null;
}

// Keeps what is written in a field until it is stored, also over a reload.
export function keepDraft(field) {
  const name = `draft ${location.pathname.replace(/^\/[^/]*/, "")}${location.search} ${field.id}`;
  const kept = sessionStorage.getItem(name);
  if (kept !== null) field.value = kept;
  field.addEventListener("input", () => sessionStorage.setItem(name, field.value));
  return () => sessionStorage.removeItem(name);
}

export const follow = (id) => () => document.querySelector(id)?.click();
