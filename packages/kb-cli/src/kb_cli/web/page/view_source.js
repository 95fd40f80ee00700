// The kernel with what its lines cost. A click on a line filters every view.

import {json} from "/api.js";
import {bar, h, put} from "/dom.js";
import {duration, percent} from "/format.js";

export async function show(place, page) {
    const found = await json("source", {run: page.state.run});
    const costs = new Map(found.lines.filter((each) => each.number).map((each) => [each.number, each]));
    const others = found.lines.filter((each) => !each.number);
    const rows = found.text.split("\n").map((text, at) => row(text, at + 1, costs.get(at + 1), found, page));
    put(place,
        h("h1", null, found.file),
        h("p", {class: "soft"}, `Times on the critical path add up to ${duration(found.total_ps)}; times in flight overlap. `
            + "Choose a line to see it alone in every view."),
        h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "source"}, h("table", {class: "listing"},
            h("thead", null, h("tr", null, ["", "share", "on the path", "in flight", "blocks", "line", "source"].map((each, at) =>
                h("th", {scope: "col", class: at === 4 || at === 6 ? "text" : "number"}, each)))), h("tbody", null, rows))),
        others.length ? [h("h2", null, "Elsewhere"), h("div", {class: "scroll"}, h("table", {class: "listing"}, h("tbody", null,
            others.map((each) => row(each.line ? each.text : "work of no line", each.line || "-", each, found, page)))))] : null);
    document.getElementById("view").addEventListener("shown", () =>
        (place.querySelector("tr.chosen") ?? place.querySelector("tr.dear"))?.scrollIntoView({block: "center"}), {once: true});
}

function row(text, number, cost, found, page) {
    const blocks = cost ? Object.entries(cost.blocks).slice(0, 3).map(([block, ps]) => `${block} ${percent(cost.ps ? ps / cost.ps : 0)}`).join(", ") : "";
    const chosen = cost && cost.line && cost.line === page.state.line;
    const cells = cost ? [bar(["path", cost.share]), percent(cost.share), duration(cost.ps),
        cost.in_flight_ps ? duration(cost.in_flight_ps) : "-", blocks] : ["", "", "", "", ""];
    const name = cost?.line ? h("a", {href: page.link({line: chosen ? null : cost.line}), "aria-pressed": String(Boolean(chosen)),
        title: chosen ? "show all lines" : "show this line alone in every view"}, String(number)) : String(number);
    return h("tr", {class: [cost?.ps ? "dear" : "", chosen ? "chosen" : ""].join(" ").trim() || null},
        cells.map((each, at) => h("td", {class: at === 4 ? "text" : "number"}, each)), h("td", {class: "number"}, name), h("td", {class: "code"}, text));
}
