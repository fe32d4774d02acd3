// Parts of a page that change while it is open: elements with an id and `data-part` are taken again from the server.

/** Replace every part that has changed, unless the reader is in it. */
export async function refreshParts() {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  // Parsed, never run: the policy of the page forbids it, and the server escapes all text.
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-part]")) {
    const next = page.getElementById(part.id);
    if (next && next.innerHTML !== part.innerHTML && !part.contains(document.activeElement)) part.replaceWith(next);
  }
}
