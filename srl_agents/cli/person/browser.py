"""`srl serve human`: a person in the browser behind a chat API, for seats, boards and training."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from srl_agents.agents.grammar import HUMAN
from srl_agents.cli.command_line import read_options
from srl_agents.cli.person.keyboard import PauseGameError
from srl_agents.closing_server import AddressOptions

if TYPE_CHECKING:
    from srl_agents.cli.pages.desk.questions import Desk

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


PORT = 8009
"""Where no port is named."""
_LAST_LOOK_S = 5.0
"""How long a page has to fetch the result of the last game."""


class InTheBrowser:
    """One seat of one game whose replies a person clicks or writes at a desk.

    Args:
        desk: where the person sits.
        match: game, seat and opponents in a line.
    """

    def __init__(self, desk: Desk, match: str) -> None:
        self._desk, self._match, self._resigned = desk, match, False
        self.legal: Sequence[str] | None = None
        """Bodies of the legal moves of this turn, where the game lists them."""

    def __call__(self, text: str) -> str:
        """The person's reply; one who has resigned is asked no more.

        Raises:
            PauseGameError: the person pauses.
        """
        from srl_agents.cli.pages.desk.questions import RESIGNED, PausedError

        if self._resigned:
            return RESIGNED
        about = {"match": self._match, **({"legal": [*self.legal]} if self.legal else {})}
        chat = [{"role": "user", "content": text}]
        try:
            reply = self._desk.ask(chat, lambda: False, about) or ""
        except PausedError:
            raise PauseGameError("paused.") from None
        self._resigned = reply == RESIGNED
        return reply


@contextmanager
def table_in_the_browser() -> Iterator[tuple[Desk, str]]:
    """A desk on this machine and its address; at the end a page may still fetch the last result."""
    from srl_agents.cli.pages.desk.handler import desk_server
    from srl_agents.cli.pages.desk.questions import Desk

    desk = Desk(pausable=True)
    with desk_server(desk, "127.0.0.1", 0) as url:
        yield desk, url
        end_s = time.monotonic() + _LAST_LOOK_S
        while desk.news and not desk.fetched and time.monotonic() < end_s:
            time.sleep(0.05)


@dataclass(frozen=True)
class ServeHumanOptions(AddressOptions):
    """Address of the page that you answer on."""


def main(argv: list[str]) -> int:
    """Exit code: 0 when it was ended by Ctrl-C."""
    options = read_options(
        ServeHumanOptions, command="srl serve human", description=DESCRIPTION, argv=argv
    )

    from srl_agents.cli.pages.desk.handler import desk_server
    from srl_agents.cli.pages.desk.questions import Desk

    with desk_server(Desk(), options.host, PORT if options.port is None else options.port) as url:
        agent = f"openai:{HUMAN}@{url}/v1"
        print(
            f"open {url} and wait for questions\n"
            f"  in a seat:    {agent}\n"
            f'  in a recipe:  opponents: {{agents: {{"{agent}": 0.2}},\n'
            f'                              budgets: {{"{agent}": {{requests: 100}}}}}}\n'
            "A question waits 10 minutes; more with deadline_s and timeout_s in the providers file, or\n"
            "while you pause.\n"
            "Ctrl-C ends it.",
            flush=True,
        )
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print("ended.")
    return 0
