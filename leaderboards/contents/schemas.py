"""Schema of a bundle's fields. Their meaning: docs/design/leaderboards.md."""

from __future__ import annotations

import re

from leaderboards.contents.bases import HINT
from leaderboards.contents.claims import MOST_NUMBER, SCHEMAS
from leaderboards.contents.fields import (
    FieldError,
    Instant,
    Integer,
    Kind,
    ListOf,
    MapOf,
    Nullable,
    Number,
    Object,
    OneOf,
    Row,
    Text,
    Variant,
    hexadecimal,
)
from leaderboards.contents.intake import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    ADAPTERS,
    MATCHES,
    MOST_BUNDLE_BYTES,
    MOST_ENTRANTS,
    RATINGS,
    ROOT_DIGITS,
    TOKENS,
    TRANSCRIPTS,
    BundleError,
    Line,
)
from leaderboards.contents.served import REPORT, SECONDS
from leaderboards.keys import PUBLIC
from srl_agents.engines.endpoint.completions import MOST_MODEL_CHARACTERS
from srl_agents.engines.endpoint.prices import MOST_PRICE
from srl_agents.engines.endpoint.settings import MOST_EXTRA_CHARACTERS

SCHEMA = 2
"""Version of the format of ``manifest.json``."""
MOST_SEATS = 64
MOST_STEPS = 10_000
MOST_REPLY_CHARACTERS = 1 << 18
MOST_FAULT_CHARACTERS = 2000
MOST_COMMAND_CHARACTERS = 20_000
_MOST_MATCHES = 10**7
_REFERENCES = 64

SHA256 = hexadecimal(64)
LINK = hexadecimal(16)
"""The part of the chain that a record shows."""
_NAME = Text(80, 1)
"""`leaderboards.names` decides which agent may use a name."""
_ENV = Text(
    100,
    1,
    re.compile(r"([a-z0-9_.]+/)?[a-z0-9_]+-v[0-9]+"),
    "an environment's id, such as nim-v0",
)
_PROTOCOL = Text(
    100, 1, re.compile(r"[a-z0-9_]+-v[0-9]+(\.[A-Za-z0-9_]+)?"), "a protocol's name, such as nim-v0"
)
PROTOCOL_CLAIM = Object({"name": _PROTOCOL, "version": Integer(1, 10**6), "sha256": SHA256})
_WORD = Text(80, 1, re.compile(r"[A-Za-z0-9_]+"), "letters, digits and _, at most 80")
_SEAT = Text(2, 1, re.compile("0|[1-9][0-9]?"), "the number of a seat")
TIME = Instant(2020)
PLAIN = re.compile(r"([\w?]([\w .+~:(),/#!?-]*[\w.+~:(),/#!?-])?)?", re.ASCII)
"""Text that names a version or a platform."""
_PLAIN_FORM = "letters, digits and _ .+~:(),/#!?-, a letter or digit first, no space last"
COMMAND = re.compile(r"(srl [^<>]*)?")
_FREE = Text(20_000, free=True)

# --- agents ----------------------------------------------------------------------------------

_SAMPLED: dict[str, Kind] = {
    "sampling": Object(
        {"temperature": Number(0.0, 100.0), "max_new_tokens": Integer(1, 10**6)},
    ),
    "stop": ListOf(Text(200, 1), 16),
    "parser": _ENV,
    "shown": Object(
        {
            "system": Nullable(_FREE),
            "examples": ListOf(Object({"observation": _FREE, "reply": _FREE}), 64),
        }
    ),
}
BOT_SPEC = Object({"bot": _WORD, "env": _ENV})
MODEL_SPEC = Object(
    {
        "base": Text(200, 1, HINT, "a model of the catalog, a hub id, or a folder's last part"),
        "base_sha256": SHA256,
        "adapter": Nullable(SHA256),
        "lora": Nullable(Row((Integer(1, 4096), Number(0.0, 1e6)))),
        "prompt": SHA256,
        "tokenizer": SHA256,
        "dtype": OneOf(("float32", "float16", "bfloat16")),
        "sampler": Text(80, 1),
        "root_seed": Integer(0, 2**63),
        **_SAMPLED,
    },
    optional=frozenset({"shown"}),
)
ENDPOINT_SPEC = Object(
    {
        "endpoint": Object(
            {
                "api": _NAME,
                "url": Text(500, 1),
                "model": Text(200, 1),
                "reported": Text(MOST_MODEL_CHARACTERS),
            }
        ),
        "thinking": Object(
            {"max_thought_tokens": Integer(0, 10**6), "extra": Text(MOST_EXTRA_CHARACTERS, 2)}
        ),
        **_SAMPLED,
    },
    optional=frozenset({"shown", "thinking"}),
)
AGENT = Object(
    {
        "agent_id": _NAME,
        "spec": Variant({"bot": BOT_SPEC, "base": MODEL_SPEC, "endpoint": ENDPOINT_SPEC}),
    }
)
AGENTS = ListOf(AGENT, _REFERENCES + MOST_ENTRANTS, 1, named_by="agent_id")

# --- registrations ---------------------------------------------------------------------------

_PUBLIC_KEY = Text(72, 72, PUBLIC, "a public key, ed25519: and 64 hexadecimal digits")
_SIGNATURE = hexadecimal(128)
_REGISTERED = Object({"agent_id": _NAME, "contents": SHA256})
REQUEST = Object(
    {
        "protocol": _PROTOCOL,
        "protocol_sha256": SHA256,
        "agents": ListOf(_REGISTERED, MOST_ENTRANTS, 1, named_by="agent_id"),
        "seeds": Integer(1, 10**6),
        "owner": _PUBLIC_KEY,
        "maker": Text(40, 1, re.compile("[a-z0-9]+"), "a maker's name of small letters and digits"),
        "signature": _SIGNATURE,
    },
    optional=frozenset({"maker"}),
)
TICKET = Object(
    {
        "request": REQUEST,
        "number": Integer(0, 2**53 - 1),
        "nonce": SHA256,
        "when": TIME,
        "board": _PUBLIC_KEY,
        "previous": SHA256,
        "signature": _SIGNATURE,
    }
)

# --- the manifest ----------------------------------------------------------------------------

DECLARED = Object(
    {
        "attempts": Integer(1, 10**6),
        "training_data": Text(2000, cell=True),
        "submitter": Text(80, cell=True),
    }
)
_PRICE = Number(0.0, MOST_PRICE)
PRICES = MapOf(
    _NAME,
    Object(
        {
            "tokens": Object({"input": _PRICE, "output": _PRICE, "cached_input": Nullable(_PRICE)}),
            "currency": Text(3, 3, cell=True),
            "date": Text(10, 10, cell=True),
            "source": Text(200, 1, cell=True),
        }
    ),
    MOST_ENTRANTS,
)
"""Agent behind an endpoint -> price of its tokens per million, as its submitter states it."""
PROVENANCE = Object(
    {
        "srl": Text(40, 1, PLAIN, _PLAIN_FORM),
        "commit": Text(40, pattern=re.compile("([0-9a-f]{40})?"), form="a commit's hash, or empty"),
        "tree_changed": OneOf((None, False, True)),
        "env_code_sha256": SHA256,
        "python": Text(40, 1, PLAIN, _PLAIN_FORM),
        "platform": Text(200, 0, PLAIN, _PLAIN_FORM),
        "packages": MapOf(_WORD, Text(80, 0, PLAIN, _PLAIN_FORM), 32),
        "command": Text(
            MOST_COMMAND_CHARACTERS,
            0,
            COMMAND,
            f"empty, or a printable command that begins with srl, without < and >, of at most "
            f"{MOST_COMMAND_CHARACTERS} characters",
        ),
        "started": TIME,
        "ended": TIME,
        "seconds": MapOf(_NAME, SECONDS, MOST_ENTRANTS),
    },
    optional=frozenset({"seconds"}),
)
_FILE_NAME = re.compile(
    "|".join(re.escape(name) for name in (MATCHES, TRANSCRIPTS, TOKENS, RATINGS))
    + f"|{ADAPTERS}/[0-9a-f]{{{ROOT_DIGITS}}}/"
    + f"({re.escape(ADAPTER_CONFIG)}|{re.escape(ADAPTER_WEIGHTS)})"
)
FILES = MapOf(
    Text(100, 1, _FILE_NAME, "the name of a bundle's file"),
    Object({"sha256": SHA256, "bytes": Integer(0, MOST_BUNDLE_BYTES)}),
    4 + 2 * MOST_ENTRANTS,
)
MANIFEST_FILE = Object(
    {
        "schema": OneOf((SCHEMA,)),
        "claim": Object(
            {
                "protocol": PROTOCOL_CLAIM,
                "seeds": Integer(1, 10**6),
                "agents": AGENTS,
                "ticket": Nullable(TICKET),
                "declared": DECLARED,
                "prices": PRICES,
                "records": Object({"count": Integer(1, _MOST_MATCHES), "chain": SHA256}),
                "ratings_sha256": SHA256,
            },
            optional=frozenset({"prices"}),
        ),
        "provenance": PROVENANCE,
        "files": FILES,
        "signature": _SIGNATURE,
        "root": SHA256,
    },
    optional=frozenset({"signature"}),
)

CHANGE = Object(
    {
        "when": TIME,
        "action": Text(20, 1),
        "env": _PROTOCOL,
        "root": SHA256,
        "agents": ListOf(Text(200, 1), _REFERENCES + MOST_ENTRANTS),
        "reason": _FREE,
    }
)
"""A line of a board's changelog, which pages show."""

# --- records ---------------------------------------------------------------------------------

_PER_SEAT = MOST_SEATS
_REWARD = Number(-1e6, 1e6)
MATCH_RESULT = Object(
    {
        "outcomes": ListOf(Number(-1.0, 1.0), _PER_SEAT, 1),
        "rewards": ListOf(_REWARD, _PER_SEAT, 1),
        "termination": OneOf(("ok", "forfeit", "truncated")),
        "forfeited": ListOf(Integer(0, _PER_SEAT), _PER_SEAT),
        "invalid_replies": ListOf(Integer(0, 10**6), _PER_SEAT, 1),
        "turns": Integer(0, 10**6),
        "tokens": ListOf(Integer(0, 10**9), _PER_SEAT, 1),
    }
)
MATCH_LINE = Object(
    {
        "seed": Integer(0, 2**48),
        "seats": ListOf(_NAME, _PER_SEAT, 1),
        "result": MATCH_RESULT,
        "served": MapOf(_SEAT, ListOf(REPORT, MOST_STEPS), _PER_SEAT),
        "faults": ListOf(Text(MOST_FAULT_CHARACTERS, 1, free=True), 100, 1),
        "chain": LINK,
    },
    optional=frozenset({"faults", "served"}),
)
TRANSCRIPT_LINE = Object(
    {
        "steps": ListOf(
            Object(
                {
                    "replies": MapOf(_SEAT, Text(MOST_REPLY_CHARACTERS, free=True), _PER_SEAT),
                    "rewards": ListOf(_REWARD, _PER_SEAT, 1),
                    "invalid": ListOf(OneOf((None, "malformed", "illegal")), _PER_SEAT, 1),
                }
            ),
            MOST_STEPS,
        ),
        "components": ListOf(MapOf(_WORD, Number(-1e12, 1e12), 64), _PER_SEAT, 1),
        "truncated": OneOf((False, True)),
        "digest": SHA256,
    }
)
_TOKENS_OF_A_TURN = 10**6
TOKENS_LINE = MapOf(
    _SEAT,
    ListOf(
        Row(
            (
                ListOf(Integer(0, 2**31), _TOKENS_OF_A_TURN),
                ListOf(Number(-1e6, 1e-3), _TOKENS_OF_A_TURN),
            )
        ),
        MOST_STEPS,
    ),
    _PER_SEAT,
)

# --- ratings ---------------------------------------------------------------------------------

_COUNT = Integer(0, _MOST_MATCHES)
_RATED = Nullable(Number(-MOST_NUMBER, MOST_NUMBER))
_ROWS = _REFERENCES + MOST_ENTRANTS


def _ratings(measure: str, row: Object, **more: Kind) -> Object:
    rows = ListOf(row, _ROWS, 1, named_by="agent")
    return Object({"schema": OneOf(SCHEMAS), "measure": OneOf((measure,)), **more, "rows": rows})


RATINGS_FILES: dict[str, Object] = {
    "elo": _ratings(
        "elo",
        Object(
            {
                "agent": _NAME,
                **dict.fromkeys(("elo", "half_width", "low", "high", "field_score"), _RATED),
                **dict.fromkeys(("best_rank", "worst_rank", "seeds"), _COUNT),
                **dict.fromkeys(("wins", "draws", "losses"), _COUNT),
                "provisional": ListOf(Text(200), 16),
            }
        ),
        anchors=ListOf(_NAME, _REFERENCES),
        ridge=Number(0.0, 1e9),
        tie_nu=_RATED,
        resolution=_RATED,
    ),
    "cross_play": _ratings(
        "cross_play",
        Object(
            {
                "agent": _NAME,
                **dict.fromkeys(("cross_play", "cross_play_half_width"), _RATED),
                **dict.fromkeys(("held_out", "held_out_half_width"), _RATED),
                **dict.fromkeys(("self_play", "self_play_half_width", "gap"), _RATED),
                "worst_partner": _NAME,
                "matches": _COUNT,
            }
        ),
    ),
    "focal_return": _ratings(
        "focal_return",
        Object(
            {
                "agent": _NAME,
                **dict.fromkeys(("focal_return", "focal_return_half_width"), _RATED),
                "scenarios": ListOf(
                    Object(
                        {
                            "seats_held": Integer(1, MOST_SEATS),
                            **dict.fromkeys(("own", "own_half_width", "others"), _RATED),
                        }
                    ),
                    MOST_SEATS,
                ),
                "matches": _COUNT,
            }
        ),
    ),
}
"""Measure -> the content of ``ratings.json``."""


def checked(kind: Kind, value: Line, place: str) -> Line:
    """The value, which is of this kind.

    Raises:
        BundleError: it is not; the text begins with ``place``.
    """
    try:
        kind.check(value)
    except FieldError as error:
        raise BundleError(f"{place}: {error}") from None
    return value
