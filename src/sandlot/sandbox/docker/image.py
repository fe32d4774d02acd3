"""Images a Docker engine has, and which of them a sandbox can be made from."""

import platform

from sandlot.core.errors import ConfigError
from sandlot.sandbox.defaults import command_defaults
from sandlot.sandbox.docker.api import DockerApi, DockerImage, ImageConfig
from sandlot.sandbox.docker.machine import MOUNTED, DockerBase

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


async def find_docker_image(docker: DockerApi, name: str) -> DockerBase:
    """The image a user named, as something to start from; `ConfigError` with the remedy if it cannot be."""
    if name == "host" or name.startswith(("/", ".")):
        raise ConfigError(
            f"image {name!r} lies on this machine, which only `--sandbox native` takes. Give it to the engine"
            " (`tar -C FOLDER -c . | docker import - NAME`, or `docker load -i ARCHIVE`) and name it in the environment"
        )
    image = await docker.image(name)
    if image is None:
        known = sorted({tag for each in await docker.images() for tag in each.repo_tags or () if tag != "<none>:<none>"})
        there = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
        raise ConfigError(
            f"no image named {name!r} at the engine {docker.path}; it has: {there or 'none'}."
            f" Fetch it first: `docker pull {name}`; sandboxes never do"
        )
    _check_image(name, image)
    config = image.config or ImageConfig()
    defaults = command_defaults(config.env, config.user, config.working_dir)
    return DockerBase(image=image.id, pristine=image.id, defaults=defaults, mounted=MOUNTED)


def _check_image(name: str, image: DockerImage) -> None:
    ours = _ARCHITECTURES.get(platform.machine(), platform.machine())
    if image.os != "linux" or image.architecture not in {"", ours}:
        raise ConfigError(f"image {name!r} is for {image.os}/{image.architecture}; this machine runs linux/{ours}")
    volumes = sorted((image.config and image.config.volumes) or ())
    if volumes:
        raise ConfigError(
            f"image {name!r} declares volumes ({', '.join(volumes)}): what an agent writes there could be neither frozen nor"
            " forked. Make a copy without them: `docker export $(docker create NAME) | docker import - NEW`"
        )
