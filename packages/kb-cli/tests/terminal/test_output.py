"""Tables that all commands share."""

from kb_cli.terminal.output import new_table


def test_columns_are_text_or_numbers() -> None:
    table = new_table("block", "count", "which", left=1, text=("which",), wrapped=[0])
    assert [column.justify for column in table.columns] == ["left", "right", "left"]
    assert [column.no_wrap for column in table.columns] == [False, True, True]
    assert [column.justify for column in new_table("a", "b").columns] == ["left", "left"]
