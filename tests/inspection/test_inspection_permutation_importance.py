"""The importance of positions and features, against scikit-learn's of a table."""

import warnings

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skattn import AttentionClassifier, Tokens, TokenScaler, TokenSVM, check_tokens
from skattn.inspection import token_permutation_importance

N, T, D = 60, 5, 4
RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(N, T))
Y = (TABLE[:, 1] + 0.5 * TABLE[:, 3] + 0.3 * RNG.normal(size=N) > 0).astype(int)
WEIGHT = RNG.uniform(size=N)

FORMS = {
    "array": lambda X: X,
    "list": list,
    "tokens": Tokens.from_padded,
    "dataframes": lambda X: [
        pd.DataFrame(sample, columns=[f"f{j}" for j in range(X.shape[2])])
        for sample in X
    ],
}


def flatten(X):
    return check_tokens(X).to_padded().reshape(len(X), -1)


@pytest.fixture(scope="module")
def of_table():
    return LogisticRegression().fit(TABLE, Y)


@pytest.fixture(scope="module")
def of_sequences(of_table):
    return make_pipeline(FunctionTransformer(flatten), of_table)


class Recorder(ClassifierMixin, BaseEstimator):
    """Keeps what it is scored on."""

    def __init__(self):
        self.seen = []

    def fit(self, X, y):
        return self

    def score(self, X, y, sample_weight=None):
        self.seen.append(X)
        return 0.0


def ragged(seed=0, n_samples=20):
    """Samples of 1 to 6 tokens, of which some are absent; no number occurs twice."""
    rng = np.random.default_rng(seed)
    samples = [rng.normal(size=(n, D)) for n in rng.integers(1, 7, size=n_samples)]
    for sample in samples[::3]:
        if len(sample) > 2:
            sample[1] = np.nan
    return samples


class TestEqualsScikitLearn:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"scoring": "neg_log_loss", "n_repeats": 7},
            {"sample_weight": WEIGHT},
            {"max_samples": 0.5, "sample_weight": WEIGHT},
            {"max_samples": 7},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("by", ["position", "feature"])
    def test_on_sequences_that_amount_to_a_table(
        self, of_table, of_sequences, form, options, by
    ):
        X = TABLE[:, :, None] if by == "position" else TABLE[:, None, :]
        got = token_permutation_importance(
            of_sequences, FORMS[form](X), Y, by=by, random_state=3, **options
        )
        expected = permutation_importance(of_table, TABLE, Y, random_state=3, **options)
        for name in expected:
            assert_allclose(got[name], expected[name], atol=1e-12)

    @pytest.mark.parametrize("by", ["position", "feature", "feature_within_position"])
    @pytest.mark.parametrize("container", [np.asarray, pd.DataFrame, np.ndarray.tolist])
    def test_on_a_table(self, of_table, by, container):
        got = token_permutation_importance(
            of_table, container(TABLE), Y, by=by, max_samples=0.5, random_state=0
        )
        expected = permutation_importance(
            of_table, TABLE, Y, max_samples=0.5, random_state=0
        )
        assert_array_equal(got.importances, expected.importances)
        assert_array_equal(got.n_exchanged, [N // 2] * T)

    def test_with_several_scores(self, of_sequences):
        X, scoring = TABLE[:, :, None], ["accuracy", "roc_auc"]
        both = token_permutation_importance(
            of_sequences, X, Y, scoring=scoring, random_state=0
        )
        assert list(both) == scoring
        for name in scoring:
            alone = token_permutation_importance(
                of_sequences, X, Y, scoring=name, random_state=0
            )
            for key in alone:
                assert_allclose(both[name][key], alone[key])


POSITION, FEATURE = 2, 1


@pytest.fixture(scope="module")
def planted_data():
    """A model, and samples whose label is in one feature at one position.

    Feature 0 says where that is.
    """
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 6, size=200)
    X = [rng.normal(size=(length, D)) for length in lengths]
    y = np.arange(200) % 2
    for sample, label in zip(X, y, strict=True):
        sample[:, 0] = np.arange(len(sample)) == POSITION
        sample[POSITION, FEATURE] = 3 * (2 * label - 1)
    model = AttentionClassifier(random_state=0, alpha=1e-3)
    model = make_pipeline(TokenScaler(), model).fit(X[:100], y[:100])
    return model, X[100:], y[100:]


class TestFindsWhatWasPlanted:
    @pytest.mark.parametrize(
        ("by", "planted"),
        [
            ("position", POSITION),
            ("feature", FEATURE),
            ("feature_within_position", FEATURE),
        ],
    )
    def test_it_is_found_and_others_do_not_matter(self, planted_data, by, planted):
        result = token_permutation_importance(*planted_data, by=by, random_state=0)
        means = result.importances_mean
        # Half of the samples get the token of the other class.
        assert means[planted] == pytest.approx(0.5, abs=0.1)
        others = np.delete(means, [0, planted] if by == "feature" else planted)
        assert_allclose(others, 0, atol=0.06)

    def test_the_feature_that_says_where(self, planted_data):
        """It matters as a whole, and not within positions, where it is constant."""
        anywhere, within = (
            token_permutation_importance(
                *planted_data, by=by, random_state=0
            ).importances[0]
            for by in ("feature", "feature_within_position")
        )
        assert anywhere.mean() > 0.2
        assert_array_equal(within, 0)


class TestExchange:
    """What the scorer gets to see, beside what was given."""

    def seen(self, X, by, **options):
        recorder = Recorder()
        result = token_permutation_importance(
            recorder, X, np.zeros(len(X)), by=by, random_state=0, **options
        )
        assert recorder.seen[0] is X
        return result, recorder.seen[1:]

    def test_whole_tokens_at_one_position(self):
        X = ragged()
        given = check_tokens(X)
        result, seen = self.seen(X, "position", n_repeats=2)
        assert len(result.importances_mean) == max(map(len, X))
        for number, changed in enumerate(seen):
            position, got = number // 2, check_tokens(changed)
            assert_array_equal(got.offsets, given.offsets)
            assert_array_equal(got.positions, given.positions)
            assert_array_equal(got.n_positions, given.n_positions)
            here = given.positions == position
            assert_array_equal(got.values[~here], given.values[~here])
            assert result.n_exchanged[position] == here.sum()
            # Of a few, all may stay in their places.
            assert here.sum() < 5 or (got.values[here] != given.values[here]).any()
            assert set(map(tuple, got.values[here])) == set(
                map(tuple, given.values[here])
            )

    @pytest.mark.parametrize("by", ["feature", "feature_within_position"])
    def test_values_of_one_feature(self, by):
        X = ragged()
        given = check_tokens(X)
        result, seen = self.seen(X, by, n_repeats=1)
        crossed = False
        for feature, changed in enumerate(seen):
            got = check_tokens(changed)
            assert_array_equal(got.positions, given.positions)
            others = np.delete(np.arange(D), feature)
            assert_array_equal(got.values[:, others], given.values[:, others])
            old, new = given.values[:, feature], got.values[:, feature]
            assert set(old) == set(new)
            assert (old != new).mean() > 0.5
            at = dict(zip(old, given.positions, strict=True))
            crossed |= any(
                at[value] != p for value, p in zip(new, got.positions, strict=True)
            )
        assert crossed == (by == "feature")
        assert_array_equal(result.n_exchanged, [given.n_tokens] * D)

    @pytest.mark.parametrize("form", FORMS)
    def test_the_form_stays(self, form):
        X = FORMS[form](RNG.normal(size=(8, 3, 2)))
        _, seen = self.seen(X, "feature", n_repeats=1)
        for changed in seen:
            assert type(changed) is type(X)
            assert len(changed) == 8
            if form == "dataframes":
                assert list(changed[0].columns) == ["f0", "f1"]

    def test_x_is_not_changed(self):
        X = RNG.normal(size=(8, 3, 2))
        before = X.copy()
        self.seen(X, "position")
        assert_array_equal(X, before)

    def test_a_token_alone_at_its_position_stays(self):
        X = [np.ones((2, 1)), np.zeros((2, 1)), np.array([[1.0], [0.0], [5.0]])]
        model = TokenSVM().fit(X, [1, 0, 1])
        result = token_permutation_importance(model, X, [1, 0, 1], n_repeats=3)
        assert_array_equal(result.n_exchanged, [3, 3, 0])
        assert_array_equal(result.importances[2], [0, 0, 0])

    def test_a_part_of_the_samples(self):
        _, seen = self.seen(ragged(), "feature", n_repeats=1, max_samples=0.4)
        assert {len(changed) for changed in seen} == {8}


def test_given_queries_travel_with_their_samples():
    rng = np.random.default_rng(0)
    names = np.array([rng.permutation(np.eye(3)) for _ in range(120)])
    X = np.dstack([names, rng.choice([-1.0, 1.0], size=(120, 3))])
    query = np.eye(3)[rng.integers(3, size=120)]
    y = (np.einsum("ntd,nd->nt", names, query) * X[..., 3]).sum(axis=1) > 0
    model = AttentionClassifier(query="given", random_state=0).fit(X, y, query=query)
    result = token_permutation_importance(
        model, Tokens.from_padded(X, query=query), y, by="feature", random_state=0
    )
    assert result.importances_mean[3] > 0.3


def test_a_search_over_pipelines(planted_data):
    _, X, y = planted_data
    model = AttentionClassifier(random_state=0, max_iter=20, tol=0)
    search = GridSearchCV(
        make_pipeline(TokenScaler(), model),
        {"attentionclassifier__alpha": [1e-4, 1e-2]},
        cv=2,
    ).fit(X, y)
    of_search = token_permutation_importance(search, X, y, by="feature", random_state=0)
    of_best = token_permutation_importance(
        search.best_estimator_, X, y, by="feature", random_state=0
    )
    assert_array_equal(of_search.importances, of_best.importances)


class TestRandomness:
    def importances(self, model, **options):
        X = TABLE[:, :, None]
        return token_permutation_importance(model, X, Y, **options).importances

    def test_jobs_do_not_change_it(self, of_sequences):
        with parallel_config("threading"):
            of_two_jobs = self.importances(of_sequences, random_state=0, n_jobs=2)
        assert_array_equal(of_two_jobs, self.importances(of_sequences, random_state=0))

    def test_the_global_generator_is_left_alone(self, of_sequences, of_table):
        np.random.seed(0)  # noqa: NPY002
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        first, second = (self.importances(of_sequences) for _ in range(2))
        token_permutation_importance(of_table, TABLE, Y)
        assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
        assert (first != second).any()


def test_names_of_features_are_kept():
    X = FORMS["dataframes"](RNG.normal(size=(12, 3, 2)))
    model = TokenSVM().fit(X, np.arange(12) % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        token_permutation_importance(model, X, np.arange(12) % 2, by="feature")


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"by": "token"}, "The 'by' parameter of token_permutation_importance"),
            ({"n_repeats": 0}, "The 'n_repeats' parameter"),
            ({"max_samples": 1.5}, "The 'max_samples' parameter"),
            ({"max_samples": N + 1}, "max_samples must be at most the number of"),
            ({"sample_weight": [1.0]}, "inconsistent numbers of samples"),
            ({"scoring": "unheard of"}, "unheard of"),
        ],
    )
    def test_bad_options(self, of_sequences, options, message):
        with pytest.raises(ValueError, match=message):
            token_permutation_importance(of_sequences, TABLE[:, :, None], Y, **options)

    def test_bad_samples(self, of_sequences):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            token_permutation_importance(of_sequences, TABLE[:, :, None], Y[1:])
        with pytest.raises(ValueError, match="0 sample"):
            token_permutation_importance(of_sequences, [], [])

    def test_sparse(self, of_table):
        with pytest.raises(TypeError, match=r"[Ss]parse"):
            token_permutation_importance(of_table, sparse.eye(N, format="csr"), Y)

    def test_unfitted(self):
        with pytest.raises(NotFittedError):
            token_permutation_importance(TokenSVM(), TABLE[:, :, None], Y)
