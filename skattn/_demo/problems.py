"""What the models are compared on."""

from typing import NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold

from skattn.datasets import load_japanese_vowels, load_musk1
from skattn.tokens import Tokens, check_tokens


class Problem(NamedTuple):
    """Labelled samples and how they are divided for the comparison."""

    #: Name of the data.
    title: str
    #: The samples.
    X: Tokens
    #: Label of each sample, of shape (n_samples,).
    y: np.ndarray
    #: Name of each sample, of shape (n_samples,).
    sample_names: np.ndarray
    #: (training rows, held-out rows), one pair a split.
    splits: list
    #: How the samples are divided, in words.
    protocol: str


def musk1(seed=0):
    """Return MUSK1 in ten stratified folds, shuffled with `seed`."""
    musk = load_musk1()
    return cross_validated(
        "MUSK1",
        check_tokens(musk.data),
        musk.target_names[musk.target],
        np.arange(len(musk.data)),
        n_folds=10,
        seed=seed,
    )


def japanese_vowels():
    """Return the Japanese vowels with the division they come with."""
    vowels = load_japanese_vowels()
    return Problem(
        "Japanese vowels",
        check_tokens(vowels.data),
        vowels.target_names[vowels.target],
        np.arange(len(vowels.data)),
        [(vowels.train_indices, vowels.test_indices)],
        f"one given split, {len(vowels.train_indices)} samples for training",
    )


def cross_validated(title, X, y, sample_names, *, n_folds, seed=0):
    """Return the problem of predicting `y` in stratified folds.

    Parameters
    ----------
    title : str
        Name of the data.

    X : Tokens
        The samples.

    y : ndarray of shape (n_samples,)
        Their labels.

    sample_names : ndarray of shape (n_samples,)
        Their names.

    n_folds : int
        Number of folds, at most the size of the smallest class.

    seed : int, default=0
        Seed of the shuffling.

    Returns
    -------
    problem : Problem
        With one split a fold.
    """
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    splits = list(folds.split(np.zeros(len(y)), y))
    protocol = f"stratified {n_folds}-fold cross-validation"
    return Problem(title, X, y, sample_names, splits, protocol)
