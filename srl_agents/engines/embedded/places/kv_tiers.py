"""Keys and values that the device has no room for: whole blocks of tokens in host memory, then in files.

A block gets here when the prefix tree drops it, and goes back when a prompt begins with it, bit for bit. A
slower place is used where it pays: fetching must be faster than computing, and what that saves, times the
chance of return, must be more than writing costs. All three are measured while it runs. Whatever is wrong
with a file makes it a miss.
"""

from __future__ import annotations

import shutil
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch

from srl_agents.caching.blocks import block_hashes
from srl_agents.caching.policies.block_tree import BlockTree
from srl_agents.caching.policies.contract import NOTHING_KNOWN, Knowledge
from srl_agents.caching.policies.online import ONLINE, Eviction
from srl_agents.engines.embedded.places.kv_files import HEAD_BYTES, BlockFiles, KVForm
from srl_agents.engines.embedded.places.kv_network import Peers, Received
from srl_envs.errors import ConfigError

BLOCK = 32
"""Tokens that are kept together."""
_PRIOR_BLOCKS = 4.0
"""Weight, in blocks, of the first guess of the chance of return, which is one half."""
_GHOSTS = 4096
"""Dropped blocks whose return is watched, kept or not."""
_RECENT = 1000.0
"""Units after which older measurements count half."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TierLimits:
    """Places beyond the device, each with its limit."""

    host_bytes: int = 0
    """Bytes in host memory, at most; 0 keeps nothing there."""
    disk_bytes: int = 0
    """Bytes in files, at most; 0 writes none."""
    folder: Path | None = None
    """Folder of the files; the system's temporary folder if absent."""
    eviction: Eviction = "lru"
    """Policy that picks what is dropped above the limits."""
    shared: Path | None = None
    """Folder of the files instead, which outlives the process. Engines of other processes with the same
    base may use it at the same time; one in ``/dev/shm`` is memory that they share. Each process bounds
    the files that it wrote or read."""
    peers: tuple[str, ...] = ()
    """``host:port`` of every `BlockServer` that is asked for blocks that are not in the shared folder."""
    secret: str = field(default="", repr=False)
    """That the peers know."""
    weigh: bool = True
    """Use a place only where it pays, by what was measured; False writes and fetches whatever it can."""

    def __post_init__(self) -> None:
        if self.shared is not None and not self.disk_bytes:
            raise ConfigError("disk_bytes=0: a shared folder needs a limit of its files, above 0.")
        if self.peers and self.shared is None:
            raise ConfigError("peers: name a shared folder, which what they send is written to.")
        for name in ("host_bytes", "disk_bytes"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name}={getattr(self, name)}: use 0 (keep nothing) or more.")


class Pace:
    """Seconds per unit of something, measured."""

    def __init__(self) -> None:
        self._units = self._seconds = 0.0

    def add(self, units: float, seconds: float) -> None:
        """Units that took so long."""
        if self._units > _RECENT * units:
            self._units, self._seconds = self._units / 2, self._seconds / 2
        self._units += units
        self._seconds += seconds

    def seconds(self, units: float) -> float | None:
        """Seconds that so many units will take; None before the first measurement."""
        return None if not self._units else units * self._seconds / self._units


def pays(
    fetch_s: float | None, compute_s: float | None, write_s: float | None, chance: float = 1.0
) -> bool:
    """Whether keeping beats computing again: what a return saves, times its chance, against writing.

    What was not measured yet is taken to pay, so that it gets measured.
    """
    if fetch_s is None or compute_s is None or write_s is None:
        return True
    return chance * (compute_s - fetch_s) > write_s


class _Tier:
    """One place: what is in it by name, and how fast it is."""

    def __init__(self, capacity: int, eviction: Eviction) -> None:
        self.capacity = capacity
        self.blocks: BlockTree[int, torch.Tensor | Path] = ONLINE[eviction](max(1, capacity))
        self.fetching, self.writing = Pace(), Pace()
        self.fetched_tokens = 0


class KVTiers:
    """Host memory and files behind one interface; used by one thread.

    Args:
        settings: limits.
        bytes_per_token: of keys and values.
        clock: seconds.
        form: what a block is and which base computes it; a shared folder needs it.

    Raises:
        ConfigError: the folder cannot be written, or a shared one holds blocks of another base or form.
    """

    def __init__(
        self,
        settings: TierLimits,
        bytes_per_token: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        form: KVForm | None = None,
    ) -> None:
        block_bytes = BLOCK * bytes_per_token
        self._clock, self._block_bytes = clock, block_bytes
        self._host = _Tier(settings.host_bytes // block_bytes, settings.eviction)
        file_bytes = block_bytes + HEAD_BYTES
        self._disk = _Tier(settings.disk_bytes // file_bytes, settings.eviction)
        self._computing = Pace()
        self._dropped: OrderedDict[int, None] = OrderedDict()
        self._seen = self._returned = 0.0
        """Dropped blocks, and those of them that a prompt asked for again."""
        self._coming: dict[int, Future[bytes | None]] = {}
        """Files that are being read before their turn."""
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="kv-files")
        self._shape: tuple[tuple[int, ...], torch.dtype] | None = None
        self._weigh, self._shared = settings.weigh, settings.shared is not None
        self._files: BlockFiles | None = None
        self._peers: Peers | None = None
        self._network = Pace()
        if settings.shared is not None:
            if form is None:
                raise ConfigError(
                    "a shared folder of blocks needs their form: which base, which shape."
                )
            self._shape = form.shape, form.dtype
            self._files = BlockFiles.shared(settings.shared, form, block_bytes)
            for name, path in self._files.found():
                self._disk.blocks.insert(name, path)
            self._bound_files()
            if settings.peers:
                self._peers = Peers(
                    settings.peers, settings.secret, str(form), self._files, clock=clock
                )
        elif self._disk.capacity:
            self._files = BlockFiles.own(settings.folder, block_bytes)

    @property
    def host_bytes(self) -> int:
        """Bytes in host memory now, with what is being read before its turn."""
        return (len(self._host.blocks) + len(self._coming)) * self._block_bytes

    @property
    def disk_bytes(self) -> int:
        """Bytes of keys and values in files now."""
        return len(self._disk.blocks) * self._block_bytes

    @property
    def received(self) -> Received:
        """What peers have sent."""
        return Received() if self._peers is None else self._peers.received

    @property
    def chance_of_return(self) -> float:
        """Measured chance that a dropped block is asked for again; kept or not."""
        return (self._returned + _PRIOR_BLOCKS / 2) / (self._seen + _PRIOR_BLOCKS)

    def take_fetched(self) -> tuple[int, int]:
        """Tokens that came from host memory and from files since the last call."""
        found = self._host.fetched_tokens, self._disk.fetched_tokens
        self._host.fetched_tokens = self._disk.fetched_tokens = 0
        return found

    def computed(self, tokens: int, seconds: float) -> None:
        """A pass over so many tokens took so long."""
        self._computing.add(tokens, seconds)

    def asked(self, names: Sequence[int], knowledge: Knowledge = NOTHING_KNOWN) -> None:
        """A prompt has these blocks."""
        for name in names:
            if name in self._dropped:
                del self._dropped[name]
                self._returned += 1
        for tier in (self._host, self._disk):
            if tier.capacity:
                tier.blocks.touch(names, knowledge)

    def replied(self, names: Sequence[int], tokens: int) -> None:
        """The reply to a prompt with these blocks is written."""
        for tier in (self._host, self._disk):
            if tier.capacity:
                tier.blocks.replied(names, tokens)

    def over(self, names: Sequence[int]) -> None:
        """A session whose last prompt had these blocks is over."""
        for tier in (self._host, self._disk):
            tier.blocks.over(names)

    def put(self, name: int, kv: torch.Tensor) -> None:
        """A block was dropped from the device; keep it where that pays.

        Args:
            name: of its tokens, their owner and all before them.
            kv: (layers, 2, K, `BLOCK`, D), or what `EightBits.pack` makes of that.
        """
        self._shape = tuple(kv.shape), kv.dtype
        self._watch(name)
        if self._host.blocks.get(name) is not None:
            return
        if self._host.capacity and self._worth_writing(self._host):
            began_s = self._clock()
            copy = torch.empty(kv.shape, dtype=kv.dtype)
            copy.copy_(kv)
            self._host.writing.add(1, self._clock() - began_s)
            self._host.blocks.insert(name, copy)
            self._make_room()
        elif not self._host.capacity:
            self._write(name, kv)

    def take(self, names: Sequence[int], device: torch.device) -> torch.Tensor | None:
        """Keys and values of the first blocks, as many in line as are here and worth fetching.

        Args:
            names: of the blocks that are wanted, in the order of their tokens.
            device: to bring them to.

        Returns:
            (layers, 2, K, blocks times `BLOCK`, D), as they were put, or None if the first block is not to
            be had.
        """
        self._ask_peers(names)
        began_s, found = self._clock(), []
        for name in names:
            block = self._take_one(name)
            if block is None:
                break
            found.append(block)
        if not found:
            return None
        together = torch.cat(found, dim=-2).to(device)
        self._host.fetching.add(len(found), self._clock() - began_s)
        return together

    def prefetch(self, names: Sequence[int]) -> None:
        """Begin to read these blocks' files, as far as host memory has room for them."""
        for name in names:
            path = self._file(name)
            if name in self._coming or self._host.blocks.get(name) is not None:
                continue
            if not isinstance(path, Path) or len(self._coming) >= self._host.capacity:
                continue
            self._coming[name] = self._reader.submit(self._payload, path, name)
            self._make_room()

    def close(self) -> None:
        """Drop everything and remove the files, but those in a shared folder."""
        self._reader.shutdown(cancel_futures=True)
        if self._peers is not None:
            self._peers.close()
        self._coming.clear()
        self._host.blocks.clear()
        self._disk.blocks.clear()
        if self._files is not None:
            if not self._shared:
                shutil.rmtree(self._files.folder, ignore_errors=True)
            self._disk.capacity = 0

    def _take_one(self, name: int) -> torch.Tensor | None:
        """A block's keys and values in host memory; None if it is nowhere or not worth fetching."""
        kept = self._host.blocks.get(name)
        if isinstance(kept, torch.Tensor):
            if not self._worth_fetching(self._host):
                return None
            self._host.fetched_tokens += BLOCK
            return kept
        if name not in self._coming and self._file(name) is None:
            return None
        if not self._worth_fetching(self._disk):
            return None
        began_s = self._clock()
        found = self._read(name)
        if found is not None:
            self._disk.fetching.add(1, self._clock() - began_s)
            self._disk.fetched_tokens += BLOCK
        elif self._disk.blocks.get(name) is not None:
            self._forget_file(name)
        return found

    def _ask_peers(self, names: Sequence[int]) -> None:
        """Bring files of other processes here, from the first block on that is nowhere."""
        here = (self._host.blocks.get(n) is not None or self._file(n) is not None for n in names)
        first = next((place for place, is_here in enumerate(here) if not is_here), len(names))
        most = first + self._disk.capacity  # more would push out the first ones
        if self._peers is None or not names[first:most]:
            return
        if self._weigh and not pays(self._network.seconds(1), self._computing.seconds(BLOCK), 0.0):
            return
        began_s = self._clock()
        brought = self._peers.bring(names[first:most])
        if brought:
            self._network.add(len(brought), self._clock() - began_s)
        for name in brought:
            self._file(name)

    # What pays

    def _worth_fetching(self, tier: _Tier) -> bool:
        return not self._weigh or pays(
            tier.fetching.seconds(1), self._computing.seconds(BLOCK), 0.0
        )

    def _worth_writing(self, tier: _Tier) -> bool:
        return not self._weigh or pays(
            tier.fetching.seconds(1),
            self._computing.seconds(BLOCK),
            tier.writing.seconds(1),
            self.chance_of_return,
        )

    def _watch(self, name: int) -> None:
        if name not in self._dropped:
            self._dropped[name] = None
            self._seen += 1
            if len(self._dropped) > _GHOSTS:
                self._dropped.popitem(last=False)

    # Places

    def _make_room(self) -> None:
        """Move what is too much in host memory on."""
        while len(self._host.blocks) + len(self._coming) > self._host.capacity:
            dropped = self._host.blocks.evict(1)
            if dropped is None:  # all of it is being read
                self._coming.pop(next(iter(self._coming))).cancel()
                continue
            name, kv = dropped[0]
            if isinstance(kv, torch.Tensor):
                self._write(name, kv)

    def _file(self, name: int) -> Path | None:
        """A block's file, also one that another process has put into a shared folder since."""
        path = self._disk.blocks.get(name)
        if isinstance(path, Path):
            return path
        if self._files is None or not self._shared or not self._disk.capacity:
            return None
        path = self._files.path(name)
        if not path.exists():
            return None
        self._disk.blocks.insert(name, path)
        self._bound_files()
        return path

    def _write(self, name: int, kv: torch.Tensor) -> None:
        if self._files is None or self._file(name) is not None:
            return
        if not self._disk.capacity or not self._worth_writing(self._disk):
            return
        began_s = self._clock()
        payload = kv.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
        try:
            path = self._files.write(name, payload)
        except OSError:  # the disk is full, or gone: then it keeps nothing more
            self._disk.capacity = 0
            return
        self._disk.writing.add(1, self._clock() - began_s)
        self._disk.blocks.insert(name, path)
        self._bound_files()

    def _bound_files(self) -> None:
        while self._files is not None and len(self._disk.blocks) > self._disk.capacity:
            dropped = self._disk.blocks.evict(1)
            if dropped is None:
                break
            self._files.remove(dropped[0][0])

    def _read(self, name: int) -> torch.Tensor | None:
        coming, path = self._coming.pop(name, None), self._disk.blocks.get(name)
        payload: bytes | None = None
        if coming is not None:
            payload = coming.result()
        elif isinstance(path, Path):
            payload = self._payload(path, name)
        if payload is None or self._shape is None:
            return None
        shape, dtype = self._shape
        return torch.frombuffer(bytearray(payload), dtype=torch.uint8).view(dtype).reshape(shape)

    def _forget_file(self, name: int) -> None:
        self._disk.blocks.remove(name)
        if self._files is not None:
            self._files.remove(name)

    def _payload(self, path: Path, name: int) -> bytes | None:
        return None if self._files is None else self._files.read(path, name)


def block_names(
    tokens: Sequence[int], version: Hashable, base: Hashable, base_tokens: int
) -> tuple[int, ...]:
    """Names of a prompt's whole blocks: of their tokens, all before them, and who reads them.

    Args:
        tokens: of the prompt.
        version: who reads it.
        base: who reads the first tokens, whatever version reads the others.
        base_tokens: how many these are; a block on both sides belongs to the version.
    """
    shared = block_hashes(tokens[:base_tokens], BLOCK, model=f"base {base}")
    reader = f"{version} from {base_tokens}" if base_tokens else f"base {version}"
    own = block_hashes(tokens, BLOCK, model=reader)
    return (*shared, *own[len(shared) :])
