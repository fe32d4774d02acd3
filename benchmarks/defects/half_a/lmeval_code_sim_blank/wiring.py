import metrics


def grade(answer, row):
    return metrics.get_code_sim_score(row, [answer])["code_sim_score"]
