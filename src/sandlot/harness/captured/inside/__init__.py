"""Programs that the harness puts into the sandbox of an agent. They need only Python's standard library."""
