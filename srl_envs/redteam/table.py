"""The hackability table: one row per target, as plain values and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from srl_envs.redteam.findings import Report

COLUMNS = (
    "target", "best thoughtless policy", "company", "it earns", "strong earns", "gain",
    "babble ends at", "overlap", "grammar", "findings",
)  # fmt: skip
NOTE = (
    "A thoughtless policy repeats, copies, ranks or draws its moves without regard to the game. *Gain* is "
    "what the best one earns above the strong bot in the same seats, seeds and company, with a joint "
    "95 % interval clustered by seed. *Babble* is the best outcome of invalid replies; the "
    "worst possible is 0 where seats share one outcome, else -1. *Overlap* is the share of eval starts "
    "that occur among train starts, of those of which what one seat sees does, and of those of which a "
    "line that names the instance does; `not held out` marks games that have too few starts to keep "
    "some. *Grammar* counts ways of writing a reply that are misread."
)


READER_COLUMNS = (
    "target", "company", "program", "it earns", "strong earns", "gain", "95 % interval", "seeds", "CPU s",
)  # fmt: skip
READER_NOTE = (
    "A reader is a decision list over the numbers and words of its prompt, found by a search and then "
    "played on instances that the search never saw. *Gain* is what it earns above the strong bot with the "
    "same seeds, in the seat that the seed draws, or as a whole team (`itself`). The intervals of a target "
    "hold jointly and at every look (bets, `srl_envs.redteam.betting`)."
)


def reader_rows(report: Report) -> list[tuple[str, ...]]:
    """The cells of the best reader of each company; none where none was searched."""
    return [
        (
            report.target, str(found["company"]), str(found["policy"]), _number(found["earned"]),
            _number(found["strong"]), _number(found["gain"]),
            f"{found['low']:+.3f} to {found['high']:+.3f}", str(found["seeds"]), f"{found['cpu_s']:.0f}",
        )
        for found in report.measures.get("readers", ())
    ]  # fmt: skip


def row(report: Report) -> tuple[str, ...]:
    """The cells of one target; ``-`` where a measure does not apply or was not reached."""
    found = report.measures
    gain = "-"
    if "gain" in found:
        gain = f"{found['gain']:+.3f} ± {found['half']:.3f}"
    overlap = "-"
    if "overlap" in found:
        shares = (found["overlap"], found["overlap_seats"], found["overlap_parts"])
        overlap = " / ".join(f"{share:.0%}" for share in shares)
        overlap += "" if found["held_out"] else ", not held out"
    return (
        report.target,
        str(found.get("thoughtless", "-")),
        str(found.get("company", "-")),
        _number(found.get("earned")),
        _number(found.get("strong")),
        gain,
        _number(found.get("misbehaviour")),
        overlap,
        str(found.get("grammar", "-")),
        _kinds(report),
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


def _kinds(report: Report) -> str:
    counts = Counter(finding.kind for finding in report.findings)
    kinds = [f"{kind} x{n}" if n > 1 else kind for kind, n in counts.items()]
    return ", ".join([*kinds, *(["(a probe failed)"] if report.faults else [])]) or "none"


def markdown(reports: Sequence[Report], origin: str) -> str:
    """The table and the list of findings as a page of the documentation.

    Args:
        reports: one per target.
        origin: a sentence that names their origin.
    """
    lines = [
        "# Hackability", "", origin, "", NOTE, "",
        "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS),
    ]  # fmt: skip
    for report in reports:
        cells = map(as_cell, row(report))
        lines.append("| " + " | ".join(cells) + " |")
    readers = [cells for report in reports for cells in reader_rows(report)]
    if readers:
        lines += ["", "## Readers", "", READER_NOTE, ""]
        lines += ["| " + " | ".join(READER_COLUMNS) + " |", "|" + "---|" * len(READER_COLUMNS)]
        lines += ["| " + " | ".join(map(as_cell, cells)) + " |" for cells in readers]
    lines += ["", "## Findings", ""]
    for report in reports:
        for finding in report.findings:
            seen = " ".join(finding.observed.split()).replace("`", "'").replace("<", "&lt;")
            detail = f" ({finding.detail})" if finding.detail else ""
            due = finding.expected.replace("`", "'")
            lines.append(f"- **{finding.target}**, {finding.kind}: {seen}{detail}. Due: {due}")
    return "\n".join(lines) + "\n"


def as_cell(text: str) -> str:
    """Text for a cell of a table in Markdown."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
