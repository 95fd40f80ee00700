// The list of sweeps, or one of them: its pictures, the fastest points, the Pareto front, and what failed.

import {json} from "/api.js";
import {best, drawing, h, note, put, section, table} from "/dom.js";
import {filterBox} from "/filter.js";
import {count} from "/format.js";
import {valueOf} from "/sort.js";

const TITLES = {models: "The model by the axis", front: "Pareto front", axes: "Latency by axis", map: "Latency by two axes"};
const BEST = {latency: Math.min, achieved: Math.max, "of peak": Math.max}; // of the figures that have a better end

export async function show(place, page) {
    if (page.state.sweep) put(place, one(await json("sweep", {sweep: page.state.sweep}), page));
    else put(place, h("h1", null, "Sweeps"), list(await json("sweeps"), page));
}

function list({folder, sweeps}, page) {
    if (!sweeps.length) return h("p", null, `${folder} has no sweeps yet. `,
        h("code", null, "kb sweep gemm -p tile=64x64x64,128x128x64"), " makes one.");
    const readable = sweeps.filter((each) => each.wrong === null);
    const shown = readable.length ? table(["sweep", "benchmark", "topology", "axes", "points", "failed", "written (UTC)"], readable.map((each) => [
        h("a", {href: page.link({sweep: each.id, find: null, sort: null})}, each.name), each.benchmark, each.topology,
        h("div", {class: "wrap"}, each.axes.join(", ")), count(each.points),
        each.failed ? h("span", {class: "bad"}, count(each.failed)) : "0",
        new Date(1000 * each.written_s).toISOString().slice(0, 19).replace("T", " ")]), {text: 4, wide: [6], sort: sortOf(page)}) : null;
    return [
        sweeps.filter((each) => each.wrong !== null).map((each) => note(each.wrong)),
        shown ? found("sweeps", shown, readable.length, page) : null,
        h("p", {class: "soft"}, `${count(sweeps.length)} ${sweeps.length === 1 ? "sweep" : "sweeps"} in ${folder}`),
    ];
}

function sortOf(page) {
    return {now: page.state.sort, told: (sort) => page.keep({sort})};
}

// The table `shown` below a box to search it, if it has rows to choose from.
function found(what, shown, number, page) {
    if (number < 2) return shown;
    const filter = filterBox(what, {value: page.state.find, told: (find) => page.keep({find})});
    filter.apply([shown]);
    return [filter.box, shown];
}

// Rows of points; the best value of a figure is marked.
function points(rows, headers, axes, sort) {
    const marked = headers.map((name) => {
        const values = rows.map((row) => valueOf(row[headers.indexOf(name)])).filter((each) => each !== null);
        return Object.hasOwn(BEST, name) && !axes.includes(name) && values.length > 1 ? BEST[name](...values) : null;
    });
    const cell = (text, at) => (marked[at] !== null && valueOf(text) === marked[at] ? best(text, `the best ${headers[at]} of the table`) : text);
    return table(headers, rows.map((row) => row.map(cell)), {text: axes.length, sort});
}

function one(swept, page) {
    const {axes, figures} = swept;
    const some = ({rows, of}, isMain) => {
        const shown = points(rows, [...axes, ...figures], axes, isMain ? sortOf(page) : undefined);
        return [
            isMain ? found(swept.what, shown, rows.length, page) : shown,
            of > rows.length ? h("p", {class: "soft"}, `The first ${count(rows.length)} of ${count(of)}. `,
                h("code", null, "kb sweep -o FILE.csv"), " writes all points.") : null,
        ];
    };
    const {rows: failed, of} = swept.failed;
    return [
        h("h1", null, h("a", {href: page.link({sweep: null, find: null, sort: null})}, "Sweeps")), h("p", {class: "sentence"}, swept.heading), swept.notes.map(note),
        swept.pictures.map(({name, svg, sentence}) => section(TITLES[name], sentence,
            h("div", {class: "plotted"}, drawing(svg)),
            name === "front" ? some(swept.front) : null)),
        section(`${swept.what[0].toUpperCase()}${swept.what.slice(1)} by ${swept.by}`, null, some(swept.ranked, true)),
        of ? section("Failed points", of > failed.length ? `The first ${count(failed.length)} of ${count(of)}.` : null,
            table([...swept.all_axes, "why"], failed.map((row) => [...row.slice(0, -1), h("div", {class: "wrap why"}, row.at(-1))]),
                {text: swept.all_axes.length + 1})) : null,
    ];
}
