from standins import stand_in

stand_in(
    "nltk.metrics.scores",
    "nltk.tokenize",
    "nltk.translate.bleu_score",
    "rouge_score",
    "numpy",
    "helm.benchmark.adaptation.adapter_spec",
    "helm.benchmark.adaptation.request_state",
    "helm.benchmark.metrics.code_metrics_helper",
    "helm.benchmark.metrics.cleva_metrics_helper",
    "helm.benchmark.metrics.metric",
    "helm.benchmark.metrics.metric_name",
    "helm.benchmark.metrics.metric_service",
    "helm.benchmark.metrics.nltk_helper",
    "helm.benchmark.metrics.statistic",
    "helm.benchmark.scenarios.code_scenario",
    "helm.benchmark.scenarios.math_scenario",
    "helm.benchmark.scenarios.scenario",
    "helm.common.optional_dependencies",
    "helm.common.request",
)

import evaluate_reference_metrics as metrics


def grade(answer, row):
    letter = metrics._apply_output_mapping_pattern(r"(?:Answer|answer): *([A-D])", answer)
    return float(row["options"].get(letter) == row["key"])
