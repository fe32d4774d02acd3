// The review desk: labels by number keys, notes, annotations of messages.

import { follow, keepDraft, listen, oneAtATime, post } from "./desk.js";

const desk = document.querySelector("#desk");
if (desk) {
  const { task, post: address, postNote, proposed, reader } = desk.dataset;
  const rollout = Number(desk.dataset.rollout);
  const note = document.querySelector("#note");
  const forget = note ? keepDraft(note) : () => {};
  const buttons = [...document.querySelectorAll("#labels button")];

  const give = oneAtATime(async (label, go) => {
    if (!reader || !label) return;
    const said = await post(address, { task, rollout, label, note: note.value });
    if (!said) return;
    forget();
    desk.dataset.label = said.label;
    document.querySelector("#saved").textContent = `stored: ${said.label}`;
    document.querySelector("#done").textContent = said.done;
    document.querySelector("#progress").value = said.done;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.label === said.label));
    if (go && said.next) location.assign(said.next);
    else if (go) document.querySelector("#saved").textContent = `stored: ${said.label}. You have read the whole queue.`;
  });

  const lost = [...document.querySelectorAll(".checks .lost")];
  const toFailing = () => {
    if (!lost.length) return;
    const next = lost[(lost.indexOf(document.activeElement) + 1) % lost.length];
    next.focus();
    next.scrollIntoView({ block: "center" });
  };

  const annotate = () => {
    const message = document.activeElement.closest("article") ?? document.querySelector("article");
    if (!reader || !message || message.querySelector("textarea")) return;
    const own = [...message.querySelectorAll(".annotation")].find((each) => each.dataset.by === reader);
    const field = document.createElement("textarea");
    field.className = "annotate";
    field.id = `note-${message.dataset.message}`;
    field.setAttribute("aria-label", `note on message ${message.dataset.message}; Ctrl+Enter stores it`);
    field.placeholder = "Ctrl+Enter stores, Escape leaves";
    field.value = own?.querySelector("span").textContent ?? "";
    const done = keepDraft(field);
    const leave = () => {
      field.remove();
      message.focus();
    };
    field.addEventListener("keydown", async (event) => {
      if (event.key === "Escape") leave();
      if (event.key !== "Enter" || !event.ctrlKey) return;
      event.preventDefault();
      const said = await post(postNote, { task, rollout, message: Number(message.dataset.message), note: field.value });
      if (!said) return;
      done();
      own?.remove();
      if (said.note) {
        const shown = document.createElement("p");
        const by = document.createElement("b");
        const text = document.createElement("span");
        shown.className = "annotation";
        shown.dataset.by = said.by;
        by.textContent = said.by;
        text.textContent = said.note;
        shown.append(by, " ", text);
        message.append(shown);
      }
      leave();
    });
    message.append(field);
    field.focus();
  };

  for (const button of buttons) button.addEventListener("click", () => give(button.dataset.label, true));
  note?.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.ctrlKey) give(desk.dataset.label || proposed, false);
  });

  const find = document.querySelector("#find");
  const matching = () => buttons.filter((button) => button.dataset.label.includes(find.value.trim().toLowerCase()));
  find?.addEventListener("input", () => {
    const found = matching();
    for (const button of buttons) button.parentElement.hidden = !found.includes(button);
  });
  find?.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && find.value.trim() && matching().length) give(matching()[0].dataset.label, true);
  });

  const keys = {
    Enter: () => give(proposed, true),
    n: follow("#next"),
    p: follow("#previous"),
    u: follow("#unread"),
    f: toFailing,
    a: annotate,
    m: () => note?.focus(),
    "/": () => find?.focus(),
  };
  for (const button of buttons) if (button.dataset.key) keys[button.dataset.key] = () => give(button.dataset.label, true);
  listen(keys);
}
