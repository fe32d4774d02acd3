"""The connection to the program that runs inside a sandbox."""
