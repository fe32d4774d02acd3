// Pages in one file: the address after # names the page, and the place on it. A link to another page loads the file again, so that each
// page begins as it does on a server.

function asked() {
  const [page, place] = location.hash.slice(1).split(/[#/]/);
  const known = [...document.querySelectorAll("template[data-page]")];
  const found = known.find((each) => each.dataset.page === page) ?? (page && !page.startsWith("page-") ? null : known[0]);
  return { found: found ?? known[0], place };
}

history.scrollRestoration = "manual";
const { found, place } = asked();
document.body.prepend(found.content.cloneNode(true));
document.title = found.dataset.title;

// The main part of a link to this page stays a place on it: #m5 becomes #page-2/m5.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='#']");
  const [page, at] = (link?.getAttribute("href") ?? "").slice(1).split("#");
  if (!link || page.startsWith("page-")) return;
  event.preventDefault();
  if (page === "left-out") return document.querySelector("#left-out-note")?.showModal();
  history.pushState(null, "", `#${found.dataset.page}/${page}`);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
  document.getElementById(page)?.scrollIntoView();
});
addEventListener("hashchange", () => {
  if (asked().found !== found) location.reload();
});
document.querySelector("#left-out-note").addEventListener("click", (event) => event.currentTarget.close());
use(found.dataset.script);
if (place) document.getElementById(place)?.scrollIntoView();
