"""A real desktop in the sandbox: an X server, a window manager and applications, for agents that see, click and type."""
