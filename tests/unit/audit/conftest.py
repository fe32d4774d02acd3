"""What tests of audits share: a fork server, so that not each worker is a new interpreter."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from sandlot.audit.subject import PLAIN
from sandlot.audit.subjects.environment.subject import EnvironmentSubject
from sandlot.audit.subjects.environment.workers import ForkServer, open_fork_server
from sandlot.audit.subjects.worker_process import variables_of


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_fork_server(variables_of(PLAIN))) as server,
    ):
        yield server


@pytest.fixture
def subject_of(fork_server: ForkServer) -> Callable[..., EnvironmentSubject]:
    """Makes subjects whose workers are forks of the module's fork server; it must survive them."""

    def subject_of(env: str | Path, **options: Any) -> EnvironmentSubject:
        return EnvironmentSubject(str(env), fork_server=fork_server, **options)

    return subject_of
