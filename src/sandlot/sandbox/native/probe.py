"""What the native backend isolates on this machine, capability by capability. Nothing is downgraded silently."""

from collections.abc import Mapping

from sandlot.core.ports.sandbox import FIRST_SEAT_ID
from sandlot.sandbox.native.zygote import Zygote


def _users(zygote: Zygote) -> str:
    if zygote.privileged:
        return f"yes: {zygote.num_ids} ids of its own"
    if zygote.num_ids > 1:
        return f"yes: {zygote.num_ids} ids; root inside is the user outside, the others are subordinate ids (/etc/subuid)"
    return f"no: one id; root inside is the user outside, other users cannot be used ({zygote.why_one_id})"


def _seats(zygote: Zygote) -> str:
    if zygote.num_ids > FIRST_SEAT_ID + 1000:
        return "yes: a user for each, who does not see the processes of others"
    why = zygote.why_one_id if zygote.num_ids == 1 else f"{zygote.num_ids} ids are too few"
    return f"no: there are no users for them ({why})"


def native_capabilities(zygote: Zygote) -> Mapping[str, str]:
    """Capability -> `yes: how`, or `no: why` where it does not hold."""
    cgroups = zygote.cgroups
    root = zygote.privileged

    def limited(controller: str, without: str) -> str:
        if controller in cgroups.place:
            return f"yes: cgroup v{cgroups.version}"
        return f"{without} ({cgroups.missing.get(controller, 'no cgroups')})"

    return {
        "processes": "yes: pid namespace, ended with process 1"
        + (f", or from outside by {cgroups.ending}" if cgroups.ending else ""),
        "files": "yes: overlay on tmpfs, in a mount namespace that nothing inside can change",
        "network": "yes: own network namespace, loopback only",
        "ipc": "yes: own IPC and host name namespaces",
        "users": _users(zygote),
        "seats": _seats(zygote),
        "image_owners": (
            "yes: the image's files belong to root inside"
            if root and zygote.owners_mapped
            else "no: files of other users appear as those of `nobody` and cannot be changed"
        ),
        "system_calls": "yes: allow list",
        "privileges": "yes: nine capabilities over its own ids, no new privileges",
        "memory": limited("memory", "no: only the private memory of each process, by RLIMIT_DATA; shared memory is not limited"),
        "sockets": "yes: small TCP buffers; "
        + ("their memory is limited by the cgroup" if "memory" in cgroups.place else "at most 2048 sockets of fixed size"),
        "cpu": limited("cpu", "no: may use all processors of the machine"),
        "pids": limited("pids", "yes: RLIMIT_NPROC in its own user namespace"),
        "disk": "yes: size and inodes of its tmpfs",
        "open_files": "yes: RLIMIT_NOFILE",
        "kernel": "no: shares the machine's kernel; a kernel exploit can escape from the sandbox",
    }
