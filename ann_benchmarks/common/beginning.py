"""The first that a command does: what ends it from here on ends it without a traceback.

This imports nothing by itself, for the rest of a command's imports takes seconds on a busy machine.
"""

import sys


def begin() -> None:
    """Begin a command, before its other imports. Until run_command, signals end it without a word."""
    sys.excepthook = _report_uncaught
    from .command import end_silently, open_streams

    end_silently()
    open_streams()


def _report_uncaught(kind, error, trace):  # type: ignore[no-untyped-def]  # without an import for its types
    """Say on one line what ended the imports; of Ctrl-C, Python sees to the exit status."""
    if issubclass(kind, KeyboardInterrupt):
        return
    if issubclass(kind, ModuleNotFoundError) and error.name:
        _report_missing(error.name.partition(".")[0])
        return
    try:
        from .command import report_end

        report_end(error)
    except BaseException as failure:
        if failure is error:  # it is not a shortage
            sys.__excepthook__(kind, error, trace)
        else:
            sys.stderr.write(f"error: {kind.__name__}: out of memory; raise its limit (ulimit -v)\n")


def _report_missing(package: str) -> None:
    """Say that the environment of the packages is another one, and how to get into it."""
    from .layout import IS_CHECKOUT, PROJECT

    how = "install ann-benchmarks-postgres again"
    if IS_CHECKOUT:
        activate = PROJECT / ".venv/bin/activate"
        how = f"activate the environment: . {activate}"
        how = how if activate.exists() else f"make the environment (make -C {PROJECT} venv), then {how}"
    sys.stderr.write(f"error: {sys.executable} has no package '{package}': {how}\n")
