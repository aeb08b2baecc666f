"""
Max-plus layers in PyTorch
==========================

``maxplus[torch]`` provides min-plus and max-plus products as layers, which can be combined with
other layers. The derivative of each output is nonzero for only one input and one weight, so
gradients are sparse.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import make_moons

from maxplus.export.torch import MaxPlus, MinPlus

torch.manual_seed(0)
X, y = make_moons(600, noise=0.15, random_state=0)
inputs, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y)

# %%
# The network has 16 linear features, 24 min-plus units and two max-plus scores:

network = torch.nn.Sequential(torch.nn.Linear(2, 16), MinPlus(16, 24), MaxPlus(24, 2))
print(network)
optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
losses = []
for _ in range(400):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(network(inputs), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"loss {losses[0]:.2f} → {losses[-1]:.3f}")

# %%
# The gradient of one sample has at most two nonzero entries per layer, one per class:

optimizer.zero_grad()
torch.nn.functional.cross_entropy(network(inputs[:1]), labels[:1]).backward()
for k in (1, 2):
    gradient = network[k].weight.grad
    print(f"{network[k]}: {int((gradient != 0).sum())} of {gradient.numel()} nonzero")

# %%
# Loss and predicted probabilities
# --------------------------------

low, high = X.min(axis=0) - 0.3, X.max(axis=0) + 0.3
grid = np.stack(np.meshgrid(*(np.linspace(a, b, 201) for a, b in zip(low, high, strict=True))), -1)
with torch.no_grad():
    rows = torch.tensor(grid.reshape(-1, 2), dtype=torch.float32)
    p = network(rows).softmax(dim=1)[:, 1].reshape(201, 201).numpy()
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
left.plot(losses, color="#0072B2", linewidth=2)
left.set(xlabel="step", ylabel="cross-entropy", ylim=(0, None))
right.contourf(grid[..., 0], grid[..., 1], p, np.linspace(0, 1, 11), cmap="RdBu_r", alpha=0.8)
right.contour(grid[..., 0], grid[..., 1], p, [0.5], colors="black", linewidths=1.5)
right.scatter(*X.T, s=4, c=np.where(y, "#67001F", "#053061"), linewidth=0)
right.set(xticks=[], yticks=[], title="Probability of the red class")
plt.show()
