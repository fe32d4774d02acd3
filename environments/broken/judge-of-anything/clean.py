"""Match a payment to its invoice."""

import re
from random import Random

from sandlot import Agent, Environment, Evidence, JudgeCheck, Rubric, Task

env = Environment("matching", system="Reply with the number of the invoice the payment is for.")


@env.tasks
def tasks(rng: Random):
    for number in range(8):
        invoices = {f"INV-{4000 + 8 * place + number}": rng.randrange(100, 9999) for place in range(5)}
        paid = sorted(invoices)[number % 5]
        listed = ", ".join(f"{invoice}: {amount} euros" for invoice, amount in invoices.items())
        prompt = f"A payment of {invoices[paid] - 3} euros came in after a discount of 3 euros. Invoices: {listed}."
        yield Task(f"payment-{number}", prompt=prompt, key={"invoice": paid}, rubric=paid)


@env.check(points=0, gate=True)
def reply_is_an_invoice(evidence: Evidence) -> bool:
    return re.fullmatch(r"\s*INV-\d{4}\.?\s*", evidence.answer) is not None


def question(invoice: str) -> Rubric:
    asked = f'The reply names the invoice "{invoice}".'
    return Rubric(checks=(*env.marked.checks, JudgeCheck(id="names_the_invoice", prompt=asked)))


env.marked.rubrics = {f"INV-{number}": question(f"INV-{number}") for number in range(4000, 4040)}


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    await agent.say(task.key["invoice"])
