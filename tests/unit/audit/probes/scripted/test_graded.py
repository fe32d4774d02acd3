from drive.in_process import case_of
from sandlot import Environment, Task
from sandlot.audit.probes.scripted.graded import find_graded_changes
from sandlot.audit.probes.scripted.reach import find_works


def shelf() -> Environment:
    """Only `v1.orders`, `v1` and `a.sum` count; `v1.orders.log` and `seen.log` are logs that no check reads."""
    env = Environment("shelf", state=dict)
    env.tasks(lambda rng: [Task("t", prompt="Order an anvil.")])

    @env.setup
    def fill(world, task):
        world.state = {
            "v1.orders": {"a": {"units": 0}},
            "v1": {"open": True},
            "v1.orders.log": {"lines": []},
            "a.sum": 0,
            "seen.log": "",
        }

    @env.tool
    async def order(world, units: int):
        world.state["v1.orders"]["a"]["units"] = units
        world.state["v1"]["open"] = False
        world.state["v1.orders.log"]["lines"].append(units)
        world.state["a.sum"] = 2
        world.state["seen.log"] = "order"
        return "Ordered."

    @env.check(points=1)
    def ordered(evidence, task) -> bool:
        rows = evidence.state
        return rows["v1.orders"]["a"]["units"] == 2 and not rows["v1"]["open"] and rows["a.sum"] == 2

    @env.solution
    async def solve(agent, task):
        await agent.call("order", units=2)
        await agent.say("done")

    return env


async def test_state_counts_by_its_real_keys_which_may_have_dots():
    case = await case_of(shelf)
    assert await find_graded_changes(case, await find_works(case, case.tasks)) == {
        "t": {"state.v1.orders.a.units", "state.v1.open", "state.a.sum"}
    }
