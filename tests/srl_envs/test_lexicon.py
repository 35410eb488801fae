import re
from collections import Counter
from importlib import resources
from pathlib import Path

from srl_envs.lexicon import associations, common_words, undercover_pairs
from srl_envs.lexicon.build_words import words_by_level


def test_common_words_are_lower_case_words_of_three_levels() -> None:
    words = common_words()
    assert len(words) == 38_505
    assert all(re.fullmatch("[a-z]{4,}", word) for word in words)
    assert Counter(words.values()) == {10: 3785, 20: 6799, 35: 27_921}
    assert {"about": 10, "gymnast": 35}.items() <= words.items()


def test_the_build_program_keeps_each_fitting_word_at_its_lowest_level(tmp_path: Path) -> None:
    for level, english, american in (
        (10, "house\nAnna\ncat", "house\n"),
        (20, "house\ndon't", "color"),
        (35, "zebra\ncolor\nbadly", "caf\xe9"),
    ):
        (tmp_path / f"english-words.{level}").write_text(english, "latin-1")
        (tmp_path / f"american-words.{level}").write_text(american, "latin-1")
    assert words_by_level(tmp_path, re.compile("bad")) == {
        10: ["house"], 20: ["color"], 35: ["zebra"],
    }  # fmt: skip


def test_associations_are_single_words() -> None:
    table = associations()
    assert len(table) > 400
    for clue, nouns in table.items():
        assert all(re.fullmatch("[a-z]{3,}", word) for word in (clue, *nouns))
        assert len(set(nouns)) == len(nouns) >= 2


def test_no_clue_gives_a_noun_away() -> None:
    nouns = {noun for group in associations().values() for noun in group}
    assert not nouns & associations().keys()
    for clue, group in associations().items():
        assert not [noun for noun in group if noun in clue or clue in noun]


def test_every_clue_stands_once_in_the_file() -> None:
    text = resources.files("srl_envs.lexicon").joinpath("associations.txt").read_text("ascii")
    clues = [line.partition(":")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(set(clues)) == len(clues) == len(associations())


def test_the_files_are_small_and_come_with_their_notices() -> None:
    folder = resources.files("srl_envs.lexicon")
    files = {file.name: len(file.read_bytes()) for file in folder.iterdir() if file.is_file()}
    assert sum(files.values()) < 300_000
    assert {"README.md", "SCOWL-COPYRIGHT.txt"} <= files.keys()
    notice = folder.joinpath("SCOWL-COPYRIGHT.txt").read_text("utf-8")
    assert "Permission to use, copy, modify, distribute and sell these word" in notice


def test_pairs_share_clues_and_each_word_has_one_of_its_own() -> None:
    clues: dict[str, set[str]] = {}
    for clue, nouns in associations().items():
        for noun in nouns:
            clues.setdefault(noun, set()).add(clue)
    pairs = undercover_pairs()
    assert len({frozenset(pair) for pair in pairs}) == len(pairs) >= 100
    for first, second in pairs:
        assert len(clues[first] & clues[second]) >= 2
        assert clues[first] - clues[second]
        assert clues[second] - clues[first]
        assert first not in second
        assert second not in first
