import copy
from typing import Any

import numpy as np
import pytest

import srl_envs
from srl_envs.errors import EpisodeOverError, InvalidActionError

BAD = "no block"
ANSWER = "<action>123; 3</action>"


def test_a_reply_is_hidden_until_all_are_in() -> None:
    view = srl_envs.make_aec("math_duel-v0")
    view.reset(seed=0)
    before = view.observe("player_1")
    assert view.agent_selection == "player_0"
    view.step(ANSWER)
    assert view.agent_selection == "player_1"
    assert view.observe("player_1") == before
    view.step("<action>pass</action>")
    assert "Opponent: 123; 3" in view.observe("player_1")["text"]


def test_who_waits_for_anothers_new_try_is_passed_over() -> None:
    """Every cycle selects all seats, as `aec_to_parallel` needs it; only the refused one is read."""
    view = srl_envs.make_aec("math_duel-v0")
    view.reset(seed=0)
    view.step(ANSWER)
    view.step(BAD)
    assert view.agent_selection == "player_0"
    assert view.observe("player_0")["can_act"] == 0
    view.step(None)
    assert view.agent_selection == "player_1"
    assert view.last()[1] == pytest.approx(-0.05)
    assert "not accepted" in view.observe("player_1")["text"]
    assert "not accepted" not in view.observe("player_0")["text"]
    view.step("<action>pass</action>")
    assert view.agent_selection == "player_0"


def test_only_seats_on_move_are_selected() -> None:
    view = srl_envs.make_aec("connect_four-v0")
    view.reset(seed=0)
    selected = []
    for agent in view.agent_iter():
        seen, _, terminated, _, _ = view.last()
        if terminated:
            break
        assert seen["can_act"]
        selected.append(agent)
        view.step(f"<action>{seen['text'].rstrip()[-1]}</action>")
    assert selected[:-1:2] == [selected[0]] * len(selected[:-1:2])
    assert selected[1] != selected[0]


def test_rewards_of_the_view_sum_to_those_of_the_parallel_one() -> None:
    def bots() -> dict[int, Any]:
        return {
            seat: srl_envs.make_bot("math_duel-v0", ("strong", "random")[seat], seed=seat)
            for seat in (0, 1)
        }

    transcript = srl_envs.play(srl_envs.make("math_duel-v0"), bots(), seed=3)
    view, players = srl_envs.make_aec("math_duel-v0"), bots()
    view.reset(seed=3)
    total = {"player_0": 0.0, "player_1": 0.0}
    for agent in view.agent_iter():
        seen, reward, terminated, truncated, _ = view.last()
        total[agent] += reward
        over = terminated or truncated
        view.step(None if over else players[int(agent[-1])](seen["text"]))
    assert tuple(total.values()) == pytest.approx(transcript.rewards)
    assert any(total.values())


def test_a_reply_that_is_no_text_is_refused_at_once_and_may_be_given_again() -> None:
    view = srl_envs.make_aec("math_duel-v0")
    view.reset(seed=0)
    with pytest.raises(InvalidActionError, match="player_0 is NoneType"):
        view.step(None)
    assert view.agent_selection == "player_0"
    view.step(ANSWER)
    view.step(ANSWER)
    assert "You: 123; 3" in view.observe("player_0")["text"]


def test_stepping_an_unstarted_view_says_so() -> None:
    view = srl_envs.make_aec("connect_four-v0")
    with pytest.raises(EpisodeOverError, match="reset"):
        view.step("<action>1</action>")


def test_options_and_split_go_through() -> None:
    view = srl_envs.make_aec("connect_four-v0", rows=5, render_mode="ansi")
    view.reset(seed=0, options={"split": "eval"})
    assert view.env.split == "eval"
    assert len(view.render().splitlines()) == 7
    assert view.action_space("player_0") is view.action_space("player_0")
    view.close()


@pytest.mark.parametrize("env_id", ["kuhn_poker-v0", "math_duel-v0"])
def test_what_the_view_writes_late_is_what_the_parallel_view_tells(env_id: str) -> None:
    """Infos and rewards after every reply that completes a step; what was handed out stays as it was."""
    view, env = srl_envs.make_aec(env_id), srl_envs.make(env_id)
    view.reset(seed=2)
    observations, infos = env.reset(seed=2)
    rng = np.random.default_rng(2)
    while env.agents:
        on_move = [agent for agent, seen in observations.items() if seen["can_act"]]
        seats = {agent: env.possible_agents.index(agent) for agent in on_move}
        joint = {agent: srl_envs.action(env.sample_legal(seats[agent], rng)) for agent in on_move}
        kept, before = view.infos, copy.deepcopy(infos)
        for agent in on_move:
            assert view.last()[4] is view.infos[agent]
            view.step(joint[agent])
        observations, rewards, terminations, truncations, infos = env.step(joint)
        assert kept == before
        assert (view.infos, view.rewards) == (infos, rewards)
        assert (view.terminations, view.truncations) == (terminations, truncations)
        assert {agent: view.observe(agent) for agent in view.agents} == observations
