"""The supported model families, one module each."""
