"""The command line: parse, call one function, print. Read `main.py` for the rules, `run.py` for the main command."""
