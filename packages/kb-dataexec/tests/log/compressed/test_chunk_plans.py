"""Plans that differ in blocks and addresses alone have one form in a chunk; plans of pieces have one each."""

import pytest

from kb_dataexec.log.compressed import chunk_writer
from kb_messages import (
    Axis,
    BufferNeeds,
    DType,
    OperandTemplate,
    PipelinePlan,
    Place,
    Role,
    StageTemplate,
    StageType,
    When,
)


def plan(in_pieces):
    """A load to pe0."""
    operands = tuple(
        OperandTemplate(
            role=role,
            place=place,
            base=64,
            rows=Axis(dimension=None, total=2, tile=2),
            cols=Axis(dimension=None, total=8, tile=8),
            stride=16,
            dtype=DType.F16,
        )
        for role, place in ((Role.SRC, Place.MEMORY), (Role.DST, Place.INPUT_BUFFER))
    )
    load = StageTemplate(
        stage_type=StageType.DMA_READ,
        component="pe0.pe_dma",
        when=When.EVERY_TILE,
        operands=operands,
        in_pieces=in_pieces,
    )
    return PipelinePlan(kind="transfer", grid=(1, 1, 1), stages=(load,), buffers=BufferNeeds())


@pytest.mark.parametrize(("in_pieces", "forms"), [(False, [0, 0, 0]), (True, [0, 1, 2])])
def test_plans_made_of_one(in_pieces, forms, monkeypatch):
    asked = []
    structure = chunk_writer.structure
    monkeypatch.setattr(chunk_writer, "structure", lambda each: asked.append(each) or structure(each))
    first = plan(in_pieces)
    plans = [first, first.on("pe1", [128]), first.on("pe2", [256])]
    chunk = chunk_writer.ChunkPlans(lambda text: int(text[2]))
    assert [chunk.number_of(each) for each in (*plans, first)] == [0, 1, 2, 0]
    assert chunk.tables["plans"]["form"].tolist() == forms
    assert chunk.tables["stages"]["component"].tolist() == [0, 1, 2]
    assert len(chunk.forms) == max(forms) + 1
    assert len(asked) == len(chunk.forms), "asked once for each form"
