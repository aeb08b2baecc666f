"""Figures of Short Computational Trees."""

import matplotlib.pyplot as plt

BLUE, VERMILION, PALE, INK = "#0072B2", "#D55E00", "#EEF3F7", "#222222"


def levels_of(leaves):
    """Return all levels of a max tree, leaves first, padded with −∞ to a power of two."""
    n = 1
    while n < len(leaves):
        n *= 2
    rows = [list(leaves) + [float("-inf")] * (n - len(leaves))]
    while len(rows[-1]) > 1:
        last = rows[-1]
        rows.append([max(last[2 * j], last[2 * j + 1]) for j in range(len(last) // 2)])
    return rows


def draw_tree(ax, leaves, changed=None, before=None, title=""):
    """Plot a tree and highlight the path from a changed leaf to the root."""
    rows = levels_of(leaves)
    width = len(rows[0])
    place = [[(j + 0.5) * width / len(row) for j in range(len(row))] for row in rows]
    for i, row in enumerate(rows[1:], start=1):
        for j in range(len(row)):
            for child in (2 * j, 2 * j + 1):
                on_path = changed is not None and changed >> (i - 1) == child
                spots = [place[i][j], place[i - 1][child]]
                colour, width_of = (VERMILION, 2.2) if on_path else ("#C8C8C8", 1)
                ax.plot(spots, [i, i - 1], color=colour, linewidth=width_of, zorder=1)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            on_path = changed is not None and changed >> i == j
            face, edge, line = ("white", VERMILION, 1.8) if on_path else (PALE, BLUE, 1)
            spot = place[i][j], i
            ax.scatter(*spot, s=430, color=face, edgecolor=edge, linewidth=line, zorder=2)
            text = "−∞" if value == float("-inf") else f"{value:g}"
            ax.text(place[i][j], i, text, ha="center", va="center", fontsize=9, color=INK, zorder=3)
    if before is not None:
        ax.text(
            place[0][changed], -0.62, f"was {before:g}", ha="center", fontsize=8, color=VERMILION
        )
    ax.set(title=title, xlim=(0, width), ylim=(-0.9, len(rows) - 0.5))
    ax.axis("off")


def before_and_after(leaves, changed, value):
    """Plot a tree before and after the change of one leaf."""
    new = list(leaves)
    new[changed] = value
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.1))
    draw_tree(left, leaves, title="Each node is the maximum of its children")
    draw_tree(
        right, new, changed, leaves[changed], title="A changed leaf updates one node per level"
    )
    return fig
