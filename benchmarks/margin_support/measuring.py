"""Time and memory."""

import multiprocessing
import resource
import statistics
import time

#: Seconds beyond which a run is not repeated.
TOO_LONG = 10.0


#: What `median_time` reads: the wall, or what this process had of the processors,
#: which is the one to compare on a machine that does other things besides.
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
_chosen = "wall"


def use_clock(name):
    """Choose one of `CLOCKS` for this process."""
    global _chosen
    _chosen = name


def clock_in_use():
    return _chosen


def median_time(function, repeats=5):
    """Return the result of `function` and the median of its times, in seconds.

    A first run longer than `TOO_LONG` is the only one.
    """
    times, clock = [], CLOCKS[_chosen]
    for _ in range(repeats):
        start = clock()
        result = function()
        times.append(clock() - start)
        if times[0] > TOO_LONG:
            break
    return result, statistics.median(times)


def peak_memory():
    """Largest resident size of this process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def in_new_process(function, *arguments):
    """Return ``function(*arguments)``, run where nothing else has used memory."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(function, arguments)
