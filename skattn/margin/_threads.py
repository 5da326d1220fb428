"""One BLAS thread inside the solvers, whose matrices are too small for more."""

from skattn._threads import SingleThread

_SINGLE_THREAD = SingleThread(user_api="blas")


def single_blas_thread():
    """Return a context in which BLAS runs on one thread."""
    return _SINGLE_THREAD
