"""A Ray cluster of several nodes on this machine, for a benchmark: a head without CPUs, and nodes with one CPU each.

    python ray_nodes.py 2

prints its address, then obeys lines on stdin: `kill` ends the newest node at once, `join` adds one; at the end of stdin all end.
Each order is answered with `ok`.
"""

import sys

from ray.cluster_utils import Cluster

STORE = 100_000_000


def main(num_nodes: int) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": STORE})
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=STORE) for _ in range(num_nodes)]
    cluster.wait_for_nodes()
    print(cluster.address, flush=True)
    for line in sys.stdin:
        if line.strip() == "kill":
            cluster.remove_node(nodes.pop(), allow_graceful=False)
        else:
            nodes.append(cluster.add_node(num_cpus=1, object_store_memory=STORE))
        print("ok", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]))
