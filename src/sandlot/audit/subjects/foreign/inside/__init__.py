"""Programs that run beside foreign code, in its sandbox and with its Python: standard library only, nothing of Sandlot's.

`sandlot_serve.py` is started; it reads requests, forks a child for each batch and says what became of every one.
`sandlot_surroundings.py` sets clock, network and randomness, `sandlot_naming.py` finds what is named; `sandlot_grading.py` and
`sandlot_gym.py` are what a child does.
Their names are long because they stand beside modules of others, which may be called `grader`.
"""
