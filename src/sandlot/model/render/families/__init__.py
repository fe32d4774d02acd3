"""The families there are, one module each."""
