"""Which system tests run one after another in one process, where several run at a time: `pytest --dist loadfile`.

The tests of a file share what is dear. Files that need the same image or package are a group too: one process installs it, and
the other would only wait. (`--dist loadgroup` groups nothing with pytest 9.2: it changes a name that is not read any more.)
"""

from typing import Any

GROUPS = {
    "office": ("environments/office/", "tests/system/test_office.py"),
    "proofs": (
        "environments/proofs/",
        "tests/e2e/test_cold_starts.py::test_two_cold_starts_and_the_same_play_have_the_same_bytes[proofs]",
    ),
    "browser": (
        *("environments/browser/", "tests/system/test_browser_app.py", "tests/system/test_suite_pages.py"),
        *(
            "tests/system/test_debian_images.py",
            "tests/e2e/test_cold_starts.py::test_two_cold_starts_and_the_same_play_have_the_same_bytes[browser]",
        ),
    ),
    "desktop": ("environments/desktop/", "tests/system/test_desktop_app.py"),
    "docker": ("tests/contract/test_sandbox_contract.py", "tests/system/test_docker.py"),
    "agent": ("tests/system/test_foreign_agent.py", "tests/system/test_foreign_agent_apps.py"),
}
"""Beginnings of the names of tests, and the group they are in."""
LONG = (
    *(
        "office",
        "tests/system/test_compiled_step.py",
        "proofs",
        "tests/test_docs.py",
        "browser",
        "tests/unit/checks/test_panel.py",
    ),
    *("desktop", "tests/system/test_torchrun.py", "docker", "tests/system/test_kernels_compile.py", "agent"),
    *("tests/system/test_replicas.py", "tests/system/test_served_training.py", "tests/system/test_benchmarks.py"),
)
"""Groups that take longer than others, in the order in which they begin; the rest follow as they come.

Installing an image waits for the network and the disk: what computes stands between.
"""


def group_of(test: str) -> str:
    """The group of a test by its name: its file, where it is in no other."""
    joined = (group for group, beginnings in GROUPS.items() if test.startswith(beginnings))
    return next(joined, test.partition("::")[0])


def place_of(test: str) -> int:
    """When the group of a test begins."""
    group = group_of(test)
    return LONG.index(group) if group in LONG else len(LONG)


def scheduler(config: Any, log: Any) -> Any:
    """Gives whole groups to processes, in the order of the tests."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False  # otherwise the groups of most tests begin first
    return ByGroup(config, log)
