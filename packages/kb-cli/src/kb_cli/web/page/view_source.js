// The kernel with what its lines cost. A click on a line filters every view.

import {json} from "/api.js";
import {bar, h, put, section, table} from "/dom.js";
import {duration, percent} from "/format.js";
import {pieces} from "/python_text.js";

const BLOCKS = 4;

export async function show(place, page) {
    const found = await json("source", {run: page.state.run});
    const costs = new Map(found.lines.filter((each) => each.number).map((each) => [each.number, each]));
    const others = found.lines.filter((each) => !each.number);
    const rows = pieces(found.text).flatMap((line, at) => rowsOf(line, at + 1, costs.get(at + 1), page));
    put(place,
        h("h1", null, found.file),
        h("p", {class: "soft"}, `Times on the critical path add up to ${duration(found.total_ps)}; times in flight overlap. `
            + "Choose a line to see it alone in every view."),
        h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "source"}, h("table", {class: "listing"},
            h("thead", null, h("tr", null, ["share", "on the path", "line", "source"].map((each, at) =>
                h("th", {scope: "col", class: at === 3 ? "text" : "number"}, each)))), h("tbody", null, rows))),
        others.length ? section("Elsewhere", "Work of other files, and of no line.", table(["line", "", "share", "on the path", "in flight", "blocks", "source"],
            others.map((each) => [choice(each, each.line || "no line", page), bar(["path", each.share]), percent(each.share), duration(each.ps),
                each.in_flight_ps ? duration(each.in_flight_ps) : "-", blocks(each), h("code", null, each.text)]), {text: 2, wide: [5, 6], caption: "elsewhere"})) : null);
    document.getElementById("view").addEventListener("shown", () =>
        (place.querySelector("tr.chosen") ?? place.querySelector("tr.dear"))?.scrollIntoView({block: "center"}), {once: true});
}

// The row of a line, and a second one with the blocks that worked for it.
function rowsOf(line, number, cost, page) {
    const isChosen = Boolean(cost?.line) && cost.line === page.state.line;
    const kind = [cost?.ps ? "dear" : "", isChosen ? "chosen" : ""].join(" ").trim() || null;
    const cells = cost ? [[bar(["path", cost.share]), percent(cost.share)], duration(cost.ps)] : ["", ""];
    const code = line.map(([name, text]) => (name ? h("span", {class: name}, text) : text));
    const row = h("tr", {class: kind}, cells.map((each) => h("td", {class: "number"}, each)),
        h("td", {class: "number line"}, choice(cost, String(number), page)), h("td", {class: "code"}, code));
    const more = cost ? [blocks(cost), cost.in_flight_ps ? `in flight ${duration(cost.in_flight_ps)}` : ""].filter(Boolean).join("; ") : "";
    if (!more) return [row];
    const [indent] = /^ */.exec(line.map(([, text]) => text).join(""));
    return [row, h("tr", {class: `${kind ?? ""} costs`.trim()}, h("td", {class: "number"}), h("td", {class: "number"}), h("td", {class: "number line"}),
        h("td", {class: "soft"}, `${indent}${more}`))];
}

function choice(cost, text, page) {
    if (!cost?.line) return text;
    const isChosen = cost.line === page.state.line;
    return h("a", {href: page.link({line: isChosen ? null : cost.line}), "aria-pressed": String(isChosen),
        title: isChosen ? "show all lines" : "show this line alone in every view"}, text);
}

function blocks({ps, blocks: found}) {
    const parts = Object.entries(found);
    const shown = parts.slice(0, BLOCKS).map(([block, spent]) => `${block} ${percent(ps ? spent / ps : 0)}`);
    return [...shown, ...(parts.length > BLOCKS ? [`${parts.length - BLOCKS} more`] : [])].join(", ");
}
