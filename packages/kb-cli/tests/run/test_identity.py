"""The name of a run folder."""

from kb_cli.run.folders.identity import folder_name


def test_the_name_is_safe_and_follows_the_configuration() -> None:
    name = folder_name("my bench/../x", {"a": 1})
    assert name.startswith("my_bench_.._x-")
    assert len(name.rsplit("-", 1)[1]) == 12
    assert name == folder_name("my bench/../x", {"a": 1}) != folder_name("my bench/../x", {"a": 2})
