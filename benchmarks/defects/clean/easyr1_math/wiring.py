from standins import load

math = load("examples/reward_function/math.py", "reward_math")


def grade(answer, row):
    return math.compute_score([{"response": answer, "ground_truth": row["key"]}])[0]["overall"]
