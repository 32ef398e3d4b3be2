"""API keys and rates."""

import hmac
from pathlib import Path

import pytest
from serve.servers import Start

from regard.errors import UserError
from regard.serve.keys import Keys, read_keys
from regard.serve.rate import BUCKETS, Rate, network
from regard.serve.refusal import Refusal

PLAIN = {"q": "the man eats the bread", "source": "en", "target": "es"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.txt"
    path.write_text("# ours\nalpha-key\n\nbeta-key 2\n", encoding="utf-8")
    return path


def test_a_key_is_asked_for_where_there_are_keys(start: Start, file: Path) -> None:
    client = start(keys=file)
    assert client.get("/frontend/settings").json()["keyRequired"] is True
    for given, error in (({}, "An API key is needed: give it as api_key"), ({"api_key": "alpha"}, "Invalid API key")):
        for path in ("/translate", "/detect"):
            answer = client.post(path, json=PLAIN | given)
            assert (answer.status_code, answer.json()) == (403, {"error": error})
    for how in ({"json": PLAIN | {"api_key": "alpha-key"}}, {"data": PLAIN | {"api_key": "alpha-key"}}):
        assert client.post("/translate", **how).status_code == 200
    assert client.post("/translate", params={"api_key": "alpha-key"}, json=PLAIN).status_code == 200
    assert client.get("/languages").status_code == client.get("/health").status_code == 200


@pytest.mark.parametrize(
    "path", ["/translate_file", "/api/translate", "/api/look", "/api/steps", "/api/explain", "/api/roles"]
)
def test_every_route_that_works_asks_for_it(start: Start, file: Path, path: str) -> None:
    given = PLAIN | {"text": PLAIN["q"], "kind": "cross"}
    answer = start(keys=file).post(path, data=given, files={"file": ("a.txt", b"x")})
    assert answer.status_code == 403


def test_keys_are_compared_in_constant_time_and_all_of_them(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    constant = hmac.compare_digest

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return constant(a, b)

    monkeypatch.setattr("regard.serve.keys.hmac.compare_digest", compare)
    keys = Keys(file)
    for given in ("alpha-key", "beta-key", "x", "x" * 5000):
        compared.clear()
        keys.find(given)
        assert len(compared) == 2  # no early end
        assert {len(side) for pair in compared for side in pair} == {32}  # hashes: the length says nothing


def test_the_file_is_read_again_when_it_changes(file: Path) -> None:
    keys = Keys(file)
    assert keys.find("gamma-key") is None
    file.write_text("gamma-key\n", encoding="utf-8")
    assert keys.find("gamma-key") is not None
    assert keys.find("alpha-key") is None
    file.write_text("one two three\n", encoding="utf-8")
    assert keys.find("gamma-key") is not None  # a damaged file changes nothing
    file.unlink()
    assert keys.find("gamma-key") is not None


def test_a_file_without_sense_is_refused_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    for content, word in (("", "no key"), ("a b\n", "line 1"), ("# x\na 0\n", "line 2"), ("a 5 6\n", "line 1")):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(UserError, match=word):
            read_keys(path)
    with pytest.raises(UserError, match="cannot read"):
        read_keys(tmp_path / "nothing")


def test_the_mark_that_some_editors_write_is_no_part_of_a_key(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("alpha-key\n", encoding="utf-8-sig")
    assert Keys(tmp_path / "keys").find("alpha-key") is not None


def test_too_many_requests_are_429_and_say_when_to_come_again(start: Start) -> None:
    client = start(req_limit=2)
    codes = [client.post("/detect", json={"q": "hello"}).status_code for _ in range(3)]
    assert codes == [200, 200, 429]
    answer = client.post("/detect", json={"q": "hello"})
    assert answer.json() == {"error": "Too many requests: no more than 2 a minute"}
    assert 1 <= int(answer.headers["retry-after"]) <= 30
    assert client.get("/health").status_code == 200


def test_a_key_has_its_own_rate(start: Start, file: Path) -> None:
    client = start(keys=file, req_limit=100)
    codes = [client.post("/detect", json={"q": "hello", "api_key": "beta-key"}).status_code for _ in range(3)]
    assert codes == [200, 200, 429]
    assert client.post("/detect", json={"q": "hello", "api_key": "alpha-key"}).status_code == 200


def test_keys_cannot_be_guessed_without_end(start: Start, file: Path) -> None:
    client = start(keys=file, req_limit=2)
    codes = [client.post("/detect", json={"q": "hello", "api_key": f"guess {i}"}).status_code for i in range(3)]
    assert codes == [403, 403, 429]


def test_a_bucket_fills_again() -> None:
    now = 0.0
    rate = Rate(lambda: now)
    for _ in range(60):
        rate.take("a", 60)
    with pytest.raises(Refusal) as refused:
        rate.take("a", 60)
    assert refused.value.retry_after == 1
    rate.take("b", 60)
    now = 1.01
    rate.take("a", 60)
    with pytest.raises(Refusal):
        rate.take("a", 60)


def test_buckets_are_bounded() -> None:
    rate = Rate()
    for i in range(BUCKETS + 50):
        rate.take(str(i), 5)
    assert len(rate) == BUCKETS


def test_who_an_address_stands_for() -> None:
    assert network("192.0.2.7") == "192.0.2.7"
    assert network("2001:db8::1") == network("2001:db8::ffff:1")
    assert network("2001:db8:0:1::1") != network("2001:db8::1")
    assert network("::ffff:192.0.2.7") == "192.0.2.7"
    assert network("testclient") == "testclient"
