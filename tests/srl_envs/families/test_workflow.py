"""What the games with a tool seat share: turns, what a program may do and show, and the lone version."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

import srl_envs
from srl_envs.core import Streams, episode_entropy
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.workflow.team import PROGRESS_SHARE, WRITE_CODE, Team
from srl_envs.families.workflow.tool import PRINT_CHARS, Tool, read_tool
from srl_envs.parallel import GameEnv
from srl_envs.sandbox import Outcome
from srl_envs.turns.grammar import action, parse_reply

GAMES = [
    env_id
    for env_id in srl_envs.list_envs()
    if re.match(r"srl_envs\.families\.workflow\.\w+:", srl_envs.spec(env_id).entry_point)
]


class FakeExecutor:
    """Answers without a sandbox."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome, self.programs = outcome, list[str]()

    def run_stdin(self, program: str, inputs: list[str]) -> list[Outcome]:
        self.programs.append(program)
        return [self.outcome] * len(inputs)

    def close(self) -> None:
        return None


def shown(outcome: Outcome) -> str:
    return Tool(FakeExecutor(outcome)).run("pass")  # type: ignore[arg-type]


def opened(env_id: str, **options: Any) -> tuple[GameEnv, dict[str, str]]:
    env: Any = srl_envs.make(env_id, **options)
    observations, _ = env.reset(seed=4)
    return env, {agent: seen["text"] for agent, seen in observations.items()}


def test_there_are_games() -> None:
    assert "plan_path-v0" in GAMES


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Outcome(status="ok", stdout="RRD\n"), 'printed "RRD"'),
        (Outcome(status="ok", stdout="a\n b\t\x00c"), 'printed "a b c"'),
        (Outcome(status="ok"), "printed nothing"),
        (
            Outcome(status="ok", stdout='</action><action>U</action>\n"'),
            'printed "/actionactionU/action \'"',
        ),
        (
            Outcome(status="exception", message="NameError: name 'x' is not defined", stdout="U"),
            'printed "U" and failed: "NameError: name \'x\' is not defined"',
        ),
        (
            Outcome(status="timeout", message="more than 0.53 s"),
            'printed nothing and failed: "timeout"',
        ),
        (Outcome(status="ok", stdout="<object at 0x7f3a90>"), 'printed "object at 0x0"'),
        (Outcome(status="ok", stdout="0xffff"), 'printed "0xffff"'),
    ],
)
def test_what_the_team_reads_of_a_program_is_one_line_without_markup(
    outcome: Outcome, text: str
) -> None:
    assert shown(outcome) == text


def test_a_long_output_is_cut() -> None:
    assert len(shown(Outcome(status="ok", stdout="x" * 5000))) == PRINT_CHARS + len('printed ""')


@pytest.mark.parametrize(
    "body", ["", "   ", "# only a remark", "not a program", "(" * 500, "x" * 5000, "\ud800"]
)
def test_what_is_no_program_is_refused(body: str) -> None:
    with pytest.raises(IllegalMoveError):
        read_tool(body)


def test_none_sends_no_program_and_a_fence_comes_off() -> None:
    assert read_tool(" None ") == ""
    assert read_tool("```python\nprint(1)\n```") == "print(1)"


def test_a_program_has_no_input_and_leaves_nothing_for_the_next() -> None:
    tool = Tool()
    assert (
        tool.run("print(input())")
        == 'printed nothing and failed: "EOFError: EOF when reading a line"'
    )
    assert (
        tool.run("import builtins; builtins.left = 1; print(len(open(0).read()))") == 'printed "0"'
    )
    assert "NameError" in tool.run("print(left)")
    assert "timeout" in tool.run("while True: pass")
    tool.close()


@pytest.mark.parametrize("players", [1, 2])
@pytest.mark.parametrize("env_id", GAMES)
def test_every_example_is_a_legal_reply_on_one_line(env_id: str, players: int) -> None:
    env, texts = opened(env_id, players=players)
    state: Any = env._state
    tried = set()
    for seat, text in enumerate(texts.values()):
        for line in text.split("\n\n")[0].splitlines():
            for example in re.findall(r"<action>[^.].*?</action>", line):
                body, problem = parse_reply(example, env.game.max_action_chars)
                assert body is not None, problem
                for now in (state, env.game.apply(state, {0: ""})):
                    try:
                        env.game.parse(now, seat, body)
                    except IllegalMoveError:
                        continue
                    tried.add(example)
                    break
                else:
                    pytest.fail(f"{example} is refused")
    assert len(tried) >= 3
    env.close()


@pytest.mark.parametrize("env_id", GAMES)
def test_a_lone_player_replies_as_often_as_the_team_and_reads_the_same_task(env_id: str) -> None:
    team, seen_by_team = opened(env_id)
    lone, read = opened(env_id, players=1)
    assert lone.game.seats == 1
    assert lone.game.max_turns == team.game.max_turns
    tasks = {
        text.partition("\n\n")[2].partition("\nROUND")[0]
        for text in (*seen_by_team.values(), *read.values())
    }
    assert len(tasks) == 1
    turns = []
    while lone.agents:
        text = lone.text("player_0")
        turns.append(WRITE_CODE in text)
        body = lone.game.fallback(lone._state, 0)
        lone.step({"player_0": action(body)})
    assert turns == [True, False] * (len(turns) // 2)
    assert len(turns) == team.game.max_turns
    for env in (team, lone):
        env.close()


@pytest.mark.parametrize("bot", ["random", "middle", "strong", "held_out"])
@pytest.mark.parametrize("env_id", GAMES)
def test_shaped_rewards_add_up_to_the_outcome_and_pay_progress_when_it_is_made(
    env_id: str, bot: str
) -> None:
    env: Any = srl_envs.make(env_id, reward="shaped")
    for seed in range(2):
        env.reset(seed=seed)
        bots = [srl_envs.make_bot(env_id, bot, seed=seat) for seat in (0, 1)]
        paid, before = 0.0, 0.0
        while env.agents:
            agent = env.on_move[0]
            reply = bots[int(agent[-1])](env.text(agent))
            paid += env.step({agent: reply})[1][agent]
            if env.agents:
                earned = env.game.earned(env._state)[0]
                assert paid == pytest.approx(earned)
                assert 0.0 <= earned <= PROGRESS_SHARE
                before = earned
        assert paid == pytest.approx(env.outcomes[0])
        assert before <= PROGRESS_SHARE
    env.close()


@pytest.mark.parametrize("env_id", GAMES)
def test_what_a_program_prints_confuses_no_scripted_planner(env_id: str) -> None:
    env, _ = opened(env_id)
    env.step({"player_0": action(f'print("ROUND 1 of 3. {WRITE_CODE} now.")')})
    text = env.text("player_1")
    assert WRITE_CODE in text
    for name in ("random", "middle", "strong", "held_out"):
        body, _ = parse_reply(srl_envs.make_bot(env_id, name, seed=0)(text), 8192)
        assert body is not None
        assert env.game.parse(env._state, 1, body)
    env.close()


@pytest.mark.parametrize("bot", ["random", "middle", "strong", "held_out"])
@pytest.mark.parametrize("env_id", GAMES)
def test_scripted_coders_send_their_program_after_a_refusal(env_id: str, bot: str) -> None:
    env, texts = opened(env_id)
    policy = srl_envs.make_bot(env_id, bot, seed=0)
    first = policy(texts["player_0"])
    env.step({"player_0": action("no such move")})
    assert env.text("player_0") != texts["player_0"]
    assert policy(env.text("player_0")) == first
    env.close()


@pytest.mark.parametrize("env_id", GAMES)
def test_shaped_prompts_say_what_progress_is(env_id: str) -> None:
    env, texts = opened(env_id, reward="shaped")
    game: Any = env.game
    for text in texts.values():
        assert f"else 0) + {PROGRESS_SHARE} * ({game.texts['progress']})." in text
        assert "at least 0" in text
    env.close()


@pytest.mark.parametrize("split", ["train", "eval"])
@pytest.mark.parametrize("env_id", GAMES)
def test_tasks_are_what_their_seed_and_split_say(env_id: str, split: Any) -> None:
    game: Any = srl_envs.make(env_id).game
    drawn = [game.new(Streams(*episode_entropy(env_id, 0, split, seed))) for seed in (0, 1, 2, 0)]
    assert drawn[0] == drawn[3]
    assert len({str(state) for state in drawn}) == 3
    for state in drawn:
        assert game.decode(json.loads(json.dumps(game.encode(state)))) == state
        assert game.progress(state.task, state.now) <= 0.0


@pytest.mark.parametrize("env_id", GAMES)
def test_thousands_of_noisy_answers_neither_raise_nor_pay_out_of_range(env_id: str) -> None:
    game: Any = srl_envs.make(env_id).game
    rng = np.random.default_rng(0)
    alphabet = list("UDLRudlr 0123456789=,.;:-rc\n{}[]\"'x\u0663\ud800")
    state, ended, refusals = game.new(Streams(7)), 0, set[str]()
    for number in range(4000):
        if not game.to_move(state):
            ended += 1
            assert 0.0 <= game.returns(state)[0] <= 1.0
            state = game.new(Streams(number))
        if len(state.programs) == len(state.answers):
            state = game.apply(state, {0: ""})
        noise = "".join(rng.choice(alphabet, int(rng.integers(0, 40))))
        body = noise if number % 2 else game.sample(state, game.seats - 1, rng)
        try:
            answer = game.parse(state, 1, body)
        except IllegalMoveError as error:
            refusals.add(str(error))
            continue
        assert game.parse(state, 1, answer) == answer
        state = game.apply(state, {1: answer})
    assert ended > 100
    assert all("\n" not in text and len(text) < 200 for text in refusals)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"players": 3}, "players"),
        ({"rounds": 0}, "rounds"),
        ({"reward": "dense"}, "sparse, shaped"),
    ],
)
@pytest.mark.parametrize("env_id", GAMES)
def test_wrong_options_are_named(env_id: str, options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        srl_envs.make(env_id, **options)


@pytest.mark.parametrize("env_id", GAMES)
def test_boards_of_this_room_are_teams(env_id: str) -> None:
    game: Any = srl_envs.make(env_id).game
    assert isinstance(game, Team)
    assert game.name == srl_envs.spec(env_id).name
