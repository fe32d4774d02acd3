// Keys that all pages know: j and k go to the next and the previous article.

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = { j: 1, k: -1 }[event.key];
  const messages = step ? [...document.querySelectorAll("article")] : [];
  if (!messages.length) return;
  const now = messages.indexOf(document.activeElement.closest("article"));
  const next = messages[Math.min(messages.length - 1, Math.max(0, now + step))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
});
