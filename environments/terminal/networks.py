"""Networks on paper: routing tables of several machines, and zone files that disagree."""

import ipaddress
from random import Random
from typing import Any

from .job import WORDS, Job, lines, token

ROUTES = """/srv/net holds what `ip route` and `ip addr` print on the routers of a site (NAME.routes, NAME.addr). Write
/out/paths.json: for each address in /srv/net/targets, what happens to a packet from router `{start}` to it: `path` (names
of the routers it passes, `{start}` first) and `end`: `delivered` (the last router has the address in a network it is
connected to), `blackhole` (a router has no route, a `blackhole` route, or a next hop that no router has) or `loop` (it
comes to a router a second time; the path ends with that router's second visit). The most specific route counts; of equally
specific ones, the lowest metric (none is 0)."""
ZONES = """/srv/dns holds the zone file `forward` of {domain} and the reverse zone `reverse` of {network}. Write
/out/zones.json, one object:

- `loops`: names (without the domain) that are CNAMEs and never end at an address because they run in a circle, sorted;
- `dangling`: names whose chain of CNAMEs ends at a name of this domain that does not exist, sorted;
- `no_reverse`: addresses of A records that have no PTR, sorted by number;
- `wrong_reverse`: addresses whose PTR names a host that does not exist, or whose A record is another address, sorted by
  number.

Names in the zone are relative to the domain unless they end with a dot; `@` is the domain; comments begin with `;`; a
record without a name belongs to the name above it."""


def routed_packets(rng: Random) -> Job:
    names = rng.sample(WORDS, 5)
    links: dict[str, str] = {}
    connected: dict[str, list[tuple[str, ipaddress.IPv4Network]]] = {name: [] for name in names}
    for place, name in enumerate(names):
        for other in names[place + 1 :]:
            net = ipaddress.ip_network(f"10.255.{len(links)}.0/30")
            mine, theirs = list(net.hosts())
            connected[name].append((str(mine), net))
            connected[other].append((str(theirs), net))
            links[str(mine)], links[str(theirs)] = name, other
    lans = {name: ipaddress.ip_network(f"10.{10 + place}.0.0/16") for place, name in enumerate(names)}
    for name in names:
        connected[name].append((str(lans[name][1]), lans[name]))
    tables: dict[str, list[tuple[ipaddress.IPv4Network, str, int]]] = {name: [] for name in names}
    for name in names:
        hops = [address for address, owner in links.items() if owner != name and shares(connected[name], address)]
        for net in [*(lan for other, lan in lans.items() if other != name), ipaddress.ip_network("0.0.0.0/0")]:
            for _ in range(rng.choice([1, 1, 2])):
                tables[name].append((net, f"via {rng.choice(hops)}", rng.choice([0, 50, 100, 200])))
            if rng.random() < 0.35 and net.prefixlen == 16:
                inner = rng.choice(list(net.subnets(new_prefix=20)))
                tables[name].append((inner, rng.choice(["blackhole", f"via 10.254.0.{rng.randrange(1, 200)}"]), 0))
    tables = {name: once(rows) for name, rows in tables.items()}
    targets = [str(lan[rng.randrange(2, 60_000)]) for lan in lans.values() for _ in range(2)] + [
        f"192.0.2.{rng.randrange(1, 250)}"
    ]
    rng.shuffle(targets)
    start = names[0]
    value = {target: followed(start, ipaddress.ip_address(target), connected, tables, links) for target in targets}
    ends = {each["end"] for each in value.values()}
    if ends != {"delivered", "blackhole", "loop"}:
        return routed_packets(Random(rng.getrandbits(64)))
    files: dict[str, str] = {"/srv/net/targets": lines(targets)}
    for name in names:
        rows = [f"{net} dev eth{at} proto kernel scope link src {address}" for at, (address, net) in enumerate(connected[name])]
        for net, how, metric in tables[name]:
            shown = "default" if net.prefixlen == 0 else str(net)
            tail = f" metric {metric}" if metric else ""
            rows.append(f"blackhole {shown}{tail}" if how == "blackhole" else f"{shown} {how} dev eth0{tail}")
        rng.shuffle(rows)
        files[f"/srv/net/{name}.routes"] = lines(rows)
        files[f"/srv/net/{name}.addr"] = lines(
            [f"inet {address}/{net.prefixlen} scope global eth{at}" for at, (address, net) in enumerate(connected[name])]
        )
    solution = f"""mkdir -p /out; cat > /tmp/net.py <<'END'
import glob, ipaddress as ip, json, os
owner, tables = {{}}, {{}}
for path in glob.glob("/srv/net/*.addr"):
    for row in open(path):
        owner[row.split()[1].split("/")[0]] = os.path.basename(path)[:-5]
for path in glob.glob("/srv/net/*.routes"):
    rows = tables[os.path.basename(path)[:-7]] = []
    for row in open(path):
        words = row.split()
        black = words[0] == "blackhole"
        net = words[1] if black else words[0]
        net = ip.ip_network("0.0.0.0/0" if net == "default" else net)
        metric = int(words[words.index("metric") + 1]) if "metric" in words else 0
        hop = None if black else words[words.index("via") + 1] if "via" in words else "here"
        rows.append((-net.prefixlen, metric, net, hop))
out = {{}}
for target in open("/srv/net/targets").read().split():
    at, path, end = "{start}", ["{start}"], None
    while not end:
        fits = sorted((r[0], r[1], str(r[3]), r[3]) for r in tables[at] if ip.ip_address(target) in r[2])
        hop = fits[0][3] if fits else None
        if hop == "here":
            end = "delivered"
        elif hop is None or hop not in owner:
            end = "blackhole"
        else:
            at = owner[hop]
            end = "loop" if at in path else None
            path.append(at)
    out[target] = {{"path": path, "end": end}}
json.dump(out, open("/out/paths.json", "w"))
END
python3 /tmp/net.py && cat /out/paths.json"""
    return Job(
        prompt=ROUTES.format(start=start),
        files=files,
        wants=[{"kind": "json", "path": "/out/paths.json", "value": value}],
        kept=tuple(files),
        solution=[solution],
    )


def shares(nets: list[tuple[str, ipaddress.IPv4Network]], address: str) -> bool:
    return any(ipaddress.ip_address(address) in net for _, net in nets if net.prefixlen == 30)


def once(rows: list[tuple[ipaddress.IPv4Network, str, int]]) -> list[tuple[ipaddress.IPv4Network, str, int]]:
    """One route for each network and metric, so that the best one is clear."""
    return list({(net, metric): (net, how, metric) for net, how, metric in rows}.values())


def followed(start: str, target: Any, connected: Any, tables: Any, links: dict[str, str]) -> dict[str, Any]:
    at, path = start, [start]
    while True:
        local = any(target in net for _, net in connected[at])
        fits = [(-net.prefixlen, metric, how) for net, how, metric in tables[at] if target in net]
        best = min(fits, default=None)
        if local and (best is None or -best[0] <= max(net.prefixlen for _, net in connected[at] if target in net)):
            return {"path": path, "end": "delivered"}
        hop = best[2].removeprefix("via ") if best and best[2] != "blackhole" else ""
        if hop not in links:
            return {"path": path, "end": "blackhole"}
        at = links[hop]
        path.append(at)
        if at in path[:-1]:
            return {"path": path, "end": "loop"}


def disagreeing_zones(rng: Random) -> Job:
    domain, network = f"{rng.choice(WORDS)}.example", f"10.{rng.randrange(1, 250)}.{rng.randrange(250)}"
    hosts = dict(zip(rng.sample(WORDS, 8), rng.sample(range(2, 250), 8), strict=True))
    names = list(hosts)
    cnames = {f"www{number}": rng.choice(names) for number in range(3)}
    cnames |= {"ring1": "ring2", "ring2": "ring3", "ring3": "ring1", "into": "ring2"}
    cnames |= {"old": f"gone-{token(rng, 3)}", "older": "old", "far": "host.elsewhere.test."}
    no_reverse = sorted(rng.sample(list(hosts.values()), 2))
    reverse = {last: name for name, last in hosts.items() if last not in no_reverse}
    wrong = rng.sample(sorted(reverse), 2)
    reverse[wrong[0]], stray = (
        f"missing-{token(rng, 3)}",
        rng.choice([number for number in range(2, 250) if number not in hosts.values()]),
    )
    other = next(name for name, last in hosts.items() if last != wrong[1])
    reverse[wrong[1]] = other
    reverse[stray] = rng.choice(names)
    value = {
        "loops": ["into", "ring1", "ring2", "ring3"],
        "dangling": ["old", "older"],
        "no_reverse": [f"{network}.{last}" for last in no_reverse],
        "wrong_reverse": [f"{network}.{last}" for last in sorted([*wrong, stray])],
    }
    rows: list[list[str]] = [[f"{name:<10} IN A {network}.{last}"] for name, last in hosts.items()]
    for entry in rng.sample(rows, 3):
        entry.append(f'           IN TXT "{token(rng)}"  ; {rng.choice(WORDS)}')
    rows += [
        [f"{name:<10} IN CNAME {target if rng.random() < 0.6 or target.endswith('.') else f'{target}.{domain}.'}"]
        for name, target in cnames.items()
    ]
    rng.shuffle(rows)
    forward = [f"; zone of {domain}", f"@ IN NS {names[0]}", *(row for entry in rows for row in entry)]
    backward = [f"{last} IN PTR {name}.{domain}." for last, name in reverse.items()]
    rng.shuffle(backward)
    files = {"/srv/dns/forward": lines(forward), "/srv/dns/reverse": lines(["; reverse zone", *backward])}
    solution = f"""mkdir -p /out; cat > /tmp/dns.py <<'END'
import json
domain, net = "{domain}", "{network}"
def whole(name):
    return name.lower() if name.endswith(".") else (domain if name == "@" else f"{{name}}.{{domain}}".lower()) + "."
a, cname, last = {{}}, {{}}, None
for row in open("/srv/dns/forward"):
    row = row.split(";")[0].rstrip()
    if not row:
        continue
    words = row.split()
    if not row[0].isspace():
        last = whole(words.pop(0))
    words = [word for word in words if word != "IN"]
    if words[0] == "A":
        a[last] = words[1]
    elif words[0] == "CNAME":
        cname[last] = whole(words[1])
short = lambda name: name[: -len(domain) - 2]
loops, dangling = [], []
for name in cname:
    seen, at = {{name}}, cname[name]
    while at in cname and at not in seen:
        seen.add(at)
        at = cname[at]
    if at in cname:
        loops.append(short(name))
    elif at not in a and at.endswith(f".{{domain}}."):
        dangling.append(short(name))
ptr = {{}}
for row in open("/srv/dns/reverse"):
    words = row.split(";")[0].split()
    if words:
        ptr[f"{{net}}.{{words[0]}}"] = words[-1]
by_number = lambda address: int(address.split(".")[-1])
json.dump({{"loops": sorted(loops), "dangling": sorted(dangling),
    "no_reverse": sorted((x for x in a.values() if x not in ptr), key=by_number),
    "wrong_reverse": sorted((x for x, name in ptr.items() if a.get(name) != x), key=by_number)}}, open("/out/zones.json", "w"))
END
python3 /tmp/dns.py && cat /out/zones.json"""
    return Job(
        prompt=ZONES.format(domain=domain, network=f"{network}.0/24"),
        files=files,
        wants=[{"kind": "json", "path": "/out/zones.json", "value": value}],
        kept=tuple(files),
        solution=[solution],
    )
