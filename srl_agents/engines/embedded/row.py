"""One reply in the making: what is asked, what was written, and where its keys and values are."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from srl_agents.engines.embedded.prefix_tree import Node
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.thinking import Thinking


@dataclass(eq=False, kw_only=True, slots=True)
class Row:
    """One reply in the making."""

    prompt: tuple[int, ...]
    version: str | None
    """Name of the weights; None is the base."""
    sampling: SamplingSettings
    uniforms: NDArray[np.float32]
    """Random numbers in [0, 1), one for each token that it may have, thoughts included."""
    ended: Callable[[list[int]], bool]
    """Whether a reply without its thoughts ends with its last token."""
    message_ends: Collection[int] = ()
    """Tokens that end it in its thoughts, too."""
    base_tokens: int = 0
    """First tokens of its prompt that the base reads for every version; 0: its version reads all."""
    session: tuple[int, ...] | None = None
    """The match and the seat that it is for; None where they are unknown."""
    turns_ahead: int | None = None
    """About how many others move before this seat asks again."""
    thinking: Thinking | None = None
    """Budget and markers of its thoughts; None where it has none."""
    asked_s: float = 0.0
    """When its caller began to wait, by the clock of the engine's loop."""
    reply: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: Literal["", "stop", "length", "broken"] = ""
    """Empty while it is live. ``broken``: the weights gave probabilities that are not numbers."""
    thought_tokens: int = 0
    """Tokens of thoughts in the reply, once they have ended."""
    forced_tokens: int = 0
    """Last tokens of the thoughts that were not drawn: the budget was used up."""
    still_forced: deque[int] = field(default_factory=deque)
    """Tokens that come next whatever is drawn."""
    cached: int = 0
    """Tokens of the prompt whose keys and values were there already."""
    tail: int = 0
    """Places of its slot in use."""
    end: Node | None = None
    """Node of the tree where its prompt ends, without the last token."""
    reads: dict[Node, None] = field(default_factory=dict)
    """Nodes that it holds: of its whole prompt while that is read, then those that it reads in place."""
    copies: list[tuple[int, Node]] = field(default_factory=list)
    """(first place, node) of those that its first pass copies into its slot."""

    @property
    def path(self) -> list[Node]:
        """The nodes of its prompt, without the last token; empty before it has entered the tree."""
        return [] if self.end is None else self.end.path()

    @property
    def last(self) -> int:
        """The token that goes through the model next."""
        return self.reply[-1] if self.reply else self.prompt[-1]

    @property
    def position(self) -> int:
        """Position of the row's last token, in prompt and reply."""
        return len(self.prompt) - 1 + len(self.reply)

    def take(self, token: int, logprob: float) -> None:
        """Add a token that was drawn, or the one that is forced in its place; it may be the last."""
        if math.isnan(logprob):
            self.finish = "broken"
            return
        if self.still_forced:
            token, logprob = self.still_forced.popleft(), 0.0
        self.reply.append(token)
        self.logprobs.append(logprob)
        if self.thinking is not None and not self.thought_tokens:
            self._think(self.thinking)
            return
        written = len(self.reply) - self.thought_tokens
        if self.ended(self.reply[self.thought_tokens :] if self.thought_tokens else self.reply):
            self.finish = "stop"
        elif written == self.sampling.max_new_tokens:
            self.finish = "length"

    def _think(self, thinking: Thinking) -> None:
        """Look whether its thoughts end with the token that was just added, or have to."""
        if self.forced_tokens:
            if not self.still_forced:
                self.thought_tokens = len(self.reply)
        elif thinking.closed(self.reply):
            self.thought_tokens = len(self.reply)
        elif self.reply[-1] in self.message_ends:
            self.thought_tokens, self.finish = len(self.reply), "stop"
        elif len(self.reply) == thinking.budget:
            self.still_forced.extend(thinking.end)
            self.forced_tokens = len(thinking.end)

    def restart(self) -> None:
        """Discard the tokens written so far, and begin the reply again."""
        self.reply.clear()
        self.logprobs.clear()
        self.reads.clear()
        self.copies.clear()
        self.still_forced.clear()
        self.thought_tokens = self.forced_tokens = 0
        self.finish, self.tail, self.cached, self.end = "", 0, 0, None
