"""Records, ports, errors, limits, concurrency and statistics that every other part stands on."""
