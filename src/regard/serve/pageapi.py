"""What the web page asks for: the models, and looks into them."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from regard.api import Model
from regard.errors import UserError
from regard.serve import parameters, shapes
from regard.serve.languages import name_of
from regard.serve.libretranslate import admit
from regard.serve.parameters import read
from regard.serve.refusal import Refusal
from regard.serve.service import Service


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["page"], default_response_class=JSONResponse)

    @router.get("/info", responses={200: {"description": "Models, languages, limits."}})
    async def info() -> Response:
        """What is served."""
        from regard import __version__

        settings = service.settings
        return JSONResponse(
            {
                "version": __version__,
                "models": [served.to_dict() for served in service.models.by_direction.values()],
                "languages": [
                    {"code": c, "name": name_of(c), "targets": service.models.targets(c)}
                    for c in service.models.languages
                ],
                "limits": {
                    "characters": settings.char_limit,
                    "texts": settings.batch_limit,
                    "alternatives": settings.alternatives_limit,
                },
                "key_required": service.keys is not None,
            }
        )

    @router.post("/look", responses=shapes.responses(dict[str, Any]), openapi_extra=shapes.body(parameters.Look))
    async def look(request: Request) -> Response:
        """What the model attends to as it translates one sentence: tokens, and the weights of all layers and heads."""
        from regard.view.look import look as look_into

        asked = await read(parameters.Look, request)
        return await _looked(request, asked, lambda model: look_into(model, asked.text, asked.translation).to_dict())

    async def _looked(request: Request, asked: parameters.Look, work: Callable[[Model], dict[str, Any]]) -> Response:
        facts = admit(service, request, asked.api_key)
        service.count(facts, [asked.text, asked.translation or ""])
        way = service.way(asked.source, asked.target)
        if len(way) != 1:
            raise Refusal(400, "Attention is one model's: there is none from this language straight to that one")

        def done() -> Response:
            try:
                return JSONResponse(way[0].look(work))  # made here too: there are many numbers to write
            except UserError as error:
                raise Refusal(400, f"Invalid request: {error}") from None

        return await service.pool.run(done)

    return router
