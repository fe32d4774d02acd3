from standins import stand_in

stand_in(
    "helm.benchmark.adaptation.adapter_spec", "helm.benchmark.adaptation.request_state", "helm.benchmark.metrics.metric_name"
)
stand_in("helm.benchmark.metrics.metric", Metric=object)
stand_in("helm.benchmark.metrics.metric_service", "helm.benchmark.metrics.statistic")

import codeinsights_correct_code_metrics as metrics

TEMPLATE = "#include <iostream>\nusing namespace std;\n{{ STUDENT_ANSWER }}\nint main() {\n{% for TEST in TESTCASES %}{{ TEST.testcode }}{% endfor %}\nreturn 0;\n}\n"


def grade(answer, row):
    return metrics.CPPEvaluator(TEMPLATE, row["testcases"], timeout=5).evaluate(answer)["score"]
