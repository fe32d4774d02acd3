// The state of a live run, as the server tells it.

const AGAIN_MS = 3000;

/** Call `show` with every state of a run until it has ended; then load the page again, as that of an ended run. */
export function follow(address, show) {
  const source = new EventSource(address);
  source.addEventListener("message", (event) => {
    const state = JSON.parse(event.data);
    if (!state.live) {
      source.close();
      location.reload();
      return;
    }
    show(state);
  });
  source.addEventListener("error", () => {
    // The browser connects again by itself after a cut, but not after an answer such as 404 or 500.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => follow(address, show), AGAIN_MS);
  });
}
