"""
Scheduling with max-plus products
=================================

A job starts when all its predecessors are finished. The start times can be computed by a max-plus
product. If ``A[i, j]`` is the minimum time from the start of job j to the next start of job i, the
start times of the next round are ``max_j (A[i, j] + x[j])``. The max-plus eigenvalue of A is the
asymptotic cycle time.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxplus.algebra import maxplus

# %%
# Example: a bakery
# -----------------
#
# Each job has a duration in minutes, and predecessors in the same round or in the previous round.

names = ["knead", "rest", "shape", "bake", "cool"]
minutes = np.array([12.0, 25.0, 8.0, 30.0, 15.0])
never = -np.inf  # the zero of the max-plus algebra

same_round = np.full((5, 5), never)
for job in range(1, 5):
    same_round[job, job - 1] = minutes[job - 1]
last_round = np.full((5, 5), never)
np.fill_diagonal(last_round, minutes)  # each station is free after its job
last_round[0, 2] = minutes[2]  # there is one bowl, which is free after shaping

# %%
# The dependencies within a round are given by the max-plus sum of all powers of ``same_round``. The
# matrix ``A`` maps the start times of a round to the start times of the next round.

star = power = np.where(np.eye(5, dtype=bool), 0.0, never)
for _ in range(4):
    power = maxplus(power, same_round)
    star = np.maximum(star, power)
A = maxplus(star, last_round)

starts = [star[:, :1]]  # the first job starts at 0
for _ in range(5):
    starts.append(maxplus(A, starts[-1]))
starts = np.hstack(starts)
print(starts)

# %%
# Cycle time
# ----------
#
# The max-plus eigenvalue is the largest mean weight of a cycle, that is, the maximum of
# (Aᵏ)[i, i] / k over all k and i.

cycle_time, power = -np.inf, A
for k in range(1, 6):
    cycle_time = max(cycle_time, float(np.diag(power).max()) / k)
    power = maxplus(power, A)
print(f"cycle time {cycle_time:g} minutes; the bottleneck is the bowl, not the oven")

fig, ax = plt.subplots(figsize=(10, 3.4), layout="constrained")
for batch, colour in enumerate(plt.get_cmap("cividis")(np.linspace(0.1, 0.9, starts.shape[1]))):
    ax.barh(range(5), minutes, left=starts[:, batch], color=colour, edgecolor="white")
    for job in range(5):
        ax.text(starts[job, batch] + 2, job, batch + 1, va="center", color="white", size=9)
for start in starts[0]:
    ax.axvline(start, color="#6B6B6B", linewidth=0.6, linestyle=":", zorder=0)
ax.set_yticks(range(5), names)
ax.invert_yaxis()
ax.set(xlabel="minutes", title=f"Six batches, cycle time {cycle_time:g} minutes")
plt.show()
