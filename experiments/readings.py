"""Ambiguities and contradictions of the paper, and the choices made here."""

from experiments.harness import Table

READINGS = Table(
    "Readings",
    ("where", "what the paper says", "what we took, and why"),
    [
        (
            "Subgradient by W⁰ (main text)",
            "a full row x of the worst sample",
            "only the entry (i, p(i)): W⁰ has a fixed pattern, and only so are there at most C "
            "non-zero entries per layer, as the paper says elsewhere",
        ),
        (
            "Subgradient by W¹",
            "one class per entry in the text, a sum over classes in the appendix",
            "the sum: classes that share an entry all pull at it, and finite differences agree",
        ),
        (
            "Approximation theorem",
            "h(x) is a maximum over j = 1..2p",
            "over the m grid points, as in the proof",
        ),
        (
            "Extension to classification",
            "g_j(x^i) is 1 if i = j and 0 otherwise",
            "what the construction gives: −k·‖x^i − x^j‖∞",
        ),
        (
            "Target of Polyak's step",
            "L* = 0",
            "0 on Iris; 1.2 on MNIST, where 0 leads nowhere (the table of the MNIST run has both, "
            "and a target that follows the loss)",
        ),
        (
            "Constant step",
            "α = ε / (2·√(2C)); ε is not stated",
            "ε = 0.05 on Iris, 1 on MNIST, chosen by the loss on training samples",
        ),
        (
            "k on Iris",
            "not stated",
            "4, as on MNIST; more where as many units as flowers are to interpolate",
        ),
        ("Pixels of MNIST", "scale not stated", "0 to 1"),
        (
            "MNIST accuracy in the conclusion",
            "92 %",
            "that is the training accuracy (91.54 %); on test images it is 88.75 % in the table "
            "and 88.64 % by the confusion matrix",
        ),
        (
            "MLP on MNIST",
            "largest loss 27.63; test row 0.047 and 88 %",
            "27.63 is −log(1e−12), a clipped loss, and the test row repeats the one of Iris; our "
            "losses are not clipped",
        ),
        (
            "Budget of the MLP and the LMM on the mean loss (MNIST)",
            "not stated",
            "as many gradients of single images as the LMM on the maximum loss takes: 200,000",
        ),
        (
            "Linear Max-Plus model of the sparsity figures",
            "width not stated",
            "a curve over the width",
        ),
    ],
)
