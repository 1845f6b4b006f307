from pathlib import Path

from seatrial.compat.files import load_toml, write_temp_file


def test_a_temporary_file_has_its_content_and_ending():
    path = Path(write_temp_file("x = 1", ".toml"))
    with path.open("rb") as file:
        assert load_toml(file) == {"x": 1}
    path.unlink()
    assert path.suffix == ".toml"
