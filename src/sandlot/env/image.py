"""An environment's image: paths are relative to the environment's folder; its digest is part of the fingerprint."""

import logging
from collections.abc import Iterable
from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.core.task import Task
from sandlot.env.declaration import Declaration

_log = logging.getLogger(__name__)

_BY_NAME_ONLY = "by name only"


def image_of(env: Declaration, task: Task | None = None) -> str:
    """The image to open for a task; empty for none. `ConfigError` if an agent could read the environment's own files in it."""
    from sandlot.sandbox.images.spec import resolve_spec  # noqa: PLC0415 - only sandboxed environments need it

    if not env.image:
        return ""
    image = task.image if task is not None and task.image and not env.in_other_image else env.image
    _require_unseen(env, image)
    return resolve_spec(image, _home(env))


def build_task_images(env: Declaration, tasks: Iterable[Task]) -> None:
    """Build the images that tasks have of their own, so that no rollout waits for a build."""
    from sandlot.sandbox.images.spec import find_image, is_image_spec  # noqa: PLC0415 - as above

    own = {task.image for task in tasks if task.image} if env.image and not env.in_other_image else set[str]()
    for image in sorted(own):
        if is_image_spec(image):
            find_image(image, _home(env))


def _require_unseen(env: Declaration, image: str) -> None:
    """`ConfigError` if the image contains the environment's files, keys and checks included; only a warning if that is `/usr`."""
    from sandlot.sandbox.images.spec import USR, is_image_spec, visible_folders  # noqa: PLC0415 - as above

    if env.source is None or not is_image_spec(image):
        return
    source = env.source.resolve()
    seen = [folder for folder in visible_folders(image, _home(env)) if source.is_relative_to(folder)]
    if not seen:
        return
    said = f"{source} is in {seen[0]}, which is part of its image `{image}`: an agent could read the keys and checks"
    if seen == [USR]:
        _log.warning("%s; install it outside of `/usr`, for example in a virtual environment", said)
        return
    raise ConfigError(f"environment `{env.name}`: {said}. Move it out of that folder, or name a smaller folder in `image`")


def digest_of_image(env: Declaration, *, build: bool = True) -> str:
    """The digest of the image's content. Without `build`, a package list that is not installed yet counts by its names."""
    from sandlot.sandbox.images.spec import image_digest, is_image_spec  # noqa: PLC0415 - as above

    if not env.image:
        return ""
    # The content of an image that only another backend knows is not known here.
    return image_digest(env.image, _home(env), build=build) if is_image_spec(env.image) else _BY_NAME_ONLY


def host_image_digest(env: Declaration) -> str:
    """The digest of the image `host`, which changes with the machine; empty for any other image."""
    return digest_of_image(env) if env.image and env.image.partition(":")[0] == "host" else ""


def image_files_path(env: Declaration) -> Path | None:
    """The path of an image that is a folder or an archive; None for any other. Its files are covered by the image's digest."""
    from sandlot.sandbox.images.spec import image_path, is_image_spec  # noqa: PLC0415 - as above

    return image_path(env.image, _home(env)) if env.image and is_image_spec(env.image) else None


def _home(env: Declaration) -> Path | None:
    if env.source is None:
        return None
    return env.source if env.source.is_dir() else env.source.parent
