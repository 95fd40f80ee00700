"""The auxiliary tables of the log: their names, their order, and what their columns hold."""

import re

from kb_messages.log.log_tables import (
    ID_COLUMNS,
    LOG_TABLES,
    OPTIONAL_TABLES,
    SYNC_TABLES,
    CallCause,
    HostCallKind,
    MessageKind,
    SyncReason,
)


def columns(name: str) -> list[str]:
    return [column for column, _ in LOG_TABLES[name].columns]


def test_the_tables_stand_in_the_order_of_the_digest() -> None:
    always = ["dependencies", "commands", "dispatches", "transfers", "kernels", "messages"]
    assert list(LOG_TABLES) == [*always, "sends", "signals", "waits", "calls", "reads"]
    assert SYNC_TABLES == ("sends", "signals", "waits")
    assert (*SYNC_TABLES, "calls", "reads") == OPTIONAL_TABLES


def test_what_a_schema_names_are_its_columns() -> None:
    for name, schema in LOG_TABLES.items():
        found = columns(name)
        assert len(set(found)) == len(found)
        assert {*schema.texts, *schema.codes, *schema.ascending} <= set(found)
        assert schema.ascending == tuple(column for column in found if column.startswith(("t_", "from_", "to_")))


def test_times_numbers_and_ids_have_64_bits_texts_32_and_codes_8() -> None:
    for schema in LOG_TABLES.values():
        for column, kind in schema.columns:
            assert re.fullmatch(r"[a-z_]+", column)
            wanted = "<i4" if column in schema.texts else "|i1" if column in schema.codes else "<i8"
            assert kind == wanted


def test_columns_that_name_records_are_known() -> None:
    named = {column for name in LOG_TABLES for column in columns(name)}
    assert set(ID_COLUMNS) <= named
    assert {column for column in named if column.endswith(("_seq", "_op", "op_id"))} <= set(ID_COLUMNS)


def test_codes_count_from_0() -> None:
    causes = [("START", 0), ("SUBMISSION", 1), ("COMPLETION", 2), ("QUEUED", 3)]
    causes += [("MESSAGE", 4), ("CREDIT", 5), ("SIGNAL", 6)]
    assert [(each.name, each.value) for each in CallCause] == causes
    assert [(each.name, each.value) for each in MessageKind] == [("REQUEST", 0), ("RESPONSE", 1)]
    reasons = [("MESSAGE", 0), ("CREDIT", 1), ("SIGNAL", 2), ("BARRIER", 3), ("PE_BUSY", 4), ("EVENT", 5)]
    assert [(each.name, each.value) for each in SyncReason] == reasons
    kinds = [("LAUNCH", 0), ("WRITE", 1), ("READ", 2), ("COPY", 3), ("RECORD", 4), ("WAIT", 5), ("LOOK", 6)]
    assert [(each.name, each.value) for each in HostCallKind] == kinds


def test_waits_for_programs_are_those_of_kernels() -> None:
    assert [each.name for each in SyncReason if not each.is_between_programs] == ["PE_BUSY", "EVENT"]
