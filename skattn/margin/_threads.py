"""One BLAS thread where matrices are too small for more."""

from functools import cache

from threadpoolctl import ThreadpoolController


def single_blas_thread():
    """Return a context in which BLAS runs on one thread.

    Waking threads for a matrix of a hundred rows costs far more than the product, the
    more so when other processes want the cores.

    Returns
    -------
    context : context manager
    """
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller():
    # Looking up the loaded libraries takes milliseconds; limiting them, microseconds.
    return ThreadpoolController()
