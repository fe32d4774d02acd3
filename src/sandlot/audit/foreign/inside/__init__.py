"""Programs that run beside foreign code, in its sandbox and with its Python: standard library only, nothing of Sandlot's.

`serve.py` is started; it reads requests, forks a child for each batch and says what became of every one. `surroundings.py` sets
clock, network and randomness; `grader.py` and `gymnasium.py` are what a child does.
"""
