"""How often a client may ask: a bucket of tokens for each key or address, and a bounded number of buckets."""

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from regard.serve.refusal import Refusal

BUCKETS = 10_000  # the one not used for longest goes first


class Rate:
    """Buckets that hold a minute's requests and fill at an even pace."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # client -> tokens, when

    def take(self, client: str, a_minute: int) -> None:
        """Takes a token, or refuses and says when there will be one."""
        now = self._clock()
        tokens, then = self._buckets.pop(client, (float(a_minute), now))
        tokens = min(a_minute, tokens + (now - then) * a_minute / 60)
        allowed = tokens >= 1
        self._buckets[client] = (tokens - allowed, now)
        if len(self._buckets) > BUCKETS:
            self._buckets.popitem(last=False)
        if not allowed:
            seconds = math.ceil((1 - tokens) * 60 / a_minute)
            raise Refusal(429, f"Too many requests: no more than {a_minute} a minute", retry_after=max(1, seconds))

    def __len__(self) -> int:
        return len(self._buckets)


def network(host: str) -> str:
    """Who an address stands for: itself, or with IPv6 the network of 64 bits that one customer has."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return host
