// The pointer on the timeline: the wheel zooms and moves, a drag moves, a drag with Shift sets the marks, a click selects.

import {MAP, dragMap} from "/timeline_minimap.js";

const ZOOM = 1.25;

// Lets the pointer work on the lanes of `timeline`.
export function listen(timeline) {
    const pointer = new Pointer(timeline);
    const on = (name, handle, options) => timeline.lanes.addEventListener(name, handle, options);
    on("wheel", (event) => pointer.wheel(event), {passive: false});
    on("pointerdown", (event) => pointer.down(event));
    on("pointermove", (event) => pointer.move(event));
    on("pointerup", (event) => pointer.up(event));
    on("pointercancel", () => {
        pointer.drag = null;
    });
    on("pointerleave", () => timeline.pointAt(null));
    on("dblclick", (event) => {
        const {x, y} = pointer.at(event);
        if (x >= timeline.drawing.names && y >= MAP) timeline.zoom(1 / ZOOM ** 4, timeline.drawing.t(x, timeline.view));
    });
}

class Pointer {
    constructor(timeline) {
        this.timeline = timeline;
        this.drag = null;
    }

    at(event) {
        const box = this.timeline.canvas.getBoundingClientRect();
        return {x: event.clientX - box.left, y: event.clientY - box.top};
    }

    wheel(event) {
        const {drawing, view} = this.timeline;
        const {x, y} = this.at(event);
        if (x < drawing.names) return; // over the names the lanes scroll
        event.preventDefault();
        const unit = event.deltaMode === 1 ? 16 : 1;
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
            this.timeline.pan((event.deltaX || event.deltaY) * unit / (drawing.width - drawing.names));
        } else this.timeline.zoom(ZOOM ** (event.deltaY * unit / 100), y < MAP ? undefined : drawing.t(x, view));
    }

    down(event) {
        if (event.button !== 0) return;
        const {bounds, drawing, lanes, view} = this.timeline;
        lanes.setPointerCapture(event.pointerId);
        const at = this.at(event);
        const onMap = at.y < MAP && at.x >= drawing.names;
        this.drag = {...at, view, scroll: lanes.scrollTop, moved: false, span: event.shiftKey,
            map: onMap ? dragMap(drawing, bounds, view, at.x) : null};
    }

    move(event) {
        const {bounds, drawing, lanes, view} = this.timeline;
        const {x, y} = this.at(event);
        if (!this.drag) {
            this.timeline.pointAt({x, y});
            return;
        }
        const [dx, dy] = [x - this.drag.x, y - this.drag.y];
        if (Math.abs(dx) + Math.abs(dy) > 4) this.drag.moved = true;
        if (!this.drag.moved || this.drag.x < drawing.names) return;
        if (this.drag.map) this.timeline.look(this.drag.map(drawing.t(x, bounds), true));
        else if (this.drag.span) {
            this.timeline.marks = [this.drag.x, x].map((each) => Math.min(Math.max(Math.round(drawing.t(each, view)), bounds.t0), bounds.t1))
                .sort((a, b) => a - b);
        } else {
            const {t0, t1} = this.drag.view;
            const by = dx / (drawing.width - drawing.names) * (t1 - t0);
            this.timeline.look({t0: t0 - by, t1: t1 - by});
            lanes.scrollTop = this.drag.scroll - dy;
        }
        this.timeline.soon();
    }

    up(event) {
        const {drag, timeline} = this;
        const {bounds, drawing, view} = timeline;
        this.drag = null;
        if (!drag || drag.moved) return;
        const {x, y} = this.at(event);
        if (drag.map) {
            timeline.look(drag.map(drawing.t(x, bounds), false));
            return;
        }
        const row = timeline.at(y);
        if (x < drawing.names) {
            if (row?.node) timeline.clickName(row.node, drawing.isPin(x));
            return;
        }
        const lane = timeline.laneAt(y);
        if (lane?.table.endsWith(".folded") || lane?.table === "links") timeline.moveCursor(row.node);
        else if (lane) timeline.choose({...lane, t: Math.max(Math.floor(drawing.t(x, view)), 0)});
    }
}
