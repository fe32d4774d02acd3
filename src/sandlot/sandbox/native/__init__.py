"""Sandboxes from Linux namespaces, without a daemon."""
