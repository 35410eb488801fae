"""The shell around every game: retries, fallback, forfeit, costs, simultaneous seats."""

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import SPLITS, Game, Streams, episode_entropy
from srl_envs.errors import (
    ConfigError,
    EpisodeOverError,
    IllegalMoveError,
    InvalidActionError,
)
from srl_envs.parallel import INVALID_MODES, GameEnv
from srl_envs.testing.episodes import draw_actions, seed_spaces
from srl_envs.turns.conduct import FORMAT_FLOOR
from srl_envs.turns.prompt_header import FORMAT_COST
from srl_envs.wrappers import HistoryWindow

BAD = "no block"
PASS = "<action>pass</action>"


def connect_four(**options: Any) -> GameEnv:
    env = srl_envs.make("connect_four-v0", **options)
    env.reset(seed=0)
    return env


def math_duel(**options: Any) -> GameEnv:
    env = srl_envs.make("math_duel-v0", **options)
    env.reset(seed=0)
    return env


def mover(env: GameEnv) -> int:
    (seat,) = env._pending
    return seat


def say(env: GameEnv, reply: str) -> tuple[int, dict[str, Any], float, dict[str, Any]]:
    """The mover replies; returns its seat and its observation, reward and info."""
    seat = mover(env)
    agent = f"player_{seat}"
    seen, rewards, _, _, infos = env.step({agent: reply})
    return seat, seen[agent], rewards[agent], infos[agent]


def column(number: int) -> str:
    return f"<action>{number}</action>"


# --- one seat at a time -------------------------------------------------------------------------


def test_a_legal_reply_costs_nothing_and_passes_the_move() -> None:
    env = connect_four()
    seat, seen, reward, info = say(env, column(1))
    assert (reward, info["invalid"], seen["can_act"]) == (0.0, None, 0)
    assert mover(env) == 1 - seat


@pytest.mark.parametrize(
    ("reply", "label", "why"),
    [
        (BAD, "malformed", "it has no <action>...</action> block"),
        ("<action>9</action>", "illegal", "'9' is no column from 1 to 7"),
    ],
)
def test_an_invalid_reply_is_labelled_costs_and_is_explained(
    reply: str, label: str, why: str
) -> None:
    env = connect_four()
    before = env.get_state()["state"]
    seat, seen, reward, info = say(env, reply)
    assert (info["invalid"], reward, info["attempts_left"]) == (label, -FORMAT_COST, 2)
    assert info["played"] is None
    assert info["reward_components"] == {"outcome": 0.0, "format": -FORMAT_COST}
    assert f"Your last reply was not accepted: {why}. Tries left for this turn: 2." in seen["text"]
    assert (mover(env), env.get_state()["state"]) == (seat, before)


def test_an_accepted_retry_clears_the_error_and_the_count() -> None:
    env = connect_four()
    seat, *_ = say(env, BAD)
    say(env, BAD)
    _, seen, reward, info = say(env, column(3))
    assert "not accepted" not in seen["text"]
    assert (reward, info["attempts_left"], info["played"]) == (0.0, 3, "3")
    assert mover(env) == 1 - seat
    assert env.get_state()["fallbacks"] == [0, 0]


@pytest.mark.parametrize("max_retries", [0, 1, 2, 5])
def test_used_up_retries_take_the_fallback_move(max_retries: int) -> None:
    env = connect_four(max_retries=max_retries)
    seat = mover(env)
    for _ in range(max_retries):
        assert say(env, BAD)[0] == seat
    _, seen, reward, info = say(env, BAD)
    assert mover(env) == 1 - seat
    assert seen["text"].splitlines()[-3] == "X......"
    assert "not accepted" not in seen["text"]
    assert info["invalid"] == "malformed"
    assert reward == pytest.approx(-FORMAT_COST)
    assert info["played"] == "1"
    assert env.get_state()["fallbacks"][seat] == 1


@pytest.mark.parametrize("forfeit_after", [1, 2, 3])
def test_fallbacks_end_in_forfeit(forfeit_after: int) -> None:
    env = connect_four(max_retries=0, forfeit_after=forfeit_after)
    seat = mover(env)
    for _ in range(forfeit_after - 1):
        say(env, BAD)
        say(env, column(7))
    _, _, reward, info = say(env, BAD)
    assert env.outcomes == ((-1.0, 1.0) if seat == 0 else (1.0, -1.0))
    assert (env.forfeited, env.agents) == ((seat,), [])
    assert (info["forfeited"], info["played"]) == (True, None)
    assert reward == pytest.approx(-1.0 - FORMAT_COST)


def test_the_format_component_has_a_floor() -> None:
    env = connect_four(max_retries=5, forfeit_after=9)
    costs = [say(env, BAD)[2] for _ in range(6)]
    assert costs == pytest.approx([-FORMAT_COST] * 6)
    assert sum(costs) == pytest.approx(FORMAT_FLOOR)
    say(env, column(7))
    assert say(env, BAD)[2] == pytest.approx(0.0)


def test_mode_forfeit_ends_at_the_first_invalid_reply() -> None:
    env = connect_four(invalid="forfeit")
    seat, _, reward, info = say(env, "<action>0</action>")
    assert env.forfeited == (seat,)
    assert reward == pytest.approx(-1.0 - FORMAT_COST)
    assert (info["invalid"], info["attempts_left"]) == ("illegal", 1)


def test_mode_random_legal_plays_on_and_still_charges() -> None:
    def boards(seed: int) -> list[Any]:
        env = srl_envs.make("connect_four-v0", invalid="random_legal")
        env.reset(seed=seed)
        rewards = []
        while env.agents:
            rewards.append(say(env, BAD)[2])
        assert env.forfeited == ()
        assert rewards[0] == -FORMAT_COST
        return env.get_state()["state"]

    assert boards(1) == boards(1)
    assert len({str(boards(seed)) for seed in range(5)}) == 5


def test_attempts_left_says_what_is_left() -> None:
    for options, left in (
        ({}, 3),
        ({"max_retries": 0}, 1),
        ({"invalid": "forfeit"}, 1),
        ({"invalid": "random_legal"}, 1),
    ):
        env = connect_four(**options)
        assert env.reset(seed=0)[1]["player_0"]["attempts_left"] == left


def test_a_seat_that_is_not_on_move_is_neither_read_nor_charged() -> None:
    env, other = connect_four(), connect_four()
    seat = mover(env)
    noises: tuple[Any, ...] = (BAD, column(1), None, 7, "x" * 100_000)
    for noise in noises:
        reply = {f"player_{seat}": column(2), f"player_{1 - seat}": noise}
        assert env.step(reply) == other.step({f"player_{seat}": column(2)})
        seat = 1 - seat


def test_legal_actions_are_replies_told_to_the_mover_alone() -> None:
    env = connect_four()
    _, infos = env.reset(seed=0)
    seat = mover(env)
    legal = infos[f"player_{seat}"]["legal_actions"]
    assert legal == [srl_envs.action(number) for number in range(1, 8)]
    assert "legal_actions" not in infos[f"player_{1 - seat}"]
    assert not env.step({f"player_{seat}": legal[0]})[-1][f"player_{seat}"]["invalid"]


# --- one seat's text on demand -------------------------------------------------------------------

SHARED = ["blotto-v0", "connect_four-v0", "iterated_dilemma-v0", "kuhn_poker-v0", "nim-v0"]


def asked(env: GameEnv) -> tuple[Any, ...]:
    """Everything that `step` returns, from the questions one by one."""
    agents = env.possible_agents
    over = not env.agents
    return (
        {agent: env.observation(agent) for agent in agents},
        env.rewards(),
        dict.fromkeys(agents, over and not env.truncated),
        dict.fromkeys(agents, env.truncated),
        {agent: env.info(agent) for agent in agents},
    )


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: HistoryWindow(env, turns=2)])
@pytest.mark.parametrize("env_id", SHARED)
@given(seed=st.integers(0, 2**32), invalid=st.sampled_from(INVALID_MODES), limit=st.integers(1, 30))
@settings(max_examples=12)
def test_what_is_asked_for_is_what_step_returns_and_is_written_fresh(
    env_id: str, wrap: Callable[[GameEnv], GameEnv], seed: int, invalid: str, limit: int
) -> None:
    """One reply in ten is not a legal move. A text asked for late is that of the present position."""
    eager, asking, silent = (wrap(srl_envs.make(env_id, invalid=invalid)) for _ in range(3))
    for env in (eager, asking, silent):
        env.max_cycles = limit
        env.start(seed)
        seed_spaces(env, seed)
    first, infos = eager.reset(seed)
    assert asked(asking)[::4] == (first, infos)
    while eager.agents:
        actions = draw_actions(eager)
        results = eager.step(actions)
        needed = {agent: actions[agent] for agent in asking.on_move}
        asking.advance(needed)
        silent.advance(needed)
        assert asked(asking) == results == asked(asking)
        assert asking.pays or not any(asking.rewards().values())
        assert asking.on_move == tuple(a for a, seen in results[0].items() if seen["can_act"])
        game, state = eager.game, eager.get_state()
        notices = state["errors"]
        for seat, (agent, seen) in enumerate(results[0].items()):
            fresh = game.observe(game.decode(state["state"]), seat)
            assert seen["text"].startswith(eager.header + fresh + notices[seat])
            assert asking.text(agent) == seen["text"]
    assert asked(silent) == asked(asking)


# --- several seats at the same moment -----------------------------------------------------------


def test_a_seat_that_has_acted_waits_while_the_other_retries() -> None:
    env = math_duel()
    seen, rewards, _, _, infos = env.step({"player_0": "<action>1; 1</action>", "player_1": BAD})
    assert [seen[agent]["can_act"] for agent in env.agents] == [0, 1]
    assert rewards == {"player_0": 0.0, "player_1": -FORMAT_COST}
    assert [infos[agent]["invalid"] for agent in env.agents] == [None, "malformed"]
    assert "Past 1" not in seen["player_1"]["text"]

    seen, *_ = env.step({"player_0": "<action>2; 2</action>", "player_1": PASS})
    assert [seen[agent]["can_act"] for agent in env.agents] == [1, 1]
    assert "You: 1; 1" in seen["player_0"]["text"]
    assert "Opponent: 1; 1" in seen["player_1"]["text"]


def test_a_waiting_seat_is_not_asked_and_a_missing_reply_is_the_callers_error() -> None:
    env = math_duel()
    env.step({"player_0": PASS, "player_1": BAD})
    env.step({"player_1": PASS})
    with pytest.raises(InvalidActionError, match="player_1 is on move"):
        env.step({"player_0": PASS})


def test_both_forfeit_together_and_neither_gains() -> None:
    """The seat that is read first must not pay for both."""
    env = math_duel(invalid="forfeit")
    env.step({"player_0": BAD, "player_1": BAD})
    assert (env.outcomes, env.forfeited) == ((0.0, 0.0), (0, 1))


def test_where_forfeits_destroy_value_both_pay_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    env = math_duel(invalid="forfeit")
    paid = {0: (-1.0, 0.0), 1: (-0.5, -1.0)}
    monkeypatch.setattr(env.game, "forfeit", lambda _state, seat: paid[seat])
    env.step({"player_0": BAD, "player_1": BAD})
    assert env.outcomes == (-0.75, -0.5)


@pytest.mark.parametrize("seat", [0, 1])
def test_one_forfeits_among_simultaneous_seats(seat: int) -> None:
    env = math_duel(invalid="forfeit")
    _, rewards, ended, _, infos = env.step({f"player_{seat}": BAD, f"player_{1 - seat}": PASS})
    assert env.forfeited == (seat,)
    assert rewards[f"player_{1 - seat}"] == 1.0
    assert rewards[f"player_{seat}"] == pytest.approx(-1.0 - FORMAT_COST)
    assert all(ended.values())
    assert infos[f"player_{1 - seat}"]["forfeited"] is False


@pytest.mark.parametrize(
    ("mode", "seats", "paid"),
    [
        ("competitive", 2, (1.0, -1.0)),
        ("competitive", 3, (0.5, -1.0, 0.5)),
        ("mixed", 3, (0.0, -1.0, 0.0)),
        ("cooperative", 2, (0.0, 0.0)),
    ],
)
def test_what_a_forfeit_pays_by_default(mode: str, seats: int, paid: tuple[float, ...]) -> None:
    game: Any = SimpleNamespace(mode=mode, seats=seats)
    assert Game.forfeit(game, None, 1) == paid


# --- what the caller may do wrong ---------------------------------------------------------------


@pytest.mark.parametrize("wrong", [None, 4, b"<action>1</action>", ["<action>1</action>"]])
def test_a_reply_that_is_no_text_changes_nothing(wrong: Any) -> None:
    env = math_duel()
    state = env.get_state()
    with pytest.raises(InvalidActionError, match=f"player_1 is {type(wrong).__name__}; give text"):
        env.step({"player_0": PASS, "player_1": wrong})
    assert env.get_state() == state


def test_before_reset_and_after_the_end_say_so() -> None:
    env = srl_envs.make("connect_four-v0", invalid="forfeit")
    for call in (lambda: env.step({}), env.render, env.get_state):
        with pytest.raises(EpisodeOverError, match=r"call reset\(\)"):
            call()
    env.reset(seed=0)
    say(env, BAD)
    with pytest.raises(EpisodeOverError, match=r"call reset\(\)"):
        env.step({})


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"invalid": "retrys"}, "Did you mean 'retry'"),
        ({"split": "test"}, "split='test'"),
        ({"max_retries": -1}, "max_retries=-1"),
        ({"max_retries": 1.5}, "max_retries=1.5"),
        ({"forfeit_after": 0}, "forfeit_after=0"),
        ({"render_mode": "rgb_array"}, "rgb_array"),
        ({"row": 5}, "Did you mean 'rows'"),
        ({"rows": 99}, "rows=99"),
        ({"rows": "6"}, "rows='6'"),
        ({"max_retry": 1}, "Did you mean 'max_retries'"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        srl_envs.make("connect_four-v0", **options)


@pytest.mark.parametrize("seed", [-1, 1.5, "7"])
def test_impossible_seeds_are_refused(seed: Any) -> None:
    with pytest.raises(ConfigError, match="whole number >= 0"):
        connect_four().reset(seed=seed)


def test_a_state_of_another_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"math_duel-v0 cannot continue in connect_four-v0"):
        connect_four().set_state(math_duel().get_state())


# --- streams, spaces, states --------------------------------------------------------------------


@given(st.integers(0, 2**64), st.integers(0, 5))
def test_streams_are_independent_and_addressed(seed: int, version: int) -> None:
    def draws(*entropy: int) -> list[int]:
        streams = Streams(*entropy)
        names = ("instance", "chance", "seats", "bots")
        return [int(getattr(streams, name).integers(2**62)) for name in names]

    drawn = [draws(*episode_entropy("a_game", version, split, seed)) for split in SPLITS]
    drawn.append(draws(*episode_entropy("a_game", version + 1, "train", seed)))
    drawn.append(draws(*episode_entropy("b_game", version, "train", seed)))
    drawn.append(draws(*episode_entropy("a_game", version, "train", seed + 1)))
    assert len({value for row in drawn for value in row}) == 5 * 4

    late = Streams(*episode_entropy("a_game", version, "train", seed))
    assert int(late.seats.integers(2**62)) == drawn[0][2]
    assert late.seats is late.seats


def test_a_stream_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        Streams(1).dice  # noqa: B018


def test_unseeded_resets_follow_from_the_last_seed_and_differ() -> None:
    env, other = connect_four(), connect_four()
    seeds = []
    for one in (env, other):
        one.reset(seed=5)
        for _ in range(4):
            one.reset()
            seeds.append(one.seed)
    assert seeds[:4] == seeds[4:]
    assert len(set(seeds)) == 4
    fresh = [srl_envs.make("connect_four-v0") for _ in range(2)]
    for one in fresh:
        one.reset()
    assert fresh[0].seed != fresh[1].seed


def test_the_action_space_offers_mostly_legal_moves_of_the_position() -> None:
    env = connect_four()
    for _ in range(5):
        say(env, column(4))
    say(env, column(4))
    space = env.action_space(f"player_{mover(env)}")
    space.seed(1)
    drawn = [space.sample() for _ in range(300)]
    assert all(space.contains(reply) for reply in drawn)
    moves = {reply for reply in drawn if reply.startswith("<action>")}
    assert moves == {column(number) for number in (1, 2, 3, 5, 6, 7)}
    assert 240 < sum(reply in moves for reply in drawn) < 295
    waiting = env.action_space(f"player_{1 - mover(env)}")
    assert not any("<action>" in waiting.sample() for _ in range(50))


def test_a_copied_environment_goes_its_own_way_with_its_own_spaces() -> None:
    env = connect_four()
    twin = copy.deepcopy(env)
    for _ in range(6):
        say(twin, column(4))
    agent = f"player_{mover(twin)}"
    assert env.get_state()["turn"] == 0
    assert column(4) not in {twin.action_space(agent).sample() for _ in range(200)}
    space = copy.deepcopy(env.action_space(agent))
    assert column(4) in {space.sample() for _ in range(200)}


def test_set_state_keeps_held_replies_errors_and_the_end() -> None:
    env, other = math_duel(), math_duel()
    env.step({"player_0": "<action>5; 1</action>", "player_1": BAD})
    seen, infos = other.set_state(env.get_state())
    assert [seen[agent]["can_act"] for agent in other.agents] == [0, 1]
    assert "not accepted" in seen["player_1"]["text"]
    assert infos["player_1"]["attempts_left"] == 2
    assert other.step({"player_1": PASS}) == env.step({"player_1": PASS})

    over = connect_four(invalid="forfeit")
    say(over, BAD)
    again = connect_four(invalid="forfeit")
    again.set_state(over.get_state())
    assert (again.agents, again.outcomes, again.forfeited) == ([], over.outcomes, over.forfeited)


def test_render_returns_or_prints(capsys: pytest.CaptureFixture[str]) -> None:
    board = connect_four(render_mode="ansi").render()
    assert board is not None
    assert board.endswith("1234567\nX is player_0, O is player_1.")
    assert connect_four(render_mode="human").render() is None
    assert "1234567" in capsys.readouterr().out
    assert "--- player_1 sees ---" in str(math_duel(render_mode="ansi").render())


# --- games that pay round by round --------------------------------------------------------------


class Wages(Game[tuple[int, ...], int]):
    """Both seats name a number from 0 to 3 in each of three rounds and earn a tenth of it."""

    mode = "mixed"
    max_turns = 3

    def new(self, streams: Streams) -> tuple[int, ...]:
        return (0, 0, 0)

    def to_move(self, state: tuple[int, ...]) -> tuple[int, ...]:
        return (0, 1) if state[2] < 3 else ()

    def observe(self, state: tuple[int, ...], seat: int) -> str:
        return f"round {state[2]}"

    def parse(self, state: tuple[int, ...], seat: int, body: str) -> int:
        if body not in ("0", "1", "2", "3"):
            raise IllegalMoveError("0 to 3")
        return int(body)

    def apply(self, state: tuple[int, ...], actions: Any) -> tuple[int, ...]:
        return (state[0] + actions[0], state[1] + actions[1], state[2] + 1)

    def earned(self, state: tuple[int, ...]) -> tuple[float, ...]:
        return (state[0] / 10, state[1] / 10)

    def returns(self, state: tuple[int, ...]) -> tuple[float, ...] | None:
        return self.earned(state) if state[2] == 3 else None

    def fallback(self, state: tuple[int, ...], seat: int) -> str:
        return "0"

    def sample(self, state: tuple[int, ...], seat: int, rng: Any) -> str:
        return str(rng.integers(4))

    def encode(self, state: tuple[int, ...]) -> Any:
        return list(state)

    def decode(self, data: Any) -> tuple[int, ...]:
        return tuple(data)


def wages(**options: Any) -> GameEnv:
    spec = srl_envs.spec("connect_four-v0")
    return GameEnv(spec, Wages(), {}, **options)


def test_each_round_pays_what_it_earned_and_the_sum_is_the_outcome() -> None:
    env = wages()
    env.reset(seed=0)
    rewards = [
        env.step({"player_0": column(mine), "player_1": column(theirs)})[1]
        for mine, theirs in ((3, 0), (1, 2), (2, 2))
    ]
    assert [r["player_0"] for r in rewards] == pytest.approx([0.3, 0.1, 0.2])
    assert [r["player_1"] for r in rewards] == pytest.approx([0.0, 0.2, 0.2])
    assert env.outcomes == (0.6, 0.4)


def test_a_forfeit_takes_back_what_was_paid_above_its_outcome() -> None:
    env = wages(invalid="forfeit")
    env.reset(seed=0)
    env.step({"player_0": column(3), "player_1": column(1)})
    _, rewards, *_ = env.step({"player_0": BAD, "player_1": column(1)})
    assert env.outcomes == (-1.0, 0.0)
    assert rewards["player_0"] == pytest.approx(-1.3 - FORMAT_COST)
    assert rewards["player_1"] == pytest.approx(-0.1)


def test_a_continued_episode_pays_no_round_twice() -> None:
    env, other = wages(), wages()
    env.reset(seed=0)
    env.step({"player_0": column(3), "player_1": column(1)})
    other.set_state(env.get_state())
    _, rewards, *_ = other.step({"player_0": column(1), "player_1": column(1)})
    assert rewards == pytest.approx({"player_0": 0.1, "player_1": 0.1})


@pytest.mark.parametrize("name", ["splt", "seed", "difficulty", "Split"])
def test_an_option_that_reset_does_not_have_is_refused_with_those_it_has(name: str) -> None:
    env = srl_envs.make("nim-v0")
    with pytest.raises(ConfigError, match=rf"no option '{name}'.* 'split': one of train, eval"):
        env.reset(seed=1, options={name: "eval"})
    env.reset(seed=1, options={"split": "eval"})
    env.reset(seed=1, options={"options": 1})  # PettingZoo's suites give it to every environment
    with pytest.raises(ConfigError, match="evals"):
        env.reset(seed=1, options={"split": "evals"})
