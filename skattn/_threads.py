"""One thread where matrices are too small for more."""

from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController


class SingleThread:
    """Context in which native libraries compute on one thread.

    Waking threads for a matrix of a hundred rows costs far more than the product, the
    more so when other processes want the cores. The limit holds for the process, so
    that Python threads that enter share it, and the last to leave puts back what was
    before.

    Parameters
    ----------
    user_api : {"blas", "openmp"} or None
        Which libraries; None for all. They must have been loaded before the first use.
    """

    def __init__(self, user_api):
        self._user_api = user_api
        self._lock = Lock()
        self._n_inside = 0
        self._limiter = None

    def __enter__(self):
        with self._lock:
            if self._n_inside == 0:
                self._limiter = self._pools.limit(limits=1, user_api=self._user_api)
            self._n_inside += 1

    def __exit__(self, *error):
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                self._limiter.restore_original_limits()

    @property
    def _pools(self):
        return _loaded_pools(self._user_api)


@cache
def _loaded_pools(user_api):
    # Looking up the loaded libraries takes milliseconds; limiting them, microseconds.
    return ThreadpoolController()
