"""`srl COMMAND ...`: find the command among the installed entry points and run it."""

from __future__ import annotations

import ast
import contextlib
import errno
import importlib.util
import sys
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import srl_envs
from srl_agents.interrupts import terminable
from srl_agents.process_end import run_process
from srl_agents.standard_streams import OUTPUT, discard_output, named_streams
from srl_envs import foreign_code
from srl_envs.distribution import extra_with, install_command
from srl_envs.errors import SRLError, file_fault, nearest

COMMAND_GROUP = "srl.commands"
"""Entry-point group; each entry is a function of the arguments that returns an exit code. It is named
for the command, which is ``srl`` whatever the distribution is called."""

USER_ERROR, PIPE_CLOSED = 2, 141
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""Errors of writing, which name no file: a full disk, a quota, a broken or a read-only one."""


def main(argv: list[str] | None = None) -> int:
    """Run ``srl`` with ``argv``; None: with the arguments of this process, which ends with the command.

    Returns:
        0 done, 2 the user has something to fix, 129 SIGHUP, 130 Ctrl-C, 141 the reader of the output left,
        143 SIGTERM.
        Messages that cannot be written change none of them.
    """
    if argv is None:
        run_process(lambda: main(sys.argv[1:]))
    with named_streams():
        try:
            code = _status(argv)
            sys.stdout.flush()
        except OSError as error:
            if error.filename != OUTPUT:
                raise
            discard_output()
            if isinstance(error, BrokenPipeError):
                return PIPE_CLOSED
            print(f"srl {' '.join(argv[:1])}: {file_fault(error, OUTPUT)}.", file=sys.stderr)
            return USER_ERROR
    return code


def _status(argv: list[str]) -> int:
    """Exit code of a command; what it printed may still be buffered."""
    with terminable() as stop:
        try:
            with _switch(argv) as arguments:
                return _dispatch(arguments)
        except KeyboardInterrupt as interrupt:
            own_line = "\n" * sys.stderr.isatty()  # behind the terminal's ^C
            message = str(interrupt) or "interrupted."
            print(f"{own_line}srl {' '.join(argv[:1])}: {message}", file=sys.stderr)
            return stop.status


@contextlib.contextmanager
def _switch(arguments: list[str]) -> Iterator[list[str]]:
    """Take ``--no-foreign-code`` from the arguments of any command, and refuse such code until it ends."""
    rest = [word for word in arguments if word != foreign_code.OPTION]
    with contextlib.nullcontext() if rest == arguments else foreign_code.refusing():
        yield rest


def _dispatch(arguments: list[str]) -> int:
    commands = {entry.name: entry for entry in metadata.entry_points(group=COMMAND_GROUP)}
    name, *rest = arguments or ["--help"]
    if name in ("-h", "--help", "help"):
        print(_help(commands))
        return 0
    if name in ("-V", "--version"):
        print(f"srl {srl_envs.__version__}")
        return 0
    if name not in commands:
        print(
            f"srl: no command {name!r}.{nearest(name, commands)} `srl --help` lists all.",
            file=sys.stderr,
        )
        return USER_ERROR
    return _run(commands[name], rest)


def _run(entry: metadata.EntryPoint, arguments: list[str]) -> int:
    def say(text: object) -> None:
        print(f"srl {entry.name}: {text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_args, **_kwargs: say(f"warning: {message}")
        try:
            return int(foreign_code.load_installed(entry)(arguments) or 0)
        except SRLError as error:  # the user's to fix: one line per mistake, no traceback
            for fault in error.faults:
                say(fault)
            return USER_ERROR
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            extra = extra_with(missing)
            if extra is None:
                raise
            say(f"needs {missing}, which is not installed: {install_command(extra)}")
            return USER_ERROR
        except OSError as error:  # a file's, or a full disk's: these the user can mend
            unnamed = error.filename is None and error.errno not in _DISK
            if unnamed or error.filename == OUTPUT:
                raise
            say(f"{file_fault(error, 'a file')}.")
            return USER_ERROR
        except SystemExit as end:  # how option parsers stop, for --help and for mistakes
            if isinstance(end.__context__, BrokenPipeError):  # how rich answers it
                return PIPE_CLOSED
            return end.code if isinstance(end.code, int) else USER_ERROR if end.code else 0


def _help(commands: dict[str, metadata.EntryPoint]) -> str:
    width = max(map(len, commands), default=0)
    lines = [f"  {name:{width}}  {_one_line(commands[name])}" for name in sorted(commands)]
    return "\n".join(
        [
            "usage: srl COMMAND [OPTIONS]",
            "",
            "Multi-agent text games for language models: play them, train on them, rate the players.",
            "",
            *lines,
            "",
            f"{foreign_code.OPTION}, of every command: refuse recipes, rubrics, models and other files that",
            "name code from outside SRL (`srl docs strangers_files`).",
            "",
            "`srl COMMAND --help` explains one, with examples. For a first look:",
            "  srl play connect_four-v0 human middle",
        ]
    )


def _one_line(entry: metadata.EntryPoint) -> str:
    """What a command does: the first line of its module's docstring, which is not imported."""
    try:
        found = importlib.util.find_spec(entry.module)
        if found is None or found.origin is None:
            return ""
        docstring = ast.get_docstring(ast.parse(Path(found.origin).read_text(encoding="utf-8")))
    except (ImportError, OSError, SyntaxError, ValueError):
        return "(cannot be read)"
    first = (docstring or "").partition("\n")[0]
    return first.partition("`: ")[2] or first


if __name__ == "__main__":
    main()
