"""Text at the end of a file, with errors that name it."""

from __future__ import annotations

from pathlib import Path


def add_lines(path: Path, text: str) -> None:
    """Append to a file; made if absent.

    Raises:
        OSError: it cannot be written; names the file, which may end with a part of the text.
    """
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:  # a full disk's names no file
        raise OSError(error.errno, error.strerror, str(path)) from None
