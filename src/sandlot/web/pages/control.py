"""Steering a live run from its page: what `sandlot pause`, `resume`, `set`, `stop` and `requeue` do."""

from typing import Any

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.run.control import RunOrder, tell_run
from sandlot.web.site import Asked


def control_run(asked: Asked, told: dict[str, Any]) -> dict[str, Any]:
    """Pass an order on to the process that writes the run; anyone who reads the pages may ask for its status."""
    order = msgspec.convert(told, RunOrder)
    if order.do != "status" and not asked.site.control:
        raise ConfigError("these pages only read; start them with `sandlot view --control` to steer runs")
    path = asked.run
    try:
        return msgspec.to_builtins(tell_run(path, order))
    except ConfigError as error:
        if order.do != "status" or error.kind != "not running":
            raise
        return {"problem": str(error)}  # a page that follows a run to its end asked in vain, which is no mistake
