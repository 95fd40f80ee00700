// What stands in the middle of a view without content: how far the server is, or why there is nothing.

import {json} from "/api.js";
import {copier, h} from "/dom.js";
import {count} from "/format.js";

const LOOK_MS = 250;
const STEPS = {files: "the files of the run", log: "the op log", report: "the report", timeline: "the lanes", stalls: "the waits",
    roofline: "the roofline", flows: "the transfers", uses: "the links of the transfers", "first report": "the report"};
const NEEDED = {overview: ["files", "first report"], timeline: ["files", "log", "timeline"], why: ["files", "log", "timeline"], source: ["files", "log", "report"],
    stalls: ["files", "log", "timeline", "stalls"], topology: ["files", "log", "timeline"], roofline: ["files", "log", "roofline"]};

export function empty(title, text, command) {
    return h("div", {class: "middle"}, h("div", {class: "panel", role: "note"}, h("h2", null, title), h("p", null, text),
        command ? h("div", {class: "command"}, h("code", null, command), h("div", {class: "tools"}, copier(() => command))) : null));
}

// A panel that says what is read and how far. `isOver` ends its questions.
export function waiting(view, run, isOver) {
    const needed = run ? NEEDED[view] ?? [] : [];
    const bar = h("i", {class: "path"});
    const whole = h("div", {class: "bar", role: "progressbar", "aria-valuemin": "0", "aria-valuemax": "100", "aria-label": "read so far"}, bar);
    const list = h("ul");
    const tell = (steps) => {
        const now = new Map(steps.map((each) => [each.name, each]));
        const shares = needed.map((name) => shareOf(now.get(name)));
        const percent = needed.length ? Math.round(100 * shares.reduce((sum, each) => sum + each, 0) / needed.length) : 0;
        bar.style.width = `${percent}%`;
        whole.setAttribute("aria-valuenow", String(percent));
        const busy = needed.find((name) => now.has(name) && !now.get(name).is_done); // the others wait for this one
        list.replaceChildren(...needed.map((name) => line(name, now.get(name), name === busy)));
    };
    const ask = async () => {
        if (isOver()) return;
        try {
            tell((await json("loading", {run})).steps);
        } catch { /* the view itself says what is wrong */ }
        setTimeout(ask, LOOK_MS);
    };
    tell([]);
    if (needed.length) ask();
    return h("div", {class: "middle"}, h("div", {class: "panel", role: "status"}, h("h2", null, needed.length ? "Reading the run" : "Reading"),
        needed.length ? [whole, list] : null));
}

function shareOf(step) {
    if (!step) return 0;
    return step.is_done ? 1 : step.total ? Math.min(step.done / step.total, 1) : 0;
}

function line(name, step, isBusy) {
    const kind = step?.is_done ? "done" : isBusy ? "busy" : "later";
    const records = name === "log" && step && step.total ? `: ${count(step.is_done ? step.total : step.done)} of ${count(step.total)} records` : "";
    return h("li", {class: kind}, h("span", {"aria-hidden": "true"}, {done: "\u2713", busy: "\u25b8", later: ""}[kind]), `${STEPS[name]}${records}`);
}
