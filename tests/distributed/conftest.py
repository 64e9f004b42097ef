"""Four processes for all tests of this folder: to start them takes longer than most tests."""

import pytest

from ranks import ranks


@pytest.fixture(scope="session")
def four():
    with ranks(4) as held:
        yield held
