from standins import load, stand_in

stand_in("open_r1.utils", "open_r1.utils.ioi", "open_r1.utils.code_providers", is_e2b_available=lambda: False)
rewards = load("src/open_r1/rewards.py", "open_r1.rewards")


def grade(answer, row):
    return rewards.accuracy_reward([[{"role": "assistant", "content": answer}]], [row["solution"]])[0]
