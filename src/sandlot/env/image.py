"""An environment's image: its paths begin at the environment's folder, and its digest is part of what the environment is."""

import logging
from pathlib import Path

from sandlot.core.errors import ConfigError
from sandlot.env.declaration import Declaration

_log = logging.getLogger(__name__)

_BY_NAME_ONLY = "by name only"


def image_of(env: Declaration) -> str:
    """The image to ask a backend for; empty for a world without one. Refused if an agent could read the environment in it."""
    from sandlot.sandbox.images.spec import resolve_spec  # noqa: PLC0415 - only sandboxed environments need it

    if not env.image:
        return ""
    _require_unseen(env)
    return resolve_spec(env.image, _home(env))


def _require_unseen(env: Declaration) -> None:
    """Keys and checks must not be readable inside: not in a folder the user named, and in the machine's `/usr` with a warning."""
    from sandlot.sandbox.images.spec import USR, is_image_spec, visible_folders  # noqa: PLC0415 - as above

    if env.source is None or not env.image or not is_image_spec(env.image):
        return
    source = env.source.resolve()
    seen = [folder for folder in visible_folders(env.image, _home(env)) if source.is_relative_to(folder)]
    if not seen:
        return
    said = f"{source} lies in {seen[0]}, which its own image `{env.image}` shows: an agent could read the keys and checks"
    if seen == [USR]:
        _log.warning("%s; install it outside of `/usr`, in a virtual environment for one", said)
        return
    raise ConfigError(f"environment `{env.name}`: {said}. Move it out of that folder, or name a smaller one in `image`")


def digest_of_image(env: Declaration, *, build: bool = True) -> str:
    """What the image is made of; without `build`, a package list that was never installed has no versions yet."""
    from sandlot.sandbox.images.spec import image_digest, is_image_spec  # noqa: PLC0415 - as above

    if not env.image:
        return ""
    # A name that only some other backend understands says all we know.
    return image_digest(env.image, _home(env), build=build) if is_image_spec(env.image) else _BY_NAME_ONLY


def host_image_digest(env: Declaration) -> str:
    """The digest of an image that changes with the machine (`host`), to be written down; empty for any other."""
    return digest_of_image(env) if env.image and env.image.partition(":")[0] == "host" else ""


def image_changes(before: str, after: str) -> str:
    """What differs between two digests of an image, in words: which packages, which files of `/etc`. Empty if nothing does."""
    from sandlot.sandbox.images.difference import image_difference  # noqa: PLC0415 - as above

    return image_difference(before, after)


def image_files_path(env: Declaration) -> Path | None:
    """Where the image lies if it is a folder or an archive: its digest speaks for those files."""
    from sandlot.sandbox.images.spec import image_path, is_image_spec  # noqa: PLC0415 - as above

    return image_path(env.image, _home(env)) if env.image and is_image_spec(env.image) else None


def _home(env: Declaration) -> Path | None:
    if env.source is None:
        return None
    return env.source if env.source.is_dir() else env.source.parent
