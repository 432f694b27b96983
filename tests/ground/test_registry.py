"""Tables of members: names, dotted paths, and what a wrong name is told."""

import pytest

from saguaro.errors import ConfigError
from saguaro.registry import Table

TABLE = Table("thing", {"path": "pathlib:Path"})


def test_a_member_is_imported_when_asked_for() -> None:
    import pathlib

    assert TABLE.get("path") is pathlib.Path
    assert TABLE.get("pathlib:PurePath") is pathlib.PurePath


def test_a_wrong_name_is_told_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'path'"):
        TABLE.get("pth")


@pytest.mark.parametrize("path", ["no_such_module_here:x", "pathlib:NoSuchThing"])
def test_a_dotted_path_that_leads_nowhere_is_a_clear_error(path: str) -> None:
    with pytest.raises(ConfigError, match="cannot be imported"):
        TABLE.get(path)
