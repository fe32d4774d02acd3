from standins import load, stand_in

stand_in(
    "beartype.door",
    "nltk.tokenize",
    "PIL",
    "playwright.sync_api",
    "browser_env.actions",
    "browser_env.utils",
    "browser_env",
    "evaluation_harness",
    "evaluation_harness.helper_functions",
    "evaluation_harness.image_utils",
    "evaluate",
    "numpy",
    "requests",
    "torch",
    "skimage.metrics",
)
stand_in("beartype", beartype=lambda each: each)
evaluators = load("evaluation_harness/evaluators.py", "evaluation_harness.evaluators")


def grade(answer, row):
    return evaluators.StringEvaluator.exact_match(row["golden"], answer)
