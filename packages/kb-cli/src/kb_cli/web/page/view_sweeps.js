// The list of sweeps, or one of them: its pictures, the fastest points, the Pareto front, and what failed.

import {json} from "/api.js";
import {drawing, h, note, put, section, table} from "/dom.js";
import {count} from "/format.js";

const TITLES = {models: "The model by the axis", front: "Pareto front", axes: "Latency by axis", map: "Latency by two axes"};

export async function show(place, page) {
    if (page.state.sweep) put(place, one(await json("sweep", {sweep: page.state.sweep}), page));
    else put(place, h("h1", null, "Sweeps"), list(await json("sweeps"), page));
}

function list({folder, sweeps}, page) {
    if (!sweeps.length) return h("p", null, `${folder} has no sweeps yet. `,
        h("code", null, "kb sweep gemm -p tile=64x64x64,128x128x64"), " makes one.");
    const readable = sweeps.filter((each) => each.wrong === null);
    return [
        sweeps.filter((each) => each.wrong !== null).map((each) => note(each.wrong)),
        readable.length ? table(["sweep", "benchmark", "topology", "axes", "points", "failed", "written (UTC)"], readable.map((each) => [
            h("a", {href: page.link({sweep: each.id})}, each.name), each.benchmark, each.topology,
            h("div", {class: "wrap"}, each.axes.join(", ")), count(each.points),
            each.failed ? h("span", {class: "bad"}, count(each.failed)) : "0",
            new Date(1000 * each.written_s).toISOString().slice(0, 19).replace("T", " ")]), {text: 4}) : null,
        h("p", {class: "soft"}, `${count(sweeps.length)} ${sweeps.length === 1 ? "sweep" : "sweeps"} in ${folder}`),
    ];
}

function one(found, page) {
    const headers = [...found.axes, ...found.figures];
    const some = ({rows, of}) => [
        table(headers, rows, {text: found.axes.length}),
        of > rows.length ? h("p", {class: "soft"}, `The first ${count(rows.length)} of ${count(of)}. `,
            h("code", null, "kb sweep -o FILE.csv"), " writes all points.") : null,
    ];
    return [
        h("h1", null, h("a", {href: page.link({sweep: null})}, "Sweeps")), h("p", {class: "sentence"}, found.heading), found.notes.map(note),
        found.pictures.map(({name, svg, sentence}) => section(TITLES[name], sentence,
            h("div", {class: "plotted"}, drawing(svg)),
            name === "front" ? some(found.front) : null)),
        section(`${found.what[0].toUpperCase()}${found.what.slice(1)} by ${found.by}`, null, some(found.ranked)),
        found.failed.of ? section("Failed points", found.failed.of > found.failed.rows.length ? `The first ${count(found.failed.rows.length)} of ${count(found.failed.of)}.` : null,
            table([...found.all_axes, "why"], found.failed.rows.map((row) => [...row.slice(0, -1), h("div", {class: "wrap"}, row.at(-1))]), {text: found.all_axes.length + 1})) : null,
    ];
}
