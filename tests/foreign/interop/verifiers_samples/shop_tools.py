"""A tool environment of verifiers: calls in parallel, a tool that raises, a tool whose error ends the rollout."""

import verifiers as vf
from datasets import Dataset

PRICES = {"tea": 3, "milk": 2, "bread": 4}


class StockError(Exception):
    pass


def price(item: str) -> int:
    """The price of an item.

    Args:
        item: The item.
    """
    if item == "fire":
        raise StockError("the shop burns")
    return PRICES[item]


def load_environment():
    rows = [
        {"question": "What do tea and milk cost together?", "answer": "5", "info": {"calls": 2}},
        {"question": "What does bread cost?", "answer": "4", "info": {"calls": 1}},
    ]

    def right(completion, answer):
        return 1.0 if (completion[-1].content or "").strip() == answer else 0.0

    def asked(completion, info):
        calls = [call for message in completion if message.role == "assistant" for call in message.tool_calls or []]
        return 1.0 if len(calls) == info["calls"] else 0.0

    return vf.ToolEnv(
        dataset=Dataset.from_list(rows),
        tools=[price],
        max_turns=4,
        stop_errors=[StockError],
        rubric=vf.Rubric(funcs=[right, asked], weights=[0.5, 0.5]),
    )
