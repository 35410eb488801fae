"""`srl report RUN ...`: the curves of training runs as one web page."""

from __future__ import annotations

import shlex
import webbrowser
from dataclasses import dataclass

from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import ResultOptions, RunsOptions, meaning
from srl_envs.errors import ConfigError, file_fault

DESCRIPTION = """Draw the curves of a training run as one HTML file that needs nothing else.

Reward, KL, entropy, value, credit, coordination, speed and memory per learner and seat, and the
league's ratings at the end. Several runs are overlaid: runs whose recipes differ only in their seed
share a colour and get their mean. A run that still goes on is drawn as far as it is.

Examples:
  srl report runs/quickstart-tiny-seed0
  srl report runs/quickstart-tiny-seed0 runs/quickstart-tiny-seed1 --out seeds.html
  srl report runs/quickstart-tiny-seed0 --open
"""
REPORT = "report.html"


@dataclass(frozen=True, kw_only=True)
@meaning(out="Write the page to this file; report.html in the first run's folder if absent.")
class ReportOptions(RunsOptions, ResultOptions):
    """Which runs, and where to."""

    open: bool = False
    """Open the page in a browser."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl report --help`."""
    options = read_options(ReportOptions, command="srl report", description=DESCRIPTION, argv=argv)
    if not options.runs:
        raise ConfigError("no run. Give the folder of one, for example runs/quickstart-tiny-seed0.")

    from srl_agents.cli.pages.report.render import page
    from srl_agents.cli.pages.report.runs import read_run

    runs = [read_run(folder) for folder in options.runs]
    out = options.out or options.runs[0] / REPORT
    again = ["srl", "report", *map(str, options.runs), "--out", str(out)]
    try:
        out.write_text(page(runs, shlex.join(again)), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out {file_fault(error, out)}.") from None
    address = out.resolve().as_uri()
    print(f"Open {address}")
    if options.open and not webbrowser.open(address):
        print("No browser could be opened here.")
    return 0
