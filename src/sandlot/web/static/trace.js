// A trace: folding, the rest of long texts, messages that are not loaded yet, and links to messages, checks and tokens.

import "./view.js";
import "./player.js";
import { isSaved, make, read } from "./read.js";
import { load as loadTokens } from "./tokens.js";

const folds = "article details.call, article details.result, article details.error, article details.reasoning";

function foldAll() {
  const all = [...document.querySelectorAll(folds)];
  const open = all.some((each) => !each.open);
  for (const each of all) each.open = open;
}

async function showRest(button) {
  const text = button.closest("[data-part]").querySelector("pre");
  button.disabled = true;
  try {
    const piece = await read(button.dataset.source.replace(/&from=\d+$/, `&from=${button.dataset.from}`));
    if (!button.dataset.added) text.textContent = "";
    button.dataset.added = "yes";
    text.append(piece.text);
    button.disabled = false;
    if (piece.next === null) return button.remove();
    button.dataset.from = piece.next;
    button.textContent = `${(piece.size - piece.next).toLocaleString("en")} more characters`;
  } catch (error) {
    button.after(make("span", ` ${error.message}`, "problem"));
  }
}

// Messages that are left out are on the same page with another `from`: the articles of that page are put in their place.
async function fill(gap, address, wanted) {
  if (isSaved) return;
  const answer = await fetch(address);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [first, end] = [Number(gap.dataset.first), Number(gap.dataset.end)];
  const found = [...page.querySelectorAll("article")].filter((each) => {
    const number = Number(each.id.slice(1));
    return number >= first && number < end;
  });
  if (!found.length) return;
  const numbers = found.map((each) => Number(each.id.slice(1)));
  const [low, high] = [Math.min(...numbers), Math.max(...numbers) + 1];
  const pieces = [];
  if (low > first) pieces.push(part(gap, first, low));
  pieces.push(...found.map((each) => document.adoptNode(each)));
  if (high < end) pieces.push(part(gap, high, end));
  gap.replaceWith(...pieces);
  if (wanted) document.getElementById(wanted)?.scrollIntoView();
}

function part(gap, first, end) {
  const copy = gap.cloneNode(true);
  Object.assign(copy.dataset, { first, end });
  copy.querySelector("b").textContent = (end - first).toLocaleString("en");
  const [next, last] = copy.querySelectorAll("a");
  const at = (number) => next.href.replace(/from=\d+(#.*)?$/, `from=${number}#m${number}`);
  const back = Math.max(first, end - 200);
  [next.href, last.href] = [at(first), at(back)];
  return copy;
}

async function goTo(hash) {
  const place = hash.includes("/") ? hash.split("/").pop() : hash.slice(1);
  const [, message, token] = /^m(\d+)(?:t(\d+))?$/.exec(place) ?? [];
  if (message === undefined) return;
  if (!document.getElementById(`m${message}`)) {
    const gap = [...document.querySelectorAll(".gap")].find((each) => Number(each.dataset.first) <= message && message < Number(each.dataset.end));
    if (gap) await fill(gap, gap.querySelector("a").href.replace(/from=\d+(#.*)?$/, `from=${Math.max(0, message - 20)}`), `m${message}`);
  }
  const article = document.getElementById(`m${message}`);
  if (token === undefined) return article?.scrollIntoView();
  const box = article?.querySelector("details.tokens");
  if (!box) return;
  box.dataset.loaded ||= "yes";
  box.open = true;
  const slice = 4000;
  for (let start = 0; start <= Number(token) && !document.getElementById(place); start += slice) await loadTokens(box, start);
  const found = document.getElementById(place);
  found?.classList.add("wanted");
  found?.focus();
  found?.dispatchEvent(new Event("mouseover", { bubbles: true }));
  found?.scrollIntoView({ block: "center" });
}

document.addEventListener("click", (event) => {
  const near = (what) => event.target.closest(what);
  if (near("#fold")) foldAll();
  else if (near("button.rest[data-source]")) showRest(near("button.rest"));
  else if (near(".gap a")) {
    event.preventDefault();
    fill(near(".gap"), near(".gap a").href);
  } else if (near("button.copy")) {
    navigator.clipboard?.writeText(near("button.copy").dataset.command);
    near("button.copy").textContent = "copied";
  } else if (near("button.step")) {
    const heading = near("h3");
    if (heading.nextElementSibling?.matches(".stepping")) return heading.nextElementSibling.remove();
    const line = make("p", "", "stepping");
    line.append(make("code", `${document.querySelector("#shell").textContent} --turn ${near("button.step").dataset.turn}`));
    heading.after(line);
  }
});

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "f") foldAll();
  if (event.key === "x") {
    const lost = [...document.querySelectorAll("tr.lost")];
    const next = lost[(lost.indexOf(document.activeElement.closest("tr")) + 1) % lost.length];
    next?.querySelector("a").focus();
  }
});

addEventListener("hashchange", () => goTo(location.hash));
goTo(location.hash);
