"""`srl serve human`: a person in the browser behind a chat API, for seats, boards and training."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from srl_agents.agents.grammar import HUMAN
from srl_agents.cli.command_line import read_options

DESCRIPTION = """Sit in a seat from the browser: a chat API whose replies you write.

Whatever meets a model behind an endpoint can meet you: matches, boards, and training, where you are an
opponent with a budget of requests. Replies are kept as those of every endpoint, so a run that is killed and
goes on asks you nothing twice. A client that gave up and asks again finds its question, or your answer to it.

Examples:
  srl serve human
  srl play connect_four-v0 strong openai:human@http://127.0.0.1:8009/v1
  srl train quickstart-tiny --set 'opponents.agents={"openai:human@http://127.0.0.1:8009/v1": 0.2}' \\
      --set 'opponents.budgets={"openai:human@http://127.0.0.1:8009/v1": {requests: 100}}'
"""


@dataclass(frozen=True)
class ServeHumanOptions:
    """Where you are reached."""

    host: str = "127.0.0.1"
    """Address that it listens on. Any client that reaches it can answer for you."""
    port: int = 8009
    """0 takes a free one."""


def main(argv: list[str]) -> int:
    """Exit code: 0 when it was ended by Ctrl-C."""
    options = read_options(
        ServeHumanOptions, command="srl serve human", description=DESCRIPTION, argv=argv
    )

    from srl_agents.cli.pages.desk.handler import desk_server
    from srl_agents.cli.pages.desk.questions import Desk

    with desk_server(Desk(), options.host, options.port) as url:
        agent = f"openai:{HUMAN}@{url}/v1"
        print(
            f"open {url} and wait for questions\n"
            f"  in a seat:    {agent}\n"
            f'  in a recipe:  opponents: {{agents: {{"{agent}": 0.2}},\n'
            f'                              budgets: {{"{agent}": {{requests: 100}}}}}}\n'
            "A question waits 10 minutes; more with deadline_s and timeout_s in the providers file.\n"
            "Ctrl-C ends it.",
            flush=True,
        )
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print("ended.")
    return 0
