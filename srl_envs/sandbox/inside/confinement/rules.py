"""Rules of a seccomp filter: what to answer to a system call, depending on its arguments.

A rule is a short program of the kernel's packet filter, built of conditions. A filter is assembled
from a table call -> rule as a binary tree over the call numbers, so that it costs about nine
comparisons instead of one per known call.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from .syscalls import MACHINES, X32_BIT

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand
Rule = list[Instruction]
Condition = Callable[[int], Rule]
"""Given how many instructions to skip where it does not hold; goes on behind itself where it does."""

_LOAD, _AND, _JUMP, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
_NUMBER, _MACHINE = 0, 4  # offsets in struct seccomp_data
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_ALL = 0xFFFFFFFF


def allow() -> Rule:
    """The call is made."""
    return [(_RETURN, 0, 0, _ALLOW)]


def error(code: int) -> Rule:
    """The call is not made, and fails with the error number; with 0 it seems to succeed."""
    return [(_RETURN, 0, 0, _ERRNO | code)]


def allow_if(first: Condition, code: int, *others: Condition) -> Rule:
    """Allow where all conditions hold."""
    return cases(([first, *others], allow()), otherwise=error(code))


def cases(*cases: tuple[Sequence[Condition], Rule], otherwise: Rule) -> Rule:
    """The rule of the first case whose conditions all hold."""
    rule: Rule = []
    for conditions, result in cases:
        case = result
        for condition in reversed(conditions):
            case = condition(len(case)) + case
        rule += case
    return rule + otherwise


def _argument(index: int, half: int = 0) -> Instruction:
    return (_LOAD, 0, 0, 16 + 8 * index + 4 * half)  # the low half is all of a 32-bit argument


def one_of(index: int, values: tuple[int, ...]) -> Condition:
    """The argument, of 32 bits, is one of the values."""
    return masked_one_of(index, _ALL, values)


def masked_one_of(index: int, mask: int, values: tuple[int, ...]) -> Condition:
    """Condition: the argument's masked bits are one of the values."""
    last = len(values) - 1
    load = [_argument(index)] + ([(_AND, 0, 0, mask & _ALL)] if mask != _ALL else [])

    def condition(skip: int) -> Rule:
        tests = [(_IF_EQUAL, last - n, 0, value) for n, value in enumerate(values[:-1])]
        return [*load, *tests, (_IF_EQUAL, 0, skip, values[last])]

    return condition


def masked(index: int, mask: int, wanted: int) -> Condition:
    """The argument's masked bits are the wanted ones."""
    return masked_one_of(index, mask, (wanted,))


def without(index: int, mask: int) -> Condition:
    """The argument has none of the bits."""
    return masked(index, mask, 0)


def below(index: int, bound: int) -> Condition:
    """The argument, taken as unsigned, is below the bound."""
    return lambda skip: [_argument(index), (_IF_AT_LEAST, skip, 0, bound)]


def another_than(index: int, value: int) -> Condition:
    """The argument is not the value."""
    return lambda skip: [_argument(index), (_IF_EQUAL, skip, 0, value)]


def zero(index: int) -> Condition:
    """The argument, of 64 bits, is zero."""
    return lambda skip: [
        *[_argument(index), (_IF_EQUAL, 0, skip + 2, 0)],
        *[_argument(index, 1), (_IF_EQUAL, 0, skip, 0)],
    ]


def assemble(machine: str, rules: Mapping[str, Rule], *, default: Rule) -> bytes:
    """The filter as machine instructions; calls that this machine lacks are left out."""
    audit, numbers = MACHINES[machine]
    by_number = {numbers[name]: rule for name, rule in rules.items() if name in numbers}
    head: Rule = [
        (_LOAD, 0, 0, _MACHINE),
        (_IF_EQUAL, 1, 0, audit),  # a 32-bit call on a 64-bit kernel has another number space
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, 0, 1, X32_BIT),
        (_RETURN, 0, 0, _KILL),
    ]
    tree = _tree(sorted(_ranges(by_number, default)))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in head + tree)


def _ranges(by_number: Mapping[int, Rule], default: Rule) -> list[tuple[int, Rule]]:
    """(first number, rule) of each run of neighbouring calls with one rule."""
    starts: list[tuple[int, Rule]] = [(0, by_number.get(0, default))]
    for number in range(1, max(by_number) + 2):
        rule = by_number.get(number, default)
        if rule != starts[-1][1]:
            starts.append((number, rule))
    return starts


def _tree(starts: list[tuple[int, Rule]]) -> Rule:
    if len(starts) == 1:
        return starts[0][1]
    middle = len(starts) // 2
    low, high = _tree(starts[:middle]), _tree(starts[middle:])
    first_high = starts[middle][0]
    if len(low) < 256:
        return [(_IF_AT_LEAST, len(low), 0, first_high), *low, *high]
    far = [(_IF_AT_LEAST, 0, 1, first_high), (_JUMP, 0, 0, len(low))]
    return [*far, *low, *high]
