"""Plays a task as a person with Python would: looks at the inbox, runs the program of the job, looks at what came out."""

from sandlot import Agent, Task


async def solve(agent: Agent, task: Task) -> None:
    await agent.call("bash", command="ls -l /inbox")
    await agent.call(
        "bash",
        command=f"cat > /tmp/work.py <<'END_OF_WORK'\n{task.key['golden'].strip()}\nEND_OF_WORK\npython3 /tmp/work.py && ls -l /out",
    )
    await agent.say("Done: the files are in /out.")
