// What keys do in the timeline. The list that people read stands in timeline_panel.js.

const PAN = 0.15; // of the window
const ZOOM = 1.25;

export function pressed(timeline, event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const {selected} = timeline;
    const actions = {
        a: () => timeline.pan(-PAN), d: () => timeline.pan(PAN),
        w: () => timeline.zoom(1 / ZOOM), "+": () => timeline.zoom(1 / ZOOM), "=": () => timeline.zoom(1 / ZOOM),
        s: () => timeline.zoom(ZOOM), "-": () => timeline.zoom(ZOOM), Home: () => timeline.look(timeline.bounds),
        ArrowDown: () => moveTo(timeline, 1), ArrowUp: () => moveTo(timeline, -1),
        PageDown: () => moveTo(timeline, 16), PageUp: () => moveTo(timeline, -16),
        ArrowRight: () => (event.shiftKey ? timeline.pan(PAN) : open(timeline, true)),
        ArrowLeft: () => (event.shiftKey ? timeline.pan(-PAN) : open(timeline, false)),
        e: () => level(timeline, true), E: () => level(timeline, false), x: () => timeline.openAll(![...timeline.tree.byKey.values()].some((each) => each.open)),
        Enter: () => enter(timeline), p: () => timeline.pin(timeline.cursor), o: () => timeline.nextOrder(), c: () => timeline.showArrows(),
        ",": () => timeline.step(-1), ".": () => timeline.step(1), m: () => timeline.mark(), M: () => timeline.around(),
        f: () => timeline.fit(), z: () => timeline.toMarks(),
        y: () => selected?.record && timeline.page.go({view: "why", op: selected.record.op}),
        Escape: () => timeline.drop(), "/": () => timeline.search.focus(),
    };
    if (!Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
    timeline.soon();
}

// The row of the cursor, or the first one that is seen.
function current({tree, cursor, lanes, drawing}) {
    return tree.rowOf(cursor) ?? tree.between(lanes.scrollTop, lanes.scrollTop + lanes.clientHeight - drawing.top)[0];
}

function moveTo(timeline, by) {
    const {tree, cursor} = timeline;
    const at = tree.rows.findIndex((row) => row.node.key === cursor);
    if (at < 0) timeline.moveCursor(current(timeline)?.node);
    else timeline.moveCursor(tree.rows[Math.min(Math.max(at + by, 0), tree.rows.length - 1)].node);
}

// Opens the row of the cursor, or goes on to its first part; folds it, or goes back to what it is a part of.
function open(timeline, isOpen) {
    const node = current(timeline)?.node;
    if (!node) return;
    if (node.children && Boolean(node.open) !== isOpen) {
        timeline.moveCursor(node);
        timeline.toggle(node);
    } else if (isOpen && node.open) timeline.moveCursor(timeline.tree.ordered(node)[0]);
    else if (!isOpen && node.parent) timeline.moveCursor(node.parent);
}

function level(timeline, isOpen) {
    const node = current(timeline)?.node;
    const of = node?.children && (isOpen || node.open) ? node : node?.parent ?? node;
    if (of?.children) timeline.openLevel(of, isOpen);
}

// Opens or folds the row of the cursor; in a lane, and without a cursor, selects a service for who uses no pointer.
function enter(timeline) {
    const {tree, cursor, lanes, drawing} = timeline;
    const at = tree.rowOf(cursor)?.node;
    if (at?.children) {
        timeline.toggle(at);
        return;
    }
    const rows = tree.between(lanes.scrollTop, lanes.scrollTop + lanes.clientHeight - drawing.top);
    const refs = at ? [at.ref] : rows.map((row) => row.node.ref).filter((ref) => ref?.table === "ops");
    for (const ref of refs) {
        const t = begin(timeline.windows.get(ref.table, ref.lane), timeline.view);
        if (t === undefined) continue;
        timeline.choose({...ref, t: Math.floor(t)});
        return;
    }
}

// The first time of the window at which a service of a lane is at work.
function begin(found, view) {
    if (!found) return undefined;
    if (!found.cover) return found.start.find((each) => each >= view.t0) ?? found.start[0];
    const wide = (found.until - found.from) / found.pixels;
    const from = Math.max(Math.floor((view.t0 - found.from) / wide), 0);
    const at = found.cover.findIndex((cover, pixel) => pixel >= from && cover === 255);
    return at < 0 ? undefined : found.from + (at + 0.5) * wide;
}
