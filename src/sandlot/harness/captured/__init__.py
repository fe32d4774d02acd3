"""Capture: agents we did not write, and the endpoints they speak to.

Read `command.py` first (a command-line agent as a harness), then `history.py` (how what it sends is found again in the trace)
and the two dialects, `openai.py` and `anthropic.py`. `listening.py` and `exchange.py` are the HTTP below; `sandlot serve --model`
stands on them too.
"""
