import gsm8k


def grade(answer, row):
    return float(gsm8k.compute_score(answer, row["key"]))
