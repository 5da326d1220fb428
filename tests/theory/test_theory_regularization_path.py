"""The regularisation path: where it goes, and that it is where it says."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import NonlinearConstraint, check_grad, minimize, minimize_scalar
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from skattn import Tokens
from skattn.theory import attention_svm, regularization_path
from skattn.theory._excess_risk import ExcessRisk
from skattn.theory._losses import LOSSES
from skattn.theory._norm_balls import EntrywiseBall, NuclearBall


def on_sphere(rng, *shape):
    array = rng.standard_normal(shape)
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def gap_instance(seed, n=5, T=5, d=20):
    """Tokens, queries and head on the sphere; the best token leads by 0.1."""
    rng = np.random.default_rng(seed)
    head, y = on_sphere(rng, d), rng.choice([-1.0, 1.0], n)
    y[:2] = -1.0, 1.0
    X, queries = on_sphere(rng, n, T, d), on_sphere(rng, n, d)
    for sample, label in zip(X, y, strict=True):
        while True:
            scores = np.sort(label * (sample @ head))
            if scores[-1] - scores[-2] >= 0.1:
                break
            sample[:] = on_sphere(rng, T, d)
    return X, y, head, queries


def risk_of(X, y, head, queries, W, loss):
    scores = np.einsum("ntd,nd->nt", X, queries @ W.T)
    output = np.einsum("nt,nt->n", softmax(scores, axis=1), X @ head)
    return loss(y * output).mean()


def norm_of(W, norm):
    if norm in ("fro", "nuc"):
        return np.linalg.norm(W, norm)
    return np.sum(np.abs(W) ** norm) ** (1 / norm)


PLAIN_LOSSES = {
    "logistic": lambda score: np.log1p(np.exp(-score)),
    "exponential": lambda score: np.exp(-score),
    "correlation": lambda score: -score,
}


def test_the_paths_of_the_race_figure():
    # MATH.md: 1 - alignment is 1.1e-2, 1.7e-4, 1.8e-5 at R = 20, 200, 600. Instances
    # differ by a factor of two to both sides.
    misses = []
    for seed in range(10):
        X, y, head, queries = gap_instance(seed)
        path = regularization_path(X, y, head, queries, radii=(5, 20, 200, 600))
        misses.append(1 - path.alignments)
        np.testing.assert_allclose(path.norms, path.radii)
        assert path.gaps.max() < 1e-8
    ratios = np.median(misses, axis=0)[1:] / [1.1e-2, 1.7e-4, 1.8e-5]
    assert (ratios > 0.7).all()
    assert (ratios < 1.4).all()
    assert (np.diff(misses, axis=1) < 0).all()


@pytest.mark.parametrize("norm", ["nuc", 1.5, 3.0])
def test_each_norm_goes_to_its_own_svm(norm):
    # The l_p norms need far more iterations, and fewer dimensions make up for it.
    X, y, head, queries = gap_instance(0, n=3, T=4, d=8)
    path = regularization_path(X, y, head, queries, norm=norm, radii=(20, 600))
    assert path.alignments[1] > 0.999
    best = (y[:, None] * (X @ head)).argmax(axis=1)
    np.testing.assert_array_equal(path.selected, best)
    own = attention_svm(X, best, queries, norm=norm, tol=1e-9)
    np.testing.assert_allclose(path.svm.coef, own.coef, atol=1e-6)
    other = regularization_path(X, y, head, queries, radii=(600,)).coefs[0]
    norms = [norm_of(W, norm) / norm_of(W, "fro") for W in (path.coefs[1], other)]
    assert abs(norms[0] / norms[1] - 1) > 0.01
    np.testing.assert_allclose(path.norms, path.radii)
    assert path.gaps.max() < 1e-5


@pytest.mark.parametrize(
    ("norm", "loss"),
    [
        ("fro", "logistic"),
        ("fro", "exponential"),
        ("fro", "correlation"),
        ("nuc", "logistic"),
        (3.0, "logistic"),
    ],
)
def test_a_generic_optimiser_finds_the_same_risk(norm, loss):
    X, y, head, queries = gap_instance(1, n=4, T=3, d=3)
    path = regularization_path(
        X, y, head, queries, norm=norm, loss=loss, radii=[1, 4], n_restarts=2
    )
    for radius, coef, value in zip(path.radii, path.coefs, path.losses, strict=True):

        def risk(W):
            return risk_of(X, y, head, queries, W, PLAIN_LOSSES[loss])

        assert risk(coef) == pytest.approx(value, rel=1e-12)
        best = generic_minimum(risk, norm, radius)
        # SLSQP stalls now and then a little above.
        assert best < value + 1e-4 * abs(value)
        assert value < best + 1e-9


def generic_minimum(risk, norm, radius):
    """Least risk that SLSQP finds over 3 x 3 weights in a ball."""

    def weights(entries):
        if norm != "nuc":
            return entries.reshape(3, 3)
        keys, queries = entries.reshape(2, 3, 3)
        return keys @ queries.T

    def size(entries):
        if norm != "nuc":
            return norm_of(entries.reshape(3, 3), norm)
        return 0.5 * entries @ entries

    starts = np.random.default_rng(0).normal(size=(3, 18 if norm == "nuc" else 9))
    return min(
        minimize(
            lambda entries: risk(weights(entries)),
            start,
            method="SLSQP",
            constraints=NonlinearConstraint(size, -np.inf, radius),
            options={"maxiter": 500, "ftol": 1e-13},
        ).fun
        for start in starts
    )


def test_weights_stay_inside_where_more_would_not_help():
    # Two samples want the first token and one the second: the best weight is finite.
    X = np.array([[[1.0], [0.0]]] * 3)
    y, head = np.array([1, 1, -1]), np.array([3.0])
    path = regularization_path(X, y, head, radii=[0.1, 50.0, 5.0])

    def risk(weight):
        share = softmax([weight, 0.0])[0]
        return np.log1p(np.exp(-y * 3 * share)).mean()

    best = minimize_scalar(
        risk, bounds=(-5, 5), method="bounded", options={"xatol": 1e-10}
    )
    np.testing.assert_allclose(path.coefs[1:, 0], best.x, atol=1e-4)
    np.testing.assert_allclose(path.losses[1:], best.fun, rtol=1e-10)
    assert path.norms[0] == pytest.approx(0.1)
    assert path.svm.status == "infeasible"
    assert np.isnan(path.alignments).all()


def test_a_prompt_a_selection_and_ragged_tokens():
    X, y, head, _ = gap_instance(2, n=3, T=4, d=12)
    ragged = [X[0], X[1][:2], X[2][:3]]
    path = regularization_path(ragged, y, head, radii=(20, 600))
    assert path.coefs.shape == (2, 12)
    assert path.alignments[1] > 0.999
    other = (path.selected + 1) % 2
    against = regularization_path(ragged, y, head, selected=other, radii=(20, 600))
    np.testing.assert_allclose(against.losses, path.losses)
    assert (against.alignments < 0).all()
    padded = np.full((3, 5, 12), np.nan)
    for row, sample in zip(padded, ragged, strict=True):
        row[1 : len(sample) + 1] = sample
    shifted = regularization_path(Tokens.from_padded(padded), y, head, radii=(20, 600))
    np.testing.assert_array_equal(shifted.selected, path.selected + 1)
    np.testing.assert_allclose(shifted.coefs, path.coefs)


def test_losses_never_rise_and_radii_keep_their_order():
    X, y, head, queries = gap_instance(3, n=6, T=6, d=4)
    radii = [50.0, 0.5, 8.0, 2.0, 200.0]
    path = regularization_path(X, y, head, queries, radii=radii)
    np.testing.assert_array_equal(path.radii, radii)
    order = np.argsort(radii)
    assert (np.diff(path.log_excess[order]) <= 0).all()
    again = regularization_path(X, y, head, queries, radii=np.sort(radii))
    np.testing.assert_array_equal(again.coefs, path.coefs[order])
    frame = path.to_frame()
    assert isinstance(frame, pd.DataFrame)
    np.testing.assert_array_equal(frame["radius"], radii)
    np.testing.assert_array_equal(frame["log_excess"], path.log_excess)


def test_restarts_are_drawn_from_the_random_state():
    X, y, head, queries = gap_instance(4, n=6, T=6, d=4)

    def run(**options):
        return regularization_path(X, y, head, queries, radii=[5, 20], **options)

    plain, one = run(), run(n_restarts=4, random_state=0)
    assert (one.n_iter > plain.n_iter).all()
    assert one.log_excess[0] <= plain.log_excess[0] + 1e-12
    np.testing.assert_array_equal(one.n_iter, run(n_restarts=4, random_state=0).n_iter)


def test_few_iterations_warn_with_the_gap():
    X, y, head, queries = gap_instance(0)
    with pytest.warns(ConvergenceWarning, match=r"gap of .* at radius 600, above tol"):
        path = regularization_path(X, y, head, queries, radii=[600], max_iter=2)
    assert path.gaps[0] > 1e-5


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("size", [0.1, 1.0, 30.0, 1e4])
def test_the_logarithm_of_the_excess_and_its_gradient(loss, size):
    X, y, head, queries = gap_instance(0, n=4, T=3, d=3)
    gammas = y[:, None] * (X @ head)
    best = X[np.arange(4), gammas.argmax(axis=1)]
    risk = ExcessRisk(
        (X - best[:, None]).reshape(-1, 3),
        queries,
        np.arange(0, 13, 3),
        gammas.ravel(),
        loss,
    )
    W = size * np.random.default_rng(0).normal(size=(3, 3))
    value, _ = risk.log_value(W)
    if size <= 1:
        least = PLAIN_LOSSES[loss](gammas.max(axis=1)).mean()
        plain = risk_of(X, y, head, queries, W, PLAIN_LOSSES[loss])
        assert np.exp(value) == pytest.approx(plain - least, rel=1e-12)
    assert np.isfinite(value)
    error = check_grad(
        lambda w: risk.log_value(w.reshape(3, 3))[0],
        lambda w: risk.log_value(w.reshape(3, 3))[1].ravel(),
        W.ravel(),
        epsilon=1e-7 * max(size, 1),
    )
    assert error < 1e-5


def test_the_excess_keeps_its_digits_beyond_the_smallest_number():
    # One sample, two tokens: the excess is sigma(-gamma) * lead * exp(-w) for large w.
    risk = ExcessRisk(
        np.array([[0.0], [-1.0]]),
        np.ones((1, 1)),
        np.array([0, 2]),
        [2.0, 0.5],
        "logistic",
    )
    value, gradient = risk.log_value(np.array([[2000.0]]))
    expected = -np.log1p(np.exp(2.0)) + np.log(1.5) - 2000.0
    assert value == pytest.approx(expected, rel=1e-15)
    assert gradient == pytest.approx(-1.0)
    huge = ExcessRisk(
        np.array([[0.0], [-1.0]]),
        np.ones((1, 1)),
        np.array([0, 2]),
        [1e4, -1e4],
        "logistic",
    )
    value, gradient = huge.log_value(np.array([[0.0]]))
    assert np.isfinite([value, gradient.item()]).all()


@pytest.mark.parametrize(
    "ball",
    [EntrywiseBall((3, 2), 2.0), EntrywiseBall((3, 2), 1.5), NuclearBall((3, 2))],
)
def test_balls(ball):
    rng = np.random.default_rng(0)
    norm = "nuc" if isinstance(ball, NuclearBall) else ball._p
    W, G = rng.normal(size=(2, 3, 2))
    W *= 2.0 / norm_of(W, norm)
    for radius in (2.0, 5.0):
        np.testing.assert_allclose(ball.coef(ball.parameters(W, radius), radius), W)
    parameters = rng.normal(size=ball.parameters(W, 5.0).size)
    assert norm_of(ball.coef(parameters, 5.0), norm) < 5.0
    error = check_grad(
        lambda t: np.sum(ball.coef(t, 5.0) * G),
        lambda t: ball.pull_back(t, 5.0, G),
        parameters,
    )
    assert error < 1e-6
    lowest = ball.lowest(G, 5.0)
    assert norm_of(lowest, norm) == pytest.approx(5.0)
    others = rng.normal(size=(2000, 3, 2))
    values = [np.sum(G * V) * 5.0 / norm_of(V, norm) for V in others]
    assert np.sum(G * lowest) <= min(values)


X, Y, HEAD, QUERIES = gap_instance(0, n=3, T=3, d=4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": [1, 2, 3]}, "y must hold"),
        ({"y": [1, -1]}, r"y must have shape \(3,\)"),
        ({"head": HEAD[:3]}, r"head must have shape \(4,\)"),
        ({"head": HEAD * np.nan}, "head contains NaN"),
        ({"head": HEAD * 0}, "does not depend on the weights"),
        ({"X": X[:, :1]}, "does not depend on the weights"),
        ({"query": 0 * QUERIES}, "does not depend on the weights"),
        ({"query": QUERIES[:2]}, "query has 2 rows"),
        ({"radii": []}, "radii must be a one-dimensional"),
        ({"radii": 5}, "radii must be a one-dimensional"),
        ({"radii": [1, -1]}, "radii must be above 0"),
        ({"radii": "large"}, "radii has values of type"),
        ({"radii": [np.inf]}, "radii must be above 0"),
        ({"selected": [0, 1]}, "selected must be an array of 3"),
        ({"selected": [0, 1, 7]}, r"selected\[2\] is 7"),
        ({"loss": "hinge"}, "loss must be one of"),
        ({"loss": ["logistic"]}, "loss must be one of"),
        ({"norm": 1.0}, "norm must be above 1"),
        ({"norm": "l2"}, "norm must be"),
        ({"tol": 0}, "tol must be above 0"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"n_restarts": -1}, "n_restarts must be"),
        ({"n_restarts": 1.5}, "n_restarts must be"),
        ({"n_restarts": True}, "n_restarts must be"),
        ({"random_state": "seed"}, "cannot be used to seed"),
    ],
)
def test_what_is_refused(changes, message):
    arguments = {"X": X, "y": Y, "head": HEAD, "query": QUERIES} | changes
    with pytest.raises(ValueError, match=message):
        regularization_path(**arguments)


def test_tables_float32_and_equal_tokens():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(4, 3))
    path = regularization_path(table, [0, 1, 0, 1], rng.normal(size=6), radii=[3.0])
    assert path.coefs.shape == (1, 6)
    X, y, head, queries = gap_instance(0, n=3, T=3, d=4)
    exact = regularization_path(X, y, head, queries, radii=[5.0])
    single = regularization_path(
        X.astype(np.float32), y, head, queries.astype(np.float32), radii=[5.0]
    )
    np.testing.assert_allclose(single.coefs, exact.coefs, atol=1e-4)
    twice = regularization_path(
        np.concatenate([X, X], axis=1), y, head, queries, radii=[600.0]
    )
    np.testing.assert_allclose(
        twice.log_excess,
        regularization_path(X, y, head, queries, radii=[600.0]).log_excess,
        atol=1e-9,
    )
