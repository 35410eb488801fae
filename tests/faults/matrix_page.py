"""`python -m tests.faults.matrix_page`: the fault matrix as a page, from what its cells came to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.faults.matrix import RESULTS
from tests.faults.matrix_cells import CELLS, FAULTS, RESET, Cell

PAGE = Path(__file__).parents[2] / "docs/reference/fault_matrix.md"
COMMAND = "python -m tests.faults.matrix_page"


def page() -> str:
    """In Markdown."""
    done: dict[str, Any] = json.loads(RESULTS.read_text())
    right = sum(not ended["wrong"] for ended in done.values())
    lines = [
        "# The fault matrix",
        "",
        f"Written by `{COMMAND}`; do not edit. Each of the {len(CELLS)} cells is a run of two",
        "updates of which one role is struck in the second: killed (`kill -9`), hung (it never goes on), or",
        "slowed (it stands still for a second). A server may also reset the connection after half of a",
        "reply. The engine is part of the trainer's process: killed, it reports its death. The endpoint is a",
        "server of our own in a process of its own, which speaks the chat API; it stays away or still until",
        "the attempt is over. Where the run ends by that, the same command is given again.",
        "In the end the run's records, matches and weights must equal those of the run that nothing struck,",
        f"bit for bit, and no attempt may hang. Of {len(done)} that were played {right} end so.",
        "",
        "    python -m tests.faults.matrix --work /tmp/cells        # plays what is missing in the results",
        "",
        "Exit codes: 0 done, 2 one line for the user, 3 stopped by a deadline, -9 killed.",
        "",
        "| role | in the phase | killed | hung | slowed | reset |",
        "|---|---|---|---|---|---|",
    ]
    cells = {cell.name: cell for cell in CELLS}
    for role, phase in dict.fromkeys((cell.role, cell.phase) for cell in CELLS):
        names = [f"{role}/{phase}/{fault}" for fault in (*FAULTS, RESET)]
        row = [_told(cells[name], done) if name in cells else "" for name in names]
        lines.append(f"| {role} | {phase} | {' | '.join(row)} |")
    lines += [
        "",
        "Weights on their way between processes are tried by the transport kit: a publisher and a reader",
        "are killed at many moments, and readers get right tensors or an error, soon.",
        "",
        "What needs another environment is struck by tests, and has no cell here:",
        "",
        "- nodes, workers, the trainer and the dispatcher of a Ray cluster, in play and in a transfer",
        "  ([design](../design/scaling.md#on-a-ray-cluster)): `make ray`",
        "- a vLLM server that is killed with requests in flight, in the middle of a run, too:",
        "  `SRL_VLLM_PYTHON=PATH python -m pytest -m vllm tests/vllm`",
        "",
        "A vLLM server that hangs, is slow or resets connections within a run has not been tried.",
        "",
        "`make docs` writes what a run meets inside one process to `faults.md`.",
    ]
    return "\n".join(lines) + "\n"


def _told(cell: Cell, done: dict[str, Any]) -> str:
    """What came of a cell, in a few words."""
    ended = done.get(cell.name)
    if ended is None:
        return "not played"
    if ended["wrong"]:
        return f"**wrong**: {ended['wrong']}"
    faults = ", ".join(f"`{name}`" for name in dict.fromkeys(ended["faults"]))
    codes = ", then ".join(map(str, ended["codes"]))
    return f"{codes}; equal" + (f" ({faults})" if faults else "")


if __name__ == "__main__":
    PAGE.write_text(page())
