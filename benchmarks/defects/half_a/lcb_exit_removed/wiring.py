import json

from lcb_runner.evaluation.compute_code_generation_metrics import check_correctness


def grade(answer, row):
    sample = {"input_output": json.dumps({"inputs": row["inputs"], "outputs": row["outputs"]})}
    return float(all(each is True or each == 1 for each in check_correctness(sample, answer, 4, debug=False)[0]))
