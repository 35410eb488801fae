"""Standard modules that the server imports once, so that no program pays for them.

What programs of the usual kind import, and what these modules import in turn. More would cost every
program: the server's memory is copied, page by page, for each of them. Less would cost those that
import the rest.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterable

COMMON = """
__future__ abc array ast bisect calendar cmath codecs collections.abc contextlib copy ctypes
dataclasses datetime decimal enum errno fractions functools gc getopt graphlib hashlib heapq io
itertools json keyword linecache math mmap numbers operator os pprint queue random re reprlib resource
select selectors signal site socket stat statistics string struct textwrap threading time timeit
token tokenize traceback types typing unicodedata warnings weakref zlib encodings.ascii
encodings.latin_1 encodings.utf_8
""".split()  # noqa: SIM905 - a word list reads better than 80 quotes

RARE = """
argparse asyncio atexit base64 bdb binascii bz2 cmd codeop colorsys concurrent.futures.thread
contextvars copyreg csv difflib dis email fcntl fileinput fnmatch getpass gettext glob gzip hmac html
html.parser importlib.util inspect ipaddress locale logging lzma marshal mimetypes
multiprocessing opcode optparse pathlib pickle pkgutil platform posixpath quopri runpy sched secrets
shlex shutil sqlite3 ssl stringprep subprocess symtable sysconfig tarfile tempfile trace tracemalloc
unittest unittest.mock urllib.parse uuid xml.etree.ElementTree zipfile zoneinfo encodings.utf_8_sig
encodings.utf_16 encodings.idna encodings.cp1252
""".split()  # noqa: SIM905 - a word list reads better than 80 quotes
"""Needed in good time only where no file can be opened later."""


def load(names: Iterable[str]) -> None:
    """Import what exists of these."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if sys.version_info >= (3, 14):
        # By default a process would be started there through a server: another program and a socket,
        # of which no run has either.
        importlib.import_module("multiprocessing").set_start_method("fork", force=True)
