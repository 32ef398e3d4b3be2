"""The command: one file per verb; heavy imports wait until a verb runs."""

import os
import sys
from typing import NoReturn

import typer

from regard.cli import (
    average,
    data,
    demo,
    evaluate,
    explain,
    export,
    generate,
    import_,
    info,
    look,
    models,
    predict,
    serve,
    train,
    translate,
)
from regard.errors import UserError

app = typer.Typer(
    name="regard",
    help="The Transformer family in one command: train a translator on your own sentences, score it, see into it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("translate")(translate.translate)
app.command("summarise", help="Summarise documents, one a line (or .jsonl files), with a model for summarisation.")(
    translate.translate
)
app.command("predict")(predict.predict)
app.command("generate")(generate.generate)
app.command("evaluate")(evaluate.evaluate)
app.command("look")(look.look)
app.command("explain")(explain.explain)
app.command("serve")(serve.serve)
app.add_typer(data.app, name="data")
app.command("models")(models.models)
app.command("info")(info.info)
app.command("average")(average.average)
app.command("import")(import_.import_)
app.command("export")(export.export)


def _version(wanted: bool) -> None:
    if wanted:
        from regard import __version__

        print(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    pass


def main() -> NoReturn:
    """Runs the command. A user's mistake is one line and exit code 2, never a traceback."""
    code = 0
    try:
        app()
    except UserError as error:
        code = _told(str(error))
    except BrokenPipeError:
        _leave_quietly()
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:  # what could not be written would be tried again at the end
            _leave_quietly()
        code = _told(": ".join(map(str, filter(None, (error.filename, error.strerror or error)))))
    except KeyboardInterrupt:
        code = 130
    except SystemExit as leaving:  # which Typer makes of a broken pipe too
        if not isinstance(leaving.__context__, BrokenPipeError):
            raise
        _leave_quietly()
    sys.exit(code)


def _told(mistake: str) -> int:
    """In one line; it may quote anything."""
    print("regard: " + "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in mistake), file=sys.stderr)
    return 2


def _leave_quietly() -> None:
    """The reader went away, as `| head` does, or there is no room: what is still to be written goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
