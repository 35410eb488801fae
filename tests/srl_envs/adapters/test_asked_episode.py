"""Episodes whose seats are asked from outside are the episodes that `srl_envs.play` plays."""

from __future__ import annotations

import pytest

import srl_envs
from srl_envs.adapters.asked_episode import AskedEpisode


def bot(env_id: str, text: str) -> str:
    return srl_envs.make_bot(env_id, "strong", seed=len(text))(text)


@pytest.mark.parametrize("env_id", ["connect_four-v0", "iterated_dilemma-v0", "sealed_auction-v1"])
@pytest.mark.parametrize("asked", [(0,), (1,), (0, 1)])
def test_what_is_asked_and_paid_is_that_of_the_native_episode(
    env_id: str, asked: tuple[int, ...]
) -> None:
    env = srl_envs.make(env_id)
    others = {seat: "middle" for seat in range(len(env.possible_agents)) if seat not in asked}
    own = {seat: (lambda text: bot(env_id, text)) for seat in asked}
    native = srl_envs.play(env, {**own, **others}, seed=5, split="eval")
    episode = AskedEpisode(env, asked=asked, opponents=others, seed=5, split="eval")
    replies = []
    while episode.waiting:
        seat, text = episode.waiting
        assert seat in asked
        replies.append((seat, bot(env_id, text)))
        episode.reply(replies[-1][1])
    played = [(seat, step.replies[seat]) for step in native.steps for seat in sorted(step.replies)]
    assert replies == [one for one in played if one[0] in asked]
    assert episode.paid == pytest.approx(list(native.rewards))


def test_seats_that_move_at_once_do_not_see_each_others_replies() -> None:
    env = srl_envs.make("iterated_dilemma-v0")
    seen = []
    for first in ("<action>cooperate</action>", "<action>defect</action>"):
        episode = AskedEpisode(env, asked=(0, 1), opponents={}, seed=1)
        episode.reply(first)
        assert episode.waiting is not None
        seen.append(episode.waiting)
    assert seen[0] == seen[1]
    assert seen[0][0] == 1


def test_a_seat_that_leaves_forfeits_and_nothing_is_asked_any_more() -> None:
    env = srl_envs.make("connect_four-v0")
    episode = AskedEpisode(env, asked=(0,), opponents={1: "random"}, seed=0)
    episode.reply("no move")
    assert episode.invalid_replies == [1, 0]
    episode.leave()
    assert episode.paid == pytest.approx([-1.05, 1.0])
    assert episode.waiting is None
    assert episode.forfeited == (0,)
    with pytest.raises(RuntimeError, match="no seat is waiting"):
        episode.reply("too late")


def test_seats_without_a_name_make_random_legal_moves_of_the_seed() -> None:
    ends = []
    for seed in (3, 3, 4):
        env = srl_envs.make("connect_four-v0", render_mode="ansi")
        AskedEpisode(env, asked=(), opponents={}, seed=seed)
        ends.append(env.render())
    assert ends[0] == ends[1] != ends[2]
