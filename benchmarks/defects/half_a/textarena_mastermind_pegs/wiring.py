from standins import load, stand_in

stand_in("textarena", Env=object)
MastermindEnv = load("textarena/envs/two_player/Mastermind/env.py", "textarena_mastermind").MastermindEnv


def pegs(secret, guess):
    env = object.__new__(MastermindEnv)
    env.code_length, env.secret_codes = len(secret), {0: secret, 1: secret}
    return env._evaluate_guess(0, guess)


def grade(answer, row):
    return 0.0


def shows(answer, row):
    return pegs([1, 2, 3, 4], [2, 2, 5, 6]) != (1, 0)
