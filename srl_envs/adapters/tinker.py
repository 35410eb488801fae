"""One seat of our environments for the training loops of tinker-cookbook.

How the concepts map:

=====================  ===========================================================================
tinker-cookbook        here
=====================  ===========================================================================
``Env``                one episode of one seat, `TinkerGame`; the other seats are bots or callables
``EnvGroupBuilder``    attempts at one start state, `GameGroup`: all meet the same deal
``RLDataset``          groups by seed, `GameDataset`
observation            the conversation so far, rendered: what the seat saw, and its replies
action                 the reply's tokens, read by the renderer; one that the limit cut counts as it is
``reward``             ``outcome + format``, as far as the step paid
``metrics``            the environment's statistics, ``forfeited``, ``invalid``
=====================  ===========================================================================

Limits. A conversation that outgrows ``max_prompt_tokens`` leaves the game, which forfeits by our rules. A
failure of SRL is an exception, which the rollout strategy of the loop answers. The policy in training sits
in one seat.

Source: tinker-cookbook 0.6 (``rl.types``, ``rl.rollouts``, ``renderers``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from srl_envs.adapters.deal_seeds import deal_seeds
from srl_envs.api.making import make
from srl_envs.core import Split
from srl_envs.distribution import install_command
from srl_envs.errors import ConfigError
from srl_envs.registry import Policy
from srl_envs.views.single import GameSingle

try:
    import tinker
    from tinker_cookbook.renderers import Renderer, get_text_content
    from tinker_cookbook.rl import types
except ImportError as error:
    raise ConfigError(
        f"tinker-cookbook 0.6 or newer is needed: {install_command('tinker')} ({error})."
    ) from None


class TinkerGame(types.Env):
    """One seat for one episode.

    Args:
        view: the seat; closed at the end of the episode.
        renderer: makes tokens of the conversation, and text of replies.
        seed: of the episode.
        split: of its task.
        max_prompt_tokens: longest prompt; a longer one forfeits. No limit if absent.
    """

    def __init__(
        self,
        view: GameSingle,
        renderer: Renderer,
        *,
        seed: int,
        split: Split = "train",
        max_prompt_tokens: int | None = None,
    ) -> None:
        self._view, self._renderer = view, renderer
        self._seed, self._split, self._longest = seed, split, max_prompt_tokens
        self._messages: list[dict[str, str]] = []

    async def initial_observation(self) -> tuple[Any, list[str] | list[int]]:
        """Start the episode.

        Raises:
            ConfigError: the first prompt is longer than ``max_prompt_tokens``.
        """
        seen, _ = await asyncio.to_thread(
            self._view.reset, seed=self._seed, options={"split": self._split}
        )
        prompt = self._prompt(seen["text"])
        if self._too_long(prompt):
            raise ConfigError(
                f"max_prompt_tokens={self._longest}: the first prompt has {prompt.length} tokens. Use more."
            )
        return prompt, self._renderer.get_stop_sequences()

    async def step(
        self, action: list[int], *, extra: types.ActionExtra | None = None
    ) -> types.StepResult:
        """Make the seat's reply; the others reply too, until it is the seat's turn or the end."""
        message, _ = self._renderer.parse_response(action)
        reply = get_text_content(message)
        seen, reward, terminated, truncated, info = await asyncio.to_thread(self._view.step, reply)
        self._messages.append({"role": "assistant", "content": reply})
        prompt, over = self._prompt(seen["text"]), terminated or truncated
        metrics = {"invalid": float(info["invalid"] is not None)}
        if not over and self._too_long(prompt):
            reward += self._view.forfeit()
            over, metrics["forfeited"] = True, 1.0
        elif over:
            metrics |= {name: float(value) for name, value in info.get("statistics", {}).items()}
            metrics["forfeited"] = float(info.get("forfeited", False))
        if over:
            self._view.close()
        return types.StepResult(
            reward=float(reward),
            episode_done=over,
            next_observation=tinker.ModelInput.empty() if over else prompt,
            next_stop_condition=self._renderer.get_stop_sequences(),
            metrics=metrics,
            logs={"reply": reply},
        )

    def _prompt(self, text: str) -> Any:
        """The conversation with what the seat sees now, as a ``tinker.ModelInput``."""
        self._messages.append({"role": "user", "content": str(text)})
        return self._renderer.build_generation_prompt(self._messages)

    def _too_long(self, prompt: Any) -> bool:
        return self._longest is not None and prompt.length > self._longest


@dataclass(frozen=True, kw_only=True)
class GameGroup(types.EnvGroupBuilder):
    """Attempts at one start state; can be pickled where its renderer and opponents can."""

    env_id: str
    """Registered id."""
    renderer: Renderer
    """Of the model that is trained."""
    seed: int
    """Of the episode, the same for all attempts."""
    attempts: int = 8
    """In the group."""
    seat: int = 0
    """Whose replies are trained."""
    opponents: Mapping[int, str | Policy] | str | None = None
    """As in `srl_envs.views.single.GameSingle`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """As in `srl_envs.make`."""
    split: Split = "train"
    """Of the task."""
    max_prompt_tokens: int | None = None
    """As in `TinkerGame`."""

    async def make_envs(self) -> Sequence[TinkerGame]:
        """One environment per attempt."""
        return [self._game() for _ in range(self.attempts)]

    def logging_tags(self) -> list[str]:
        """The environment's id, by which metrics are grouped."""
        return [self.env_id]

    def _game(self) -> TinkerGame:
        view = GameSingle(
            make(self.env_id, **self.options), seat=self.seat, opponents=self.opponents
        )
        return TinkerGame(
            view,
            self.renderer,
            seed=self.seed,
            split=self.split,
            max_prompt_tokens=self.max_prompt_tokens,
        )


class GameDataset(types.RLDataset):
    """Groups of one environment, a batch of seeds at a time; an incomplete last batch is left out.

    Args:
        env_id: a registered id.
        renderer: of the model that is trained.
        seeds: of the episodes, one group each.
        groups: per batch.
        more: fields of `GameGroup`.

    Raises:
        ConfigError: a seat, a bot or an option is wrong, or there are fewer seeds than groups in a batch.
    """

    def __init__(
        self, env_id: str, renderer: Renderer, seeds: Iterable[int], *, groups: int, **more: Any
    ) -> None:
        self._groups = groups
        self._builders = [
            GameGroup(env_id=env_id, renderer=renderer, seed=seed, **more)
            for seed in deal_seeds(seeds)
        ]
        if not 1 <= groups <= len(self._builders):
            raise ConfigError(
                f"groups={groups!r}: give 1 to {len(self._builders)}, the number of seeds."
            )
        self._builders[0]._game()  # what is wrong fails here, not in the loop

    def get_batch(self, index: int) -> Sequence[GameGroup]:
        """The groups of one batch."""
        return self._builders[index * self._groups : (index + 1) * self._groups]

    def __len__(self) -> int:
        return len(self._builders) // self._groups
