"""Where turns come from: a chat endpoint, a script, a recording.

Read `spoken.py` first: it makes a policy of any chat model. `openai.py` is the one chat model over the network (`wire.py` says
how messages travel, `failure.py` what a refusal means, `retry.py` how long it is tried again, `secret.py` what is never shown);
`spend.py` caps what it may cost. `scripted.py` plays golden solutions and failures, `replay.py` what was recorded.
"""
