// What a page loads when something is opened. A page that was saved as one file holds it, and has no server.

export const isSaved = "saved" in document.documentElement.dataset;

export async function read(address) {
  const held = document.querySelector(`template[data-address="${CSS.escape(address)}"]`);
  if (held) return JSON.parse(held.content.textContent);
  if (isSaved) throw new Error("This was left out of the file.");
  const answer = await fetch(address);
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.problem);
  return told;
}

export function make(name, text, ...classes) {
  const element = document.createElement(name);
  element.textContent = text;
  element.classList.add(...classes);
  return element;
}
