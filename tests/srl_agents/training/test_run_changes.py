"""Changes of a run are listed with what they mean, and replays are compared only where nothing changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from srl_agents.recipes.sections.rollout import RolloutSettings
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.training.faults.survival import play_halved_after, write_event
from srl_agents.training.faults.vital_signs import Finding
from srl_agents.training.folder.changes import MEANINGS, Change, keep_changes, repeats_since
from srl_agents.training.folder.layout import changes_of, check_folder, write_recipe

RUN = LeagueRecipe(name="r", model="tiny", env="nim-v0")


def test_a_change_is_listed_with_its_effect(tmp_path: Path) -> None:
    write_recipe(RUN, tmp_path)
    here = replace(
        RUN,
        updates=99,
        device="cpu",
        rollout=RolloutSettings(group_size=4),
        training=GRPOSettings(learning_rate=0.5, micro_batch_rows=2),
    )
    check_folder(here, tmp_path)
    effects = {change.key: change.effect for change in changes_of(here, tmp_path)}
    assert effects == {
        "updates": "none",
        "device": "rounding",
        "rollout.group_size": "other",
        "training.learning_rate": "other",
        "training.micro_batch_rows": "rounding",
    }
    (line,) = [str(c) for c in changes_of(here, tmp_path) if c.key == "device"]
    assert line == f"device: 'auto' -> 'cpu' ({MEANINGS['rounding']})"


def test_replays_may_differ_until_a_checkpoint_was_written_with_the_new_settings(
    tmp_path: Path,
) -> None:
    """A kill between the change and the next checkpoint changes nothing in that."""
    assert repeats_since(tmp_path, 3)
    keep_changes(tmp_path, [Change(key="updates", there=5, here=9)], after=3)
    assert repeats_since(tmp_path, 3)
    keep_changes(tmp_path, [Change(key="device", there="cuda", here="cpu")], after=3)
    assert not repeats_since(tmp_path, 3)
    assert not repeats_since(tmp_path, 2)  # the newest was damaged
    assert repeats_since(tmp_path, 4)


def test_halved_play_is_found_by_update(tmp_path: Path) -> None:
    """Matches since then round differently when the same command plays them whole again."""
    assert play_halved_after(tmp_path) == 0
    finding = Finding(fault="play_out_of_memory", message="no room")
    for update, policy in ((3, "halve_play"), (4, "halve_play"), (9, "stop")):
        write_event(tmp_path, update, finding, policy)  # type: ignore[arg-type]
    assert play_halved_after(tmp_path) == 4
