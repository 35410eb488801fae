"""The planner's input: plain values of a run, built from a recipe by `srl_agents.recipes`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from srl_agents.memory.architecture import Architecture, Targets
from srl_envs.errors import ConfigError

BaseType = Literal["float32", "bfloat16", "nf4"]
Critic = Literal["", "detached", "shared", "base", "adapter"]
Head = Literal["trl", "chunked", "logits"]
Attention = Literal["sdpa", "eager", "flash"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """Rows and tokens that one learner reads and writes in one update."""

    rows: int
    """Replies that it learns from."""
    prompt_tokens: int
    """Tokens of the longest prompt."""
    reply_tokens: int
    """Tokens of the longest reply."""
    mean_prompt_tokens: float
    mean_reply_tokens: float
    own_prompt_tokens: int = 0
    """By how much prompts differ: where rows share what they begin with, each has so many of its own."""
    mean_new_tokens: float | None = None
    """Of a prompt, those that no other prompt of the update begins with; None: every prompt is new."""
    source: str
    """Where the lengths come from."""

    def __post_init__(self) -> None:
        for name in ("rows", "prompt_tokens", "reply_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)}: use 1 or more.")

    @property
    def width(self) -> int:
        """Tokens of the longest row."""
        return self.prompt_tokens + self.reply_tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """One run on one device."""

    name: str
    model: Architecture
    traffic: Traffic
    base_type: BaseType = "float32"
    """Number type of the frozen weights."""
    islands: tuple[str, ...] = ()
    """Parts of them that are float32 all the same: ``norms``, ``head``, ``routers``."""
    parameters: Literal["lora", "full"] = "lora"
    rank: int = 8
    targets: Targets = "all-linear"
    learners: int = 2
    frozen_versions: int = 0
    """Most adapters in memory that only play, or copies of whole weights."""
    algorithm: str = "grpo"
    optimizer: str = "adamw_torch"
    critic: Critic = ""
    reference: Literal["", "base", "adapter"] = ""
    """What a divergence is measured from; empty: from nothing, and no pass is made."""
    reward_model: bool = False
    """An adapter and a head on the base judge replies."""
    judge: Architecture | None = None
    """The reward model's own base, in memory only while replies are judged and while it learns."""
    judge_type: BaseType = "bfloat16"
    judge_rank: int = 8
    iterations: int = 1
    """Passes over a batch."""
    micro_batch_rows: int = 16
    shared_by: int = 1
    """Rows that begin with one prompt, which is then read once; 1: every row reads its own."""
    sharing: str = ""
    """Whether rows share what they begin with, and why, for the reader; empty: the algorithm has pairs."""
    checkpointing: bool = False
    checkpointing_by_plan: bool = False
    """On where the run does not fit without it."""
    autocast: bool = False
    head: Head = "trl"
    """How tokens are scored: over tiles of the vocabulary, or with full logits."""
    attention: Attention = "sdpa"
    synchronized: bool = False
    """All learners step along one mean gradient."""
    written_replies: float | None = None
    """In one update, of learners and of the models that they meet; None: only the learners'."""
    reserved_share: float = 0.0
    """Of the device, that a server of replies takes for itself, weights included."""
    batch_rows: int = 64
    """Replies that are written at once."""
    group_size: int = 1
    """Attempts at one start, which one version writes."""
    live_bytes: float | None = None
    """Most keys and values of replies that are being written; None: as many as they need."""
    cache_bytes: float | None = None
    """Most keys and values that are kept for later prompts; None: the engine's share of free memory."""
    eight_bits: bool = False
    """Whether they are kept in 8 bits while no reply reads them."""
    step_tokens: int = 4096
    """Most prompt tokens of one pass of the embedded engine."""
    host_cache_bytes: float = 0.0
    """Most of them that stay in host memory beyond that, where the host is the device."""
    keeps_cache: bool = False
    """Whether they stay while learners train, as in order ``free``; else they last as long as the replies of
    one call."""
    concurrency: int = 128
    """Matches that are live at once, and most prompts of one call."""
    pairs: bool = False
    """Rows are trained on in pairs, as in DPO."""
    base: str = ""
    """Name of the base in recipes with several."""
    others: tuple[Description, ...] = ()
    """The other bases of the run, each without others."""
    takes_turns: bool = False
    """The other bases leave memory while one of them learns."""
    mixes: bool = False
    """Rows of all learners share passes."""
    placement: str = ""
    """Where versions are sampled, and why; for the reader."""
    engine_base: bool = False
    """The engine has a copy of the base of its own on this device."""
    engine_process: bool = False
    """Replies are written by a process of its own beside the one that trains."""
    plays_ahead: bool = False
    """That process writes while learners learn, so its keys, values and passes stand in every phase."""
    processes: int = 1
    """Processes that divide the layers of the base and the rows of an update (`memory.sharded`), each with a
    device of its own; the plan is that of one of them."""
    plays_whole: bool = True
    """The layers that processes divide are whole in each of them while it plays."""

    def __post_init__(self) -> None:
        for name in (
            "learners",
            "rank",
            "micro_batch_rows",
            "batch_rows",
            "iterations",
            "processes",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)}: use 1 or more.")
        if self.parameters == "full" and self.base_type != "float32":
            raise ConfigError(f"base_type={self.base_type!r}: whole weights learn in float32.")
        if self.processes > 1 and (self.parameters == "full" or self.base_type == "nf4"):
            raise ConfigError(
                f"processes={self.processes}: only a frozen base in float32 or bfloat16 can be divided."
            )

    @property
    def bases(self) -> tuple[Description, ...]:
        """Descriptions of all bases."""
        return (self, *self.others)

    @property
    def replies(self) -> float:
        """Written in one update."""
        own = float(self.learners * self.traffic.rows)
        return own if self.written_replies is None else self.written_replies

    @property
    def own_replies(self) -> float:
        """Replies among them that one process writes."""
        return self.replies / self.processes

    @property
    def replies_at_once(self) -> float:
        """Replies that the embedded engine writes at once."""
        return min(self.batch_rows, max(1.0, self.own_replies))

    @property
    def versions_at_once(self) -> int:
        """Versions that write them: one to a group, of learners and of those that only play."""
        groups = math.ceil(self.replies_at_once / self.group_size)
        return min(self.learners + self.frozen_versions, max(self.learners, groups))

    @property
    def own_rows(self) -> int:
        """Rows of one learner that one process learns from."""
        return math.ceil(self.traffic.rows / self.processes)

    @property
    def pass_rows(self) -> int:
        """Rows among which passes are divided: one learner's, or those of all."""
        return self.own_rows * (self.learners if self.mixes else 1)

    @property
    def micro_rows(self) -> int:
        """Rows in one pass; a batch may be smaller, and a pair is two."""
        rows = min(self.micro_batch_rows, self.pass_rows)
        return max(2, rows - rows % 2) if self.pairs else rows

    @property
    def pass_tokens(self) -> int:
        """Tokens of one pass of training over the longest rows."""
        rows, traffic = self.micro_rows, self.traffic
        if self.shared_by == 1:
            return rows * traffic.width
        prompts = -(-rows // self.shared_by)
        return prompts * traffic.prompt_tokens + rows * (
            traffic.own_prompt_tokens + traffic.reply_tokens
        )
