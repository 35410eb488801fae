"""The workflow that the games of this room share: a coder's program, its output, then an answer.

Two seats in turn. In each round the coder, the tool seat, sends a Python program or none; it is run, and both
seats read what it printed; then the planner answers, and the answer changes the board. The game ends when the
task is solved or the rounds are used up. With one player the same seat sends programs and answers: as many
replies, of the same length, over the same texts, so a lone policy has the team's tokens.

Two rewards. ``sparse`` pays the answer's quality once the task is solved, and nothing else. ``shaped`` pays
three tenths of it for progress, round by round, as a difference of potentials, so that going back and forth
earns nothing. Source of the form: arXiv:2510.11062.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from srl_envs.core import Game, Streams, seat_name
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError
from srl_envs.families.workflow.tool import NO_PROGRAM, PRINT_CHARS, TOOL_RULE, Tool, read_tool
from srl_envs.sandbox import CodeExecutor

Board = TypeVar("Board", bound=tuple[Any, ...])

CODER, PLANNER = 0, 1
REWARDS = ("sparse", "shaped")
PROGRESS_SHARE = 0.3
"""Of the outcome, with shaped rewards."""
TASK_COLUMN = "The task:"
WRITE_CODE = "Send a program"
"""In a line of its own that begins with ``ROUND`` and the number, in a prompt that asks for one."""


@dataclass(frozen=True, slots=True)
class Work(Generic[Board]):
    """One episode."""

    task: Board
    """The task as it was drawn."""
    now: Board
    """The board after all answers so far."""
    programs: tuple[str, ...] = ()
    """One per round; "" where none was sent."""
    outputs: tuple[str, ...] = ()
    """What the team read of each program."""
    answers: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()
    """What each answer led to."""


def check_number(game: str, name: str, value: object, low: int, high: int) -> None:
    """Refuse anything but a whole number in the range.

    Raises:
        ConfigError: names the game, the option, its value and the range.
    """
    if type(value) is not int or not low <= value <= high:
        raise ConfigError(f"{game}: {name}={value!r}; give a whole number from {low} to {high}.")


class Team(Game[Work[Board], str], Generic[Board]):
    """Seat 0 sends programs, seat 1 answers; in the lone version seat 0 does both.

    Subclasses say what a board is and what an answer does to it; ``name`` and `texts` are parts of
    the prompt.

    Args:
        players: 2, or 1 for the lone version.
        rounds: programs and answers at most.
        reward: ``"sparse"`` or ``"shaped"``.
        executor: runs the programs; None takes a shared one at the first program.

    Raises:
        ConfigError: an option is impossible.
    """

    seats = 2
    mode = "cooperative"
    max_action_chars = 8192
    max_observation_chars = 12_288
    name: ClassVar[str]
    board: ClassVar[type[Any]]
    """A NamedTuple of numbers, texts and tuples."""

    def __init__(
        self, *, players: int, rounds: int, reward: str, executor: CodeExecutor | None
    ) -> None:
        check_number(self.name, "players", players, 1, 2)
        check_number(self.name, "rounds", rounds, 1, 8)
        if not isinstance(reward, str) or reward not in REWARDS:
            raise ConfigError(f"{self.name}: reward={reward!r}; give one of {', '.join(REWARDS)}.")
        self.seats, self.rounds, self.reward = players, rounds, reward
        self.max_turns = 2 * rounds
        self._tool = Tool(executor)
        self._rules = tuple(map(self._rules_of, range(players)))

    # --- what a game defines ---

    @abstractmethod
    def draw(self, draws: Draws) -> Board:
        """Any task, of either split."""

    @abstractmethod
    def key(self, task: Board) -> object:
        """What names the task, the same for all that differ in nothing that matters to it."""

    @abstractmethod
    def shown(self, task: Board, now: Board) -> str:
        """The task and where the team stands, as lines."""

    @abstractmethod
    def read(self, now: Board, body: str) -> str:
        """The canonical text of an answer.

        Raises:
            IllegalMoveError: it is none.
        """

    @abstractmethod
    def act(self, now: Board, answer: str) -> tuple[Board, str]:
        """The board after an answer, and a report of one line."""

    @abstractmethod
    def progress(self, task: Board, now: Board) -> float:
        """From 0, or less, at the start to 1 when it is solved, and only then."""

    @abstractmethod
    def quality(self, task: Board, now: Board, rounds: int) -> float:
        """Of a solution after ``rounds`` answers, in (0, 1]."""

    @abstractmethod
    def plain_answer(self, now: Board) -> str:
        """The default move."""

    @abstractmethod
    def random_answer(self, now: Board, rng: np.random.Generator) -> str:
        """A legal answer."""

    @property
    @abstractmethod
    def texts(self) -> Mapping[str, str]:
        """Parts of the prompt.

        ``goal``, ``payoff``, ``progress`` as a formula, ``kind`` of answer, and ``program`` and ``answer``,
        an example of each.
        """

    # --- the rules of the workflow ---

    def new(self, streams: Streams) -> Work[Board]:
        """Draw a task of the split."""
        task = streams.held(partial(self.draw, streams.draws("instance")), self.key)
        return Work(task, task)

    def to_move(self, state: Work[Board]) -> tuple[int, ...]:
        """The coder, then the planner, until it is solved or the rounds are used up."""
        if len(state.programs) > len(state.answers):
            return (self.seats - 1,)
        over = len(state.answers) == self.rounds or self.progress(state.task, state.now) == 1.0
        return () if over else (CODER,)

    def observe(self, state: Work[Board], seat: int) -> str:
        """Rules, task, what was tried and what it led to, and what is due."""
        lines = [self._rules[seat], f"{TASK_COLUMN}\n{self.shown(state.task, state.now)}"]
        kind = self.texts["kind"]
        for number, output in enumerate(state.outputs, 1):
            program = "no program was sent" if not output else f"the program {output}"
            lines.append(f"Round {number}: {program}.")
            if number <= len(state.reports):
                answer = state.answers[number - 1]
                lines.append(f"Round {number}: {kind} {answer}: {state.reports[number - 1]}.")
        lines.append(self._due(state, seat))
        return "\n".join(lines) + "\n"

    def parse(self, state: Work[Board], seat: int, body: str) -> str:
        """A program, "" for none; or an answer."""
        return self.read(state.now, body) if _answers(state) else read_tool(body)

    def apply(self, state: Work[Board], actions: Mapping[int, str]) -> Work[Board]:
        """Run the program, or carry out the answer.

        Raises:
            SandboxError: the sandbox failed; nothing is known of the program.
        """
        (action,) = actions.values()
        if _answers(state):
            now, report = self.act(state.now, action)
            answers, reports = (*state.answers, action), (*state.reports, report)
            return replace(state, now=now, answers=answers, reports=reports)
        output = self._tool.run(action) if action else ""
        programs, outputs = (*state.programs, action), (*state.outputs, output)
        return replace(state, programs=programs, outputs=outputs)

    def returns(self, state: Work[Board]) -> tuple[float, ...] | None:
        """The same for all seats; see the module."""
        if self.to_move(state):
            return None
        done = self.progress(state.task, state.now)
        paid = 0.0
        if done == 1.0:
            paid = self.quality(state.task, state.now, len(state.answers))
        if self.reward == "shaped":
            paid = PROGRESS_SHARE * max(0.0, done) + (1 - PROGRESS_SHARE) * paid
        return (paid,) * self.seats

    def earned(self, state: Work[Board]) -> tuple[float, ...] | None:
        """With shaped rewards, what progress has paid so far."""
        if self.reward == "sparse":
            return None
        paid = PROGRESS_SHARE * max(0.0, self.progress(state.task, state.now))
        return (paid,) * self.seats

    def fallback(self, state: Work[Board], seat: int) -> str:
        """No program; the game's default answer."""
        return self.plain_answer(state.now) if _answers(state) else NO_PROGRAM

    def sample(self, state: Work[Board], seat: int, rng: np.random.Generator) -> str:
        """No program, or one that prints a random answer; a random answer."""
        answer = self.random_answer(state.now, rng)
        if _answers(state):
            return answer
        return f'print("{answer}")' if rng.random() < 0.5 else NO_PROGRAM

    def components(self, state: Work[Board], seat: int) -> Mapping[str, float]:
        """Whether it is solved, the progress, and the rounds and programs used."""
        done = self.progress(state.task, state.now)
        return {
            "solved": float(done == 1.0),
            "progress": max(0.0, done),
            "rounds": float(len(state.answers)),
            "programs": float(sum(map(bool, state.programs))),
        }

    def encode(self, state: Work[Board]) -> Any:
        """Field name -> value; tuples become lists."""
        return {name: _listed(getattr(state, name)) for name in Work.__slots__}

    def decode(self, data: Any) -> Work[Board]:
        """The inverse of `encode`."""
        fields: dict[str, Any] = {name: _frozen(value) for name, value in data.items()}
        boards = {name: self.board(*fields[name]) for name in ("task", "now")}
        return Work(**{**fields, **boards})

    def close(self) -> None:
        """Let go of the sandbox, if one was started."""
        self._tool.close()

    def _due(self, state: Work[Board], seat: int) -> str:
        on_move = self.to_move(state)
        if not on_move:
            paid = self.returns(state)
            return f"THE END. Paid: {0.0 if paid is None else paid[0]:.3f}."
        number = f"ROUND {len(state.answers) + 1} of {self.rounds}."
        if seat not in on_move:
            return f"{number} Wait for {seat_name(on_move[0])}."
        due = f"Send {self.texts['kind']}" if _answers(state) else WRITE_CODE
        return f"{number} {due} now."

    def _rules_of(self, seat: int) -> str:
        texts = self.texts
        rounds = f"at most {self.rounds} rounds" if self.rounds > 1 else "one round"
        code = f"<action>{texts['program']}</action> or with none: <action>{NO_PROGRAM}</action>"
        answer = f"<action>{texts['answer']}</action>"
        shown = f"of what it prints, the first {PRINT_CHARS} characters are shown"
        if self.seats == 1:
            flow = (
                f"You do it in {rounds}. In each you first send a Python program, which is run: {shown}; "
                f"then you send {texts['kind']}."
            )
            replies = (
                f"Reply with a program where one is due, like this: {code}\n"
                f"Reply with {texts['kind']} where an answer is due, like this: {answer}"
            )
        else:
            flow = (
                f"Two players do it together, in {rounds}. In each, {seat_name(CODER)}, the coder, sends a "
                f"Python program, which is run: {shown} to both; then {seat_name(PLANNER)}, the planner, "
                f"sends {texts['kind']}."
            )
            form = (
                f"a program, like this: {code}"
                if seat == CODER
                else f"{texts['kind']}, like this: {answer}"
            )
            role = "coder" if seat == CODER else "planner"
            replies = f"You are {seat_name(seat)}, the {role}.\nReply with {form}"
        tool = f"{TOOL_RULE}\n" if seat == CODER else ""
        paid = texts["payoff"]
        if self.reward == "shaped":
            paid = f"{1 - PROGRESS_SHARE:.1f} * ({paid}) + {PROGRESS_SHARE} * ({texts['progress']})"
        same = "" if self.seats == 1 else "the same for both: "
        return f"{texts['goal']}\n{flow}\n{tool}Payoff: {same}{paid}.\n{replies}\n"


def _answers(state: Work[Any]) -> bool:
    """Whether an answer is due, not a program."""
    return len(state.programs) > len(state.answers)


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
