"""LibreTranslate's API, so that its clients work unchanged."""

from pathlib import PurePath
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from starlette.datastructures import UploadFile

from regard.serve import parameters, shapes
from regard.serve.languages import name_of
from regard.serve.logs import Facts
from regard.serve.parameters import checked, read
from regard.serve.refusal import Refusal
from regard.serve.service import Service
from regard.serve.store import Store

FILES = {".txt": "text", ".html": "html", ".htm": "html"}


def facts_of(request: Request) -> Facts:
    found = request.scope["facts"]
    assert isinstance(found, Facts)
    return found


def admit(service: Service, request: Request, api_key: str | None, where: str = "as api_key") -> Facts:
    """where: how a key is to be given."""
    facts = facts_of(request)
    service.admit(facts, api_key, request.client.host if request.client else "", where)
    return facts


def routes(service: Service, store: Store) -> APIRouter:
    router = APIRouter(tags=["LibreTranslate"], default_response_class=JSONResponse)
    settings, models = service.settings, service.models

    @router.post(
        "/translate",
        responses=shapes.responses(shapes.Translated),
        openapi_extra=shapes.body(parameters.Translate, models.languages, auto=True),
    )
    async def translate(request: Request) -> Response:
        """Translate a text, or several; the parameters may also stand in the query."""
        asked = await read(parameters.Translate, request)
        facts = admit(service, request, asked.api_key)
        several = isinstance(asked.q, list)
        texts = asked.q if isinstance(asked.q, list) else [asked.q]
        if not asked.q:
            raise Refusal(400, "Invalid request: missing q parameter")
        service.allow(asked.alternatives)
        service.count(facts, texts)
        html = asked.format == "html"
        detected = await service.detect(texts, html=html) if asked.source == "auto" else []
        sources = [d.language for d in detected] or [asked.source] * len(texts)
        ways = {source: service.way(source, asked.target) for source in dict.fromkeys(sources)}
        work = service.pages if html else service.texts
        found: list[list[str]] = [[] for _ in texts]
        for source, way in ways.items():
            places = [i for i, own in enumerate(sources) if own == source]
            some = await work([texts[i] for i in places], way, asked.alternatives, facts)
            for i, variants in zip(places, some, strict=True):
                found[i] = variants
        answer: dict[str, Any] = {"translatedText": [v[0] for v in found] if several else found[0][0]}
        if detected:
            judged = [d.to_dict() for d in detected]
            answer["detectedLanguage"] = judged if several else judged[0]
        if asked.alternatives:
            answer["alternatives"] = [v[1:] for v in found] if several else found[0][1:]
        return JSONResponse(answer)

    @router.post(
        "/detect",
        responses=shapes.responses(list[shapes.DetectedLanguage]),
        openapi_extra=shapes.body(parameters.Detect),
    )
    async def detect(request: Request) -> Response:
        """Judge which of the served languages a text is in, likeliest first."""
        asked = await read(parameters.Detect, request)
        facts = admit(service, request, asked.api_key)
        texts = asked.q if isinstance(asked.q, list) else [asked.q]
        if not asked.q:
            raise Refusal(400, "Invalid request: missing q parameter")
        service.count(facts, texts)
        return JSONResponse([d.to_dict() for d in await service.candidates(" ".join(texts))])

    @router.get("/languages", responses={200: {"model": list[shapes.Language]}})
    async def languages() -> Response:
        """The languages there are, and what each can be translated into."""
        reached = {c: list(dict.fromkeys((c, *models.targets(c)))) for c in models.languages}
        return JSONResponse([{"code": c, "name": name_of(c), "targets": targets} for c, targets in reached.items()])

    @router.get("/frontend/settings", responses={200: {"description": "What a client should know of this server."}})
    async def frontend_settings() -> Response:
        """Limits and defaults."""
        sides = next(iter(models.by_direction), ("", ""))  # none where no translator is served
        keyed = service.keys is not None
        return JSONResponse(
            {
                "apiKeys": keyed,
                "keyRequired": keyed,
                "charLimit": settings.char_limit,
                "frontendTimeout": 500,
                "filesTranslation": True,
                "supportedFilesFormat": list(FILES),
                "suggestions": False,
                "language": {
                    side: {"code": code, "name": name_of(code)}
                    for side, code in zip(("source", "target"), sides, strict=True)
                },
            }
        )

    @router.get("/health", responses={200: {"model": shapes.Health}})
    async def health() -> Response:
        """Whether the server is up."""
        return JSONResponse({"status": "ok"})

    @router.get("/spec", responses={200: {"description": "This API as OpenAPI."}})
    async def spec(request: Request) -> Response:
        """This description."""
        return JSONResponse(request.app.openapi())

    @router.post(
        "/translate_file",
        responses=shapes.responses(shapes.TranslatedFile),
        openapi_extra=shapes.body(parameters.TranslateFile, models.languages, auto=True, file=True),
    )
    async def translate_file(request: Request) -> Response:
        """Translate a text or HTML file; the answer says where to get it."""
        found = await parameters.parameters(request)
        asked = checked(parameters.TranslateFile, found)
        facts = admit(service, request, asked.api_key)
        file = found.get("file")
        if not isinstance(file, UploadFile):
            raise Refusal(400, "Invalid request: missing file parameter")
        name = _file_name(file.filename or "")
        kind = FILES.get(PurePath(name).suffix.lower())
        if kind is None:
            raise Refusal(400, f"Invalid request: file format not supported; there are {', '.join(FILES)}")
        try:
            text = (await file.read()).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise Refusal(400, "Invalid request: the file is not UTF-8") from None
        facts.texts, facts.characters = 1, len(text)
        html = kind == "html"
        source = (await service.detect([text], html=html))[0].language if asked.source == "auto" else asked.source
        work = service.pages if html else service.texts
        ((translation, *_),) = await work([text], service.way(source, asked.target), 0, facts)
        path = PurePath(name)
        kept = store.add(translation, f"{path.stem}_{asked.target}{path.suffix.lower()}")
        return JSONResponse({"translatedFileUrl": str(request.url_for("download_file", name=kept))})

    @router.get(
        "/download_file/{name}",
        responses={200: {"content": {"text/plain": {}, "text/html": {}}}, 404: {"model": shapes.Problem}},
    )
    async def download_file(name: str) -> Response:
        """A translated file, for as long as it is kept."""
        kept = store.find(name)
        if kept is None:
            raise Refusal(404, "There is no such file, or no longer")
        safe = {"Content-Security-Policy": "sandbox; default-src 'none'"}
        return FileResponse(kept.path, filename=kept.download, headers=safe)

    return router


def _file_name(given: str) -> str:
    """The last part of a path, without control characters, and not too long."""
    last = given.replace("\\", "/").rpartition("/")[2]
    path = PurePath("".join(c for c in last if c.isprintable()) or "file")
    return path.stem[:80] + path.suffix[:10]
