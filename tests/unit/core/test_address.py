"""Addresses as people write them."""

import pytest

from sandlot.core.address import Address, read_address
from sandlot.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "host", "port", "shown", "is_loopback"),
    [
        ("7700", "127.0.0.1", 7700, "127.0.0.1:7700", True),
        ("localhost:1", "localhost", 1, "localhost:1", True),
        ("0.0.0.0:7700", "0.0.0.0", 7700, "0.0.0.0:7700", False),
        ("[::1]:80", "::1", 80, "[::1]:80", True),
        ("[fd00::1]:80", "fd00::1", 80, "[fd00::1]:80", False),
        ("127.8.0.1:0", "127.8.0.1", 0, "127.8.0.1:0", True),
        ("head.cluster:65535", "head.cluster", 65535, "head.cluster:65535", False),
    ],
)
def test_an_address_is_read_and_written(text, host, port, shown, is_loopback):
    address = read_address("at", text)
    assert (address, str(address), address.is_loopback) == (Address(host, port), shown, is_loopback)


@pytest.mark.parametrize("text", ["", "host", "host:", "host:port", "1:65536", "h:-1", "h:\u0661"])
def test_what_is_none_is_refused_with_what_is(text):
    with pytest.raises(ConfigError, match=r"metrics at `.*`: write PORT or HOST:PORT"):
        read_address("metrics at", text)
