"""Chips and transfers on them, for tests of the fabric."""

from kb_messages import Rectangle

DMA, HBM = "sip0.cube0.pe{}.pe_dma", "sip0.cube0.hbm{}"

# Links of 10, a slow bridge of 40 ps a byte; wires of 7 ps a mm.
TWO_HALVES = (
    ("wire_ps_per_mm: 0", "wire_ps_per_mm: 7"),
    ("impl: toy.hbm, count: 1", "impl: toy.hbm, count: 2"),
    (
        "count: 1, overhead_ps: 1000}",
        "count: 2, overhead_ps: 1000}\n    bridge: {kind: bridge, impl: toy.xbar, overhead_ps: 300}",
    ),
    ("pe_layout: {count: 1}", "pe_layout: {count: 4}"),
    (
        '{from: "pe[*].pe_dma", to: "xbar[0]", bw_gbs: 100, length_mm: 0}',
        '{from: "pe[0:2].pe_dma", to: "xbar[0]", bw_gbs: 100, length_mm: 3}',
    ),
    (
        '{from: "xbar[0]", to: "hbm[*]", bw_gbs: 100, length_mm: 0}',
        (
            '{from: "pe[2:4].pe_dma", to: "xbar[1]", bw_gbs: 100, length_mm: 3}\n'
            '    - {from: "xbar[0:2]", to: "hbm[0:2]", bw_gbs: 70, length_mm: 2}\n'
            '    - {from: "xbar[*]", to: bridge, bw_gbs: 25, length_mm: 5}'
        ),
    ),
)
ONE_PE_TWO_SLICES = (("impl: toy.hbm, count: 1", "impl: toy.hbm, count: 2"),)
FOUR_PES_ONE_SLICE = (("pe_layout: {count: 1}", "pe_layout: {count: 4}"),)


def run(engine, channels):
    """The end of every transfer. A channel is (pe, is_write) and its transfers (gap, slice, nbytes), each started *gap*
    after the end of the one before it, as a DMA channel does."""
    ends = {}

    def start(channel, number):
        if number < len(channels[channel]):
            gap, unit, nbytes = channels[channel][number]
            pe, is_write = channel
            path = engine.fabric.path(DMA.format(pe), owner(engine, unit))
            move = engine.fabric.write if is_write else engine.fabric.read
            begin = engine.clock.now + gap
            memory = Rectangle(0, 1, nbytes, nbytes)
            engine.clock.call_at(begin, lambda _: move(path, memory, begin, finished, (channel, number)), None)

    def finished(transfer):
        channel, number = transfer
        ends[transfer] = engine.clock.now
        start(channel, number + 1)

    for channel in channels:
        engine.clock.call_at(0, lambda each: start(each, 0), channel)
    engine.clock.drain()
    return ends


def owner(engine, unit):
    return engine.topology.address_map.region_of_node(HBM.format(unit)).owner
