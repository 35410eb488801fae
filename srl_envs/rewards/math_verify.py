r"""The optional fallback of the answer matcher: math-verify in a sandboxed process.

math-verify (the extra ``math``) computes with sympy, so it reads much that our parser does
not, and has no bound on time or memory of its own that would hold outside the main thread. Here
each comparison is a fresh process of `srl_envs.sandbox`, killed at its limit. The texts travel as
JSON arguments of a constant program; no answer is ever part of a program's text.
"""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from types import TracebackType

from srl_envs.distribution import install_command
from srl_envs.errors import ConfigError, SandboxError
from srl_envs.sandbox import CodeExecutor, Limits

PACKAGES = ("math_verify", "latex2sympy2_extended", "antlr4", "sympy", "mpmath")
_ANTLR = "antlr4-python3-runtime"
DECIMALS = 8
"""Decimal places to which math-verify rounds before it compares; its own default is 6."""
_PROGRAM = r"""
def same(given, answer, decimals, antlr):
    import importlib.metadata

    importlib.metadata.version = lambda name: antlr  # the package's record is outside the sandbox
    from math_verify import parse, verify

    # no timeouts of its own, which are signals: the process is killed from outside
    sides = [parse("\\boxed{" + text + "}", parsing_timeout=None) for text in (answer, given)]
    if not all(sides):
        return None
    return bool(verify(*sides, float_rounding=decimals, timeout_seconds=None))
"""


class MathVerify:
    """Judges pairs with math-verify; an `AnswerMatcher` asks it about what it cannot read itself.

    It is safe in threads; from asyncio, use ``asyncio.to_thread``. Close it, or use it as a context
    manager.

    Args:
        limits: of one comparison.
        isolation: as for `CodeExecutor`.

    Raises:
        ConfigError: math-verify is not installed.
        SandboxError: this host grants no isolation.
    """

    def __init__(self, limits: Limits | None = None, *, isolation: str = "strongest") -> None:
        missing = [name for name in PACKAGES if find_spec(name) is None]
        if missing:
            raise ConfigError(f"{', '.join(missing)}: not installed. {install_command('math')}")
        limits = limits or Limits(cpu_s=5.0, wall_s=30.0, memory_mib=1024)
        self._executor = CodeExecutor(
            limits, isolation, packages=PACKAGES, preload=("sympy", "antlr4", "sympy.parsing.latex")
        )

    def __enter__(self) -> MathVerify:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox's server."""
        self._executor.close()

    def same(self, given: str, *, answer: str) -> bool | None:
        """Whether math-verify takes two extracted answers for the same.

        Returns:
            None where it cannot read one of them, fails, or hits a limit.

        Raises:
            SandboxError: the sandbox, not the comparison, failed: the verdict is unknown.
        """
        texts = [text.encode("utf-8", "replace").decode() for text in (given, answer)]
        call = {"function": "same", "args": [*texts, DECIMALS, version(_ANTLR)]}
        outcome = self._executor.run(_PROGRAM, [call])[0]
        if outcome.status == "infrastructure":
            raise SandboxError(f"math-verify could not be asked: {outcome.message}")
        return outcome.value if isinstance(outcome.value, bool) else None
