// What stands around the canvas of the timeline: tools, legend, what is selected, and what a search found.

import {json} from "/api.js";
import {copier, h, note, put} from "/dom.js";
import {count, duration, exact} from "/format.js";
import {ORDERS} from "/timeline_tree.js";
import {via} from "/words.js";

const KEYS = [
    ["↑ ↓", "the row above, below"], ["→ ←", "open, fold"], ["Enter", "open or fold; in a lane select a service"],
    ["e E", "open, fold all of this level"], ["x", "open or fold all"], ["o", "order: place, time at work, end"], ["p", "pin the row on top"],
    ["a d or Shift ← →", "earlier, later"], ["+ - or w s", "zoom"], ["Home", "the whole run"],
    [", .", "the service before, after"], ["f", "zoom to what is selected"], ["c", "arrows: from what held it up, and of messages"],
    ["y", "why it started only then"], ["m", "set a mark at the nearest edge in the window"], ["M", "marks around what is selected"], ["z", "zoom to the marks"],
    ["/", "search"], ["Esc", "drop marks and selection"],
    ["wheel", "zoom; with Shift pan; over the names scroll"], ["drag", "pan; with Shift measure; on the whole run move the window"],
];
const COLOURS = [["stage", "stage"], ["line", "kernel line"], ["command", "command"], ["path", "critical path"]];
const WAITS = {channel: "the block was busy", tcm_port: "the TCM port was busy",
    register_file: "registers had no room", compute_slot: "the compute slot was taken", operand: "an operand was not there",
    barrier: "a barrier"};

export function tools(timeline) {
    const {page} = timeline;
    const colour = h("select", {onchange: (event) => timeline.recolour(event.target.value)},
        COLOURS.map(([value, text]) => h("option", {value, selected: value === timeline.colour}, text)));
    timeline.search = h("input", {type: "search", placeholder: "gemm.py:29 pe 3 tile 7", "aria-label": "search",
        value: page.state.find ?? ""});
    timeline.orders = h("select", {onchange: (event) => timeline.sort(event.target.value)},
        Object.entries(ORDERS).map(([value, text]) => h("option", {value, selected: value === timeline.order}, text)));
    const find = h("form", {role: "search", onsubmit: (event) => {
        event.preventDefault();
        search(timeline, timeline.search.value);
    }}, timeline.search, h("button", null, "Find"));
    return h("div", {class: "tools"},
        h("label", null, "Colours by ", colour), h("label", null, "Order by ", timeline.orders), find,
        h("button", {onclick: () => timeline.look(timeline.bounds)}, "Whole run"),
        h("button", {onclick: () => timeline.zoom(1 / 2)}, "Zoom in"), h("button", {onclick: () => timeline.zoom(2)}, "Zoom out"),
        h("button", {onclick: () => timeline.openAll(true)}, "Open all"), h("button", {onclick: () => timeline.openAll(false)}, "Fold all"),
        h("details", {class: "keys"}, h("summary", null, "Keys"), h("dl", null, KEYS.map(([key, text]) =>
            [h("dt", null, h("kbd", null, key)), h("dd", null, text)]))));
}

// A swatch for each colour, with all that has it: a block of the path has the colour of its stage.
export function legend(kinds) {
    const words = new Map();
    for (const {texts, palette} of kinds) texts.forEach((text, at) => {
        const ink = palette[at] ?? palette.at(-1);
        if (!words.get(ink)?.includes(text)) words.set(ink, [...words.get(ink) ?? [], text]);
    });
    return [...words].map(([ink, texts]) => {
        const swatch = h("i");
        swatch.style.background = ink;
        return h("span", null, swatch, texts.join(", "));
    });
}

export function selection(timeline, found) {
    const {page} = timeline;
    if (found.name === undefined) return [h("p", {class: "soft"}, `Nothing at ${exact(found.t_ps)} in this lane.`)];
    const {record} = found;
    const facts = [
        ["from", at(timeline, found.t0_ps)], ["to", at(timeline, found.t1_ps)], ["takes", exact(found.t1_ps - found.t0_ps)],
        ["on", `${found.group === found.title ? "" : `${found.group} `}${found.title}`],
    ];
    if (record) {
        facts.push(["op", `${record.op} of command ${record.command}, tile ${record.tile}`]);
        facts.push(["tile came", exact(record.ready_ps)]);
        for (const [name, ps] of Object.entries(record.waits_ps)) facts.push([`waited: ${WAITS[name]}`, exact(ps)]);
        if (record.out_ps > found.t1_ps) facts.push(["then held up, the next queue was full", exact(record.out_ps - found.t1_ps)]);
    }
    facts.push(...ofMessage(found.message));
    const links = record ? [
        h("a", {href: page.link({view: "why", op: record.op, t0: null, t1: null})}, "Why only then?"),
        record.line ? h("a", {href: page.link({view: "source", line: record.line})}, record.line) : null,
    ] : [];
    const steps = [["◂ before", found.before], ["after ▸", found.after]].filter(([, op]) => op !== null).map(([text, op]) =>
        h("button", {onclick: () => timeline.choose({op})}, text));
    steps.push(...otherEnd(timeline, found));
    const shown = (rows) => rows.map(([name, text]) => h("div", null, h("dt", null, name), h("dd", null, text)));
    const later = h("div", {class: "later"}); // what takes longer to find
    const list = h("dl", {class: "facts"}, shown(facts.slice(0, 4)), record ? later : null, shown(facts.slice(4)));
    if (record) more(timeline, record.op, (rows) => {
        facts.push(...rows.filter(([, text]) => typeof text === "string"));
        put(later, shown(rows));
    });
    return [
        h("h2", null, found.name), h("p", {class: "links"}, links), list,
        h("p", null, steps, " ", h("button", {onclick: () => timeline.fit()}, "Zoom to it"), " ",
            copier(() => [["what", found.name], ...facts].map((row) => row.join("\t")).join("\n"))),
    ];
}

// A time, and how long it is after the start of its launch where that differs.
function at(timeline, ps) {
    const launch = timeline.launchAt(ps);
    return launch && launch.t0 ? `${exact(ps)}, ${exact(ps - launch.t0)} into launch ${launch.number}` : exact(ps);
}

// The facts that take longer, as soon as they are there: what was moved or multiplied, and what held it up.
function more(timeline, op, told) {
    const asked = {run: timeline.run, stamp: timeline.stamp, op};
    json("facts", asked).then((found) => told(ofFacts(found))).catch((error) => told([["bytes", error.message]]));
    json("cause", asked).then((found) => {
        timeline.heldUp(found);
        told([["held up by", ofCause(timeline, found)]]);
    }).catch((error) => told([["held up by", error.message]]));
}

function ofFacts({nbytes, gbs, mnk, tflops, memories, n_memories: all, operands, params}) {
    const rows = [];
    if (mnk) rows.push(["M x N x K", `${mnk.map(count).join(" x ")}${tflops === null ? "" : `, ${tflops.toPrecision(4)} TFLOP/s`}`]);
    if (nbytes !== null) rows.push(["bytes", `${count(nbytes)} B${gbs === null ? "" : `, ${gbs.toPrecision(4)} GB/s`}`]);
    if (memories.length) rows.push([all > 1 ? "memories" : "memory", `${memories.join(", ")}${all > memories.length ? `, ${all - memories.length} more` : ""}`]);
    if (operands.length) rows.push(["operands", operands.length > 8 ? `${operands.slice(0, 8).join(", ")}, ${operands.length - 8} more` : operands.join(", ")]);
    if (params) rows.push(["with", params]);
    return rows;
}

function ofCause(timeline, {via: edge, by}) {
    if (!by) return via(edge);
    return [h("button", {onclick: () => timeline.choose({op: by.op})}, by.name), ` of ${by.pe}, until ${exact(by.t1_ps)}: ${via(edge)}`];
}

function ofMessage(message) {
    if (!message) return [];
    const facts = [
        ["message", `${count(message.nbytes)} B, ${message.tag}, slot ${message.slot}`],
        ["sent by", `${message.src}, ${message.line_sent}`], ["to", [message.dst, message.line_taken].filter((each) => each).join(", ")],
        ["credit", exact(message.credit_ps)], ["doorbell", exact(message.rung_ps)],
    ];
    if (message.taken_ps !== null) facts.push(["taken", exact(message.taken_ps)]);
    if (message.freed_ps !== null) facts.push(["slot free again", exact(message.freed_ps)]);
    return facts;
}

// A button to the other end of a message: from the wait to the send, or from the send to the wait.
function otherEnd(timeline, {table, message}) {
    if (!message) return [];
    if (table !== "ops") return [h("button", {onclick: () => timeline.choose({op: message.op})}, "its send")];
    if (!message.waited) return [];
    const {table: waits, lane, t_ps: t} = message.taken;
    return [h("button", {onclick: () => timeline.choose({table: waits, lane, t: t - 1})}, "the wait for it")];
}

export async function search(timeline, what) {
    const {panel, page} = timeline;
    try {
        const found = await json("find", {run: timeline.run, stamp: timeline.stamp, what});
        page.keep({find: what});
        panel.replaceChildren(
            h("h2", null, `${count(found.count)} ${found.count === 1 ? "service" : "services"}`),
            found.count > found.first.length ? h("p", {class: "soft"}, `the first ${found.first.length} of them`) : "",
            h("ol", {class: "found"}, found.first.map((each) => h("li", null,
                h("button", {onclick: () => timeline.choose({op: each.op}, true)}, each.name),
                h("small", null, ` op ${each.op}, ${exact(each.t0_ps)}, ${duration(each.t1_ps - each.t0_ps)}`)))));
        if (found.count === 1) timeline.choose({op: found.first[0].op}, true);
    } catch (error) {
        panel.replaceChildren(note(error.message));
    }
}
