"""The symbols and the meanings of the constants of `constants.Constants`, as the command prints
them."""

MEANINGS = {
    "sigma": ("sigma_W", "second largest singular value of W"),
    "penalty": ("lambda", "weight of the penalty in the landing field"),
    "eps": ("eps", "the safety region is ||x^T x - I||_F <= eps (6)"),
    "lipschitz": ("L", "Lipschitz constant of the gradients, largest of all agents"),
    "gradient": ("sup ||G||", "largest Euclidean gradient on the region"),
    "symmetric": ("s", "sup ||sym(x^T G)||_F on the region"),
    "largest": ("Lhat", "max(L, sup ||G||) (9)"),
    "field": ("G", "(1 + eps) sup ||G||, bounds the relative gradient skew(G x^T) x"),
    "gamma": ("gamma", "weight of p in the merit function (9)"),
    "nu": ("nu", "lambda gamma"),
    "smoothness": ("L'", "smoothness of the merit function, as printed (Prop. III.3)"),
    "smoothness_quadratic": (
        "L' proved",
        "the same, proved for quadratic f_i; the printed one can be too small",
    ),
    "field_lipschitz": (
        "L_Lambda",
        "Lipschitz constant of the landing field (proved; the paper takes L')",
    ),
    "rho": (
        "rho",
        "descent: <Lambda, grad of the merit function> >= rho ||Lambda||^2 (Prop. III.3)",
    ),
    "ratio": ("C", "2 L'/(lambda (1 - eps)) + 1 (Lemma IV.6)"),
    "safe": ("alpha_safe", "stays in the region up to this step (Prop. IV.1, (17))"),
    "stable": ("alpha_stable", "consensus errors contract below it (Theorem IV.4, sufficient)"),
    "limit": ("alpha_limit", "where the matrix of Theorem IV.4 reaches spectral radius 1"),
    "repaired": (
        "alpha_repaired",
        "the same with ||W - I|| where Lemma IV.3 errs, and L_Lambda in place of L'",
    ),
    "ergodic": ("alpha_IV.7", "ergodic rate O(1/K) up to this step (Theorem IV.7)"),
    "appendix": (
        "alpha_VI.8",
        "rho / (8 L'), which only the appendix's restatement asks for as well",
    ),
    "guaranteed": ("guaranteed", "the least of safe, stable, IV.7 and VI.8"),
}
"""The symbol and the meaning of each constant."""
