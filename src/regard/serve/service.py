"""What the routes stand on: the models with their queues, detection, keys and rates."""

import asyncio
from collections.abc import Generator, Sequence
from functools import partial

from regard.api import Model
from regard.decode.translator import Translation
from regard.serve.align import Alignment, align
from regard.serve.detect import Detected, Detector
from regard.serve.gather import Gatherer
from regard.serve.keys import Keys
from regard.serve.languages import name_of
from regard.serve.logs import Facts
from regard.serve.meters import Meters
from regard.serve.models import Direction, Models, Served
from regard.serve.pages import Page
from regard.serve.pool import Pool
from regard.serve.rate import Rate, network
from regard.serve.refusal import Refusal, shown
from regard.serve.sentences import Cut, cut
from regard.serve.settings import Settings
from regard.serve.told import ranked

CHUNK = 128  # sentences of one request that wait in a queue at a time
ALIGNED = 32  # sentences of a page that are aligned while nobody else can use the network


class Service:
    """All that lives as long as the server does."""

    def __init__(self, models: Models, settings: Settings) -> None:
        self.models, self.settings = models, settings
        self.meters = Meters()
        self.detector = Detector(models.languages)
        self.keys = None if settings.keys is None else Keys(settings.keys)
        self.rate = Rate()
        self.looks = Pool("look", settings.deadline, settings.requests)
        self.explaining = Pool("explain", settings.deadline, settings.requests)
        self.writing = Pool("write", settings.deadline, settings.requests)
        self._gatherers: dict[Direction, Gatherer] = {}
        for direction, served in models.by_direction.items():
            name = "-".join(direction)
            self._gatherers[direction] = gatherer = Gatherer(
                served.decode,
                partial(self.meters.batch, name),
                queue=settings.queue,
                queue_chars=settings.queue_chars,
                deadline=settings.deadline,
                threads=served.threads,
            )
            self.meters.watch_queue(name, partial(getattr, gatherer, "waiting"))

    def close(self) -> None:
        """Refuses whoever still waits."""
        for gatherer in self._gatherers.values():
            gatherer.close()
        self.looks.close()
        self.explaining.close()
        self.writing.close()

    def join(self) -> None:
        """Waits for the threads: none may be at work when the process ends."""
        for gatherer in self._gatherers.values():
            gatherer.join()
        self.looks.join()
        self.explaining.join()
        self.writing.join()

    def admit(self, facts: Facts, api_key: str | None, host: str, where: str) -> None:
        """Lets a request in by its key and rate, or refuses it."""
        client, a_minute, refusal = network(host), self.settings.req_limit, None
        if self.keys is not None:
            key = self.keys.find(api_key) if api_key else None
            if key is not None:
                facts.key = client = key.name
                a_minute = key.rate or a_minute
            else:
                refusal = Refusal(403, "Invalid API key" if api_key else f"An API key is needed: give it {where}")
        if a_minute:
            self.rate.take(client, a_minute)  # of wrong keys too: they are not to be guessed
        if refusal:
            raise refusal

    def count(self, facts: Facts, texts: Sequence[str]) -> None:
        """Holds a request to the limits of texts and characters."""
        facts.texts, facts.characters = len(texts), sum(map(len, texts))
        if facts.texts > self.settings.batch_limit:
            raise Refusal(400, f"Invalid request: {facts.texts} texts exceed the limit of {self.settings.batch_limit}")
        if facts.characters > self.settings.char_limit:
            raise Refusal(
                400, f"Invalid request: {facts.characters} characters exceed the limit of {self.settings.char_limit}"
            )

    def allow(self, alternatives: int) -> None:
        """Holds a request to the limit of alternatives."""
        if alternatives > self.settings.alternatives_limit:
            raise Refusal(400, f"Invalid request: alternatives: no more than {self.settings.alternatives_limit}")

    async def detect(self, texts: Sequence[str], *, html: bool = False) -> list[Detected]:
        """The language of each text; of HTML by what there is to translate: markup would speak for English."""
        self._translates()

        def judged() -> list[Detected]:
            plain = [" ".join(page.sentences) for page in _parsed(texts)] if html else texts
            return self.detector.detect_each(plain)

        return await asyncio.to_thread(judged)

    async def candidates(self, text: str) -> list[Detected]:
        """The languages that a text may be in."""
        self._translates()
        return await asyncio.to_thread(self.detector.detect, text)

    def _translates(self) -> None:
        if not self.models.languages:
            raise Refusal(400, "No translator is served here")

    def way(self, source: str, target: str) -> list[Served]:
        """The models from one language to another; none where they are the same."""
        for code in (source, target):
            if code not in self.models.languages:
                raise Refusal(400, f"{shown(code)} is not supported")
        way = self.models.way(source, target)
        if not way and source != target:
            raise Refusal(
                400,
                f"{name_of(target)} ({target}) is not available as a target language from {name_of(source)} ({source})",
            )
        return way

    async def texts(
        self, texts: Sequence[str], way: Sequence[Served], alternatives: int, facts: Facts
    ) -> list[list[str]]:
        """The translation of each text and up to so many others, each once."""
        found = [[text] for text in texts]
        for last, served in _hops(way):
            cuts = [served.cut(variants[0]) for variants in found]
            rest = iter(
                await self._sentences([s for c in cuts for s in c.sentences], served, alternatives * last, facts)
            )
            own = [[next(rest) for _ in c.sentences] for c in cuts]
            found = [
                list(dict.fromkeys(c.filled(chosen) for chosen in _ranks(sentences, alternatives * last)))
                for c, sentences in zip(cuts, own, strict=True)
            ]
        return found

    async def scored(
        self, text: str, way: Sequence[Served], alternatives: int, facts: Facts
    ) -> tuple[Cut, list[list[Translation]]]:
        """One text as its sentences, and the translations of each, best first."""
        whole = way[0].cut(text) if way else cut(text)
        found = [[Translation(sentence, 0.0, 1.0)] for sentence in whole.sentences]
        for last, served in _hops(way):
            found = await self._sentences([variants[0].text for variants in found], served, alternatives * last, facts)
        return whole, found

    async def pages(
        self, texts: Sequence[str], way: Sequence[Served], alternatives: int, facts: Facts
    ) -> list[list[str]]:
        """The same for HTML, which keeps its tags."""
        if any(served.summarises for served in way):
            raise Refusal(400, "Invalid request: a summary keeps no tags; send the document as text")
        found = [[text] for text in texts]
        for last, served in _hops(way):
            pages = await asyncio.to_thread(_parsed, [variants[0] for variants in found])
            sentences = [page.sentences for page in pages]
            rest = iter(
                await self._sentences([s for some in sentences for s in some], served, alternatives * last, facts)
            )
            own = [[next(rest) for _ in some] for some in sentences]
            found = [
                await self.looks.through(_filled(served, page, _ranks(some, alternatives * last)))
                for page, some in zip(pages, own, strict=True)
            ]
        return found

    async def _sentences(
        self, sentences: Sequence[str], served: Served, alternatives: int, facts: Facts
    ) -> list[list[Translation]]:
        gatherer, options = self._gatherers[served.direction], served.options(alternatives)
        found: list[list[Translation]] = []
        for start in range(0, len(sentences), CHUNK):
            some, wait = await gatherer.translate(sentences[start : start + CHUNK], options)
            found += some
            facts.wait += wait
        return found


def _parsed(texts: Sequence[str]) -> list[Page]:
    return [Page(text) for text in texts]


def _hops(way: Sequence[Served]) -> list[tuple[bool, Served]]:
    """The models in their order, and whether it is the last one: it alone gives alternatives."""
    return [(i == len(way) - 1, served) for i, served in enumerate(way)]


def _ranks(sentences: Sequence[Sequence[Translation]], alternatives: int) -> list[list[str]]:
    return [[one.text for one in chosen] for chosen in ranked(sentences, alternatives)]


def _filled(served: Served, page: Page, ranks: Sequence[Sequence[str]]) -> Generator[None, None, list[str]]:
    """The page in each of its translations, once, a portion of it at a step."""
    found: dict[str, None] = {}
    for texts in ranks:
        pairs, alignments = page.marked(texts), list[Alignment]()
        for start in range(0, len(pairs), ALIGNED):
            some = pairs[start : start + ALIGNED]
            alignments += served.look(partial(_aligned, some))
            yield
        found[page.filled(texts, alignments)] = None
    return list(found)


def _aligned(pairs: Sequence[tuple[str, str]], model: Model) -> list[Alignment]:
    return align(model.bundle, pairs, model.translator.max_source)
