"""Our games of several turns as an agent loop of veRL: one seat is trained over all its turns.

How the concepts map:

=========================  =======================================================================
veRL                       here
=========================  =======================================================================
``agent_name`` of a row    ``srl_game``: `GameLoop`, which plays the episode that the row names
``prompt_ids``             what the seat sees first, behind the system message of the row
``response_ids``           its replies, token by token as the engine wrote them, and what it saw between
``response_mask``          1 for tokens of its replies, 0 for all others
``reward_score``           all that the seat was paid: ``outcome + format``
``reward_extra_info``      ``score`` again, ``forfeited``, ``invalid_replies``, ``replies``
=========================  =======================================================================

    # srl_game.yaml, for actor_rollout_ref.rollout.agent.agent_loop_config_path
    - name: srl_game
      _target_: srl_envs.adapters.verl_loop.GameLoop
      max_reply_tokens: 256

Tokens. A conversation is only ever appended to, by veRL's own Continuous Token builder: no reply is
tokenised again, and every user turn is the whole of what the seat sees. A reply that ``max_reply_tokens``
cut counts as it is; before the game goes on it is closed by the template's end of a turn, which is not
learned.

Room. ``rollout.response_length`` holds the whole conversation behind the first prompt. A seat whose
conversation outgrows it (or ``rollout.max_model_len``) leaves the game, which forfeits by our rules; what
it would have seen next is not part of the response. A first prompt longer than ``rollout.prompt_length``
is an error: veRL would cut off its beginning.

Failures. An exception, ours or the engine's, has no row: veRL's trainer goes on without this trajectory
(the older one, ``trainer.use_v1=False``, stops). So has a request that veRL aborted: what came is a
fragment, not a reply.

Opponents. Bots play at once. Where a row names ``policy``, the policy in training plays that seat from a
conversation of its own, of which nothing is learned; the same room holds for it. Where it forfeits before
the seat that learns was asked, the row has one token, which is not learned either.

Source: ``verl/experimental/agent_loop`` and ``verl/trainer/ppo/v1/agent_loop_tq.py`` of verl 0.9.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import uuid4

from srl_envs.adapters.asked_episode import AskedEpisode
from srl_envs.adapters.named_episode import NamedEpisode
from srl_envs.errors import ConfigError, NeighbourError

try:
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
    from verl.experimental.agent_loop.tool_agent_loop import SPEC_DECODE_EXTRA_KEYS
    from verl.utils.profiler import simple_timer
    from verl.utils.rollout_trace import rollout_trace_op
except ImportError as error:
    raise ConfigError(
        f"verl 0.9 is needed, in an environment of its own: pip install verl ({error})."
    ) from None


@dataclass(slots=True)
class Talk:
    """What one seat and its game have said, as messages and as the tokens of it."""

    request: str
    """Name of the conversation, by which veRL's servers find its prefix again."""
    messages: list[dict[str, Any]]
    prompt_ids: list[int]
    """Tokens of the first prompt."""
    ids: list[int]
    """Tokens of all, the first prompt included."""
    mask: list[int] = field(default_factory=list)
    """Mask of the tokens behind the first prompt: 1 where the policy wrote the token."""
    logprobs: list[float] | None = None
    """Log-probabilities of the same tokens, 0.0 for foreign ones; None where veRL requires none."""
    cut: bool = False
    """Whether ``max_reply_tokens`` cut the last reply."""
    outputs: list[Any] = field(default_factory=list)
    """What veRL's client returned, a ``TokenOutput`` for each reply."""
    paid: list[float] = field(default_factory=list)
    """What the seat had been paid when each reply was asked for."""


class GameLoop(AgentLoopBase):
    """Plays the episode that a row of `srl_envs.adapters.verl.rows` names; veRL makes one for each attempt.

    Args:
        *args: veRL's own.
        max_reply_tokens: longest reply; None lets one reply use all the room that is left.
        **kwargs: veRL's own.

    Raises:
        ConfigError: ``max_reply_tokens`` is not above 0.
    """

    def __init__(self, *args: Any, max_reply_tokens: int | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        wrong = isinstance(max_reply_tokens, bool) or not isinstance(max_reply_tokens, int)
        if max_reply_tokens is not None and (wrong or max_reply_tokens < 1):
            raise ConfigError(
                f"max_reply_tokens={max_reply_tokens!r}: give a whole number above 0, or leave it out."
            )
        self._longest_reply = max_reply_tokens

    @rollout_trace_op  # type: ignore[untyped-decorator]
    async def run(
        self, sampling_params: dict[str, Any], priority: int = 0, **row: Any
    ) -> AgentLoopOutput:
        """Play one episode.

        Args:
            sampling_params: of every request.
            priority: of the requests; names them where ``rollout.full_determinism``.
            **row: columns of the dataset.

        Raises:
            ConfigError: the row was not written by `rows`, or its first prompt is too long.
            NeighbourError: veRL aborted a request.
        """
        named = _named(row)
        *head, first = row["raw_prompt"]
        metrics: dict[str, Any] = {}
        talks: dict[int, Talk] = {}
        requests = f"det-{priority}" if self.rollout_config.full_determinism else uuid4().hex
        env = await asyncio.to_thread(named.make)
        try:
            episode = await asyncio.to_thread(named.start, env, self_play=True)
            while episode.waiting:
                seat, text = episode.waiting
                if seat not in talks:
                    talks[seat] = await self._open(f"{requests}-{seat}", [*head, _user(text)])
                elif not await self._tell(talks[seat], text):
                    episode.leave()
                    continue
                talks[seat].paid.append(episode.paid[seat])
                with simple_timer("generate_sequences", metrics):
                    reply = await self._ask(talks[seat], sampling_params, int(priority))
                with simple_timer("tool_calls", metrics):
                    await asyncio.to_thread(episode.reply, reply)
        finally:
            env.close()
        talk = talks.get(named.seat) or await self._open(requests, [*head, first])
        return self._output(talk, episode, named.seat, metrics)

    async def _open(self, request: str, messages: list[dict[str, Any]]) -> Talk:
        """Begin a conversation with what a seat sees first."""
        builder = self.continuous_token_builder
        ids = await self.loop.run_in_executor(None, builder.build_initial_tokens, messages)
        limit = int(self.rollout_config.prompt_length)
        if len(ids) > limit:
            raise ConfigError(
                f"the first prompt has {len(ids)} tokens, and rollout.prompt_length={limit} would cut off "
                f"its beginning: raise data.max_prompt_length to {len(ids)} or more."
            )
        logprobs: list[float] | None = [] if self.rollout_config.calculate_log_probs else None
        return Talk(request, messages, ids, ids, logprobs=logprobs)

    async def _tell(self, talk: Talk, text: str) -> bool:
        """Append what the seat sees now; False, and nothing is appended, where no reply would fit behind."""
        end = await self.loop.run_in_executor(None, self._end_of_turn) if talk.cut else []
        logprobs = None if talk.logprobs is None else [*talk.logprobs, *([0.0] * len(end))]
        updated = [*talk.messages, _user(text)]
        merged, mask, logprobs = await self.ct_merge_context_msg(
            talk.messages, updated, [*talk.ids, *end], [*talk.mask, *([0] * len(end))], logprobs
        )
        if self._room(len(merged.token_ids), len(mask)) < 1:
            return False
        talk.messages, talk.ids, talk.mask, talk.logprobs = (
            updated,
            merged.token_ids,
            mask,
            logprobs,
        )
        return True

    async def _ask(self, talk: Talk, sampling_params: Mapping[str, Any], priority: int) -> str:
        """Have the policy reply; appends what it wrote and returns its text."""
        room = self._room(len(talk.ids), len(talk.mask))
        if room < 1:
            raise ConfigError(
                f"a first prompt of {len(talk.ids)} tokens leaves no room for a reply: raise "
                "rollout.max_model_len or rollout.response_length."
            )
        output = await self.server_manager.generate(
            request_id=talk.request,
            prompt_ids=talk.ids,
            sampling_params={
                **sampling_params,
                "max_tokens": min(room, self._longest_reply or room),
            },
            priority=priority,
        )
        if output.stop_reason in ("aborted", "abort"):
            raise NeighbourError("veRL aborted the request: what came is a fragment, not a reply.")
        written = list(output.token_ids)
        logprobs = None if talk.logprobs is None else list(output.log_probs or [])
        merged, talk.mask, talk.logprobs = await self.ct_merge_assistant_token(
            talk.ids, written, talk.mask, talk.logprobs, assistant_logprobs=logprobs
        )
        talk.ids = merged.token_ids
        talk.outputs.append(output)
        ended = bool(written) and written[-1] in self.tokenizer.all_special_ids
        talk.cut = len(written) == self._longest_reply and not ended
        reply = str(self.tokenizer.decode(written, skip_special_tokens=True))
        talk.messages = [*talk.messages, {"role": "assistant", "content": reply}]
        return reply

    def _room(self, whole: int, behind: int) -> int:
        """Tokens that still fit behind a conversation of ``whole``, ``behind`` of them its response."""
        room = int(self.rollout_config.response_length) - behind
        context = self.rollout_config.max_model_len
        return room if context is None else min(room, int(context) - whole)

    def _end_of_turn(self) -> list[int]:
        """The token that the template writes behind a reply; none where the next turn's start ends it."""
        render = self.continuous_token_builder.render_delta_token_id
        start = render([_user("x")], [], add_generation_prompt=True)
        whole = render([_user("x")], [{"role": "assistant", "content": "x"}])
        behind = whole[len(start) :] if whole[: len(start)] == start else whole
        return [i for i in behind if i in self.tokenizer.all_special_ids][-1:]

    def _output(
        self, talk: Talk, episode: AskedEpisode, seat: int, metrics: dict[str, Any]
    ) -> AgentLoopOutput:
        """The row, which ends with the last token that the policy wrote: veRL puts the reward there."""
        length = max((n for n, wrote in enumerate(talk.mask, start=1) if wrote), default=0)
        begin, end = len(talk.prompt_ids), len(talk.prompt_ids) + length
        ids, mask = talk.ids[begin:end], talk.mask[:length]
        logprobs = (talk.logprobs or [])[:length]
        if not length:  # a row of veRL's has a response: one that teaches nothing
            ids, mask, logprobs = [self.tokenizer.eos_token_id], [0], [0.0]
        experts = talk.outputs[-1].routed_experts if talk.outputs else None
        paid = episode.paid[seat]
        extra_info = {
            "score": paid,
            "forfeited": float(seat in episode.forfeited),
            "invalid_replies": float(episode.invalid_replies[seat]),
            "replies": float(len(talk.outputs)),
        }
        marks = [0.0, *talk.paid[1:], paid]
        return AgentLoopOutput(
            prompt_ids=talk.prompt_ids,
            response_ids=ids,
            response_mask=mask,
            response_logprobs=None if talk.logprobs is None else logprobs,
            routed_experts=experts if experts is None else experts[:end],
            multi_modal_data={},
            reward_score=paid,
            num_turns=2 * len(talk.outputs),
            metrics=metrics | _preempted(talk.outputs),
            extra_fields={
                **_fields(talk.outputs),
                "turn_scores": [after - before for before, after in pairwise(marks)],
                "tool_rewards": [],
                "reward_extra_info": extra_info,
            },
        )


def _named(row: Mapping[str, Any]) -> NamedEpisode:
    """The episode that a row names."""
    rule = row.get("reward_model")
    return NamedEpisode.of_row(rule.get("ground_truth", "") if isinstance(rule, Mapping) else "")


def _preempted(outputs: list[Any]) -> dict[str, int]:
    counts = [output.num_preempted for output in outputs if output.num_preempted is not None]
    return {"num_preempted": sum(counts)} if counts else {}


def _fields(outputs: list[Any]) -> dict[str, Any]:
    """Extra fields of the first reply, with the newest version that wrote, and counts of all replies."""
    fields = dict(outputs[0].extra_fields) if outputs else {}
    if outputs and outputs[-1].extra_fields.get("max_global_steps") is not None:
        fields["max_global_steps"] = outputs[-1].extra_fields["max_global_steps"]
    for key in SPEC_DECODE_EXTRA_KEYS:
        if key in fields:
            fields[key] = sum(int(output.extra_fields.get(key, 0)) for output in outputs)
    return fields


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}
