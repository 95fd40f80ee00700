// What stands around the canvas of the timeline: tools, legend, what is selected, and what a search found.

import {json} from "/api.js";
import {copier, h, note} from "/dom.js";
import {count, duration, exact} from "/format.js";

const KEYS = [
    ["← → or a d", "earlier, later"], ["+ - or w s", "zoom"], ["Home", "the whole run"], ["↑ ↓", "scroll lanes"],
    ["Enter", "select a service"], [", .", "the one before, the one after"], ["f", "zoom to what is selected"],
    ["y", "why it started only then"], ["m", "set a mark at the nearest edge"], ["M", "marks around what is selected"], ["z", "zoom to the marks"],
    ["x", "fold or unfold all"], ["/", "search"], ["Esc", "drop marks and selection"],
    ["wheel", "zoom; with Shift pan; over the names scroll"], ["drag", "pan; with Shift measure"],
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
    const find = h("form", {role: "search", onsubmit: (event) => {
        event.preventDefault();
        search(timeline, timeline.search.value);
    }}, timeline.search, h("button", null, "Find"));
    return h("div", {class: "tools"},
        h("label", null, "Colours by ", colour), find,
        h("button", {onclick: () => timeline.look(timeline.bounds)}, "Whole run"),
        h("button", {onclick: () => timeline.zoom(1 / 2)}, "Zoom in"), h("button", {onclick: () => timeline.zoom(2)}, "Zoom out"),
        h("button", {onclick: () => timeline.openAll(true)}, "Unfold"), h("button", {onclick: () => timeline.openAll(false)}, "Fold"),
        h("details", {class: "keys"}, h("summary", null, "Keys"), h("dl", null, KEYS.map(([key, text]) =>
            [h("dt", null, h("kbd", null, key)), h("dd", null, text)]))));
}

export function hint() {
    return h("p", {class: "soft"}, "Select a service to see its times and what it waited for. Drag to pan, turn the wheel to zoom, "
        + "press m at two places to measure between edges, and to add up what was at work there.");
}

export function legend(ops, waits, path) {
    const swatches = ({texts, palette}) => texts.map((text, at) => {
        const ink = h("i");
        ink.style.background = palette[at] ?? palette.at(-1);
        return h("span", null, ink, text);
    });
    const found = [...swatches(ops)];
    if (waits.texts.length) found.push(h("span", {class: "soft"}, "waits for a: "), ...swatches(waits));
    if (path.texts.length) found.push(h("span", {class: "soft"}, "on the path: "), ...swatches(path));
    return found;
}

export function selection(timeline, found) {
    const {page} = timeline;
    if (found.name === undefined) return [h("p", {class: "soft"}, `Nothing at ${exact(found.t_ps)} in this lane.`)];
    const {record} = found;
    const facts = [
        ["from", exact(found.t0_ps)], ["to", exact(found.t1_ps)], ["takes", exact(found.t1_ps - found.t0_ps)],
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
    return [
        h("h2", null, found.name), h("p", {class: "links"}, links), h("dl", {class: "facts"},
            facts.map(([name, text]) => [h("dt", null, name), h("dd", null, text)])),
        h("p", null, steps, " ", h("button", {onclick: () => timeline.fit()}, "Zoom to it"), " ",
            copier(() => [["what", found.name], ...facts].map((row) => row.join("\t")).join("\n"))),
    ];
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
