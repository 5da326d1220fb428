"""Displays are drawn without a screen, and closed after each test."""

import pytest


@pytest.fixture
def pyplot():
    """Give matplotlib.pyplot with a backend that draws into memory."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")
