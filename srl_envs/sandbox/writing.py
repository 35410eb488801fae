"""Which programs get a scratch directory, which costs a mount namespace for each run."""

from __future__ import annotations

import re

_WRITES = re.compile(
    r"\bopen\b(?!\s*\(\s*0\s*[,)])|temp|mkdir|makedirs|mkstemp|touch|write_text|write_bytes"
    r"|multiprocessing|sqlite3|shelve|dbm|devnull|FileIO|[zZ]ip[fF]ile|tarfile|shutil|np\.save|savetxt|savez|tofile"
    r"|filename|FileHandler|inplace|dump_stats|BZ2File|LZMAFile|symlink|mkfifo|__file__"
)


def seems_to_write(program: str) -> bool:
    """Whether a program's text mentions writing files; one that hides it finds them read-only."""
    return bool(_WRITES.search(program))
