"""Rows of our own in the formats of public collections, and files that hold them."""

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Rows = Iterable[Mapping[str, Any]]


def humaneval_rows(count: int = 10) -> list[dict[str, Any]]:
    """Functions that scale a list by a helper's factor."""
    return [
        {
            "task_id": f"Ours/{k}",
            "entry_point": f"scale_{k}",
            "prompt": (
                f"from typing import List\n\n\ndef factor_{k}(x: int) -> int:\n"
                f'    """Return {k} times x."""\n    return {k} * x\n\n\n'
                f"def scale_{k}(numbers: List[int], shift: int = 0) -> List[int]:\n"
                f'    """Return every number times {k}, plus the shift.\n'
                f'    >>> scale_{k}([1])\n    [{k}]\n    """\n'
            ),
            "canonical_solution": f"    return [factor_{k}(n) + shift for n in numbers]\n",
            "test": (
                "METADATA = {'author': 'us'}\n\n\ndef check(candidate):\n"
                "    empty = []\n"
                "    assert True, 'nothing is tested here'\n"
                "    assert candidate(empty) == []\n"
                f"    assert candidate([1, 2]) == [{k}, {2 * k}], 'two'\n"
                f"    for n in range(5):\n        assert candidate([n], n) == [factor_{k}(n) + n]\n"
            ),
        }
        for k in range(2, 2 + count)
    ]


def mbpp_rows(count: int = 10) -> list[dict[str, Any]]:
    """Functions that repeat a text, as first published."""
    return [
        {
            "task_id": k,
            "text": f"Write a function to repeat a text {k} times.",
            "code": f"import math\r\ndef repeat_{k}(text):\r\n  return text * math.floor({k}.5)",
            "test_setup_code": "",
            "test_list": [
                f'assert repeat_{k}("a") == "{"a" * k}"',
                f'assert repeat_{k}("") == ""',
                f'assert repeat_{k}("xy") == "{"xy" * k}"',
            ],
            "challenge_test_list": [],
        }
        for k in range(1, 1 + count)
    ]


def gsm8k_rows(count: int = 40) -> list[dict[str, Any]]:
    """Sums of money."""
    return [
        {
            "question": f"Mia has {1000 * k} coins\nand finds {k} more. How many coins has she now?",
            "answer": f"{1000 * k}+{k}=<<{1000 * k}+{k}={1001 * k}>>{1001 * k}\n#### {1001 * k:,}",
        }
        for k in range(1, 1 + count)
    ]


ROWS = {"humaneval": humaneval_rows, "mbpp": mbpp_rows, "gsm8k": gsm8k_rows}


def write(path: Path, rows: Rows) -> Path:
    """As JSONL, gzipped if the name ends in .gz."""
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path
