"""One file per command: how its result is printed."""
