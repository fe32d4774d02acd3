"""OpenEnv: our environments for its clients, and its environments as ours."""
