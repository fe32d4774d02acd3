import asyncio

from standins import load, stand_in

stand_in("litellm", "pydantic", "pydantic_core")
stand_in("pydantic", BaseModel=object)
utils = load("src/aviary/utils.py", "aviary_utils")


def grade(answer, row):
    return asyncio.run(utils.eval_answer(answer, row["golden"], eval_mode="exact"))
