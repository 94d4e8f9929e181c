"""The methods of the field since 2024, formula by formula: loops over agents, dense matrices,
nothing of the package.

As in `rivals`: ``gradients(i, k, x)``, the dense matrix W, a common start ``x0``, a `Trajectory`.
The source of a method, and what of it was derived, stands in the docstring of its module in the
package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root

from tests.reference.naive import (
    Array,
    Gradient,
    canonical_gradient,
    landing_field,
    mean,
    polar,
    sym,
    tangent_projection,
)
from tests.reference.rivals import (
    Gradients,
    Steps,
    Trajectory,
    combine,
    extra,
    last,
    starts,
    step_at,
)


def rmtracking(
    gradients: Gradients,
    W: Array,
    x0: Array,
    step_size: Steps,
    iterations: int,
    momentum: float,
    first: bool = False,
) -> Trajectory:
    """``m_i+ = momentum m_i + s_i``, ``s_i`` the tracker of the Riemannian gradients, ``x_i+ =
    polar(sum W x - a P(m_i))``.

    With ``first`` the order is the other: agents have momenta of their own gradients, and track
    these.
    """
    n, x = len(W), starts(x0, W)
    g = [tangent_projection(x[i], gradients(i, 0, x[i])) for i in range(n)]
    s, m = list(g), list(g)
    for k in range(iterations):
        a = step_at(step_size, k)
        along = s if first else m
        mixed = combine(W, x)
        x = [polar(mixed[i] - a * tangent_projection(x[i], along[i])) for i in range(n)]
        new = [tangent_projection(x[i], gradients(i, k + 1, x[i])) for i in range(n)]
        if first:
            own = [momentum * m[i] + new[i] for i in range(n)]
            s = [c + own[i] - m[i] for i, c in enumerate(combine(W, s))]
            m = own
        else:
            s = [c + new[i] - g[i] for i, c in enumerate(combine(W, s))]
            m = [momentum * m[i] + s[i] for i in range(n)]
        g = new
    return last(x, s)


def matrix_sign(v: Array) -> Array:
    """``sum_k u_k v_k^T`` over the singular values that are not zero."""
    left, values, right = np.linalg.svd(v, full_matrices=False)
    total = np.zeros_like(v)
    for k, value in enumerate(values):
        if value > 1e-12 * values[0]:
            total += np.outer(left[:, k], right[k])
    return total


def nuclear_norm(v: Array) -> float:
    """The sum of the singular values."""
    return float(sum(np.linalg.svd(v, compute_uv=False)))


def demuon(
    gradients: Gradients,
    W: Array,
    x0: Array,
    step_size: Steps,
    iterations: int,
    weight: float,
    scaled: bool,
    free: bool = False,
) -> Trajectory:
    """``V+ = W (V + M+ - M)``, ``X+ = W (X - eta msgn(V))``, ``M+ = (1 - weight) M + weight g``; in
    Euclidean space if ``free``.

    On the Stiefel manifold g and the V under msgn are projected to tangent spaces, and X+ to the
    manifold; where it is ``scaled``, eta is multiplied by the nuclear norm of that V.
    """
    n, x = len(W), starts(x0, W)
    tangent = (lambda x, u: u) if free else tangent_projection
    m = [tangent(x[i], gradients(i, 0, x[i])) for i in range(n)]
    v = combine(W, m)
    for k in range(iterations):
        moved = []
        for i in range(n):
            along = tangent(x[i], v[i])
            length = step_at(step_size, k) * (nuclear_norm(along) if scaled else 1.0)
            moved.append(x[i] - length * matrix_sign(along))
        x = combine(W, moved)
        x = x if free else [polar(y) for y in x]
        new = [
            (1 - weight) * m[i] + weight * tangent(x[i], gradients(i, k + 1, x[i]))
            for i in range(n)
        ]
        v = combine(W, [v[i] + new[i] - m[i] for i in range(n)])
        m = new
    return last(x, v)


def pogo(gradient: Gradient, x0: Array, step_size: Steps, iterations: int) -> Array:
    """``m = x - eta skew(g x^T) x``, ``x+ = m + (m - m m^T m) / 2``: the last point."""
    x = x0
    for k in range(iterations):
        m = x - step_at(step_size, k) * canonical_gradient(x, gradient(x))
        x = m + (m - m @ m.T @ m) / 2
    return x


Prox = Callable[[Array, float], Array]  # ``prox(y, t)``, least in w of ``||w - y||^2 / 2 + t h(w)``


def soft_threshold(y: Array, t: float) -> Array:
    """Of the l1 norm, entry by entry."""
    out = np.zeros_like(y)
    for at, value in np.ndenumerate(y):
        out[at] = np.sign(value) * max(abs(value) - t, 0.0)
    return out


def row_threshold(y: Array, t: float) -> Array:
    """Of the sum of the Euclidean norms of rows, row by row."""
    out = np.zeros_like(y)
    for i, row in enumerate(y):
        length = float(np.sqrt(np.sum(row * row)))
        if length > t:
            out[i] = row - t * row / length
    return out


def negative_threshold(y: Array, t: float) -> Array:
    """Of the sum of the negative parts, entry by entry."""
    out = np.zeros_like(y)
    for at, value in np.ndenumerate(y):
        out[at] = value if value >= 0 else min(value + t, 0.0)
    return out


def tangent_proximal(prox: Prox, x: Array, y: Array, t: float) -> Array:
    """Least of ``||w - y||^2 / 2 + t h(w)`` where w - x is tangent at x: ``prox(y + x S)`` for a
    symmetric S, found by SciPy."""
    r = x.shape[1]
    pairs = [(a, b) for a in range(r) for b in range(a, r)]

    def at(numbers: Array) -> Array:
        S = np.zeros((r, r))
        for (a, b), number in zip(pairs, numbers, strict=True):
            S[a, b] = S[b, a] = number
        return prox(y + x @ S, t)

    def excess(numbers: Array) -> Array:
        e = sym(x.T @ at(numbers)) - np.eye(r)
        return np.array([e[pair] for pair in pairs])

    found = root(excess, np.zeros(len(pairs)), tol=1e-15)
    assert np.abs(excess(found.x)).max() < 1e-13
    return at(found.x)


def drproxgt(
    gradients: Gradients, prox: Prox, W: Array, x0: Array, step_size: float, iterations: int
) -> Trajectory:
    """``x_i+ = polar(sum W w)``, w_j the tangent proximal point of ``x_j - t s_j`` at x_j; s_i
    tracks the smooth gradients."""
    n, x = len(W), starts(x0, W)
    g = [gradients(i, 0, x[i]) for i in range(n)]
    s = list(g)
    for k in range(iterations):
        forward = [
            tangent_proximal(prox, x[i], x[i] - step_size * s[i], step_size) for i in range(n)
        ]
        x = [polar(y) for y in combine(W, forward)]
        new = [gradients(i, k + 1, x[i]) for i in range(n)]
        s = [c + new[i] - g[i] for i, c in enumerate(combine(W, s))]
        g = new
    return last(x, s)


def prextra(
    gradients: Gradients,
    prox: Prox,
    W: Array,
    x0: Array,
    step_size: float,
    iterations: int,
    plain: bool = False,
) -> Trajectory:
    """``x_i+ = polar(w_i)``, w_i proximal of ``sum W x + u_i - a g_i``, tangent or ``plain``;
    ``u_i+ = u_i + (W x - x)_i / 2``."""
    n, x = len(W), starts(x0, W)
    u = [np.zeros_like(x0) for _ in range(n)]
    for k in range(iterations):
        mixed = combine(W, x)
        new = []
        for i in range(n):
            g = gradients(i, k, x[i])
            if plain:
                y = mixed[i] + u[i] - step_size * tangent_projection(x[i], g)
                new.append(polar(prox(y, step_size)))
            else:
                y = mixed[i] + u[i] - step_size * g
                new.append(polar(tangent_proximal(prox, x[i], y, step_size)))
        u = [u[i] + (mixed[i] - x[i]) / 2 for i in range(n)]
        x = new
    return last(x, u)


def dprsrm(
    gradients: Gradients, W: Array, x0: Array, step_size: Steps, iterations: int, decay: float
) -> Trajectory:
    """``d+ = g(x+; b+) + (1 - tau)(d - g(x; b+))``, ``s+ = W s + d+ - d``, ``x+ = polar(W x - a P_x
    s)``."""
    n, x = len(W), starts(x0, W)

    def slope(i: int, k: int, x: Array) -> Array:
        return tangent_projection(x, gradients(i, k, x))

    d = [slope(i, 0, x[i]) for i in range(n)]
    s = list(d)
    for k in range(iterations):
        tau = (k + 2) ** -decay
        mixed = combine(W, x)
        moved = [
            polar(mixed[i] - step_at(step_size, k) * tangent_projection(x[i], s[i]))
            for i in range(n)
        ]
        new = [
            slope(i, k + 1, moved[i]) + (1 - tau) * (d[i] - slope(i, k + 1, x[i])) for i in range(n)
        ]
        s = [c + new[i] - d[i] for i, c in enumerate(combine(W, s))]
        x, d = moved, new
    return last(x, s)


def vr_drfgt(
    gradients: Gradients,
    whole: Gradients,
    W: Array,
    x0: Array,
    step_size: float,
    penalty: float,
    iterations: int,
    period: int,
) -> Trajectory:
    """DRFGT along ``v+ = v + g(x+; b+) - g(x; b+)``, the ``whole`` gradient at x+ where ``period``
    divides the iteration."""
    n, x = len(W), starts(x0, W)
    v = [whole(i, 0, x[i]) for i in range(n)]
    f = [landing_field(x[i], v[i], penalty) for i in range(n)]
    y = list(f)
    for k in range(1, iterations + 1):
        moved = [c - step_size * y[i] for i, c in enumerate(combine(W, x))]
        for i in range(n):
            if k % period == 0:
                v[i] = whole(i, k, moved[i])
            else:
                v[i] = v[i] + gradients(i, k, moved[i]) - gradients(i, k, x[i])
        new = [landing_field(moved[i], v[i], penalty) for i in range(n)]
        y = [c + new[i] - f[i] for i, c in enumerate(combine(W, y))]
        x, f = moved, new
    return last(x, y)


def drcgd(
    gradients: Gradients,
    W: Array,
    x0: Array,
    step_size: Steps,
    iterations: int,
    cap: float,
    tracked: bool,
) -> Trajectory:
    """``x+ = polar(W x + a P(d))``, ``d+ = -p+ + b P(W d)``, ``b = min(cap, ||p+||^2 / ||p||^2)``,
    p = P(y).

    y is the agent's own Riemannian gradient, or its tracker of them.
    """
    n, x = len(W), starts(x0, W)
    g = [tangent_projection(x[i], gradients(i, 0, x[i])) for i in range(n)]
    y = list(g)
    d = [-y[i] for i in range(n)]
    for k in range(iterations):
        mixed, directions, sums = combine(W, x), combine(W, d), combine(W, y)
        before = [tangent_projection(x[i], y[i]) for i in range(n)]
        x = [
            polar(mixed[i] + step_at(step_size, k) * tangent_projection(x[i], d[i]))
            for i in range(n)
        ]
        new = [tangent_projection(x[i], gradients(i, k + 1, x[i])) for i in range(n)]
        y = [sums[i] + new[i] - g[i] for i in range(n)] if tracked else list(new)
        for i in range(n):
            after = tangent_projection(x[i], y[i])
            ratio = min(cap, float(np.sum(after * after) / np.sum(before[i] * before[i])))
            d[i] = -after + ratio * tangent_projection(x[i], directions[i])
        d, g = list(d), new
    return last(x, y)


def rfextra(
    gradients: Gradients, W: Array, x0: Array, step_size: float, iterations: int, penalty: float
) -> Trajectory:
    """EXTRA along ``G (3I - x^T x)/2 - x sym(x^T G) + penalty x (x^T x - I)``, without a
    projection."""

    def mapping(i: int, k: int, x: Array) -> Array:
        g, one = gradients(i, k, x), np.eye(x.shape[1])
        return g @ (3 * one - x.T @ x) / 2 - x @ sym(x.T @ g) + penalty * x @ (x.T @ x - one)

    return extra(mapping, W, x0, step_size, iterations)


def local_tracking(
    gradients: Gradients,
    W: Array,
    x0: Array,
    step_size: float,
    iterations: int,
    steps: int,
    awake: Array | None = None,
) -> Trajectory:
    """``z <- z - eta (grad f(P(z)) + c)`` a few times from x, ``y = (x - z) / (steps eta)``, ``c+ =
    c - y + W y``, ``x+ = P(W z)``.

    ``awake`` says of each iteration who takes part, ``(iterations, n)``; the weights of the others
    go to the agents' own.
    """
    n, x = len(W), starts(x0, W)
    own = [tangent_projection(x[i], gradients(i, 0, x[i])) for i in range(n)]
    c = [mixed - own[i] for i, mixed in enumerate(combine(W, own))]
    for k in range(iterations):
        there = [i for i in range(n) if awake is None or awake[k][i]]
        V = np.eye(n)
        for i in there:
            for j in there:
                if i != j:
                    V[i, j] = W[i, j]
                    V[i, i] -= W[i, j]
        z, y = list(x), [np.zeros_like(x0) for _ in range(n)]
        for i in there:
            for t in range(steps):
                at = x[i] if t == 0 else polar(z[i])
                z[i] = z[i] - step_size * (
                    tangent_projection(at, gradients(i, steps * k + t, at)) + c[i]
                )
            y[i] = (x[i] - z[i]) / (steps * step_size)
        mixed, means = combine(V, z), combine(V, y)
        x, c = list(x), list(c)
        for i in there:
            x[i], c[i] = polar(mixed[i]), c[i] - y[i] + means[i]
    return last(x, c)


def server(
    gradients: Gradients, n: int, x0: Array, step_size: float, iterations: int, steps: int
) -> Array:
    """Local steps of ``n`` clients of a server: the last of its points.

    Clients go from its point along their gradients plus c_i, the server projects the mean of where
    they end, and c_i is the mean move of all per step less the mean of the client's own gradients.
    """
    x = x0
    own = [tangent_projection(x0, gradients(i, 0, x0)) for i in range(n)]
    c = [mean(own) - own[i] for i in range(n)]
    for k in range(iterations):
        ends, along = [], []
        for i in range(n):
            z, total = x, np.zeros_like(x)
            for t in range(steps):
                g = tangent_projection(polar(z), gradients(i, steps * k + t, polar(z)))
                z, total = z - step_size * (g + c[i]), total + g
            ends.append(z)
            along.append(total / steps)
        center = mean(ends)
        c = [(x - center) / (steps * step_size) - along[i] for i in range(n)]
        x = polar(center)
    return x


def largest(v: Array, kept: int) -> Array:
    """The entries of largest absolute value, and 0 for the others; among equal ones the first."""
    out = np.zeros(v.size)
    for place in sorted(range(v.size), key=lambda at: (-abs(v.flat[at]), at))[:kept]:
        out[place] = v.flat[place]
    return out.reshape(v.shape)


def ef_landing(
    gradients: Gradients,
    W: Array,
    x0: Array,
    step_size: float,
    iterations: int,
    penalty: float,
    consensus_step: float,
    weight: float,
    kept: int,
) -> Trajectory:
    """``x += gamma (W - I) m - a Lambda(x; y)``, ``y += gamma (W - I) n + v+ - v``, ``v += theta
    (g - v)``.

    m and n are the sums of the ``kept`` largest entries of what they lack of x and y, after a first
    message that is whole.
    """
    n, x = len(W), starts(x0, W)
    v = [gradients(i, 0, x[i]) for i in range(n)]
    y = list(v)
    m, q = list(x), list(y)
    for k in range(iterations):
        if k > 0:
            m = [m[i] + largest(x[i] - m[i], kept) for i in range(n)]
            q = [q[i] + largest(y[i] - q[i], kept) for i in range(n)]
        pulled = [mixed - m[i] for i, mixed in enumerate(combine(W, m))]
        shared = [mixed - q[i] for i, mixed in enumerate(combine(W, q))]
        x = [
            x[i] + consensus_step * pulled[i] - step_size * landing_field(x[i], y[i], penalty)
            for i in range(n)
        ]
        new = [v[i] + weight * (gradients(i, k + 1, x[i]) - v[i]) for i in range(n)]
        y = [y[i] + consensus_step * shared[i] + new[i] - v[i] for i in range(n)]
        v = new
    return last(x, y)


def ef_landing_server(
    gradients: Gradients,
    n: int,
    x0: Array,
    step_size: float,
    iterations: int,
    penalty: float,
    weight: float,
    kept: int,
) -> Array:
    """A server moves x along the landing field of the mean of g_i, ``g_i += C(v_i - g_i)``, ``v_i
    += theta (gradient - v_i)``.

    The first message of a node is whole. The last point.
    """
    x, v = x0, [gradients(i, 0, x0) for i in range(n)]
    g = list(v)
    for k in range(iterations):
        x = x - step_size * landing_field(x, mean(g), penalty)
        for i in range(n):
            v[i] = v[i] + weight * (gradients(i, k + 1, x) - v[i])
            if k == 0:
                g[i] = v[i]
            else:
                g[i] = g[i] + largest(v[i] - g[i], kept)
    return x


def ddrs(
    gradients: Gradients, W: Array, x0: Array, gamma: float, iterations: int, inner: int
) -> Trajectory:
    """``z += x - u``, u near ``prox_{gamma f}(z)`` by ``inner`` steps of length 2/3, ``d+ = V (d +
    s+ - s)``, ``x+ = P(d)``.

    s = 2 u - z, and V is the mean of W and I.
    """
    n, x, V = len(W), starts(x0, W), (W + np.eye(len(W))) / 2
    own = [gamma * gradients(i, 0, x0) for i in range(n)]
    u, z = list(x), [x0 + own[i] for i in range(n)]
    s = [x0 - own[i] for i in range(n)]
    d = list(s)
    for k in range(iterations):
        for i in range(n):
            z[i] = z[i] + x[i] - u[i]
            for t in range(inner):
                u[i] = u[i] - 2 / 3 * (gamma * gradients(i, inner * k + t, u[i]) + u[i] - z[i])
        new = [2 * u[i] - z[i] for i in range(n)]
        d = combine(V, [d[i] + new[i] - s[i] for i in range(n)])
        s, x = new, [polar(point) for point in d]
    return last(x, d)


def saga_drfgt(
    gradients: Gradients,
    n: int,
    counts: list[int],
    drawn: Sequence[NDArray[np.int64]],
    W: Array,
    x0: Array,
    step_size: float,
    penalty: float,
) -> Trajectory:
    """DRFGT along ``mean T_i + mean over the batch of (g_is - T_is)``, then ``T_is = g_is``; T_is
    is the last gradient of sample s.

    ``gradients(i, s, x)`` is that of one sample, and ``drawn`` the batches ``(n, b)`` of the
    iterations.
    """
    x = starts(x0, W)
    table = [[gradients(i, s, x0) for s in range(counts[i])] for i in range(n)]
    f = [landing_field(x0, mean(table[i]), penalty) for i in range(n)]
    y = list(f)
    for batch in drawn:
        x = [c - step_size * y[i] for i, c in enumerate(combine(W, x))]
        new = []
        for i in range(n):
            fresh = {int(s): gradients(i, int(s), x[i]) for s in batch[i]}
            v = mean(table[i]) + mean([fresh[int(s)] - table[i][int(s)] for s in batch[i]])
            for s, own in fresh.items():
                table[i][s] = own
            new.append(landing_field(x[i], v, penalty))
        y = [c + new[i] - f[i] for i, c in enumerate(combine(W, y))]
        f = new
    return last(x, y)
