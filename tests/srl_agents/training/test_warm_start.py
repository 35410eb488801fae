"""Bots' replies become rows of the model's template; what does not fit is counted, never cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.recipes.sections.warm_start import WarmStartSettings
from srl_agents.records import Episode, MatchSpec, Trajectory, Turn
from srl_agents.sharing.demonstrations import Demonstration
from srl_agents.training.start.imitation import _shuffled, demonstrations_of
from srl_envs.errors import ConfigError


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> BaseModel:
    folder = random_model.build(tmp_path_factory.mktemp("model"), context=64)
    return BaseModel.load(folder, lora_rank=2, device="cpu")


def turn(observation: str, reply: str, invalid: str | None = None) -> Turn:
    return Turn(
        turn_index=0,
        observation=observation,
        reply=reply,
        invalid=invalid,
        reward=0.0,
        components={},
    )


def episode(
    *seats: tuple[str, float, Sequence[Turn]], termination: Any = "ok", number: int = 0
) -> Episode:
    spec = MatchSpec(
        env_id="nim-v0",
        seed=1,
        split="train",
        seats=tuple(policy for policy, _, _ in seats),
        number=number,
    )
    return Episode(
        spec=spec,
        termination=termination,
        trajectories=tuple(
            Trajectory(
                seat=seat,
                policy=policy,
                turns=tuple(turns),
                outcome=outcome,
                total_reward=outcome,
                components={},
            )
            for seat, (policy, outcome, turns) in enumerate(seats)
        ),
    )


def read(base: BaseModel, rows: Sequence[Demonstration]) -> list[tuple[str, str, str]]:
    decode = base.tokenizer.decode
    return [(decode(list(r.prompt_ids)), decode(list(r.reply_ids)), r.by) for r in rows]


BOTH = WarmStartSettings(bots=("weak", "strong"))


def test_rows_are_the_models_chat_with_the_token_that_ends_a_reply(base: BaseModel) -> None:
    played = episode(("bot:weak", -1.0, [turn("X", "1")]), ("bot:strong", 1.0, [turn("Y", "2")]))
    rows, report = demonstrations_of([played], BOTH, base, 8)
    chat = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    assert read(base, rows) == [
        (chat.format("X"), "1<|im_end|>", "bot:weak"),
        (chat.format("Y"), "2<|im_end|>", "bot:strong"),
    ]
    assert report == {
        "episodes": 1,
        "void": 0,
        "refused": 0,
        "prompts_too_long": 0,
        "replies_too_long": 0,
        "rows": {"bot:weak": 1, "bot:strong": 1},
        "learners": {},
    }


def test_a_reply_cannot_end_itself_early(base: BaseModel) -> None:
    ids = base.encode_reply("a<|im_end|>b")
    assert ids.count(base.tokenizer.eos_token_id) == 1
    assert ids[-1] == base.tokenizer.eos_token_id


def test_what_does_not_fit_is_left_out_and_counted(base: BaseModel) -> None:
    turns = [
        turn("x" * 60, "1"),  # with the template more than the context's 64 tokens
        turn("X", "123456789"),  # more than 8 tokens, which no learner could write
        turn("X", "12345678"),
        turn("X", "9", "illegal"),
    ]
    lost = episode(("bot:weak", 0.0, [turn("X", "1")]), termination="void", number=1)
    rows, report = demonstrations_of([episode(("bot:weak", 0.0, turns)), lost], BOTH, base, 8)
    assert [reply for _, reply, _ in read(base, rows)] == ["12345678<|im_end|>"]
    assert {k: v for k, v in report.items() if v and k != "rows"} == {
        "episodes": 2,
        "void": 1,
        "refused": 1,
        "prompts_too_long": 1,
        "replies_too_long": 1,
    }


def test_only_wanted_bots_or_the_best_of_a_table_may_be_imitated(base: BaseModel) -> None:
    won = episode(("bot:weak", 1.0, [turn("X", "1")]), ("bot:strong", -1.0, [turn("X", "2")]))
    drawn = episode(("bot:weak", 0.0, [turn("X", "3")]), ("bot:strong", 0.0, [turn("X", "4")]))

    def kept(**settings: Any) -> list[str]:
        given = WarmStartSettings(bots=("weak", "strong"), **settings)
        rows, _ = demonstrations_of([won, drawn], given, base, 8)
        return [reply[0] for _, reply, _ in read(base, rows)]

    assert kept() == ["1", "2", "3", "4"]
    assert kept(keep="best") == ["1", "3", "4"]


def test_every_row_comes_once_per_pass_in_an_order_that_depends_on_the_seed() -> None:
    rows = [Demonstration(prompt_ids=(1,), reply_ids=(i,), by="bot:weak") for i in range(5)]

    def drawn(seed: int) -> list[int]:
        return [d.reply_ids[0] for some in islice(_shuffled(rows, 2, seed), 5) for d in some]

    first = drawn(1)
    assert sorted(first[:5]) == sorted(first[5:]) == [0, 1, 2, 3, 4]
    assert first == drawn(1) != drawn(2)
    assert len(next(_shuffled(rows, 12, 1))) == 12


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"bots": ()}, "at least one"),
        ({"bots": ("held_out",)}, "rating only"),
        ({"bots": ("weak",), "episodes": 0}, "episodes"),
        ({"bots": ("weak",), "updates": 0}, "updates"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        WarmStartSettings(**settings)


def test_a_recipe_with_an_unknown_bot_is_refused(tmp_path: Path) -> None:
    from srl_agents.recipes.loading import load
    from srl_agents.recipes.settings import LeagueRecipe

    path = tmp_path / "r.yaml"
    path.write_text("{name: a, model: tiny, env: nim-v0, warm_start: {bots: [storng]}}")
    with pytest.raises(ConfigError, match="no bot 'storng'"):
        load(LeagueRecipe, path)
