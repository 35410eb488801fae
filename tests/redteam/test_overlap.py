"""What counts as an instance for the probe for instances in both splits."""

import pytest

from srl_envs.redteam.probes.overlap import _new_words, _telling_lines

RULES = "Add the numbers that follow, and tell the sum; it is paid, nothing else."


def starts(form: str, values: int, count: int = 200) -> list[tuple[str, ...]]:
    """Starts whose second line has this form; their third line is different in each."""
    return [(f"{RULES}\n{form.format(k % values)}\nNumber {k}.",) for k in range(count)]


@pytest.mark.parametrize(
    ("form", "values", "telling"),
    [
        ("Round 1: the stock is {} units, and you may ask for 0 to 13 of these now.", 40, 0),
        ("Round 1: the stock is {} units, and you may ask for 0 to 13 of these now.", 190, 190),
        ("Stock {}.", 190, 0),  # too short to name anything
        ("Write a program that reads its input and prints the number {} at the end.", 1, 0),
    ],
)
def test_lines_of_the_rules_and_of_the_state_name_no_instance(
    form: str, values: int, telling: int
) -> None:
    assert len(_telling_lines(starts(form, values))) == telling


def test_a_task_told_in_words_names_an_instance_however_few_there_are() -> None:
    words = ["even", "odd", "prime", "round", "square", "small", "large", "red", "old", "new"]
    words += [f"{a} and {b}" for a in words for b in words]
    form = "Write a program that keeps the {} entries of the list that it is given."
    some = [(f"{RULES}\n{form.format(words[k % 30])}\nNumber {k}.",) for k in range(300)]
    assert len(_telling_lines(some)) == 30


def test_a_task_in_words_of_its_own_is_another_one_though_it_shares_a_line() -> None:
    known = {"Input: # valid dates, each a list of a year, a month and a day as numbers."}
    form = "Input: 2 valid dates, each a list of a year, a month and a day as numbers."
    task = "Tell how many leap days lie between the dates, both of them included, please."
    assert _new_words((f"{form}\n{task}",), known)
    assert not _new_words((f"{form}\nShort.",), known)


def test_a_forecast_above_a_map_of_its_own_names_no_instance() -> None:
    forecast = "Weather: calm at first. The forecast of the next turns is {} and then {}."
    sky, marks = ("calm", "rain", "storm"), ".fhs~^=C"
    some = [
        (
            f"{RULES}\n{forecast.format(sky[k % 3], sky[k // 3 % 3])}\n"
            + "".join(marks[k // 8**place % 8] for place in range(4)),
        )
        for k in range(300)
    ]
    assert _telling_lines(some) == set()


def test_a_list_of_rules_in_one_of_several_wordings_belongs_to_the_line_above_it() -> None:
    wordings = ("The weight of a 1 in a row is", "The weight of a 1 in a row equals")
    asked = "Fill the grid so that the sums are {}, as these rules say, one by one.\n"
    some = [
        (
            f"{RULES}\n{asked.format(k)}  1. Every cell is 0 or 1.\n  2. {wordings[k % 2]} the number of "
            f"its column, counted from the left.\nLike this: <action>{k % 4} 0</action>",
        )
        for k in range(300)
    ]
    telling = _telling_lines(some)
    assert len(telling) == 300
    assert telling.isdisjoint(_telling_lines([(some[0][0].replace("are 0", "are 1000"),)]))


def test_what_one_seat_holds_names_no_instance_unless_the_others_see_it() -> None:
    """Cards in the hand occur in both splits; a task that only one of two seats reads may not."""
    hand = "Hand 1 of 4. You are on the button, and nothing lies on the table. Your cards: {} {}."
    cards = [f"{rank}{suit}" for rank in "AKQJT98765432" for suit in "shdc"]
    task = "Write a program that keeps the {} {} entries of the list that it is given."
    pairs = [(a, b) for a in cards for b in cards[:6]][:300]
    dealt = [
        (
            f"{RULES}\n{hand.format(a, b)}",
            f"{RULES}\n{hand.format(b, a).replace('button', 'blind')}",
        )
        for a, b in pairs
    ]
    asked = [(f"{RULES}\n{task.format(a, b)}", f"{RULES}\nWait for the other.") for a, b in pairs]
    assert _telling_lines(dealt) == set()
    assert len(_telling_lines(asked)) == 300
