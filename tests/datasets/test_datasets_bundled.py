"""The bundled data, against pandas' reading of the same files."""

import re
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

from skattn.datasets import load_japanese_vowels, load_musk1


def assert_same_samples(data, groups):
    assert len(data) == len(groups)
    for sample, (_, frame) in zip(data, groups, strict=True):
        assert sample.dtype == np.float64
        np.testing.assert_array_equal(sample, frame)


def test_musk1_equals_the_file():
    musk = load_musk1()
    table = pd.read_csv(musk.filename)
    groups = table.groupby("bag")
    assert_same_samples(musk.data, groups[musk.feature_names])
    np.testing.assert_array_equal(musk.target, groups["label"].first())
    assert musk.feature_names == list(table.columns[2:])


def test_musk1_has_its_published_size():
    X, y = load_musk1(return_X_y=True)
    lengths = [len(bag) for bag in X]
    assert (len(X), sum(lengths), min(lengths), max(lengths)) == (92, 476, 2, 40)
    assert {bag.shape[1] for bag in X} == {166}
    np.testing.assert_array_equal(np.bincount(y), [45, 47])


def test_japanese_vowels_equals_the_file():
    vowels = load_japanese_vowels()
    table = pd.read_csv(vowels.filename)
    groups = table.groupby(["split", "series"], sort=False)
    assert_same_samples(vowels.data, groups[vowels.feature_names])
    speakers = groups["speaker"].first()
    np.testing.assert_array_equal(
        vowels.target_names[vowels.target].astype(int), speakers
    )
    splits = speakers.index.get_level_values("split")
    assert (splits[vowels.train_indices] == "train").all()
    assert (splits[vowels.test_indices] == "test").all()
    assert vowels.train_indices.size + vowels.test_indices.size == len(vowels.data)


@pytest.mark.parametrize(
    ("split", "samples_per_class", "longest"),
    [
        ("train", [30] * 9, 26),
        ("test", [31, 35, 88, 44, 29, 24, 40, 50, 29], 29),
    ],
)
def test_japanese_vowels_split_has_its_published_size(
    split, samples_per_class, longest
):
    X, y = load_japanese_vowels(split=split, return_X_y=True)
    np.testing.assert_array_equal(np.bincount(y), samples_per_class)
    lengths = [len(series) for series in X]
    assert (min(lengths), max(lengths)) == (7, longest)
    assert {series.shape[1] for series in X} == {12}


def test_japanese_vowels_splits_make_up_the_whole():
    X, y = load_japanese_vowels(return_X_y=True)
    X_train, y_train = load_japanese_vowels(split="train", return_X_y=True)
    test = load_japanese_vowels(split="test")
    np.testing.assert_array_equal(y, np.concatenate([y_train, test.target]))
    for part, whole in zip([*X_train, *test.data], X, strict=True):
        np.testing.assert_array_equal(part, whole)
    assert "test_indices" not in test


def test_japanese_vowels_refuses_an_unknown_split():
    with pytest.raises(ValueError, match="split must be 'train', 'test' or None"):
        load_japanese_vowels(split="validation")


@pytest.mark.parametrize("load", [load_musk1, load_japanese_vowels])
def test_loads_are_independent(load):
    first = load()
    first.data[0][:] = -1
    first.target[:] = -1
    second = load()
    assert (second.data[0] != -1).any()
    assert (second.target != -1).all()


@pytest.mark.parametrize("load", [load_musk1, load_japanese_vowels])
def test_description_names_source_and_licence(load):
    description = load().DESCR
    assert "UCI Machine Learning" in description
    assert "CC BY 4.0" in description


def test_every_bundled_file_is_attributed():
    folder = files("skattn.datasets") / "data"
    bundled = {path.name for path in folder.iterdir()} - {"ATTRIBUTION.md"}
    attribution = (folder / "ATTRIBUTION.md").read_text(encoding="utf-8")
    assert bundled == set(re.findall(r"^\| `(.+?)`", attribution, re.MULTILINE))
