"""Standard modules that the server imports once, so that no program pays for them.

A short list is slower: each program then imports what its own modules need.
"""

MODULES = """
__future__ abc argparse array ast asyncio atexit base64 bdb binascii bisect builtins bz2 calendar
cmath cmd codecs codeop collections.abc colorsys concurrent.futures.thread contextlib contextvars copy
copyreg csv ctypes dataclasses datetime decimal difflib dis email enum errno fcntl fileinput
fnmatch fractions functools gc getopt getpass gettext glob graphlib gzip hashlib heapq hmac html
html.parser importlib.util inspect io ipaddress itertools json keyword linecache locale logging
lzma marshal math mimetypes mmap multiprocessing numbers opcode operator optparse os pathlib
pickle pkgutil platform posixpath pprint queue quopri random re reprlib resource runpy sched
secrets select selectors shlex shutil signal site socket sqlite3 ssl stat statistics string
stringprep struct subprocess symtable sysconfig tarfile tempfile textwrap threading time timeit
token tokenize trace traceback tracemalloc types typing unicodedata unittest unittest.mock
urllib.parse uuid warnings weakref xml.etree.ElementTree zipfile zlib zoneinfo encodings.ascii
encodings.latin_1 encodings.utf_8 encodings.utf_8_sig encodings.utf_16 encodings.idna
encodings.cp1252
""".split()  # noqa: SIM905 - a word list reads better than 150 quotes
