// What keys do in the timeline. The list that people read stands in timeline_panel.js.

import {hint} from "/timeline_panel.js";
import {ROW} from "/timeline_rows.js";

const PAN = 0.15; // of the window
const ZOOM = 1.25;

export function pressed(timeline, event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const {lanes, rows, selected} = timeline;
    const actions = {
        ArrowLeft: () => timeline.pan(-PAN), a: () => timeline.pan(-PAN), ArrowRight: () => timeline.pan(PAN), d: () => timeline.pan(PAN),
        w: () => timeline.zoom(1 / ZOOM), "+": () => timeline.zoom(1 / ZOOM), "=": () => timeline.zoom(1 / ZOOM),
        s: () => timeline.zoom(ZOOM), "-": () => timeline.zoom(ZOOM), Home: () => timeline.look(timeline.bounds),
        ArrowDown: () => lanes.scrollBy(0, ROW * 3), ArrowUp: () => lanes.scrollBy(0, -ROW * 3),
        ",": () => timeline.step(-1), ".": () => timeline.step(1), m: () => timeline.mark(), M: () => timeline.around(),
        f: () => timeline.fit(), z: () => timeline.toMarks(), x: () => timeline.openAll(!rows.groups.every((each) => each.open)),
        Enter: () => {
            const found = first(timeline);
            if (found) timeline.choose(found);
        },
        y: () => selected?.record && timeline.page.go({view: "why", op: selected.record.op}),
        Escape: () => {
            [timeline.marks, timeline.selected] = [[], null];
            timeline.panel.replaceChildren(hint());
        },
        "/": () => timeline.search.focus(),
    };
    if (!Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
    timeline.soon();
}

// Selects a slice for who uses no pointer: the first one of the first lane that is seen.
function first({rows, lanes, windows, view}) {
    const [row] = rows.between(lanes.scrollTop, lanes.scrollTop + lanes.clientHeight).filter((each) => each.lanes.length);
    const found = row && windows.get(row.lanes[0].table, row.lanes[0].lane);
    if (!found) return undefined;
    const t = found.cover ? firstCovered(found, view) : found.start.find((each) => each >= view.t0) ?? found.start[0];
    return t === undefined ? undefined : {table: row.lanes[0].table, lane: row.lanes[0].lane, t: Math.floor(t)};
}

function firstCovered(found, view) {
    const wide = (found.until - found.from) / found.pixels;
    const from = Math.max(Math.floor((view.t0 - found.from) / wide), 0);
    const at = found.cover.findIndex((cover, pixel) => pixel >= from && cover === 255);
    return at < 0 ? undefined : found.from + (at + 0.5) * wide;
}
