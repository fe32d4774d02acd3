"""What the docker backend isolates, capability by capability, as far as the engine reports it."""

from collections.abc import Mapping

from sandlot.sandbox.docker.api import DockerInfo, DockerVersion
from sandlot.sandbox.docker.machine import CAPABILITIES


def docker_capabilities(info: DockerInfo, version: DockerVersion) -> Mapping[str, str]:
    """Capability -> `yes: how`, or `no: why` where it does not hold."""
    options = {option.partition(",")[0].removeprefix("name=") for option in info.security_options or ()}
    remapped = bool(options & {"userns", "rootless"})
    own_kernel = info.default_runtime in {"runsc", "kata", "kata-runtime", "io.containerd.runsc.v1", "io.containerd.kata.v2"}

    def limited(*, held: bool) -> str:
        return f"yes: cgroup v{info.cgroup_version}" if held else "no: the engine's machine has no such cgroup"

    return {
        "engine": f"yes: {version.version or 'unknown'}, API {version.api_version}, runtime {info.default_runtime}",
        "processes": "yes: pid namespace, ended with process 1",
        "files": f"yes: {info.driver} over the image, own mount namespace",
        "network": "yes: own network namespace, loopback only",
        "ipc": "yes: own IPC and host name namespaces",
        "users": (
            "yes: the engine maps root inside to an ordinary user outside"
            if remapped
            else "no: root inside is root outside, limited by capabilities and the system call filter; see dockerd's userns-remap"
        ),
        "seats": "no: the processes of one user are seen by the others",
        "image_owners": "yes: as in the image",
        "system_calls": "yes: allow list" + (", on top of the engine's own" if "seccomp" in options else ""),
        "privileges": f"yes: {len(CAPABILITIES)} capabilities, no new privileges",
        "memory": limited(held=info.memory_limit),
        "cpu": limited(held=info.cpu_cfs_quota),
        "pids": limited(held=info.pids_limit),
        "disk": "no: written files share the engine's disk, without a limit of their own",
        "open_files": "yes: RLIMIT_NOFILE",
        "kernel": (
            f"yes: {info.default_runtime} has its own kernel"
            if own_kernel
            else "no: shares the machine's kernel; a kernel exploit can escape from the sandbox"
        ),
    }
