// The tokens of a message as a heat map, loaded when it is opened. #m5t17 is token 17 of message 5.

import { make, read } from "./read.js";

const shows = {
  probability: (token) => (token.logprob === null ? "" : `p${Math.min(9, Math.max(0, Math.floor(Math.exp(token.logprob) * 10)))}`),
  trained: (token) => (token.mask === null ? "" : token.mask ? "trained" : "untrained"),
  version: (token) => (token.version === null ? "" : `v${((token.version % 6) + 6) % 6}`),
};

function spell(text) {
  return text.replaceAll("\n", "⏎\n").replaceAll("\t", "⇥");
}

function say(token) {
  const says = [`token ${token.number}`, `id ${token.id}`];
  if (token.logprob !== null) says.push(`log-probability ${token.logprob.toFixed(4)}`, `probability ${Math.exp(token.logprob).toPrecision(3)}`);
  if (token.mask !== null) says.push(token.mask ? "trained" : "not trained");
  if (token.version !== null) says.push(`weights ${token.version}`);
  return says.join(", ");
}

function tokensOf(columns) {
  return columns.ids.map((id, at) => ({
    id,
    number: columns.start + at,
    text: columns.texts ? columns.texts[at] : String(id),
    logprob: columns.logprobs?.[at] ?? null,
    mask: columns.mask?.[at] ?? null,
    version: columns.versions?.[at] ?? null,
  }));
}

function paint(map, way) {
  for (const span of map.children) if (span.token) span.className = shows[way](span.token);
}

function draw(box, columns) {
  let map = box.querySelector("pre");
  if (!map) {
    const bar = make("p", "", "bar");
    const ways = Object.keys(shows).filter((way) => tokensOf(columns).some((token) => shows[way](token)));
    for (const way of ways) {
      const button = make("button", way);
      button.type = "button";
      button.addEventListener("click", () => {
        box.dataset.way = way;
        for (const each of bar.querySelectorAll("button")) each.setAttribute("aria-pressed", each === button);
        paint(map, way);
      });
      bar.append(button, " ");
    }
    box.dataset.way = ways[0] ?? "probability";
    bar.querySelector("button")?.setAttribute("aria-pressed", "true");
    const notes = ["point at a token for its numbers", columns.entropy ? "" : "the entropy of tokens is not stored", columns.unread];
    bar.append(make("span", notes.filter(Boolean).join(" · "), "dim"));
    map = make("pre", "", "map");
    if (!columns.texts) map.classList.add("ids");
    const told = make("output", " ", "told");
    map.addEventListener("mouseover", (event) => (told.textContent = event.target.token ? say(event.target.token) : " "));
    map.addEventListener("focusin", (event) => (told.textContent = event.target.token ? say(event.target.token) : " "));
    map.addEventListener("click", (event) => {
      if (event.target.token) history.replaceState(null, "", `${location.hash.startsWith("#page-") ? location.hash.split("/")[0] + "/" : "#"}${event.target.id}`);
    });
    box.append(bar, map, told);
  }
  for (const token of tokensOf(columns)) {
    const span = make("span", spell(token.text));
    span.token = token;
    span.id = `m${columns.message}t${token.number}`;
    span.tabIndex = -1;
    map.append(span);
  }
  paint(map, box.dataset.way);
  box.querySelector(".rest")?.remove();
  if (columns.next !== null) {
    const rest = make("button", `${(columns.size - columns.next).toLocaleString("en")} more tokens`, "rest");
    rest.type = "button";
    rest.addEventListener("click", () => load(box, columns.next));
    box.append(rest);
  }
}

export async function load(box, start = 0) {
  box.dataset.loaded = "yes";
  try {
    draw(box, await read(start ? `${box.dataset.source}&from=${start}` : box.dataset.source));
  } catch (error) {
    box.append(make("p", error.message, "problem"));
  }
}

document.addEventListener(
  "toggle",
  (event) => {
    if (event.target.matches?.("details.tokens") && event.target.open && !event.target.dataset.loaded) load(event.target);
  },
  true,
);
