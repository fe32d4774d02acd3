"""The trivial one-turn task for verifiers: what `environments/arithmetic` is for us."""

import verifiers.v1 as vf


class Sum(vf.TaskData):
    answer: int


class Addition(vf.Task[Sum]):
    @vf.reward
    async def exact(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == str(self.data.answer))


class AdditionConfig(vf.TasksetConfig):
    num_tasks: int = 100


class Additions(vf.Taskset[Addition, AdditionConfig]):
    def load(self) -> list[Addition]:
        return [
            Addition(Sum(idx=i, prompt=f"What is {i}+{i}?", answer=2 * i), self.config.task) for i in range(self.config.num_tasks)
        ]


__all__ = ["Additions"]
