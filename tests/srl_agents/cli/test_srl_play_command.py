import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import srl_envs
from srl_agents.agents import players
from srl_agents.cli.main import main
from srl_agents.cli.play import options_of
from srl_agents.cli.views.transcript import LONGEST_SHOWN, news, printable
from tests.chat_server import MODEL, chat_server

Streams = pytest.CaptureFixture[str]
SMALL = ["--option", "rows=4", "--option", "cols=4", "--option", "k=3"]


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What a person will type."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


# --- what is shown ------------------------------------------------------------------------------


def test_a_live_transcript_tells_the_whole_game(capsys: Streams) -> None:
    assert main(["play", "connect_four-v0", "random", "bot:strong", "--seed", "5", *SMALL]) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "connect_four-v0, seed 5 (train). player_0: random, player_1: bot:strong\n"
    )
    assert out.count("Drop a piece into a column") == 2  # the rules are shown once to each
    assert re.search(r"^player_1 \(bot:strong\): plays [1-5], reward \+1\.00$", out, re.MULTILINE)
    assert "Outcome: player_0 (random) -1.00, player_1 (bot:strong) +1.00." in out
    assert "player_0 (random): reward -1.00 = outcome -1, format 0, pieces" in out


def test_the_same_command_shows_the_same_game(capsys: Streams) -> None:
    shown = []
    for seed in ("1", "1", "2"):
        assert main(["play", "math_duel-v0", "random", "middle", "--seed", seed]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != shown[2]


def test_the_split_is_played(capsys: Streams) -> None:
    for split in ("train", "eval"):
        args = ["play", "math_duel-v0", "random", "random", "--split", split, "--json"]
        assert main(args) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["split"] for line in lines] == ["train", "eval"]
    assert lines[0]["digest"] != lines[1]["digest"]


def test_json_has_one_line_per_game_and_nothing_else(capsys: Streams) -> None:
    args = ["play", "connect_four-v0", "random", "strong", "--episodes", "2", "--mirror", "--json"]
    assert main([*args, *SMALL]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["seed"] for line in lines] == [0, 0, 1, 1]
    assert [line["policies"] for line in lines] == [["random", "strong"], ["strong", "random"]] * 2
    assert [line["options"] for line in lines] == [{"rows": 4, "cols": 4, "k": 3}] * 4
    assert all(sum(line["outcomes"]) == 0 for line in lines)


def test_quiet_prints_results_and_a_summary_that_adds_up(capsys: Streams) -> None:
    args = ["play", "connect_four-v0", "random", "strong", "--episodes", "4", "--mirror", "--quiet"]
    assert main([*args, *SMALL]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("game ")]) == 8
    random, strong = (line.split() for line in lines[-2:])
    won = sum("(strong) +1.00" in line for line in lines)
    assert int(strong[2]) == won > 4
    assert (random[0], strong[0], random[1], strong[1]) == ("random", "strong", "8", "8")
    assert random[2:5] == strong[2:5][::-1]
    assert float(random[5]) == -float(strong[5]) < 0


def test_the_option_decides_how_many_policies_are_needed(capsys: Streams) -> None:
    two = ["liars_dice-v0", "--option", "players=2", "strong", "random", "--mirror", "--json"]
    assert main(["play", *two]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [len(line["outcomes"]) for line in lines] == [2, 2]
    assert main(["play", *two[:4]]) == 2
    assert "liars_dice-v0 has 2 seats" in capsys.readouterr().err


def test_a_saved_transcript_replays(tmp_path: Path, capsys: Streams) -> None:
    path = tmp_path / "game.jsonl"
    args = ["play", "math_duel-v0", "middle", "strong", "--save", str(path)]
    assert main([*args, "--option", "problems=2"]) == 0
    assert f"Saved to {path}." in capsys.readouterr().out
    assert srl_envs.replay(srl_envs.load_transcript(path)).options == {"problems": 2}
    assert main([*args, "--episodes", "2", "--quiet"]) == 0
    saved = [srl_envs.load_transcript(tmp_path / f"game-{n}.jsonl").seed for n in (1, 2)]
    assert saved == [0, 1]


def test_a_terminal_gets_panels(monkeypatch: pytest.MonkeyPatch, capsys: Streams) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["play", "connect_four-v0", "random", "strong", *SMALL]) == 0
    out = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().out)  # without colours
    assert "╭─ turn 1, player_" in out
    assert "│ Connect four. Drop a piece" in out


# --- a person -----------------------------------------------------------------------------------


def test_a_person_plays_by_body_or_by_reply(
    keyboard: Callable[[str], None], capsys: Streams
) -> None:
    keyboard("5\nhelp\n<action>\n7; 2\n</action>\n  pass  \n\npass\npass\npass\n")
    assert main(["play", "math_duel-v0", "human", "strong", "--seed", "2"]) == 0
    out = capsys.readouterr().out
    assert "You: 7; 2" in out
    assert "player_0 (human): NOT ACCEPTED (illegal), reward -0.05" in out
    assert out.count("(human): NOT ACCEPTED") == 1
    assert "not accepted: There is no semicolon" in out
    assert "quit` leaves the game" in out
    assert "Outcome: player_0 (human)" in out


def test_a_person_sees_legal_moves_but_not_the_others_thoughts(
    keyboard: Callable[[str], None], capsys: Streams
) -> None:
    keyboard("1\n2\n3\nquit\n")
    assert main(["play", "connect_four-v0", "human", "middle"]) == 1
    out = capsys.readouterr().out
    assert "legal: 1, 2, 3, 4, 5, 6, 7" in out
    assert "(middle) sees" not in out
    assert "(middle) replies" not in out
    assert "player_0 (human): plays 1\n" in out
    assert "(middle): has moved" in out
    assert "(middle): plays" not in out


@pytest.mark.parametrize(
    ("typed", "said"),
    [("quit\n", "you left in turn 1"), ("", "the input ended in turn 1"), ("4\nEXIT\n", "turn 2")],
)
def test_a_person_may_leave(
    typed: str, said: str, keyboard: Callable[[str], None], capsys: Streams, tmp_path: Path
) -> None:
    keyboard(typed)
    path = tmp_path / "game.jsonl"
    assert main(["play", "connect_four-v0", "human", "random", "--save", str(path)]) == 1
    assert said in capsys.readouterr().out
    assert not path.exists()


def test_a_person_types_a_program(keyboard: Callable[[str], None], capsys: Streams) -> None:
    keyboard('```python\ndef solve(data):\n\n    return data\n```\n["a"]\n')
    main(["play", "code_duel-v0", "human", "empty", "--seed", "1"])
    out = capsys.readouterr().out
    assert "player_0 (human): plays def solve(data): ... (3 lines)" in out


def test_two_persons_may_share_a_keyboard(keyboard: Callable[[str], None], capsys: Streams) -> None:
    keyboard("1\n2\n1\n2\n1\n2\n1\n")
    args = ["play", "connect_four-v0", "human", "human"]
    assert main(args) == 0
    out = capsys.readouterr().out
    assert "player_0> " in out
    assert "player_1> " in out
    assert out.count("sees at the end") == 2


# --- language models ----------------------------------------------------------------------------


def test_models_are_loaded_once_and_bots_made_anew(
    monkeypatch: pytest.MonkeyPatch, capsys: Streams
) -> None:
    made: list[tuple[object, ...]] = []
    real = players.ScriptedPolicy.player

    def noted(policy: players.ScriptedPolicy, env_id: str, seed: int) -> object:
        made.append((policy.bot, seed))
        return real(policy, env_id, seed)

    monkeypatch.setattr(players.ScriptedPolicy, "player", noted)
    with chat_server(reply=lambda _: "<action>1</action>") as server:
        agent = f"openai:{MODEL}@{server.url}"
        args = ["play", "connect_four-v0", agent, "middle", "--episodes", "2", "--seed", "4"]
        assert main([*args, "--mirror", "--quiet", "--max-new-tokens", "9"]) == 0
        assert [request["max_tokens"] for request in server.requests[:2]] == [1, 9]
    assert made == [("middle", 2 * seed + 1) for seed in (4, 4, 5, 5)]


def test_a_reply_of_a_model_cannot_drive_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: Streams
) -> None:
    noise = "\x1b[2J\x07[bold]\ud800" + "x" * 1_000_000
    monkeypatch.setattr(players.ScriptedPolicy, "player", lambda *_: lambda _: noise)
    args = ["play", "connect_four-v0", "random", "random", "--option", "invalid=forfeit"]
    assert main(args) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b[2J\\x07[bold]\\ud800xxx" in out
    assert f"... and {len(noise) - LONGEST_SHOWN} characters more" in out
    assert "forfeited" in out


@pytest.mark.parametrize(
    ("mode", "refusals", "moves"), [("retry", 15, 4), ("forfeit", 1, 0), ("random_legal", 10, 10)]
)
def test_a_move_made_for_a_seat_is_told(
    mode: str, refusals: int, moves: int, monkeypatch: pytest.MonkeyPatch, capsys: Streams
) -> None:
    monkeypatch.setattr(players.ScriptedPolicy, "player", lambda *_: lambda _: "no block")
    args = ["play", "connect_four-v0", "random", "random", "--option", f"invalid={mode}"]
    assert main(args) == 0
    out = capsys.readouterr().out
    assert out.count("(random): NOT ACCEPTED (malformed)") == refusals
    assert len(re.findall(r"\(malformed\), [1-7] is played for it", out)) == moves


@pytest.mark.slow
def test_the_shipped_model_plays(capsys: Streams) -> None:
    args = ["play", "math_duel-v0", "tiny", "random", "--option", "problems=1", "--json"]
    assert main([*args, "--max-new-tokens", "16"]) == 0
    assert json.loads(capsys.readouterr().out)["policies"] == ["tiny", "random"]


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["conect_four-v0", "random", "random"], "Did you mean 'connect_four-v0'?"),
        (["connect_four-v0"], "has 2 seats, one policy each; none given. Try: srl play"),
        (["connect_four-v0", "strong"], "1 given (strong). Try: srl play connect_four-v0 strong"),
        (["connect_four-v0", "a", "b", "c"], "3 given (a, b, c)"),
        (["connect_four-v0", "randon", "middle"], "Did you mean 'random'?"),
        (["connect_four-v0", "bot:midle", "middle"], "Did you mean 'middle'?"),
        (["connect_four-v0", "humen", "middle"], "Did you mean 'human'?"),
        (["connect_four-v0", "tinny", "middle"], "Did you mean 'tiny'?"),
        (["connect_four-v0", "random", "random", "--option", "row=5"], "Did you mean 'rows'?"),
        (["connect_four-v0", "random", "random", "--option", "rows"], "write KEY=VALUE"),
        (["connect_four-v0", "random", "random", "--option", "=5"], "write KEY=VALUE"),
        (["connect_four-v0", "random", "random", "--option", "rows=x"], "rows='x'; give 4 to 9"),
        (["connect_four-v0", "random", "random", *SMALL, "--option", "k=4"], "k is given twice"),
        (["connect_four-v0", "random", "random", "--split", "evl"], "Did you mean 'eval'?"),
        (["connect_four-v0", "random", "random", "--seed", "-1"], "whole number >= 0"),
        (["connect_four-v0", "random", "random", "--episodes", "0"], "play 1 or more"),
        (["connect_four-v0", "random", "random", "--max-new-tokens", "0"], "give 1 or more"),
        (
            ["connect_four-v0", "random", "random", "--save", "/no/where.jsonl"],
            "folder /no does not exist",
        ),
        (["connect_four-v0", "human", "random", "--json"], "leave out --json and --quiet"),
        (["connect_four-v0", "human", "random", "--quiet"], "leave out --json and --quiet"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(args: list[str], said: str, capsys: Streams) -> None:
    assert main(["play", *args]) == 2
    streams = capsys.readouterr()
    assert said in streams.err
    assert streams.err.startswith("srl play: ")
    assert streams.err.count("\n") == 1
    assert streams.out == ""


def test_a_transcript_that_cannot_be_written_says_so(tmp_path: Path, capsys: Streams) -> None:
    args = ["play", "connect_four-v0", "random", "random", "--save", str(tmp_path), "--quiet"]
    assert main(args) == 2
    assert "Is a directory" in capsys.readouterr().err


def test_help_has_examples(capsys: Streams) -> None:
    assert main(["play", "--help"]) == 0
    assert "srl play connect_four-v0 human middle" in capsys.readouterr().out


# --- parts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("a\nb", "a\nb\nc", "c"),
        ("rules\n..\n..\n12", "rules\n..\nX.\n12", "..\nX.\n12"),
        ("a\nb", "a\nb", "(nothing new)"),
        ("one\ntwo2\nthree\nfours", "1\ntwo2\nthree\n4444", "1\ntwo2\nthree\n4444"),
        ("", "a\n\nb", "a\n\nb"),
    ],
)
def test_news(before: str, after: str, shown: str) -> None:
    assert news(before, after) == shown


def test_printable_keeps_text_and_escapes_control() -> None:
    assert printable("é 漢字\n\tok") == "é 漢字\n\tok"
    assert printable("\x1b[0m\r\x00\u202e") == "\\x1b[0m\\r\\x00\\u202e"


@pytest.mark.parametrize(
    ("pairs", "options"),
    [
        ((), {}),
        (("rows=5",), {"rows": 5}),
        (("invalid=forfeit",), {"invalid": "forfeit"}),
        (("families=a,b",), {"families": ["a", "b"]}),
        (('families=["a"]',), {"families": ["a"]}),
        (("name=x=y",), {"name": "x=y"}),
        (("flag=true",), {"flag": True}),
    ],
)
def test_options_are_read(pairs: tuple[str, ...], options: dict[str, object]) -> None:
    assert options_of(pairs) == options
