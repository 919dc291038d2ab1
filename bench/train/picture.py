"""The curves of story.py as a picture: for each kind of tokens and optimizer, the loss by step, and below it
how far each run is from the trusted one.

    python3 bench/train/picture.py story.json > docs/images/train-story.svg
"""

import json
import math
import sys
from pathlib import Path

PANELS = [("zipf", "sgd"), ("zipf", "adamw"), ("uniform", "sgd"), ("uniform", "adamw")]
WIDTH, HEIGHT = 390, 330  # of a panel
LEFT, RIGHT = 50, 14
LOSS = (46, 170)  # top and bottom of the upper plot
GAP = (196, 290)  # … of the lower
LOWEST = -6  # exponent of the smallest gap that is drawn: losses have six or seven digits
NAMES = {"sgd": "SGD", "adamw": "AdamW", "zipf": "Zipf tokens", "uniform": "uniform tokens"}
CURVES = {"trusted": ("#8a8f98", 4.0, "trusted"), "again": ("#8a8f98", 1.2, "trusted, run again: noise"),
          "right": ("#1a7f37", 1.4, "right.cu"), "wrong": ("#d1242f", 1.4, "wrong.cu")}


def ticks(low, high):
    """At most five round numbers between two values."""
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5) if (high - low) / step <= 5)
    return [round(step * i, 2) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def level(value, low, high, top, bottom):
    return bottom - (bottom - top) * (value - low) / (high - low)


def grid(y, label):
    return (f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" class="grid"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')


def curve(levels, name):
    colour, thick, _ = CURVES[name]
    wide = (WIDTH - LEFT - RIGHT) / (len(levels) - 1)
    points = " ".join(f"{LEFT + wide * step:.1f},{y:.1f}" for step, y in enumerate(levels))
    return (f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{thick}" '
            'stroke-linejoin="round"/>')


def panel(cell, x, y):
    losses, steps = cell["loss"], len(cell["loss"]["trusted"])
    shown = [value for name in ("trusted", "right", "wrong") for value in losses[name]]
    low, high = min(shown), max(shown)
    parts = [f'<g transform="translate({x} {y})">',
             f'<text x="{LEFT}" y="18" class="title">{NAMES[cell["tokens"]]}, {NAMES[cell["optimizer"]]}, '
             f'rate {cell["rate"]:g}</text><text x="{LEFT}" y="36">loss</text>']
    parts += [grid(level(value, low, high, *LOSS), f"{value:g}") for value in ticks(low, high)]
    parts += [curve([level(loss, low, high, *LOSS) for loss in losses[name]], name)
              for name in ("trusted", "right", "wrong")]
    parts.append(f'<text x="{LEFT}" y="{GAP[0] - 8}">distance from the trusted run</text>')
    parts += [grid(level(power, LOWEST, 0, *GAP), f'10<tspan dy="-4" font-size="8">{power}</tspan>')
              for power in range(LOWEST, 1, 2)]
    for name in ("again", "right", "wrong"):
        gaps = [math.log10(max(abs(a - b), 10.0**LOWEST)) for a, b in zip(losses[name], losses["trusted"])]
        parts.append(curve([level(gap, LOWEST, 0, *GAP) for gap in gaps], name))
    for step in range(0, steps, 50):
        at = LEFT + (WIDTH - LEFT - RIGHT) * step / (steps - 1)
        parts.append(f'<text x="{at:.1f}" y="{GAP[1] + 18}" text-anchor="middle">{step}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{GAP[1] + 18}" text-anchor="end">step</text>')
    return parts + ["</g>"]


def picture(story):
    cells = {(cell["tokens"], cell["optimizer"]): cell for cell in story["cells"]}
    found = [cells[name] for name in PANELS if name in cells]
    model = story["model"]
    width, bottom = 2 * WIDTH, (len(found) + 1) // 2 * HEIGHT
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 60}" width="{width}" '
             f'height="{bottom + 60}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
             "<style>text { fill: #24292f } .title { font-weight: bold; font-size: 13px } "
             ".grid { stroke: #d8dee4 }</style>",
             f'<rect width="{width}" height="{bottom + 60}" fill="white"/>']
    for i, cell in enumerate(found):
        parts += panel(cell, i % 2 * WIDTH, i // 2 * HEIGHT)
    at = LEFT
    for colour, thick, label in CURVES.values():
        parts.append(f'<path d="M{at} {bottom + 16}h24" stroke="{colour}" stroke-width="{thick}"/>'
                     f'<text x="{at + 30}" y="{bottom + 20}">{label}</text>')
        at += 60 + 7 * len(label)
    parts.append(f'<text x="{LEFT}" y="{bottom + 44}">{story["device"]}, PyTorch; vocabulary '
                 f'{model["vocabulary"]}, width {model["width"]}, {model["layers"]} layers, '
                 f'{model["sequence"] * model["sequences"]:,} tokens a step, {model["activations"]} activations, '
                 f'seed {model["seed"]}.</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    sys.stdout.write(picture(json.loads(Path(sys.argv[1]).read_text())))
