from drive.in_process import case_of, codes
from sandlot.audit.probes.scripted.saving import _look_at_saving
from worlds.audited import desk


def talking_desk():
    env = desk()
    env.user(lambda world, text: None if "resolved" in text.casefold() or "done" in text.casefold() else "And my money?")
    return env


async def test_a_user_reply_is_not_taken_for_a_tool_result():
    case = await case_of(talking_desk)
    case.tasks = case.tasks[:1]
    assert codes(await _look_at_saving(case)) == set()
