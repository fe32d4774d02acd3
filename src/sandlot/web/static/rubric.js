// The rubric editor: lint as one types, a trial on stored rollouts, saving.

import { post } from "./desk.js";

const page = document.querySelector("#rubric");
const list = document.querySelector("#checks");
const words = (text) => text.split(",").map((word) => word.trim()).filter(Boolean);
const number = (text) => (text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text);
const make = (tag, text = "", className = "") => {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = className;
  return made;
};

const value = (field) => {
  const { field: name } = field.dataset;
  if (name === "gate") return field.checked;
  if (["requires", "tags", "choices", "view"].includes(name)) return words(field.value);
  if (["points", "votes"].includes(name)) return number(field.value);
  if (name !== "args") return field.value;
  if (!field.value.trim()) return {};
  try {
    return JSON.parse(field.value);
  } catch {
    return field.value; // the server says what is wrong
  }
};

const isTouched = (field) => (field.type === "checkbox" ? field.checked !== field.defaultChecked : field.value !== field.defaultValue);

const read = () =>
  [...list.querySelectorAll(".check:not(.removed)")].map((check) => {
    const isNew = check.dataset.was === undefined;
    const fixed = isNew ? { kind: check.dataset.kind, ref: check.dataset.ref } : { was: Number(check.dataset.was) };
    // Of a stored check only what was changed is sent: a field cannot show every value exactly, such as a verdict with a comma.
    const fields = [...check.querySelectorAll("[data-field]")]
      .filter((field) => isNew || isTouched(field))
      .map((field) => [field.dataset.field, value(field)]);
    const examples = [...check.querySelectorAll(".example")].map((example) => {
      const [view, verdict] = [...example.querySelectorAll("[data-part]")].map((part) => part.value);
      return { view, verdict: verdict.trim() };
    });
    const parts = [...check.querySelectorAll("[data-part]")];
    const others = examples.length !== Number(check.dataset.examples ?? 0) || parts.some(isTouched);
    return { ...fixed, ...Object.fromEntries(fields), ...(others ? { examples } : {}) };
  });

const idOf = (check) => check.querySelector("[data-field=id]")?.value ?? check.dataset.id;
const told = () => ({ name: page.dataset.name, checks: read() });

const showFindings = (said) => {
  const shown = document.querySelector("#findings");
  shown.replaceChildren();
  const checks = [...list.querySelectorAll(".check")];
  for (const check of checks) check.classList.remove("wrong", "doubtful");
  for (const each of said.findings) {
    const line = make("li", "", each.severity);
    line.append(make("b", each.severity), ` ${each.message} `, make("span", each.fix, "dim"));
    const check = checks.find((one) => each.check && idOf(one) === each.check && !one.classList.contains("removed"));
    if (check) {
      check.classList.add(each.severity === "error" ? "wrong" : "doubtful");
      line.dataset.check = each.check;
      line.addEventListener("click", () => check.scrollIntoView({ block: "center" }));
    }
    shown.append(line);
  }
  if (!said.findings.length) shown.append(make("li", "nothing found", "dim"));
  document.querySelector("#points").textContent = said.points === null ? "-" : said.points.toLocaleString("en");
  document.querySelector("#count").textContent = read().length;
  document.querySelector("#changed").hidden = !said.changed;
  const save = document.querySelector("#save");
  if (save) save.disabled = said.errors > 0 || !said.changed;
};

let waiting = 0;
let asked = 0;
const check = () => {
  clearTimeout(waiting);
  const save = document.querySelector("#save");
  if (save) save.disabled = true; // until the lint of what is now written has come
  waiting = setTimeout(async () => {
    asked += 1;
    const mine = asked;
    const said = await post("rubric/lint", told());
    if (said && mine === asked) showFindings(said);
  }, 200);
};

const percent = (value) => (value === null ? "-" : value.toFixed(3));
const showTrial = (said) => {
  const shown = document.querySelector("#trial");
  shown.replaceChildren();
  const sample = said.graded < said.of ? ` of ${said.of}` : "";
  shown.append(make("p", `${said.changed} of ${said.graded}${sample} rollouts change their score. Mean score ${percent(said.before)} → ${percent(said.now)}, full marks ${said.passed_before} → ${said.passed_now}.`));
  if (said.only_points) shown.append(make("p", `${said.only_points} more change their points or checks, but not their score.`, "dim"));
  if (said.stopped) shown.append(make("p", "The time was over before all were graded.", "problem"));
  if (!said.same_environment) shown.append(make("p", "The run was made with another version of the environment, so not every change comes from your edit.", "dim"));
  if (said.checks.length) shown.append(make("p", `Checks: ${said.checks.map(([name, count]) => `${name} ${count}`).join(", ")}`));
  const table = document.createElement("table");
  for (const each of said.rollouts) {
    const row = table.insertRow();
    const place = make("a", `${each.task} ${each.rollout}`);
    place.href = each.link;
    row.insertCell().append(place);
    row.insertCell().textContent = `${each.before} → ${each.now}`;
    row.insertCell().textContent = each.checks.join(", ");
  }
  shown.append(table);
};

const add = (template, ref, args) => {
  const made = document.querySelector(template).content.firstElementChild.cloneNode(true);
  if (ref) {
    made.dataset.ref = ref;
    made.querySelector(".tag").textContent = ref;
    made.querySelector("[data-field=args]").value = args;
  }
  document.querySelector("#more").before(made);
  made.querySelector("[data-field=id]").focus();
  check();
};

list.addEventListener("input", check);
list.addEventListener("click", (event) => {
  const adding = event.target.closest(".add-example");
  if (adding) {
    const made = document.querySelector("#new-example").content.firstElementChild.cloneNode(true);
    adding.before(made);
    made.querySelector("textarea").focus();
    check();
  }
  const leaving = event.target.closest(".remove-example");
  if (leaving) {
    leaving.closest(".example").remove();
    check();
  }
  const button = event.target.closest(".remove");
  if (!button) return;
  const removed = button.closest(".check");
  if (removed.dataset.was === undefined) removed.remove();
  else button.textContent = removed.classList.toggle("removed") ? "keep" : "remove";
  check();
});
document.querySelector("#add-judge").addEventListener("click", () => add("#new-judge"));
document.querySelector("#add-function").addEventListener("click", () => {
  const chosen = document.querySelector("#function").selectedOptions[0];
  add("#new-function", chosen.value, chosen.dataset.args);
});
document.querySelector("#try")?.addEventListener("click", async (event) => {
  const button = event.currentTarget;
  button.disabled = true;
  document.querySelector("#trial").textContent = "grading ...";
  const said = await post("rubric/try", { ...told(), run: document.querySelector("#run").value });
  if (said) showTrial(said);
  else document.querySelector("#trial").textContent = "";
  button.disabled = false;
});
document.querySelector("#save")?.addEventListener("click", async (event) => {
  event.currentTarget.disabled = true;
  const said = await post("rubric/save", { ...told(), seen: page.dataset.seen });
  if (said) location.reload(); // the places of checks in the file are new
});
window.addEventListener("beforeunload", (event) => {
  const save = document.querySelector("#save");
  if (save && !save.disabled) event.preventDefault();
});
