"""What a manifest holds about the machine that made it."""

import pytest

from leaderboards.provenance import provenance, without_folders


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("srl leaderboard run --all --out runs/b", "srl leaderboard run --all --out runs/b"),
        ("srl leaderboard run nim --out /home/ann/b", "srl leaderboard run nim --out b"),
        ("srl run --out=/b/c/ --seeds 3", "srl run --out=c/ --seeds 3"),
        ("srl run --out ~/ann/runs", "srl run --out runs"),
        ("srl run --agent a@3=tiny+/x/y/a@3", "srl run --agent a@3=tiny+a@3"),
        ("srl run --out '/my home/b c'", "srl run --out 'b c'"),
        ("srl run --agent me=openai:o/m@http://h:80/v1", None),
        (
            "srl run --agent 'a=tiny+/x/a?prompt=/y/p.yaml'",
            "srl run --agent 'a=tiny+a?prompt=p.yaml'",
        ),
        ("srl run --training-data 'a/b and 1/2'", None),
    ],
)
def test_no_folder_of_the_machine_is_kept(command: str, kept: str | None) -> None:
    assert without_folders(command) == (kept or command)


def test_a_manifest_has_the_command_without_folders() -> None:
    made = provenance("nim-v0", "srl leaderboard run nim --out /home/ann/b", "2000-01-01")
    assert made["command"] == "srl leaderboard run nim --out b"
