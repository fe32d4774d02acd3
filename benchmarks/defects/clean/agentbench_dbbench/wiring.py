"""Results of a query as AgentBench compares them; the answer is the list of values as JSON."""

import json

from standins import load, stand_in

stand_in("dbbench.interaction")
processor = load("src/server/tasks/dbbench/result_processor.py", "dbbench.result_processor").DBResultProcessor


def grade(answer, row):
    try:
        given = json.loads(answer)
    except ValueError:
        return 0.0
    return float(
        isinstance(given, list) and processor.compare_results([str(each) for each in given], json.loads(row["golden"]), "SELECT")
    )
