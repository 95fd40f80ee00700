// How far the run and its lines are from the peaks of the chip.

import {json} from "/api.js";
import {drawing, h, note, put, table} from "/dom.js";
import {quantity} from "/format.js";

export async function show(place, page) {
    const {svg, chart, spaces, roof_headers, roofs, sentence, notes} = await json("roofline", {run: page.state.run});
    const names = Object.keys(spaces);
    const rows = chart.points.filter((point) => !page.state.line || !point.line || point.line === page.state.line).map((point) => [
        point.line ? h("a", {href: page.link({view: "source", line: point.line})}, point.line) : point.name || "the run",
        quantity(point.flops, "FLOP"), point.ps ? quantity(point.flops / (point.ps / 1e12), "FLOP/s") : "-",
        ...names.map((space) => (point.nbytes[space] ? String(Number((point.flops / point.nbytes[space]).toPrecision(4))) : "-"))]);
    put(place,
        h("h1", null, "Roofline"), h("p", {class: "sentence"}, sentence), notes.map(note),
        h("p", {class: "soft"}, "The run, each launch of several, and the commands of each kernel line while one of them was in flight. All operations "
            + "and bytes are counted. A math unit has an operation for each lane and cycle. Point at a mark for its numbers."),
        svg === null ? note("There is no limit, or no point, to draw.") : h("div", {class: "plotted"}, drawing(svg)),
        table(["", "operations", "rate", ...names.map((space) => `FLOP a byte of ${spaces[space]}`)], rows),
        table(["peak", "rate"], [
            ...chart.peaks.map((each) => [`GEMM ${each.dtypes.join(", ")}`, quantity(each.flops, "FLOP/s")]),
            ...(chart.math_flops === null ? [] : [["math units", quantity(chart.math_flops, "FLOP/s")]]),
            ...Object.entries(chart.bandwidth_gbs).filter(([space]) => spaces[space]).map(([space, gbs]) => [spaces[space] ?? space, quantity(gbs * 1e9, "B/s")])]),
        roofs.length ? table(roof_headers, roofs, {wide: [5]}) : "");
}
