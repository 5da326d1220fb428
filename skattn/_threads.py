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
        self._limited = []

    def __enter__(self):
        with self._lock:
            if self._n_inside == 0:
                counts = [(pool, pool.num_threads) for pool in self._pools]
                self._limited = [(pool, count) for pool, count in counts if count != 1]
                for pool, _ in self._limited:
                    pool.set_num_threads(1)
            self._n_inside += 1

    def __exit__(self, *error):
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                for pool, count in self._limited:
                    pool.set_num_threads(count)

    @property
    def _pools(self):
        return _loaded_pools(self._user_api)


@cache
def _loaded_pools(user_api):
    # Looking up the loaded libraries takes milliseconds; limiting them, microseconds.
    pools = ThreadpoolController()
    if user_api is not None:
        pools = pools.select(user_api=user_api)
    return pools.lib_controllers
