"""Limits of threads, alone and shared."""

import threading

import numpy as np
import torch
from threadpoolctl import threadpool_info

from skattn import AttentionClassifier
from skattn._threads import SingleThread


def n_threads():
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}


def test_limit_ends_with_the_context():
    before = n_threads()
    with SingleThread(user_api=None):
        assert set(n_threads().values()) == {1}
    assert n_threads() == before


def test_overlapping_contexts_put_back_what_was_before():
    """A enters, B enters, A leaves, B leaves."""
    before, limit = n_threads(), SingleThread(user_api=None)
    limit.__enter__()
    limit.__enter__()
    limit.__exit__(None, None, None)
    assert set(n_threads().values()) == {1}
    limit.__exit__(None, None, None)
    assert n_threads() == before


def test_fits_in_threads_leave_the_number_of_threads():
    before, torch_before = n_threads(), torch.get_num_threads()
    X = np.random.RandomState(0).randn(20, 5, 3)
    fits = [
        threading.Thread(
            target=AttentionClassifier(max_iter=20, tol=0).fit,
            args=(X, np.arange(20) % 2),
        )
        for _ in range(4)
    ]
    for fit in fits:
        fit.start()
    for fit in fits:
        fit.join()
    assert n_threads() == before
    assert torch.get_num_threads() == torch_before
