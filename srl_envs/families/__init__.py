"""The built-in environments, one folder per family; registering imports none of them."""

from srl_envs.registry import register

_BOARD = "srl_envs.families.board"
_REASONING = "srl_envs.families.reasoning"
_CODING = "srl_envs.families.coding"

register(
    id="connect_four-v0",
    entry_point=f"{_BOARD}.connect_four:ConnectFour",
    mode="competitive",
    summary="Drop pieces into columns; the first line of four wins.",
    bots={
        "random": f"{_BOARD}.connect_four_bots:random_bot",
        "middle": f"{_BOARD}.connect_four_bots:middle_bot",
        "strong": f"{_BOARD}.connect_four_bots:strong_bot",
        "held_out": f"{_BOARD}.connect_four_bots:held_out_bot",
    },
    options={
        "rows": "height of the board, 4 to 9 (6)",
        "cols": "width of the board, 4 to 9 (7)",
        "k": "pieces in a line that win, 3 to 5 (4)",
    },
)

register(
    id="math_duel-v0",
    entry_point=f"{_REASONING}.math_duel:MathDuel",
    mode="competitive",
    summary="Answer exact problems at the same moment and stake points on being right.",
    bots={
        "random": f"{_REASONING}.math_duel_bots:random_bot",
        "weak": f"{_REASONING}.math_duel_bots:weak_bot",
        "middle": f"{_REASONING}.math_duel_bots:middle_bot",
        "strong": f"{_REASONING}.math_duel_bots:strong_bot",
        "held_out": f"{_REASONING}.math_duel_bots:held_out_bot",
    },
    options={
        "problems": "problems per episode, 1 to 10 (5)",
        "difficulty": "1 (single digits) to 5 (3)",
        "families": "kinds of problem to draw from (all)",
    },
)

register(
    id="code_duel-v0",
    entry_point=f"{_CODING}.code_duel:CodeDuel",
    mode="competitive",
    summary="Write a program, then find inputs that break the other's.",
    bots={
        "random": f"{_CODING}.code_duel_bots:random_bot",
        "empty": f"{_CODING}.code_duel_bots:empty_bot",
        "middle": f"{_CODING}.code_duel_bots:middle_bot",
        "strong": f"{_CODING}.code_duel_bots:strong_bot",
        "held_out": f"{_CODING}.code_duel_bots:held_out_bot",
    },
    options={
        "difficulty": "1 to 5 (2)",
        "families": "kinds of problem to draw from (all)",
        "hidden_inputs": "hidden test inputs per problem (20)",
        "attack_rounds": "0 or 1 rounds of attacking inputs (1)",
    },
)
