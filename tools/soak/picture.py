"""Draws the samples of a soak as one SVG picture: a panel for each fact."""

from xml.sax.saxutils import escape

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf",
           "#7f7f7f")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 240, 80, 160, 34, 34
PANELS = (("rss", "resident memory (RSS), MiB", 1 << 20),
          ("pss", "proportional memory (PSS), MiB", 1 << 20),
          ("descriptors", "open descriptors", 1),
          ("threads", "threads", 1))


def text(x, y, words, **more):
    attributes = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in more.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{escape(words)}</text>'


def number(value):
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.2g}"


def panel(top, title, lines, span):
    """Returns the elements of a panel. `lines` is {name: [(seconds, value)]}, `span` the
    seconds of the run and the end of its warm-up."""
    seconds, warm_up = span
    largest = max((v for line in lines.values() for _, v in line), default=0) or 1
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(at):
        return LEFT + wide * min(at / seconds, 1)

    def y(value):
        return top + TOP + high * (1 - value / largest)
    out = [text(LEFT, top + 20, title, font_weight="bold"),
           f'<rect x="{LEFT}" y="{top + TOP}" width="{x(warm_up) - LEFT:.1f}" '
           f'height="{high}" fill="#eeeeee"/>']
    for share in (0, 0.5, 1):
        at = y(largest * share)
        out += [f'<line x1="{LEFT}" y1="{at:.1f}" x2="{LEFT + wide}" y2="{at:.1f}" '
                'stroke="#cccccc"/>',
                text(LEFT - 6, at + 4, number(largest * share), text_anchor="end"),
                text(x(seconds * share), top + HEIGHT - 14,
                     f"{number(seconds * share / 60)} min", text_anchor="middle")]
    for index, (name, line) in enumerate(sorted(lines.items())):
        colour = COLOURS[index % len(COLOURS)]
        points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in line)
        out += [f'<polyline points="{points}" fill="none" stroke="{colour}" '
                'stroke-width="1.5"/>',
                text(LEFT + wide + 10, top + TOP + 10 + 16 * index, name, fill=colour)]
    return out


def picture(samples, seconds, warm_up):
    """Returns the SVG text. The warm-up has a grey background."""
    groups = []
    for fact, title, unit in PANELS:
        lines = {}
        for sample in samples:
            for process, facts in sample["processes"].items():
                lines.setdefault(process, []).append(
                    (sample["seconds"], facts[fact] / unit))
        groups.append((title, lines))
    kinds = {}
    for sample in samples:
        for kind, value in sample["state"].items():
            kinds.setdefault(kind, []).append((sample["seconds"], value / (1 << 20)))
    groups.append(("state folder by kind, MiB", kinds))
    seconds = max([seconds, 1e-9] + [sample["seconds"] for sample in samples])
    height = HEIGHT * len(groups)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
    for at, (title, lines) in enumerate(groups):
        out += panel(at * HEIGHT, title, lines, (seconds, min(warm_up, seconds)))
    return "\n".join(out + ["</svg>", ""])
