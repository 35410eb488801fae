"""One token for each live row, as one launch: a pass is captured once per shape and replayed.

A pass of 28 layers is about 5,000 kernels, and starting them takes a host far longer than a card takes to
run them. So on a card the loop captures the pass of its rows as a CUDA graph. A graph reads and writes fixed
addresses: the rows' tails as they are, and small buffers for tokens, positions and lengths that are filled
before each replay. Every slot of the tails takes part; what comes out for slots without a row is ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import torch

from srl_agents.engines.embedded.row import Row
from srl_agents.engines.embedded.row_attention import Tails, attend, stored, tail_mask
from srl_agents.models.playing_model import LayerInputs, LoRAPlaying, PlayingModel

Run = Callable[[], torch.Tensor]
Capture = Callable[[Run], Run]
"""From a function that launches kernels to one that launches the same ones again, on the same addresses."""

_log = logging.getLogger(__name__)


def cuda_graph(run: Run) -> Run:
    """Capture on a CUDA device; other threads may use the device meanwhile."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        out = run()

    def replay() -> torch.Tensor:
        graph.replay()
        return out

    return replay


def _uncaptured(run: Run) -> Run:
    return run


def capture_of(model: PlayingModel) -> Capture | None:
    """How passes of a model are captured; None where they are launched kernel by kernel."""
    capturable = isinstance(model, LoRAPlaying) and model.whole
    return cuda_graph if capturable and model.device.type == "cuda" else None


class CapturedPasses:
    """Passes of one token per row.

    Args:
        model: with low-rank versions; its weights stay where they are.
        tails: of the rows.
        capture: see `Capture`.
    """

    def __init__(self, model: LoRAPlaying, tails: Tails, capture: Capture) -> None:
        self._model, self._tails, self._capture = model, tails, capture
        self._replay: Run | None = None
        self._made: tuple[int, int] | None = None
        """Counts of the tails and of the factors that the buffers are made for: addresses have changed
        when one of them has."""
        self._seen = False
        """Whether a pass with these buffers was run, which warms libraries up for the capture."""

    def forget(self) -> None:
        """Give the buffers and the graph back."""
        self._replay = self._made = None

    def logits(self, rows: Sequence[Row]) -> torch.Tensor:
        """(rows, V) logits behind the last token of each row, whose keys and values are stored, too.

        Args:
            rows: those of the first slots, in order; what they copy must be in their tails.
        """
        made = (self._tails.made, self._model.chosen_count)
        if made != self._made:
            self._replay, self._made, self._seen = None, made, False
            slots = self._tails.kv[0].shape[1]
            self._ids_n, self._positions_n, self._lengths_n = torch.zeros(
                (3, slots), dtype=torch.long, device=self._model.device
            )
            self._others = self._model.others([(None, slots)])
        spare = len(self._ids_n) - len(rows)
        filled = torch.tensor(
            [
                [row.last for row in rows] + [0] * spare,
                [row.position for row in rows] + [0] * spare,
                [row.tail + 1 for row in rows] + [1] * spare,
            ]
        )
        for buffer, values in zip(
            (self._ids_n, self._positions_n, self._lengths_n), filled, strict=True
        ):
            buffer.copy_(values)
        if self._others is not None:
            others = self._model.others([*((row.version, 1) for row in rows), (None, spare)])
            assert others is not None
            self._others.copy_(others)
        if self._replay is None and self._seen:
            self._replay = self._captured()
        self._seen = True
        return (self._replay or self._run)()[: len(rows)]

    def _captured(self) -> Run:
        """A graph, or the plain pass of a model that reads numbers back or makes them on the host."""
        try:
            return self._capture(self._run)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            _log.warning(
                "passes of this model cannot be captured, so every kernel is started apart, which "
                "takes several times longer (%s)",
                str(error).partition("\n")[0],
            )
            self._capture = _uncaptured
            return self._run

    def _run(self) -> torch.Tensor:
        return self._model.pass_of(
            self._ids_n,
            self._positions_n,
            self._others,
            0,
            _TailAttention(self._tails, self._lengths_n),
        )


class _TailAttention:
    """Attention of one token per slot over its tail, without a number that the host has to know.

    It implements `models.playing_model.RowAttention`.

    Args:
        tails: of all slots.
        lengths_n: (n,) places in use, with this token.
    """

    def __init__(self, tails: Tails, lengths_n: torch.Tensor) -> None:
        self._tails, self._lengths_n = tails, lengths_n
        self._slots_n = torch.arange(len(lengths_n), device=lengths_n.device)
        self._masks: dict[int | None, torch.Tensor] = {}

    def attend(self, inputs: LayerInputs) -> torch.Tensor:
        """See `models.playing_model.RowAttention`."""
        tail = self._tails.kv[inputs.layer]
        stored(tail, self._slots_n, self._lengths_n - 1, inputs)
        keys, values = tail
        rows, kv_heads = keys.shape[:2]
        if inputs.window not in self._masks:
            self._masks[inputs.window] = tail_mask(self._lengths_n, keys.shape[2], inputs)
        queries = inputs.query.transpose(0, 1).reshape(rows, kv_heads, -1, keys.shape[-1])
        mask = self._masks[inputs.window]
        out, _ = attend(queries, keys, values, mask, inputs.scale, with_lse=False)
        return out.reshape(rows, -1, keys.shape[-1])
