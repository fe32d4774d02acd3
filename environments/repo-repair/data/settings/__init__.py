"""Settings in layers."""
