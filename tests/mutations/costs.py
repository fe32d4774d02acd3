"""A plug-in of pytest, `sandlot_costs` in the copy: a line of JSON with the CPU-seconds of each test and of its processes."""

import json
import resource
import time

import pytest
import sandlot_recorder as recorder


class _Costs:
    def __init__(self) -> None:
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        recorder.begin(item.nodeid)
        began, began_cpu = time.monotonic(), _cpu_s()
        try:
            return (yield)
        finally:
            spent = {"cpu_s": round(_cpu_s() - began_cpu, 4), "wall_s": round(time.monotonic() - began, 4)}
            line = {"test": item.nodeid, **spent, "passed": item.nodeid not in self._failed}
            recorder.append("costs.jsonl", json.dumps(line) + "\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item):
        report = yield
        if report.failed:
            self._failed.add(item.nodeid)
        return report


def pytest_configure(config):
    config.pluginmanager.register(_Costs())


def _cpu_s() -> float:
    return sum(sum(resource.getrusage(whose)[:2]) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
