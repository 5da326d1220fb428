"""The solvers of the theory in `AttentionClassifier`: where they lead, and how."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from skattn import AttentionClassifier
from skattn.datasets import make_token_selection
from skattn.theory import alignment, attention_svm

QUICK = {"max_iter": 15, "tol": 0, "random_state": 0}


def on_sphere(rng, *shape):
    vectors = rng.standard_normal(shape)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def instance(seed, n, T, d, gap):
    """Tokens, labels, queries and head; the best score is `gap` above the second."""
    rng = np.random.default_rng(seed)
    head, y = on_sphere(rng, d), rng.choice([-1, 1], size=n)
    y[:2] = -1, 1
    X = []
    for sign in y:
        sample = on_sphere(rng, T, d)
        while np.diff(np.sort(sign * sample @ head)[-2:])[0] < gap:
            sample = on_sphere(rng, T, d)
        X.append(sample)
    return np.array(X), y, on_sphere(rng, n, d), head


def trained(X, y, query, head, **options):
    options = {"query": "given", "alpha": 0, "tol": 0, "freeze_head": True, **options}
    model = AttentionClassifier(random_state=0, **options)
    return model.fit(X, y, query=query, coef_init=head)


def best_tokens(X, y, head):
    return (y[:, None] * (X @ head)).argmax(axis=1)


class TestPolyak:
    @pytest.mark.slow
    def test_it_reaches_the_attention_svm_in_tens_of_steps(self):
        """MATH.md: .998, .9997 and .99996 after 36, 100 and 300 steps from zero."""
        for max_iter, expected in ((36, 0.998), (100, 0.9997), (300, 0.99996)):
            alignments = []
            for seed in range(6):
                X, y, query, head = instance(seed, 5, 5, 20, gap=0.1)
                model = trained(X, y, query, head, solver="polyak", max_iter=max_iter)
                best = best_tokens(X, y, head)
                assert_array_equal(model.selected_tokens(X, query=query), best)
                svm = attention_svm(X, best, query)
                alignments.append(alignment(model.attention_coef_, svm.coef))
            assert 1 - np.mean(alignments) < 1.25 * (1 - expected)

    def test_the_closed_form_in_numpy(self):
        """The rule and the gradient by hand, while plain subtraction still works."""
        X, y, query, head = instance(0, 5, 5, 20, gap=0.1)
        model = trained(X, y, query, head, solver="polyak", max_iter=8)
        values = X @ head
        infimum = np.logaddexp(0, -(y[:, None] * values).max(axis=1)).mean()
        W, losses = np.zeros((20, 20)), []
        for _ in range(8):
            scores = np.einsum("itd,de,ie->it", X, W, query)
            weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
            outputs = (weights * values).sum(axis=1)
            losses.append(np.logaddexp(0, -y * outputs).mean())
            slopes = -y / (1 + np.exp(y * outputs)) / len(y)
            lag = weights * (values - outputs[:, None])
            gradient = np.einsum("i,it,itd,ie->de", slopes, lag, X, query)
            W -= (losses[-1] - infimum) / (gradient**2).sum() * gradient
        assert_allclose(model.attention_coef_, W, rtol=1e-7, atol=1e-9)
        assert_allclose(model.loss_curve_, losses, rtol=1e-12)

    def test_steps_go_on_where_the_loss_has_no_digits_left(self):
        X, y, query, head = instance(0, 5, 5, 20, gap=0.1)
        sizes = []
        for max_iter in (100, 200, 300):
            model = trained(X, y, query, head, solver="polyak", max_iter=max_iter)
            sizes.append(np.linalg.norm(model.attention_coef_))
        assert model.loss_curve_[50] == pytest.approx(model.loss_curve_[-1], rel=1e-14)
        assert_allclose(np.diff(sizes) / sizes[0], 1.0, rtol=0.1)

    def test_it_ends_in_peace_when_everything_has_underflowed(self):
        X, y, query, head = instance(0, 5, 5, 20, gap=0.1)
        model = trained(
            X, y, query, head, solver="polyak", max_iter=300, dtype="float32"
        )
        assert np.isfinite(model.attention_coef_).all()
        assert_array_equal(
            model.selected_tokens(X, query=query), best_tokens(X, y, head)
        )

    def test_keys_and_queries(self):
        """K and Q have a step size each; their product turns to the nuclear norm."""
        X, y, query, head = instance(1, 5, 5, 20, gap=0.1)
        model = trained(
            X, y, query, head, solver="polyak", parameterization="KQ", max_iter=100
        )
        svm = attention_svm(X, best_tokens(X, y, head), query, norm="nuc")
        assert alignment(model.attention_coef_, svm.coef) > 0.95
        assert model.loss_curve_[-1] < model.loss_curve_[0]

    def test_out_of_reach_the_error_is_clear_and_the_estimator_as_it_was(self):
        """Two samples that cannot both have their best token: X p is theirs alike."""
        X = np.array([[[1.0, 0.2], [0.0, 0.0]], [[1.0, 0.2], [0.0, 0.0]]])
        model = AttentionClassifier(
            solver="polyak", alpha=0, freeze_head=True, tol=0, max_iter=2000
        )
        start = {"coef_init": [[1.0, 0.0]], "attention_coef_init": [3.0, 1.0]}
        with pytest.raises(ValueError, match=r"above the optimum.*solver='ngd'"):
            model.fit(X, [0, 1], sample_weight=[1.0, 2.0], **start)
        assert not hasattr(model, "coef_")

    @pytest.mark.parametrize("mapping", ["softmax", "sparsemax", "entmax15"])
    def test_estimated_optimum_never_raises_the_loss(self, mapping):
        X, y, _ = make_token_selection(n_samples=60, random_state=0)
        for options in (
            {},
            {"query": "mean", "parameterization": "KQ", "n_heads": 2},
            {"hidden_size": 3},
        ):
            model = AttentionClassifier(
                solver="polyak", mapping=mapping, **QUICK, **options
            ).fit(X, y)
            assert np.all(np.diff(model.loss_curve_) <= 0)
            assert model.loss_curve_[-1] < 0.5 * model.loss_curve_[0]

    def test_it_finds_the_minimum_that_lbfgs_finds(self):
        X, y, _ = make_token_selection(n_samples=60, random_state=0)
        losses = [
            AttentionClassifier(
                solver=solver, alpha=0.1, tol=0, max_iter=300, random_state=0
            )
            .fit(X, y)
            .best_loss_
            for solver in ("polyak", "lbfgs")
        ]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)

    def test_a_fixed_head_of_three_classes(self):
        X, _, _ = make_token_selection(n_samples=60, random_state=0)
        y = np.arange(60) % 3
        head = np.random.RandomState(0).randn(3, 10)
        model = AttentionClassifier(solver="polyak", freeze_head=True, alpha=0, **QUICK)
        model.fit(X, y, coef_init=head)
        assert np.all(np.diff(model.loss_curve_) < 0)

    def test_the_learning_rate_limits_steps_on_a_part_of_the_samples(self):
        X, y, _ = make_token_selection(n_samples=40, random_state=0)

        def losses(rate, **options):
            model = AttentionClassifier(
                solver="polyak", learning_rate_init=rate, **QUICK, **options
            )
            return model.fit(X, y).loss_curve_

        assert losses(1e-6) == losses(10.0)
        assert losses(1e-6, batch_size=8)[-1] > 0.69 > losses(0.1, batch_size=8)[-1]
        model = AttentionClassifier(solver="polyak", learning_rate_init=1e-6)
        for _ in range(5):
            model.partial_fit(X, y, classes=[0, 1])
        assert 0.69 < model.loss_curve_[-1] < model.loss_curve_[0]

    def test_its_state_outlives_a_call_of_partial_fit(self):
        """The level of the target has grown, which a new start would not know."""
        X, y, _ = make_token_selection(n_samples=40, random_state=0)
        options = {"solver": "polyak", "learning_rate_init": 1e9, "random_state": 0}
        on, anew = AttentionClassifier(**options), AttentionClassifier(**options)
        for _ in range(5):
            on.partial_fit(X, y, classes=[0, 1])
            anew.partial_fit(X, y, classes=[0, 1])
            del anew._optimizer_of
        assert np.abs(on.coef_ - anew.coef_).max() > 1e-3


class TestMirror:
    @pytest.mark.slow
    def test_each_p_is_nearest_its_own_svm(self):
        powers = [1.5, 1.75, 2.0, 3.0]
        alignments = np.empty((2, len(powers), len(powers)))
        for seed in range(2):
            X, y, query, head = instance(seed, 6, 8, 10, gap=0.1)
            for row, p in enumerate(powers):
                model = trained(
                    X,
                    y,
                    query,
                    head,
                    solver="mirror",
                    mirror_p=p,
                    learning_rate_init=0.1,
                    max_iter=1000,
                )
                selected = model.selected_tokens(X, query=query)
                alignments[seed, row] = [
                    alignment(
                        model.attention_coef_,
                        attention_svm(X, selected, query, norm=q).coef,
                    )
                    for q in powers
                ]
        assert_array_equal(alignments.argmax(axis=2), [[0, 1, 2, 3]] * 2)
        own = alignments.mean(axis=0).diagonal()
        assert np.all(own >= [0.999, 0.998, 0.99, 0.94])

    @pytest.mark.slow
    def test_thousands_of_steps_do_not_overflow(self):
        for p, max_iter in ((1.05, 1500), (1.75, 4000)):
            X, y, query, head = instance(0, 6, 8, 10, gap=0.1)
            model = trained(
                X,
                y,
                query,
                head,
                solver="mirror",
                mirror_p=p,
                learning_rate_init=0.1,
                max_iter=max_iter,
            )
            selected = model.selected_tokens(X, query=query)
            svm = attention_svm(X, selected, query, norm=p)
            assert np.isfinite(model.attention_coef_).all()
            assert alignment(model.attention_coef_, svm.coef) > 0.99

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"query": "mean", "parameterization": "KQ", "rank": 2, "alpha": 0},
            {"query": "first", "n_heads": 2, "hidden_size": 3},
        ],
    )
    def test_two_is_normalised_descent(self, options):
        X, y, _ = make_token_selection(n_samples=40, random_state=0)
        first, second = (
            AttentionClassifier(
                solver=solver, learning_rate_init=0.1, **QUICK, **options
            ).fit(X, y)
            for solver in ("ngd", "mirror")
        )
        assert_allclose(first.attention_coef_, second.attention_coef_, rtol=1e-9)
        assert_allclose(first.coef_, second.coef_, rtol=1e-9)

    def test_the_potential_is_that_of_attention_alone(self):
        """From one and the same attention, the first step of the head has no p."""
        X, y, _ = make_token_selection(n_samples=40, random_state=0)
        start = np.full(10, 0.1)
        models = [
            AttentionClassifier(
                solver="mirror", mirror_p=p, max_iter=1, tol=0, random_state=0
            ).fit(X, y, attention_coef_init=start, coef_init=np.ones((1, 10)))
            for p in (1.5, 3.0)
        ]
        assert_array_equal(models[0].coef_, models[1].coef_)
        assert np.any(models[0].attention_coef_ != models[1].attention_coef_)

    @pytest.mark.parametrize("mirror_p", [1.1, 1.5, 4.0])
    def test_it_leaves_the_start_at_zero_without_a_warning(self, mirror_p):
        X, y, planted = make_token_selection(n_samples=60, random_state=0)
        model = AttentionClassifier(
            solver="mirror",
            mirror_p=mirror_p,
            learning_rate_init=0.1,
            alpha=0,
            tol=0,
            max_iter=100,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(X, y)
        assert (model.selected_tokens(X) == planted).mean() > 0.9

    @pytest.mark.parametrize("mirror_p", [1, 1.0, 0.5, -2.0, np.inf, np.nan, "2"])
    def test_an_invalid_exponent_is_named(self, mirror_p):
        X, y, _ = make_token_selection(n_samples=10, random_state=0)
        with pytest.raises(ValueError, match="The 'mirror_p' parameter of"):
            AttentionClassifier(solver="mirror", mirror_p=mirror_p).fit(X, y)

    @pytest.mark.parametrize("solver", ["adam", "ngd", "polyak"])
    def test_an_exponent_that_nobody_would_look_at(self, solver):
        X, y, _ = make_token_selection(n_samples=10, random_state=0)
        model = AttentionClassifier(solver=solver, mirror_p=1.5)
        with pytest.raises(ValueError, match=r"mirror_p=1.5 needs solver='mirror'"):
            model.fit(X, y)
        with pytest.raises(ValueError, match=r"mirror_p=1.5 needs solver='mirror'"):
            model.partial_fit(X, y, classes=[0, 1])


SOLVERS = {
    "polyak": {"solver": "polyak", "learning_rate_init": 0.1},
    "mirror": {"solver": "mirror", "mirror_p": 1.5, "learning_rate_init": 0.1},
}


@pytest.mark.parametrize("name", SOLVERS)
class TestBoth:
    def model(self, name, **options):
        return AttentionClassifier(**{**QUICK, **SOLVERS[name], **options})

    def data(self, n_samples=40):
        return make_token_selection(n_samples, n_tokens=(2, 6), random_state=0)[:2]

    def test_partial_fit_goes_on_with_the_state_of_the_solver(self, name):
        X, y = self.data()
        through = self.model(name, max_iter=6).fit(X, y)
        # For polyak a limit, which is not reached here.
        rate = {"polyak": 1e9, "mirror": 0.1}[name]
        on = self.model(name, learning_rate_init=rate)
        for call in range(6):
            on.partial_fit(X, y, classes=[0, 1])
            if call == 2:
                on = pickle.loads(pickle.dumps(on))
        assert_allclose(on.attention_coef_, through.attention_coef_, rtol=1e-9)
        assert_allclose(on.loss_curve_, through.loss_curve_, rtol=1e-12)

    def test_warm_start(self, name):
        X, y = self.data()
        model = self.model(name, warm_start=True).fit(X, y)
        first, best = model.loss_curve_[0], model.best_loss_
        model.fit(X, y)
        assert model.loss_curve_[0] < first
        assert model.loss_curve_[0] == pytest.approx(best, rel=0.2)

    def test_mini_batches(self, name):
        X, y = self.data(60)
        model = self.model(name, batch_size=16, max_iter=20).fit(X, y)
        assert model.loss_curve_[-1] < 0.5 * model.loss_curve_[0]
        assert model.score(X, y) > 0.9

    def test_mini_batches_with_a_fixed_head(self, name):
        X, y = self.data(60)
        head = AttentionClassifier(random_state=0).fit(X, y).coef_
        model = self.model(name, batch_size=7, freeze_head=True, alpha=0)
        model.fit(X, y, coef_init=head)
        assert np.isfinite(model.attention_coef_).all()
        assert model.loss_curve_[-1] < model.loss_curve_[0]

    def test_early_stopping(self, name):
        X, y = self.data(60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = self.model(
                name, early_stopping=True, max_iter=100, tol=1e-4, n_iter_no_change=3
            ).fit(X, y)
        assert model.n_iter_ < 100
        assert model.best_validation_score_ > 0.5

    def test_integer_weights_are_repetitions(self, name):
        X, y = self.data()
        counts = np.random.RandomState(0).randint(0, 3, size=len(y))
        rows = np.repeat(np.arange(len(y)), counts)
        weighted = self.model(name).fit(X, y, sample_weight=counts)
        repeated = self.model(name).fit([X[row] for row in rows], y[rows])
        assert_allclose(weighted.coef_, repeated.coef_, atol=1e-8)
        assert_allclose(weighted.attention_coef_, repeated.attention_coef_, atol=1e-8)

    def test_one_token_in_every_sample(self, name):
        X = np.random.RandomState(0).randn(20, 1, 3)
        y = (X[:, 0, 0] > 0).astype(int)
        model = self.model(name).fit(X, y)
        assert_array_equal(model.attention_coef_, np.zeros(3))
        assert model.score(X, y) >= 0.9

    def test_a_table(self, name):
        rng = np.random.RandomState(0)
        X = rng.randn(60, 4)
        y = (X[:, 1] > 0).astype(int)
        assert self.model(name, max_iter=60).fit(X, y).score(X, y) > 0.9


def test_another_solver_starts_with_a_state_of_its_own():
    X, y, _ = make_token_selection(n_samples=30, random_state=0)
    for first in ("adam", "gd", "ngd", "polyak", "mirror"):
        for second in ("adam", "ngd", "polyak", "mirror"):
            model = AttentionClassifier(solver=first, random_state=0)
            model.partial_fit(X, y, classes=[0, 1])
            loss = model.set_params(solver=second).partial_fit(X, y).loss_curve_[-1]
            assert loss < model.loss_curve_[0]
