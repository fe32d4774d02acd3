"""Running processes: what they were started with, and what they still hold."""

from random import Random

from .job import WORDS, Job, token
from .watching import WATCH, watch

PROMPT = """Several workers are running on this machine, each a `sleep` with its own variables and its own working directory.
Two things are needed from them:

1. The worker whose variable QUEUE is `{queue}` was started with a TOKEN. Write it to /out/token.txt.
2. The worker whose working directory is /srv/work/{place} has a file open that was deleted. Write what was in it to
   /out/recovered.txt.

All workers must go on as they are."""
WORKER = """mkdir -p /srv/work/{place}
printf '%s\\n' '{first}' '{second}' > /srv/work/{place}/notes
(cd /srv/work/{place} && exec 3<notes && rm notes &&
  QUEUE={queue} TOKEN={token} exec sleep {seconds}) </dev/null >/dev/null 2>&1 &
"""


def running_workers(rng: Random) -> Job:
    places, queues = rng.sample(WORDS, 8), rng.sample(WORDS, 8)
    workers = [
        {
            "place": place,
            "queue": queue,
            "token": token(rng),
            "first": token(rng, 30),
            "second": token(rng, 30),
            "seconds": seconds,
        }
        for seconds, (place, queue) in enumerate(zip(places, queues, strict=True), 86_400)
    ]
    asked, opened = rng.sample(workers, 2)
    # A worker has its variables only after its `exec`.
    ready = (
        f"for q in {' '.join(queues)}; do until grep -qz ^QUEUE=$q$ /proc/[0-9]*/environ 2>/dev/null; do sleep 0.01; done; done"
    )
    watching = watch(rng, {worker["queue"]: ["sleep", str(worker["seconds"])] for worker in workers}, [], stopped=[])
    return Job(
        prompt=PROMPT.format(queue=asked["queue"], place=opened["place"]),
        script="".join(WORKER.format(**worker) for worker in workers) + f"{ready}\n{WATCH}",
        **watching.parts,
        lasting=watching.want,
        wants=[
            {"kind": "text", "path": "/out/token.txt", "value": asked["token"]},
            {"kind": "text", "path": "/out/recovered.txt", "value": f"{opened['first']}\n{opened['second']}\n"},
        ],
        solution=[
            f"mkdir -p /out; cd /proc; grep -lz '^QUEUE={asked['queue']}$' [0-9]*/environ 2>/dev/null | tee /tmp/which",
            "cd /proc; tr '\\0' '\\n' < $(head -1 /tmp/which) | grep ^TOKEN= | cut -d= -f2 | tee /out/token.txt",
            f"ls -l /proc/[0-9]*/cwd | grep /srv/work/{opened['place']}$ | tr ' ' '\\n' | grep ^/proc/ > /tmp/where",
            "cat $(dirname $(cat /tmp/where))/fd/3 | tee /out/recovered.txt",
        ],
    )
