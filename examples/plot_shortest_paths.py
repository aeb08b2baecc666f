"""
Shortest paths with min-plus products
=====================================

The min-plus product of two matrices is ``C[i, k] = min_j (A[i, j] + B[j, k])``. Squaring a distance
matrix doubles the maximum number of steps of a path, so repeated squaring gives the lengths of all
shortest paths.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxplus.algebra import minplus

# %%
# Grid
# ----
#
# Steps to higher cells take longer. Some cells are closed.

size = 18
rng = np.random.default_rng(4)
rows, columns = np.indices((size, size))
height = sum(
    np.exp(-((rows - r) ** 2 + (columns - c) ** 2) / s)
    for r, c, s in ((4, 5, 8), (12, 11, 12), (5, 14, 6), (14, 3, 7))
)
closed = rng.random((size, size)) < 0.12
closed[0, 0] = closed[-1, -1] = False

n = size * size
step = np.full((n, n), np.inf)  # the zero of the min-plus algebra
np.fill_diagonal(step, 0.0)
for r, c in zip(*np.nonzero(~closed), strict=True):
    for dr, dc in ((0, 1), (1, 0), (0, -1), (-1, 0)):
        a, b = r + dr, c + dc
        if 0 <= a < size and 0 <= b < size and not closed[a, b]:
            step[r * size + c, a * size + b] = 5 + round(20 * height[a, b])  # integer minutes

# %%
# All distances
# -------------
#
# After k squarings, all paths with up to 2ᵏ steps are included. The loop ends when the distances no
# longer change.

distance, squarings = step, 0
while True:
    longer = minplus(distance, distance)
    squarings += 1
    if np.array_equal(longer, distance):
        break
    distance = longer
print(f"all {n * n:,} distances after {squarings} products of {n} × {n} matrices")

# %%
# The path is reconstructed from the first step of each shortest path. With ``return_index=True``,
# ``minplus`` also returns the index of each minimum.

without_staying = step + np.diag(np.full(n, np.inf))
_, first = minplus(without_staying, distance, return_index=True)
goal, path = n - 1, [0]
while path[-1] != goal:
    path.append(int(first[path[-1], goal]))
print(f"{len(path) - 1} steps, {distance[0, goal]:.0f} minutes")

fig, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
ground = np.ma.masked_where(closed, height)
far = np.ma.masked_where(closed, distance[0].reshape(size, size))
for ax, values, title in zip(
    axes, (ground, far), ("Height", "Minutes from the start"), strict=True
):
    colours = plt.get_cmap("copper_r" if values is ground else "viridis").with_extremes(bad="black")
    image = ax.imshow(values, cmap=colours)
    ax.plot(np.array(path) % size, np.array(path) // size, color="white", linewidth=2.5)
    ax.plot(0, 0, "o", color="white", markersize=9)
    ax.plot(size - 1, size - 1, "*", color="white", markersize=14)
    ax.set(title=title, xticks=[], yticks=[])
    fig.colorbar(image)
plt.show()
