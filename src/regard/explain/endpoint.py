"""An HTTP endpoint as a black box: texts or images go out in JSON, scores come back."""

import base64
import http.client
import ipaddress
import json
import socket
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import SplitResult, urlsplit

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError

ONE, ALL = "$input", "$inputs"  # in the template: one input, or the list of all inputs of a batch
LARGEST = 16 * 2**20  # bytes of an answer
TRIES = 6
LONGEST_WAIT = 60.0  # seconds between two tries
BUSY = (429, 503)


class Endpoint:
    """Called with a list of texts (or a batch of images, sent as base64 PNG) it gives an array of scores.

    template: the request's JSON, in which the string "$input" stands for one input (one request each), or "$inputs"
    for the list of a whole batch. path: where the scores stand in the answer, such as "scores.0" or "results.*.score",
    where * is every entry of a list. Only addresses of this machine are called unless allow_remote says otherwise;
    redirections are never followed.
    """

    def __init__(
        self,
        url: str,
        template: Any = None,
        path: str = "",
        *,
        allow_remote: bool = False,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.url, parts = url, _checked(url)
        self.host = parts.hostname or ""
        self.secure = parts.scheme == "https"
        self.port = parts.port or (443 if self.secure else 80)
        self.target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self.template = {"inputs": ALL} if template is None else template
        self.path = [key for key in path.split(".") if key]
        self.headers = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
        self.timeout = timeout
        self.whole = _holds(self.template, ALL)
        if not self.whole and not _holds(self.template, ONE):
            raise UserError(f'the request\'s template has no place for the input: write "{ONE}" or "{ALL}" in it')
        self.addresses = _addresses(self.host, self.port, allow_remote)

    def __call__(self, inputs: Sequence[Any] | NDArray[Any]) -> NDArray[np.float64]:
        sent = [_encoded(one) for one in inputs]
        if self.whole:
            found = _found(self._post(_filled(self.template, ALL, sent)), self.path)
        else:
            found = [_found(self._post(_filled(self.template, ONE, one)), self.path) for one in sent]
        try:
            return np.array(found, dtype=np.float64)
        except (TypeError, ValueError):
            raise UserError(
                f"{self.url}: what stands at {'.'.join(self.path)!r} is no scores: {found!r:.200}"
            ) from None

    def _post(self, body: Any) -> Any:
        """The answer to one request; a server that is busy is asked again after the time it names."""
        for attempt in range(TRIES):
            status, headers, answer = self._exchange(json.dumps(body).encode())
            if status not in BUSY or attempt == TRIES - 1:
                break
            time.sleep(_wait(headers.get("retry-after"), attempt))
        if 300 <= status < 400:
            raise UserError(
                f"{self.url} sends us on to {headers.get('location', 'another address')!r:.200}; "
                "redirections are not followed: give that address if you trust it"
            )
        if status != 200:
            raise UserError(f"{self.url} answered {status}: {answer[:200].decode(errors='replace')}")
        try:
            return json.loads(answer)
        except (ValueError, RecursionError):
            raise UserError(f"{self.url} did not answer in JSON: {answer[:200].decode(errors='replace')}") from None

    def _exchange(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        deadline = time.monotonic() + self.timeout
        try:
            with self._connected() as connected:
                connection = http.client.HTTPConnection(self.host, self.port)
                connection.sock = connected
                connection.request("POST", self.target, body, self.headers)
                response = connection.getresponse()
                headers = {name.lower(): value for name, value in response.getheaders()}
                return response.status, headers, self._read(response, deadline)
        except TimeoutError:
            raise UserError(f"{self.url} did not answer within {self.timeout:g} seconds") from None
        except (OSError, http.client.HTTPException) as error:
            raise UserError(f"{self.url}: {error or type(error).__name__}; is the server running?") from None
        except ValueError as error:  # a header that HTTP does not allow
            raise UserError(f"{self.url}: {error}") from None

    def _connected(self) -> socket.socket:
        """To the first of the host's addresses that answers."""
        for last in self.addresses:
            try:
                plain = socket.create_connection((last, self.port), self.timeout)
                break
            except OSError:
                if last == self.addresses[-1]:
                    raise
        if not self.secure:
            return plain
        return ssl.create_default_context().wrap_socket(plain, server_hostname=self.host)

    def _read(self, response: http.client.HTTPResponse, deadline: float) -> bytes:
        parts, size = [], 0
        while part := response.read1(65536):
            size += len(part)
            if size > LARGEST:
                raise UserError(f"{self.url} answered with more than {LARGEST // 2**20} MB")
            if time.monotonic() > deadline:
                raise TimeoutError
            parts.append(part)
        return b"".join(parts)


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        known = False
    if not known:
        raise UserError(f"{url!r} is not the address of an HTTP endpoint, such as http://127.0.0.1:8000/score")
    if parts.username is not None or parts.password is not None:
        raise UserError("a password in the address would be shown in messages; give it as a header")
    return parts


def _addresses(host: str, port: int, allow_remote: bool) -> list[str]:
    """What the host's name stands for, looked up once: what was checked is what is called."""
    try:
        found = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        raise UserError(f"the host {host!r} is not known") from None
    if not allow_remote and not all(ipaddress.ip_address(a.split("%")[0]).is_loopback for a in found):
        raise UserError(
            f"{host} is another machine: everything explained would be sent there; allow it with --allow-remote "
            "(allow_remote=True)"
        )
    return found


def _wait(named: str | None, attempt: int) -> float:
    """The seconds that a busy server asks for, in either of the two forms; without them more each time."""
    wanted = min(2.0**attempt, 8.0)
    if named is not None and named.strip().isdecimal():
        wanted = float(named)
    elif named is not None:
        with suppress(TypeError, ValueError):
            wanted = (parsedate_to_datetime(named) - datetime.now(UTC)).total_seconds()
    return min(max(wanted, 0.0), LONGEST_WAIT)


def _encoded(one: Any) -> str:
    """A text as it is; an image as PNG in base64."""
    if isinstance(one, str):
        return one
    from regard.view import png

    pixels = np.asarray(one)
    if pixels.ndim == 2:
        pixels = pixels[..., None].repeat(3, -1)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise UserError(f"an endpoint gets images of bytes, H x W x 3; this one is {pixels.dtype}, {pixels.shape}")
    return base64.b64encode(png.encoded(pixels)).decode()


def _holds(template: Any, place: str) -> bool:
    return any(value == place for value in _leaves(template))


def _leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield value


def _filled(template: Any, place: str, value: Any) -> Any:
    """The template with the value in its place; a text in it is a JSON string, whatever it contains."""
    if isinstance(template, dict):
        return {key: _filled(inner, place, value) for key, inner in template.items()}
    if isinstance(template, list):
        return [_filled(inner, place, value) for inner in template]
    return value if template == place else template


def _found(answer: Any, path: Sequence[str]) -> Any:
    """What stands at a path: keys of objects, numbers of list entries, and * for all entries of a list."""
    for depth, key in enumerate(path):
        if key == "*" and isinstance(answer, list):
            return [_found(inner, path[depth + 1 :]) for inner in answer]
        if isinstance(answer, list) and key.isdecimal() and int(key) < len(answer):
            answer = answer[int(key)]
        elif isinstance(answer, dict) and key in answer:
            answer = answer[key]
        else:
            raise UserError(f"the answer has no {'.'.join(path[: depth + 1])!r}: {json.dumps(answer)[:200]}")
    return answer
