"""Harbor's own command in a Docker engine of our own: `python harbor_docker.py HARBOR TASKS JOBS`, from the repository's root.

No image of a registry can be had here. The base image of the exports, `debian:trixie`, is imported from the root that Sandlot
makes of Debian's packages, with the packages of the exports in it and without apt's sources: builds have no network. Compose
comes from Debian as well. Harbor builds what closes a container's network from a registry image, so the tasks ask for an open
one here; that of this engine leads nowhere. Checks the rewards: all 1.0 for Harbor's oracle, all 0.0 for the agent that does
nothing.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from fakes.docker_engine import docker, running_engine
from sandlot.sandbox.images.spec import find_image

PLUGINS = "usr/libexec/docker/cli-plugins"


def main():
    harbor, tasks, jobs = sys.argv[1:]
    config = Path(jobs, "docker")
    config.mkdir(parents=True)
    for path in Path(tasks).glob("*/task.toml"):
        path.write_text(path.read_text().replace('network_mode = "no-network"', 'network_mode = "public"'))
    (config / "cli-plugins").symlink_to(root_of("debian:trixie?docker-buildx,docker-compose") / PLUGINS)
    with running_engine(own_network=True) as socket:
        import_base(socket, root_of("debian:trixie?ca-certificates,python3"))
        settings = {"DOCKER_HOST": f"unix://{socket}", "DOCKER_CONFIG": str(config), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        for agent, reward in (("oracle", 1.0), ("nop", 0.0)):
            place = Path(jobs, agent)
            command = [harbor, "run", "-p", tasks, "-a", agent, "-e", "docker", "-n", "1", "-o", str(place), "-y"]
            done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
            found = rewards(place)
            sys.stdout.write(f"harbor {agent}: {found}\n")
            if done.returncode or not found or any(each != reward for each in found):
                sys.exit(f"exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{errors(place)}")


def root_of(image):
    return find_image(image).trees[0][1][0]


def import_base(socket, root):
    packed = ["tar", "--create", "--directory", root, "--exclude", "./etc/apt/sources.list*", "."]
    docker(socket, "import", "-", "debian:trixie", stdin=subprocess.run(packed, capture_output=True, check=True).stdout)


def results(jobs):
    return [json.loads(path.read_text()) for path in sorted(jobs.glob("*/*/result.json"))]


def rewards(jobs):
    return [((row.get("verifier_result") or {}).get("rewards") or {}).get("reward") for row in results(jobs)]


def errors(jobs):
    return "\n".join(str(row["exception_info"])[-3000:] for row in results(jobs) if row.get("exception_info"))


if __name__ == "__main__":
    main()
