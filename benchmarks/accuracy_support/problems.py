"""The data of the benchmark, and how they are divided."""

import gzip
import io
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import StratifiedKFold

from accuracy_support.package_files import read_package_file
from skattn import Tokens, check_tokens
from skattn.datasets import load_japanese_vowels, load_musk1


class Problem(NamedTuple):
    """Labelled samples, and how they are divided."""

    #: Name of the data.
    title: str
    #: The samples: Tokens, or a table.
    X: Tokens | np.ndarray
    #: Label of each sample.
    y: np.ndarray
    #: The given (training rows, test rows), or None.
    given_split: tuple | None
    #: Number of stratified folds where no split is given.
    n_folds: int | None = None
    #: The sentences, of texts.
    texts: np.ndarray | None = None

    def described(self, n_seeds):
        """Return how the samples are divided, in words."""
        if self.given_split is None:
            return f"stratified {self.n_folds}-fold cross-validation x {n_seeds}"
        sizes = " + ".join(str(len(rows)) for rows in self.given_split)
        return f"given split of {sizes} samples, {n_seeds} seeds"

    def splits(self, seed):
        """Return (training rows, test rows), one pair a split.

        Parameters
        ----------
        seed : int
            Shuffles the folds; a given split stays what it is.
        """
        if self.given_split is not None:
            return [self.given_split]
        folds = StratifiedKFold(self.n_folds, shuffle=True, random_state=seed)
        return list(folds.split(np.zeros(len(self.y)), self.y))


def japanese_vowels():
    """270 + 370 series of 7 to 29 frames, nine speakers."""
    data = load_japanese_vowels()
    split = data.train_indices, data.test_indices
    return Problem("Japanese vowels", check_tokens(data.data), data.target, split)


def musk1():
    """92 bags of molecules' shapes."""
    data = load_musk1()
    return Problem("MUSK1", check_tokens(data.data), data.target, None, 10)


def basic_motions():
    """40 + 40 series of 100 times, six channels, four motions."""
    return _given("BasicMotions", *map(_ts_part("BasicMotions"), ("TRAIN", "TEST")))


def gun_point():
    """50 + 150 series of 150 times, two gestures."""
    return _given("GunPoint", *map(_ts_part("GunPoint"), ("TRAIN", "TEST")))


def italy_power_demand():
    """67 + 1,029 series of 24 hours, two seasons."""
    parts = map(_ts_part("ItalyPowerDemand"), ("TRAIN", "TEST"))
    return _given("ItalyPowerDemand", *parts)


def trace():
    """100 + 100 series of 275 times, four kinds of transients."""
    content = read_package_file("tslearn/.cached_datasets/Trace.npz")
    with np.load(io.BytesIO(content)) as data:
        parts = [(data[f"X_{part}"], data[f"y_{part}"]) for part in ("train", "test")]
    return _given("Trace", *parts)


def digits():
    """1,797 images of digits; each of their eight rows is a token."""
    data = load_digits()
    return Problem("digits", check_tokens(data.images), data.target, None, 5)


def breast_cancer():
    """A table of 569 rows and 30 columns, two classes."""
    X, y = load_breast_cancer(return_X_y=True)
    return Problem("breast cancer", X, y, None, 5)


def wine():
    """A table of 178 rows and 13 columns, three classes."""
    X, y = load_wine(return_X_y=True)
    return Problem("wine", X, y, None, 5)


def sentence_polarity():
    """10,662 sentences of film reviews as word vectors, positive or negative.

    The vectors are those that `wordllama` has for pieces of words, before any of its
    own pooling. `SKATTN_SENTENCES` may name another copy of the sentences.
    """
    bundled = Path(__file__).parent / "data" / "sentence_polarity.tsv.gz"
    with gzip.open(
        os.environ.get("SKATTN_SENTENCES", bundled), "rt", encoding="utf-8"
    ) as file:
        lines = file.read().splitlines()[1:]
    labels, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
    X = word_vectors(texts)
    y = np.array(labels, dtype=int)
    return Problem("sentence polarity", X, y, None, 10, np.array(texts, dtype=object))


def word_vectors(texts):
    """Return the vectors of the pieces of words of each text, as float32 tokens."""
    from safetensors.numpy import load
    from tokenizers import Tokenizer

    folder = "wordllama"
    tokenizer = Tokenizer.from_buffer(
        read_package_file(f"{folder}/tokenizers/l2_supercat_tokenizer_config.json")
    )
    weights = load(read_package_file(f"{folder}/weights/l2_supercat_256.safetensors"))
    table = weights["embedding.weight"].astype(np.float32)
    encoded = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    pieces = [encoding.ids for encoding in encoded]
    offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in pieces])])
    return Tokens(table[np.concatenate(pieces)], offsets)


def _given(title, train, test):
    """Return the problem of two parts, each (samples, labels)."""
    X = np.concatenate([train[0], test[0]])
    y = np.concatenate([train[1], test[1]])
    rows = np.arange(len(y))
    n_train = len(train[1])
    return Problem(title, check_tokens(X), y, (rows[:n_train], rows[n_train:]))


def _ts_part(name):
    def read(part):
        path = f"aeon/datasets/data/{name}/{name}_{part}.ts"
        return _read_ts(read_package_file(path).decode("utf-8"))

    return read


def _read_ts(text):
    """Read the .ts format: a line a series, "channel:channel:label", equal lengths."""
    _, _, body = text.partition("@data")
    rows = [line.split(":") for line in body.split()]
    series = [[np.fromstring(c, sep=",") for c in channels] for *channels, _ in rows]
    # The format has channels first; here the second axis is that of tokens.
    return np.array(series).transpose(0, 2, 1), np.array([row[-1] for row in rows])


#: By the name on the command line.
PROBLEMS = {
    "vowels": cache(japanese_vowels),
    "motions": cache(basic_motions),
    "musk1": cache(musk1),
    "gunpoint": cache(gun_point),
    "italy": cache(italy_power_demand),
    "trace": cache(trace),
    "sentences": cache(sentence_polarity),
    "digits": cache(digits),
    "cancer": cache(breast_cancer),
    "wine": cache(wine),
}
