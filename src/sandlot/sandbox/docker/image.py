"""Images a Docker engine has, and which of them a sandbox can be made from."""

import platform

from sandlot.core.errors import ConfigError
from sandlot.sandbox.defaults import surroundings_of
from sandlot.sandbox.docker.api import DockerApi, EngineImage, ImageConfig
from sandlot.sandbox.docker.machine import MOUNTED, Base

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


async def find_base(engine: DockerApi, name: str) -> Base:
    """The image a user named, as something to start from; `ConfigError` with the remedy if it cannot be."""
    if name == "host" or name.startswith(("/", ".")):
        raise ConfigError(
            f"image {name!r} lies on this machine, which only `--sandbox native` takes. Give it to the engine"
            " (`tar -C FOLDER -c . | docker import - NAME`, or `docker load -i ARCHIVE`) and name it in the environment"
        )
    image = await engine.image(name)
    if image is None:
        known = sorted({tag for each in await engine.images() for tag in each.repo_tags or () if tag != "<none>:<none>"})
        there = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
        raise ConfigError(
            f"no image named {name!r} at the engine {engine.path}; it has: {there or 'none'}."
            f" Fetch it first: `docker pull {name}`; sandboxes never do"
        )
    _check(name, image)
    config = image.config or ImageConfig()
    surroundings = surroundings_of(config.env, config.user, config.working_dir)
    return Base(image=image.id, pristine=image.id, surroundings=surroundings, mounted=MOUNTED)


def _check(name: str, image: EngineImage) -> None:
    ours = _ARCHITECTURES.get(platform.machine(), platform.machine())
    if image.os != "linux" or image.architecture not in {"", ours}:
        raise ConfigError(f"image {name!r} is for {image.os}/{image.architecture}; this machine runs linux/{ours}")
    volumes = sorted((image.config and image.config.volumes) or ())
    if volumes:
        raise ConfigError(
            f"image {name!r} declares volumes ({', '.join(volumes)}): what an agent writes there could be neither frozen nor"
            " forked. Make a copy without them: `docker export $(docker create NAME) | docker import - NEW`"
        )
