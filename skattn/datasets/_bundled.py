"""Real data sets that ship with the package."""

import csv
import gzip
from importlib.resources import files

import numpy as np
from sklearn.utils import Bunch

_FOLDER = files("skattn.datasets")


def _read_table(filename):
    """Columns of a compressed table, by name, as arrays of strings."""
    with (
        (_FOLDER / "data" / filename).open("rb") as compressed,
        gzip.open(compressed, "rt", encoding="utf-8", newline="") as text,
    ):
        header, *rows = csv.reader(text)
    return dict(zip(header, np.array(rows).T, strict=True))


def _features_of(table, prefix):
    """Names and values of the columns ``prefix1``, ``prefix2`` and so on."""
    names = [name for name in table if name.startswith(prefix)]
    values = np.column_stack([table[name].astype(np.float64) for name in names])
    return names, values


def _first_rows(*keys):
    """Rows at which any of the keys differs from the row before."""
    changes = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return np.concatenate([[0], np.flatnonzero(changes) + 1])


def _describe(filename, descr_name, **fields):
    descr = (_FOLDER / "descr" / descr_name).read_text(encoding="utf-8")
    return Bunch(**fields, DESCR=descr, filename=str(_FOLDER / "data" / filename))


def load_musk1(*, return_X_y=False):
    """Load the MUSK1 molecules: bags of shapes, musk or not.

    A molecule takes several low-energy shapes, and smells of musk when at least
    one of them fits the receptor. Which one is not known: the label belongs to the
    bag, as in every multiple-instance problem.

    =================   ==================
    Classes             2
    Samples per class   45 (0), 47 (1)
    Samples total       92
    Tokens per sample   2 to 40, 476 total
    Features            166, integers
    =================   ==================

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : list of ndarray of shape (n_shapes, 166)
            One float64 array a molecule.
        target : ndarray of shape (92,)
            1 for musk, 0 for non-musk.
        target_names : ndarray of shape (2,)
            Names of the classes 0 and 1.
        feature_names : list of str
            ``"f1"`` to ``"f166"``.
        DESCR : str
            Description, source and licence of the data set.
        filename : str
            Path of the data file.

    (data, target) : tuple, if ``return_X_y`` is True

    References
    ----------
    .. [1] D. Chapman and A. Jain, "Musk (Version 1)", UCI Machine Learning
       Repository, 1994. CC BY 4.0.
    .. [2] T. G. Dietterich, R. H. Lathrop and T. Lozano-Perez, "Solving the multiple
       instance problem with axis-parallel rectangles", Artificial Intelligence,
       89(1-2), 31-71, 1997.

    Examples
    --------
    >>> from skattn.datasets import load_musk1
    >>> musk = load_musk1()
    >>> len(musk.data), musk.data[0].shape
    (92, (4, 166))
    >>> musk.target_names[musk.target[0]]
    np.str_('musk')
    """
    filename = "musk1.csv.gz"
    table = _read_table(filename)
    feature_names, values = _features_of(table, "f")
    starts = _first_rows(table["bag"])
    data = np.split(values, starts[1:])
    target = table["label"][starts].astype(np.int64)
    if return_X_y:
        return data, target
    return _describe(
        filename,
        "musk1.rst",
        data=data,
        target=target,
        target_names=np.array(["non-musk", "musk"]),
        feature_names=feature_names,
    )


def load_japanese_vowels(*, split=None, return_X_y=False):
    """Load the Japanese vowels: time series that tell nine speakers apart.

    Each series is one utterance of the vowels /ae/, cut into frames; a frame is
    described by 12 coefficients of the linear-prediction cepstrum. The data set comes
    with a fixed division into training and test series.

    =================   ================================
    Classes             9
    Samples total       640: 270 for training (30 a
                        class), 370 for testing (24 to 88)
    Tokens per sample   7 to 29 (at most 26 in training)
    Features            12, real
    =================   ================================

    Parameters
    ----------
    split : {"train", "test"} or None, default=None
        The part to return. None returns all series, training series first.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : list of ndarray of shape (n_frames, 12)
            One float64 array a series, frames in order of time.
        target : ndarray of shape (n_samples,)
            The speaker, 0 to 8.
        target_names : ndarray of shape (9,)
            The speakers as the source numbers them, ``"1"`` to ``"9"``.
        feature_names : list of str
            ``"lpc1"`` to ``"lpc12"``.
        train_indices, test_indices : ndarray of int
            Only with ``split=None``: which samples are for training and which for
            testing. ``[(train_indices, test_indices)]`` is a valid ``cv`` for
            scikit-learn's functions.
        DESCR : str
            Description, source and licence of the data set.
        filename : str
            Path of the data file.

    (data, target) : tuple, if ``return_X_y`` is True

    Raises
    ------
    ValueError
        If ``split`` is none of the above.

    References
    ----------
    .. [1] M. Kudo, J. Toyama and M. Shimbo, "Japanese Vowels", UCI Machine Learning
       Repository, 1999, doi:10.24432/C5NS47. CC BY 4.0.
    .. [2] M. Kudo, J. Toyama and M. Shimbo, "Multidimensional curve classification
       using passing-through regions", Pattern Recognition Letters, 20(11-13),
       1103-1111, 1999.

    Examples
    --------
    >>> from skattn.datasets import load_japanese_vowels
    >>> X_train, y_train = load_japanese_vowels(split="train", return_X_y=True)
    >>> len(X_train), X_train[0].shape
    (270, (20, 12))
    >>> vowels = load_japanese_vowels()
    >>> len(vowels.data), vowels.test_indices.size
    (640, 370)
    """
    if split not in (None, "train", "test"):
        raise ValueError(f"split must be 'train', 'test' or None, got {split!r}.")
    filename = "japanese_vowels.csv.gz"
    table = _read_table(filename)
    feature_names, values = _features_of(table, "lpc")
    starts = _first_rows(table["split"], table["series"])
    data = np.split(values, starts[1:])
    target = table["speaker"][starts].astype(np.int64) - 1
    indices = {
        part: np.flatnonzero(table["split"][starts] == part)
        for part in ("train", "test")
    }
    if split is not None:
        data = [data[i] for i in indices[split]]
        target = target[indices[split]]
    if return_X_y:
        return data, target
    division = (
        {f"{part}_indices": rows for part, rows in indices.items()}
        if split is None
        else {}
    )
    return _describe(
        filename,
        "japanese_vowels.rst",
        data=data,
        target=target,
        target_names=np.array([str(speaker) for speaker in range(1, 10)]),
        feature_names=feature_names,
        **division,
    )
