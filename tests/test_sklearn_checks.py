"""scikit-learn's own checks, in full: no failure, none skipped, none out of reach."""

from unittest import SkipTest

import pytest
from instances import (
    CLASSIFIERS,
    ONE_OF_EACH_CLASS,
    REGRESSORS,
    SLOW_ATTENTION,
    SLOW_CONVEX,
    SLOW_TOKEN_SVMS,
    TRANSFORMERS,
)
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import (
    check_estimator,
    estimator_checks_generator,
    parametrize_with_checks,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore::sklearn.exceptions.EstimatorCheckFailedWarning",
)

# How many checks scikit-learn 1.9 has; fewer would mean that a tag or a method that
# went missing keeps some from running.
N_CHECKS_OF_CLASSIFIERS = 69
N_CHECKS_OF_REGRESSORS = 59
N_CHECKS_OF_OTHERS = 46


def run(estimator, check):
    try:
        check(estimator)
    except SkipTest as skipped:
        pytest.fail(f"skipped: {skipped}")


@parametrize_with_checks(CLASSIFIERS + REGRESSORS + TRANSFORMERS)
def test_scikit_learn_check(estimator, check):
    run(estimator, check)


@pytest.mark.slow
@parametrize_with_checks(SLOW_ATTENTION)
def test_scikit_learn_check_of_more_attention(estimator, check):
    run(estimator, check)


@pytest.mark.slow
@parametrize_with_checks(SLOW_TOKEN_SVMS)
def test_scikit_learn_check_of_nuclear_norms(estimator, check):
    run(estimator, check)


@pytest.mark.slow
@parametrize_with_checks(SLOW_CONVEX)
def test_scikit_learn_check_of_convex_self_attention(estimator, check):
    run(estimator, check)


def n_checks_at_least(estimator):
    if is_classifier(estimator):
        return N_CHECKS_OF_CLASSIFIERS
    return N_CHECKS_OF_REGRESSORS if is_regressor(estimator) else N_CHECKS_OF_OTHERS


@pytest.mark.parametrize("estimator", ONE_OF_EACH_CLASS, ids=repr)
def test_that_all_checks_ran(estimator):
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    assert {result["status"] for result in results} == {"passed"}
    assert len(results) >= n_checks_at_least(estimator)


@pytest.mark.parametrize(
    "estimator",
    CLASSIFIERS
    + SLOW_ATTENTION
    + SLOW_TOKEN_SVMS
    + REGRESSORS
    + SLOW_CONVEX
    + TRANSFORMERS,
    ids=repr,
)
def test_nothing_puts_a_check_out_of_reach(estimator):
    checks = list(estimator_checks_generator(estimator, mark=None))
    assert len(checks) >= n_checks_at_least(estimator)
    tags = get_tags(estimator)
    assert tags.input_tags.two_d_array
    assert tags.input_tags.three_d_array
    assert not tags._skip_test
    assert not tags.no_validation
    assert not tags.non_deterministic
    if is_classifier(estimator):
        assert not tags.classifier_tags.poor_score
        assert tags.classifier_tags.multi_class
    if is_classifier(estimator) or is_regressor(estimator):
        assert tags.target_tags.required
