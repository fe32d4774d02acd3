"""Models behind HTTP: chat and token endpoints, retries, secrets, spending."""
