// What the timeline says in words: above the lanes, beside the pointer, and to who does not see it.

import {count, duration, exact, percent, scaleOf} from "/format.js";

const UNITS = {ops: "PEs", links: "links", memories: "memories"};

// The window that is shown, in one unit, and how long after the start of its launch the window begins.
export function windowText(timeline, seen) {
    const {bounds, launches, tables, tree, view: {t0, t1}} = timeline;
    const text = scaleOf(t1, t1 - t0);
    const launch = launches.length > 1 || launches[0]?.t0 > bounds.t0 ? timeline.launchAt(t0) : null;
    const since = launch ? `, from ${scaleOf(t1 - launch.t0, t1 - t0)(t0 - launch.t0)} into launch ${launch.number}` : "";
    return `${text(t0)} to ${text(t1)}, ${duration(t1 - t0)}${since}. ${count(seen)} of ${count(tree.rows.length)} rows, ${count(tables.get("ops").slices)} services. `;
}

export function marksText([a, b]) {
    if (a === undefined) return "";
    return b === undefined ? `Mark A at ${exact(a)}.` : `A ${exact(a)}, B ${exact(b)}: ${exact(Math.abs(b - a))} between.`;
}

// What a row is.
export function rowText(node) {
    const what = node.ref ? "" : node.isUnread ? ", not read yet" : node.open ? ", open" : ", folded";
    const units = node.units > 1 ? `, ${count(node.units)} ${UNITS[node.key.split(" ")[0]]}` : "";
    return `${node.name}${what}${units}${node.share === undefined ? "" : `, at work ${percent(node.share)} of the run`}`;
}

// What is at a point of a row, which may be "map", "axis" or "path".
export function hoverText(timeline, row, point) {
    const {drawing, launches, pins, tree, view, windows} = timeline;
    if (row === "map") return "the whole run; drag the window, or drag beside it for another one";
    if (row === "axis") return "";
    if (row.node && drawing.isPin(point.x)) return pins.includes(row.node.key) ? "unpin" : "pin on top";
    if (point.x < drawing.names) return row.node ? rowText(row.node) : "";
    const lane = timeline.laneAt(point.y);
    const t = drawing.t(point.x, view);
    const launch = launches.length > 1 ? timeline.launchAt(t) : null;
    const part = row.lanes?.length > 1 ? tree.ordered(row.node)[row.lanes.indexOf(lane)]?.name : "";
    const what = lane ? under(windows.get(lane.table, lane.lane), t, lane.table, windows.kinds(lane.table)) : "";
    return [exact(t), launch && `${exact(t - launch.t0)} into launch ${launch.number}`, part, what].filter((each) => each).join("  ");
}

// What is under the pointer in words: from what is drawn, without asking.
function under(found, t, table, kinds) {
    if (!found) return "";
    if (!found.cover) {
        const at = sliceAt(found, t);
        return at < 0 ? "idle" : `${found.names[found.name[at]] ?? kinds.texts[found.kind[at]]}, ${duration(found.end[at] - found.start[at])}`;
    }
    const pixel = Math.floor((t - found.from) / (found.until - found.from) * found.pixels);
    const cover = found.cover[pixel];
    const wide = duration((found.until - found.from) / found.pixels);
    if (table.startsWith("links")) return `${percent(cover / 255)} of the bandwidth in ${wide}`;
    if (!cover) return "idle";
    const kind = kinds.texts[found.kinds === 1 ? found.kind[0] : found.kind[pixel]];
    return `at work ${percent(cover / 255)} of ${wide}, most of it ${kind}`;
}

function sliceAt(found, t) {
    let low = 0;
    let high = found.slices;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (found.start[middle] <= t) low = middle + 1;
        else high = middle;
    }
    const at = low - 1;
    return at >= 0 && t < Math.max(found.end[at], found.start[at] + 1) ? at : -1;
}
