"""The application: routes, and the layers around them."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import HTMLResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from regard import __version__, view
from regard.serve import libretranslate, openai, pageapi, writeapi
from regard.serve.body import Body
from regard.serve.door import Door
from regard.serve.models import Models
from regard.serve.refusal import Refusal
from regard.serve.service import Service
from regard.serve.settings import Settings
from regard.serve.store import Store
from regard.view.page import hashed

PAGE = Path(__file__).parent / "page"
VIEW = Path(view.__file__).parent / "page"
_SCRIPT = re.compile(r"<script\b[^>]*>(.+?)</script>", re.DOTALL)


def make_app(models: Models, settings: Settings | None = None) -> FastAPI:
    """A server's application. `app.state.service` is what it stands on."""
    settings = settings or Settings()
    service = Service(models, settings)
    store = Store(settings.files, 60 * settings.file_minutes)

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        Thread(target=service.detector.load, name="regard-detect", daemon=True).start()
        yield
        service.close()
        await asyncio.to_thread(service.join)
        store.close()

    app = FastAPI(
        title="Regard", version=__version__, description="Translates; speaks LibreTranslate's API.",
        lifespan=living, docs_url=None, redoc_url=None,
    )  # fmt: skip
    app.state.service = service
    app.include_router(libretranslate.routes(service, store))
    app.include_router(pageapi.routes(service))
    if models.writers:
        app.include_router(openai.routes(service))
        app.include_router(writeapi.routes(service))

    @app.get("/metrics", responses={200: {"content": {"text/plain": {}}}}, response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Figures for Prometheus."""
        return Response(service.meters.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return page("index.html" if models.by_direction else "write.html")

    if models.writers:

        @app.get("/write", include_in_schema=False)
        async def write() -> Response:
            return page("write.html")

    for name, folder in (("page", PAGE), ("view", VIEW)):
        if folder.is_dir():
            app.mount(f"/static/{name}", StaticFiles(directory=folder), name=name)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _refused)
    paths = {"/", "/write", *(path for path in app.openapi()["paths"] if "{" not in path)}
    app.add_middleware(Body, limit=settings.body_limit, seconds=settings.deadline)
    app.add_middleware(Door, most=settings.requests, meters=service.meters, paths=paths)
    if settings.cors:
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.cors, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    return app


def page(name: str) -> Response:
    """A web page. Its scripts come from this server alone; those that stand in the page itself, by their hash."""
    file = PAGE / name
    if not file.is_file():
        return PlainTextResponse("Regard is serving; its API is described at /spec.\n")
    html = file.read_text(encoding="utf-8")
    hashes = " ".join(map(hashed, _SCRIPT.findall(html)))
    policy = (
        f"default-src 'none'; script-src 'self' {hashes}; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(html, headers={"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"})


async def _refused(request: Request, error: Exception) -> Response:
    """Everything that is refused, in the API's own shape."""
    if isinstance(error, Refusal):
        return error.response(request.scope)
    if isinstance(error, HTTPException):
        return Refusal(error.status_code, str(error.detail)).response(request.scope, error.headers)
    return Refusal(400, "Invalid request").response(request.scope)
