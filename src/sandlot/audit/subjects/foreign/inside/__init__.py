"""Programs that run foreign code, in its sandbox and with its Python: standard library only, no imports from Sandlot.

`sandlot_serve.py` is started; it reads requests, forks a child for each batch and returns one answer per request.
`sandlot_surroundings.py` sets clock, network and random generators, `sandlot_naming.py` imports what is named;
`sandlot_grading.py` and `sandlot_gym.py` handle the requests. Their names are long so that they do not clash with foreign
modules.
"""
