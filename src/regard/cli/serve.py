"""`regard serve`: models behind LibreTranslate's API and OpenAI's, and the web page."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from regard.cli.options import Precision
from regard.serve.settings import Settings, help_of


def _option(name: str) -> Any:
    return typer.Option(help=help_of(name))


DEFAULT = Settings()
LOOPBACK = ("127.", "localhost", "::1")


def serve(
    models: Annotated[list[Path], typer.Argument(help="Folders of models or runs; each direction once.")],
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 is every one of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 5000,
    engine: Annotated[
        Literal["auto", "torch", "ctranslate2"], typer.Option(help="What translates; auto is ctranslate2 if installed.")
    ] = "auto",
    precision: Annotated[Precision, typer.Option(help="With ctranslate2: int8 is faster and smaller.")] = "float32",
    beam: Annotated[int | None, typer.Option(min=1, max=256, help="Hypotheses kept; default each model's own.")] = None,
    ensemble: Annotated[bool, typer.Option("--ensemble", help="Models of one direction translate together.")] = False,
    keys: Annotated[Path | None, _option("keys")] = DEFAULT.keys,
    cors: Annotated[list[str] | None, _option("cors")] = None,
    proxy: Annotated[list[str] | None, _option("proxy")] = None,
    char_limit: Annotated[int, _option("char_limit")] = DEFAULT.char_limit,
    batch_limit: Annotated[int, _option("batch_limit")] = DEFAULT.batch_limit,
    alternatives_limit: Annotated[int, _option("alternatives_limit")] = DEFAULT.alternatives_limit,
    token_limit: Annotated[int, _option("token_limit")] = DEFAULT.token_limit,
    body_limit: Annotated[int, _option("body_limit")] = DEFAULT.body_limit,
    req_limit: Annotated[int, _option("req_limit")] = DEFAULT.req_limit,
    requests: Annotated[int, _option("requests")] = DEFAULT.requests,
    queue: Annotated[int, _option("queue")] = DEFAULT.queue,
    queue_chars: Annotated[int, _option("queue_chars")] = DEFAULT.queue_chars,
    deadline: Annotated[float, _option("deadline")] = DEFAULT.deadline,
    grace: Annotated[float, _option("grace")] = DEFAULT.grace,
    files: Annotated[int, _option("files")] = DEFAULT.files,
    file_minutes: Annotated[float, _option("file_minutes")] = DEFAULT.file_minutes,
) -> None:
    """Serve models over HTTP: LibreTranslate's API (for language models, OpenAI's), and a web page."""
    settings = Settings(
        char_limit=char_limit, batch_limit=batch_limit, alternatives_limit=alternatives_limit, body_limit=body_limit,
        token_limit=token_limit,
        req_limit=req_limit, requests=requests, queue=queue, queue_chars=queue_chars, deadline=deadline, grace=grace,
        files=files, file_minutes=file_minutes, keys=keys, cors=tuple(cors or ()), proxy=tuple(proxy or ()),
    )  # fmt: skip
    from regard.serve.listen import bind

    bound = bind(host, port)
    if keys is None and not host.startswith(LOOPBACK):
        print(f"regard: warning: anyone who reaches {host} can use this server; --keys asks for a key", file=sys.stderr)
    from regard.serve.models import load_models
    from regard.serve.run import run

    run(load_models(models, engine, precision, ensemble=ensemble, beam=beam), settings, bound)
