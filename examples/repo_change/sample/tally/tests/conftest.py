import pytest


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.csv"
    path.write_text("2024-05-01,tea,3.50\n2024-05-02,cake,4.00\n2024-06-01,tea,2.25\n", encoding="utf-8")
    return str(path)
