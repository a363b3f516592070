"""The program `sltr`: its commands, and one line for whatever goes wrong."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from sltr.cli.data import info, reproduce, simulate
from sltr.cli.fit import fit, tune
from sltr.cli.inference import stability, test
from sltr.cli.output import say
from sltr.cli.predict import predict
from sltr.cli.show import compare, export, plot, report
from sltr.persistence import package_version

INTERRUPTED = 130


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"sltr {package_version()}\n")
        raise typer.Exit


app = typer.Typer(
    name="sltr",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Sparse and low-rank regression on tensors.

Start here:

    sltr simulate data.npz --test-samples 200
    sltr compare data.npz --methods sltr,remurs,cp
    sltr tune data.npz --out model.sltr
    sltr plot model.sltr coefficient.png
    sltr report model.sltr data.npz --test data-test.npz

Tables and numbers go to standard output, messages to standard error.
`--json` makes output for programs, `--verbose` says more. The exit status is
0 if all went well, 1 if the work failed, 2 if the command was not understood,
130 if interrupted.
""",
)


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Say which version this is.", callback=_print_version
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Say more, and where something went wrong."
        ),
    ] = False,
) -> None:
    logging.getLogger("sltr").setLevel(logging.INFO if verbose else logging.WARNING)


COMMANDS = (
    simulate,
    fit,
    tune,
    predict,
    compare,
    test,
    stability,
    plot,
    report,
    export,
    reproduce,
    info,
)
for command in COMMANDS:
    app.command()(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status."""
    given = _verbose_first(sys.argv[1:] if arguments is None else arguments)
    handler = logging.StreamHandler(sys.stderr)
    logger = logging.getLogger("sltr")
    level = logger.level
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            outcome = app(args=given, prog_name="sltr", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        outcome = INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; there is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if logger.isEnabledFor(logging.INFO) and not hasattr(error, "format_message"):
            logger.info("", exc_info=error)
        return _explain(error)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    if outcome == INTERRUPTED:
        say("Interrupted; files that were being written are as they were before.")
    return outcome if isinstance(outcome, int) else 0


def _verbose_first(arguments: Sequence[str]) -> list[str]:
    """Return arguments with `--verbose` where the program looks for it: in front."""
    words = {"--verbose", "-v"} & set(arguments)
    return [*words, *(word for word in arguments if word not in words)]


def _explain(error: Exception) -> int:
    """Say in one line what went wrong; return the exit status."""
    if hasattr(error, "format_message"):  # typer's: the command was not understood
        context = getattr(error, "ctx", None)
        where = context.command_path if context is not None else "sltr"
        message = " ".join(str(error.format_message()).split())
        if not message:  # the help was printed in place of a message
            return 2
        say(f"Error: {message.rstrip('.')}. See: {where} --help")
        return 2
    if isinstance(error, OSError) and error.strerror:
        what = f"{error.filename}: " if error.filename else ""
        say(f"Error: {what}{error.strerror}")
        return 1
    if isinstance(error, ValueError | TypeError | OSError | ImportError | MemoryError):
        say(f"Error: {' '.join(str(error).split()) or type(error).__name__}")
        return 1
    if os.environ.get("SLTR_TRACEBACK"):
        raise error
    text = " ".join(f"{type(error).__name__}: {error}".split())
    say(f"Error: {text} (a fault of sltr; SLTR_TRACEBACK=1 shows where)")
    return 1


def _show_warning(message: Any, *rest: Any, **more: Any) -> None:
    say(f"Warning: {' '.join(str(message).split())}")
