"""What the web page asks for: the models, looks into them, and explanations as a stream of events."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from regard.api import Model
from regard.decode import DecodeOptions
from regard.errors import UserError
from regard.serve import parameters, shapes
from regard.serve.events import Event, Streams
from regard.serve.languages import name_of
from regard.serve.libretranslate import admit
from regard.serve.models import Served
from regard.serve.parameters import read
from regard.serve.refusal import Refusal
from regard.serve.service import Service
from regard.serve.told import told

STREAMS = 4  # explanations at once
PLAIN = 500_000  # weights in an answer that is not packed: ten megabytes
Result = TypeVar("Result")
Handler = Callable[[Request], Awaitable[Response]]
Route = Callable[[Handler], Handler]


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["page"], default_response_class=JSONResponse)
    streams = Streams(STREAMS)
    known: dict[Served, dict[str, Any]] = {}  # the roles of a model's heads, once somebody has asked

    def post(path: str, asked: type[BaseModel], auto: bool = False, kind: str = "application/json") -> Route:
        languages = service.models.languages
        return router.post(
            path,
            responses=shapes.responses(dict[str, Any], kind=kind),
            openapi_extra=shapes.body(asked, languages, auto=auto),
        )

    @router.get("/info", responses={200: {"description": "Models, languages, limits."}})
    async def info() -> Response:
        """What is served."""
        from regard import __version__

        settings, models = service.settings, service.models
        codes = models.languages
        return JSONResponse(
            {
                "version": __version__,
                "models": [served.to_dict() for served in models.by_direction.values()],
                "writers": [
                    {"name": name, "parameters": model.bundle.parameters, "network": model.bundle.name}
                    for name, model in models.writers.items()
                ],
                "languages": [{"code": c, "name": name_of(c), "targets": models.targets(c)} for c in codes],
                "limits": {
                    "characters": settings.char_limit,
                    "texts": settings.batch_limit,
                    "alternatives": settings.alternatives_limit,
                    "masks": parameters.MASKS,
                    "tokens": settings.token_limit,
                },
                "key_required": service.keys is not None,
            }
        )

    @post("/translate", parameters.Typed, auto=True)
    async def translate(request: Request) -> Response:
        """Translate one text, told sentence by sentence and with how sure the model is."""
        asked = await read(parameters.Typed, request)
        facts = admit(service, request, asked.api_key)
        service.count(facts, [asked.text])
        service.allow(asked.alternatives)
        detected = (await service.detect([asked.text]))[0] if asked.source == "auto" else None
        source = asked.source if detected is None else detected.language
        way = service.way(source, asked.target)
        found = await service.scored(asked.text, way, asked.alternatives, facts)
        more: dict[str, Any] = {} if detected is None else {"detected": detected.to_dict()}
        more["unknown"] = way[0].model.bundle.source.unknown(asked.text) if way else []
        return JSONResponse(told(*found, asked.alternatives) | {"source": source} | more)

    @post("/roles", parameters.Pair)
    async def roles(request: Request) -> Response:
        """Which heads of a model find who, did what, to whom: on sentences whose grammar is known."""
        from regard.view.roles import roles_or_why

        asked = await read(parameters.Pair, request)
        admit(service, request, asked.api_key)
        served = _one(service.way(asked.source, asked.target))

        def work(model: Model) -> None:
            if served not in known:  # another one may have asked, and be tired of waiting by now
                found = roles_or_why(model)  # of another language, or other words: no fault of whoever asks
                known[served] = {"needs": found} if isinstance(found, str) else found.numbers()

        if served not in known:
            await service.looks.run(lambda: served.look(work))
        return JSONResponse(known[served])

    @post("/look", parameters.Look)
    async def look(request: Request) -> Response:
        """What the model attends to as it translates one sentence: tokens, and the weights of all layers and heads."""
        from regard.view.look import look as look_into

        asked = await read(parameters.Look, request)

        def work(model: Model, options: DecodeOptions) -> dict[str, Any]:
            found = look_into(model, asked.text, asked.translation, options)
            if asked.packed:
                return found.to_page()
            if (count := sum(w.size for w in found.weights.values())) > PLAIN:
                raise UserError(f"{count} weights are too many to be written out; ask for them packed")
            return found.to_dict()

        return await looked(request, asked, work)

    @post("/steps", parameters.Steps)
    async def steps(request: Request) -> Response:
        """The queries, keys and values of one head, from which its weights and its output follow."""
        from regard.view.look import look as look_into

        asked = await read(parameters.Steps, request)

        def work(model: Model, options: DecodeOptions) -> dict[str, Any]:
            found = look_into(model, asked.text, asked.translation, options)
            for one in found.vectors:
                if (one.kind, one.layer) == (asked.kind, asked.layer):
                    return one.to_dict(asked.head)
            raise UserError(f"there is no {asked.kind} layer {asked.layer}")

        return await looked(request, asked, work)

    async def looked(
        request: Request, asked: parameters.Sentence, work: Callable[[Model, DecodeOptions], dict[str, Any]]
    ) -> Response:
        served, options = admitted(request, asked)
        # The answer is written there too: there are many numbers.
        return await service.looks.run(lambda: JSONResponse(_told(served, lambda model: work(model, options))))

    def admitted(request: Request, asked: parameters.Sentence) -> tuple[Served, DecodeOptions]:
        """The one model that is asked about, and how it translated what was shown."""
        facts = admit(service, request, asked.api_key)
        service.count(facts, [asked.text + (asked.translation or "")])
        service.allow(asked.alternatives)
        served = _one(service.way(asked.source, asked.target))
        return served, served.options(asked.alternatives)

    @post("/explain", parameters.Explain, kind="text/event-stream")
    async def explain(request: Request) -> Response:
        """Why each output word was written, by RISE: events `step` as the map gets clearer, then `end` or `error`."""
        from regard.explain import why_steps

        asked = await read(parameters.Explain, request)
        served, options = admitted(request, asked)
        found = why_steps(served.model, asked.text, asked.translation, options=options, by=asked.by, masks=asked.masks)

        async def events() -> AsyncIterator[Event]:
            """One step at a time, so that others get their turn at the network."""
            while (one := await service.explaining.run(lambda: _told(served, lambda _: next(found, None)))) is not None:
                yield "step", one.to_dict()
            yield "end", {}

        return await streams.answer("/api/explain", events())

    return router


def _one(way: list[Served]) -> Served:
    if len(way) != 1:
        raise Refusal(400, "Attention is one model's: there is none straight from this language to that one")
    return way[0]


def _told(served: Served, work: Callable[[Model], Result]) -> Result:
    """A look into a model; what cannot be looked at is a 400."""
    try:
        return served.look(work)
    except UserError as error:
        raise Refusal(400, f"Invalid request: {error}") from None
