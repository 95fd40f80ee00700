// Who waited for what, and for whom.

import {json} from "/api.js";
import {bar, h, heated, heatKey, note, put, section, table} from "/dom.js";
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
        found.notes.map(note), matrix(found), groups(found, page));
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
        heatKey("0", duration(most / 4), `${duration(most)}; long waits are hot`), table(["block", "stage", "tiles", REASONS.service, ...reasons.map((each) => REASONS[each])], rows.map((row) =>
            [row.block, row.stage, count(row.tiles), h("td", {class: "number soft"}, duration(row.ps.service ?? 0)), ...reasons.map((each) => cell(row, each))]),
        {text: 2, kind: "matrix", caption: "waits by block and reason"}));
}

// Waits that are alike have one row. A button unfolds the longest of them.
function groups({groups: found, of_groups: of, waited_ps: waited}, page) {
    if (!found.length) return section("What tiles waited for", "Nothing waited.");
    const rows = found.flatMap((each) => {
        const members = h("tr", {class: "part", hidden: true}, h("td", {colspan: 10}, longest(each, page)));
        const fold = h("button", {type: "button", class: "fold", "aria-expanded": "false", title: "the longest of these waits", onclick: () => {
            members.hidden = !members.hidden;
            fold.setAttribute("aria-expanded", String(!members.hidden));
        }}, each.block);
        return [[fold, each.stage, each.line ? h("a", {href: page.link({line: each.line})}, each.line) : "-",
            bar(["path", each.ps / found[0].ps]), duration(each.ps), count(each.tiles), REASONS[each.reason], heldUp(each), pes(each, page), duration(each.waits[0].ps)], members];
    });
    return section("What tiles waited for", `${duration(waited)} of waiting in ${count(of)} ${of === 1 ? "group" : "groups"} of waits that are alike: one block, stage, line and reason, on any PE.${of > found.length ? ` The ${found.length} with the most time are shown.` : ""}`,
        table(["block", "stage", "line", "", "waited in all", "tiles", "because", "held up by", "PEs", "longest"], rows, {text: 4, wide: [6, 7, 8], caption: "groups of waits"}));
}

// Who held up the longest waits of a group. Waits of one group mostly have one answer.
function heldUp({waits, line}) {
    const texts = [...new Set(waits.map((each) => holder(each, line)))];
    return texts.length < 3 ? texts.join("; ") : `${texts[0]}; ${texts.length - 1} others`;
}

function holder({component, holder_at: at, holder_line: of, via: edge}, line) {
    if (!at) return edge ? via(edge) : "-";
    const [place, what] = [at.slice(0, at.lastIndexOf(".")), at.slice(at.lastIndexOf(".") + 1)];
    const where = component.startsWith(`${place}.`) ? "the same PE" : "another PE";
    return `${what} of ${where}${of && of !== line ? `, ${of}` : ""}`;
}

function pes({pes: number, alike, most_pe: most, most_ps: ps}, page) {
    if (!number) return "-";
    if (number > 1 && alike) return `${count(number)} PEs, alike`;
    const link = h("a", {href: page.link({pe: most})}, most);
    return number > 1 ? h("div", {class: "wrap"}, `${count(number)} PEs, most `, link, ` ${duration(ps)}`) : link;
}

function longest({waits, tiles, pes: number, alike, most_pe: pe}, page) {
    const why = (op, text) => h("a", {href: page.link({view: "why", op})}, text);
    const rows = waits.map((each) => [
        why(each.op, `${each.component}: ${each.stage}`), duration(each.ps),
        h("a", {href: page.link({view: "timeline", op: each.op, t0: Math.max(each.t_ps - each.ps * 2, 0), t1: each.t_ps + each.ps}), title: "in the timeline"}, exact(each.t_ps)),
        each.holder === null ? each.via ? via(each.via) : "-" : [why(each.holder, each.holder_at), ` ${each.holder_line}`]]);
    const isForAll = alike && number > 1;
    const [of, where] = isForAll ? [tiles / number, ` of ${pe}, which stands for all ${count(number)} PEs`] : [tiles, ""];
    const said = of > waits.length ? `The longest ${count(waits.length)} of ${count(of)} waits${where}.` : where ? `The waits${where}.` : "";
    return [said ? h("p", {class: "soft"}, said) : "",
        table(["tile", "waited", "until", "held up by"], rows, {text: 1, wide: [3], caption: "the longest waits of the group"})];
}
