from standins import load, stand_in

stand_in("gym", "datasets", "numpy", "ragen.utils")
stand_in("ragen.env.base", BaseLanguageBasedEnv=object)
stand_in("ragen.env.metamathqa.config")
MetaMathQAEnv = load("ragen/env/metamathqa/env.py", "ragen.env.metamathqa.env").MetaMathQAEnv


def grade(answer, row):
    env = object.__new__(MetaMathQAEnv)
    env.correct_answer, env.step_num = env._extract_answer(row["response"]), 0
    return float(env.step(answer)[1])
