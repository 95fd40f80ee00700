"""One of equal PEs is asked whether its blocks take a plan."""

import pytest

from kb_components.pe.pe_dma import PeDma
from kb_components.pe.pe_gemm import PeGemm
from kb_engine import Engine, Host
from kb_messages import DType, KernelError, TileShape

TILE = TileShape(16, 16, 16)


def launched(topology, pes, dtype=DType.F16):
    """The host of *topology*, after a product on each of *pes*, in their own memories."""
    host = Host(Engine(topology), ".")
    homes = [host.hbm_slice_of(pe) for pe in range(host.num_pes)]

    def tensors(name):
        return [host.empty(f"{name}{pe}", (32, 32), dtype, slices=[home]) for pe, home in enumerate(homes)]

    def kernel(tl, a, b, c):
        pe = tl.program_id()
        tl.wait(tl.composite("gemm", a[pe], b[pe], out=c[pe], tile=TILE))

    host.launch(kernel, tensors("a"), tensors("b"), tensors("c"), pes=pes)
    return host


def asked(monkeypatch, kind, name):
    """The blocks of *kind* whose method *name* is called from now on."""
    found, untold = [], getattr(kind, name)

    def told(self, plan):
        found.append(self.node_id)
        untold(self, plan)

    monkeypatch.setattr(kind, name, told)
    return found


def test_one_pe_is_asked_for_all_and_each_for_its_addresses(chip, two_pes, monkeypatch):
    whole, addresses = asked(monkeypatch, PeGemm, "check_plan"), asked(monkeypatch, PeDma, "check_addresses")
    launched(chip(*two_pes), range(2))
    assert (len(whole), len(addresses)) == (1, 2)


def test_a_block_that_says_nothing_is_asked_on_every_pe(chip, two_pes, monkeypatch):
    monkeypatch.setattr(PeGemm, "checks_by_form", False)
    whole = asked(monkeypatch, PeGemm, "check_plan")
    launched(chip(*two_pes), range(2))
    assert len(set(whole)) == 2


def test_another_chip_is_asked_anew(chip, two_pes, monkeypatch):
    whole = asked(monkeypatch, PeGemm, "check_plan")
    for _ in range(2):
        launched(chip(*two_pes), range(2))
    assert len(whole) == 2


def test_each_pe_refuses_a_plan_that_one_refused(chip, two_pes):
    for pe in (0, 1):
        with pytest.raises(KernelError, match=f"pe{pe}.pe_gemm: got i64 operands"):
            launched(chip(*two_pes), [pe], DType.I64)
