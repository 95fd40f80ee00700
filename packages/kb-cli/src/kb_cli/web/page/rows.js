// Runs of several rows: the launches of a script, or the shapes of a file.

import {bar, h, put, section, table} from "/dom.js";
import {filterBox} from "/filter.js";
import {count, duration, percent} from "/format.js";

const VERDICTS = {true: "ok", false: "FAILED", null: "-"};
const OF_A_LAUNCH = new Set(["launch", "kernel", "grid"]); // what the shape of a launch says

export function isScript(run) {
    return run.rows.length > 0 && "launch" in run.rows[0].shape;
}

// `9 launches`, `1 shape`.
export function rowsText(run) {
    const [one, many] = isScript(run) ? ["launch", "launches"] : ["shape", "shapes"];
    return `${count(run.rows.length)} ${run.rows.length === 1 ? one : many}`;
}

export function verdict({verified, by_sample: bySample}) {
    return h("span", {class: verified === false ? "bad" : null}, VERDICTS[verified], verified && bySample ? ", by sample" : null);
}

// The overview of all rows: the time of each, its share, and the way to it.
export function overviewOfRows(place, run, page) {
    const total = run.rows.reduce((sum, row) => sum + row.latency_ps, 0);
    const filter = filterBox(isScript(run) ? "launches" : "shapes", {value: page.state.find, told: (find) => page.keep({find})});
    const all = isScript(run) ? launches(run, total, page) : shapes(run, total, page);
    const failed = run.rows.filter((row) => row.verified === false).length;
    put(place, h("h1", null, run.name),
        h("p", {class: "sentence"}, `${rowsText(run)} on ${run.topology}: ${duration(total)} in all`, failed ? h("span", {class: "bad"}, `, ${count(failed)} FAILED`) : null, "."),
        isScript(run) ? kernels(run, total) : null,
        section(isScript(run) ? "Launches" : "Shapes", "Each with its time in the kernel. A link leads to the views of that one alone.", filter.box, all));
    filter.apply([all]);
}

function kernels(run, total) {
    const found = new Map();
    for (const row of run.rows) {
        const known = found.get(row.shape.kernel) ?? {launches: 0, ps: 0, most: 0};
        found.set(row.shape.kernel, {launches: known.launches + 1, ps: known.ps + row.latency_ps, most: Math.max(known.most, row.latency_ps)});
    }
    const rows = [...found].sort(([, a], [, b]) => b.ps - a.ps).map(([name, {launches: number, ps, most}]) =>
        [name, ...shareCells(ps, total), duration(ps), count(number), duration(ps / number), duration(most)]);
    return section("Kernels", "The launches of each kernel together, the costliest first.",
        table(["kernel", "", "share", "time", "launches", "mean", "longest"], rows, {text: 2}));
}

function launches(run, total, page) {
    const rows = run.rows.map((row) => [link(row, `launch ${row.shape.launch}`, page), row.shape.kernel, ...shareCells(row.latency_ps, total),
        duration(row.latency_ps), row.shape.grid, ...(isVerified(run) ? [verdict(row)] : [])]);
    const grid = 5;
    return table(["launch", "kernel", "", "share", "time", "grid", ...(isVerified(run) ? ["verified"] : [])], rows,
        {text: 3, wide: [grid, grid + 1], caption: "launches", sort: sortOf(page)});
}

function shapes(run, total, page) {
    const names = Object.keys(run.rows[0].shape).filter((name) => !OF_A_LAUNCH.has(name));
    const rows = run.rows.map((row) => [link(row, row.folder, page), ...names.map((name) => String(row.shape[name])),
        ...shareCells(row.latency_ps, total), duration(row.latency_ps), ...(isVerified(run) ? [verdict(row)] : [])]);
    return table(["shape", ...names, "", "share", "time", ...(isVerified(run) ? ["verified"] : [])], rows,
        {text: 1, wide: [names.length + 1, names.length + 4], caption: "shapes", sort: sortOf(page)});
}

function isVerified(run) {
    return run.rows.some((row) => row.verified !== null);
}

function shareCells(ps, total) {
    return [bar(["path", total ? ps / total : 0]), percent(total ? ps / total : 0)];
}

function link(row, text, page) {
    return h("a", {href: page.link({view: "overview", run: row.id, find: null, sort: null})}, text);
}

function sortOf(page) {
    return {now: page.state.sort, told: (sort) => page.keep({sort})};
}
