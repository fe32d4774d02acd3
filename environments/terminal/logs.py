"""Rotated access logs: who was served badly, and what was served."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random

from .job import WORDS, Job, lines

FOLDER = "/var/log/web"
PROMPT = """The web server's logs are in {folder}: access.log, access.log.1 and, compressed, access.log.2.gz.
Write two files from all three logs together:

1. /out/clients.csv: the three client addresses that got the most answers with a status of {status}00 to {status}99, as lines
   `address,count`, most first; of addresses with the same count, the one first in byte order comes first.
2. /out/bytes.csv: for every path (without its query string) that was asked for with {method} and answered with status 200, the
   bytes sent in all, as lines `path,bytes`, sorted.

Requests of the health probe (user agent `probe/1.0`) do not count anywhere, nor do lines that are not whole requests."""
SOLUTION = r"""mkdir -p /out; cat > /tmp/read.py <<'END'
import gzip, re, collections
LINE = re.compile(r'(\S+) - - \[[^]]+\] "(\S+) (\S+) HTTP/1.1" (\d{{3}}) (\d+) "([^"]*)"\n')
bad, sent = collections.Counter(), collections.Counter()
for name, opened in (("access.log", open), ("access.log.1", open), ("access.log.2.gz", gzip.open)):
    for line in opened("/var/log/web/" + name, "rt"):
        found = LINE.fullmatch(line)
        if not found or found[6] == "probe/1.0":
            continue
        if found[4][0] == "{status}":
            bad[found[1]] += 1
        if found[2] == "{method}" and found[4] == "200":
            sent[found[3].split("?")[0]] += int(found[5])
with open("/out/clients.csv", "w") as out:
    for address, count in sorted(bad.items(), key=lambda each: (-each[1], each[0]))[:3]:
        print(f"{{address}},{{count}}", file=out)
with open("/out/bytes.csv", "w") as out:
    for path, total in sorted(sent.items()):
        print(f"{{path}},{{total}}", file=out)
END
python3 /tmp/read.py && cat /out/*.csv"""


def busiest_clients(rng: Random) -> Job:
    status, method = rng.choice("45"), rng.choice(["GET", "POST"])
    clients = [f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}" for _ in range(9)]
    paths = [f"/{first}/{second}" for first, second in zip(rng.sample(WORDS, 6), rng.sample(WORDS, 6), strict=True)]
    bad, sent = Counter[str](), Counter[str]()
    when = datetime(2026, 3, rng.randrange(1, 28), tzinfo=UTC)
    rows: list[str] = []
    for _ in range(300):
        when += timedelta(seconds=rng.randrange(1, 300))
        client, path = rng.choice(clients), rng.choice(paths)
        verb, code, size = (
            rng.choice(["GET", "GET", "POST"]),
            rng.choice([200, 200, 200, 404, 429, 500, 503]),
            rng.randrange(50_000),
        )
        agent = rng.choice(["Mozilla/5.0", "curl/8.1", "probe/1.0"])
        query = f"?page={rng.randrange(9)}" if rng.random() < 0.3 else ""
        row = f'{client} - - [{when:%d/%b/%Y:%H:%M:%S} +0000] "{verb} {path}{query} HTTP/1.1" {code} {size} "{agent}"'
        if rng.random() < 0.04:
            rows.append(row[: rng.randrange(20, len(row) - 14)])
            continue
        rows.append(row)
        if agent != "probe/1.0":
            bad[client] += str(code)[0] == status
            if verb == method and code == 200:
                sent[path] += size
    third = len(rows) // 3
    names = [f"{FOLDER}/access.log.2", f"{FOLDER}/access.log.1", f"{FOLDER}/access.log"]
    top = sorted(bad.items(), key=lambda each: (-each[1], each[0]))[:3]
    return Job(
        prompt=PROMPT.format(folder=FOLDER, status=status, method=method),
        files={name: lines(rows[place * third : (place + 1) * third]) for place, name in enumerate(names)},
        script=f"gzip -n {names[0]}",
        wants=[
            {"kind": "text", "path": "/out/clients.csv", "value": lines([f"{client},{count}" for client, count in top])},
            {"kind": "text", "path": "/out/bytes.csv", "value": lines([f"{path},{size}" for path, size in sorted(sent.items())])},
        ],
        kept=tuple(names[1:]),
        solution=[SOLUTION.format(status=status, method=method)],
    )
