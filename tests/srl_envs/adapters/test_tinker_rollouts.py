"""One seat through tinker-cookbook's own rollouts, renderer and assembly of training data."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

pytest.importorskip(
    "tinker_cookbook", reason="tinker-cookbook is not installed: pip install tinker-cookbook"
)

import tinker
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.renderers import get_renderer
from tinker_cookbook.rl import data_processing
from tinker_cookbook.rl.rollouts import do_group_rollout
from transformers import AutoTokenizer

import srl_envs
from srl_agents.models.sources.catalog import resolve
from srl_envs.adapters.tinker import GameDataset, GameGroup, TinkerGame
from srl_envs.errors import ConfigError

pytestmark = pytest.mark.filterwarnings("ignore")  # of tinker and its dependencies
GAME = "connect_four-v0"


@pytest.fixture(scope="module")
def renderer() -> Any:
    return get_renderer("role_colon", AutoTokenizer.from_pretrained(resolve("tiny")))


class Bot(TokenCompleter):
    """A bot in the place of the sampler; reads the last message of the prompt."""

    def __init__(self, renderer: Any, name: str = "strong", cut: int | None = None) -> None:
        self.renderer, self.cut = renderer, cut
        self.bot = srl_envs.make_bot(GAME, name, seed=1)
        self.replies: list[list[int]] = []

    async def __call__(
        self, model_input: tinker.ModelInput, stop: Any, *, max_tokens: int | None = None
    ) -> TokensWithLogprobs:
        tokenizer = self.renderer.tokenizer
        text = tokenizer.decode(model_input.to_ints()).rsplit("User:", 1)[1]
        reply = self.bot(text.removesuffix("Assistant:").strip())
        tokens = tokenizer.encode(f" {reply}\n\nUser:", add_special_tokens=False)[: self.cut]
        self.replies.append(tokens)
        return TokensWithLogprobs(tokens=tokens, maybe_logprobs=[-0.5] * len(tokens))


def group(renderer: Any, **more: Any) -> GameGroup:
    given: dict[str, Any] = {"seed": 7, "attempts": 2, "opponents": {1: "middle"}} | more
    return GameGroup(env_id=GAME, renderer=renderer, **given)


def native_reward() -> float:
    view = srl_envs.make_single(GAME, opponents={1: "middle"})
    bot = srl_envs.make_bot(GAME, "strong", seed=1)
    seen, _ = view.reset(seed=7)
    total, over = 0.0, False
    while not over:
        seen, reward, terminated, truncated, _ = view.step(bot(seen["text"]))
        total, over = total + reward, terminated or truncated
    return total


def test_an_episode_pays_what_the_native_one_pays_and_attempts_meet_one_deal(renderer: Any) -> None:
    played = asyncio.run(do_group_rollout(group(renderer), Bot(renderer)))
    first = [trajectory.transitions[0].ob.to_ints() for trajectory in played.trajectories_G]
    assert first[0] == first[1]
    assert played.get_total_rewards()[0] == pytest.approx(native_reward())
    last = played.trajectories_G[0].transitions[-1]
    assert last.episode_done
    assert last.metrics["forfeited"] == 0.0


def test_tokens_that_learn_are_those_of_the_replies(renderer: Any) -> None:
    policy = Bot(renderer)
    played = asyncio.run(do_group_rollout(group(renderer, attempts=1), policy))
    other = asyncio.run(do_group_rollout(group(renderer, attempts=1), Bot(renderer, "random")))
    joined = data_processing.TrajectoryGroup(
        trajectories_G=[*played.trajectories_G, *other.trajectories_G],
        final_rewards_G=[0.0, 0.0],
        metrics_G=[{}, {}],
    )
    advantages = data_processing.compute_advantages([joined])
    data, _ = data_processing.assemble_training_data([joined], advantages)
    masks = [datum.loss_fn_inputs["mask"].to_torch() for datum in data]
    mine = [t.ac.tokens for t in played.trajectories_G[0].transitions]
    theirs = [t.ac.tokens for t in other.trajectories_G[0].transitions]
    assert mine == policy.replies
    assert sum(int(mask.sum()) for mask in masks) == sum(map(len, [*mine, *theirs]))


def test_a_reply_that_is_no_move_is_charged(renderer: Any) -> None:
    async def play() -> Any:
        (game,) = await group(renderer, attempts=1).make_envs()
        await game.initial_observation()
        return await game.step(renderer.tokenizer.encode(" I pass.\n\nUser:"))

    result = asyncio.run(play())
    assert result.reward == pytest.approx(-0.05)
    assert result.metrics["invalid"] == 1.0
    assert not result.episode_done


def test_a_reply_that_was_cut_counts_as_it_is(renderer: Any) -> None:
    played = asyncio.run(do_group_rollout(group(renderer, attempts=1), Bot(renderer, cut=2)))
    trajectory = played.trajectories_G[0]
    assert sum(t.metrics["invalid"] for t in trajectory.transitions) >= 1
    assert trajectory.transitions[-1].metrics["forfeited"] == 1.0


def test_a_conversation_that_outgrows_its_room_forfeits(renderer: Any) -> None:
    whole = asyncio.run(do_group_rollout(group(renderer, attempts=1), Bot(renderer)))
    lengths = [t.ob.length for t in whole.trajectories_G[0].transitions]
    short = group(renderer, attempts=1, max_prompt_tokens=lengths[1])
    played = asyncio.run(do_group_rollout(short, Bot(renderer)))
    transitions = played.trajectories_G[0].transitions
    assert len(transitions) == 2
    assert transitions[-1].metrics["forfeited"] == 1.0
    assert sum(played.get_total_rewards()) < 0
    with pytest.raises(ConfigError, match="the first prompt has"):
        asyncio.run(do_group_rollout(group(renderer, max_prompt_tokens=5), Bot(renderer)))


def test_a_data_set_has_whole_batches_of_its_seeds(renderer: Any) -> None:
    data = GameDataset(GAME, renderer, range(7), groups=3, attempts=4, opponents="random")
    assert len(data) == 2
    assert [builder.seed for builder in data.get_batch(1)] == [3, 4, 5]
    envs = asyncio.run(data.get_batch(0)[0].make_envs())
    assert [type(env) for env in envs] == [TinkerGame] * 4
    assert data.get_batch(0)[0].logging_tags() == [GAME]


def test_groups_are_pickled_with_their_renderer(renderer: Any) -> None:
    there = pickle.loads(pickle.dumps(group(renderer)))
    assert (there.seed, there.opponents) == (7, {1: "middle"})


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"groups": 9}, "groups=9"),
        ({"opponents": {1: "middel"}}, "Did you mean 'middle'"),
        ({"seat": 2}, "seat=2"),
        ({"options": {"rows": 99}}, "rows"),
    ],
)
def test_what_is_wrong_fails_before_the_loop(
    renderer: Any, wrong: dict[str, Any], reason: str
) -> None:
    with pytest.raises((ConfigError, LookupError), match=reason):
        GameDataset(GAME, renderer, range(3), **{"groups": 1, **wrong})
