"""An agent and an environment for Harbor that need no model and no container: jobs with trials of every kind of end.

The agent does what its instruction says and writes its trajectory with Harbor's own models. The environment runs commands below a
folder of its own: paths stay those of the tasks, since the scripts name `$ROOT`.
"""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities
from harbor.models.trajectories import Agent, FinalMetrics, Metrics, Observation, ObservationResult, Step, ToolCall, Trajectory
from harbor.utils.trajectory_utils import format_trajectory_json


class FolderEnvironment(BaseEnvironment):
    @staticmethod
    def type():
        return "folder"

    @property
    def capabilities(self):
        return EnvironmentCapabilities()

    @classmethod
    def resource_capabilities(cls):
        return None

    def _validate_definition(self):
        pass

    async def start(self, force_build):
        self.root = Path(tempfile.mkdtemp(prefix="harbor-folder-"))
        for name in ("agent", "verifier", "artifacts"):
            (self.root / "logs" / name).mkdir(parents=True)

    async def stop(self, delete):
        shutil.rmtree(self.root, ignore_errors=True)

    def _in(self, path):
        return self.root / str(path).lstrip("/")

    async def upload_file(self, source_path, target_path):
        self._in(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self._in(target_path))

    async def upload_dir(self, source_dir, target_dir):
        shutil.copytree(source_dir, self._in(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path, target_path):
        shutil.copy(self._in(source_path), target_path)

    async def download_dir(self, source_dir, target_dir):
        shutil.copytree(self._in(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None, **more):
        here = command.replace("/tests/", f"{self.root}/tests/").replace("/logs/", f"{self.root}/logs/")
        process = await asyncio.create_subprocess_exec(
            "/bin/bash",
            "-c",
            here,
            cwd=self.root,
            env={**os.environ, **(env or {}), "ROOT": str(self.root)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), timeout_sec)
        except TimeoutError:
            process.kill()
            raise
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode)


class Player(BaseAgent):
    SUPPORTS_ATIF = True

    @staticmethod
    def name():
        return "player"

    def version(self):
        return "1.0"

    async def setup(self, environment):
        pass

    async def run(self, instruction, environment, context):
        word = instruction.split()[-1].strip(".")
        done = await environment.exec(f'echo {word} > "$ROOT/answer.txt" && echo written')
        self._write(instruction, word, done.stdout)
        context.n_input_tokens, context.n_output_tokens, context.cost_usd = 30, 5, 0.25
        if word == "sleep":
            await asyncio.sleep(60)
        if word == "raise":
            raise RuntimeError("the agent's program broke")

    def _write(self, instruction, word, output):
        call = ToolCall(tool_call_id="c1", function_name="bash", arguments={"command": f"echo {word} > answer.txt"})
        first = Metrics(
            prompt_tokens=10, completion_tokens=3, prompt_token_ids=[1, 2], completion_token_ids=[3, 4, 5], logprobs=[-0.5] * 3
        )
        second = Metrics(
            prompt_tokens=20,
            completion_tokens=2,
            prompt_token_ids=[1, 2, 3, 4, 5, 6],
            completion_token_ids=[7, 8],
            logprobs=[-1.0] * 2,
        )
        definition = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}
        trajectory = Trajectory(
            session_id="one",
            agent=Agent(name="player", version="1.0", model_name="none/scripted", tool_definitions=[definition]),
            steps=[
                Step(step_id=1, source="user", message=instruction, timestamp="2026-11-17T05:00:00Z"),
                Step(
                    step_id=2,
                    source="agent",
                    message="I write it.",
                    reasoning_content="It is one word.",
                    tool_calls=[call],
                    observation=Observation(results=[ObservationResult(source_call_id="c1", content=output)]),
                    metrics=first,
                    timestamp="2026-11-17T05:00:02Z",
                ),
                Step(step_id=3, source="agent", message="Done.", metrics=second),
            ],
            final_metrics=FinalMetrics(total_prompt_tokens=30, total_completion_tokens=5, total_steps=3),
        )
        (self.logs_dir / "trajectory.json").write_text(format_trajectory_json(trajectory.to_json_dict()))
