"""What is counted for Prometheus, in a registry of the server's own."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Meters:
    """The server's figures; labels have few values, and never a text."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "regard_requests", "Requests by route and status.", ["route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "regard_request_seconds", "Time to answer.", ["route"], buckets=SECONDS, registry=self.registry
        )
        self._characters = Counter("regard_characters", "Characters taken in.", registry=self.registry)
        self._texts = Counter("regard_texts", "Texts taken in.", registry=self.registry)
        self._batch = Histogram(
            "regard_batch_sentences", "Sentences decoded together.", ["model"], buckets=SIZES, registry=self.registry
        )
        self._decode = Histogram(
            "regard_batch_seconds", "Time to decode a batch.", ["model"], buckets=SECONDS, registry=self.registry
        )
        self._waiting = Gauge(
            "regard_waiting_sentences", "Sentences that wait for a model.", ["model"], registry=self.registry
        )
        self._open = Gauge("regard_requests_open", "Requests at work.", registry=self.registry)

    def request(self, route: str, status: int, seconds: float, texts: int, characters: int) -> None:
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        self._texts.inc(texts)
        self._characters.inc(characters)

    def batch(self, model: str, sentences: int, seconds: float) -> None:
        self._batch.labels(model).observe(sentences)
        self._decode.labels(model).observe(seconds)

    def watch_queue(self, model: str, waiting: Callable[[], float]) -> None:
        self._waiting.labels(model).set_function(waiting)

    def watch_open(self, count: Callable[[], float]) -> None:
        self._open.set_function(count)

    def text(self) -> bytes:
        return generate_latest(self.registry)
