"""Every environment renders for a person."""

from typing import Any

import pytest

import srl_envs
from srl_envs.errors import EpisodeOverError
from srl_envs.parallel import GameEnv
from srl_envs.testing.episodes import draw_actions, seed_spaces


def few_steps(env: GameEnv) -> list[str | None]:
    """What `render` gives at the start and after each of the first steps."""
    shown = [env.render()]
    seed_spaces(env, 0)
    while env.agents and len(shown) < 4:
        env.step(draw_actions(env))
        shown.append(env.render())
    return shown


@pytest.mark.slow
@pytest.mark.parametrize("env_id", srl_envs.list_envs())
def test_ansi_is_text_and_human_prints_the_same(
    env_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ansi, human = (srl_envs.make(env_id, render_mode=mode) for mode in ("ansi", "human"))
    for env in (ansi, human):
        env.reset(seed=1)
    texts = few_steps(ansi)
    assert capsys.readouterr().out == ""
    assert all(isinstance(text, str) and text.strip() for text in texts)
    assert few_steps(human) == [None] * len(texts)
    assert capsys.readouterr().out == "".join(f"{text}\n" for text in texts)
    modes: Any = ansi.metadata["render_modes"]
    assert {"ansi", "human"} == set(modes)
    ansi.close()
    human.close()


@pytest.mark.parametrize("env_id", ["connect_four-v0", "liars_dice-v0", "nim-v0", "word_chain-v0"])
def test_a_view_of_a_games_own_lasts_from_the_first_move_to_the_end(env_id: str) -> None:
    env = srl_envs.make(env_id, render_mode="ansi")
    for seed in range(12):
        env.reset(seed=seed)
        seed_spaces(env, seed)
        while env.agents:
            assert (env.render() or "").strip()
            env.step(draw_actions(env))
        assert (env.render() or "").strip()
    env.close()


@pytest.mark.parametrize("env_id", srl_envs.list_envs())
def test_the_end_can_be_looked_at_and_the_start_cannot_be_before_reset(env_id: str) -> None:
    env = srl_envs.make(env_id, render_mode="ansi", invalid="forfeit")
    with pytest.raises(EpisodeOverError, match="reset"):
        env.render()
    env.reset(seed=2)
    env.step(dict.fromkeys(env.agents, "I give up."))
    assert not env.agents
    assert (env.render() or "").strip()
    env.close()
