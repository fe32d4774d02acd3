"""A multi-turn environment of verifiers: the environment replies, and ends the rollout with its last words."""

import verifiers as vf
from datasets import Dataset


class GuessEnv(vf.MultiTurnEnv):
    async def setup_state(self, state):
        state["guesses"] = 0
        return state

    async def env_response(self, messages, state, **kwargs):
        state["guesses"] += 1
        said = (messages[-1].content or "").strip()
        if said == "crash":
            raise vf.ToolCallError("the game fell over")
        if not said.isdecimal():
            return [vf.UserMessage(content="Say a number.")]
        if int(said) == int(state["answer"]):
            state["final_env_response"] = [vf.UserMessage(content="Right.")]
            return state["final_env_response"]
        return [vf.UserMessage(content="Higher." if int(said) < int(state["answer"]) else "Lower.")]


def load_environment(turns=6):
    rows = [{"question": "Guess my number from 0 to 9.", "answer": str(number)} for number in (3, 7, 9)]

    def found(state):
        return 1.0 if state["final_env_response"] else 0.0

    def fast(state):
        return 1.0 / state["guesses"] if state["final_env_response"] else 0.0

    return GuessEnv(dataset=Dataset.from_list(rows), max_turns=turns, rubric=vf.Rubric(funcs=[found, fast], weights=[0.5, 0.5]))
