import pytest


@pytest.fixture(autouse=True)
def close_figures():
    """Close what a test has drawn."""
    yield
    from matplotlib import pyplot

    pyplot.close("all")
