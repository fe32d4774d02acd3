"""The probes of an audit, one folder per layer."""
