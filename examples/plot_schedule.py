"""
Schedules by max-plus products
==============================

A job starts when the last of what it waits for is done. That is a max-plus product: with
``A[i, j]`` the time from a start of j to the earliest next start of i, the starts of the next round
are ``max_j (A[i, j] + x[j])``. The algebra's eigenvalue is the rhythm that a workshop settles in.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxplus.algebra import maxplus

# %%
# A bakery
# --------
#
# Minutes of each job, and what it waits for: in the same round, or in the round before.

names = ["knead", "rest", "shape", "bake", "cool"]
minutes = np.array([12.0, 25.0, 8.0, 30.0, 15.0])
never = -np.inf  # the algebra's zero

same_round = np.full((5, 5), never)
for job in range(1, 5):
    same_round[job, job - 1] = minutes[job - 1]
last_round = np.full((5, 5), never)
np.fill_diagonal(last_round, minutes)  # each place is free when its job is done
last_round[0, 2] = minutes[2]  # one bowl: it comes back when the dough is shaped

# %%
# Chains within a round: the sum of all powers of ``same_round``, where a sum is a maximum. Then one
# matrix takes a round to the next.

star = power = np.where(np.eye(5, dtype=bool), 0.0, never)
for _ in range(4):
    power = maxplus(power, same_round)
    star = np.maximum(star, power)
A = maxplus(star, last_round)

starts = [star[:, :1]]  # the first kneading at 0
for _ in range(5):
    starts.append(maxplus(A, starts[-1]))
starts = np.hstack(starts)
print(starts)

# %%
# The rhythm
# ----------
#
# The eigenvalue is the largest mean of a cycle: max over k of (Aᵏ)[i, i] / k.

rhythm, power = -np.inf, A
for k in range(1, 6):
    rhythm = max(rhythm, float(np.diag(power).max()) / k)
    power = maxplus(power, A)
print(f"a batch every {rhythm:g} minutes; the bottleneck is the bowl, not the oven")

fig, ax = plt.subplots(figsize=(10, 3.4), layout="constrained")
for batch, colour in enumerate(plt.get_cmap("cividis")(np.linspace(0.1, 0.9, starts.shape[1]))):
    ax.barh(range(5), minutes, left=starts[:, batch], color=colour, edgecolor="white")
    for job in range(5):
        ax.text(starts[job, batch] + 2, job, batch + 1, va="center", color="white", size=9)
for start in starts[0]:
    ax.axvline(start, color="#6B6B6B", linewidth=0.6, linestyle=":", zorder=0)
ax.set_yticks(range(5), names)
ax.invert_yaxis()
ax.set(xlabel="minutes", title=f"Six batches; in the end one every {rhythm:g} minutes")
plt.show()
