// Which PE ends last, and by how much: a sentence with ways to its row, to the reason, and to what would help.

import {h} from "/dom.js";
import {count, duration, percent} from "/format.js";

const ALIKE = 0.01; // of the run: PEs that end within it end together

// The nodes of PEs that ended, and how the last one stands among them; null for less than two PEs.
export function straggler(pes, run_ps) {
    const ended = pes.filter((each) => each.end !== null).sort((a, b) => b.end - a.end);
    if (ended.length < 2) return null;
    const [last] = ended;
    const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];
    return {
        last, count: ended.length, late_ps: last.end - middle(ended.map((each) => each.end)), spread_ps: last.end - ended.at(-1).end,
        share: last.busy / run_ps, usual: middle(ended.map((each) => each.busy)) / run_ps,
        isAlike: last.end - ended.at(-1).end <= ALIKE * run_ps,
    };
}

export function sentence(timeline) {
    const {bounds, page, tree} = timeline;
    const found = straggler(tree.units, bounds.t1 - bounds.t0);
    if (!found) return [];
    const {last} = found;
    if (!found.spread_ps) return [`All ${count(found.count)} PEs end at the same time.`];
    const told = found.isAlike ? `All ${count(found.count)} PEs end within ${duration(found.spread_ps)}; the last one is ${last.name}. `
        : `${last.name} ends last, ${duration(found.late_ps)} after the median of ${count(found.count)} PEs. It is at work ${percent(found.share)} of the run, and the median PE ${percent(found.usual)}. `;
    return [
        told,
        h("span", {class: "links"}, h("button", {type: "button", onclick: () => timeline.showStraggler(last)}, "Show it"), " ",
            h("a", {href: page.link({view: "why", op: last.lastOp, t0: null, t1: null})}, "Why so late?"),
            h("a", {href: page.link({view: "overview", op: null, t0: null, t1: null})}, "What to change?")),
    ];
}
