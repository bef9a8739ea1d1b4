import pytest

from tests.docs.source_index import SourceIndex


@pytest.fixture(scope="session")
def index() -> SourceIndex:
    return SourceIndex()
