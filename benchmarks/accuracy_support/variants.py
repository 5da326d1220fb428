"""Attention-BN, Attention-SH and other mappings beside plain softmax."""

import time
import warnings

import numpy as np
from joblib import Parallel, delayed, parallel_config
from sklearn.exceptions import ConvergenceWarning

from accuracy_support.problems import PROBLEMS
from accuracy_support.settings import attention_pipeline
from skattn.inspection import head_redundancy

_SCALES = (1, 2, 4, 8)

#: What differs from softmax attention, by the name of the row.
VARIANTS = {
    "softmax": {},
    "Attention-BN": {"attention_norm": "batch"},
    "Attention-BN, beta=0": {"attention_norm": "batch", "beta": 0.0},
    "Attention-SH, windows of 1, 2, 4, 8": {"head_scale": _SCALES},
    "Attention-BN and -SH": {"attention_norm": "batch", "head_scale": _SCALES},
    "sparsemax": {"mapping": "sparsemax"},
    "entmax-1.5": {"mapping": "entmax15"},
    "entmax, order learned": {"mapping": "entmax"},
    "top-k, 95 % of the weight": {"mapping": "topk"},
    "linear": {"mapping": "linear"},
    "elu + 1": {"mapping": "elu"},
}

_POOLING = {
    "n_heads": 4,
    "hidden_size": 64,
    "alpha": 0.003,
    "token_dropout": 0.3,
    "label_smoothing": 0.1,
}
_ENCODER = _POOLING | {"n_layers": 1, "position": "learned", "dropout": 0.1}

#: What all variants of a table have in common, by data and place of the attention.
VARIED = {
    "vowels": {
        "in pooling": _POOLING | {"kernel_size": 3},
        "in encoder and pooling": _ENCODER,
    },
    "motions": {"in pooling": _POOLING | {"kernel_size": 9}},
    "digits": {"in pooling": _POOLING | {"kernel_size": 3, "token_dropout": 0.0}},
}


def report_variants(name, seeds, n_jobs):
    """Print the tables of one data set."""
    problem = PROBLEMS[name]()
    for place, common in VARIED[name].items():
        print(f"\n{problem.title}, attention {place}\n")
        print("| attention | accuracy | std | time per epoch | distance of heads |")
        print("| --- | --- | --- | --- | --- |")
        for label, variant in VARIANTS.items():
            if "n_layers" in common and "mapping" in variant:
                # The blocks of the encoder are softmax attention.
                continue
            accuracies, epoch, distance = _measure(
                name, problem, common | variant, seeds, n_jobs
            )
            print(
                f"| {label} | {np.mean(accuracies):.3f} | {np.std(accuracies):.3f} | "
                f"{1e3 * epoch:.1f} ms | {distance:.2f} |",
                flush=True,
            )


def _measure(name, problem, parameters, seeds, n_jobs):
    with parallel_config(backend="loky", inner_max_num_threads=1):
        results = Parallel(n_jobs)(
            delayed(_fit)(attention_pipeline(name, parameters, seed), problem, split)
            for seed in seeds
            for split in problem.splits(seed)
        )
    accuracies, epochs, distances = np.array(results).T
    by_seed = accuracies.reshape(len(seeds), -1).mean(axis=1)
    return by_seed, np.median(epochs), distances.mean()


def _fit(model, problem, split):
    train, test = split
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.process_time()
        model.fit(problem.X[train], problem.y[train])
        fit_time = time.process_time() - start
    held_out = problem.X[test]
    return (
        model.score(held_out, problem.y[test]),
        fit_time / model[-1].n_iter_,
        head_redundancy(model, held_out),
    )
