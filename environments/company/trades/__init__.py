"""The trades of the desk, one module each."""
