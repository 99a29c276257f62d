"""The command `simile`: everything the library does, from a shell."""

from __future__ import annotations

import io
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import Any

from simile._common.needs import EXTRAS, tell
from simile.errors import SimileError, redact

MISTAKE, INTERRUPTED = 2, 130
# Libraries may answer a KeyboardInterrupt in their midst by an exception of their own: this tells what happened.
interrupted = threading.Event()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 good, 2 the user's mistake, 130 interrupted with the work kept."""
    try:
        import click
        import rich  # noqa: F401 - the commands need it; better said here than in the middle of a training
    except ImportError as error:
        return _report(tell(str(error.name), "the command line"), MISTAKE)
    from simile.cli.app import app

    warnings.formatwarning = _tell_warning
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        return int(app.main(args=arguments, prog_name="simile", standalone_mode=False) or 0)
    except click.UsageError as error:
        error.show(shown := io.StringIO())
        sys.stderr.write(redact(shown.getvalue()))
        return MISTAKE
    except click.ClickException as error:
        return _report(error.format_message(), MISTAKE)
    except SimileError as error:
        return _report(str(error), MISTAKE)
    except ModuleNotFoundError as error:
        if (missing := (error.name or "").partition(".")[0]) not in EXTRAS:
            raise
        return _report(tell(missing), MISTAKE)
    except (click.Abort, KeyboardInterrupt):
        return _report("interrupted", INTERRUPTED)
    except BrokenPipeError:  # whoever read our output has gone; there is nobody to tell
        sys.stderr.close()
        return 0
    except MemoryError as error:
        reason = f" ({error})" if str(error) else ""
        return _report(f"there is not enough memory{reason}: use less data, or allow it more", MISTAKE)
    except OSError as error:
        return _report(f"{type(error).__name__}: {error}", MISTAKE)
    except Exception:
        if interrupted.is_set():
            return _report("interrupted", INTERRUPTED)
        raise


def _report(sentence: str, code: int) -> int:
    sys.stderr.write(f"simile: {redact(sentence)}\n")
    return code


def _tell_warning(message: Warning | str, *_: Any, **__: Any) -> str:
    """Write a warning, of whichever library, as a sentence: where in its code it came up is no user's affair."""
    return f"simile: {redact(str(message))}\n"


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    """Treat a polite request to stop as Ctrl-C, so that the work is kept."""
    interrupted.set()
    raise KeyboardInterrupt
