// Who waited for what, and for whom.

import {json} from "/api.js";
import {h, heated, heatKey, note, put, section} from "/dom.js";
import {count, duration, exact, percent} from "/format.js";
import {REASONS, via} from "/words.js";

export async function show(place, page) {
    const {run, line, pe, t0, t1} = page.state;
    const found = await json("stalls", {run, line, pe, t0, t1});
    const choice = (name, values, all) => h("label", null, `${name} `, h("select", {onchange: (event) => page.go({[name.toLowerCase()]: event.target.value})},
        [["", all], ...values.map((each) => [each, each])].map(([value, text]) => h("option", {value, selected: value === (page.state[name.toLowerCase()] ?? "")}, text))));
    put(place,
        h("h1", null, "Stalls"),
        h("div", {class: "tools"}, choice("PE", found.pes, "all PEs"), choice("Line", found.lines, "all lines"),
            t0 === undefined ? h("span", {class: "soft"}, "the whole run; zoom the timeline to choose a window")
                : h("span", {class: "chip"}, `${exact(t0)} to ${exact(t1)}`,
                    h("button", {title: "the whole run", "aria-label": "show the whole run", onclick: () => page.go({t0: null, t1: null})}, "×"))),
        found.notes.map(note), matrix(found), worst(found, page));
}

function matrix({rows, reasons, tiles}) {
    if (!rows.length) return note("No tile was there.");
    const most = Math.max(...rows.flatMap((row) => reasons.map((reason) => row.ps[reason] ?? 0)), 1);
    const cell = (row, reason) => {
        const ps = row.ps[reason] ?? 0;
        const total = Object.values(row.ps).reduce((sum, each) => sum + each, 0);
        const found = h("td", {class: "number", title: ps ? `${exact(ps)}, ${percent(ps / total)} of the tiles' time there` : null}, ps ? duration(ps) : "");
        if (ps) heated(found, Math.sqrt(ps / most));
        return found;
    };
    return section("Time of tiles", `Over ${count(tiles)} stages of tiles that were there in the window, whole. Tiles wait side by side, so this adds up to more than the run. Waits for tile buffers and for fetches before are over when a tile comes to its first block.`,
        heatKey("0", duration(most / 4), `${duration(most)}; long waits are hot`), h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "waits by block and reason"}, h("table", {class: "matrix"},
            h("thead", null, h("tr", null, ["block", "stage", "tiles", REASONS.service, ...reasons.map((each) => REASONS[each])].map((each, at) =>
                h("th", {scope: "col", class: at < 2 ? "text" : "number"}, each)))),
            h("tbody", null, rows.map((row) => h("tr", null, h("td", {class: "text"}, row.block), h("td", {class: "text"}, row.stage),
                h("td", {class: "number"}, count(row.tiles)), h("td", {class: "number soft"}, duration(row.ps.service ?? 0)), reasons.map((each) => cell(row, each))))))));
}

function worst({worst: waits}, page) {
    if (!waits.length) return section("The longest waits", "Nothing waited.");
    const why = (op, text) => h("a", {href: page.link({view: "why", op})}, text);
    const rows = waits.map((each) => h("tr", null,
        h("td", {class: "number"}, duration(each.ps)),
        h("td", {class: "number"}, h("a", {href: page.link({view: "timeline", op: each.op, t0: Math.max(each.t_ps - each.ps * 2, 0), t1: each.t_ps + each.ps}), title: "in the timeline"}, exact(each.t_ps))),
        h("td", {class: "text"}, why(each.op, `${each.component}: ${each.stage}`)),
        h("td", {class: "text"}, each.line || "-"),
        h("td", {class: "text"}, REASONS[each.reason]),
        h("td", {class: "text"}, each.holder === null ? each.via ? via(each.via) : "-" : [`${via(each.via)}: `, why(each.holder, each.holder_at), ` ${each.holder_line}`])));
    return section("The longest waits", `The ${waits.length} longest waits of single tiles, with what they waited for.`,
        h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "longest waits"}, h("table", null,
            h("thead", null, h("tr", null, ["waited", "until", "tile at", "line", "because", "held up by"].map((each, at) =>
                h("th", {scope: "col", class: at < 2 ? "number" : "text"}, each)))), h("tbody", null, rows))));
}
