"""Memory of each phase as one SVG, drawn without a plotting library."""

from __future__ import annotations

from xml.sax.saxutils import escape

from srl_agents.memory.planner import Plan

_COLOURS = (
    "#1f6feb",
    "#c2410c",
    "#15803d",
    "#7e22ce",
    "#b45309",
    "#0e7490",
    "#be123c",
    "#4d7c0f",
    "#6b7280",
)


def figure(made: Plan) -> str:
    """One bar per phase, cut by role, and the device's memory as a line."""
    roles = list(dict.fromkeys(role for phase in made.phases for role in phase.parts))
    top = 1.08 * max(made.peak.bytes, made.target.memory_bytes)
    wide, high, left = 90 * len(made.phases) + 260, 320, 60
    scale = (high - 60) / top
    name, unit = made.target.unit
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" '
        'font-family="sans-serif" font-size="11">',
        f'<text x="10" y="15">{escape(made.line)}</text>',
    ]
    for place, phase in enumerate(made.phases):
        x, y = left + 90 * place, high - 30.0
        for role, size in phase.parts.items():
            y -= size * scale
            colour = _COLOURS[roles.index(role) % len(_COLOURS)]
            parts.append(
                f'<rect x="{x}" y="{y:.2f}" width="60" height="{size * scale:.2f}" fill="{colour}">'
                f"<title>{escape(role)}: {size / unit:.3f} {name}</title></rect>"
            )
        parts.append(f'<text x="{x}" y="{high - 14}">{escape(phase.name)}</text>')
    line = high - 30 - made.target.memory_bytes * scale
    parts.append(
        f'<line x1="{left - 8}" x2="{wide - 200}" y1="{line:.1f}" y2="{line:.1f}" stroke="red"/>'
    )
    room = f"{made.target.memory_bytes / unit:.0f} {name}"
    parts.append(f'<text x="4" y="{line + 4:.1f}">{room}</text>')
    for row, role in enumerate(roles):
        colour, y = _COLOURS[row % len(_COLOURS)], 40 + 15 * row
        parts.append(f'<rect x="{wide - 180}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{wide - 165}" y="{y}">{escape(role)}</text>')
    return "\n".join([*parts, "</svg>", ""])
