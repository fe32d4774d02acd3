"""The apps of an environment: opened for a world, stored as evidence, read again for grading.

The base state of all apps is made once in a process and copied for every world. Its bytes are stored once in a run.
"""

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random
from weakref import WeakKeyDictionary

import anyio.to_thread

from sandlot.apps.final import FinalApps, encode_journal
from sandlot.apps.live import AppsSnapshot, LiveApps, empty_snapshot
from sandlot.core.concurrency import author
from sandlot.core.errors import AuthorError, GradeError, boundary
from sandlot.core.ports.store import Blobs
from sandlot.core.trace import AppsRecord
from sandlot.core.types import derive_seed
from sandlot.env.declaration import Declaration
from sandlot.env.world import LiveWorld

_BASES: WeakKeyDictionary[Declaration, AppsSnapshot] = WeakKeyDictionary()
_MAKING = threading.Lock()
_STORED: WeakKeyDictionary[Blobs, set[str]] = WeakKeyDictionary()
"""Base states that a store has, so that they are not hashed again for every rollout."""


def base_of(env: Declaration) -> AppsSnapshot:
    """The base state of an environment's apps. Made once in a process; the same bytes in every process."""
    with _MAKING:
        if env not in _BASES:
            _BASES[env] = _make_base(env)
        return _BASES[env]


def _make_base(env: Declaration) -> AppsSnapshot:
    start = empty_snapshot(env.apps)
    if env.marked.base is None:
        return start
    apps = LiveApps(env.apps, start)
    rng = Random(derive_seed("apps", env.seed, env.name))  # noqa: S311 - seeded, not secret
    with boundary(AuthorError, f"filling the apps of environment `{env.name}`"), apps.acting("base"):
        env.marked.base(apps, rng)
    apps.journal.clear()
    made = apps.freeze()
    apps.close()
    return made


@asynccontextmanager
async def open_apps(env: Declaration, world: LiveWorld) -> AsyncGenerator[None]:
    """Give the world its apps, until the context ends."""

    def opened() -> LiveApps:
        return LiveApps(env.apps, base_of(env), world)

    world.apps = await author.call(opened)
    try:
        yield
    finally:
        world.apps.close()


async def store_apps(env: Declaration, apps: LiveApps, blobs: Blobs) -> AppsRecord:
    """Store what the apps of a rollout changed."""
    base = base_of(env)
    stored = _STORED.setdefault(blobs, set())
    for name, state in base.states.items():
        if base.digests[name] not in stored:
            stored.add(await blobs.put(state))
    journal = await blobs.put(await anyio.to_thread.run_sync(encode_journal, apps.journal))
    return AppsRecord(now=apps.clock.text, bases=dict(base.digests), journal=journal, num_changes=len(apps.journal))


async def load_apps(env: Declaration, record: AppsRecord, blobs: Blobs) -> FinalApps:
    """The apps of a stored rollout. `GradeError` if their bytes are missing."""
    base = await author.call(base_of, env) if env.apps else None
    try:
        states = {
            name: base.states[name] if base and base.digests.get(name) == known else await blobs.get(known)
            for name, known in record.bases.items()
        }
        return FinalApps(states, await blobs.get(record.journal), record.now)
    except KeyError as error:
        raise GradeError(f"the apps' state {error} is missing from the run directory; restore it from a copy") from error
