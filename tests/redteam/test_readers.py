"""Attack programs read numbers of the prompt, and what they earn is confirmed on fresh instances."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srl_envs
from srl_envs import registry
from srl_envs.core import Streams
from srl_envs.families.bargaining.sealed_auction import Sale, SealedAuction
from srl_envs.redteam import attack, betting, matches, readers
from srl_envs.redteam.attacks import Turn
from srl_envs.redteam.budget import Budget
from srl_envs.redteam.findings import Report
from srl_envs.redteam.probes import readers as probe
from srl_envs.redteam.readers import answers, codes, hunt
from srl_envs.redteam.readers.features import bounds, clocks, value
from srl_envs.redteam.readers.learned import Explorer, untrained
from srl_envs.redteam.readers.programs import Move, Reader, Rule, Threshold
from srl_envs.redteam.search import ITSELF, companies
from srl_envs.turns import conduct
from tests.redteam.toy_games import Sums

AUCTION = "srl_envs.families.bargaining.sealed_auction_bots"
LARGE = Rule(
    tests=(Threshold(feature="Item #: worth # to you [1]", bound=7.0),),
    move=Move(kind="rank", position=1.0),
)


def test_a_rule_reads_the_last_line_of_its_template() -> None:
    reader = Reader(rules=(LARGE,), move=Move(kind="refuse"))
    assert reader.choose("Item 1: worth 9 to you\nItem 2: worth 3 to you").kind == "refuse"
    assert reader.choose("Item 1: worth 3 to you\nItem 2: worth 9 to you").kind == "rank"
    assert reader.choose("You are out.").kind == "refuse"


def test_features_are_what_varies() -> None:
    found = bounds(
        [f"Round {k} of 9: bid up to 20, {'you lead' if k > 3 else 'wait'}" for k in range(9)]
    )
    assert "has lead" in found
    assert value("has lead", "you lead") == 1.0
    round_of, most = (f"Round # of #: bid up to #, wait [{k}]" for k in (0, 2))
    assert round_of in found
    assert most not in found


def test_a_number_that_counts_turns_is_a_clock() -> None:
    first = [f"Round {k} of 9: 7 coins, {9 - k} left, {k * k} apples" for k in range(4)]
    line = "Round # of #: # coins, # left, # apples"
    names = [f"{line} [{place}]" for place in ("0", "3", "1-0", "3-2")]
    assert clocks([first, first[:3], ["Round 8"]]) == names


def test_a_program_is_data() -> None:
    reader = Reader(rules=(LARGE,), move=Move(kind="bot", name="strong", shift=2))
    assert Reader.from_data(reader.to_data()) == reader


def test_the_interval_holds_at_every_look() -> None:
    """At a mean of 0 at most one run in twenty may ever exclude it, though each is looked at 5 times."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(40):
        values = rng.choice([-1.0, 0.1], p=[1 / 11, 10 / 11], size=320)
        looks = [
            betting.interval(values[:n].tolist(), least=-2, most=2) for n in (20, 40, 80, 160, 320)
        ]
        wrong += any(look.low > 0 or look.high < 0 for look in looks)
    assert wrong <= 2
    clear = betting.interval(rng.normal(0.1, 0.2, size=1500).tolist(), least=-2, most=2)
    assert 0.05 < clear.low < 0.1 < clear.high < 0.15


class LargeNumbersPay(Sums):
    """reader_beats_strong: the seat that answers the first number of the sum wins as well, and twice."""

    def points(self, state: Any) -> tuple[int, int]:
        first = [
            sum(
                pair[seat] == numbers[0]
                for numbers, pair in zip(state.numbers, state.answers, strict=False)
            )
            for seat in (0, 1)
        ]
        mine, theirs = super().points(state)
        return mine // 2 + first[0], theirs // 2 + first[1]


def hunted(game: type[Sums], monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))
    monkeypatch.setattr(conduct, "_bodies", {})
    bots = {
        "random": "tests.redteam.toy_games:guessing_bot",
        "strong": "tests.redteam.toy_games:adding_bot",
    }
    entry = f"{game.__module__}:{game.__name__}"
    registry.register(id="toy-v0", entry_point=entry, mode=game.mode, seats=game.seats, bots=bots)
    report = Report(target="toy-v0")
    probe.probe("toy-v0", 0, report, Budget(steps=3000).whole())
    return report


@pytest.mark.slow
def test_a_number_of_the_prompt_that_pays_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    report = hunted(LargeNumbersPay, monkeypatch)
    assert {finding.kind for finding in report.findings} == {"reader_beats_strong"}
    assert any("number" in finding.observed for finding in report.findings)
    again = attack.check_case(report.findings[0].case)
    assert again is not None
    assert again.detail == report.findings[0].detail


class SellsAtNine(SealedAuction):
    """reader_beats_strong: what is bid for at all is sold, as in the first version of the auction."""

    def new(self, streams: Streams) -> Sale:
        sale = super().new(streams)
        return sale._replace(reserves=(9,) * len(sale.reserves))


@pytest.mark.slow
def test_a_ring_that_needs_no_word_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))
    bots = {name: f"{AUCTION}:{name}_bot" for name in ("random", "truthful", "middle", "strong")}
    entry = f"{__name__}:{SellsAtNine.__name__}"
    registry.register(id="ring-v0", entry_point=entry, mode="mixed", seats=4, bots=bots)
    found = list(hunt.hunt("ring-v0", 0, Budget(steps=6000).whole(), ["itself"]))
    assert max(one.gain.low for one in found) > 0.03


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(("bot", "least"), [("grim", 0.02), ("forgiving", 0.02)])
def test_a_known_end_and_a_bot_that_forgives_are_found_in_the_commons(
    bot: str, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))
    monkeypatch.setattr(conduct, "_bodies", {})
    bots = {**srl_envs.spec("commons-v1").bots, "strong": f"tests.redteam.weak_commons:{bot}_bot"}
    entry = "tests.redteam.weak_commons:KnownEnd"
    registry.register(id="weak_commons-v0", entry_point=entry, mode="mixed", seats=4, bots=bots)
    found = list(hunt.hunt("weak_commons-v0", 0, Budget(steps=7000).whole(), ["strong"]))
    assert max(one.gain.low for one in found) > 0
    assert max(one.gain.mean for one in found) > least


@pytest.mark.slow
def test_a_sound_game_gives_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    report = hunted(Sums, monkeypatch)
    assert report.findings == []
    assert report.measures["readers"][0]["high"] >= 0


def test_no_generator_names_a_game() -> None:
    """No part of a game's name occurs in an attack program, but for words of programming."""
    names = {part for env_id in srl_envs.list_envs() for part in re.split(r"[_-]", env_id)}
    names -= {"v0", "spec", "word", "code", "chain", "pair"}
    names -= {"plan", "path", "solve", "and", "verify", "test", "research", "room"}
    for path in Path(readers.__file__).parent.glob("*.py"):
        code = set(re.findall(r"[a-z]+", path.read_text(encoding="utf-8").lower()))
        assert not code & names, path.name


def test_the_best_answer_beats_what_the_other_tends_to_send() -> None:
    """It earns in one step what the strong bot does not, and only where nothing is hidden."""
    rng = np.random.default_rng(0)
    with matches.opened("blotto-v0", rounds=1) as env:
        gains = []
        for seed in range(6):
            env.reset(seed=seed)
            body = answers.best_answer(env, 0, "even", ["20 0 0 0 0"], rng)
            state = env.get_state()
            for reply in (f"<action>{body}</action>", None):
                env.set_state(state)
                mine = reply or srl_envs.make_bot("blotto-v0", "middle", seed=seed)(
                    env.text("player_0")
                )
                other = srl_envs.make_bot("blotto-v0", "even", seed=seed)(env.text("player_1"))
                env.step({"player_0": mine, "player_1": other})
                gains.append(env.outcomes[0])
    assert min(gains[::2]) > max(0.3, float(np.mean(gains[1::2])))
    with matches.opened("sealed_auction-v1") as env:
        env.reset(seed=0)
        assert answers.best_answer(env, 0, "strong", ["0"], rng) is None


def test_neighbours_of_a_body_keep_its_sum() -> None:
    assert answers.neighbours("2 0") == ["1 1"]
    assert answers.neighbours("bid 3") == ["bid 2", "bid 4"]


def test_partners_find_the_seat_that_reads_another_secret() -> None:
    def turn(text: str, *moves: str) -> Turn:
        return Turn(text, 0, 0, 3, moves, lambda _: "hello")

    rng = np.random.default_rng(0)
    said = "".join(
        f'p_{seat}: "{codes.word(secret, f"p_{seat}", 0)}"\n'
        for seat, secret in enumerate(["sea", "bay"])
    )
    assert codes.coded("Word", turn(f"You are p_2. Word: sea\n{said}", "p_0", "p_1"), rng) == "p_1"
    assert codes.coded("Word", turn(f"You are p_2. Word: bay\n{said}", "p_0", "p_1"), rng) == "p_0"
    assert codes.coded("Word", turn("You are p_2. Word: bay"), rng) == codes.word("bay", "p_2", 0)
    assert codes.labels([["Word: sea\nSize: 3", "Word: bay\nSize: 3"]]) == ["Word"]


@pytest.mark.slow
def test_a_code_of_copies_pays_a_team_and_earns_nothing_among_strangers() -> None:
    """In undercover: more than .02 as a team, as it was scored once; at most .02 among the bots in turn, as a
    board scores it."""
    code = Reader(move=Move(kind="code", name="Your word"))
    assert ITSELF not in hunt.tables("undercover-v0")
    with matches.opened("undercover-v0") as env:
        team = hunt.confirm(hunt.Room(env, ITSELF, "strong"), code, 0.05, 240)[0]
        rooms = [hunt.Room(env, company, "strong") for company in hunt.tables("undercover-v0")]
        gains = [float(np.mean([room.gain(code, seed) for room in rooms])) for seed in range(160)]
    assert team.low > 0.02
    assert betting.interval(gains, least=-2.0, most=2.0).high <= 0.02


def test_a_case_of_a_team_is_none_where_strangers_are_scored() -> None:
    code = Reader(move=Move(kind="code", name="Your word"))
    case = {"probe": "readers", "target": "undercover-v0", "program": code.to_data(),
            "company": ITSELF, "seeds": 160}  # fmt: skip
    assert ITSELF not in (*hunt.tables("undercover-v0"), *companies("undercover-v0"))
    assert attack.check_case(case) is None
    assert Move(kind="code", name="Your word") in probe_material("undercover-v0").moves


def probe_material(env_id: str) -> hunt.Material:
    with matches.opened(env_id) as env:
        return hunt.watch(env, "strong")


def test_a_learned_policy_takes_the_move_that_paid_at_its_features() -> None:
    high, low = (Move(kind="rank", position=place) for place in (1.0, 0.0))
    feature = "worth # [0]"
    policy = untrained((high, low), {feature: [0.0, 10.0]})
    explorer = Explorer(policy, np.random.default_rng(0))
    for worth in range(11):
        for _ in range(20):
            pays = explorer.choose(f"worth {worth}") == (high if worth > 5 else low)
            explorer.earn(float(pays))
    learned = explorer.improved()
    assert [learned.choose(f"worth {worth}") for worth in (1, 9)] == [low, high]
    assert hunt.read_program(learned.to_data()) == learned
