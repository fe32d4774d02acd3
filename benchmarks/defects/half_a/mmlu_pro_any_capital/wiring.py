from standins import stand_in

stand_in("openai", "anthropic", "google.generativeai", "datasets", "tqdm", "ai21", "ai21.models.chat", "transformers")

import evaluate_from_api


def grade(answer, row):
    return float(evaluate_from_api.extract_answer(answer) == row["golden"][-2])
