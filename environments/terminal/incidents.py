"""Incidents: who broke in, what fills the disk, what runs away, where a request was slow."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from random import Random
from typing import Any

from .job import PEOPLE, WORDS, Job, lines, token
from .watching import WATCH, watch

BREAK_IN = """This machine was broken into over ssh. /var/log/auth.log and /var/log/sudo.log cover the night. Write
/out/incident.json, one object:

- `attackers`: addresses with {least} or more failed passwords in all, sorted;
- `entered`: the addresses among them that got in afterwards by password, sorted;
- `accounts`: the accounts they got into, sorted;
- `commands`: the commands run with sudo by these accounts from the first such login of the account until it was closed by
  `session closed`, in the order of the log.

Colleagues mistype passwords too; logins by key are theirs."""
FULL = """The disk of this machine fills up, and `du` does not show what takes the space: some programs hold files open that
were deleted. Write /out/holders.csv: for every such file of {least} bytes or more, a line `name,path,bytes` with the name
of the program as the first word of its command line has it (without folders), the path the file had, and its size; largest
first. Then free the space of the largest one without ending its program: it must keep the file open, with nothing in it.
The programs log their work to /var/log/keepers.log; do not disturb that."""
RUNAWAY = """One of the workers on this machine uses the processor all the time. Every worker is a process `worker NAME`,
started by a keeper that starts another as soon as it ends. Find the worker that is busy, stop its keeper so that it does
not come back, and end the worker in order (TERM): it writes what it still had to do to /var/spool/worker/NAME before it
goes. The other workers and keepers must go on: they are waiting for work, not hung. Write the worker's name to
/out/runaway.txt."""
SLOW = """Requests pass through four services, each with its log in /srv/logs (gateway, basket, stock, payment). A line is
`TIME request=ID EVENT`, EVENT is `in` or `out`; clocks of the machines agree, lines are not always in order, and some
requests never came out of a service. For the requests that took more than {least} ms at the gateway (from `in` to `out`),
write /out/slow.csv: lines `request,service,ms` with the service in which the request spent most time by itself (its own
time minus the time in the service it called; gateway calls basket, basket calls stock, stock calls payment), slowest
request first. Requests that are not whole are left out; write how many of those there are to /out/lost.txt."""


def break_in(rng: Random) -> Job:
    when = datetime(2026, 4, 2, 1, tzinfo=UTC)
    least = rng.randrange(5, 9)
    attackers = [f"203.0.113.{number}" for number in rng.sample(range(1, 250), 4)]
    mates = {f"192.0.2.{rng.randrange(1, 250)}": person.split()[0].lower() for person in rng.sample(PEOPLE, 4)}
    victims = rng.sample(["backup", "deploy", "oracle", "git", "www"], 3)
    inside = dict(zip(rng.sample(attackers, 2), victims, strict=False))
    plan: list[tuple[str, str]] = []
    for address in attackers:
        tries = rng.randrange(least, least + 9)
        plan += [(address, "fail")] * tries + ([(address, "enter")] if address in inside else [])
    for address in mates:
        plan += [(address, "fail")] * rng.randrange(1, least - 1) + [(address, "key")]
    near = f"198.51.100.{rng.randrange(1, 250)}"
    plan += [(near, "fail")] * (least - 1)
    order = list(range(len(plan)))
    rng.shuffle(order)
    queues: dict[str, list[str]] = {}
    for address, deed in plan:
        queues.setdefault(address, []).append(deed)
    auth: list[str] = []
    sudo: list[tuple[datetime, str]] = []
    wanted: list[tuple[datetime, str]] = []
    for place in order:
        when += timedelta(seconds=rng.randrange(5, 120))
        address = plan[place][0]
        deed, stamp, number = queues[address].pop(0), f"{when:%Y-%m-%dT%H:%M:%SZ}", rng.randrange(1000, 9000)
        if deed == "fail":
            user = mates.get(address) or rng.choice([*victims, "root", "admin", "test"])
            kind = "invalid user " if user in {"admin", "test"} else ""
            auth.append(
                f"{stamp} sshd[{number}]: Failed password for {kind}{user} from {address} port {rng.randrange(1024, 65000)} ssh2"
            )
            continue
        user = inside[address] if deed == "enter" else mates[address]
        how = "password" if deed == "enter" else "publickey"
        auth.append(f"{stamp} sshd[{number}]: Accepted {how} for {user} from {address} port {rng.randrange(1024, 65000)} ssh2")
        auth.append(f"{stamp} sshd[{number}]: session opened for user {user}")
        for step in range(rng.randrange(2, 5)):
            at = when + timedelta(seconds=step + 1)
            command = f"/usr/bin/{rng.choice(['curl', 'cat', 'chmod', 'useradd', 'tar'])} {token(rng, 6)}"
            sudo.append((at, f"{at:%Y-%m-%dT%H:%M:%SZ} {user} COMMAND={command}"))
            wanted += [(at, command)] if deed == "enter" else []
        when += timedelta(seconds=6)
        auth.append(f"{when:%Y-%m-%dT%H:%M:%SZ} sshd[{number}]: session closed for user {user}")
        later = when + timedelta(seconds=2)
        sudo.append((later, f"{later:%Y-%m-%dT%H:%M:%SZ} {user} COMMAND=/usr/bin/id {token(rng, 5)}"))
        when += timedelta(seconds=4)
    value = {
        "attackers": sorted(attackers),
        "entered": sorted(inside),
        "accounts": sorted(inside.values()),
        "commands": [command for _, command in sorted(wanted)],
    }
    solution = f"""mkdir -p /out; cat > /tmp/look.py <<'END'
import collections, json, re
fails, entered, spans, commands = collections.Counter(), {{}}, {{}}, []
rows = open("/var/log/auth.log").read().splitlines()
for row in rows:
    if found := re.search(r"Failed password for .*? from (\\S+) ", row):
        fails[found[1]] += 1
attackers = sorted(a for a, n in fails.items() if n >= {least})
for row in rows:
    found = re.search(r"Accepted password for (\\S+) from (\\S+) ", row)
    if found and found[2] in attackers:
        entered.setdefault(found[1], (found[2], row.split()[0]))
for user, (address, start) in entered.items():
    end = min(r.split()[0] for r in rows if r.endswith(f"session closed for user {{user}}") and r.split()[0] > start)
    spans[user] = (start, end)
for row in open("/var/log/sudo.log"):
    stamp, user, command = row.rstrip("\\n").split(" ", 2)
    if user in spans and spans[user][0] <= stamp <= spans[user][1]:
        commands.append(command.removeprefix("COMMAND="))
json.dump({{"attackers": attackers, "entered": sorted({{a for a, _ in entered.values()}}), "accounts": sorted(entered),
            "commands": commands}}, open("/out/incident.json", "w"))
END
python3 /tmp/look.py && cat /out/incident.json"""
    return Job(
        prompt=BREAK_IN.format(least=least),
        files={"/var/log/auth.log": lines(auth), "/var/log/sudo.log": lines([row for _, row in sorted(sudo)])},
        wants=[{"kind": "json", "path": "/out/incident.json", "value": value}],
        kept=("/var/log/auth.log", "/var/log/sudo.log"),
        solution=[solution],
    )


KEEPER = """mkdir -p {folder}; head -c {size} /dev/zero > {folder}/{file}
(exec 7<>{folder}/{file}; rm {folder}/{file}; exec -a {name} sleep 86400) </dev/null >/dev/null 2>&1 &
echo "{name} works" >> /var/log/keepers.log
"""


def deleted_files(rng: Random) -> Job:
    names = rng.sample(WORDS, 6)
    least = rng.randrange(30, 60) * 1000
    sizes = rng.sample(range(least, 400_000), 4) + rng.sample(range(1000, least), 2)
    rng.shuffle(sizes)
    keepers: list[dict[str, Any]] = [
        {"name": f"{name}d", "folder": f"/var/cache/{name}", "file": f"{token(rng, 5)}.tmp", "size": size}
        for name, size in zip(names, sizes, strict=True)
    ]
    keepers.sort(key=lambda keeper: keeper["size"], reverse=True)
    listed = [f"{k['name']},{k['folder']}/{k['file']},{k['size']}" for k in keepers if k["size"] >= least]
    script = "bash <<'END'\n" + "".join(KEEPER.format(**keeper) for keeper in sorted(keepers, key=lambda k: k["name"]))
    ready = "".join(f"until grep -qz '^{k['name']}$' /proc/[0-9]*/cmdline 2>/dev/null; do sleep 0.01; done\n" for k in keepers)
    watching = watch(rng, {k["name"]: [k["name"], "86400"] for k in keepers}, [], holder=keepers[0]["name"])
    solution = """mkdir -p /out; find /proc/[0-9]*/fd -lname '*(deleted)' 2>/dev/null | while read -r d; do
p=${d%/fd/*}; t=$(readlink "$d"); n=$(tr '\\0' '\\n' < $p/cmdline | head -1)
echo "${n##*/},${t% (deleted)},$(stat -Lc %s "$d"),$d"
done | sort -t, -k3 -nr | awk -F, '$3 >= LEAST' > /tmp/all; cut -d, -f1-3 /tmp/all | tee /out/holders.csv""".replace(
        "LEAST", str(least)
    )
    return Job(
        prompt=FULL.format(least=least),
        script=f"{script}{ready}END\n{WATCH}",
        **watching.parts,
        wants=[
            {"kind": "text", "path": "/out/holders.csv", "value": lines(listed)},
            watching.want,
        ],
        same=("/var/log/keepers.log",),
        solution=[solution, ": > $(head -1 /tmp/all | cut -d, -f4)"],
    )


WORKER = """#!/bin/sh
# worker NAME: waits for work, or does it
read -r left
echo ready > "/run/worker-$1"
trap 'echo "$left" > "/var/spool/worker/$1"; exit 0' TERM
if [ "$1" = "$(cat /etc/worker-busy 2>/dev/null)" ]; then rm -f /etc/worker-busy
  while :; do n=0; while [ $n -lt 4000 ]; do n=$((n + 1)); done; sleep 0.1; done; fi
while :; do sleep 3600 & wait $!; done
"""
RUN_KEEPER = """#!/bin/sh
# keeper NAME: starts a worker again when it ends
read -r left
while :; do echo "$left" | worker "$1"; sleep 1; done
"""


def runaway_worker(rng: Random) -> Job:
    names = rng.sample(WORDS, 6)
    busy = rng.choice(names)
    tokens = {name: token(rng, 16) for name in names}
    started = "".join(
        f"echo {tokens[name]} | setsid keeper {name} >/dev/null 2>&1 &\nuntil [ -s /run/worker-{name} ]; do sleep 0.01; done\n"
        for name in sorted(names, key=lambda name: name == busy)
    )
    solution = """mkdir -p /out; cpu() { for p in $(pgrep -f 'worker [a-z]+$'); do
    set -- $(cat /proc/$p/stat 2>/dev/null | sed 's/.*) //'); echo "$p ${12}"; done | sort; }
cpu > /tmp/one; sleep 1.5; cpu > /tmp/two
join /tmp/one /tmp/two | awk '{ print $3 - $2, $1 }' | sort -nr | head -1 | cut -d' ' -f2 > /tmp/pid
name=$(tr '\\0' '\\n' < /proc/$(cat /tmp/pid)/cmdline | tail -1); echo $name > /out/runaway.txt; cat /out/runaway.txt
pkill -f "keeper $name$"; kill $(cat /tmp/pid)
while pgrep -f "(keeper|worker) $name$"; do sleep 0.1; done; ls /var/spool/worker
"""
    lasting = {f"{what} {name}": ["/bin/sh", f"/usr/local/bin/{what}", name] for what in ("keeper", "worker") for name in names}
    stopped = [f"keeper {busy}", f"worker {busy}"]
    watching = watch(rng, lasting, stopped, stopped=stopped)
    return Job(
        prompt=RUNAWAY,
        files={"/usr/local/bin/worker": WORKER, "/usr/local/bin/keeper": RUN_KEEPER},
        script="chmod 755 /usr/local/bin/worker /usr/local/bin/keeper; mkdir -p /var/spool/worker /run\n"
        f"echo {busy} > /etc/worker-busy\n{started}{WATCH}",
        **watching.parts,
        wants=[
            {"kind": "text", "path": "/out/runaway.txt", "value": busy},
            {"kind": "files", "folder": "/var/spool/worker", "digests": {f"/var/spool/worker/{busy}": digest(tokens[busy])}},
            watching.want,
        ],
        kept=("/usr/local/bin/worker", "/usr/local/bin/keeper"),
        solution=[solution],
    )


def digest(text: str) -> str:
    return sha256(f"{text}\n".encode()).hexdigest()


CHAIN = ("gateway", "basket", "stock", "payment")


def slow_requests(rng: Random) -> Job:
    logs: dict[str, list[tuple[float, str]]] = {name: [] for name in CHAIN}
    whole: dict[str, dict[str, int]] = {}
    lost = 0
    start = datetime(2026, 5, 5, 9, tzinfo=UTC)
    least = rng.randrange(250, 400)
    for number in range(60):
        request, at = f"r-{token(rng, 6)}", number * 900.0
        depth = rng.randrange(2, 5)
        own = {name: rng.randrange(5, 60) for name in CHAIN[:depth]}
        own[rng.choice(CHAIN[:depth])] += rng.choice([0, 0, rng.randrange(150, 600)])
        if len(set(own.values())) < len(own):
            own[CHAIN[0]] += 97
        broken = rng.random() < 0.12
        lost += broken
        gone = rng.choice(CHAIN[:depth]) if broken else None
        total = 0
        for place, name in enumerate(CHAIN[:depth]):
            inner = sum(own[each] for each in CHAIN[place + 1 : depth])
            begin = at + sum(own[each] // 2 for each in CHAIN[:place])
            logs[name].append((begin, f"request={request} in"))
            total = own[name] + inner
            if gone != name:
                logs[name].append((begin + total, f"request={request} out"))
        if not broken:
            whole[request] = own
    slow = {request: own for request, own in whole.items() if sum(own.values()) > least}
    ordered = sorted(slow, key=lambda request: (-sum(slow[request].values()), request))
    counted = Counter(sum(slow[request].values()) for request in ordered)
    if max(counted.values(), default=0) > 1:  # two requests as slow as each other have no order: another draw
        return slow_requests(Random(rng.getrandbits(64)))
    rows = [
        f"{request},{max(slow[request], key=lambda name: slow[request][name])},{sum(slow[request].values())}"
        for request in ordered
    ]
    files: dict[str, str] = {}
    for name, events in logs.items():
        events.sort()
        for place in range(len(events) - 1):
            if rng.random() < 0.2:
                events[place], events[place + 1] = events[place + 1], events[place]
        told = [f"{start + timedelta(milliseconds=at):%Y-%m-%dT%H:%M:%S}.{int(at) % 1000:03}Z {event}" for at, event in events]
        files[f"/srv/logs/{name}.log"] = lines(told)
    solution = f"""mkdir -p /out; cat > /tmp/slow.py <<'END'
from datetime import datetime
chain, times = ["gateway", "basket", "stock", "payment"], {{}}
for name in chain:
    for row in open(f"/srv/logs/{{name}}.log"):
        stamp, request, event = row.split()
        times.setdefault(request[8:], {{}}).setdefault(name, {{}})[event] = datetime.fromisoformat(stamp.replace("Z", "+00:00"))
whole = {{r: t for r, t in times.items() if all(len(each) == 2 for each in t.values())}}
def took(times, name):
    return round((times[name]["out"] - times[name]["in"]).total_seconds() * 1000) if name in times else 0
slow = sorted(((took(t, "gateway"), r) for r, t in whole.items() if took(t, "gateway") > {least}), reverse=True)
with open("/out/slow.csv", "w") as out:
    for total, request in slow:
        mine, called = whole[request], dict(zip(chain, chain[1:] + [""]))
        own = {{name: took(mine, name) - took(mine, called[name]) for name in mine}}
        print(request, max(own, key=own.get), total, sep=",", file=out)
open("/out/lost.txt", "w").write(f"{{len(times) - len(whole)}}\\n")
END
python3 /tmp/slow.py && cat /out/slow.csv"""
    return Job(
        prompt=SLOW.format(least=least),
        files=files,
        wants=[
            {"kind": "text", "path": "/out/slow.csv", "value": lines(rows)},
            {"kind": "text", "path": "/out/lost.txt", "value": str(lost)},
        ],
        kept=tuple(files),
        solution=[solution],
    )
