"""The curves of story.py as a picture: loss by step, for two kinds of tokens and two optimizers.

    python3 bench/train/picture.py story.json > docs/images/train-story.svg
"""

import json
import sys
from pathlib import Path

PANELS = [("zipf", "sgd"), ("zipf", "adamw"), ("uniform", "sgd"), ("uniform", "adamw")]
WIDTH, HEIGHT = 380, 230  # of a panel
LEFT, TOP, RIGHT, BOTTOM = 46, 46, 14, 32  # around its curves
NAMES = {"sgd": "SGD", "adamw": "AdamW", "zipf": "Zipf tokens", "uniform": "uniform tokens"}
CURVES = [("trusted", "#8a8f98", 4.0, "trusted"), ("right", "#1a7f37", 1.4, "right.cu"),
          ("wrong", "#d1242f", 1.4, "wrong.cu")]


def ticks(low, high):
    """Four or five round numbers between two values."""
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5) if (high - low) / step <= 5)
    first = int(low / step) + 1
    return [round(step * i, 2) for i in range(first, first + 6) if step * i <= high]


def short(x):
    return f"{x:.2g}" if x >= 1e-4 or x == 0 else f"{x:.0e}"


def panel(cell, x, y):
    losses = cell["loss"]
    shown = [value for name, *_ in CURVES for value in losses[name]]
    low, high = min(shown), max(shown)
    margin = 0.05 * (high - low) or 0.01
    low, high, steps = low - margin, high + margin, len(losses["trusted"])
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(step, loss):
        return (LEFT + wide * step / (steps - 1), TOP + tall * (high - loss) / (high - low))

    parts = [f'<g transform="translate({x} {y})">',
             f'<text x="{LEFT}" y="18" class="title">{NAMES[cell["tokens"]]}, {NAMES[cell["optimizer"]]}, '
             f'rate {cell["rate"]:g}</text>',
             '<text x="{}" y="35">largest gap: wrong {}, right {}, noise {}</text>'.format(
                 LEFT, *(short(cell["gap"][name]["size"]) for name in ("wrong", "right", "again")))]
    for value in ticks(low, high):
        level = at(0, value)[1]
        parts.append(f'<path d="M{LEFT} {level:.1f}h{wide}" class="grid"/>'
                     f'<text x="{LEFT - 6}" y="{level + 4:.1f}" text-anchor="end">{value:g}</text>')
    for step in range(0, steps, 50):
        parts.append(f'<text x="{at(step, low)[0]:.1f}" y="{TOP + tall + 16}" '
                     f'text-anchor="middle">{step}</text>')
    for name, colour, thick, _ in CURVES:
        points = " ".join("{:.1f},{:.1f}".format(*at(step, loss)) for step, loss in enumerate(losses[name]))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{thick}" '
                     'stroke-linejoin="round"/>')
    return parts + ["</g>"]


def picture(story):
    cells = {(cell["tokens"], cell["optimizer"]): cell for cell in story["cells"]}
    model = story["model"]
    width, height = 2 * WIDTH, 2 * HEIGHT + 62
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
             f'height="{height}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
             "<style>text { fill: #24292f } .title { font-weight: bold; font-size: 13px } "
             ".grid { stroke: #d8dee4 }</style>",
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for i, name in enumerate(PANELS):
        parts += panel(cells[name], i % 2 * WIDTH, i // 2 * HEIGHT)
    at = LEFT
    for _, colour, thick, label in CURVES:
        parts.append(f'<path d="M{at} {2 * HEIGHT + 18}h24" stroke="{colour}" stroke-width="{thick}"/>'
                     f'<text x="{at + 30}" y="{2 * HEIGHT + 22}">{label}</text>')
        at += 110
    parts.append(f'<text x="{LEFT}" y="{2 * HEIGHT + 46}">Loss by step. {story["device"]}, PyTorch; '
                 f'vocabulary {model["vocabulary"]}, width {model["width"]}, {model["layers"]} layers, '
                 f'{model["sequence"] * model["sequences"]:,} tokens a step, seed {model["seed"]}.</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    sys.stdout.write(picture(json.loads(Path(sys.argv[1]).read_text())))
