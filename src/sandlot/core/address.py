"""Addresses as people write them: `PORT` or `HOST:PORT`, an IPv6 host in brackets."""

from dataclasses import dataclass
from ipaddress import ip_address

from sandlot.core.errors import ConfigError

_LOOPBACK = "127.0.0.1"
_MOST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """True if only programs on this machine can reach it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_wildcard(self) -> bool:
        """True if it stands for every address of this machine."""
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return not self.host


def read_address(what: str, text: str) -> Address:
    """The address in a text; a port alone is one of the loopback address. `ConfigError` begins with `what`."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > _MOST_PORT:
        raise ConfigError(f"{what} `{text}`: write PORT or HOST:PORT, such as `9464` or `0.0.0.0:9464`")
    return Address(host.strip("[]") or _LOOPBACK, int(port))
