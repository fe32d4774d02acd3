// Two rollouts side by side: which is better?

import { follow, keepDraft, listen, oneAtATime, post } from "./desk.js";

const pair = document.querySelector("#pair");
if (pair) {
  const { task, post: address, reader } = pair.dataset;
  const [left, right] = [Number(pair.dataset.left), Number(pair.dataset.right)];
  const note = document.querySelector("#note");
  const forget = note ? keepDraft(note) : () => {};
  const give = oneAtATime(async (choice) => {
    if (!reader) return;
    const said = await post(address, { task, left, right, choice, note: note.value });
    if (!said) return;
    forget();
    document.querySelector("#saved").textContent = `stored: ${said.choice}`;
    document.querySelector("#done").textContent = said.done;
    document.querySelector("#progress").value = said.done;
    if (said.next) location.assign(said.next);
    else document.querySelector("#saved").textContent = `stored: ${said.choice}. You have compared all pairs.`;
  });
  const choose = (choice) => () => give(choice);
  for (const button of pair.querySelectorAll("[data-choice]")) button.addEventListener("click", choose(button.dataset.choice));
  const [one, two, none] = [choose("left"), choose("right"), choose("equal")];
  listen({ 1: one, 2: two, 0: none, n: follow("#next"), p: follow("#previous"), m: () => note?.focus() });
}
