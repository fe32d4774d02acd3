"""A real Chromium in the sandbox, driven by the host over the DevTools protocol."""
