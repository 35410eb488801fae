"""Research room: find, read and compute in documents by calls that cost, then hand in an answer or a file.

Cooperative, two seats, or one that takes both parts (`players=1`). The searcher searches and opens documents
and sends the writer what it found; the writer sees these messages, may run programs over the documents that
were opened, asks back, and hands in. The task is a question whose answer joins, counts or computes what
stands in two documents or more, or a file that has to be brought into a state. The final state is compared
exactly, by a program.

The outcome of a right final state is 1 less the prices of all calls, and 0 for a wrong one. With shaped
rewards three tenths are paid for the documents that the task takes, as they are opened.

Documents, task and names are drawn for each seed. A question is asked in one split only, and so is a country
with its documents. Moves are calls, so a model may also write them in the tool form of its chat template.

Levels: `level=1` first: three documents, one of which has the answer, and three answers are named, so one
reading in three, and one answer in three, is right without a thought. Then two documents to join (2), two to
four, or a file to mend (3), lists to collect and add up (4), and former names beside (5).

Measured over 40 seeds of train at level 3: strong teams 0.89 (each document that is needed costs a search or
less beside its reading), held out 0.88, middle 0.52, random 0.02; at level 1, 0.95, 0.95, 0.76 and 0.24.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from srl_envs.core import Game, Streams, Tool, require_action, seat_name
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.workflow.library.corpus import Document
from srl_envs.families.workflow.library.questions import LEVELS, draw_room, question_key
from srl_envs.families.workflow.library.shelf import search
from srl_envs.families.workflow.tool import TOOL_RULE
from srl_envs.families.workflow.tool import Tool as Runner
from srl_envs.messages import clean_message, quoted
from srl_envs.reading.python_text import read_python, without_fence
from srl_envs.sandbox import CodeExecutor

SEARCHER, WRITER = 0, 1
PARTS = ("searcher", "writer")
REWARDS = ("sparse", "shaped")
LEVEL, MESSAGE_CHARS = 3, 200
EVIDENCE_SHARE = 0.3
"""Of the outcome, with shaped rewards."""
PRICES = {
    "search": 2, "read": 2, "python": 3, "write": 1, "send": 1, "ask": 1, "answer": 0, "done": 0,
}  # fmt: skip
"""Hundredths of the outcome."""
UNKNOWN = "unknown"
YOUR_CALL = "Make your call now."
"""Ends the last line of a prompt that asks for one."""
MAX_FILE_LINES, MAX_LINE_CHARS = 40, 80
_QUERY_CHARS, _SHOWN_PROGRAM = 100, 60
_PRELUDE = "import json as _j, sys as _s; files = _j.load(_s.stdin); del _j, _s\n"
_FILES_RULE = TOOL_RULE.replace(
    "A program gets no input.",
    "A program has a dictionary, files, with the text of each document that was opened, by path.",
)
_CALL = re.compile(r"([A-Za-z]+)[ \t]*(?::|(?=\s|\Z))(.*)", re.DOTALL)
TOOLS = (
    Tool("search", "List the documents that fit words best.", (("words", "words to look for"),)),
    Tool("read", "Open a document or a file.", (("path", "its path, such as notes/01.txt"),)),
    Tool(
        "python",
        "Run a program; the dictionary files has the text of every document that was opened, by path.",
        (("program", "Python source; what it prints is shown"),),
    ),
    Tool("write", "Write a file anew.", (("path", "its path"), ("text", "all its lines"))),
    Tool("send", "Send the writer what you found.", (("message", "one line"),)),
    Tool("ask", "Ask the searcher for more.", (("message", "one line"),)),
    Tool("answer", "Hand in the answer and end the episode.", (("answer", "a name or number"),)),
    Tool("done", "Hand in the file as it is and end the episode.", ()),
)


@dataclass(frozen=True, slots=True)
class Call:
    """One move and what it led to."""

    part: int
    name: str
    said: str
    """What was asked for: words, path, program, lines, message or answer."""
    result: str = ""
    """What the seat reads of it, as lines."""


@dataclass(frozen=True, slots=True)
class Desk:
    """One episode."""

    documents: tuple[Document, ...]
    task: str
    answer: str
    """Or the wanted lines of the file."""
    needs: tuple[int, ...]
    """Places of the documents that the task takes."""
    target: str = ""
    """Path of the file; "" where a question is asked."""
    given: str = ""
    """Lines of the file at the start."""
    choices: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()


def opened(desk: Desk) -> list[int]:
    """Places of the documents that were opened, in order, none twice."""
    paths = [call.said for call in desk.calls if call.name == "read"]
    by_path = {document.path: place for place, document in enumerate(desk.documents)}
    return [by_path[path] for path in dict.fromkeys(paths) if path in by_path]


def file_now(desk: Desk) -> str:
    """Lines of the file of the task as it was last written."""
    return next((c.said for c in reversed(desk.calls) if c.name == "write"), desk.given)


def spent(desk: Desk) -> int:
    """Prices of all calls, in hundredths."""
    return sum(PRICES[call.name] for call in desk.calls)


def ended(desk: Desk) -> bool:
    """Whether something was handed in."""
    return bool(desk.calls) and desk.calls[-1].name in ("answer", "done")


def is_right(desk: Desk) -> bool:
    """Whether the answer is right but for case and spaces, or the file has the wanted lines."""
    if desk.target:
        return _lines(file_now(desk)) == _lines(desk.answer)
    return ended(desk) and _plain(desk.calls[-1].said) == _plain(desk.answer)


def evidence(desk: Desk) -> float:
    """Share of the documents of the task that were opened."""
    return len({*desk.needs} & {*opened(desk)}) / len(desk.needs)


class ResearchRoom(Game[Desk, Call]):
    """Seat 0 searches, seat 1 writes; in the lone version seat 0 does both. Action: a call.

    Args:
        players: 2, or 1 for the lone version.
        level: 1 to 5.
        calls: of all seats, 6 to 30; None for the level's number.
        reward: ``"sparse"`` or ``"shaped"``.
        executor: runs the programs; None takes a shared one at the first program.

    Raises:
        ConfigError: an option is impossible.
    """

    seats = 2
    mode = "cooperative"
    max_action_chars = 8192
    max_observation_chars = 24_576
    tools = TOOLS

    def __init__(
        self,
        *,
        players: int = 2,
        level: int = LEVEL,
        calls: int | None = None,
        reward: str = "sparse",
        executor: CodeExecutor | None = None,
    ) -> None:
        _check("players", players, 1, 2)
        _check("level", level, min(LEVELS), max(LEVELS))
        self.calls = LEVELS[level].calls if calls is None else calls
        _check("calls", self.calls, 6, 30)
        if not isinstance(reward, str) or reward not in REWARDS:
            raise ConfigError(
                f"research_room: reward={reward!r}; give one of {', '.join(REWARDS)}."
            )
        self.seats, self.level, self.reward = players, level, reward
        self.max_turns = self.calls
        writer = self.calls // 3
        self._most = (self.calls - writer, writer) if players == 2 else (self.calls,)
        self._runner = Runner(executor)

    def new(self, streams: Streams) -> Desk:
        """Draw documents and task."""
        draws = streams.draws("instance")
        room = streams.held(lambda: draw_room(draws, self.level, streams.split), question_key)
        task = room.task
        return Desk(
            room.documents, task.text, task.answer, room.needs, task.target, task.given, task.choices
        )  # fmt: skip

    # --- whose turn ---

    def left(self, state: Desk) -> list[int]:
        """Calls that each part has left."""
        if self.seats == 1:
            return [self.calls - len(state.calls)]
        return [most - sum(c.part == p for c in state.calls) for p, most in enumerate(self._most)]

    def to_move(self, state: Desk) -> tuple[int, ...]:
        """The searcher until it sends, the writer until it asks; a seat without calls is passed over."""
        left = self.left(state)
        if ended(state) or not left[-1]:
            return ()
        if self.seats == 1:
            return (0,)
        talk = [call.name for call in state.calls if call.name in ("send", "ask")]
        searching = not talk or talk[-1] == "ask"
        return (SEARCHER,) if searching and left[SEARCHER] else (WRITER,)

    def names(self, state: Desk, seat: int) -> list[str]:
        """Kinds of call that a seat may make now."""
        find = ["search", "read"] if self.level > 1 else ["read"]
        work = [
            *(["python"] if self.level > 1 else []),
            *(["write", "done"] if state.target else ["answer"]),
        ]
        if self.seats == 1:
            return find + work
        if seat == SEARCHER:
            return [*find, "send"]
        return [*(["ask"] if self.left(state)[SEARCHER] else []), *work]

    # --- what is seen ---

    def observe(self, state: Desk, seat: int) -> str:
        """Rules and task, the seat's own calls with their results, messages, and what is due."""
        lines = [self._rules(state, seat), "", f"The task: {state.task}"]
        if self.seats == 2 and seat == WRITER:
            paths = [state.documents[place].path for place in opened(state)]
            if state.target in [call.said for call in state.calls if call.name == "read"]:
                paths.append(state.target)
            lines.append(f"{seat_name(SEARCHER)} has opened: {', '.join(paths) or 'nothing'}.")
        for number, call in enumerate(state.calls, 1):
            if call.part == seat or self.seats == 1 or call.name in ("send", "ask"):
                lines.append(_shown(number, call, mine=call.part == seat))
        return "\n".join([*lines, self._due(state, seat)]) + "\n"

    def _rules(self, state: Desk, seat: int) -> str:
        first, last = state.documents[0].path, state.documents[-1].path
        room = f"RESEARCH ROOM. There are {len(state.documents)} documents, {first} to {last}, and a task."
        if self.seats == 1:
            who = f"You make at most {self.calls} calls, one a turn, and hand in."
        else:
            who = (
                f"Two players do it together. {seat_name(SEARCHER)}, the searcher, opens documents and "
                f"sends {seat_name(WRITER)}, the writer, what it found; the writer sees no document, and "
                f"hands in. They make at most {self._most[SEARCHER]} and {self._most[WRITER]} calls, one a "
                "turn; a seat goes on until it sends a message or has no call left."
            )
        names = self.names(replace(state, calls=()), seat)
        forms = [
            f"{_MEANING[name]} ({PRICES[name] / 100:g}): {self._example(state, name)}"
            for name in names
        ]
        due = "\n".join(forms)
        tool = f"{_FILES_RULE}\n"
        paid = "1 - prices of all calls if what is handed in is exactly right, else 0"
        if self.reward == "shaped":
            paid = (
                f"{EVIDENCE_SHARE} * (share of the documents needed that were opened) + "
                f"{1 - EVIDENCE_SHARE:.1f} * (1 if what is handed in is exactly right) - prices of all "
                "calls, at least 0"
            )
        same = "" if self.seats == 1 else "the same for both: "
        you = "" if self.seats == 1 else f"You are {seat_name(seat)}, the {PARTS[seat]}.\n"
        return (
            f"{room} {who}\n{tool if 'python' in names else ''}Payoff: {same}{paid}.\n"
            f"{you}Reply with one of these calls (with its price), or with a tool call of the same name:\n"
            f"{due}"
        )

    def _example(self, state: Desk, name: str) -> str:
        said = {
            "search": "river toll", "read": state.documents[0].path, "python": "print(sorted(files))",
            "write": f"{state.target} | Tarn: 4 | Usk: 7", "send": "Tarn has a toll of 4.",
            "ask": "When was Ada born?", "answer": state.choices[0] if state.choices else "42", "done": "",
        }[name]  # fmt: skip
        return f"<action>{_body(name, said)}</action>"

    def _due(self, state: Desk, seat: int) -> str:
        on_move = self.to_move(state)
        if not on_move:
            paid = self.returns(state)
            verdict = "right" if is_right(state) else "wrong"
            what = "file" if state.target else "answer"
            return (
                f"THE END. The {what} is {verdict}. Paid: {0.0 if paid is None else paid[0]:.2f}."
            )
        left = self.left(state)
        if self.seats == 1:
            head = f"CALLS LEFT: {left[0]}."
        else:
            shares = [f"{seat_name(other)} {count}" for other, count in enumerate(left)]
            head = f"CALLS LEFT: {', '.join(shares)}."
        return f"{head} {YOUR_CALL if seat in on_move else f'Wait for {seat_name(on_move[0])}.'}"

    # --- moves ---

    def parse(self, state: Desk, seat: int, body: str) -> Call:
        """A call without its result."""
        names = self.names(state, seat)
        found = _CALL.fullmatch(body.strip())
        name = found[1].lower() if found else ""
        require_action(
            name in names,
            f"begin with one of {', '.join(f'{known}:' for known in names)}",
        )
        said = found[2].strip() if found else ""
        return Call(seat, name, _READERS[name](state, said))

    def apply(self, state: Desk, actions: Mapping[int, Call]) -> Desk:
        """Note the call with its result.

        Raises:
            SandboxError: the sandbox failed; nothing is known of the program.
        """
        (call,) = actions.values()
        return replace(state, calls=(*state.calls, replace(call, result=self._result(state, call))))

    def _result(self, state: Desk, call: Call) -> str:
        if call.name == "search":
            hits = [state.documents[place] for place in search(state.documents, call.said)]
            return "\n".join(f"{hit.path}: {hit.title}" for hit in hits) or "no document fits"
        if call.name == "read":
            if call.said == state.target:
                return file_now(state) or "the file is empty"
            document = next(d for d in state.documents if d.path == call.said)
            return f"{document.title}\n{document.text}"
        if call.name == "python":
            files = {
                state.documents[place].path: state.documents[place].text for place in opened(state)
            }
            if state.target:
                files[state.target] = file_now(state)
            return self._runner.run(_PRELUDE + call.said, json.dumps(files))
        return ""

    # --- what is paid ---

    def returns(self, state: Desk) -> tuple[float, ...] | None:
        """The same for all; see the module."""
        return None if self.to_move(state) else (self._worth(state),) * self.seats

    def earned(self, state: Desk) -> tuple[float, ...] | None:
        """With shaped rewards, what the documents opened so far are worth, less the prices."""
        return (self._worth(state),) * self.seats if self.reward == "shaped" else None

    def _worth(self, state: Desk) -> float:
        right, price = is_right(state), spent(state) / 100
        if self.reward == "shaped":
            worth = EVIDENCE_SHARE * evidence(state) + (1 - EVIDENCE_SHARE) * right - price
        else:
            worth = 1 - price if right else 0.0
        return round(max(0.0, worth), 6)

    def legal(self, state: Desk, seat: int) -> Sequence[str] | None:
        """What one seat may open and answer at the first level; other calls are too many to list."""
        if not state.choices or self.seats > 1:
            return None
        reads = [f"read: {document.path}" for document in state.documents]
        return [*reads, *(f"answer: {choice}" for choice in (*state.choices, UNKNOWN))]

    def fallback(self, state: Desk, seat: int) -> str:
        """Nothing found; nothing to hand in."""
        names = self.names(state, seat)
        if "send" in names:
            return "send: nothing"
        return "done:" if "done" in names else f"answer: {UNKNOWN}"

    def sample(self, state: Desk, seat: int, rng: np.random.Generator) -> str:
        """Any call."""
        listed = self.legal(state, seat)
        if listed:
            return listed[int(rng.integers(len(listed)))]
        names = self.names(state, seat)
        name = names[int(rng.integers(len(names)))]
        document = state.documents[int(rng.integers(len(state.documents)))]
        word = _SAMPLED[int(rng.integers(len(_SAMPLED)))]
        said = {
            "search": word, "read": document.path, "python": "print(len(files))",
            "write": f"{state.target}\n{word}: {rng.integers(2, 10)}", "send": f"{word} in {document.path}",
            "ask": f"what of {word}?", "answer": str(rng.integers(1, 100)), "done": "",
        }[name]  # fmt: skip
        if name == "answer" and state.choices:
            said = state.choices[int(rng.integers(len(state.choices)))]
        return _body(name, said)

    def components(self, state: Desk, seat: int) -> Mapping[str, float]:
        """Whether it is right, the share of needed documents opened, calls, and their prices."""
        return {
            "right": float(is_right(state)),
            "evidence": evidence(state),
            "calls": float(len(state.calls)),
            "spent": spent(state) / 100,
        }

    def swap_hidden(self, state: Desk, seat: int, other: Desk) -> Desk:
        """Documents that the seat has not opened, what the other part did, and the answer."""
        if not self.to_move(state):
            return state
        seen = {*opened(state)} if self.seats == 1 or seat == SEARCHER else set()
        documents = tuple(
            document if place in seen else document._replace(title=new.title, text=new.text)
            for place, document in enumerate(state.documents)
            for new in (other.documents[place % len(other.documents)],)
        )
        calls = tuple(
            call
            if call.part == seat or self.seats == 1 or call.name in ("send", "ask")
            else replace(call, result="", said=call.said if call.name == "read" else "")
            for call in state.calls
        )
        return replace(
            state, documents=documents, answer=other.answer, given=other.given,
            calls=calls,
            needs=tuple(place % len(documents) for place in other.needs),
        )  # fmt: skip

    def encode(self, state: Desk) -> Any:
        """Field name -> value; tuples become lists."""
        data: dict[str, Any] = {name: getattr(state, name) for name in Desk.__slots__}
        calls = [[call.part, call.name, call.said, call.result] for call in state.calls]
        return {
            **data,
            "documents": [*map(list, state.documents)],
            "needs": [*state.needs],
            "choices": [*state.choices],
            "calls": calls,
        }

    def decode(self, data: Any) -> Desk:
        """The inverse of `encode`."""
        fields = dict(data)
        fields["documents"] = tuple(Document(*each) for each in data["documents"])
        fields["calls"] = tuple(Call(*each) for each in data["calls"])
        return Desk(**{**fields, "needs": tuple(data["needs"]), "choices": tuple(data["choices"])})

    def close(self) -> None:
        """Let go of the sandbox, if one was started."""
        self._runner.close()


_MEANING = {
    "search": "List the documents that fit words best, with their titles",
    "read": "Open a document",
    "python": "Run a Python program and read what it prints",
    "write": "Write the file anew, with | between its lines",
    "send": f"Pass the turn with a message of at most {MESSAGE_CHARS} characters",
    "ask": f"Pass the turn back with a message of at most {MESSAGE_CHARS} characters",
    "answer": "Hand in the answer, a name or a number",
    "done": "Hand in the file as it is",
}
_SAMPLED = ("river", "toll", "warden", "born", "carts", "Tarn", "Ada", "1650")


def _check(name: str, value: object, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise ConfigError(
            f"research_room: {name}={value!r}; give a whole number from {low} to {high}."
        )


def _body(name: str, said: str) -> str:
    return f"{name}: {said}".strip()


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.split("\n") if line.strip()]


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _read_query(_state: Desk, said: str) -> str:
    words = clean_message(said, _QUERY_CHARS).strip("\"'")
    require_action(bool(words), "give words to look for, for example search: river toll")
    return words


def _read_path(state: Desk, said: str) -> str:
    known = [document.path for document in state.documents]
    path = said.strip("\"'` ")
    if state.target and path == state.target:
        return path
    require_action(path in known, f"there is no such document; they are {known[0]} to {known[-1]}")
    return path


def _read_program(_state: Desk, said: str) -> str:
    program, tree = read_python(said)
    require_action(bool(tree.body), "the program is empty")
    return program


def _read_file(state: Desk, said: str) -> str:
    path, rest = re.fullmatch(r"(\S*)(.*)", said, re.DOTALL).groups()  # type: ignore[union-attr]
    require_action(path == state.target, f"the file of this task is {state.target}")
    lines = without_fence(rest.strip()).replace("|", "\n").split("\n")
    require_action(
        len(lines) <= MAX_FILE_LINES and all(len(line) <= MAX_LINE_CHARS for line in lines),
        f"a file has at most {MAX_FILE_LINES} lines of {MAX_LINE_CHARS} characters",
    )
    return "\n".join(filter(None, (clean_message(line, MAX_LINE_CHARS) for line in lines)))


def _read_message(_state: Desk, said: str) -> str:
    message = clean_message(said, MESSAGE_CHARS)
    require_action(bool(message), "the message is empty")
    return message


def _read_answer(state: Desk, said: str) -> str:
    answer = clean_message(said, MAX_LINE_CHARS).strip("\"'").rstrip(".")
    require_action(bool(answer), "the answer is empty; write a name or number behind answer:")
    if state.choices:
        wanted = {choice.casefold(): choice for choice in (*state.choices, UNKNOWN)}
        require_action(answer.casefold() in wanted, f"answer one of {', '.join(state.choices)}")
        return wanted[answer.casefold()]
    return answer


def _read_nothing(_state: Desk, said: str) -> str:
    if said.strip(" ."):
        raise IllegalMoveError("nothing may stand behind done:")
    return ""


_READERS: Mapping[str, Callable[[Desk, str], str]] = {
    "search": _read_query,
    "read": _read_path,
    "python": _read_program,
    "write": _read_file,
    "send": _read_message,
    "ask": _read_message,
    "answer": _read_answer,
    "done": _read_nothing,
}


def _shown(number: int, call: Call, *, mine: bool) -> str:
    """One call as its seat, or the reader of a message, sees it."""
    if call.name in ("send", "ask"):
        verb = ("you sent" if call.name == "send" else "you asked") if mine else (
            f"{seat_name(call.part)} sends" if call.name == "send" else f"{seat_name(call.part)} asks"
        )  # fmt: skip
        return f"Call {number}, {verb}: {quoted(call.said)}"
    said = call.said
    if call.name == "python":
        said = clean_message(call.said, _SHOWN_PROGRAM)
    if call.name == "write":
        said = call.said.replace("\n", " | ")
    lines = [f"| {line}" for line in call.result.split("\n")] if call.result else []
    return "\n".join([f"Call {number}, {call.name}: {said}", *lines])
