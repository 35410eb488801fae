"""Every kind of attack finds the toy game that is broken for it, and nothing in a sound one."""

import re
from pathlib import Path

import pytest

from srl_envs import parallel, registry
from srl_envs.core import Game
from srl_envs.redteam import attack, matches
from srl_envs.redteam.attacks import Attack
from srl_envs.redteam.budget import Budget
from srl_envs.redteam.findings import Report, load_case, save_case
from srl_envs.redteam.probes import answers
from srl_envs.redteam.probes import verdicts as programs
from srl_envs.redteam.programs import plain_python
from srl_envs.redteam.table import markdown
from srl_envs.rewards import AnswerMatcher, Score
from srl_envs.sandbox import CodeExecutor, Outcome
from srl_envs.turns import conduct
from srl_envs.turns.grammar import parse_reply
from tests.redteam import toy_games
from tests.redteam.toy_games import FewHints, Hints, Sums

BROKEN = [
    toy_games.SmallAnswerPays, toy_games.ForfeitIsADraw, toy_games.PartnerPays, toy_games.OneStream,
    toy_games.RawWords, toy_games.Locked, toy_games.Misnamed, toy_games.Spectated,
    toy_games.Untold, Hints, FewHints,
]  # fmt: skip
STEPS = 4000


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))
    monkeypatch.setattr(conduct, "_bodies", {})  # what another grammar read


def attacked(game: type[Game], seed: int = 0, steps: int = STEPS) -> Report:
    bots = {"random": "guessing_bot", "strong": "adding_bot"}
    if issubclass(game, Hints):
        bots = {"random": "meaning_bot", "strong": "meaning_bot"}
    registry.register(
        id="toy-v0", entry_point=f"{toy_games.__name__}:{game.__name__}", mode=game.mode, seats=game.seats,
        bots={name: f"{toy_games.__name__}:{bot}" for name, bot in bots.items()},
        held_out=not issubclass(game, Hints),
    )  # fmt: skip
    return attack.attack("toy-v0", seed=seed, budget=Budget(steps=steps))


def test_a_sound_game_gives_no_finding() -> None:
    report = attacked(Sums)
    assert report.faults == []
    assert report.findings == []
    assert report.measures["gain"] < 0


@pytest.mark.slow
@pytest.mark.parametrize("game", BROKEN, ids=lambda game: game.__name__)
def test_each_fault_is_found_and_its_case_shows_it_again(game: type[Game], tmp_path: Path) -> None:
    kind = (game.__doc__ or "").partition(":")[0]
    report = attacked(game)
    found = {finding.kind: finding for finding in report.findings}
    assert kind in found
    case = load_case(save_case(found[kind], tmp_path)).case
    again = attack.check_case(case)
    assert again is not None
    assert again.kind == kind
    assert kind in markdown([report], "srl redteam toy-v0")


GRAMMARS = {
    "hidden_move_accepted": r"(?is)<action>(.*?)</action>",
    "clear_move_refused": r"<action>(\d+)</action>$",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", GRAMMARS)
def test_a_grammar_that_reads_otherwise_is_found(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def last_match(reply: str, _limit: int) -> tuple[str, None] | tuple[None, str]:
        found = re.findall(GRAMMARS[kind], reply)
        return (found[-1], None) if found else (None, "no block")

    monkeypatch.setattr(conduct, "parse_reply", last_match)
    assert kind in {finding.kind for finding in attacked(Sums).findings}


def test_a_grammar_that_takes_the_first_block_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = parse_reply

    def first_block(reply: str, limit: int) -> tuple[str, None] | tuple[None, str]:
        start, _, rest = reply.partition("</action>")
        return real(f"{start}</action>" if "<action>" in rest else reply, limit)

    monkeypatch.setattr(conduct, "parse_reply", first_block)
    found = {finding.kind: finding for finding in attacked(Sums).findings}
    assert "another move first" in found["move_misread"].observed
    assert attack.check_case(found["move_misread"].case) is not None
    monkeypatch.undo()


HEADERS = {
    "cost_of_refusal_untold": "",
    "refusal_costs_otherwise": "You may think. A reply without a move costs 0.1. Three forfeit.\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_that_tells_too_little_or_otherwise_is_found(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "write_header", lambda *_: HEADERS[kind])
    assert {finding.kind for finding in attacked(Sums).findings} == {kind}


def test_listed_moves_are_played_as_they_are_listed() -> None:
    """A suite lists whole replies or bodies; an attack that wraps them twice is refused every time."""
    with matches.opened("connect_four-v0") as env:
        players = {0: Attack(kind="rank", position=1.0), 1: Attack(kind="legal")}
        episode = matches.play(env, players, 0)
    assert len(episode.accepted) == sum(map(len, episode.replies))


@pytest.mark.slow
def test_the_seed_decides_everything() -> None:
    first, second = (attacked(toy_games.SmallAnswerPays, seed=3) for _ in range(2))
    for report in (first, second):
        report.spent_s = 0.0
        for reader in report.measures["readers"]:
            reader["cpu_s"] = 0.0
    assert first == second


def test_forged_answers_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matcher that takes whatever contains the answer is fooled by every hedge."""

    def contains(self: AnswerMatcher, *, reply: str, answer: str) -> Score:
        return Score(float(answer in reply), "match")

    monkeypatch.setattr(AnswerMatcher, "score", contains)
    report = attack.attack(answers.TARGET, budget=Budget(steps=800))
    tricks = {str(finding.case["trick"]) for finding in report.findings}
    assert {"tautology", "candidates with or", "a negation", "trailing zeros"} & tricks >= {
        "tautology", "candidates with or", "a negation",
    }  # fmt: skip
    assert "not in lowest terms" in tricks


@pytest.mark.slow
def test_a_judge_that_believes_the_program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that share their names with the program are forged by one that shadows them."""

    def shared_names(self: CodeExecutor, program: str, tests: str) -> Outcome:
        held = plain_python.run_script(f"{program}\n{tests}\nprint('held')", timeout_s=5)
        return Outcome(status="ok", passed=held is not None)

    monkeypatch.setattr(CodeExecutor, "run_asserts", shared_names)
    tests = "for i in range(5):\n    assert f(i) == 2 * i"
    trick, source, _ = next(
        row for row in programs.forgeries() if row[2] == tests and "agreeing class" in row[0]
    )
    case = {
        "probe": "programs", "target": programs.TARGET, "kind": "forgery", "trick": trick,
        "program": source, "tests": tests,
    }  # fmt: skip
    found = attack.check_case(case)
    assert found is not None
    assert found.kind == "wrong_program_passes"
    honest = {**case, "program": "def f(x): return 2 * x"}
    assert attack.check_case(honest) is None


def test_a_thoughtless_policy_of_a_strange_scorer_is_no_target() -> None:
    assert {"answers", "formats", "programs"} <= set(attack.targets())
