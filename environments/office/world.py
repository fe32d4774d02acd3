"""What a rollout starts with: the files of the task in /inbox, and an empty /out."""

from sandlot import Task, World


async def setup(world: World, task: Task) -> None:
    for path, content in task.data["files"].items():
        await world.write(path, content)
    await world.exec("mkdir -p /out")
