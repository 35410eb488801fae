"""Questions that wait for a person, and the requests that wait for the answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from srl_envs.turns.grammar import OPEN, action

Chat = list[dict[str, str]]
LEFT_S = 120.0
"""Seconds that a question stays after its client stopped waiting, because the client may ask again."""
MOST_QUESTIONS = 64
"""That wait at once."""
RESIGNED = "I resign."
"""Reply without a move: by the game's rules a seat that makes none forfeits, or the default is played."""
_LOOK_S = 0.2
_MOST_RESIGNED = 256
"""Questions given up on that are remembered."""


class DeskFullError(Exception):
    """As many questions wait as a desk keeps."""


class PausedError(Exception):
    """The person pauses: the game that is played here ends, and who asks from elsewhere waits."""


@dataclass(eq=False, slots=True)
class Question:
    """One chat that a person replies to."""

    number: int
    chat: Chat
    asked_s: float
    gone: Callable[[], bool]
    """Whether the one who waits for the reply has gone away."""
    waited_for: bool = True
    left_s: float = 0.0
    """When the last one who waited went away."""
    until_s: float | None = None
    """When the one who waits gives up, where that is known."""
    reply: str | None = None
    about: dict[str, Any] = field(default_factory=dict)
    """What the table has beside the text: ``match``, a line; ``legal``, bodies of moves."""


@dataclass
class Desk:
    """Use it from any thread.

    A client that gives up and asks the same again finds its question, or the answer that came meanwhile. Two
    who ask the same at once have two questions.

    Args:
        clock: seconds that only grow.
    """

    clock: Callable[[], float] = time.monotonic
    answered: int = 0
    news: str = ""
    """A line for the person, such as how a game ended."""
    fetched: bool = False
    """Whether a page has fetched the news."""
    pausable: bool = False
    """Whether the one game that is played here can be saved and continued; else a pause lets all who ask
    wait."""
    paused: bool = False
    _questions: dict[int, Question] = field(default_factory=dict)
    _asked: int = 0
    _resigned: list[str] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def ask(
        self,
        chat: Chat,
        gone: Callable[[], bool],
        about: dict[str, Any] | None = None,
        *,
        within_s: float | None = None,
    ) -> str | None:
        """The person's reply; None if ``gone`` reports that the client stopped waiting.

        Args:
            chat: what the person replies to.
            gone: whether the client stopped waiting.
            about: see `Question.about`.
            within_s: after which the client gives up, where that is known.

        Raises:
            DeskFullError: too many questions wait.
            PausedError: the person pauses.
        """
        with self._changed:
            if self._given_up(chat):
                return RESIGNED
            question = self._left_behind(chat) or self._new(chat, gone)
            question.waited_for, question.gone = True, gone
            question.about = about or {}
            question.until_s = None if within_s is None else self.clock() + within_s
            while question.reply is None and not gone():
                if self.paused:
                    self._leave(question)
                    raise PausedError
                self._changed.wait(_LOOK_S)
                if question.gone is not gone:  # who asked again waits for it now
                    return None
            if gone():  # the answer stays for a client that asks again
                self._leave(question)
                return None
            del self._questions[question.number]
            return question.reply

    def waiting(self) -> list[dict[str, Any]]:
        """The questions that wait for the person, the oldest first."""
        with self._changed:
            self._forget()
            now_s = self.clock()
            return [
                {
                    "number": q.number,
                    "chat": q.chat,
                    "waits_s": round(now_s - q.asked_s),
                    "waited_for": q.waited_for or self.paused,
                    "left_s": None if q.until_s is None else max(0, round(q.until_s - now_s)),
                    **q.about,
                }
                for q in self._questions.values()
                if q.reply is None
            ]

    def answer(self, number: int, reply: str) -> bool:
        """Reply to a question; False if no client waits for it. A bare move gets its tags."""
        with self._changed:
            question = self._questions.get(number)
            if question is None or question.reply is not None:
                return False
            question.reply = reply if OPEN in reply else action(reply.strip())
            self.answered += 1
            self._go_on()
            self._changed.notify_all()
            return True

    def resign(self, number: int) -> bool:
        """Give up on a question, and on those that ask for the same turn once more; False if no client waits
        for it."""
        with self._changed:
            question = self._questions.get(number)
            if question is None or question.reply is not None:
                return False
            question.reply = RESIGNED
            self._resigned = [*self._resigned, question.chat[-1]["content"]][-_MOST_RESIGNED:]
            self.answered += 1
            self._go_on()
            self._changed.notify_all()
            return True

    def pause(self) -> None:
        """End the game here so that it can be continued, or let all who ask wait until `go_on`."""
        with self._changed:
            self.paused = True
            self._changed.notify_all()

    def go_on(self) -> None:
        """End a pause; who asked asks again within seconds. A reply ends it as well."""
        with self._changed:
            self._go_on()

    def _go_on(self) -> None:
        if self.paused and not self.pausable:
            self.paused = False
            for question in self._questions.values():
                question.left_s = self.clock()

    def _leave(self, question: Question) -> None:
        """Keep a question for a client that asks again; a game that is saved asks it anew."""
        if self.pausable:
            del self._questions[question.number]
        question.waited_for, question.left_s = False, self.clock()

    def tell(self, news: str) -> None:
        """Show a line on the page until the next one."""
        with self._changed:
            self.news, self.fetched = news, False

    def tell_news(self) -> str:
        """The line, for a page."""
        with self._changed:
            self.fetched = self.fetched or bool(self.news)
            return self.news

    def _given_up(self, chat: Chat) -> bool:
        """Whether it asks again for a turn that the person gave up on: its text, with a fault behind it."""
        text = chat[-1]["content"]
        return any(text != known and text.startswith(known) for known in self._resigned)

    def _new(self, chat: Chat, gone: Callable[[], bool]) -> Question:
        if len(self._questions) >= MOST_QUESTIONS:
            raise DeskFullError
        self._asked += 1
        question = Question(self._asked, chat, self.clock(), gone)
        self._questions[question.number] = question
        return question

    def _left_behind(self, chat: Chat) -> Question | None:
        self._forget()
        alike = (q for q in self._questions.values() if q.chat == chat)
        return next((q for q in alike if not q.waited_for or q.gone()), None)

    def _forget(self) -> None:
        """Drop questions whose clients did not come back; in a pause all stay."""
        if self.paused:
            return
        now_s = self.clock()
        old = [
            q for q in self._questions.values() if not q.waited_for and now_s - q.left_s > LEFT_S
        ]
        for question in old:
            del self._questions[question.number]
